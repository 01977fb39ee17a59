"""Optimal poisoning of a pipeline that may re-tune its regularisation (Carnerero-Cano et al. 2021, ICLR workshop)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt

from divulge.attacks.poisoning import campaign
from divulge.attacks.poisoning.learners import PipelineLearner, Regime, learner_of, test_points
from divulge.attacks.poisoning.outcome import (
    CERTAIN,
    NAMES,
    LevelPenalties,
    Measured,
    Outcome,
    PoisonedPipelines,
    PoisonedSetting,
    leaves_open,
    measured,
)
from divulge.attacks.poisoning.records import Aim, Campaign, PipelineModels, PipelineSplit, Setting, Terms, all_done
from divulge.attacks.poisoning.transfer import told_of, transferred
from divulge.contract import (
    Access,
    Array,
    Attack,
    Candidates,
    Context,
    Finding,
    Pipeline,
    Poison,
    Preview,
    Remedy,
    Truth,
    Verdict,
    option_class,
    taxonomies,
)
from divulge.errors import AttackFailed, BadInput, NotApplicable

PAPER = (
    "Carnerero-Cano et al. 2021, Regularization Can Help Mitigate Poisoning Attacks... with the Right Hyperparameters, "
    "arXiv:2105.10948"
)
MEMORY = 6e9
"Bytes that the attack may take, which leaves something of 8 GB to others."
CHANCE = "The points do not raise the error more than chance and wrong labels do"


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if not bounds[0] < bounds[1]:
        raise ValueError(f"expected the lower bound first, got {bounds[0]:g} and {bounds[1]:g}; exchange them")
    return bounds


Bounds = Annotated[tuple[float, float], AfterValidator(_rising)]


@option_class
class Poisoning(Attack[Pipeline, Poison]):
    """Find points that, contributed to the training data, raise the model's error most.

    Penalties are given as λ, the natural logarithm of their weight: scikit-learn's C is exp(−λ), ridge's alpha exp(λ).
    """

    name: ClassVar[str] = "poisoning"
    paper: ClassVar[str] = PAPER
    scored_by: ClassVar[type[Access]] = Candidates
    taxonomy = taxonomies.POISONING
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        Remedy(
            "Re-tune the penalty whenever the training data change, on validation points that outsiders cannot touch.",
            "51 points of someone who knows it raised the error from 0.8 to 4.4 %, and from 0.9 to 15.7 % where the penalty "
            "stayed (docs/poisoning.md).",
        ),
        "Check contributed labels against those of their nearest neighbours, and distances to their class, before training; "
        "the study `poisoning-defences` measures what that is worth for your data.",
        "Limit what one contributor can add: damage grows with the share of points.",
    )

    points: PositiveInt = 51
    "How many points are contributed."
    batch: PositiveInt = 17
    "How many are added at a time, at each level."
    joint: bool = True
    "Whether all points go on moving at every level; without, earlier ones stay as they are."
    aim: Aim = "clean"
    "Whose loss the points raise: that of `validation` points, as published, or of all `clean` ones, those of training too."
    hyperparameter: Literal["fixed", "cross-validated", "learned"] | None = None
    "How the pipeline sets its penalty: once, by cross-validation on clean data, or anew on the validation points; as an \
estimator has it where not given, and else by cross-validation."
    strength: float | None = None
    "The fixed penalty λ; where not given, an estimator's own, and 0 for other learners: scikit-learn's default, C = 1."
    bounds: Bounds = (-8.0, 5.3)
    "Lowest and highest λ that the pipeline would use."
    clean_bounds: Bounds | None = None
    "Lowest and highest λ of the cross-validation; those of all where not given."
    regime: Regime = "converged"
    "Whether the pipeline trains to the end or stops early, after `epochs` steps of gradient descent at `rate` from 0."
    epochs: PositiveInt = 150
    "Steps of a training that stops early."
    rate: PositiveFloat = 0.1
    "Learning rate of a training that stops early."
    width: PositiveInt = 16
    "Hidden units, or channels, of a pipeline that trains a network by name."
    iterations: PositiveInt = 100
    "Moves of every batch where earlier points stay; with `joint` a quarter for new points, and half for all together."
    step: Annotated[float, Field(gt=0, le=1)] = 0.07
    "Length of a point's first move, in diagonals of the box that points stay in; it falls to 0."
    starts: PositiveInt = 3
    "How many first batches are tried, of which the strongest is taken; without `joint`, how many of every batch."
    repetitions: PositiveInt = 1
    "On how many splits of the clean data into training and validation points; the first is the one given."
    alone: bool = False
    "Attack the pipeline as it is, and neither other ways of setting the penalty nor the weakest and the strongest one."

    def run(self, held: Pipeline, context: Context) -> Finding[Poison]:
        own = self.setting(held)
        if self.strength is not None and own == "fixed" and not self.bounds[0] <= self.strength <= self.bounds[1]:
            raise BadInput(
                f"expected a strength within bounds {self.bounds[0]:g} to {self.bounds[1]:g}, got {self.strength:g}; "
                "correct one of them"
            )
        learner = learner_of(held, self.regime, self.epochs, self.rate, self.width, context.seed)
        self.check_size(held, learner)
        overlap = _overlap(held)
        if overlap:
            context.log(_trusted(overlap, held))
        campaigns, ended = self._campaigns(held, learner, context)
        if not campaigns[0].levels:
            raise AttackFailed(ended)
        seen = _seen(campaigns, overlap, ended, self.rate)
        ended_at = next(each for each in campaigns if each.setting == own and each.number == 0)
        loot = Poison(ended_at.points, ended_at.labels, held.shape, ended_at.begun)
        blind = measured(Outcome(learner, seen, len(held.X), own), "validation", partial(_untouched, campaigns))
        return self._judged(transferred(blind, held, loot, *_untouched(campaigns, own)[0]), loot, seen, held)

    def score(self, finding: Finding[Poison], held: Pipeline, truth: Truth) -> Finding[Poison]:
        seen = finding.evidence
        if finding.loot is None or not isinstance(seen, PoisonedPipelines):
            return finding
        learner = learner_of(held, self.regime, self.epochs, self.rate, self.width, finding.provenance.seed)
        test = test_points(truth, held, learner)
        if test is None:
            return finding
        outcome = Outcome(learner, seen, len(held.X), self.setting(held))
        by_test = measured(outcome, "test", lambda setting: [test] * self.repetitions)
        by_test = transferred(by_test, held, finding.loot, *test)
        terms = self.terms(held)
        judged = replace(
            finding,
            scores=by_test.scores(),
            figures=by_test.figures(finding.loot, terms.low, terms.high),
            notes=(*by_test.notes(), *self._notes(seen, held)),
        )
        said = by_test.sentence()
        if finding.verdict is Verdict.NONE_FOUND:
            if by_test.raised:
                return judged.corrected(Verdict.LEAK, f"Test points show what validation points could not: {said}")
            return replace(judged, summary=f"{CHANCE}: {said}")
        if by_test.raised or leaves_open(next(iter(judged.scores.values())), seen.rise):
            doubt = "" if by_test.raised else " Test points are too few to show it: chance may explain it, or wrong labels."
            return replace(judged, summary=f"{said}{doubt}")
        return judged.corrected(Verdict.FAILED, f"Test points show no rise beyond that of wrong labels alone: {said}")

    def _campaigns(self, held: Pipeline, learner: PipelineLearner, context: Context) -> tuple[list[Campaign], str]:
        """Every setting on every split, with the levels that all of them reached; and why no more were."""
        terms = self.terms(held)
        terms = replace(terms, bounds=learner.within(terms.bounds, np.asarray(held.X, float), held.y))
        settings = self._settings(held)
        prepare = partial(campaign.prepare, learner=learner, given=PipelineSplit.of(held), terms=terms, settings=settings)
        campaigns = [
            Campaign(setting, each.split, clean, number)
            for number, each in enumerate(all_done(context.map("clean", prepare, range(self.repetitions))))
            for setting, clean in each.clean.items()
        ]
        for level, size in enumerate(self.batches(), 1):
            contribute = partial(campaign.contribute, size=size, learner=learner, terms=terms)
            steps = context.map(f"level-{level}", contribute, campaigns)
            try:
                made = all_done(steps)
            except AttackFailed as reason:
                return campaigns, str(reason)
            campaigns = [each.followed_by(reached) for each, reached in zip(campaigns, made, strict=True)]
            if held.shape is not None:
                context.show(partial(_so_far, campaigns, self.setting(held), held.shape, self.points))
        return campaigns, ""

    def _judged(self, blind: Measured, loot: Poison, seen: PoisonedPipelines, held: Pipeline) -> Finding[Poison]:
        terms, scores = self.terms(held), blind.scores()
        own = next(iter(scores.values()))
        rest: dict[str, Any] = {
            "evidence": replace(seen, rise=own.value - own.null),
            "scores": scores,
            "figures": blind.figures(loot, terms.low, terms.high),
            "notes": (
                *blind.notes(),
                "Validation points, less those that contributed points began as, are what both sides optimised against: "
                "give test points as truth for an error that neither saw.",
                *self._notes(seen, held),
            ),
        }
        if blind.raised:
            return Finding.leak(loot, blind.sentence(), **rest)
        weakest = "weak" if "weak" in blind.errors else blind.outcome.own
        reached = blind.outcome.learner.shown(blind.mean(weakest))
        return Finding.none_found(
            f"{CHANCE}: {blind.sentence()}",
            power=f"the same attack reaches {reached} with the {NAMES[weakest]}; a rise that chance explains with less than "
            f"{100 * CERTAIN:g} % would have counted",
            loot=loot,
            **rest,
        )

    def setting(self, held: Pipeline) -> Setting:
        """How the pipeline sets its penalty."""
        if self.hyperparameter is not None:
            return self.hyperparameter
        return "cross-validated" if held.own is None or held.own.opaque else "fixed"

    def _settings(self, held: Pipeline) -> dict[Setting, float | None]:
        """Setting -> its λ, or None where it has to be found."""
        own, kept = self.setting(held), 0.0 if held.own is None else held.own.strength
        every: dict[Setting, float | None] = {
            "weak": self.bounds[0],
            "fixed": kept if self.strength is None else self.strength,
            "cross-validated": None,
            "learned": None,
            "strong": self.bounds[1],
        }
        if self.alone:
            return {own: every[own]}
        return {name: value for name, value in every.items() if name != "fixed" or own == "fixed"}

    def batches(self) -> list[int]:
        """How many points each batch has."""
        whole, rest = divmod(self.points, self.batch)
        return [self.batch] * whole + [rest] * (rest > 0)

    def terms(self, held: Pipeline) -> Terms:
        """How hard it tries, and within what."""
        low, high = held.box
        return Terms(
            self.starts,
            self.iterations,
            self.step,
            self.bounds,
            self.clean_bounds or self.bounds,
            low,
            high,
            self.joint,
            self.aim,
        )

    def check_size(self, held: Pipeline, learner: PipelineLearner) -> None:
        """Refuse what has too few points to begin from, or takes too much memory."""
        if min(self.batch, self.points) > len(held.X_val):
            raise NotApplicable(
                f"a batch of {self.batch} begins from as many different validation points, and there are {len(held.X_val)}; "
                "lower batch"
            )
        n, starts = len(held.X) + self.points, self.starts + 1
        outputs = 1 if learner.classes is None or len(learner.classes) == 2 else len(learner.classes)
        by_points = 8.0 * n * n * (2 * starts if self.regime == "converged" else 1) if n < 2 * held.X.shape[1] else 0.0
        kept = 0.0 if self.regime == "converged" else 4.0 * self.epochs * starts * outputs * (3 * n + held.X.shape[1])
        trainers = 2 if self.aim == "clean" and "learned" in self._settings(held) else 1
        needed = trainers * (by_points + kept) + 8.0 * n * held.X.shape[1] * 3
        if needed > MEMORY:
            raise NotApplicable(
                f"{self.points} points beside {len(held.X)} would take about {needed / 1e9:.0f} GB of memory, and "
                f"{MEMORY / 1e9:.0f} are allowed; lower points, starts or epochs"
            )

    def _notes(self, seen: PoisonedPipelines, held: Pipeline) -> list[str]:
        """What there is to say whichever points the error is measured on."""
        notes = [_trusted(seen.overlap, held)] if seen.overlap else []
        notes += [] if held.own is None else told_of(held.own)
        if self.regime == "converged":
            notes.append(
                "Regime: the pipeline trains to the end, as scikit-learn does; the attack differentiates the minimum."
            )
        else:
            notes.append(
                f"Regime: the pipeline stops early, after {self.epochs} steps of gradient descent at rate {self.rate:g}; "
                "the attack differentiates those steps."
            )
        if seen.ended:
            notes.append(f"Ended after {seen.counts[-1]} of {self.points} points: {seen.ended}")
        if self.regime == "early-stopped" and seen.rate < self.rate:
            notes.append(
                f"Training diverged at rate {self.rate:g}; it was halved until it settled, to {seen.rate:.3g} at the least."
            )
        if seen.restarts:
            notes.append(f"{seen.restarts} starts were stuck behind the best and began anew.")
        if seen.over_saddle is not None:
            notes.append(
                "Where the penalty is re-tuned, points and penalty moved against each other first, then points alone "
                "against the penalty this ended at; the stronger is reported (the loss that they raise "
                f"{100 * seen.over_saddle:+.1f} % over the saddle)."
            )
        return notes


def _so_far(campaigns: Sequence[Campaign], own: Setting, shape: tuple[int, ...], most: int) -> Preview:
    """The points contributed to the pipeline as it is, the last first."""
    mine = next(each for each in campaigns if each.setting == own and each.number == 0)
    return Preview("Contributed points", mine.points[::-1], shape, f"{len(mine.points)} of {most} points, the last first.")


def _seen(campaigns: Sequence[Campaign], overlap: int, ended: str, rate: float) -> PoisonedPipelines:
    """What the campaigns came to, as arrays over splits and levels."""
    settings = {}
    for setting in dict.fromkeys(each.setting for each in campaigns):
        chosen = [each for each in campaigns if each.setting == setting]
        settings[setting] = PoisonedSetting(
            _stacked([[each.clean, *(level.poisoned for level in each.levels)] for each in chosen]),
            _stacked([[each.clean, *(level.mislabelled for level in each.levels)] for each in chosen]),
        )
    levels = [level for each in campaigns for level in each.levels]
    answered = [level for each in campaigns if each.setting == "learned" for level in each.levels]
    counts = [0, *(len(level.points) for level in campaigns[0].levels)]
    return PoisonedPipelines(
        np.array(counts),
        settings,
        tuple(
            LevelPenalties(setting, count, models.poisoned.strengths[:, level])
            for setting, models in settings.items()
            for level, count in enumerate(counts)
        ),
        overlap,
        ended,
        min((level.rate for level in levels if level.rate), default=rate),
        sum(level.restarts for level in levels),
        float(np.mean([level.value / max(level.saddle, 1e-12) - 1 for level in answered])) if answered else None,
    )


def _stacked(models: Sequence[Sequence[PipelineModels]]) -> PipelineModels:
    """(splits, levels, ...)"""
    return PipelineModels.stacked([PipelineModels.stacked(levels) for levels in models])


def _untouched(campaigns: Sequence[Campaign], setting: str) -> list[tuple[Array, Array]]:
    """Validation points of every split that no contributed point began as: the model was not given those, mislabelled."""
    kept = []
    for each in campaigns:
        if each.setting == setting:
            split = each.split
            rest = np.setdiff1d(np.arange(len(split.y_val)), each.rows)
            rows = rest if len(rest) else np.arange(len(split.y_val))
            kept.append((split.X_val[rows], split.y_val[rows]))
    return kept


def _overlap(held: Pipeline) -> int:
    """How many validation points are training points too."""
    known = {row.tobytes() for row in np.ascontiguousarray(held.X, float)}
    return sum(row.tobytes() in known for row in np.ascontiguousarray(held.X_val, float))


def _trusted(overlap: int, held: Pipeline) -> str:
    return (
        f"{overlap} of {len(held.X_val)} validation points are training points too, so re-tuning trusts points that it was "
        "fitted to; keep the two apart."
    )
