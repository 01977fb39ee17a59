"""The units of a two-layer network from its kinks on a line and a few slopes across it, all by values.

A unit v relu(w·x + b) has one kink on the line a + t u, at t = -(w·a + b) / (w·u), with the jump J = v |w·u| along the line.
Between the cells before and after k kinks the gradient changes by Σ J_i ⊗ n_i, n_i = w_i / (w_i·u): with J (k, o) known from
the line, k <= o normals n (k, d) follow by least squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_value import CLEAR, Kinks, Noise
from divulge.solvers.piecewise.two_layer import TwoLayer

Value = Callable[[Array], Array]
"Points (n, d) -> values (n, o)."

GOAL = 1e-10  # of the values' spread: slopes are measured this well where the width of a cell allows it
STEPS = (1e-4, 0.1)  # of a cell's width: no step goes farther, and rounding asks for none that is shorter
SHORTER = 4.0  # times, when a step left its cell
TRIES = 6  # before a cell is given up
WORTH = 0.5  # of a cell's queries: what a digit of accuracy may cost; two digits are worth a cell,
DEAR = 1e-6, 5.0  # and from which error on a digit may cost how much more: copies may not come out exact
PLACES = 6  # along one hyperplane at which its kink is looked for again
PROBE = 1e-5, 1e-2  # the distance, along the line's direction, at which it is
SURELY = 1e3  # times its uncertainty: as far from a kink one surely is beside it


class Deeper(ValueError):
    """A kink is not the same all along its hyperplane: there is more than one hidden layer."""


@dataclass(frozen=True, eq=False)
class FramedLine:
    """x(t) = origin + t direction, and an orthonormal frame (d - 1, d) across it: rows of a Householder reflection."""

    origin: Array
    direction: Array
    across: Array

    @classmethod
    def random(cls, dimension: int, scale: float, rng: np.random.Generator) -> FramedLine:
        return cls.along(*scale * rng.standard_normal((2, dimension)))

    @classmethod
    def along(cls, origin: Array, direction: Array) -> FramedLine:
        mirror = direction / np.linalg.norm(direction)
        mirror[0] += np.copysign(1, mirror[0])
        mirror /= np.linalg.norm(mirror)
        return cls(origin, direction, np.eye(len(direction))[1:] - 2 * np.outer(mirror[1:], mirror))

    def at(self, t: Array) -> Array:
        return np.asarray(self.origin + np.multiply.outer(t, self.direction))

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.direction))


@dataclass(frozen=True, eq=False)
class Survey:
    """What is known of the function on one line."""

    line: FramedLine
    kinks: Kinks
    noise: Noise
    spread: float
    "How much values vary at points of the size of the line's origin."

    def crudeness(self) -> float:
        """What slopes may be off, relative to the spread, in the narrowest cell that a copy from this line would need."""
        errors = _Cells(self).errors(np.arange(len(self.kinks.pieces)))
        return float(errors[_path(self.kinks.jumps, errors)].max())


def extended(
    copy: TwoLayer,
    value: Value,
    survey: Survey,
    accuracy: float,
    rng: np.random.Generator,
    anywhere: Value | None = None,
) -> TwoLayer:
    """The copy with a unit for every kink it has not got, without those that are not there, and right on the line.

    Between two cells the slope changes by Σ jump ⊗ normal over the kinks between. As many kinks as there are outputs
    are solved for at once: their jumps along the line are known. `accuracy` is relative to the spread: a unit of the copy
    that is off by less is kept. `anywhere` gives nan where `value` would raise, at points that need not be readable.
    """
    line, kinks, spread = survey.line, survey.kinks, survey.spread
    copy, new = _unmatched(copy, line, kinks, accuracy * spread)
    places, jumps = kinks.places[new], kinks.jumps[new]
    cells = _Cells(survey)
    sections = cells.widest(new)
    path = _path(jumps, cells.errors(sections))
    chosen = sections[path]
    slopes = np.empty((len(path), jumps.shape[1], len(line.across)))
    early = [] if copy.units else _clearest(path, np.linalg.norm(jumps, axis=1), cells.errors(chosen))
    if early:  # before most of the queries are spent
        slopes[early] = cells.slopes(chosen[early], value, rng)
        group = slice(*path[early])
        normals = _normals(line, jumps[group], slopes[early[1]] - slopes[early[0]])
        off = spread * float(cells.errors(chosen[early]).sum()) / np.abs(jumps[group]).max(1)
        _same_elsewhere(anywhere or value, survey, places[group], jumps[group], normals, off, rng)
    late = [index for index in range(len(path)) if index not in early]
    slopes[late] = cells.slopes(chosen[late], value, rng)
    known = copy.pieces(line.at(cells.places[chosen]))[:, :, :-1]
    slopes -= known @ line.across.T
    if copy.units:  # what is no more than noise would make the copy worse where it is right
        allowed = CLEAR * spread / line.length * cells.errors(chosen)
        slopes[np.sqrt(np.mean(slopes**2, axis=(1, 2))) <= allowed] = 0
    changes = [
        _normals(line, jumps[a:b], after - before)
        for (a, b), (before, after) in zip(pairwise(path), pairwise(slopes), strict=True)
    ]
    normals = np.concatenate([np.empty((0, line.direction.size)), *changes])

    middle = int(np.abs(cells.places[chosen]).argmin())  # units are off here, so that large numbers do not cancel
    piece, t = kinks.pieces[chosen[middle]], float(cells.places[chosen[middle]])
    along = (piece.slope - known[middle] @ line.direction) / line.length**2
    linear = slopes[middle] @ line.across + np.outer(along, line.direction)
    here = line.at(np.array([t]))
    constant = piece.at(t) - copy.values(here)[0] - linear @ here[0]
    sign = np.where(np.arange(len(new)) < path[middle], -1.0, 1.0)
    bias = -(normals @ line.origin + places)
    return copy.with_units(sign[:, None] * normals, sign * bias, jumps.T, linear, constant)


class _Cells:
    """Slopes across a line, in the pieces between its kinks."""

    def __init__(self, survey: Survey) -> None:
        self.line, self.kinks, self.noise, self.spread = survey.line, survey.kinks, survey.noise, survey.spread
        bounds = np.array([self.kinks.bounds(index) for index in range(len(self.kinks.pieces))])
        self.places = bounds.mean(1)
        "(pieces,): the middle of each"
        self.farthest = np.abs(bounds).max(1)
        "(pieces,): of its ends, whose noise a value between them has"
        self.widths = np.maximum(bounds[:, 1] - bounds[:, 0], np.finfo(float).tiny)
        wanted = self.noise.at(self.farthest) / (GOAL * self.spread * self.widths)
        self.steps = np.clip(wanted, *STEPS) * self.widths
        "(pieces,): how far from the middle values are asked for, in units of the line's direction"

    def rounding(self, pieces: Array) -> Array:
        """The noise of values a step away from the line."""
        return np.asarray(self.noise.at(self.farthest[pieces] + self.steps[pieces]))

    def errors(self, pieces: Array) -> Array:
        """What a slope may be off, relative to how values vary."""
        return np.asarray(self.rounding(pieces) / self.steps[pieces] / self.spread)

    def widest(self, new: Array) -> Array:
        """The best piece before, between and after the kinks numbered `new`."""
        edges = [0, *(new + 1), len(self.kinks.pieces)]
        error = self.errors(np.arange(len(self.kinks.pieces)))
        return np.array([a + int(error[a:b].argmin()) for a, b in pairwise(edges)])

    def slopes(self, pieces: Array, value: Value, rng: np.random.Generator) -> Array:
        """(cells, o, d - 1): along the directions across. Another value checks each cell; where it does not agree, the
        step was too long or the line is off, and all is asked again with a shorter one from a value of its own."""
        outputs, directions = len(self.kinks.pieces[0].at_low), len(self.line.across)
        found, least = np.empty((len(pieces), outputs, directions)), np.full(len(pieces), np.inf)
        open_cells = np.arange(len(pieces) if directions else 0)
        for attempt in range(TRIES):
            if not len(open_cells):
                break
            chosen = pieces[open_cells]
            middle, step = self.line.at(self.places[chosen]), self.line.length * self.steps[chosen][:, None]
            here = value(middle) if attempt else self._on_line(chosen)
            # One call a cell: those of all cells would be too many points to hold at once.
            taken = np.array(
                [
                    ((value(x + length * self.line.across) - base) / length).T
                    for x, length, base in zip(middle, step, here, strict=True)
                ]
            )
            signs = rng.choice([-1.0, 1.0], size=(len(chosen), directions)) / np.sqrt(directions)
            expected = here + step * np.einsum("cod,cd->co", taken, signs)
            off = np.abs(value(middle + step * (signs @ self.line.across)) - expected).max(1)
            error = np.maximum(off, self.rounding(chosen)) / step[:, 0]
            better = error < least[open_cells]
            found[open_cells[better]], least[open_cells[better]] = taken[better], error[better]
            wrong = off > CLEAR * self.rounding(chosen)
            self.steps[chosen[wrong]] /= SHORTER
            open_cells = open_cells[wrong]
        return found

    def _on_line(self, pieces: Array) -> Array:
        return np.array([self.kinks.pieces[piece].at(self.places[piece]) for piece in pieces])


def _path(jumps: Array, errors: Array) -> Array:
    """Which sections between kinks to measure, the first and the last among them, for few queries and small errors."""
    count, outputs = jumps.shape
    units = jumps / np.maximum(np.linalg.norm(jumps, axis=1, keepdims=True), np.finfo(float).tiny)
    cost, before = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=int)
    cost[0] = 0
    for start in range(count):
        for end in range(start + 1, min(start + outputs, count) + 1):
            least = np.linalg.svd(units[start:end], compute_uv=False)[-1]
            if end > start + 1 and least < np.sqrt(np.finfo(float).eps):
                break
            error = (errors[start] + errors[end]) / max(least, np.finfo(float).tiny)
            lost = WORTH * max(np.log10(error / GOAL), 0) + DEAR[1] * max(np.log10(error / DEAR[0]), 0)
            total = cost[start] + 1 + lost
            if total < cost[end]:
                cost[end], before[end] = total, start
    path = [count]
    while path[-1]:
        path.append(int(before[path[-1]]))
    return np.array(path[::-1])


def _clearest(path: Array, sizes: Array, errors: Array) -> list[int]:
    """Two neighbours on the path between which even the smallest kink is known well."""
    clear = [sizes[a:b].min() / (errors[k] + errors[k + 1]) for k, (a, b) in enumerate(pairwise(path))]
    return [int(np.argmax(clear)), int(np.argmax(clear)) + 1] if clear else []


def _normals(line: FramedLine, jumps: Array, change: Array) -> Array:
    """Normals (k, d) of k hyperplanes, each with product 1 with the line's direction, from jumps (k, o) and (o, d - 1)."""
    size = np.linalg.norm(jumps, axis=1, keepdims=True)
    across = np.linalg.lstsq((jumps / size).T, change, rcond=None)[0] / size
    return np.asarray(across @ line.across + line.direction / line.length**2)


def _same_elsewhere(
    value: Value, survey: Survey, places: Array, jumps: Array, normals: Array, off: Array, rng: np.random.Generator
) -> None:
    """Look for kinks far along their hyperplanes: behind one hidden layer they are the same everywhere.

    `off` (k,) is what the coordinates of the normals may be wrong by, in units of the line's direction.
    """
    line, which = survey.line, np.arange(PLACES) % len(places)
    places, jumps, normals = places[which], jumps[which], normals[which]
    size = np.abs(jumps).max(1)
    unsure = np.maximum(survey.noise.at(places) / size, off[which] * np.sqrt(normals.shape[1]))
    beside = np.maximum(PROBE[0], SURELY * unsure)
    if beside.max() > PROBE[1]:
        return  # answers are too coarse to tell
    along = line.length / np.sqrt(line.direction.size) * rng.standard_normal(normals.shape)
    along -= (np.sum(along * normals, 1) / np.sum(normals**2, 1))[:, None] * normals
    middle = line.at(places) + along
    points = np.concatenate([middle + shift * beside[:, None] * line.direction for shift in (-1, 0, 1)])
    left, here, right = value(points).reshape(3, PLACES, -1)
    off = np.abs((left - 2 * here + right) / beside[:, None] - jumps).max(1) > 0.1 * size
    if off.sum() >= PLACES // 2:
        raise Deeper(f"{off.sum()} of {PLACES} kinks are not the same elsewhere on their hyperplanes")


def _unmatched(copy: TwoLayer, line: FramedLine, kinks: Kinks, same: float) -> tuple[TwoLayer, Array]:
    """The copy without units that have no such kink on the line, and the kinks it does not explain.

    `same` is how far the slope, or the value in its place, may be off for two kinks to be one.
    """
    explained = np.zeros(len(kinks.places), dtype=bool)
    kept = np.ones(copy.units, dtype=bool)
    steep = copy.into @ line.direction
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = -(copy.into @ line.origin + copy.bias) / steep
    inside = (expected > kinks.pieces[0].high) & (expected < kinks.pieces[-1].low)
    for unit in np.flatnonzero(inside & (np.abs(copy.out).max(0) * np.abs(steep) > same)):
        jump = copy.out[:, unit] * abs(steep[unit])
        near = int(np.abs(kinks.places - expected[unit]).argmin()) if len(kinks.places) else -1
        kept[unit] = near >= 0 and (
            np.abs(jump).max() * abs(kinks.places[near] - expected[unit]) <= same * (1 + abs(expected[unit]))
            and np.abs(kinks.jumps[near] - jump).max() <= same
        )
        if kept[unit]:
            explained[near] = True
    copy = replace(copy, into=copy.into[kept], bias=copy.bias[kept], out=copy.out[:, kept])
    visible = np.abs(kinks.jumps).max(1) > (same if copy.units else 0)
    return copy, np.flatnonzero(~explained & visible)
