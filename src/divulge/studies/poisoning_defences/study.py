"""What an owner can do against contributed points, each defence re-tested by an attack that knows it where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from divulge.attacks.poisoning.attack import PAPER, Bounds, Poisoning
from divulge.attacks.poisoning.campaign import cross_validated
from divulge.attacks.poisoning.learners import BY_NAME, PipelineLearner, Regime, learner_of, test_points
from divulge.attacks.poisoning.outcome import CERTAIN, paired_p_value
from divulge.attacks.poisoning.records import PipelineSplit, all_done
from divulge.contract import (
    Access,
    Array,
    Candidates,
    Context,
    Curve,
    Evidence,
    Finding,
    Pipeline,
    Poison,
    Remedy,
    Score,
    Study,
    Truth,
    Verdict,
    option_class,
    taxonomies,
)
from divulge.defences import partition
from divulge.defences.run_off import RunOff
from divulge.errors import NotApplicable
from divulge.studies.poisoning_defences.defending import (
    Checks,
    Defence,
    DefendedPipeline,
    Scenario,
    campaign,
    defended,
)

NAMES: dict[Defence, str] = {
    "none": "no defence",
    "re-tuned": "penalty re-tuned on validation points",
    "cross-validated": "penalty re-tuned by cross-validation",
    "neighbours": "labels checked against neighbours",
    "distance": "points far from their class left out",
    "vote": "vote of learners on parts",
    "run-off": "run-off between the two classes with most votes",
}
ELECTIONS: tuple[Defence, ...] = ("vote", "run-off")
"Ways to count what the same learners say, each with a certificate."
SIFTING: tuple[Defence, ...] = ("neighbours", "distance")
"Defences that leave points out."


@dataclass(frozen=True, eq=False)
class DefendedPipelines(Evidence):
    """Points made against the plain pipeline, and what every pipeline learned from its points."""

    poison: Poison
    counts: Array
    "(levels,): contributed points, from 0."
    plain: Mapping[Defence, DefendedPipeline]
    "With points that were made against no defence."
    knowing: Mapping[Defence, DefendedPipeline]
    "With points made by someone who knows the defence, where there is such an attack."


@option_class
class PoisoningDefences(Study[Pipeline]):
    """Poison a pipeline that defends itself: re-tuned penalties, sifted points, a vote with a certified bound.

    Every defence meets points made against the plain pipeline, and points made by an attacker who knows the defence.
    """

    name: ClassVar[str] = "poisoning-defences"
    asset: ClassVar[str] = "integrity"
    paper: ClassVar[str] = PAPER
    scored_by: ClassVar[type[Access]] = Candidates
    taxonomy = taxonomies.POISONING
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        "Choose the defence with the least error against the attack that knows it, and look at what it costs on clean data.",
        *Poisoning.remedy[2:],
    )

    points: PositiveInt = 51
    "How many points are contributed."
    batch: PositiveInt = 17
    "How many are added at a time, at each level; all points go on moving."
    bounds: Bounds = (-8.0, 5.3)
    "Lowest and highest λ, the logarithm of the penalty, that the pipeline would use."
    clean_bounds: Bounds | None = None
    "Lowest and highest λ of the cross-validation on clean data; those of all where not given."
    regime: Regime = "converged"
    "Whether the pipeline trains to the end or stops early, after `epochs` steps of gradient descent at `rate` from 0."
    epochs: PositiveInt = 150
    "Steps of a training that stops early."
    rate: PositiveFloat = 0.1
    "Learning rate of a training that stops early."
    iterations: PositiveInt = 100
    "As in `poisoning`: at every level a quarter of these moves for new points, and half for all together."
    step: Annotated[float, Field(gt=0, le=1)] = 0.07
    "Length of a point's first move, in diagonals of the box that points stay in; it falls to 0."
    starts: PositiveInt = 3
    "How many first batches are tried, of which the strongest is taken."
    neighbours: PositiveInt = 10
    "Nearest points whose labels a point is checked against."
    agreement: Annotated[float, Field(gt=0, le=1)] = 0.5
    "Share of them that has to carry its label."
    share: Annotated[float, Field(gt=0, le=1)] = 0.95
    "Share of the trusted points of a class that the distance filter would keep."
    parts: PositiveInt = 50
    "Parts of the training data that vote; more certify more and know less."

    def run(self, held: Pipeline, context: Context) -> Finding[Access]:
        if held.own is not None:
            raise NotApplicable(BY_NAME)
        learner = learner_of(held, self.regime, self.epochs, self.rate, 1, context.seed)
        if learner.classes is None or learner.network is not None or learner.groups is not None:
            raise NotApplicable("defences are measured for linear classifiers with one penalty; attack with `poisoning`")
        plain = self._plain()
        plain.check_size(held, learner)
        split, sizes = PipelineSplit.of(held), plain.batches()
        strengths = context.once(
            "penalty", lambda rng: cross_validated(learner, split, self.clean_bounds or self.bounds, rng)
        )
        checks = Checks(self.neighbours, self.agreement, self.share)
        given = Scenario(learner, split, plain.terms(held), checks, sizes, strengths, self.parts)
        against: list[Defence] = [name for name in NAMES if name not in ELECTIONS]
        made = all_done(context.map("points", partial(campaign, given=given), against))
        attacks = dict(zip(against, made, strict=True))
        cases: list[tuple[Defence, bool]] = [
            (name, knowing)
            for name in NAMES
            for knowing in (False, True)
            if name != "run-off" and not (knowing and name in ("none", "vote"))
        ]
        items = [(name, attacks[name if knowing else "none"]) for name, knowing in cases]
        trained = all_done(context.map("defended", partial(defended, given=given), items))
        unaware, aware = (
            {name: each for (name, knows), each in zip(cases, trained, strict=True) if knows is knowing}
            for knowing in (False, True)
        )
        points = attacks["none"].last
        poison = Poison(points.points, points.labels, held.shape, points.begun)
        seen = DefendedPipelines(poison, np.concatenate([[0], np.cumsum(sizes)]), unaware, aware)
        return self._judged(_Tested(learner, seen, "validation", held.X_val, held.y_val))

    def score(self, finding: Finding[Access], held: Pipeline, truth: Truth) -> Finding[Access]:
        seen = finding.evidence
        if not isinstance(seen, DefendedPipelines):
            return finding
        learner = learner_of(held, self.regime, self.epochs, self.rate, 1, finding.provenance.seed)
        test = test_points(truth, held, learner)
        if test is None:
            return finding
        scored = self._judged(_Tested(learner, seen, "test", *test))
        if finding.verdict is Verdict.LEAK and scored.verdict is not Verdict.LEAK:
            said = scored.summary[:1].lower() + scored.summary[1:]
            scored = scored.corrected(Verdict.FAILED, f"Test points do not bear out what validation points show: {said}")
        return replace(scored, remedy=finding.remedy, taxonomy=finding.taxonomy)

    def _judged(self, tested: _Tested) -> Finding[Access]:
        rest: dict[str, Any] = {
            "scores": tested.scores(), "figures": tested.figures(), "notes": tuple(tested.notes()),
        }  # fmt: skip
        if tested.raised:
            return Finding.shown(tested.seen, tested.sentence(), **rest)
        return Finding.none_found(
            f"The points do not raise the error of the plain pipeline more than chance does: {tested.sentence()}",
            power=f"{tested.points} points; a rise that chance explains with less than {100 * CERTAIN:g} % would have "
            "counted",
            evidence=tested.seen,
            **rest,
        )

    def _plain(self) -> Poisoning:
        """The attack on the pipeline without a defence."""
        return Poisoning(
            points=self.points,
            batch=self.batch,
            bounds=self.bounds,
            clean_bounds=self.clean_bounds,
            regime=self.regime,
            epochs=self.epochs,
            rate=self.rate,
            iterations=self.iterations,
            step=self.step,
            starts=self.starts,
        )


@dataclass(frozen=True, eq=False)
class _Tested:
    """Every defence on one set of points."""

    learner: PipelineLearner
    seen: DefendedPipelines
    where: str
    X: Array
    y: Array

    @property
    def points(self) -> int:
        return int(self.seen.counts[-1])

    @property
    def classes(self) -> Array:
        return np.asarray(self.learner.classes)

    @property
    def names(self) -> list[Defence]:
        """Between two classes a run-off is the vote."""
        return [name for name in NAMES if name != "run-off" or len(self.classes) > 2]

    @property
    def elections(self) -> list[Defence]:
        return [name for name in self.names if name in ELECTIONS]

    @property
    def raised(self) -> bool:
        wrong = self._wrong("none")
        return paired_p_value(wrong[-1], wrong[0]) < CERTAIN

    def errors(self, defence: Defence, knowing: bool = False) -> Array:
        """(levels,)"""
        return np.asarray(self._wrong(defence, knowing).mean(axis=1))

    def certified(self, election: Defence) -> Array:
        """(levels,): error of the election on clean data that no points of that number can exceed."""
        votes, truth = self._votes(election, 0), np.searchsorted(self.classes, self.y)
        return np.array([partition.certified_error(votes, truth, int(count)) for count in self.seen.counts])

    def sentence(self) -> str:
        shown, errors = self.learner.shown, self.errors("none")
        facing = {name: self._worst(name) for name in NAMES if name not in ("none", *ELECTIONS)}
        best = min(facing, key=lambda name: facing[name])
        clean = float(self.errors(best)[0] - errors[0])
        bounds = ", and the run-off ".join(self._bound(name) for name in self.elections)
        return (
            f"{self.points} points raise {self.where} error from {shown(float(errors[0]))} to {shown(float(errors[-1]))}; "
            f"of the defences tried, {NAMES[best]} leaves least, {shown(facing[best])} against the stronger of two attacks, "
            f"and costs {100 * clean:+.1f} points of error on clean data. The vote of learners certifies "
            f"{bounds}."
        )

    def _bound(self, election: Defence) -> str:
        """What it certifies, unless a guess does as well."""
        bound = float(self.certified(election)[-1])
        return f"at most {self.learner.shown(bound)}" if bound < 1 - 1 / len(self.classes) else "no bound that is of use"

    def _worst(self, name: Defence) -> float:
        attackers = (False, True) if name in self.seen.knowing else (False,)
        return max(float(self.errors(name, knowing)[-1]) for knowing in attackers)

    def scores(self) -> dict[str, Score]:
        clean = float(self.errors("none")[0])
        scores = {f"{self.where} error": Score(float(self.errors("none")[-1]), clean, "no points")}
        for name in self.names:
            if name == "none":
                continue
            without = float(self.errors(name)[0])
            scores[f"{self.where} error, {NAMES[name]}"] = Score(float(self.errors(name)[-1]), without, "no points")
            if name in self.seen.knowing:
                known = float(self.errors(name, knowing=True)[-1])
                scores[f"{self.where} error, {NAMES[name]}, known to the attacker"] = Score(known, without, "no points")
        for name in SIFTING:
            lost = self.seen.plain[name].lost
            scores[f"contributed points left out, {NAMES[name]}"] = Score(
                float(lost[-1, 1]), float(lost[-1, 0]), "clean points left out", better="lower"
            )
        for name in self.elections:
            scores[f"{self.where} error certified, {NAMES[name]}"] = Score(
                float(self.certified(name)[-1]), 1.0, "no certificate", better="higher"
            )
        return scores

    def notes(self) -> list[str]:
        shown, notes = self.learner.shown, []
        for name in self.names:
            said = [f"{shown(float(value))}" for value in self.errors(name)]
            text = f"{NAMES[name].capitalize()}: {self.where} error {', '.join(said)}"
            if name in self.seen.knowing:
                text += (
                    f"; known to the attacker {', '.join(shown(float(value)) for value in self.errors(name, knowing=True))}"
                )
            if name in SIFTING:
                lost, evaded = self.seen.plain[name].lost[-1], self.seen.knowing[name].lost[-1]
                text += (
                    f"; leaves out {100 * lost[1]:.0f} % of the contributed points ({100 * evaded[1]:.0f} % where the "
                    f"attacker knows it) and {100 * lost[0]:.1f} % of the clean ones"
                )
            if name in ELECTIONS:
                bounds = ", ".join(shown(float(value)) for value in self.certified(name))
                text += f"; certified, whatever the points are: {bounds}"
            notes.append(text + f" with {', '.join(str(int(count)) for count in self.seen.counts)} points.")
        notes.append(
            "An attack that knows a filter keeps its points where the filter lets them pass; one that knows a re-tuned "
            "penalty moves against it. Errors of attacks are lower bounds on the worst case; the certified one is an upper "
            "bound, for votes alone, as long as its penalty was chosen before the points came."
        )
        if self.where == "validation":
            notes.append(
                "Contributed points began as some of these validation points and were optimised against all of them: give "
                "test points as truth for errors that neither side saw."
            )
        return notes

    def figures(self) -> tuple[Curve, ...]:
        counts = self.seen.counts.astype(float)
        plain = {NAMES[name]: (counts, 100 * self.errors(name)) for name in self.names}
        knowing = {NAMES["none"]: plain[NAMES["none"]]}
        for name in NAMES:
            if name in self.seen.knowing:
                knowing[NAMES[name]] = (counts, 100 * self.errors(name, knowing=True))
        knowing |= {f"{name}, certified bound": (counts, 100 * self.certified(name)) for name in self.elections}
        x, y = "contributed points", f"{self.where} error, %"
        return (
            Curve("Points made against the plain pipeline", x, y, plain),
            Curve("Points made by someone who knows the defence", x, y, knowing),
        )

    def _wrong(self, defence: Defence, knowing: bool = False) -> Array:
        """(levels, points)"""
        if defence in ELECTIONS:
            levels = range(len(self.seen.counts))
            return np.stack([self.classes[self._votes(defence, level).winner] != self.y for level in levels])
        models = (self.seen.knowing if knowing else self.seen.plain)[defence].models
        return self.learner.wrong(models.W, models.b, self.X, self.y)

    def _votes(self, election: Defence, level: int) -> partition.Certified:
        models = self.seen.plain["vote"].models
        W, b = models.W[level], models.b[level]
        if election == "run-off":
            return RunOff.of(np.moveaxis(W @ self.X.T + b[..., None], 1, 2))
        said = self.learner.named(W, b, self.X)
        return partition.Votes(np.stack([(said == label).sum(axis=0) for label in self.classes], axis=1))
