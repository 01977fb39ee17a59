"""Where attributions begin: the point at which all of them vanish, and whether they are gradients summed up from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.directional_slopes import Rounding, as_rows, slopes

GRID = 33  # constant points whose value is compared with where attributions begin
HALVINGS = 40  # of the distance between two of them; a bisection, so a few are lost where precision is single
LARGEST = 3.0  # times the inputs' scale: constant baselines are looked for up to there
ROUNDS = 6  # of explanations around a place that may be the baseline
CLOUD = 6  # of them in a round
NEAR = 0.25  # of their usual size: fewer attributions left at a guess make it worth another look
NEARER = 1e-9  # of the inputs' scale: clouds get no smaller, as explanations have no more digits
VANISHED = 1e-4  # of their usual size: attributions at the baseline are 0 but for rounding
MISSING = 1e-2  # of their usual size, where only some coordinates are the baseline's
NODES = 12  # along the path, in the middle of as many parts
SURE = 3.0  # times the usual error of such a sum
FLAT = 0.005  # relative: what is left where gradients hardly change
SUMMED = (6, 3)  # points and coordinates at which gradients are summed up


class Start(NamedTuple):
    """Where attributions seem to begin."""

    place: Array
    "(d,)"
    left: float
    "How much of them is still there, in units of what is usual."
    exact: bool
    "Whether all vanish there, and one wherever its coordinate is the place's."


def start(
    explain: Callable[[Array], Array], X: Array, explained: Array, guesses: Array, low: float, high: float, scale: float,
    rng: np.random.Generator,
) -> Start:  # fmt: skip
    """The point b (d,) at which attributions vanish, from those (n, outputs, d) at points X (n, d).

    Integrated gradients are (xᵢ − bᵢ)·Gᵢ(x), with Gᵢ the mean slope on the way from b to x. Usual baselines (n, d) are
    `guesses`; other ones are found coordinate by coordinate: of attribution i over xᵢ at points around a place, the root of
    the regression line is the next place. Coordinates that are settled are varied less, and so disturb others less.
    """
    usual = np.abs(explained).mean()
    unit = float(np.abs(explained).mean(2).max()) or 1.0
    place, rest = X[0], explained[0]
    if len(guesses):
        tried = explain(guesses)
        best = int(np.abs(tried).max((1, 2)).argmin())
        place, rest = guesses[best], tried[best]
    if np.abs(rest).max() > VANISHED * unit:
        near = float(np.abs(rest).mean() / usual)
        if near < NEAR:  # a good guess: begin with points around it
            X = np.clip(place + near * scale * rng.standard_normal((CLOUD, X.shape[1])), low, high)
            explained = explain(X)
        place, rest = _root(explain, X, explained, low, high, scale, VANISHED * unit, rng)
    left, exact = float(np.abs(rest).mean() / usual), False
    if np.abs(rest).max() <= VANISHED * unit:
        mixed = X[:2].copy()
        mixed[0, ::2], mixed[1, 1::2] = place[::2], place[1::2]
        there = explain(mixed)
        settled = max(np.abs(there[0, :, ::2]).max(), np.abs(there[1, :, 1::2]).max(initial=0.0))
        exact = bool(settled <= MISSING * unit)
        left = left if exact else np.inf
    return Start(place, left, exact)


def constant_places(value: Callable[[Array], Array], base: Array, dimension: int, low: float, high: float) -> Array:
    """Points (n, d) of equal coordinates, at which the values are those that attributions begin with, `base` (outputs,)."""

    def gap(levels: Array) -> Array:
        return as_rows(value(np.repeat(levels[:, None], dimension, axis=1))) - base

    levels = np.linspace(low, high, GRID)
    found = gap(levels)
    column = int(np.ptp(found, axis=0).argmax())
    found = found[:, column]
    crossing = np.flatnonzero(np.sign(found[:-1]) * np.sign(found[1:]) <= 0)[:2]
    if not len(crossing):
        return np.zeros((0, dimension))
    left, right, sign = levels[crossing], levels[crossing + 1], np.sign(found[crossing])
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        before = np.sign(gap(middle)[:, column]) == sign
        left, right = np.where(before, middle, left), np.where(before, right, middle)
    return np.repeat(((left + right) / 2)[:, None], dimension, axis=1)


def _root(
    explain: Callable[[Array], Array], X: Array, explained: Array, low: float, high: float, scale: float, enough: float,
    rng: np.random.Generator,
) -> tuple[Array, Array]:  # fmt: skip
    reach = np.full(X.shape[1], scale)
    best: tuple[Array, Array] | None = None
    for _ in range(ROUNDS):
        middle, mean = X.mean(0), explained.mean(0)
        moved, changed = X - middle, explained - mean
        spread = np.maximum((moved**2).sum(0), 1e-300)
        slope = (moved[:, None] * changed).sum(0) / spread
        error = ((changed - slope * moved[:, None]) ** 2).sum(0) / (max(len(X) - 2, 1) * spread)
        known = np.maximum((slope**2 + error).sum(0), 1e-300)
        place = np.clip(middle - np.clip((mean * slope).sum(0) / known, -3 * reach, 3 * reach), low, high)
        rest = explain(place[None])[0]
        if best is None or np.abs(rest).mean() < np.abs(best[1]).mean():
            best = place, rest
        if np.abs(rest).max() <= enough:
            break
        off = np.linalg.norm(rest, axis=0) / np.maximum(np.linalg.norm(slope, axis=0), 1e-300)
        reach = np.clip(off, NEARER * scale, np.minimum(1.5 * reach, scale))
        around = reach * rng.choice([-1.0, 1.0], (CLOUD // 2, X.shape[1]))
        cloud = np.clip(place + np.concatenate([around, -around]), low, high)
        X, explained = np.concatenate([cloud, place[None]]), np.concatenate([explain(cloud), rest[None]])
    assert best is not None
    return best


def path_error(
    value: Callable[[Array], Array],
    weights: Array,
    X: Array,
    explained: Array,
    begin: Array,
    rounding: Rounding,
    most: float,
) -> tuple[float, float]:
    """How far attributions are from the gradients of the outputs' sum with `weights`, summed up from `begin`.

    And how far they may be, both relative. A jump of the gradient between two points of the path is summed up wrong by
    1/√12 of its size over their distance, on average, and shows in two second differences.
    """
    points, width = SUMMED
    X, explained, weights = X[:points], explained[:points], weights[:points]
    chosen = np.argsort(-np.abs(explained), axis=1)[:, np.arange(width) % X.shape[1]]
    shares = (np.arange(NODES) + 0.5) / NODES
    path = begin + shares[:, None, None] * (X - begin)
    axes = np.zeros((len(X), width, X.shape[1]))
    np.put_along_axis(axes, chosen[:, :, None], 1.0, axis=2)
    flat = path.reshape(-1, X.shape[1])
    zero = np.zeros((len(flat), weights.shape[1]))
    found = slopes(value, flat, zero, np.tile(axes, (NODES, 1, 1)), rounding, most, halved=False)
    each = np.einsum("npko,po->npk", found.rises.reshape(NODES, len(X), width, -1), weights)
    way = np.take_along_axis(X - begin, chosen, axis=1)
    parts = np.take_along_axis(explained, chosen, axis=1)
    unit = max(float(np.linalg.norm(parts)), 1e-300)
    jumps = np.linalg.norm(np.diff(each, 2, axis=0), axis=0) / np.sqrt(2)
    allowed = SURE * np.linalg.norm(way * jumps / np.sqrt(12) / NODES) / unit + FLAT
    return float(np.linalg.norm(parts - way * each.mean(0)) / unit), float(allowed)
