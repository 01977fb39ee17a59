"""A ReLU network with one input and one output is piecewise linear: its breakpoints, slopes and crossings, exactly.

And what follows from them for a network whose weights are stationary for its margin: windows between breakpoints that hold
a training point each (Algorithm 1 of Provable Privacy Attacks on Trained Shallow Neural Networks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from divulge.arrays import Array, Layers

MERGE = 1e-6
"Breakpoints nearer to each other than this, in shares of how far they are spread, are one."
ROUNDING = 1e-11
"Nor do two differ that are nearer than this share of where they are."
STRAIGHT = 1e-11
"A change of slope by less than this share of the largest slope is none."
FARTHEST = 1e13
"A breakpoint farther out than this is rounding: its unit is constant."
LEVEL = 1e-9
"Of the margin: a smaller slope of a function without breakpoints is rounding, and the function constant."
SLACK = 1e-5
"A value this near the margin, in shares of it, is on it."


@dataclass(frozen=True, eq=False)
class Piecewise:
    """A continuous function that is linear between knots (k,) and beyond them."""

    knots: Array
    values: Array
    "(k,), at the knots"
    slopes: Array
    "(k + 1,), from left to right"
    origin: float = 0.0
    "At 0: all there is to know, with the slope, where there are no knots."

    def __call__(self, x: Array) -> Array:
        x = np.asarray(x, dtype=float)
        if not len(self.knots):
            return np.asarray(self.origin + self.slopes[0] * x)
        inside = np.interp(x, self.knots, self.values)
        before, after = np.minimum(x - self.knots[0], 0), np.maximum(x - self.knots[-1], 0)
        found: Array = inside + self.slopes[0] * before + self.slopes[-1] * after
        return found


@dataclass(frozen=True, eq=False)
class Window:
    """A stretch in which at least one of some points is a training point."""

    theorem: str
    low: float
    high: float
    members: Array
    "Places among all points on the margin."


@dataclass(frozen=True, eq=False)
class Reading:
    """Where a function meets its margin, and which windows the theorems open."""

    margin: float
    points: Array
    "(p,), in order: single points with |N| = margin, and the ends of stretches with it."
    signs: Array
    "(p,): of N there"
    plateaus: Array
    "(s, 2): stretches on which |N| is the margin throughout; the outermost may be infinite."
    windows: tuple[Window, ...]
    "Of Algorithm 1, and theorem 3.1 where there is a single point."
    further: tuple[Window, ...]
    "What else the same proofs open: every other pair of neighbouring intervals, and both ends."
    empty: int
    "Windows of Algorithm 1 without a point on the margin: no training set explains those."


def of_network(layers: Layers) -> Piecewise:
    """The function of a fully connected ReLU network of any depth with one input and one output."""
    knots = np.empty(0)
    for depth in range(1, len(layers)):
        middles = _middles(knots)
        z, slope = _linear(layers[:depth], middles)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            zeros = middles[:, None] - z / slope
        low, high = np.append(-np.inf, knots)[:, None], np.append(knots, np.inf)[:, None]
        inside = (np.abs(zeros) <= FARTHEST) & (zeros > low) & (zeros < high)
        knots = merged(np.sort(np.concatenate([knots, zeros[inside]])))
    slopes = _linear(layers, _middles(knots))[1][:, 0]
    steepest = float(np.abs(slopes).max())
    slopes = np.where(np.abs(slopes) > STRAIGHT * steepest, slopes, 0.0)
    bent = np.abs(np.diff(slopes)) > STRAIGHT * steepest
    knots, slopes = knots[bent], slopes[np.append(True, bent)]
    values = _linear(layers, knots)[0][:, 0]
    return Piecewise(knots, values, slopes, float(_linear(layers, np.zeros(1))[0][0, 0]))


def through(knots: Array, ask: Any) -> Piecewise:
    """The function with these breakpoints, all of them, from its values: one at each and two beyond either end."""
    knots = merged(np.sort(np.asarray(knots, dtype=float)))
    reach = max(float(np.ptp(knots)), float(np.abs(knots).max()), 1.0) if len(knots) else 1.0
    ends = np.array([-reach, 0.0]) if not len(knots) else np.array([knots[0] - reach, knots[-1] + reach])
    values = np.asarray(ask(np.concatenate([ends[:1], knots, ends[1:]])), dtype=float)
    slopes = np.diff(values) / np.diff(np.concatenate([ends[:1], knots, ends[1:]]))
    return Piecewise(knots, values[1:-1], slopes, float(values[-1]) if not len(knots) else 0.0)


def peaks(function: Piecewise) -> Array:
    """Knots (p,) at which |N| is larger than on either side, or as large on one: where a margin would be reached last."""
    side = np.sign(function.values)
    up, down = side * function.slopes[:-1], side * function.slopes[1:]
    return np.asarray(function.knots[(up >= 0) & (down <= 0) & (up > down)])


def coarse(function: Piecewise, share: float) -> tuple[Piecewise, float]:
    """The function with knots nearer than this share of their spread taken together, and by how much it differs at most.

    Bends by less than this share of the sharpest are left out.
    """
    knots = merged(function.knots, share)
    while len(knots) > 1:
        values = function(knots)
        slopes = np.concatenate([function.slopes[:1], np.diff(values) / np.diff(knots), function.slopes[-1:]])
        bends = np.abs(np.diff(slopes))
        if bends.min() > share * bends.max():
            made = Piecewise(knots, values, slopes)
            return made, float(np.abs(made(function.knots) - function.values).max())
        knots = np.delete(knots, int(bends.argmin()))
    return function, 0.0


def merged(knots: Array, share: float = MERGE) -> Array:
    """Knots in order, with those that are one up to rounding, or a share of their spread, taken together."""
    if len(knots) < 2:
        return knots
    middle = np.median(knots)
    spread = np.maximum(np.abs(knots - middle), np.median(np.abs(knots - middle)))
    starts = np.append(True, np.diff(knots) > np.maximum(share * spread[1:], ROUNDING * np.abs(knots[1:])))
    groups = np.cumsum(starts) - 1
    return np.asarray(np.bincount(groups, knots) / np.bincount(groups))


def read(function: Piecewise, margin: float, slack: float = SLACK) -> Reading:
    """Every point at which the function meets ±margin, and the windows of Algorithm 1, for a margin above 0."""
    knots, count = function.knots, len(function.knots)
    on = np.where(np.abs(np.abs(function.values) - margin) <= slack * margin, np.sign(function.values), 0.0)
    values = np.where(on != 0, on * margin, function.values)
    flat = _flat(function, on, margin, slack)
    points, signs = [*knots[on != 0].tolist()], [*on[on != 0].tolist()]
    for place in range(count + 1):
        for side in (1.0, -1.0):
            if not flat[place] and (crossing := _crossing(function, values, place, side * margin)) is not None:
                points.append(crossing)
                signs.append(side)
    order = np.argsort(points, kind="stable")
    edges = np.concatenate([[-np.inf], knots, [np.inf]])
    plateaus = np.array([edges[[place, place + 1]] for place in np.flatnonzero(flat)]).reshape(-1, 2)
    x = np.array(points, dtype=float)[order]
    windows, empty = algorithm(knots, flat, x)
    if len(x) == 1 and not len(plateaus):
        windows = (Window("3.1", -np.inf, np.inf, np.zeros(1, int)),)
    return Reading(margin, x, np.array(signs, dtype=float)[order], plateaus, windows, _further(knots, flat, x), empty)


def algorithm(knots: Array, flat: Array, points: Array) -> tuple[tuple[Window, ...], int]:
    """Algorithm 1: windows with a point on the margin, and how many have none.

    `flat` (k + 1,) says on which intervals the function is the margin throughout; interval i ends at knot i, from 0.
    """
    found, i = [], 1
    while i <= len(knots) - 2:
        if not flat[i] and not flat[i + 1]:
            found.append(_window("3.2", knots[i - 1], knots[i + 1], points))
            i += 2
        elif flat[i] and not flat[i + 1] and i + 2 < len(knots) and flat[i + 2]:
            ends = knots[[i, i + 1]]
            found.append(Window("3.3", float(ends[0]), float(ends[1]), np.flatnonzero(np.isin(points, ends))))
            i += 2
        else:
            i += 1
    whole = tuple(one for one in found if len(one.members))
    return whole, len(found) - len(whole)


def guaranteed(windows: Sequence[Window]) -> int:
    """The least number of points of which every window has one: as many training points there are for sure.

    Windows may share a point, so this can be less than their number.
    """
    count, last = 0, -1
    for window in sorted((one for one in windows if len(one.members)), key=lambda one: int(one.members[-1])):
        if int(window.members[0]) > last:
            count, last = count + 1, int(window.members[-1])
    return count


def _further(knots: Array, flat: Array, points: Array) -> tuple[Window, ...]:
    """Every pair of neighbouring intervals that is nowhere the margin throughout, and the same at both ends.

    Beyond the outermost training point on the margin only units that are on at all of them, or at none, have a breakpoint:
    the former share one, the latter are 0. So up to the second breakpoint from either end there is a training point.
    """
    if len(knots) < 2:
        return ()
    inner = [
        _window("3.2", knots[i - 1], knots[i + 1], points)
        for i in range(1, len(knots) - 1)
        if not flat[i] and not flat[i + 1]
    ]
    ends = []
    if not flat[0] and not flat[1]:
        ends.append(_window("A.1", -np.inf, knots[1], points))
    if not flat[-1] and not flat[-2]:
        ends.append(_window("A.1", knots[-2], np.inf, points))
    return tuple(one for one in (*inner, *ends) if len(one.members))


def _window(theorem: str, low: float, high: float, points: Array) -> Window:
    return Window(theorem, float(low), float(high), np.flatnonzero((points >= low) & (points <= high)))


def _flat(function: Piecewise, on: Array, margin: float, slack: float) -> Array:
    """(k + 1,): on which intervals the function is the margin throughout."""
    knots, slopes = function.knots, function.slopes
    if not len(knots):
        near = abs(abs(function.origin) - margin) <= slack * margin
        return np.array([near and abs(slopes[0]) <= LEVEL * margin])
    between = [bool(a) and a == b for a, b in pairwise(on)]
    reach = max(float(np.ptp(knots)), float(np.abs(knots).max()), 1e-300)
    ends = [bool(on[place]) and abs(slopes[place]) * reach <= slack * margin for place in (0, -1)]
    return np.array([ends[0], *between, ends[1]])


def _crossing(function: Piecewise, values: Array, place: int, level: float) -> float | None:
    """Where the function takes a value inside an interval, by its values at the ends, which may be put on the margin."""
    knots, slope = function.knots, float(function.slopes[place])
    if not len(knots):
        return (level - function.origin) / slope if slope else None
    if 0 < place < len(knots):
        left, right = values[place - 1] - level, values[place] - level
        if left * right >= 0:
            return None
        return float(knots[place - 1] + (knots[place] - knots[place - 1]) * left / (left - right))
    end = 0 if place == 0 else -1
    away = level - values[end]
    if slope == 0 or away == 0 or (away / slope > 0) != (place > 0):
        return None
    x = float(knots[end] + away / slope)
    return x if np.isfinite(x) else None


def _middles(knots: Array) -> Array:
    """A place inside each interval between knots and beyond them."""
    if not len(knots):
        return np.zeros(1)
    beyond = max(float(np.ptp(knots)), float(np.abs(knots).max()), 1.0)
    return np.concatenate([[knots[0] - beyond], (knots[1:] + knots[:-1]) / 2, [knots[-1] + beyond]])


def _linear(layers: Layers, x: Array) -> tuple[Array, Array]:
    """Values and slopes (places, units) of the last of these layers, before any ReLU that follows."""
    value, slope = x[:, None], np.ones((len(x), 1))
    for number, (W, b) in enumerate(layers):
        if number:
            slope, value = slope * (value > 0), np.maximum(value, 0)
        value, slope = value @ W.T + b, slope @ W.T
    return value, slope
