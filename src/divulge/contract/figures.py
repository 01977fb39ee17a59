"""Figures as data: what a report draws, checked where it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from divulge.arrays import Array
from divulge.contract.display import Shown
from divulge.errors import BadInput


@dataclass(frozen=True, eq=False)
class Curve(Shown):
    """Lines over one axis; `marks` are vertical lines with a name."""

    title: str
    x: str
    y: str
    series: Mapping[str, tuple[Array, Array]]
    log_x: bool = False
    log_y: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)
    bands: Mapping[str, tuple[Array, Array, Array]] = field(default_factory=dict)
    "Where a series may lie as well, by its name: x, lowest and highest."

    def __post_init__(self) -> None:
        for name, (x, y) in self.series.items():
            _fits(f"series {name!r} of the curve {self.title!r}", np.shape(y), np.shape(x))
        for name, (x, low, high) in self.bands.items():
            if name not in self.series:
                known = ", ".join(self.series)
                raise BadInput(f"expected a band of a series ({known}), got one of {name!r}; correct {self.title!r}")
            for end in (low, high):
                _fits(f"the band of {name!r} of the curve {self.title!r}", np.shape(end), np.shape(x))


@dataclass(frozen=True, eq=False)
class Preview:
    """What a long search has come to: pictures, the best first as far as it can tell without the truth."""

    title: str
    X: Array
    "(pictures, pixels)"
    shape: tuple[int, ...]
    "Of one picture: (height, width), or (height, width, 3)."
    note: str = ""
    "How far the search is, and what makes a picture better here."


@dataclass(frozen=True, eq=False)
class ImagePairs(Shown):
    """Pictures side by side, such as a training image and its reconstruction; values run from 0 to 1."""

    title: str
    left: Array
    "(pairs, height, width) or (pairs, height, width, 3)"
    right: Array
    left_name: str
    right_name: str
    captions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _fits(f"the right pictures of {self.title!r}", np.shape(self.right), np.shape(self.left))
        if self.captions:
            _fits(f"the captions of {self.title!r}", (len(self.captions),), np.shape(self.left)[:1])


@dataclass(frozen=True, eq=False)
class Histogram(Shown):
    """How values are distributed, a group a name."""

    title: str
    x: str
    groups: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class HeatMap(Shown):
    """A quantity over two axes: values (len(rows), len(columns)), with points and lines over it where there are any."""

    title: str
    x: str
    y: str
    values: Array
    columns: Array
    rows: Array
    value: str = "value"
    groups: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    "Points drawn over it, by name: x and y, in the units of columns and rows."
    lines: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    "Lines drawn over it, such as a decision boundary."
    limits: tuple[float, float] | None = None
    "Where its colours begin and end, so that maps beside each other can be compared; None for its own least and most."

    def __post_init__(self) -> None:
        _fits(f"the heat map {self.title!r}", np.shape(self.values), (len(self.rows), len(self.columns)))
        for kind, parts in (("group", self.groups), ("line", self.lines)):
            for name, (x, y) in parts.items():
                _fits(f"{kind} {name!r} of the heat map {self.title!r}", np.shape(y), np.shape(x))
        if self.groups or self.lines:
            for side in ("columns", "rows"):
                _in_order(f"{side} of the heat map {self.title!r}", np.asarray(getattr(self, side)))


@dataclass(frozen=True, eq=False)
class Scatter(Shown):
    """Points in named groups over two axes, on named lines where there are any; `marks` are vertical lines with a name."""

    title: str
    x: str
    y: str
    groups: Mapping[str, tuple[Array, Array]]
    log_x: bool = False
    log_y: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    "What the points lie on."

    def __post_init__(self) -> None:
        for name, (x, y) in self.groups.items():
            _fits(f"group {name!r} of the scatter plot {self.title!r}", np.shape(y), np.shape(x))
        for name, (x, y) in self.lines.items():
            _fits(f"line {name!r} of the scatter plot {self.title!r}", np.shape(y), np.shape(x))


Figure = Curve | ImagePairs | Histogram | HeatMap | Scatter


def _fits(what: str, got: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if got != expected:
        raise BadInput(f"expected shape {expected} for {what}, got {got}; correct the figure")


def _in_order(what: str, values: Array) -> None:
    """Refuse values between which no point has a place."""
    steps = np.diff(values) if values.dtype.kind in "iuf" else np.zeros(0)
    if not len(steps) or not np.isfinite(values).all() or not ((steps > 0).all() or (steps < 0).all()):
        raise BadInput(
            f"expected at least two numbers that grow or fall as {what}, for there are points or lines over it, "
            f"got {str(values.tolist())[:40]}; sort them, or leave groups and lines out"
        )
