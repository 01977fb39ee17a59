"""What an attack found: a verdict, the loot, scores beside their nulls, figures as data, the cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from divulge.contract.access import Access
from divulge.contract.checks import Array
from divulge.errors import BadInput

Won = TypeVar("Won", bound=Access)


class Verdict(StrEnum):
    """How an attack ended. The four are never mixed up."""

    LEAK = "leak"
    NONE_FOUND = "none found"
    NOT_APPLICABLE = "not applicable"
    FAILED = "failed"


@dataclass(frozen=True)
class Score:
    """A measurement beside what a useless attack would have scored."""

    value: float
    null: float
    null_of: str
    "What the useless attack does, in words."
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"
    "Which direction means that the attack is stronger."
    interval: tuple[float, float] | None = None
    published: float | None = None
    "The paper's figure for the same quantity."


@dataclass(frozen=True)
class Cost:
    """What the attack spent: rows asked of the target and seconds of this machine."""

    queries: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Curve:
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
class ImagePairs:
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
class Histogram:
    """How values are distributed, a group a name."""

    title: str
    x: str
    groups: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class HeatMap:
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
class Scatter:
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


@dataclass(frozen=True)
class TaxonomyId:
    """Where a finding stands in a public taxonomy; ids are renumbered, so the version goes along."""

    taxonomy: str
    version: str
    id: str


@dataclass(frozen=True)
class Provenance:
    """Where a finding comes from: enough to know whether another one is the same."""

    attack: str
    "The attack's name in the registry."
    title: str = ""
    paper: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    "Name of each thing held -> hash of its contents."
    claimed: bool = True
    "Whether the attack itself, before the truth was looked at, called its loot a leak: only then others go on from it."
    won: str = ""
    "Name under which the loot is held afterwards."
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Finding(Generic[Won]):
    """The result of one attack on one target."""

    verdict: Verdict
    summary: str
    "One sentence: what was found, or why not."
    loot: Won | None = None
    power: str = ""
    "For *none found*: what this attempt would have found."
    scores: Mapping[str, Score] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    taxonomy: tuple[TaxonomyId, ...] = ()
    cost: Cost = field(default_factory=Cost)
    partial: bool = False
    "True when a budget or a silent target ended the attempt: a later run tries again."
    provenance: Provenance = field(default_factory=lambda: Provenance(attack=""))

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", Verdict(self.verdict))
        if not self.summary:
            raise BadInput("a finding needs a summary: one sentence saying what was found, or why not")
        if self.verdict is Verdict.LEAK and self.loot is None:
            raise BadInput("a finding with the verdict 'leak' needs its loot; use 'none found' when nothing was won")
        if self.verdict is Verdict.NONE_FOUND and not self.power:
            raise BadInput("a finding with the verdict 'none found' needs its power: what this attempt would have found")

    @classmethod
    def leak(cls, loot: Won, summary: str, **rest: Any) -> Finding[Won]:
        return cls(Verdict.LEAK, summary, loot, **rest)

    @classmethod
    def none_found(cls, summary: str, *, power: str, **rest: Any) -> Finding[Won]:
        return cls(Verdict.NONE_FOUND, summary, power=power, **rest)

    @classmethod
    def not_applicable(cls, reason: str, **rest: Any) -> Finding[Won]:
        return cls(Verdict.NOT_APPLICABLE, reason, **rest)

    @classmethod
    def failed(cls, reason: str, **rest: Any) -> Finding[Won]:
        return cls(Verdict.FAILED, reason, **rest)


@dataclass(frozen=True)
class Holding:
    """Something held during an audit: handed in by the auditor, or won by an attack."""

    name: str
    kind: str
    source: str
    "Where it came from, in words: a file, an address, or the attack that won it."
    fingerprint: str
    won_by: str = ""
    "The registry name of the attack that won it; empty for what was held from the start."


@dataclass(frozen=True, eq=False)
class Record:
    """Everything an audit leaves behind. A report is a pure function of it."""

    title: str
    holdings: tuple[Holding, ...]
    findings: tuple[Finding[Any], ...]
    unmet: Mapping[str, str] = field(default_factory=dict)
    "Attacks that could not start -> what they need and nobody holds."
    broken: Mapping[str, str] = field(default_factory=dict)
    "Plug-ins that could not be loaded -> why."
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    "False when the audit was interrupted or ran out of budget."
