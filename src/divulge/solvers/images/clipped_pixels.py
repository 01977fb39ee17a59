"""Pictures of a span made exact by their pixels that are black or white, and what those prove.

A picture of r directions is fixed by r − 1 of its pixels. Scans of handwriting have hundreds that are exactly 0 or 1, so
once it is known which, all the others follow; and a mixture of pictures does not have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh, solve

from divulge.arrays import Array

WIDTHS = (0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
"How near to an end of the box a pixel counts, from step to step, in shares of the box."
STEPS = 3
"Of every width."
NARROW = 0.01
"A pixel this near to an end of the box is there, unless noise says more."
LIVE = 1e-3
"A pixel that no picture of the span moves by this share of the most moved one tells nothing."
SURPLUS = 2.0
"Times the rank: so many pixels at an end of the box are no coincidence."
APART = 0.1
"Share of any difference to another picture of the span that has to show at those pixels."
OFF = 0.2
"By how much of its norm a picture may be off that counts as found."
CONSISTENT = 1.3
"Times the noise, root mean square: pixels that are really at an end of the box are off by noise and by nothing else."
NOISY = 4.0
"Standard deviations of noise that a pixel at an end of the box may be off."


@dataclass(frozen=True, eq=False)
class Exact:
    """One picture as its saturated pixels have it."""

    row: Array
    "(rank,): its coordinates, of bias 1."
    active: int
    "Pixels at an end of the box, of those that could be elsewhere."
    apart: float
    "Least share of a difference to another picture of the span that shows at those pixels."
    error: float
    "How far off the picture can be if those pixels are where they seem, in shares of its norm."
    scatter: float
    "Root mean square by which they are off, in deviations of the noise."

    @property
    def proven(self) -> bool:
        """No other picture of the span has nearly these pixels black and white."""
        many = self.active >= SURPLUS * len(self.row)
        return many and self.apart >= APART and self.error <= OFF and self.scatter <= CONSISTENT


def exact(
    rows: Array,
    pictures: Array,
    bias: Array,
    uncertainty: Array,
    box: tuple[float, float],
    step: Callable[[int, int], None] = lambda done, total: None,
) -> list[Exact]:
    """Each row (k, rank) moved to where most pixels of `row @ pictures` (rank, d) are at an end of the box."""
    sizes = np.linalg.norm(pictures, axis=0)
    live = sizes > LIVE * sizes.max()
    found = []
    for number, row in enumerate(rows):
        found.append(_snapped(row / (row @ bias), pictures[:, live], bias, uncertainty, box))
        step(number + 1, len(rows))
    return found


def deviation(row: Array, uncertainty: Array) -> float:
    """Standard deviation of a pixel of `row @ pictures` from the noise of the pictures."""
    return float(np.sqrt(np.sum((row * uncertainty) ** 2)))


def _snapped(row: Array, L: Array, bias: Array, uncertainty: Array, box: tuple[float, float]) -> Exact:
    low, high = box
    wide = high - low
    for width in WIDTHS:
        for _ in range(STEPS):
            scale = max(width * wide, 2 * deviation(row, uncertainty))
            x = row @ L
            ends = np.where(x < (low + high) / 2, low, high)
            weight = (scale**2 / (scale**2 + (x - ends) ** 2)) ** 2
            moved = _fitted(L, weight, ends, bias) if weight.sum() > SURPLUS * len(row) else None
            if moved is None:
                return _judged(row, L, bias, uncertainty, box)
            still = float(np.abs((moved - row) @ L).max()) < 1e-3 * scale
            row = moved
            if still:
                break
    return _judged(row, L, bias, uncertainty, box)


def _fitted(L: Array, weight: Array, ends: Array, bias: Array) -> Array | None:
    """The row of bias 1 whose picture has the least weighted square distance from the ends."""
    heavy = L * weight
    gram = heavy @ L.T
    gram[np.diag_indices_from(gram)] += 1e-12 * np.trace(gram)
    try:
        both = solve(gram, np.column_stack([heavy @ ends, bias]), assume_a="pos")
    except LinAlgError:
        return None
    along = bias @ both[:, 1]
    return np.asarray(both[:, 0] + both[:, 1] * (1 - bias @ both[:, 0]) / along)


def _judged(row: Array, L: Array, bias: Array, uncertainty: Array, box: tuple[float, float]) -> Exact:
    low, high = box
    x = row @ L
    noise = max(NARROW * (high - low) / NOISY, deviation(row, uncertainty))
    away = x - np.where(x < (low + high) / 2, low, high)
    active = np.abs(away) <= NOISY * noise
    count, nothing = int(active.sum()), Exact(row, int(active.sum()), 0.0, np.inf, np.inf)
    if count < len(row):
        return nothing
    free = np.linalg.svd(bias[None])[2][1:]  # directions in which the bias stays 1
    seen, whole = free @ L[:, active], free @ L
    try:
        apart = float(eigh(seen @ seen.T, whole @ whole.T, eigvals_only=True, subset_by_index=(0, 0))[0])
    except LinAlgError:
        return nothing
    off = float(np.linalg.norm(away[active]))
    shades = NARROW * (high - low) / NOISY * np.sqrt(count)  # a pixel that is nearly black counts as black
    norm = float(np.linalg.norm(x)) or 1.0
    error = float(np.hypot(off, shades)) / np.sqrt(apart) / norm if apart > 0 else np.inf
    return Exact(row, count, max(apart, 0.0), error, off / np.sqrt(count) / noise)
