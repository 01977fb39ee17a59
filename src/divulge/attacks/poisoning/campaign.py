"""A campaign of contributed points: how the pipeline sets its penalty, level after level, on one split after another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from divulge.attacks.poisoning.climb import Climb
from divulge.attacks.poisoning.learners import PipelineLearner
from divulge.attacks.poisoning.records import (
    Campaign,
    FailedTraining,
    PipelineModels,
    PipelineSplit,
    PoisonLevel,
    PreparedSplit,
    Setting,
    Terms,
)
from divulge.contract import Array
from divulge.solvers.bilevel.ascent import Project, tuned
from divulge.solvers.bilevel.inner import Diverged

FOLDS = 5
"Of cross-validation, as many as scikit-learn's."
SPACING = 0.5
"Between the penalties that cross-validation tries, as logarithms: a factor of 1.6, where scikit-learn's grid has 7.7."
TUNING = 40
"Iterations of tuning the penalty: in tests 40 leave it within 1e-5 of where 300 do, and 20 within 1e-3."
BEGIN = float(np.log(5))
"Where the tuning of a penalty begins. Where it ends does not depend on it."


def resplit(split: PipelineSplit, rng: np.random.Generator, classes: bool) -> PipelineSplit:
    """The same points, split anew into as many for training and validation, with every class its share."""
    X, y = np.concatenate([split.X, split.X_val]), np.concatenate([split.y, split.y_val])
    held_out = []
    for label in np.unique(y) if classes else [None]:
        rows = rng.permutation(np.flatnonzero(y == label) if classes else len(y))
        wanted = int((split.y_val == label).sum()) if classes else len(split.y_val)
        held_out.append(rows[:wanted])
    val = rng.permutation(np.concatenate(held_out))
    train = rng.permutation(np.setdiff1d(np.arange(len(y)), val))
    return PipelineSplit(X[train], y[train], X[val], y[val])


def cross_validated(
    learner: PipelineLearner, split: PipelineSplit, bounds: tuple[float, float], rng: np.random.Generator
) -> Array:
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
        part = PipelineSplit(split.X[inside], split.y[inside], split.X[outside], split.y[outside])
        trained = learner.plain(part.trainer(learner), split.X.shape[1], strengths)
        errors += learner.wrong(trained.W, trained.b, part.X_val, part.y_val).sum(axis=1)
        losses += trained.value * outside.sum()
    return np.asarray(strengths[np.lexsort((losses, errors))[0]])


def validated(learner: PipelineLearner, split: PipelineSplit, bounds: tuple[float, float]) -> Array:
    """The penalties that the trusted points like best."""
    begin = np.full(learner.penalties, np.clip(BEGIN, *bounds))
    outputs = len(learner.targets(split.y[:1]))
    return tuned(split.trainer(learner), split.X.shape[1], outputs, begin, bounds, TUNING)


def prepare(
    number: int,
    rng: np.random.Generator,
    *,
    learner: PipelineLearner,
    given: PipelineSplit,
    terms: Terms,
    settings: Mapping[Setting, float | None],
) -> PreparedSplit | FailedTraining:
    """One split, the first as it was given, with the penalty and the clean model of every setting; None is to be found."""
    split = resplit(given, rng, learner.classes is not None) if number else given
    clean: dict[Setting, PipelineModels] = {}
    try:
        for name, strength in settings.items():
            if strength is not None:
                found = np.full(learner.penalties, strength)
            elif name == "learned":
                found = validated(learner, split, terms.bounds)
            else:
                found = cross_validated(learner, split, terms.clean_bounds, rng)
            clean[name] = PipelineModels.trained(learner, split, found)
    except Diverged as reason:
        return FailedTraining(str(reason))
    return PreparedSplit(split, clean)


def contribute(
    campaign: Campaign,
    rng: np.random.Generator,
    *,
    size: int,
    learner: PipelineLearner,
    terms: Terms,
    project: Project | None = None,
    strengths: Array | None = None,
) -> PoisonLevel | FailedTraining:
    """The level with so many points more against one setting on one split, and the models with them and with their starts.

    `project` keeps points where the pipeline takes them; without, that is the box. `strengths` are the penalties to begin
    with, where they are others than the campaign's last.
    """
    split = campaign.split
    begin = np.asarray(campaign.strengths if strengths is None else strengths, float)
    try:
        climb = Climb(campaign, learner, terms, project or terms.into_box, rng)
        best, saddle = climb.strongest(size, begin)
        labels, begun = learner.labels(best.targets), split.X_val[best.rows].astype(float)
        poisoned, mislabelled = (
            PipelineModels.trained(learner, split.joined(each, labels), best.strengths) for each in (best.points, begun)
        )
    except Diverged as reason:
        return FailedTraining(str(reason))
    return PoisonLevel(
        best.points, labels, begun, best.rows, poisoned, mislabelled, best.value, saddle, best.restarts, climb.rate
    )
