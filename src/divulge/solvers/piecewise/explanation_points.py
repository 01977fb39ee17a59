"""A model and its explanations, and the points at which it is asked about them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.regions import Box

POINTS = 12
TOPS = 4  # outputs on top at most, so that each is at three points
MARGIN = 0.02  # of a box: so far inside its walls probes stay


class Questions:
    """The model and where it may be asked."""

    def __init__(
        self,
        value: Callable[[Array], Array],
        gradient: Callable[[Array], Array],
        dimension: int,
        rng: np.random.Generator,
        scale: float,
        low: float | None,
        high: float | None,
    ) -> None:
        self.value, self._gradient, self.dimension, self.rng, self.scale = value, gradient, dimension, rng, scale
        self.box = Box(dimension, low, high) if low is not None and high is not None else None
        self.explained = 0

    def gradient(self, X: Array) -> Array:
        self.explained += len(X)
        return np.asarray(self._gradient(X), dtype=float)

    @property
    def longest(self) -> float:
        """A step that stays in the box."""
        return np.inf if self.box is None else MARGIN * (self.box.high - self.box.low)

    @property
    def bounds(self) -> tuple[float, float]:
        return (-np.inf, np.inf) if self.box is None else (self.box.low, self.box.high)

    def points(self, count: int, size: float) -> Array:
        """As the model is usually asked about, pulled to the middle by a factor `size`."""
        if self.box is None:
            return np.asarray(size * self.scale * self.rng.standard_normal((count, self.dimension)))
        patterns = self.box.points(count, self.rng)
        inside = self.box.low + (self.box.high - self.box.low) * self.rng.random(patterns.shape)
        middle = (self.box.low + self.box.high) / 2
        return np.asarray(middle + size * (1 - 2 * MARGIN) * ((patterns + inside) / 2 - middle))


def several_on_top(values: Array) -> Array:
    """Which points to explain: as many on which each of a few outputs is the largest as there are."""
    top = values.argmax(1)
    names, counts = np.unique(top, return_counts=True)
    common = names[np.argsort(-counts)][:TOPS]
    turns = [np.flatnonzero(top == name).tolist() for name in common]
    chosen: list[int] = []
    while len(chosen) < POINTS and any(turns):
        chosen += [rows.pop(0) for rows in turns if rows]
    return np.array(chosen[:POINTS])
