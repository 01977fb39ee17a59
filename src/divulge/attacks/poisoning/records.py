"""The values of a campaign of contributed points: what a step is given, what it makes, and how one fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from divulge.attacks.poisoning.learners import PipelineLearner
from divulge.contract import Array, Evidence, Pipeline
from divulge.errors import AttackFailed
from divulge.solvers.bilevel.ascent import Trainer

Setting = Literal["weak", "fixed", "cross-validated", "learned", "strong"]
"How a pipeline sets its penalty: at an end of its bounds, or one of the ways that `Poisoning` attacks."
Aim = Literal["clean", "validation"]
"All clean points, of training and validation, or those of validation alone."
Step = TypeVar("Step", bound=Evidence)


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
    joint: bool = True
    "Whether points of earlier levels go on moving; without, they stay as they are."
    aim: Aim = "clean"
    "The points whose loss is raised; a penalty that is re-tuned lowers that of validation points."

    @property
    def length(self) -> Array:
        """Of the first move of a point, by feature: in units of the box's sides, so that units of features do not matter."""
        return np.asarray(self.step * len(self.low) ** 0.5 * (self.high - self.low))

    def into_box(self, points: Array, targets: Array) -> Array:
        return np.clip(points, self.low, self.high)


@dataclass(frozen=True, eq=False)
class PipelineSplit(Evidence):
    """Training points, contributed ones among them, and validation points."""

    X: Array
    y: Array
    X_val: Array
    y_val: Array

    @classmethod
    def of(cls, held: Pipeline) -> PipelineSplit:
        """As the pipeline was given."""
        return cls(np.asarray(held.X, float), held.y, np.asarray(held.X_val, float), held.y_val)

    def joined(self, points: Array, labels: Array) -> PipelineSplit:
        return replace(self, X=np.concatenate([self.X, points]), y=np.concatenate([self.y, labels]))

    def trainer(self, learner: PipelineLearner) -> Trainer:
        return learner.trainer(self.X, self.y, self.X_val, self.y_val)


@dataclass(frozen=True, eq=False)
class PipelineModels(Evidence):
    """Weights, intercepts, and the logarithms λ of the penalties that they were trained with.

    One model has W (outputs, features), b (outputs,) and strengths (penalties,); several have these axes last.
    """

    W: Array
    b: Array
    strengths: Array

    @classmethod
    def trained(cls, learner: PipelineLearner, split: PipelineSplit, strengths: Array) -> PipelineModels:
        """What the learner makes of a split."""
        own = learner.read_again(split.X, split.y, strengths)
        if own is not None:
            return cls(*own, strengths)
        found = learner.plain(split.trainer(learner), split.X.shape[1], strengths[None])
        return cls(found.W[0], found.b[0], strengths)

    @classmethod
    def stacked(cls, models: Sequence[PipelineModels]) -> PipelineModels:
        """As one, with an axis more in front."""
        return cls(*(np.array([getattr(each, kind) for each in models]) for kind in ("W", "b", "strengths")))


@dataclass(frozen=True, eq=False)
class PreparedSplit(Evidence):
    """A split, and the clean model of every setting."""

    split: PipelineSplit
    clean: Mapping[Setting, PipelineModels]


@dataclass(frozen=True, eq=False)
class PoisonLevel(Evidence):
    """All points contributed up to a level, those of earlier levels first, and the models that come of them."""

    points: Array
    labels: Array
    begun: Array
    "The validation points that they began as."
    rows: Array
    "Which of the validation points these are."
    poisoned: PipelineModels
    mislabelled: PipelineModels
    "The same with the points as they began: wrong labels alone."
    value: float
    "Loss that the points reach, on those that are aimed at."
    saddle: float
    "What it was where points and penalty moved against each other; the same where the penalty does not answer."
    restarts: int
    rate: float
    "The learning rate, after halvings; 0 where training has none."


@dataclass(frozen=True)
class FailedTraining(Evidence):
    """A step of a campaign whose training diverged, as a value: it is kept like the others."""

    reason: str


@dataclass(frozen=True, eq=False)
class Campaign:
    """One setting on one split, with the levels that were reached so far."""

    setting: Setting
    split: PipelineSplit
    clean: PipelineModels
    number: int = 0
    "Of the split, from 0."
    levels: tuple[PoisonLevel, ...] = ()

    def followed_by(self, level: PoisonLevel) -> Campaign:
        return replace(self, levels=(*self.levels, level))

    @property
    def points(self) -> Array:
        """Contributed so far, where they are now."""
        return self.levels[-1].points if self.levels else self.split.X[:0].astype(float)

    @property
    def begun(self) -> Array:
        return self.levels[-1].begun if self.levels else self.split.X[:0].astype(float)

    @property
    def rows(self) -> Array:
        return self.levels[-1].rows if self.levels else np.zeros(0, dtype=int)

    @property
    def labels(self) -> Array:
        return self.levels[-1].labels if self.levels else self.split.y[:0]

    @property
    def strengths(self) -> Array:
        """The penalties that the next level begins with."""
        return (self.levels[-1].poisoned if self.levels else self.clean).strengths


def all_done(steps: Sequence[Step | FailedTraining]) -> list[Step]:
    """What the steps made; one that failed ends the attack."""
    done: list[Step] = []
    for step in steps:
        if isinstance(step, FailedTraining):
            raise AttackFailed(step.reason)
        done.append(step)
    return done
