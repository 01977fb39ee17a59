"""Training points that are 0 in many inputs and below 0 in none, from the span of a layer: features after a ReLU.

A point x = a @ L of r directions is fixed by r − 1 of its zeros. Features of a network that end in a ReLU are exactly 0 in
hundreds of inputs, and no mixture of several is: the sparsest non-negative vectors of the span are the training points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, solve

from divulge.arrays import Array

WIDTHS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
"""In root mean squares of a point: at what size an input counts half as much as at 0, from step to step.

Of 20 starts in a span of 200 features 15 end in one; begun at 0.1, 11.
"""
STEPS = 4
"Of every width."
NOTHING = 0.01
"Of the root mean square: an input this small is 0. Zeros of 200 features were off by 4e-4 and less."
BELOW = 0.1
"Of the root mean square: a point that is further below 0 anywhere is none."
SURPLUS = 2.0
"""Times the rank that a point has to have zeros, beyond what is 0 in all points. A mixture has rank − 1 of its choice.

Of spans of 50 and of 200 features mixtures had 1.3 times as many at most, features 2.5 and 8 times at least.
"""
LIVE = 1e-3
"Of the largest input of the span: one that is smaller in every direction is 0 in all points."
SAME = 0.05
"Relative distance at which two points are one."
PATIENCE = 40
"Starts in a row without a new point, or as many as directions, after which it is over; one in two to seven has one."
ROUNDING = 1e-13
ROUNDED = 1e-6
"Of the largest singular value of rows: below it are rounding errors of single precision."


@dataclass(frozen=True, eq=False)
class Found:
    """Points of the span that their zeros certify, in the order they were found."""

    X: Array
    "(found, d)"
    zeros: Array
    "(found,): how many inputs are 0 that are not 0 in all points."
    starts: int
    "How many were tried."


def search(
    rows: Array,
    rng: np.random.Generator,
    *,
    mean: Array | None = None,
    low: Array | None = None,
    starts: int = 2000,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Points [x − mean, 1] in the span of rows (k, d + 1) that are nowhere below `low`, which is 0 if none.

    Random combinations c of the rows ask for another point each: min Σ_k log(x_k² + width²) over a, where a · c is fixed.
    Every other c is orthogonal to all points found, so that none of them is found again; of the rest more end in a point.
    The bias tells sign and scale.
    """
    _, strengths, axes = np.linalg.svd(rows, full_matrices=False)
    strong = strengths > ROUNDED * strengths[0]
    strengths, axes = strengths[strong], axes[strong]
    rank, bias = len(axes), axes[:, -1]
    floor = np.zeros(axes.shape[1] - 1) if low is None else low
    whole = axes[:, :-1] + np.outer(bias, (0 if mean is None else mean) - floor)
    sizes = np.sqrt((whole**2).sum(axis=0))
    live = sizes > LIVE * sizes.max()
    L, sizes = whole[:, live], sizes[live]
    found, zeros, tried, idle = np.zeros((0, rank)), [], 0, 0
    while tried < starts and idle < max(PATIENCE, rank) and len(found) < rank:
        progress(len(found), rank)
        tried, idle = tried + 1, idle + 1
        c = L @ ((rng.standard_normal(rank) * strengths @ L) / sizes)
        if len(found) and tried % 2 == 0:
            c = c - found.T @ np.linalg.lstsq(found.T, c, rcond=None)[0]
        a = _sparsest(c, L, bias, sizes)
        if a is None:
            continue
        x = a @ L
        scale = float(np.sqrt(np.mean(x**2)))
        nothing = int(np.sum(np.abs(x) < NOTHING * scale))
        if nothing < SURPLUS * rank or x.min() < -BELOW * scale:
            continue
        if len(found) and (np.linalg.norm(found @ L - x, axis=1) < SAME * np.linalg.norm(x)).any():
            continue
        found, idle = np.vstack([found, a]), 0
        zeros.append(nothing)
    progress(rank, rank)
    return Found(np.maximum(found @ whole, 0) + floor, np.array(zeros, dtype=int), tried)


def _sparsest(c: Array, L: Array, bias: Array, sizes: Array) -> Array | None:
    """a (rank,) of bias 1 where a @ L is sparse and not negative: iteratively reweighted least squares, min Σ w_k x_k²."""
    a = _least(L, 1 / sizes**2, c)
    if a is None:
        return None
    if a @ bias < 0:
        c, a = -c, -a
    for width in WIDTHS:
        for _ in range(STEPS):
            if not a @ bias > 0:
                return None
            a = a / (a @ bias)
            x = a @ L
            a = _least(L, 1 / (np.maximum(x, 0) ** 2 + width**2 * np.mean(x**2)), c)
            if a is None:
                return None
    return np.asarray(a / (a @ bias)) if a @ bias > 0 else None


def _least(L: Array, weight: Array, c: Array) -> Array | None:
    """argmin Σ_k w_k (a @ L)_k² where a · c = 1, up to its scale."""
    products = (L * weight) @ L.T
    products[np.diag_indices(len(L))] += ROUNDING * np.trace(products) / len(L)
    try:
        return np.asarray(solve(products, c, assume_a="pos"))
    except LinAlgError:
        return None
