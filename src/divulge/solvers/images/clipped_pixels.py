"""Images of a span fitted to their clipped (box-active) pixels, and which of them those pixels certify.

An image x = a @ L of r directions is fixed by r − 1 of its pixels. Scans of handwriting have hundreds that are exactly 0 or
1: constraints of the box low ≤ x ≤ high that are active. Once it is known which, the others follow by least squares, and a
mixture of images does not have them. An image is certified where the active constraints leave no other one of the span.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh, solve

from divulge.arrays import Array

NARROW = 0.01
"Of the box: a pixel this near to one of its ends is there, unless noise says more. Scans have 256 shades: 2.5 of them."
WIDTHS = (0.15, 0.1, 0.07, 0.05, 0.03, 0.02, NARROW)
"""Of the box: at what distance a pixel counts a quarter, from step to step.

Of 72 images off by 0.1 in every pixel 70 are certified, at the last width alone 2; those between matter little.
"""
STEPS = 3
"Of every width, at most: a fit that is not settled then goes on at the next. One each certifies 63 of those 72."
LIVE = 1e-3
"Of the most moved pixel: one that no image of the span moves by more is at an end of the box in all of them."
SURPLUS = 2.0
"Times the rank. A mixture can be fitted to rank − 1 pixels at an end of the box, whatever it shows; not to twice as many."
APART = 0.1
"Least share of any difference to another image of the span that shows at the active pixels: errors grow by 1/√0.1 at most."
OFF = 0.2
"Of its norm, by which a certified image may be off: half the error at which the NCC of a digit falls to 0.9."
CONSISTENT = 1.3
"Times the noise, root mean square. Active pixels are off by noise alone; a hundred scatter by 7 %, pixels at random by 2.3."
BLURRED = 1 / 32
"Deviation of noise in a pixel, of the box: an active pixel is within an eighth of it. At 0.06 four of five were wrong."
NOISY = 4.0
"Deviations of noise that an active pixel may be off: of a thousand, one in sixteen images has a pixel that is further."


@dataclass(frozen=True, eq=False)
class ActiveSetFit:
    """One image as its clipped pixels have it."""

    row: Array
    "(rank,): its coordinates a, of bias 1."
    active: int
    "Pixels at an end of the box, of those that could be elsewhere: the active set A."
    apart: float
    "Least generalised eigenvalue of (L_A L_Aᵀ, L Lᵀ) on directions without bias: what share of a change shows in A."
    error: float
    "Bound on ‖x − true‖ / ‖x‖ if the pixels of A are where they seem: their distance from the box's ends over √apart."
    scatter: float
    "Root mean square of that distance, in deviations of the noise."
    blur: float = 0.0
    "Deviation of that noise, in widths of the box."

    @property
    def certified(self) -> bool:
        """Whether no other image of the span has nearly these constraints active."""
        many = self.active >= SURPLUS * len(self.row) and self.blur <= BLURRED
        return bool(many and self.apart >= APART and self.error <= OFF and self.scatter <= CONSISTENT)


def fit(rows: Array, pictures: Array, bias: Array, uncertainty: Array, box: tuple[float, float]) -> list[ActiveSetFit]:
    """Each row a (k, rank) moved to where most pixels of `a @ pictures` (rank, d) are at an end of the box.

    Iteratively reweighted least squares: min_a Σ_p w_p (x_p − e_p)² subject to a · bias = 1, where e_p is the nearer end of
    the box and w_p = (1 + (x_p − e_p)²/s²)⁻² with s from `WIDTHS`, or two deviations of the noise. `uncertainty` (rank,) is
    the deviation of one entry of each axis.
    """
    sizes = np.linalg.norm(pictures, axis=0)
    live = sizes > LIVE * sizes.max()
    return [_fit_one(row / (row @ bias), pictures[:, live], bias, uncertainty, box) for row in rows]


def deviation(row: Array, uncertainty: Array) -> float:
    """√Σ (a_i u_i)²: standard deviation of a pixel of `row @ pictures` from the noise of the pictures."""
    return float(np.sqrt(np.sum((row * uncertainty) ** 2)))


def _fit_one(row: Array, L: Array, bias: Array, uncertainty: Array, box: tuple[float, float]) -> ActiveSetFit:
    low, high = box
    wide = high - low
    for width in WIDTHS:
        for _ in range(STEPS):
            scale = max(width * wide, 2 * deviation(row, uncertainty))
            x = row @ L
            ends = np.where(x < (low + high) / 2, low, high)
            weight = (scale**2 / (scale**2 + (x - ends) ** 2)) ** 2
            moved = least_squares(L, weight, ends, bias) if weight.sum() > SURPLUS * len(row) else None
            if moved is None:
                return certificate(row, L, bias, uncertainty, box)
            still = float(np.abs((moved - row) @ L).max()) < 1e-3 * scale
            row = moved
            if still:
                break
    return certificate(row, L, bias, uncertainty, box)


def least_squares(L: Array, weight: Array, ends: Array, bias: Array) -> Array | None:
    """argmin_a Σ_p w_p (a @ L_p − e_p)² subject to a · bias = 1, by its Lagrangian; (rank,)."""
    heavy = L * weight
    gram = heavy @ L.T
    gram[np.diag_indices_from(gram)] += 1e-12 * np.trace(gram)  # against directions that no weighted pixel shows
    try:
        both = solve(gram, np.column_stack([heavy @ ends, bias]), assume_a="pos")
    except LinAlgError:
        return None
    along = bias @ both[:, 1]
    return np.asarray(both[:, 0] + both[:, 1] * (1 - bias @ both[:, 0]) / along)


def certificate(row: Array, L: Array, bias: Array, uncertainty: Array, box: tuple[float, float]) -> ActiveSetFit:
    """What the clipped pixels of `row @ L` (rank, d) say about it as it is."""
    low, high = box
    x = row @ L
    noise = max(NARROW * (high - low) / NOISY, deviation(row, uncertainty))
    away = x - np.where(x < (low + high) / 2, low, high)
    active = np.abs(away) <= NOISY * noise
    count, nothing = int(active.sum()), ActiveSetFit(row, int(active.sum()), 0.0, np.inf, np.inf)
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
    return ActiveSetFit(row, count, max(apart, 0.0), error, off / np.sqrt(count) / noise, noise / (high - low))
