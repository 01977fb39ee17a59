"""What an owner can do against contributed points, each defence re-tested by an attack that knows it where there is one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from divulge.attacks.poisoning.attack import PAPER, TAXONOMY, Bounds, Poisoning
from divulge.attacks.poisoning.campaign import Split, cross_validated
from divulge.attacks.poisoning.learners import Learner, Regime, learner_of, test_points
from divulge.attacks.poisoning.outcome import CERTAIN, worse
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
    Score,
    Study,
    TaxonomyId,
    Truth,
    Verdict,
    option_class,
)
from divulge.defences import partition
from divulge.errors import AttackFailed, NotApplicable
from divulge.studies.poisoning_defences.defending import campaign, defended

NAMES = {
    "none": "no defence",
    "re-tuned": "penalty re-tuned on validation points",
    "cross-validated": "penalty re-tuned by cross-validation",
    "neighbours": "labels checked against neighbours",
    "distance": "points far from their class left out",
    "vote": "vote of learners on parts",
}
USELESS = 0.5
"An error that a guess keeps below."
SIFTING = ("neighbours", "distance")
"Defences that leave points out."


@dataclass(frozen=True, eq=False)
class DefendedPipelines(Evidence):
    """Points made against the plain pipeline, and what every pipeline learned from its points."""

    poison: Poison


@option_class
class PoisoningDefences(Study[Pipeline]):
    """Poison a pipeline that defends itself: re-tuned penalties, sifted points, a vote with a certified bound.

    Every defence meets points made against the plain pipeline, and points made by an attacker who knows the defence.
    """

    name: ClassVar[str] = "poisoning-defences"
    paper: ClassVar[str] = PAPER
    scored_by: ClassVar[type[Access]] = Candidates
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = TAXONOMY
    remedy: ClassVar[tuple[str, ...]] = (
        "Choose the defence with the least error against the attack that knows it, and look at what it costs on clean data.",
        *Poisoning.remedy[2:],
    )

    points: PositiveInt = 51
    "How many points are contributed."
    batch: PositiveInt = 17
    "How many are made at a time; earlier ones stay as they are."
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
    "Moves of every batch of points."
    step: Annotated[float, Field(gt=0, le=1)] = 0.07
    "Length of a point's first move, in diagonals of the box that points stay in; it falls to 0."
    starts: PositiveInt = 3
    "How many batches are tried, of which the strongest is taken."
    neighbours: PositiveInt = 10
    "Nearest points whose labels a point is checked against."
    agreement: Annotated[float, Field(gt=0, le=1)] = 0.5
    "Share of them that has to carry its label."
    share: Annotated[float, Field(gt=0, le=1)] = 0.95
    "Share of the trusted points of a class that the distance filter would keep."
    parts: PositiveInt = 50
    "Parts of the training data that vote; more certify more and know less."

    def run(self, held: Pipeline, context: Context) -> Finding[Access]:
        learner = learner_of(held, self.regime, self.epochs, self.rate, 1, context.seed)
        if learner.classes is None or learner.network is not None or learner.groups is not None:
            raise NotApplicable("defences are measured for linear classifiers with one penalty; attack with `poisoning`")
        plain = self._plain()
        plain.check_size(held, learner)
        split = Split(np.asarray(held.X, float), held.y, np.asarray(held.X_val, float), held.y_val)
        given: dict[str, Any] = {"learner": learner, "split": split, "terms": plain.terms(held), "checks": self._checks()}
        strengths = context.once(
            "penalty", lambda rng: cross_validated(learner, split, self.clean_bounds or self.bounds, rng)
        )
        sizes = plain.batches()
        against = [name for name in NAMES if name != "vote"]
        made = context.map("points", partial(campaign, sizes=sizes, strengths=strengths, **given), against)
        failed = [each["failed"] for each in made if "failed" in each]
        if failed:
            raise AttackFailed(failed[0])
        attacks = dict(zip(against, made, strict=True))
        cases = [
            (name, knowing) for name in NAMES for knowing in (False, True) if not (knowing and name in ("none", "vote"))
        ]
        items = [(name, attacks[name if knowing else "none"]) for name, knowing in cases]
        trained = context.map(
            "defended", partial(defended, sizes=sizes, strengths=strengths, parts=self.parts, **given), items
        )
        failed = [each["failed"] for each in trained if "failed" in each]
        if failed:
            raise AttackFailed(failed[0])
        arrays = {
            f"{name}{' knowing' if knowing else ''} {kind}": value
            for (name, knowing), each in zip(cases, trained, strict=True)
            for kind, value in each.items()
        }
        arrays["counts"] = np.concatenate([[0], np.cumsum(sizes)])
        points = attacks["none"]
        loot = Poison(points["points"], points["labels"], held.shape, points["begun"], arrays)
        return self._judged(_Tested(learner, arrays, "validation", held.X_val, held.y_val), DefendedPipelines(loot))

    def score(self, finding: Finding[Access], held: Pipeline, truth: Truth) -> Finding[Access]:
        seen = finding.evidence
        if not isinstance(seen, DefendedPipelines):
            return finding
        learner = learner_of(held, self.regime, self.epochs, self.rate, 1, finding.provenance.seed)
        test = test_points(truth, held, learner)
        if test is None:
            return finding
        tested = _Tested(learner, seen.poison.trained, "test", *test)
        scored = self._judged(tested, seen)
        if finding.verdict is Verdict.LEAK and scored.verdict is not Verdict.LEAK:
            scored = replace(scored, verdict=Verdict.FAILED)
        return replace(scored, remedy=finding.remedy, taxonomy=finding.taxonomy)

    def _judged(self, tested: _Tested, seen: DefendedPipelines) -> Finding[Access]:
        rest: dict[str, Any] = {
            "scores": tested.scores(), "figures": tested.figures(), "notes": tuple(tested.notes()),
        }  # fmt: skip
        if tested.raised:
            return Finding.shown(seen, tested.sentence(), **rest)
        return Finding.none_found(
            f"The points do not raise the error of the plain pipeline more than chance does: {tested.sentence()}",
            power=f"{tested.points} points; a rise that chance explains with less than 1 % would have counted",
            evidence=seen, **rest,
        )  # fmt: skip

    def _plain(self) -> Poisoning:
        same = ("points", "batch", "bounds", "clean_bounds", "regime", "epochs", "rate", "iterations", "step", "starts")
        return Poisoning(**{name: getattr(self, name) for name in same})

    def _checks(self) -> dict[str, Any]:
        return {"neighbours": self.neighbours, "agreement": self.agreement, "share": self.share}


@dataclass(frozen=True, eq=False)
class _Tested:
    """Every defence on one set of points."""

    learner: Learner
    arrays: Any
    where: str
    X: Array
    y: Array

    @property
    def points(self) -> int:
        return int(self.arrays["counts"][-1])

    @property
    def classes(self) -> Array:
        return np.asarray(self.learner.classes)

    @property
    def raised(self) -> bool:
        wrong = self._wrong("none")
        return worse(wrong[-1], wrong[0]) < CERTAIN

    def errors(self, case: str) -> Array:
        """(levels,)"""
        return np.asarray(self._wrong(case).mean(axis=1))

    def certified(self) -> Array:
        """(levels,): error of the vote on clean data that no points of that number can exceed."""
        votes, truth = self._votes(0), np.searchsorted(self.classes, self.y)
        return np.array([partition.certified_error(votes, truth, int(count)) for count in self.arrays["counts"]])

    def sentence(self) -> str:
        shown, errors = self.learner.shown, self.errors("none")
        facing = {name: self._worst(name) for name in NAMES if name not in ("none", "vote")}
        best = min(facing, key=lambda name: facing[name])
        clean = float(self.errors(best)[0] - errors[0])
        return (
            f"{self.points} points raise {self.where} error from {shown(float(errors[0]))} to {shown(float(errors[-1]))}; "
            f"of the defences tried, {NAMES[best]} leaves least, {shown(facing[best])} against the stronger of two attacks, "
            f"and costs {100 * clean:+.1f} points of error on clean data. The vote of learners certifies {self._bound()}."
        )

    def _bound(self) -> str:
        bound = float(self.certified()[-1])
        return f"at most {self.learner.shown(bound)}" if bound < USELESS else "no bound that is of use"

    def _worst(self, name: str) -> float:
        cases = [name, f"{name} knowing"] if f"{name} knowing W" in self.arrays else [name]
        return max(float(self.errors(case)[-1]) for case in cases)

    def scores(self) -> dict[str, Score]:
        clean = float(self.errors("none")[0])
        scores = {f"{self.where} error": Score(float(self.errors("none")[-1]), clean, "no points")}
        for name in NAMES:
            if name == "none":
                continue
            without = float(self.errors(name)[0])
            scores[f"{self.where} error, {NAMES[name]}"] = Score(float(self.errors(name)[-1]), without, "no points")
            if f"{name} knowing W" in self.arrays:
                known = float(self.errors(f"{name} knowing")[-1])
                scores[f"{self.where} error, {NAMES[name]}, known to the attacker"] = Score(known, without, "no points")
        for name in SIFTING:
            lost = self.arrays[f"{name} lost"]
            scores[f"contributed points left out, {NAMES[name]}"] = Score(
                float(lost[-1, 1]), float(lost[-1, 0]), "clean points left out", better="lower"
            )
        scores[f"{self.where} error certified, {NAMES['vote']}"] = Score(
            float(self.certified()[-1]), 1.0, "no certificate", better="higher"
        )
        return scores

    def notes(self) -> list[str]:
        shown, notes = self.learner.shown, []
        for name in NAMES:
            said = [f"{shown(float(value))}" for value in self.errors(name)]
            text = f"{NAMES[name].capitalize()}: {self.where} error {', '.join(said)}"
            if f"{name} knowing W" in self.arrays:
                text += (
                    f"; known to the attacker {', '.join(shown(float(value)) for value in self.errors(f'{name} knowing'))}"
                )
            if name in SIFTING:
                lost, evaded = self.arrays[f"{name} lost"][-1], self.arrays[f"{name} knowing lost"][-1]
                text += (
                    f"; leaves out {100 * lost[1]:.0f} % of the contributed points ({100 * evaded[1]:.0f} % where the "
                    f"attacker knows it) and {100 * lost[0]:.1f} % of the clean ones"
                )
            if name == "vote":
                text += (
                    f"; certified, whatever the points are: {', '.join(shown(float(value)) for value in self.certified())}"
                )
            notes.append(text + f" with {', '.join(str(int(count)) for count in self.arrays['counts'])} points.")
        notes.append(
            "An attack that knows a filter keeps its points where the filter lets them pass; one that knows a re-tuned "
            "penalty moves against it. Errors of attacks are lower bounds on the worst case; the certified one is an upper "
            "bound, for the vote alone, as long as its penalty was chosen before the points came."
        )
        if self.where == "validation":
            notes.append(
                "Contributed points began as some of these validation points and were optimised against all of them: give "
                "test points as truth for errors that neither side saw."
            )
        return notes

    def figures(self) -> tuple[Curve, ...]:
        counts = self.arrays["counts"].astype(float)
        plain = {NAMES[name]: (counts, 100 * self.errors(name)) for name in NAMES}
        knowing = {NAMES["none"]: plain[NAMES["none"]]}
        for name in NAMES:
            if f"{name} knowing W" in self.arrays:
                knowing[NAMES[name]] = (counts, 100 * self.errors(f"{name} knowing"))
        knowing["vote, certified bound"] = (counts, 100 * self.certified())
        x, y = "contributed points", f"{self.where} error, %"
        return (
            Curve("Points made against the plain pipeline", x, y, plain),
            Curve("Points made by someone who knows the defence", x, y, knowing),
        )

    def _wrong(self, case: str) -> Array:
        """(levels, points)"""
        if case == "vote":
            return np.stack(
                [self.classes[self._votes(level).winner] != self.y for level in range(len(self.arrays["counts"]))]
            )
        return self.learner.wrong(self.arrays[f"{case} W"], self.arrays[f"{case} b"], self.X, self.y)

    def _votes(self, level: int) -> partition.Votes:
        W, b = self.arrays["vote W"][level], self.arrays["vote b"][level]
        said = self.learner.named(W, b, self.X)
        return partition.Votes(np.stack([(said == label).sum(axis=0) for label in self.classes], axis=1))
