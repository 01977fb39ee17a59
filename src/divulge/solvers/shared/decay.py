"""What weight decay has left of a known start: the factor γ in W = γ W_start + G X.

Descent adds combinations of the training points to every row, and decay multiplies what was there. Combinations u of units
that no point has moved, uᵀG = 0, have uᵀW = γ uᵀW_start: γ is an eigenvalue of W W_start⁺, as many times as there are more
units than points.
"""

from __future__ import annotations

import numpy as np

from divulge.arrays import Array

SHARE = 16
"One in so many eigenvalues, at least, has to agree: with four of 256, chance would do."
LEAST = 4
AGREE = 1e-4
"How near to each other those are: of heads on 200 features with 256 units 2e-7, of random matrices 1e-2."


def left_of_start(rows: Array, start: Array) -> float | None:
    """γ from rows (units, d) after training and before; none where no eigenvalues agree: too few units, or Adam."""
    units = len(rows)
    if units < LEAST or start.shape[1] < units:
        return None
    values = np.linalg.eigvals(np.linalg.lstsq(start.T, rows.T, rcond=None)[0].T)
    real = np.sort(values.real[np.abs(values.imag) < AGREE])
    several = max(LEAST, units // SHARE)
    if len(real) < several:
        return None
    widths = real[several - 1 :] - real[: len(real) - several + 1]
    first = int(widths.argmin())
    return float(np.median(real[first : first + several])) if widths[first] < AGREE else None
