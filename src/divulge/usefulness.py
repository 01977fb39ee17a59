"""What a defence costs those who use the model: accuracy, answers that change, explanations that turn away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from divulge.contract import (
    Access,
    Array,
    Budget,
    Candidates,
    Fitted,
    Gradients,
    Parameters,
    Predictions,
    TrainingData,
    Truth,
    Weights,
)
from divulge.contract.service import SCORING, Account, charged
from divulge.learners.catalogue import LEARNERS

MOST = 300
"Points at which answers are compared: a share of them is known to 3 points of a hundred, and a server is asked no more."
EXPLAINED = 40
"The same of explanations, of which a defence may compute each from many."
ACCURACY, FIT, SAME, COSINE = "accuracy", "R²", "answers with the same label", "cosine of the explanations"
ON_TRAINING = " on the training data"
"Where the truth knows no other labels; points that are merely held are named."

Kept = dict[str, tuple[float, float]]
Ask = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Points:
    """Where two answers are compared."""

    X: Array
    y: Array | None
    where: str
    "What is added to the name of a measure."


def measured(plain: Access, guarded: Access, truth: Truth, held: Mapping[str, Access], budget: Budget) -> Kept:
    """Name of a measure -> what it is without the defence and with it; nothing where no points are known.

    Truth comes first, and there candidates, which are no training points as a rule; then what the attacker holds; of each
    what has labels. A server is asked at the cost of scoring.
    """
    known = [("", truth.get(Candidates)), (ON_TRAINING, truth.get(TrainingData))]
    points = _points(plain, [*known, *((f" on {name}", access) for name, access in held.items())])
    if points is None:
        return {}
    kept: Kept = {}
    with charged([plain], Account(SCORING, budget, values_alone=True)):
        if isinstance(plain, Gradients) and isinstance(guarded, Gradients) and plain.gradient is not guarded.gradient:
            some = points.X[:EXPLAINED]
            kept[COSINE] = (1.0, _cosine(plain.gradient(some), guarded.gradient(some), plain.value(some)))
        before, after = _answers(plain, points), _answers(guarded, points)
    if before is None or after is None:
        return kept
    return {**_compared(before[0], after[0], before[1], points.where, _task(plain)), **kept}


def _points(access: Access, known: Iterable[tuple[str, Access | None]]) -> Points | None:
    """The first with labels, else the first without: as many of its points as are looked at, drawn evenly."""
    width = _width(access)
    fitting = [
        (where, one) for where, one in known
        if isinstance(one, Candidates | TrainingData) and isinstance(one.X, np.ndarray) and width in (None, one.X.shape[1])
    ]  # fmt: skip
    if not fitting:
        return None
    where, found = next((one for one in fitting if one[1].y is not None), fitting[0])
    if not len(found.X):
        return None
    chosen = np.random.default_rng(0).permutation(len(found.X))[:MOST]
    y = None if found.y is None else np.asarray(found.y)[chosen]
    return Points(np.asarray(found.X, float)[chosen], y, "" if y is None else where)


def _width(access: Access) -> int | None:
    """How many numbers a point has; None where something unknown is done to it first."""
    if isinstance(access, Predictions | Weights):
        return access.dimension
    plain = not (isinstance(access, Fitted) and (access.prepare or access.steps is not None))
    coef = getattr(access, "coef", None)
    return int(coef.shape[-1]) if plain and coef is not None else None


def _answers(access: Access, points: Points) -> tuple[Array, Array | None] | None:
    """Outputs (n, outputs) and what they should be; None of what cannot be computed from what is held."""
    X, y = points.X, points.y
    if isinstance(access, Predictions):
        said = np.asarray(access.value(X), float)
    elif isinstance(access, Weights):
        said = access.predict(X)
    elif isinstance(access, Fitted | Parameters):
        if isinstance(access, Fitted):
            prepared = access.prepared(TrainingData(X, y))
            X, y = np.asarray(prepared.X, float), prepared.y
        layers = getattr(access, "layers", ())
        if layers and getattr(access, "settings", {}).get("activation", "relu") == "relu":
            said = Weights(layers).predict(X)
        elif access.coef is not None and access.dual_coef is None and access.coef.shape[-1] == X.shape[1]:
            said = X @ np.atleast_2d(access.coef).T + (0 if access.intercept is None else access.intercept)
        else:
            return None
    else:
        return None
    return said.reshape(len(X), -1), y


def _task(access: Access) -> str:
    """`numbers`, `classes`, or `either` where only the labels can tell."""
    learner = LEARNERS.get(access.learner) if isinstance(access, Fitted) else None
    return "either" if learner is None else learner.targets


def _compared(before: Array, after: Array, y: Array | None, where: str, task: str) -> Kept:
    one, few = before.shape[1] == 1, y is not None and _few(y, before.shape[1])
    if task == "numbers" or (task == "either" and one and y is not None and not few):
        fits = y is not None and y.shape[:1] == before.shape[:1] and np.size(y) == before.size and np.ptp(y) > 0
        return {FIT + where: (_fit(before, y), _fit(after, y))} if fits else {}
    bar = (
        0.5 if one and before.min() >= 0 and before.max() <= 1 else 0.0
    )  # of a probability, which noise takes out of [0, 1]
    labels, changed = _labels(before, bar), _labels(after, bar)
    kept: Kept = {}
    if y is not None and few:
        true = _numbered(y, max(2, before.shape[1]))
        kept[ACCURACY + where] = (float(np.mean(labels == true)), float(np.mean(changed == true)))
    kept[SAME] = (1.0, float(np.mean(labels == changed)))
    return kept


def _few(y: Array, outputs: int) -> bool:
    """Whether labels name the classes that outputs are of."""
    if y.ndim != 1 or (y.dtype.kind == "f" and (y != np.round(y)).any()):
        return False
    named = np.unique(y)
    within = y.dtype.kind in "biuf" and named.min() >= 0 and named.max() < max(2, outputs)
    return len(named) == max(2, outputs) or bool(within)


def _numbered(y: Array, classes: int) -> Array:
    """Labels as 0, 1, ... in their order."""
    if y.dtype.kind in "biuf" and y.min() >= 0 and y.max() < classes:
        return y.astype(int)
    return np.unique(y, return_inverse=True)[1]


def _labels(outputs: Array, bar: float) -> Array:
    """The class that is answered: the largest output, or the second of two where one output is above the bar."""
    return np.asarray(outputs.argmax(axis=1) if outputs.shape[1] > 1 else outputs[:, 0] > bar).astype(int)


def _fit(outputs: Array, y: Any) -> float:
    """The share of the variance that is explained."""
    target = np.asarray(y, float).reshape(outputs.shape)
    return float(1 - np.sum((outputs - target) ** 2) / np.sum((target - target.mean(0)) ** 2))


def _cosine(before: Array, after: Array, values: Array) -> float:
    """Mean over points of what the explanation of the top class has in common with itself; of one made 0, nothing."""
    top = np.asarray(values).reshape(len(before), -1).argmax(axis=1)
    one, other = ((told[np.arange(len(told)), top] if told.ndim == 3 else told) for told in map(np.asarray, (before, after)))
    told = np.linalg.norm(one, axis=1) > 0
    sizes = np.linalg.norm(one[told], axis=1) * np.linalg.norm(other[told], axis=1)
    alike = np.sum(one[told] * other[told], axis=1) / np.where(sizes > 0, sizes, 1)
    return float(alike.mean()) if told.any() else 1.0
