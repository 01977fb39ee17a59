"""What was won, small enough to read: never the arrays themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from divulge.contract import (
    Access,
    Array,
    Copy,
    Finding,
    Fitted,
    Hyperparameters,
    Membership,
    Parameters,
    Poison,
    TrainingData,
    Weights,
)
from divulge.report import pictures, severity, wording

MOST = 10
"Records named of those that look most like members."


@dataclass(frozen=True)
class Loot:
    """A table of what was won, and pictures where its points are pictures."""

    kind: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    gallery: pictures.Gallery | None = None
    note: str = ""


def describe(loot: Access) -> Loot:
    if isinstance(loot, Hyperparameters):
        return _hyperparameters(loot)
    if isinstance(loot, Weights):
        return _weights(loot)
    if isinstance(loot, Membership):
        return _membership(loot)
    if isinstance(loot, TrainingData | Poison):
        return _points(loot)
    return _anything(loot)


def amount(loot: Access | None) -> str:
    """How much was won, in a few words; empty where that cannot be counted."""
    if isinstance(loot, Hyperparameters):
        return wording.listing([f"{name} = {wording.precise(value)}" for name, value in loot.values.items()])
    if isinstance(loot, Weights):
        return f"{_parameters(loot)}, {'exact' if loot.exact else 'in a copy'}"
    if isinstance(loot, Parameters):
        digits = "exact" if severity.exact(loot) else f"to {wording.number(loot.precision)} of the largest"
        return f"{_parameters(loot)}, {digits}"
    if isinstance(loot, Copy):
        return f"a copy {_agreeing(loot)}"
    if isinstance(loot, Fitted):
        return f"the learner, {wording.kind(loot.learner)}"
    if isinstance(loot, Membership):
        return f"{int(loot.decisions.sum()):,} of {wording.count(len(loot.decisions), 'candidate')} called members"
    if isinstance(loot, TrainingData | Poison):
        what = "picture" if pictures.drawable(loot.shape) else "point" if isinstance(loot, Poison) else "record"
        return wording.count(len(loot.X), f"contributed {what}" if isinstance(loot, Poison) else what)
    return ""


def won(finding: Finding[Any]) -> str:
    """The same of what an attack claimed; where the truth denies a part, of what it confirms."""
    loot, confirmed = finding.loot, right(finding)
    if not finding.provenance.claimed:
        return ""
    if isinstance(loot, TrainingData) and confirmed is not None and confirmed < len(loot.X):
        return f"{amount(replace(loot, X=loot.X[:confirmed], y=None))} of {len(loot.X):,} claimed"
    return amount(loot)


def right(finding: Finding[Any]) -> int | None:
    """How many of the points that an attack claimed are right, by the first score from the truth; None where none tells."""
    score = next((score for name, score in finding.scores.items() if name in finding.measured and score.speaks), None)
    claimed = isinstance(finding.loot, TrainingData) and score is not None and score.most == len(finding.loot.X)
    return round(score.value) if claimed and score is not None else None


def _hyperparameters(loot: Hyperparameters) -> Loot:
    rows = tuple(
        (name, wording.precise(value), _interval(value, loot.intervals.get(name))) for name, value in loot.values.items()
    )
    return Loot(loot.kind, ("hyperparameter", "value", "interval"), rows)


def _interval(value: float, interval: tuple[float, float] | None) -> str:
    """From where to where; or, where the two would print alike, how far either way."""
    if interval is None or abs(interval[1] - interval[0]) > 1e-4 * abs(value):
        return wording.interval(interval, digits=6)
    return f"± {wording.number((interval[1] - interval[0]) / 2, 2)}"


def _weights(loot: Weights) -> Loot:
    rows = tuple(
        (str(number), wording.shape(W.shape), f"{W.size + b.size:,}") for number, (W, b) in enumerate(loot.layers, 1)
    )
    copied = "exact" if loot.exact else f"a copy {_agreeing(loot)}"
    note = f"{_parameters(loot)}, {copied}."
    return Loot(loot.kind, ("layer", "weights (units × inputs)", "parameters"), rows, note=note)


def _parameters(loot: Weights | Parameters) -> str:
    learned = (loot.coef, loot.intercept, loot.dual_coef) if isinstance(loot, Parameters) else chain(*loot.layers)
    return wording.count(sum(np.size(array) for array in learned if array is not None), "parameter")


def _agreeing(loot: Weights | Copy) -> str:
    return f"that agrees on {wording.number(100 * loot.agreement)} % of check points"


def _membership(loot: Membership) -> Loot:
    called = int(loot.decisions.sum())
    rows = [
        ("candidates", f"{len(loot.decisions):,}"),
        ("called members", f"{called:,}"),
        ("called non-members", f"{len(loot.decisions) - called:,}"),
    ]
    if len(loot.scores):
        low, middle, high = (wording.number(value) for value in np.percentile(loot.scores, [0, 50, 100]))
        rows.append(("scores: lowest, median, highest", f"{low}, {middle}, {high}"))
        rows.append(("highest scores", _highest(loot)))
    return Loot(loot.kind, ("membership", "number"), tuple(rows))


def _highest(loot: Membership) -> str:
    """The records that look most like members, whoever they are."""
    first = np.argsort(-loot.scores, kind="stable")[:MOST]
    names = [f"row {row}" for row in first] if loot.records is None else [f"record {loot.records[row]}" for row in first]
    return wording.shorten(
        ", ".join(f"{name} ({wording.number(loot.scores[row])})" for name, row in zip(names, first, strict=True))
    )


def _points(loot: TrainingData | Poison) -> Loot:
    rows = [("points", f"{loot.X.shape[0]:,}"), ("features", f"{loot.X.shape[1]:,}")]
    if loot.shape is not None:
        rows.append(("shape of one point", wording.shape(loot.shape)))
    if loot.y is not None:
        rows.append(("labels", _labels(loot.y)))
    gallery = None
    if loot.shape is not None and pictures.drawable(loot.shape):
        gallery = pictures.points(loot.X, loot.shape, loot.y, "point won")
    return Loot(loot.kind, ("what", "value"), tuple(rows), gallery)


def _anything(loot: Access) -> Loot:
    """A kind that a plug-in brought along: its fields, by shape where they are arrays."""
    names: list[str] = [part.name for part in fields(loot)] if is_dataclass(loot) else []
    held = {name: getattr(loot, name) for name in names}
    rows = tuple(
        (wording.kind(name), wording.value(value))
        for name, value in held.items()
        if value is not None and not callable(value)
    )
    return Loot(loot.kind, ("what", "value"), rows)


def _labels(y: Array) -> str:
    classes = Counter(y.tolist()) if y.ndim == 1 else Counter()
    if not classes or len(classes) > 12:
        return f"{wording.shape(y.shape)} numbers" if y.dtype.kind != "U" else f"{len(classes):,} names"
    return ", ".join(f"{_class(name)}: {amount:,}" for name, amount in sorted(classes.items()))


def _class(name: object) -> str:
    return f"{name:g}" if isinstance(name, float) else str(name)
