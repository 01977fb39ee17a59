"""How many directions a growing list of answers shows, and when that is all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from divulge.contract import Array
from divulge.solvers.images import layouts
from divulge.solvers.images.layouts import Layout
from divulge.solvers.images.span import FULL, Span, pictured, span_of_combinations

ENOUGH = 1.6
"""Times as many rows as directions: then these are all, and the noise between them is seen.

Of 50 images the directions were complete at 1.2 times where the start had decayed; where noise was strong they went on from
46 of 50 at 1.6 to 48 at three times and 49 at six.
"""
AVERAGED = 20
"""Times as many rows as directions, where these end in noise: more rows average it away, and more directions stand out.

Of 50 images behind noise of 0.1 % 48 came back then and 43 at 6 times (digits), behind 1 % 44 and 26 (photographs).
"""
PATCHES, AROUND = 2.0, 0.5
"Pixels that patches of a picture asked are wide, and the deviation from grey: it lies in the box, and switches many units."
EDGE = 0.02
"Share of the box that points keep away from its ends: explanations that were multiplied by a pixel are divided by it."
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
        return self.enough and (not self.seen.buried or self.rows >= AVERAGED * self.seen.rank)

    @property
    def shape(self) -> tuple[int, ...] | None:
        return None if self.layout is None else self.layout.shape

    @property
    def crowded(self) -> bool:
        """Whether there are so many directions that they say nothing."""
        return bool(self.seen.rank > FULL * (self.seen.axes.shape[1] - 1))


def shown(rows: Array, precision: float, shape: tuple[int, ...] | None) -> Shown:
    """Directions of rows (k, d + 1) that are no noise."""
    seen = span_of_combinations(rows, precision)
    options = layouts.candidates(rows.shape[1] - 1, shape)
    if not options:
        return Shown(seen, None, len(rows))
    layout = min(options, key=lambda one: one.roughness(rows[:, :-1]))
    return Shown(pictured(seen, layout), layout, len(rows))


@dataclass(frozen=True, eq=False)
class Points:
    """Random pictures of soft patches in the box, or normal points where inputs are no pictures.

    Pictures that a camera or a pen made do no better: what counts is that different units are on.
    """

    rng: np.random.Generator
    dimension: int
    shape: tuple[int, ...] | None
    box: tuple[float, float]

    def __call__(self, count: int) -> Array:
        """(count, d)"""
        options = layouts.candidates(self.dimension, self.shape)
        if not options:
            return self.rng.standard_normal((count, self.dimension))
        layout, (low, high) = options[0], self.box
        pictures = []
        for _ in range(count):  # one by one, so that they do not depend on how many are asked at a time
            soft = gaussian_filter(self.rng.standard_normal(layout.size), (PATCHES, PATCHES, 0)[: len(layout.size)])
            pictures.append(np.clip(0.5 + AROUND * soft / soft.std(), EDGE, 1 - EDGE).ravel())
        return layout.back(low + (high - low) * np.array(pictures))
