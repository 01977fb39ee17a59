"""How many directions a growing list of answers shows, and when that is all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divulge.contract import Array
from divulge.errors import BadInput
from divulge.solvers.directions.made_points import MadePoints
from divulge.solvers.images import layouts
from divulge.solvers.images.layouts import Layout
from divulge.solvers.images.span import FULL, Span, pictured, span_of_combinations

ENOUGH = 1.6
"""Times as many rows as directions: then these are all, and the noise between them is seen.

Of 50 images the directions were complete at 1.2 times where the start had decayed; where noise was strong they went on from
46 of 50 at 1.6 to 48 at three times and 49 at six.
"""
CLEAR = 0.7
"Edge of the noise over the weakest directions, at which no more answers are asked: less than hides images, as it scatters."
AVERAGED = 20
"""Times as many rows as directions, where these end in noise: more rows average it away, and more directions stand out.

Of 50 images behind noise of 0.1 % 48 came back then and 43 at 6 times (digits), behind 1 % 44 and 26 (photographs).
"""
NOTHING = 10
"Directions for which so many rows are asked at least: a network that shows none in these has none."


@dataclass(frozen=True, eq=False)
class Shown:
    """What some rows show."""

    seen: Span
    layout: Layout | None
    "How inputs are laid out as pictures; None where they are none, so that noise cannot be told."
    rows: int

    @property
    def enough(self) -> bool:
        """Whether there are more rows than directions."""
        return bool(self.rows >= ENOUGH * max(self.seen.rank, NOTHING))

    @property
    def complete(self) -> bool:
        """Whether more rows would show no more."""
        return self.enough and (self.seen.ending <= CLEAR or self.rows >= AVERAGED * self.seen.rank)

    @property
    def shape(self) -> tuple[int, ...] | None:
        return None if self.layout is None else self.layout.shape

    @property
    def crowded(self) -> bool:
        """Whether there are so many directions that they say nothing."""
        return bool(self.seen.rank > FULL * (self.seen.axes.shape[1] - 1))


def shown(rows: Array, precision: float, options: Sequence[Layout], told: bool) -> Shown:
    """Directions of rows (k, d + 1) that are no noise, laid out in one of the options; `told` where inputs are pictures.

    Where they are none, errors of `precision` times the largest singular value, in every entry, end at √k + √d of it.
    """
    layout = _smoothest(options, rows[:, :-1], told)
    if layout is not None:
        return Shown(pictured(span_of_combinations(rows, precision), layout), layout, len(rows))
    edge = precision * (math.sqrt(len(rows)) + math.sqrt(rows.shape[1]))
    return Shown(span_of_combinations(rows, edge), None, len(rows))


def made_points(dimension: int, options: Sequence[Layout], box: tuple[float, float]) -> MadePoints:
    """What makes points to ask: pictures where inputs may be some."""
    if not -np.inf < box[0] < box[1] < np.inf:
        raise BadInput(f"expected a box from low to high, got {box}; give two finite numbers, the smaller first")
    if not options:
        return MadePoints(dimension, box, None, lambda X: X)
    return MadePoints(dimension, box, options[0].size, options[0].back)


def layouts_of(dimension: int, shape: tuple[int, ...] | None) -> list[Layout]:
    """Ways to lay out inputs as pictures."""
    if shape is not None and math.prod(shape) != dimension:
        raise BadInput(f"images of shape {shape} do not fill the {dimension} inputs of the model; correct shape")
    return layouts.candidates(dimension, shape)


def _smoothest(options: Sequence[Layout], slopes: Array, told: bool) -> Layout | None:
    """How inputs are laid out as pictures, by slopes (n, d); None where they are none."""
    if not options or not slopes.any():
        return None
    best = min(options, key=lambda one: one.roughness(slopes))
    return best if told or best.roughness(slopes) <= layouts.ROUGH else None
