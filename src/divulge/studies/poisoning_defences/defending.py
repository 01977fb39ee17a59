"""A pipeline with a defence: points made by someone who knows it, and the models that come of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from divulge.attacks.poisoning.campaign import contribute, cross_validated, validated
from divulge.attacks.poisoning.learners import PipelineLearner
from divulge.attacks.poisoning.records import (
    Campaign,
    FailedTraining,
    PipelineModels,
    PipelineSplit,
    PoisonLevel,
    Terms,
    all_done,
)
from divulge.contract import Array, Evidence
from divulge.defences import partition, sanitising
from divulge.errors import AttackFailed
from divulge.solvers.bilevel.ascent import Project
from divulge.solvers.bilevel.inner import Diverged

Defence = Literal["none", "re-tuned", "cross-validated", "neighbours", "distance", "vote", "run-off"]

ROUNDS = 2
"How often an attack on cross-validation is made again for the penalty that its points led to: each costs a whole ascent."


@dataclass(frozen=True)
class Checks:
    """What the filters go by: see the options of the same names."""

    neighbours: int
    agreement: float
    share: float


@dataclass(frozen=True, eq=False)
class Scenario:
    """What every defence is tried on: a pipeline, its penalty tuned on clean data, and how hard the attacker tries."""

    learner: PipelineLearner
    split: PipelineSplit
    terms: Terms
    checks: Checks
    sizes: Sequence[int]
    "Points added at each level."
    strengths: Array
    parts: int
    "Of the training data, that vote."


@dataclass(frozen=True, eq=False)
class ContributedPoints(Evidence):
    """What a campaign contributed."""

    levels: tuple[PoisonLevel, ...]
    "Each with all points up to it, where they were then."

    @property
    def last(self) -> PoisonLevel:
        return self.levels[-1]


@dataclass(frozen=True, eq=False)
class DefendedPipeline(Evidence):
    """What a pipeline with a defence learned, with no points and at every level: (levels, ...)."""

    models: PipelineModels
    "Of a vote, W is (levels, parts, outputs, features)."
    lost: Array
    "(levels, 2): shares of the clean and of the contributed points that the defence left out."


def campaign(defence: Defence, rng: np.random.Generator, *, given: Scenario) -> ContributedPoints | FailedTraining:
    """Points made by someone who knows the defence; for none, against the plain pipeline."""
    learner, split, terms = given.learner, given.split, given.terms
    project = _evading(defence, given)
    try:
        strengths = validated(learner, split, terms.bounds) if defence == "re-tuned" else given.strengths
        clean = PipelineModels.trained(learner, split, strengths)
        state = Campaign("learned" if defence == "re-tuned" else "fixed", split, clean)
        for size in given.sizes:
            step = contribute(state, rng, size=size, learner=learner, terms=terms, project=project)
            (made,) = all_done([step])
            if defence == "cross-validated":
                made = _again(state, size, made, rng, given)
            state = state.followed_by(made)
    except (Diverged, AttackFailed) as reason:
        return FailedTraining(str(reason))
    return ContributedPoints(state.levels)


def _again(state: Campaign, size: int, made: PoisonLevel, rng: np.random.Generator, given: Scenario) -> PoisonLevel:
    """The level that does most once cross-validation on the poisoned points has chosen its penalty."""
    learner, terms = given.learner, given.terms
    best, reached = made, -np.inf
    for _ in range(ROUNDS + 1):
        after = state.followed_by(made)
        mix = given.split.joined(after.points, after.labels)
        chosen = cross_validated(learner, mix, terms.clean_bounds, np.random.default_rng(0))
        trained = learner.plain(mix.trainer(learner), mix.X.shape[1], chosen[None])
        if trained.value[0] > reached:
            reached = float(trained.value[0])
            best = replace(made, poisoned=PipelineModels(trained.W[0], trained.b[0], chosen))
        if np.array_equal(chosen, made.poisoned.strengths):
            break
        step = contribute(state, rng, size=size, learner=learner, terms=terms, strengths=chosen)
        if isinstance(step, FailedTraining):
            break
        made = step
    return best


def _evading(defence: Defence, given: Scenario) -> Project | None:
    """Where points stay to get past a filter."""
    learner, split, terms, checks = given.learner, given.split, given.terms, given.checks
    if defence == "distance":
        known = sanitising.spheres(split.X_val, split.y_val, checks.share)
        return lambda points, targets: sanitising.into_spheres(points, learner.labels(targets), known, terms.low, terms.high)
    if defence == "neighbours":
        anchors = _kept("neighbours", split, checks)
        return lambda points, targets: sanitising.past_neighbours(
            points,
            learner.labels(targets),
            split.X,
            split.y,
            low=terms.low,
            high=terms.high,
            neighbours=checks.neighbours,
            agreement=checks.agreement,
            anchors=anchors,
        )
    return None


def defended(
    item: tuple[Defence, ContributedPoints], rng: np.random.Generator, *, given: Scenario
) -> DefendedPipeline | FailedTraining:
    """Models of a pipeline with the defence, and what it left out of clean and of contributed points."""
    (defence, made), learner, split = item, given.learner, given.split
    models, lost = [], []
    try:
        for mix in [split, *(split.joined(level.points, level.labels) for level in made.levels)]:
            kept = _kept(defence, mix, given.checks)
            sifted = replace(mix, X=mix.X[kept], y=mix.y[kept])
            clean, contributed = kept[: len(split.X)], kept[len(split.X) :]
            lost.append([1 - clean.mean(), 1 - contributed.mean() if len(contributed) else 0.0])
            strengths = given.strengths
            if defence == "re-tuned":
                strengths = validated(learner, sifted, given.terms.bounds)
            elif defence == "cross-validated":
                strengths = cross_validated(learner, sifted, given.terms.clean_bounds, np.random.default_rng(0))
            if defence == "vote":
                models.append(_voters(learner, mix, strengths, given.parts))
            else:
                models.append(PipelineModels.trained(learner, sifted, strengths))
    except Diverged as reason:
        return FailedTraining(str(reason))
    return DefendedPipeline(PipelineModels.stacked(models), np.array(lost))


def _kept(defence: Defence, mix: PipelineSplit, checks: Checks) -> Array:
    if defence == "neighbours":
        return sanitising.by_neighbours(mix.X, mix.y, neighbours=checks.neighbours, agreement=checks.agreement)
    if defence == "distance":
        return sanitising.by_distance(mix.X, mix.y, trusted=(mix.X_val, mix.y_val), share=checks.share)
    return np.ones(len(mix.X), dtype=bool)


def _voters(learner: PipelineLearner, mix: PipelineSplit, strengths: Array, parts: int) -> PipelineModels:
    """A model of each part, (parts, outputs, features). One that sees one class names it, one that sees none the first."""
    classes = np.asarray(learner.classes)
    part = partition.assign(mix.X, mix.y, parts)
    outputs = len(learner.targets(classes[:1]))
    W, b = np.zeros((parts, outputs, mix.X.shape[1])), np.zeros((parts, outputs))
    for number in range(parts):
        rows = part == number
        seen = np.unique(mix.y[rows])
        if len(seen) < 2:
            sides = learner.targets(seen if len(seen) else classes[:1])[:, 0]
            b[number] = 2 * sides - 1 if learner.risk in ("logistic", "softmax") else sides
            continue
        one = PipelineModels.trained(learner, replace(mix, X=mix.X[rows], y=mix.y[rows]), strengths)
        W[number], b[number] = one.W, one.b
    return PipelineModels(W, b, strengths)
