"""Where a function may be asked: everywhere, or inside a box or a ball; lines and points in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_gradient import QueryLine

FAR = 1e6  # times the usual size of points: a line crosses all but one in a million hyperplanes on the way there
NEARER = 0.1  # of that, and in decades from near 0, are points drawn to check a copy
SHAKEN = 0.3  # of their spread: how far hints are varied
PATCH = 7  # patches across a picture
INNER = (0.3, 0.7)  # where in a box a point has room on all sides
DENSITIES = (0.5, 0.1, 0.9, 0.3, 0.7)  # shares of coordinates at the upper end of a box


class Region(Protocol):
    """Where points may lie."""

    bounded: ClassVar[bool]

    def line(self, rng: np.random.Generator) -> QueryLine: ...

    def points(self, count: int, rng: np.random.Generator, hints: Array | None = None) -> Array: ...

    def usual(self, rng: np.random.Generator) -> Array: ...

    def holds(self, point: Array) -> bool: ...


@dataclass(frozen=True)
class Everywhere:
    """No limits but those of precision, at `far` times the usual size of coordinates."""

    bounded: ClassVar[bool] = False

    dimension: int
    scale: float = 1.0
    far: float = FAR

    def line(self, rng: np.random.Generator) -> QueryLine:
        """Through all of space, nearly from one end to the other."""
        start, direction = self.scale * rng.standard_normal((2, self.dimension))
        return QueryLine(start, direction, (-self.far, self.far))

    @property
    def sizes(self) -> dict[float, float]:
        """Sizes of points -> their shares: half are usual, a quarter so far away that biases are nothing, others between."""
        wide = NEARER * self.far
        between = [0.1, *(10.0**power for power in range(1, int(np.log10(wide) + 0.5)))]
        return {self.scale: 0.5, self.scale * wide: 0.25, **{self.scale * size: 0.25 / len(between) for size in between}}

    def points(self, count: int, rng: np.random.Generator, hints: Array | None = None) -> Array:
        """Each drawn for itself, N(0, size²) in every coordinate with one of the sizes: any of them are a fair sample."""
        sizes = rng.choice(np.array([*self.sizes]), count, p=np.array([*self.sizes.values()]))
        return np.asarray(sizes[:, None] * rng.standard_normal((count, self.dimension)))

    def usual(self, rng: np.random.Generator) -> Array:
        return np.asarray(self.scale * rng.standard_normal(self.dimension))

    def holds(self, point: Array) -> bool:
        return bool(np.linalg.norm(point) <= self.far * self.scale * np.sqrt(self.dimension))


@dataclass(frozen=True)
class Ball:
    """Points no further than `radius` standard deviations of all coordinates from 0."""

    bounded: ClassVar[bool] = True

    dimension: int
    radius: float

    def line(self, rng: np.random.Generator) -> QueryLine:
        return segment(*self.radius * rng.standard_normal((2, self.dimension)))

    def points(self, count: int, rng: np.random.Generator, hints: Array | None = None) -> Array:
        sizes = self.radius * rng.uniform(0, 1, (count, 1))
        sizes[::2] = self.radius  # most of a ball is near its surface
        return np.asarray(sizes * rng.standard_normal((count, self.dimension)))

    def usual(self, rng: np.random.Generator) -> Array:
        return np.asarray(0.5 * self.radius * rng.standard_normal(self.dimension))

    def holds(self, point: Array) -> bool:
        return bool(np.linalg.norm(point) <= self.radius * np.sqrt(self.dimension))


@dataclass(frozen=True)
class Box:
    """Every coordinate between `low` and `high`."""

    bounded: ClassVar[bool] = True

    dimension: int
    low: float
    high: float

    def line(self, rng: np.random.Generator) -> QueryLine:
        """From one corner to another, both with shares of high coordinates of their own."""
        return segment(*self._corners(2, rng.choice(DENSITIES, 2), rng))

    def points(self, count: int, rng: np.random.Generator, hints: Array | None = None) -> Array:
        """Corners and points inside, dense and sparse, random and with patches: units differ in where they switch.

        Where there are `hints` (n, d), such as the weights of known units, every second point is high where one is large.
        """
        density = rng.choice(DENSITIES, (count, 1))
        field = rng.random((count, self.dimension))
        field[1::4] = self._patches(len(field[1::4]), rng)
        if hints is not None and len(hints):
            chosen = hints[rng.integers(0, len(hints), len(field[::2]))] * rng.choice([-1.0, 1.0], (len(field[::2]), 1))
            field[::2] = _ranks(chosen + SHAKEN * rng.standard_normal(chosen.shape) * chosen.std(1, keepdims=True))
        high = field > 1 - density
        inside = np.where(np.arange(count)[:, None] % 8 > 5, rng.uniform(0, 1, high.shape), 1.0)
        return np.asarray(self.low + (self.high - self.low) * high * inside)

    def _patches(self, count: int, rng: np.random.Generator) -> Array:
        """Ranks of coordinates that neighbours share, as in pictures, if these are square."""
        side = round(self.dimension**0.5)
        if side**2 != self.dimension or side < 2 * PATCH:
            return rng.random((count, self.dimension))
        small = rng.standard_normal((count, PATCH, PATCH))
        place = np.linspace(0, PATCH - 1, side)
        weights = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(PATCH)))  # linear interpolation
        return _ranks(np.einsum("ia,nab,jb->nij", weights, small, weights).reshape(count, -1))

    def usual(self, rng: np.random.Generator) -> Array:
        return np.asarray(self.low + (self.high - self.low) * rng.uniform(*INNER, self.dimension))

    def holds(self, point: Array) -> bool:
        return bool(point.min() >= self.low and point.max() <= self.high)

    def _corners(self, count: int, densities: Array, rng: np.random.Generator) -> Array:
        return np.where(rng.random((count, self.dimension)) < densities[:, None], self.high, self.low)


def segment(one: Array, other: Array) -> QueryLine:
    """The points between two."""
    return QueryLine(one, other - one, (0.0, 1.0), endless=False)


def _ranks(rows: Array) -> Array:
    """Each number's rank in its row, from 0 to 1."""
    return np.asarray(rows.argsort(1).argsort(1) / rows.shape[1])
