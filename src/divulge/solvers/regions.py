"""Where a function may be asked: everywhere, or inside a box or a ball; lines and points in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from divulge.solvers.kinks import Line

Array = npt.NDArray[Any]

FAR = 1e6  # times the usual size of points: a line crosses all but one in a million hyperplanes on the way there
NEAR, WIDE = -1.0, 4.0  # decades around the usual size in which points are drawn to check a copy
INNER = (0.3, 0.7)  # where in a box a point has room on all sides
DENSITIES = (0.5, 0.1, 0.9, 0.3, 0.7)  # shares of coordinates at the upper end of a box


class Region(Protocol):
    """Where points may lie."""

    def line(self, rng: np.random.Generator) -> Line: ...

    def points(self, count: int, rng: np.random.Generator) -> Array: ...

    def usual(self, rng: np.random.Generator) -> Array: ...

    def holds(self, point: Array) -> bool: ...


@dataclass(frozen=True)
class Everywhere:
    """No limits; coordinates are usually as large as `scale`."""

    dimension: int
    scale: float = 1.0

    def line(self, rng: np.random.Generator) -> Line:
        """Through all of space, nearly from one end to the other."""
        start, direction = self.scale * rng.standard_normal((2, self.dimension))
        return Line(start, direction, (-FAR, FAR))

    def points(self, count: int, rng: np.random.Generator) -> Array:
        """Every second one so far away that biases do not matter, and any unit is as likely on as off; the rest nearer."""
        sizes = 10 ** rng.uniform(NEAR, WIDE, count)
        sizes[::2], sizes[1::4] = 10**WIDE, 1
        return np.asarray(self.scale * sizes[:, None] * rng.standard_normal((count, self.dimension)))

    def usual(self, rng: np.random.Generator) -> Array:
        return np.asarray(self.scale * rng.standard_normal(self.dimension))

    def holds(self, point: Array) -> bool:
        return bool(np.linalg.norm(point) <= FAR * self.scale * np.sqrt(self.dimension))


@dataclass(frozen=True)
class Ball:
    """Points no further than `radius` standard deviations of all coordinates from 0."""

    dimension: int
    radius: float

    def line(self, rng: np.random.Generator) -> Line:
        return segment(*self.radius * rng.standard_normal((2, self.dimension)))

    def points(self, count: int, rng: np.random.Generator) -> Array:
        sizes = self.radius * rng.uniform(0, 1, (count, 1))
        return np.asarray(sizes * rng.standard_normal((count, self.dimension)))

    def usual(self, rng: np.random.Generator) -> Array:
        return np.asarray(0.5 * self.radius * rng.standard_normal(self.dimension))

    def holds(self, point: Array) -> bool:
        return bool(np.linalg.norm(point) <= self.radius * np.sqrt(self.dimension))


@dataclass(frozen=True)
class Box:
    """Every coordinate between `low` and `high`."""

    dimension: int
    low: float
    high: float

    def line(self, rng: np.random.Generator) -> Line:
        """From one corner to another, both with shares of high coordinates of their own."""
        return segment(*self._corners(2, rng.choice(DENSITIES, 2), rng))

    def points(self, count: int, rng: np.random.Generator) -> Array:
        """Corners and points inside, dense and sparse: units differ in where they switch."""
        mask = self._corners(count, np.resize(DENSITIES, count), rng)
        inside = self.low + (mask - self.low) * rng.uniform(0, 1, mask.shape)
        return np.where(np.arange(count)[:, None] % 2 == 0, mask, inside)

    def usual(self, rng: np.random.Generator) -> Array:
        return np.asarray(self.low + (self.high - self.low) * rng.uniform(*INNER, self.dimension))

    def holds(self, point: Array) -> bool:
        return bool(point.min() >= self.low and point.max() <= self.high)

    def _corners(self, count: int, densities: Array, rng: np.random.Generator) -> Array:
        return np.where(rng.random((count, self.dimension)) < densities[:, None], self.high, self.low)


def segment(one: Array, other: Array) -> Line:
    """The points between two."""
    return Line(one, other - one, (0.0, 1.0), endless=False)
