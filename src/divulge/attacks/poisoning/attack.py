"""Optimal poisoning of a pipeline that may re-tune its regularisation (Carnerero-Cano et al. 2021, ICLR workshop)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt

from divulge.attacks.poisoning import campaign
from divulge.attacks.poisoning.campaign import Split, Terms
from divulge.attacks.poisoning.learners import Learner, Regime, learner_of, test_points
from divulge.attacks.poisoning.outcome import NAMES, Measured, Outcome, measured
from divulge.contract import (
    Access,
    Array,
    Attack,
    Candidates,
    Context,
    Finding,
    Pipeline,
    Poison,
    TaxonomyId,
    Truth,
    Verdict,
    option_class,
)
from divulge.errors import AttackFailed, BadInput, NotApplicable

PAPER = (
    "Carnerero-Cano et al. 2021, Regularization Can Help Mitigate Poisoning Attacks... with the Right Hyperparameters, "
    "arXiv:2105.10948"
)
TAXONOMY = (
    TaxonomyId("NIST AI 100-2", "E2025", "NISTAML.013"),
    TaxonomyId("MITRE ATLAS", "5", "AML.T0020"),
    TaxonomyId("OWASP ML Top 10", "2023", "ML02"),
)
MEMORY = 6e9
"Bytes that the attack may take."
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
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = TAXONOMY
    remedy: ClassVar[tuple[str, ...]] = (
        "Re-tune the penalty whenever the training data change, on validation points that outsiders cannot contribute to.",
        "Check contributed labels against those of their nearest neighbours, and distances to their class, before training; "
        "the attack on request `poisoning-defences` measures what that is worth for your data.",
        "Limit what one contributor can add: damage grows with the share of points.",
    )

    points: PositiveInt = 51
    "How many points are contributed."
    batch: PositiveInt = 17
    "How many are made at a time; earlier ones stay as they are."
    hyperparameter: Literal["fixed", "cross-validated", "learned"] = "cross-validated"
    "How the pipeline sets its penalty: once, by cross-validation on clean data, or anew on the validation points."
    strength: float = 0.0
    "The fixed penalty λ; 0 is scikit-learn's default, C = 1."
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
    "Moves of every batch of points."
    step: Annotated[float, Field(gt=0, le=1)] = 0.07
    "Length of a point's first move, in diagonals of the box that points stay in; it falls to 0."
    starts: PositiveInt = 3
    "How many batches are tried, of which the strongest is taken."
    repetitions: PositiveInt = 1
    "On how many splits of the clean data into training and validation points; the first is the one given."
    alone: bool = False
    "Attack the pipeline as it is, and neither other ways of setting the penalty nor the weakest and the strongest one."

    def run(self, held: Pipeline, context: Context) -> Finding[Poison]:
        if self.hyperparameter == "fixed" and not self.bounds[0] <= self.strength <= self.bounds[1]:
            raise BadInput(
                f"expected a strength within bounds {self.bounds[0]:g} to {self.bounds[1]:g}, got {self.strength:g}; "
                "correct one of them"
            )
        learner = learner_of(held, self.regime, self.epochs, self.rate, self.width, context.seed)
        self.check_size(held, learner)
        notes = [*_overlap(held, context), self._regime(learner)]
        terms = self.terms(held)
        states, failure = self._campaign(held, learner, terms, context)
        done = min(len(state["levels"]) for state in states)
        if done == 0:
            raise AttackFailed(failure)
        counts = np.concatenate([[0], np.cumsum(self.batches()[:done])])
        outcome = Outcome(learner, counts, len(held.X), _arrays(states, done), self.hyperparameter)
        if failure:
            notes.append(f"Ended after {counts[-1]} of {self.points} points: {failure}")
        notes += _training_notes(states, done, self.rate, learner)
        own = next(state for state in states if state["setting"] == self.hyperparameter and state["split number"] == 0)
        loot = _loot(own, held, done, outcome)
        blind = measured(outcome, "validation", partial(_untouched, states, done))
        return self._judged(blind, loot, notes, terms)

    def score(self, finding: Finding[Poison], held: Pipeline, truth: Truth) -> Finding[Poison]:
        if finding.loot is None:
            return finding
        learner = learner_of(held, self.regime, self.epochs, self.rate, self.width, finding.provenance.seed)
        test = test_points(truth, held, learner)
        if test is None:
            return finding
        arrays = dict(finding.loot.trained)
        outcome = Outcome(learner, arrays.pop("counts"), len(held.X), arrays, self.hyperparameter)
        by_test = measured(outcome, "test", lambda setting: [test] * self.repetitions)
        blind = {note.split(":")[0] for note in by_test.notes()}
        kept = [note for note in finding.notes if note.split(":")[0] not in blind and "optimised against" not in note]
        terms = self.terms(held)
        evidence: dict[str, Any] = {
            "scores": by_test.scores(),
            "figures": by_test.figures(finding.loot, terms.low, terms.high),
            "notes": (*by_test.notes(), *kept),
        }
        if by_test.raised:
            return replace(finding, verdict=Verdict.LEAK, summary=by_test.sentence(), power="", **evidence)
        if finding.verdict is Verdict.NONE_FOUND:
            return replace(finding, summary=f"{CHANCE}: {by_test.sentence()}", **evidence)
        claim = f"The rise on validation points does not hold on test points: {by_test.sentence()}"
        return replace(finding, verdict=Verdict.FAILED, summary=claim, **evidence)

    def _campaign(
        self, held: Pipeline, learner: Learner, terms: Terms, context: Context
    ) -> tuple[list[dict[str, Any]], str]:
        """Every setting on every split, with the levels that were finished; and why no more were."""
        split = Split(np.asarray(held.X, float), held.y, np.asarray(held.X_val, float), held.y_val)
        prepare = partial(campaign.prepare, learner=learner, given=split, terms=terms, settings=self._settings())
        prepared = context.map("clean", prepare, range(self.repetitions))
        failures = [each["failed"] for each in prepared if "failed" in each]
        if failures:
            raise AttackFailed(failures[0])
        states = [
            {"setting": setting, "split number": number, "split": each["split"], "clean": clean, "levels": []}
            for number, each in enumerate(prepared)
            for setting, clean in each["settings"].items()
        ]
        for level, size in enumerate(self.batches(), 1):
            items = [campaign.next_batch(state, size) for state in states]
            results = context.map(f"level-{level}", partial(campaign.contribute, learner=learner, terms=terms), items)
            failures = [each["failed"] for each in results if "failed" in each]
            if failures:
                return states, failures[0]
            for state, result in zip(states, results, strict=True):
                state["levels"].append(result)
        return states, ""

    def _judged(self, blind: Measured, loot: Poison, notes: list[str], terms: Terms) -> Finding[Poison]:
        evidence: dict[str, Any] = {
            "scores": blind.scores(),
            "figures": blind.figures(loot, terms.low, terms.high),
            "notes": (
                *blind.notes(),
                "Validation points, less those that contributed points began as, are what both sides optimised against: "
                "give test points as truth for an error that neither saw.",
                *notes,
            ),
        }
        if blind.raised:
            return Finding.leak(loot, blind.sentence(), **evidence)
        weakest = "weak" if "weak" in blind.errors else self.hyperparameter
        reached = blind.outcome.learner.shown(blind.mean(weakest))
        return Finding.none_found(
            f"{CHANCE}: {blind.sentence()}",
            power=f"the same attack reaches {reached} with the {NAMES[weakest]}; a rise that chance explains with less than "
            "1 % would have counted",
            loot=loot,
            **evidence,
        )

    def _settings(self) -> dict[str, float | None]:
        """Setting -> its λ, or None where it has to be found."""
        every: dict[str, float | None] = {
            "weak": self.bounds[0],
            "fixed": self.strength,
            "cross-validated": None,
            "learned": None,
            "strong": self.bounds[1],
        }
        if self.alone:
            return {self.hyperparameter: every[self.hyperparameter]}
        return {name: value for name, value in every.items() if name != "fixed" or self.hyperparameter == "fixed"}

    def batches(self) -> list[int]:
        """How many points each batch has."""
        whole, rest = divmod(self.points, self.batch)
        return [self.batch] * whole + [rest] * (rest > 0)

    def terms(self, held: Pipeline) -> Terms:
        """How hard it tries, and within what."""
        low, high = box(held)
        return Terms(self.starts, self.iterations, self.step, self.bounds, self.clean_bounds or self.bounds, low, high)

    def check_size(self, held: Pipeline, learner: Learner) -> None:
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
        needed = by_points + kept + 8.0 * n * held.X.shape[1] * 3
        if needed > MEMORY:
            raise NotApplicable(
                f"{self.points} points beside {len(held.X)} would take about {needed / 1e9:.0f} GB of memory, and "
                f"{MEMORY / 1e9:.0f} are allowed; lower points, starts or epochs"
            )

    def _regime(self, learner: Learner) -> str:
        if self.regime == "converged":
            return "Regime: the pipeline trains to the end, as scikit-learn does; the attack differentiates the minimum."
        return (
            f"Regime: the pipeline stops early, after {self.epochs} steps of gradient descent at rate {self.rate:g}; the "
            "attack differentiates those steps."
        )


def box(held: Pipeline) -> tuple[Array, Array]:
    """Where contributed points may be: as the pipeline says, or what its data span, of pictures all pixels together."""
    everything = np.concatenate([held.X, held.X_val])
    ends = everything.min(axis=0), everything.max(axis=0)
    if held.shape is not None:
        ends = np.full(len(ends[0]), ends[0].min()), np.full(len(ends[1]), ends[1].max())
    low = ends[0] if held.low is None else np.asarray(held.low)
    high = ends[1] if held.high is None else np.asarray(held.high)
    return low.astype(float), high.astype(float)


def _arrays(states: list[dict[str, Any]], done: int) -> dict[str, Array]:
    """Models and penalties of every setting, (splits, levels, ...)."""
    arrays: dict[str, Array] = {}
    for setting in dict.fromkeys(state["setting"] for state in states):
        chosen = [state for state in states if state["setting"] == setting]
        for kind in ("W", "b", "strengths"):
            rows = [[each["clean"][kind], *(level[kind] for level in each["levels"][:done])] for each in chosen]
            arrays[f"{setting} {kind}"] = np.array(rows)
        for kind in ("W", "b"):
            rows = [[each["clean"][kind], *(level[f"null {kind}"] for level in each["levels"][:done])] for each in chosen]
            arrays[f"{setting} null {kind}"] = np.array(rows)
    return arrays


def _loot(own: dict[str, Any], held: Pipeline, done: int, outcome: Outcome) -> Poison:
    levels = own["levels"][:done]
    X, y, start = (np.concatenate([level[kind] for level in levels]) for kind in ("points", "labels", "begun"))
    return Poison(X, y, held.shape, start, {"counts": outcome.counts, **outcome.arrays})


def _untouched(states: list[dict[str, Any]], done: int, setting: str) -> list[tuple[Array, Array]]:
    """Validation points of every split that no contributed point began as: the model was not given those, mislabelled."""
    kept = []
    for state in states:
        if state["setting"] == setting:
            split = Split(**state["split"])
            used = np.concatenate([level["rows"] for level in state["levels"][:done]])
            rest = np.setdiff1d(np.arange(len(split.y_val)), used)
            rows = rest if len(rest) else np.arange(len(split.y_val))
            kept.append((split.X_val[rows], split.y_val[rows]))
    return kept


def _overlap(held: Pipeline, context: Context) -> list[str]:
    known = {row.tobytes() for row in np.ascontiguousarray(held.X, float)}
    both = sum(row.tobytes() in known for row in np.ascontiguousarray(held.X_val, float))
    if not both:
        return []
    said = (
        f"{both} of {len(held.X_val)} validation points are training points too, so re-tuning trusts points that it was "
        "fitted to; keep the two apart."
    )
    context.log(said)
    return [said]


def _training_notes(states: list[dict[str, Any]], done: int, rate: float, learner: Learner) -> list[str]:
    notes = []
    levels = [level for state in states for level in state["levels"][:done]]
    least = min((level["rate"] for level in levels if level["rate"]), default=rate)
    if learner.regime == "early-stopped" and least < rate:
        notes.append(f"Training diverged at rate {rate:g}; it was halved until it settled, to {least:.3g} at the least.")
    again = sum(level["restarts"] for level in levels)
    if again:
        notes.append(f"{again} starts were stuck behind the best and began anew.")
    answered = [level for state in states if state["setting"] == "learned" for level in state["levels"][:done]]
    if answered:
        rise = np.mean([level["value"] / max(level["saddle"], 1e-12) - 1 for level in answered])
        notes.append(
            "Where the penalty is re-tuned, points and penalty moved against each other first, then points alone against "
            f"the penalty this ended at; the stronger is reported (validation loss {100 * rise:+.1f} % over the saddle)."
        )
    return notes
