"""Which points on the margin explain the weights of a two-layer ReLU network with one input, and which of them must.

N(x) = Σ_j v_j relu(w_j x + b_j) with θ = (w, b, v) of (3m,). At a KKT point θ = Σ λ_i y_i ∂N(x_i) with λ_i ≥ 0, and λ_i > 0
only for training points on the margin. The points on the margin can be listed, so this is a linear program in λ: what it
cannot do without is a training point. On a stretch where N is the margin throughout, a gradient is a mean of those at both
ends, so that two columns stand for all points inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from divulge.arrays import Array
from divulge.solvers.univariate.polyline import Piecewise, merged, read

AT = 1e-6
"A breakpoint this near a point, in shares of the points' spread, is on it: single precision has 1e-7."
LOOSE = 2.0
"Times the error of the best explanation: what another one may leave. With 1 it would be on the edge of having no solution."
ROUNDING = 1e-9
"Of the largest weight: what an explanation may leave in any case, ten times what the linear program is off by."
ALIKE = 1e-5
"Values that differ by less than this share are the same: those on a margin do by 1e-7 in single precision."
GUESSES = 40
"Margins tried, at most: those that most places speak for. A cap on the time that large networks take."
OTHERS = (0.5, 0.99, 1.01, 2.0)
"""Times a margin: others that would have to explain the weights worse. Of 72 minima on 1 to 9 points 28 were explained by
all of eleven smaller margins from 0.01 to 0.999, 44 by none, and none by a larger one: one on either side would do."""
PRECISION: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, eq=False)
class Explanation:
    """Weights as a sum of gradients at points on the margin."""

    residual: float
    "‖θ − Σ λ y ∂N‖ / ‖θ‖, with the λ for which the largest entry is smallest."
    multipliers: Array
    "(n,): λ of the points"
    inside: Array
    "(s, 2): what each plateau adds at its two ends; at an infinite one, in the direction of it."


@dataclass(frozen=True)
class Margin:
    """A guess at the margin."""

    value: float
    votes: int
    "Places at which |N| is this."
    residual: float
    "What points on it leave of the weights unexplained."


@dataclass(frozen=True, eq=False)
class Stationarity:
    """The linear program: columns for points, for plateaus, and for shares of a subgradient."""

    columns: Array
    limits: Array
    theta: Array
    points: int
    plateaus: int

    @classmethod
    def of(
        cls, w: Array, b: Array, v: Array, x: Array, signs: Array, plateaus: Array | None = None, *, at: float = AT
    ) -> Stationarity:
        """For units w, b, v (m,), points x (n,) with the signs of N there, and stretches (s, 2) on the margin.

        Breakpoints within `at` of a point, in shares of the points' spread, are on it.
        """
        stretches = np.empty((0, 2)) if plateaus is None else plateaus
        kinked = on_points(w, b, x, at)
        z = np.outer(x, w) + b
        single = _gradients(x, np.ones_like(x), z, (z > 0) & ~kinked, v) * signs[:, None]
        ends = [_stretch(w, b, v, low, high) for low, high in stretches]
        pairs = np.argwhere(kinked)
        shares = np.zeros((len(pairs), 3 * len(w)))
        limits = np.zeros((len(pairs), len(x) + 2 * len(stretches) + len(pairs)))
        for number, (point, unit) in enumerate(pairs):  # a subgradient's slope is from 0 to 1: its share of λ is at most λ
            shares[number, [unit, len(w) + unit]] = signs[point] * v[unit] * np.array([x[point], 1.0])
            limits[number, [point, len(x) + 2 * len(stretches) + number]] = -1, 1
        columns = np.vstack([single, *ends, shares]).T
        return cls(columns, limits, np.concatenate([w, b, v]), len(x), len(stretches))

    def explained(self) -> Explanation:
        """The explanation whose largest error is smallest."""
        found = self._solved(None, np.inf)
        if found is None:
            return Explanation(1.0, np.zeros(self.points), np.zeros((self.plateaus, 2)))
        left = np.linalg.norm(self.columns @ found - self.theta) / np.linalg.norm(self.theta)
        inside = found[self.points : self.points + 2 * self.plateaus].reshape(-1, 2)
        return Explanation(float(left), found[: self.points], inside)

    def needed(self, share: float) -> Array:
        """(n,): points whose λ cannot fall below this share of the one they have in the best explanation."""
        found = self._solved(None, np.inf)
        must = np.zeros(self.points, dtype=bool)
        if found is None:
            return must
        size = float(np.abs(self.theta).max())
        error = max(LOOSE * float(np.abs(self.columns @ found - self.theta).max()), ROUNDING * size)
        for point in np.flatnonzero(found[: self.points] > share * found[: self.points].max(initial=0.0)):
            least = self._solved(int(point), error)
            must[point] = least is not None and least[point] > share * found[point]
        return must

    def _solved(self, point: int | None, error: float) -> Array | None:
        """λ and shares: with the smallest error, or with the smallest λ of one point within an error."""
        scale = float(np.abs(self.theta).max())
        A, right = self.columns / scale, self.theta / scale
        many = A.shape[1]
        free = point is None
        slack = -np.ones((len(A), 1)) if free else np.zeros((len(A), 1))
        allowed = 0.0 if free else error / scale
        price = np.zeros(many + 1)
        price[many if point is None else point] = 1.0
        limits = np.hstack([self.limits, np.zeros((len(self.limits), 1))])
        solved = linprog(
            price,
            A_ub=np.vstack([np.hstack([A, slack]), np.hstack([-A, slack]), limits]),
            b_ub=np.concatenate([right + allowed, allowed - right, np.zeros(len(self.limits))]),
            bounds=(0, None),
            options=PRECISION,
        )
        return None if solved.x is None else np.asarray(solved.x[:many])


def on_points(w: Array, b: Array, x: Array, at: float = AT) -> Array:
    """(n, m): whose breakpoint lies on which point."""
    if not len(x):
        return np.zeros((0, len(w)), dtype=bool)
    spread = float(np.ptp(x)) or float(np.abs(x).max()) or 1.0
    near: Array = (np.abs(np.outer(x, w) + b) <= at * spread * np.abs(w)) & (w != 0)
    return near


def balance(w: Array, b: Array, v: Array) -> float:
    """How far units are from |v| = ‖(w, b)‖, which holds at every KKT point: the worst, in shares of the largest unit."""
    into = np.hypot(w, b)
    return float(np.abs(np.abs(v) - into).max() / max(np.abs(v).max(), into.max()))


def likely_margin(function: Piecewise, w: Array, b: Array, v: Array, slack: float, good: float) -> Margin | None:
    """The margin that most places speak for, of those whose points explain the weights; none where none do.

    Places are breakpoints, and where differences of neighbouring units point: at a KKT point w/v and b/v of two units that
    look the same way differ by Σ λ y x and Σ λ y over the points between their breakpoints, and where there is one point
    its x is the quotient. An explanation alone does not settle a margin, as smaller ones often explain as much; that
    several places, which have nothing else in common, have the same |N| does.
    """
    places = merged(np.sort(np.concatenate([function.knots, _between(w, b, v)])))
    found = []
    for margin, votes in voted(function, places)[:GUESSES]:
        reading = read(function, margin, slack)
        if len(reading.points):
            explained = Stationarity.of(w, b, v, reading.points, reading.signs, reading.plateaus).explained()
            found.append(Margin(margin, votes, explained.residual))
    able = [one for one in found if one.residual <= good]
    return max(able, key=lambda one: (one.votes, one.value)) if able else None


def is_alone(function: Piecewise, margin: float, w: Array, b: Array, v: Array, slack: float, good: float) -> bool:
    """Whether no other margin, near or far, has points that explain the weights."""
    for factor in OTHERS:
        reading = read(function, factor * margin, slack)
        program = Stationarity.of(w, b, v, reading.points, reading.signs, reading.plateaus)
        if len(reading.points) and program.explained().residual <= good:
            return False
    return True


def voted(function: Piecewise, places: Array) -> list[tuple[float, int]]:
    """Values of |N| above 0 at places, with how many share each; those with the most first.

    Two neighbouring places with one flat stretch between them count once.
    """
    signed = function(places)
    least = 1e-9 * np.abs(function.values).max(initial=0.0)
    flat = np.append(False, np.abs(np.diff(signed)) <= ALIKE * np.abs(signed[1:]))
    values = np.sort(np.abs(signed[~flat & (np.abs(signed) > least)]))
    if not len(values):
        return []
    groups = np.cumsum(np.append(True, np.diff(values) > ALIKE * values[1:])) - 1
    votes = np.bincount(groups)
    centres = np.bincount(groups, values) / votes
    return [(float(centres[one]), int(votes[one])) for one in np.lexsort([-centres, -votes])]


def _between(w: Array, b: Array, v: Array) -> Array:
    """Where a single training point would be between the breakpoints of neighbouring units, and beyond the last one."""
    found = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for side in (1, -1):
            facing = np.flatnonzero((np.sign(w) == side) & (v != 0))
            facing = facing[np.argsort(-b[facing] / w[facing])]
            A, B = w[facing] / v[facing], b[facing] / v[facing]
            found += [A / B, np.diff(A) / np.diff(B)]
    places = np.concatenate(found)
    return np.asarray(places[np.isfinite(places)])


def _gradients(x: Array, one: Array, z: Array, active: Array, v: Array) -> Array:
    """(n, 3m): of N in w, b and v."""
    return np.hstack([active * v * x[:, None], active * v * one[:, None], active * z])


def _stretch(w: Array, b: Array, v: Array, low: float, high: float) -> Array:
    """Two signed columns that stand for every point of a stretch: at its ends, or at its end and on to infinity."""
    if np.isinf(low) and np.isinf(high):
        low, high = -1.0, 1.0
    middle = high - 1 if np.isinf(low) else low + 1 if np.isinf(high) else (low + high) / 2
    active = (w * middle + b > 0)[None]
    sign = np.sign(np.maximum(w * middle + b, 0) @ v)
    rows = []
    for x in (low, high):
        place, one = (np.sign(x), 0.0) if np.isinf(x) else (x, 1.0)
        z = (w * place + b * one)[None]
        rows.append(sign * _gradients(np.array([place]), np.array([one]), z, active, v))
    return np.vstack(rows)
