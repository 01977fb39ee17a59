"""Two-layer networks with one input: smallest weights for a margin, found exactly, or what training makes of the points."""

from __future__ import annotations

from typing import Literal

import numpy as np

from divulge.arrays import TwoLayers
from divulge.contract import Array
from divulge.errors import BadInput, refuse_unknown
from divulge.solvers.margin import max_margin, weight_decay
from divulge.solvers.univariate import margin_minima
from divulge.solvers.univariate.margin_points import Stationarity

METHODS = ("kkt", "decay", "descent")
LABELS = ("alternating", "random")
MOST = 20
"Points, at most: the networks of more are as good, and training them is not."
GAP = 0.2
"""Least distance of two points, in shares of what it would be if all were the same: two of other sides need a slope of twice
the margin over their distance, ten times the usual one at this."""
STATIONARY = 1e-8
"Residual above which a network is no KKT point."
PASSES = 5000
"Steps of descent, which in one dimension is stiff: more of them change little."
ATTEMPTS = 200
"Random starts from which no network reaches the margin, after which it is given up."


def draw(rng: np.random.Generator, points: int, labels: str) -> tuple[Array, Array]:
    """Points (n,) in order, even over [−1, 1] but for a least distance, and labels (n,) of −1 and 1."""
    refuse_unknown([labels], LABELS, "labels")
    if isinstance(points, bool) or not isinstance(points, int) or not 1 <= points <= MOST:
        raise BadInput(f"expected a whole number from 1 to {MOST} for points, got {points!r}; correct it")
    room = 2 - (points - 1) * (gap := GAP * 2 / points)
    x = -1 + np.sort(rng.uniform(0, room, points)) + gap * np.arange(points)
    if labels == "random":
        return x, rng.choice([-1, 1], points)
    return x, (-1) ** np.arange(points) * int(rng.choice([-1, 1]))


def train(
    x: Array,
    y: Array,
    rng: np.random.Generator,
    *,
    method: Literal["kkt", "decay", "descent"] = "kkt",
    units: int | None = None,
    margin: float = 1.0,
    decay: float = 1e-6,
) -> TwoLayers:
    """TwoLayers with biases in the first alone.

    `kkt` is a local minimum of ½‖θ‖² for the margin, from so many random units as a start; the global one where `units` is
    not given. `decay` minimises the logistic loss + decay/2 ‖θ‖² by L-BFGS, `descent` follows the gradient of the log-loss,
    both with `units` or 100.
    """
    refuse_unknown([method], METHODS, "method")
    if units is not None and (isinstance(units, bool) or not isinstance(units, int) or units < 1):
        raise BadInput(f"expected a whole number from 1 for units, got {units!r}; correct it")
    for name, value in {"margin": margin, "decay": decay}.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
            raise BadInput(f"expected a positive number for {name}, got {value!r}; correct it")
    if method == "kkt":
        return _smallest(x, y, rng, units, margin)
    start = max_margin.initial(rng, [1, units or 100, 1], first=1.0 if method == "decay" else 0.1)
    if method == "decay":
        layers = weight_decay.minimise(start, x[:, None], y, weight_decay=decay, rounded=True).layers
    else:
        layers = max_margin.train(start, x[:, None], y, target=1e-9, passes=PASSES).layers
    return layers[0], layers[1]


def _smallest(x: Array, y: Array, rng: np.random.Generator, units: int | None, margin: float) -> TwoLayers:
    found = None
    for _ in range(ATTEMPTS if units else 1):
        found = margin_minima.smallest(x, y, margin_minima.random_cells(rng, x, units) if units else None)
        if found is not None:
            break
    if found is None:
        raise BadInput(
            f"expected enough units to separate {len(x)} points, got {units}; none of {ATTEMPTS} starts reaches the margin"
        )
    outputs = y * (np.maximum(np.outer(x, found.w) + found.b, 0) @ found.v)
    on = outputs <= 1 + STATIONARY
    left = Stationarity.of(found.w, found.b, found.v, x[on], y[on].astype(float)).explained().residual
    if not (outputs.min() >= 1 - STATIONARY and left <= STATIONARY):
        raise BadInput(f"expected a KKT point, got a residual of {left:.1e}; draw other points")
    root = np.sqrt(margin)
    return (root * found.w[:, None], root * found.b), (root * found.v[None], np.zeros(1))
