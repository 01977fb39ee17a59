"""Points that make a pipeline end at chosen parameters (Lu, Kamath and Yu 2023, ICML, arXiv:2303.03592)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from divulge.attacks.poisoning.attack import CHANCE, Poisoning
from divulge.attacks.poisoning.learners import BY_NAME, PipelineLearner, learner_of, test_points
from divulge.attacks.poisoning.outcome import CERTAIN, FLIPPED, half_width, paired_p_value
from divulge.attacks.poisoning.records import PipelineModels, PipelineSplit
from divulge.contract import (
    Access,
    Array,
    Baseline,
    Candidates,
    Context,
    Evidence,
    Finding,
    Pipeline,
    Poison,
    Remedy,
    Score,
    Truth,
    option_class,
    taxonomies,
)
from divulge.errors import AttackFailed, NotApplicable
from divulge.solvers.bilevel import cancelling
from divulge.solvers.bilevel.inner import Diverged

STRIDE = 0.05
"Length of the first step to a target, in norms of the clean parameters. A step to what cannot be reached is halved."
STRIDES = 30
"Steps to a target, of which those that are halved soon leave it where it is."


@dataclass(frozen=True, eq=False)
class CancelledGradient(Evidence):
    """Where training was meant to end, what that takes, and where it ends."""

    clean: PipelineModels
    target: PipelineModels
    poisoned: PipelineModels
    mislabelled: PipelineModels
    "With the points as they began: wrong labels alone."
    needed: float
    "The fewest points in the box with which training ends at the target, as a real number."
    bound: float
    "The published bound on that, for a box of any size."
    left: float
    "The gradient that the points leave at the target, in that without them."


@option_class
class GradientCancelling(Baseline[Pipeline, Poison]):
    """Choose parameters with a high validation loss, and find points whose gradient there cancels that of the clean ones.

    The pipeline trains to the end with a fixed penalty λ, the natural logarithm of its weight. The target is the last
    parameters of a gradient ascent on the validation loss that so many points can reach.
    """

    name: ClassVar[str] = "gradient-cancelling"
    paper: ClassVar[str] = (
        "Lu, Kamath and Yu 2023, Exploring the Limits of Model-Targeted Indiscriminate Data Poisoning Attacks, "
        "arXiv:2303.03592"
    )
    scored_by: ClassVar[type[Access]] = Candidates
    taxonomy = taxonomies.POISONING
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        *Poisoning.remedy,
        "Do not take this method's failure for safety: it is a baseline, and `poisoning` does more with as many points.",
    )

    points: PositiveInt = 51
    "How many points are contributed."
    strength: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    "The fixed penalty λ; 0 is scikit-learn's default, C = 1."

    def run(self, held: Pipeline, context: Context) -> Finding[Poison]:
        learner = _linear(held, context.seed)
        split = PipelineSplit.of(held)
        try:
            clean = PipelineModels.trained(learner, split, np.array([self.strength]))
            target, reach = self._target(held, learner, split, clean)
            X, y, begun = self._points(held, learner, split, target, reach, context.rng)
            poisoned, mislabelled = (
                PipelineModels.trained(learner, split.joined(points, y), clean.strengths) for points in (X, begun)
            )
        except Diverged as reason:
            raise AttackFailed(str(reason)) from None
        problem = self._problem(held, learner, split, target)
        none = problem.left(X[:0], np.zeros(0))
        left = problem.left(X, learner.targets(y)[0])
        seen = CancelledGradient(
            clean, target, poisoned, mislabelled, reach.needed, cancelling.published_bound(problem),
            float(np.linalg.norm(left) / max(float(np.linalg.norm(none)), np.finfo(float).tiny)),
        )  # fmt: skip
        loot = Poison(X, y, held.shape)
        return self._judged(loot, seen, len(held.X), learner, "validation", held.X_val, held.y_val)

    def score(self, finding: Finding[Poison], held: Pipeline, truth: Truth) -> Finding[Poison]:
        if finding.loot is None or not isinstance(finding.evidence, CancelledGradient):
            return finding
        learner = _linear(held, finding.provenance.seed)
        test = test_points(truth, held, learner)
        if test is None:
            return finding
        tested = self._judged(finding.loot, finding.evidence, len(held.X), learner, "test", *test)
        told = {name: getattr(tested, name) for name in ("verdict", "summary", "power", "scores", "notes")}
        return replace(finding, **told)

    def _problem(
        self, held: Pipeline, learner: PipelineLearner, split: PipelineSplit, at: PipelineModels
    ) -> cancelling.Objective:
        low, high = held.box
        weights = np.full(split.X.shape[1], np.exp(self.strength))
        return cancelling.Objective.at(
            learner.risk, at.W[0], float(at.b[0]), split.X, learner.targets(split.y)[0], weights, low=low, high=high
        )

    def _target(
        self, held: Pipeline, learner: PipelineLearner, split: PipelineSplit, clean: PipelineModels
    ) -> tuple[PipelineModels, cancelling.Reach]:
        """θ ← θ + stride ∂L/∂θ / ‖∂L/∂θ‖ for the validation loss L, as far as the points reach."""
        at, reach = clean, cancelling.reach(self._problem(held, learner, split, clean))
        stride = STRIDE * float(np.hypot(np.linalg.norm(clean.W), np.linalg.norm(clean.b)))
        Y_val = learner.targets(split.y_val)
        for _ in range(STRIDES):
            s = cancelling.slopes(learner.risk, at.W @ split.X_val.T + at.b[:, None], Y_val)
            step, step_b = s @ split.X_val, s.sum(axis=1)
            length = max(float(np.hypot(np.linalg.norm(step), np.linalg.norm(step_b))), np.finfo(float).tiny)
            tried = replace(at, W=at.W + stride * step / length, b=at.b + stride * step_b / length)
            found = cancelling.reach(self._problem(held, learner, split, tried))
            if found.needed <= self.points:
                at, reach = tried, found
            else:
                stride /= 2
        return at, reach

    def _points(
        self,
        held: Pipeline,
        learner: PipelineLearner,
        split: PipelineSplit,
        target: PipelineModels,
        reach: cancelling.Reach,
        rng: np.random.Generator,
    ) -> tuple[Array, Array, Array]:
        """Points, labels in the shares needed, and as many validation points with other labels.

        The descent begins at those, as published, and at copies of the two points that suffice; the better end is taken.
        """
        classes = np.asarray(learner.classes)
        up = round(self.points * float(reach.counts[1] / max(reach.needed, np.finfo(float).tiny)))
        y = np.repeat(classes, [self.points - up, up])
        rows = [
            rng.choice(others, count, replace=count > len(others))
            for label, count in zip(classes, (self.points - up, up), strict=True)
            for others in [np.flatnonzero(split.y_val != label)]
        ]
        begun = split.X_val[np.concatenate(rows)].astype(float)
        problem, targets = self._problem(held, learner, split, target), learner.targets(y)[0]
        fewest = reach.X[(targets == reach.y[1]).astype(int)]
        ended = [cancelling.cancelled(problem, start, targets) for start in (begun, fewest)]
        X = min(ended, key=lambda points: float(np.linalg.norm(problem.left(points, targets))))
        return X, y, begun

    def _judged(
        self, loot: Poison, seen: CancelledGradient, size: int, learner: PipelineLearner, where: str, X: Array, y: Array
    ) -> Finding[Poison]:
        models = (seen.clean, seen.target, seen.poisoned, seen.mislabelled)
        wrong = [learner.wrong(model.W[None], model.b[None], X, y)[0] for model in models]
        clean, target, reached, plain = (float(each.mean()) for each in wrong)
        raised = max(paired_p_value(wrong[2], other) for other in (wrong[0], wrong[3])) < CERTAIN
        off = half_width(wrong[2], wrong[3])
        shown, share = learner.shown, 100 * self.points / size
        sentence = (
            f"{self.points} points ({share:.1f} % of the training set) raise {where} error from {shown(clean)} to "
            f"{shown(reached)}; they aim at parameters with {shown(target)}, which take {seen.needed:.1f} points at least, "
            f"and leave {seen.left:.1g} of the gradient there."
        )
        rest: dict[str, Any] = {
            "evidence": seen,
            "scores": {
                f"{where} error": Score(
                    reached, plain, FLIPPED, interval=(max(reached - off, 0.0), min(reached + off, 1.0)), most=1.0
                ),
                f"{where} error of the target": Score(target, clean, "the clean model"),
                "gradient left at the target": Score(seen.left, 1.0, "no points", better="lower"),
                "points needed for the target": Score(seen.needed, seen.bound, "the published bound, without a box"),
            },
            "notes": (
                "The fewest points are exact, of all in the box: of each label copies of one suffice, and a convex "
                "programme in two numbers has their places.",
                *(("Give test points as truth for an error that the target was not chosen by.",) * (where == "validation")),
            ),
        }
        if raised:
            return Finding.leak(loot, sentence, **rest)
        return Finding.none_found(
            f"{CHANCE}: {sentence}",
            power=f"a rise that chance explains with less than {100 * CERTAIN:g} %, beyond that of wrong labels, would have "
            "counted",
            loot=loot,
            **rest,
        )


def _linear(held: Pipeline, seed: int) -> PipelineLearner:
    """The learner, where it has one score that is linear and smooth enough, and a penalty of one weight."""
    if held.own is not None:
        raise NotApplicable(BY_NAME)
    learner = learner_of(held, "converged", 1, 1.0, 1, seed)
    if learner.classes is None or learner.network is not None or learner.risk not in cancelling.SIDES:
        raise NotApplicable("gradients are cancelled for two classes and a linear score; attack others with `poisoning`")
    if learner.groups is not None:
        raise NotApplicable("gradients are cancelled for one penalty on all features; attack groups with `poisoning`")
    return learner
