"""A two-layer ReLU network without biases, found by bisecting one line: Algorithm 1 as it was published.

The network is f(x) = Σ w_i max(A_i·x, 0) with `units` terms, and their number has to be known. Along a line its gradient
changes at one point a unit; each change is closed in on in turn (1a), then 2·units values tell the signs (1b). Where only
values are answered, finite differences stand in for gradients (1-MQ).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import qr
from scipy.optimize import linprog

from divulge.arrays import Array

GradientOracle = Callable[[Array], tuple[Array, float]]
"Takes a point (d,), returns the gradient there and how far rounding may have moved it."

ROUNDING = 1e-12
"Gradients of one cell are the same sum of the same weights; a wide network's differ by less than this share of them."
LAST_DIGITS = 4.0
"Units in the last place by which a value may be off: it is a sum of products, not one rounded number."
BLURRED = 1e-3
"Share of a gradient that rounding may move before a unit could be lost in it; exact gradients stay far below."
WHOLE = 0.25
"A sign is -1, 0 or 1; a solution further than this from whole numbers belongs to another function."


class Failure(Exception):
    """The algorithm notices that it did not succeed, and says at which step."""


@dataclass(frozen=True)
class BisectionPlan:
    """What fixes a search: the line runs from -reach to reach, and is bisected down to resolution."""

    reach: float
    "l of the paper"
    resolution: float
    "ε of the paper"
    step: float
    "s of the paper: of the finite differences, where there are any"


def planned(units: int, delta: float, collinearity: float) -> BisectionPlan:
    """l = h², ε = c (δ + 2π/h)^(3/2) / (9 h³) and s = δε / (2 (2 - δ) l h), as theorems 2 and 4 print them.

    The term 2π/h is the printed one. The union bound gives δ - 2/(πh) instead of δ + 2π/h, and with it a smaller ε: at
    δ = 0.1 by 6.5 bits for h = 10, by 1.2 for h = 100. Some kink lies beyond ±l with a probability near 2/(πh) for any ε.
    """
    reach = float(units**2)
    resolution = collinearity * (delta + 2 * np.pi / units) ** 1.5 / (9 * units**3)
    return BisectionPlan(reach, resolution, delta * resolution / (2 * (2 - delta) * reach * units))


def from_gradients(gradient: Callable[[Array], Array]) -> GradientOracle:
    """Gradients (n, d) at points (n, d), one point a call."""

    def oracle(x: Array) -> tuple[Array, float]:
        g = np.asarray(gradient(x[None]), float).reshape(-1)
        return g, ROUNDING * float(np.linalg.norm(g))

    return oracle


def from_values(value: Callable[[Array], Array], step: float) -> GradientOracle:
    """Gradients from values (n,) at points (n, d): d + 1 points a gradient, one step along each axis."""

    def oracle(x: Array) -> tuple[Array, float]:
        moved = x + step * np.eye(len(x))
        if (np.diag(moved) == x).any():
            raise Failure(
                f"the step of the finite differences, {step:.0e}, is lost when it is added to coordinates of size "
                f"{np.abs(x).max():.2g} in double precision"
            )
        values = np.asarray(value(np.vstack([x, moved])), float).reshape(-1)
        g = (values[1:] - values[0]) / step
        size = abs(values[0]) + np.linalg.norm(g) * np.sqrt(np.mean(x**2))
        return g, float(LAST_DIGITS * np.finfo(float).eps * size * np.sqrt(len(x)) / step)

    return oracle


def planes(oracle: GradientOracle, dimension: int, units: int, plan: BisectionPlan, rng: np.random.Generator) -> Array:
    """Algorithm 1a: rows (units, dimension) that are w_i A_i or its opposite, each unit's once, in the order of the line.

    What is asked once is remembered: both ends of the line, every middle, and so the start of the next search, which is the
    end of the last. A halving costs one gradient. The printed loop throws a failure after either branch; here it is thrown
    where neither half shows a change, as the proof has it.
    """
    line = _CachedLine(oracle, rng.standard_normal(dimension), rng.standard_normal(dimension))
    found = np.empty((units, dimension))
    left = -plan.reach
    for number in range(units):
        found[number], left = _bisected(line, left, plan, number, units)
    if line.changes(left, plan.reach):
        raise Failure(f"the gradient still changes behind the last of {units} units: there are more")
    return found


def signs(value: Callable[[Array], Array], Z: Array, rng: np.random.Generator) -> Array:
    """Algorithm 1b: s in {-1, 0, 1}, (2 units,), with f(x) = [max(Zx, 0), max(-Zx, 0)]·s, from 2·units values (n,)."""
    X = cell_points(Z, rng)
    on, off = np.maximum(X @ Z.T, 0), np.maximum(-X @ Z.T, 0)
    try:
        solved = np.linalg.solve(np.block([[on, off], [off, on]]), np.asarray(value(np.vstack([X, -X])), float).reshape(-1))
    except np.linalg.LinAlgError:
        raise Failure("the equations for the signs have no single solution") from None
    whole = np.round(solved)
    if np.abs(solved - whole).max() > WHOLE or np.abs(whole).max() > 1:
        worst = solved[np.argmax(np.maximum(np.abs(solved - whole), np.abs(solved) - 1))]
        raise Failure(f"the signs should be -1, 0 and 1, and one came out as {worst:.2g}")
    return whole


def cell_points(Z: Array, rng: np.random.Generator) -> Array:
    """Points (units, d) of one cell on which Z has full rank, around the centre of the largest ball in it (appendix B).

    The programme is max r subject to sgn(z·v) z·y ≥ r‖z‖ and 0 ≤ y ≤ 1; the paper prints (z·y + r) sgn(z·v) ≥ 0, which
    bounds r from the wrong side. v is drawn from the box, since the cell of another point need not reach into it.
    """
    units, dimension = Z.shape
    if units > dimension:
        raise Failure(f"{units} units in {dimension} dimensions are not linearly independent")
    normals = np.sign(Z @ rng.uniform(size=dimension))[:, None] * Z / np.linalg.norm(Z, axis=1, keepdims=True)
    solved = linprog(
        np.append(np.zeros(dimension), -1.0),
        A_ub=np.column_stack([-normals, np.ones(units)]),
        b_ub=np.zeros(units),
        bounds=[(0, 1)] * dimension + [(0, None)],
        method="highs",
    )
    centre, radius = (solved.x[:-1], solved.x[-1]) if solved.x is not None else (np.zeros(dimension), 0.0)
    if not solved.success or radius <= 0:
        raise Failure("no ball fits into a cell of the planes that were found")
    Y = centre + radius / 2 * np.eye(dimension)
    R, chosen = qr(Z @ Y.T, mode="r", pivoting=True)
    if abs(R[units - 1, units - 1]) <= np.finfo(float).eps * dimension * abs(R[0, 0]):
        raise Failure("the planes that were found are not linearly independent")
    return np.asarray(Y[chosen[:units]])


def learn(
    value: Callable[[Array], Array],
    oracle: GradientOracle,
    dimension: int,
    units: int,
    plan: BisectionPlan,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Algorithm 1: hidden weights (k, d) and output weights (k,) of an equal network; k is `units` where all went well."""
    Z = planes(oracle, dimension, units, plan, rng)
    s = signs(value, Z, rng)
    if not s.any():
        raise Failure("all signs came out as 0")
    return np.vstack([Z, -Z])[s != 0], s[s != 0]


@dataclass(frozen=True)
class _CachedLine:
    """Gradients at x = start + t · direction, each place asked once."""

    oracle: GradientOracle
    start: Array
    direction: Array
    asked: dict[float, tuple[Array, float]] = field(default_factory=dict)

    def at(self, t: float) -> tuple[Array, float]:
        if t not in self.asked:
            self.asked[t] = self.oracle(self.start + t * self.direction)
        return self.asked[t]

    def changes(self, one: float, other: float) -> bool:
        (g, error), (h, other_error) = self.at(one), self.at(other)
        return bool(np.linalg.norm(g - h) > error + other_error)

    def blur(self, t: float) -> str:
        """What to add to a failure where rounding could be why."""
        g, error = self.at(t)
        share = error / (np.linalg.norm(g) or 1.0)
        return f", or rounding hides it, which may move the gradient by {share:.1g} of its size" if share > BLURRED else ""


def _bisected(line: _CachedLine, left: float, plan: BisectionPlan, number: int, units: int) -> tuple[Array, float]:
    """The first change of gradient behind `left`, and a place behind it."""
    right = plan.reach
    while right - left > plan.resolution:
        middle = (left + right) / 2
        if not left < middle < right:
            raise Failure(f"the resolution {plan.resolution:.0e} is finer than double precision at {middle:.2g}")
        if line.changes(left, middle):
            right = middle
        elif line.changes(middle, right):
            left = middle
        else:
            raise Failure(
                f"the gradient changes {number} times on a line of {units} units: one lies beyond ±{plan.reach:g}, two are "
                f"closer than {plan.resolution:.1e}, or there are fewer units{line.blur(right)}"
            )
    return line.at(right)[0] - line.at(left)[0], right
