"""A campaign of contributed points: how the pipeline sets its penalty, batch after batch, on one split after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divulge.attacks.poisoning.learners import Learner
from divulge.contract import Array
from divulge.solvers.bilevel.ascent import Climbed, Project, Starts, Trainer, ascend, tuned
from divulge.solvers.bilevel.inner import Diverged

FOLDS = 5
SPACING = 0.5
"Between the penalties that cross-validation tries, as logarithms."
TUNING = 40
"Iterations of tuning the penalty on clean data."
DESCENT = 0.5
"Largest change of a penalty in the first step against moving points, as a logarithm."
BEGIN = float(np.log(5))
"Where the tuning of a penalty begins."


@dataclass(frozen=True)
class Terms:
    """How hard the attack tries, and within what."""

    starts: int
    iterations: int
    step: float
    bounds: tuple[float, float]
    clean_bounds: tuple[float, float]
    low: Array
    high: Array

    @property
    def length(self) -> float:
        """Of the first move of a point."""
        return self.step * float(np.linalg.norm(self.high - self.low))

    def into_box(self, points: Array, targets: Array) -> Array:
        return np.clip(points, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Split:
    """Clean points, trusted points, and what was contributed so far."""

    X: Array
    y: Array
    X_val: Array
    y_val: Array

    def joined(self, points: Array, labels: Array) -> Split:
        return replace(self, X=np.concatenate([self.X, points]), y=np.concatenate([self.y, labels]))

    def trainer(self, learner: Learner) -> Trainer:
        return learner.trainer(self.X, self.y, self.X_val, self.y_val)


def resplit(split: Split, rng: np.random.Generator, classes: bool) -> Split:
    """The same points, split anew into as many for training and validation, with every class its share."""
    X, y = np.concatenate([split.X, split.X_val]), np.concatenate([split.y, split.y_val])
    held_out = []
    for label in np.unique(y) if classes else [None]:
        rows = rng.permutation(np.flatnonzero(y == label) if classes else len(y))
        wanted = int((split.y_val == label).sum()) if classes else len(split.y_val)
        held_out.append(rows[:wanted])
    val = rng.permutation(np.concatenate(held_out))
    train = rng.permutation(np.setdiff1d(np.arange(len(y)), val))
    return Split(X[train], y[train], X[val], y[val])


def cross_validated(learner: Learner, split: Split, bounds: tuple[float, float], rng: np.random.Generator) -> Array:
    """The penalty with the least error on the folds left out of the training points; of equals, the least loss."""
    grid = np.linspace(*bounds, max(2, round((bounds[1] - bounds[0]) / SPACING) + 1))
    strengths = np.repeat(grid[:, None], learner.penalties, axis=1)
    order, fold = rng.permutation(len(split.y)), np.empty(len(split.y), dtype=int)
    if learner.classes is not None:
        order = order[np.argsort(split.y[order], kind="stable")]
    fold[order] = np.arange(len(order)) % FOLDS
    errors, losses = np.zeros(len(grid)), np.zeros(len(grid))
    for number in range(FOLDS):
        inside, outside = fold != number, fold == number
        part = Split(split.X[inside], split.y[inside], split.X[outside], split.y[outside])
        trained = learner.plain(part.trainer(learner), split.X.shape[1], strengths)
        errors += learner.wrong(trained.W, trained.b, part.X_val, part.y_val).sum(axis=1)
        losses += trained.value * outside.sum()
    return np.asarray(strengths[np.lexsort((losses, errors))[0]])


def validated(learner: Learner, split: Split, bounds: tuple[float, float]) -> Array:
    """The penalties that the trusted points like best."""
    begin = np.full(learner.penalties, np.clip(BEGIN, *bounds))
    outputs = len(learner.targets(split.y[:1]))
    return tuned(split.trainer(learner), split.X.shape[1], outputs, begin, bounds, TUNING)


def prepare(
    number: int,
    rng: np.random.Generator,
    *,
    learner: Learner,
    given: Split,
    terms: Terms,
    settings: dict[str, float | None],
) -> dict[str, Any]:
    """One split, the first as it was given, with the penalty and the clean model of every setting; None is to be found."""
    split = resplit(given, rng, learner.classes is not None) if number else given
    made: dict[str, Any] = {"split": vars(split), "settings": {}}
    try:
        for name, strength in settings.items():
            if strength is not None:
                found = np.full(learner.penalties, strength)
            elif name == "learned":
                found = validated(learner, split, terms.bounds)
            else:
                found = cross_validated(learner, split, terms.clean_bounds, rng)
            trained = learner.plain(split.trainer(learner), split.X.shape[1], found[None])
            made["settings"][name] = {"strengths": found, "W": trained.W[0], "b": trained.b[0]}
    except Diverged as reason:
        return {"failed": str(reason)}
    return made


def next_batch(state: dict[str, Any], size: int) -> dict[str, Any]:
    """What the next batch starts from."""
    split, levels = state["split"], state["levels"]
    empty = np.zeros((0, split["X"].shape[1]))
    return {
        "setting": state["setting"],
        "split": split,
        "count": size,
        "points": np.concatenate([empty, *(level["points"] for level in levels)]),
        "begun": np.concatenate([empty, *(level["begun"] for level in levels)]),
        "labels": np.concatenate([split["y"][:0], *(level["labels"] for level in levels)]),
        "strengths": (levels[-1] if levels else state["clean"])["strengths"],
    }


def contribute(
    item: dict[str, Any], rng: np.random.Generator, *, learner: Learner, terms: Terms, project: Project | None = None
) -> dict[str, Any]:
    """The next batch of points against one setting on one split, and the models with them and with their plain starts.

    `project` keeps points where the pipeline takes them; without, that is the box.
    """
    clean = Split(**item["split"])
    split = clean.joined(item["points"], item["labels"])
    strengths = np.asarray(item["strengths"], float)
    try:
        train = split.trainer(learner)
        best, saddle = _strongest(train, learner, split, strengths, terms, item, rng, project or terms.into_box)
        labels = learner.labels(best.targets)
        after = split.joined(best.points, labels)
        flipped = clean.joined(
            np.concatenate([item["begun"], split.X_val[best.rows]]), np.concatenate([item["labels"], labels])
        )
        trained, null = (
            learner.plain(each.trainer(learner), split.X.shape[1], best.strengths[None]) for each in (after, flipped)
        )
    except Diverged as reason:
        return {"failed": str(reason)}
    return {
        "points": best.points,
        "labels": labels,
        "begun": split.X_val[best.rows],
        "rows": best.rows,
        "strengths": best.strengths,
        "W": trained.W[0],
        "b": trained.b[0],
        "null W": null.W[0],
        "null b": null.b[0],
        "value": best.value,
        "saddle": saddle,
        "restarts": best.restarts,
        "rate": float(getattr(train, "rate", 0.0)),
    }


def _strongest(
    train: Trainer,
    learner: Learner,
    split: Split,
    strengths: Array,
    terms: Terms,
    item: dict[str, Any],
    rng: np.random.Generator,
    project: Project,
) -> tuple[Climbed, float]:
    """The strongest batch found, and the loss at the saddle where the penalties answered; the same where they do not."""

    def draw(count: int) -> Starts:
        rows = np.stack([rng.choice(len(split.X_val), item["count"], replace=False) for _ in range(count)])
        labels = np.stack([_flipped(learner, split, each, rng) for each in rows])
        targets = np.stack([learner.targets(each) for each in labels])
        return Starts(split.X_val[rows].astype(float), targets, rows)

    given: dict[str, Any] = {"starts": terms.starts, "iterations": terms.iterations, "step": terms.length}
    if item["setting"] != "learned":
        best = ascend(train, draw, strengths, project, **given)
        return best, best.value
    saddle = ascend(train, draw, strengths, project, **given, descent=DESCENT, bounds=terms.bounds)
    also = Starts(saddle.points[None], saddle.targets[None], saddle.rows[None])
    given["starts"] = max(terms.starts - 1, 1)
    return ascend(train, draw, saddle.strengths, project, **given, also=also), saddle.value


def _flipped(learner: Learner, split: Split, rows: Array, rng: np.random.Generator) -> Array:
    """Labels that the points do not have; of a regression, the end of the targets' range that is further away."""
    y = split.y_val[rows]
    if learner.classes is None:
        low, high = split.y.min(), split.y.max()
        return np.asarray(np.where(y - low > high - y, low, high))
    index = np.searchsorted(learner.classes, y)
    return np.asarray(learner.classes[(index + rng.integers(1, len(learner.classes), len(y))) % len(learner.classes)])
