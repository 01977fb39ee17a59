"""Scores beside their nulls: in words, and as a small drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from divulge.contract import Score
from divulge.report import wording

WIDTH, MARGIN = 132.0, 8.0
"Of the drawing, in pixels."
WIDE = 50
"Values further apart than this factor are drawn on a logarithmic line."


@dataclass(frozen=True)
class Bar:
    """Where a score's parts lie on a line, in pixels from the left."""

    value: float
    null: float
    interval: tuple[float, float] | None
    published: float | None
    log: bool


@dataclass(frozen=True)
class Row:
    name: str
    score: Score
    against: str
    "The value set against the null, in words."
    bar: Bar | None


def rows(scores: Mapping[str, Score]) -> list[Row]:
    return [Row(name, score, against(score), bar(score)) for name, score in scores.items()]


def against(score: Score) -> str:
    """How far an attack is from a useless one, and whether the interval tells them apart."""
    value, null = score.value, score.null
    if not (math.isfinite(value) and math.isfinite(null)):
        return "cannot be compared"
    if value == null:
        return "equal to the null"
    if (value > null) != (score.better == "higher"):
        return "worse than the null"
    if score.interval is not None and min(score.interval) <= null <= max(score.interval):
        return "not told apart from the null: the interval contains it"
    if value > 0 and null > 0:
        factor = value / null if score.better == "higher" else null / value
        if factor < 1.095:  # as a factor this would read 1.0 or 1.1
            return f"{wording.number(abs(value - null))} better than the null"
        return f"{_factor(factor)}× {'the null' if score.better == 'higher' else 'below the null'}"
    return f"{wording.number(abs(value - null))} {'above' if value > null else 'below'} the null"


def bar(score: Score) -> Bar | None:
    """A drawing, where there is something to draw."""
    ends = score.interval if score.interval is not None and all(map(math.isfinite, score.interval)) else None
    published = score.published if score.published is not None and math.isfinite(score.published) else None
    shown = [score.value, score.null, *(ends or ()), *([] if published is None else [published])]
    if not all(map(math.isfinite, shown)) or min(shown) == max(shown):
        return None
    log = min(shown) > 0 and max(shown) / min(shown) > WIDE
    low, high = min(shown), max(shown)
    if not log and low > 0:
        low = 0.0  # a line from zero shows proportions as they are
    if 0.5 < high <= 1 and low == 0 and not log:
        high = 1.0  # most likely a share

    def place(value: float) -> float:
        if log:
            value, left, right = math.log(value), math.log(low), math.log(high)
        else:
            left, right = low, high
        return round(MARGIN + (WIDTH - 2 * MARGIN) * (value - left) / (right - left), 1)

    return Bar(
        value=place(score.value),
        null=place(score.null),
        interval=None if ends is None else (place(min(ends)), place(max(ends))),
        published=None if published is None else place(published),
        log=log,
    )


def _factor(factor: float) -> str:
    return wording.number(factor, digits=2) if factor < 1000 or factor >= 1e6 else f"{factor:,.0f}"
