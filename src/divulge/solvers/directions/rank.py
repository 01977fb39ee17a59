"""How many directions of rows are more than noise: those in which neighbouring pixels have to do with each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divulge.arrays import Array
from divulge.solvers.images.layouts import ROUGH, Layout

SMOOTH = 0.15
"Correlation of neighbouring pixels from which a direction is no noise, which has 0 ± 1/√(2 d); mixtures are between."
SURELY = 4.0  # deviations of that of noise: of 300 directions the largest has 3
FINEST = 1e-13  # of the largest singular value: below are rounding errors of double precision


@dataclass(frozen=True, eq=False)
class Seen:
    """Directions of rows, strongest first."""

    axes: Array
    "(rank, d + 1), orthonormal: those that stand out."
    sizes: Array
    "All singular values."
    precision: float
    "Deviation of one slope, relative to the largest singular value."

    @property
    def rank(self) -> int:
        return len(self.axes)


def standing_out(rows: Array, errors: Array, layout: Layout | None) -> Seen:
    """The directions of rows (n, d + 1) whose slopes have errors of deviation (n,).

    The start of a first layer, which training leaves as noise, is mixed in rows as they are, so that no singular value
    tells it from signal; but it is white along pixels. Up to the last direction that is not, all are kept. Where inputs are
    no pictures all directions are that are larger than errors: those end at σ(√n + √d).
    """
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    error = np.sqrt(np.mean(errors**2)) / max(sizes[0], np.finfo(float).tiny)
    precision = float(np.clip(error, FINEST, 0.99))
    least = precision if layout is not None else precision * (np.sqrt(len(rows)) + np.sqrt(rows.shape[1]))
    axes = axes[sizes > least * sizes[0]]
    if layout is not None:
        alike = correlations(axes[:, :-1], layout)
        limit = max(SMOOTH, SURELY / np.sqrt(2 * (rows.shape[1] - 1)))
        axes = axes[: 1 + int(np.flatnonzero(alike > limit).max(initial=-1))]
    return Seen(axes, sizes, precision)


def correlations(X: Array, layout: Layout) -> Array:
    """(k,): mean product of neighbouring pixels over their mean square in rows (k, d)."""
    P = layout.forth(X).reshape(len(X), *(*layout.size, 1)[:3])
    products = (P[:, 1:] * P[:, :-1]).sum(axis=(1, 2, 3)) + (P[:, :, 1:] * P[:, :, :-1]).sum(axis=(1, 2, 3))
    return np.asarray(products / (2 * (P * P).sum(axis=(1, 2, 3)) + np.finfo(float).tiny))


def smoothest(options: list[Layout], rows: Array, known: bool) -> Layout | None:
    """How inputs are laid out as pictures, by the slopes of rows (n, d + 1); None where they are none, unless `known`."""
    if not options or not rows[:, :-1].any():
        return None
    best = min(options, key=lambda one: one.roughness(rows[:, :-1]))
    return best if known or best.roughness(rows[:, :-1]) <= ROUGH else None
