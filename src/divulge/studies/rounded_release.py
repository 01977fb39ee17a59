"""Whether rounding the released parameters hides their penalty (the defence of Wang and Gong 2018, arXiv:1802.05351)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, NonNegativeInt
from threadpoolctl import threadpool_limits

from divulge.attacks.hyperparameters.estimators import by_training
from divulge.attacks.hyperparameters.formulate import build_problem
from divulge.attacks.hyperparameters.problem import Answer, StationarityProblem
from divulge.attacks.hyperparameters.stealing import HyperparameterStealing, answers_to, choose, error
from divulge.contract import (
    Access,
    Array,
    Context,
    Curve,
    Evidence,
    Finding,
    Fitted,
    Hyperparameters,
    Score,
    Study,
    TaxonomyId,
    TrainingData,
    Truth,
    Verdict,
    option_class,
)
from divulge.errors import NotApplicable
from divulge.learners.catalogue import learner_named
from divulge.solvers.stationarity import backprop, svm, system as stationarity
from divulge.solvers.stationarity.refit import STOCHASTIC

NEAR = 0.1  # relative error up to which a penalty is not hidden: grids that people search step by 2 and more
VAGUE = 1.0  # half an interval, relative to its value: as wide as this it is no more than an upper bound
EXACT = 1e-9  # relative error that a sentence need not mention: what needs no second opinion
FLOOR = 1e-16  # of an error drawn on a logarithmic axis, which has no 0
TRAINED = ("replay", "path matching")
JUDGED = "coarsest acceptable"
BELIEVED = "The nearest answer counts: an owner cannot know which of them an attacker believes."


@dataclass(frozen=True, eq=False)
class Rounded:
    """One number of decimals: what it costs the owner, and what the attacker still finds."""

    decimals: int
    cost: float
    answers: list[Answer]

    def errors(self, unit: str, reference: float) -> dict[str, float]:
        """Relative error of every estimator that has an answer, believed or not."""
        errors = {}
        for answer in (answer for answer in self.answers if unit in answer.values):
            off = error(unit, answer.values[unit], reference)
            # Trainings begin with round numbers: where every penalty trains to these digits, one of those comes back.
            drawn = answer.estimator in TRAINED and not _sharp(answer, unit)
            errors[answer.estimator] = max(off.value, off.null) if drawn else off.value
        return errors

    @property
    def words(self) -> str:
        return _decimals(self.decimals)


@dataclass(frozen=True)
class StolenAfterRounding(Evidence):
    """What the attacker still finds at the coarsest rounding that the owner can afford."""

    decimals: int | None
    "None where no rounding is affordable, so the parameters are released in full."
    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]


@option_class
class RoundedRelease(Study[tuple[Fitted, TrainingData]]):
    """Round the parameters as a careful owner would, and steal the hyperparameter from what is left of them."""

    name: ClassVar[str] = "rounded-release"
    asset: ClassVar[str] = "hyperparameters"
    paper: ClassVar[str] = HyperparameterStealing.paper
    scored_by: ClassVar[type[Access]] = Hyperparameters
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = HyperparameterStealing.taxonomy
    remedy: ClassVar[tuple[str, ...]] = (
        "Do not rely on rounding: count the hyperparameters as public once the parameters and the training data are.",
        "Release the parameters without the training data, or the predictions without the parameters.",
    )

    decimals: Annotated[tuple[int, ...], Field(min_length=1)] = (0, 1, 2, 3, 4, 5, 6)
    "How many digits after the point to keep; each is tried."
    acceptable: Annotated[float, Field(gt=0, le=1)] = 0.01
    "Share of the predictions that rounding may change; of a regression, the rise of its error in units of the spread."
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.99
    "How sure the intervals should be."
    trainings: NonNegativeInt = 30
    "How often to train again at most, for each number of decimals and each of the two ways; 0 never trains."

    def run(self, held: tuple[Fitted, TrainingData], context: Context) -> Finding[Access]:
        problem = build_problem(*held)
        whole = choose(answers_to(problem, self.confidence, self.trainings, context))
        unit, reference = problem.unit, whole.values.get(problem.unit, 0.0)
        if whole.verdict is not Verdict.LEAK or not reference:
            raise NotApplicable(
                f"the unrounded model does not give up its hyperparameters, so there is nothing to defend: {whole.why}"
            )
        tried = self._tried(held, whole.values.get("gamma"), context)
        affordable = [one for one in tried if one.cost < self.acceptable]
        judged = affordable[0] if affordable else None
        evidence: dict[str, Any] = {
            "figures": _figures(problem, tried, judged, reference),
            "notes": (*(_line(one, unit, reference) for one in tried), BELIEVED),
        }
        if judged is None:
            finest = tried[-1]
            return Finding.shown(
                StolenAfterRounding(None, whole.values, whole.intervals),
                f"Rounding is no defence: to {finest.words} it already {_cost(problem, finest.cost)}, "
                f"and in full the parameters give {unit} = {reference:.6g}.",
                **evidence,
            )
        return self._judged(problem, judged, reference, evidence)

    def _tried(self, held: tuple[Fitted, TrainingData], gamma: float | None, context: Context) -> list[Rounded]:
        fitted, data = held
        tried = []
        order = sorted(set(self.decimals))
        for done, decimals in enumerate(order):
            rounded = rounded_to(fitted, decimals)

            def attempt(_: np.random.Generator, rounded: Fitted = rounded) -> dict[str, Any]:
                with threadpool_limits(1):  # threads cost more than they bring to small products
                    return {
                        "cost": cost_of_rounding(fitted, rounded, data, gamma),
                        "answers": [_kept(answer) for answer in self._answers(rounded, data, context)],
                    }

            piece = context.once(f"decimals-{decimals}", attempt)
            tried.append(Rounded(decimals, piece["cost"], [_again(answer) for answer in piece["answers"]]))
            context.progress(done + 1, len(order))
        return tried

    def _answers(self, rounded: Fitted, data: TrainingData, context: Context) -> list[Answer]:
        """Every estimator on its own: where one gives up, the next may not."""
        try:
            problem = build_problem(rounded, data)
        except NotApplicable as reason:
            return [Answer("every estimator", Verdict.NOT_APPLICABLE, str(reason))]
        try:
            first = answers_to(problem, self.confidence, 0, context)[0]
        except NotApplicable as reason:
            first = Answer("stationarity", Verdict.NOT_APPLICABLE, str(reason))
        # Towards the minimum a stochastic solver takes minutes a training; where it can be replayed, that says more.
        slow = problem.trainer.settings.get("solver") in STOCHASTIC and not problem.trainer.obstacle
        return [first] + [
            by_training(problem, first, tight=tight, most=self.trainings, seen=lambda _: context.budget.check())
            for tight in ((False,) if slow else (False, True))
        ]

    def _judged(
        self, problem: StationarityProblem, judged: Rounded, reference: float, evidence: dict[str, Any]
    ) -> Finding[Access]:
        unit = problem.unit
        errors = judged.errors(unit, reference)
        guess = error(unit, reference, reference)
        scores = {f"error of {estimator} after rounding": replace(guess, value=value) for estimator, value in errors.items()}
        if errors:
            scores = {"error after rounding": replace(guess, value=min(errors.values())), **scores}
        found = _found(judged, unit, reference)
        what = f"Rounding to {judged.words}, which {_cost(problem, judged.cost)},"
        if found is None:
            best = f"the nearest answer is {min(errors.values()):.2g} off" if errors else "no estimator has an answer"
            return Finding.none_found(
                f"{what} hides {unit}: {best}.",
                power=f"an error up to {_share(NEAR)} would have counted; a guess is {guess.null:.2g} off",
                scores=scores,
                remedy=(
                    f"Release the parameters rounded to {judged.words}, and audit again after every training.",
                    "Rounding hides a penalty from these estimators only, and a later one may be better.",
                ),
                **evidence,
            )
        return Finding.shown(
            StolenAfterRounding(judged.decimals, found.values, found.intervals),
            f"{what} does not hide {unit}: {_says(found, unit, errors[found.estimator])}.",
            scores=scores,
            **evidence,
        )

    def score(self, finding: Finding[Access], held: tuple[Fitted, TrainingData], truth: Truth) -> Finding[Access]:
        known, stolen = truth.get(Hyperparameters), finding.evidence
        if known is None or not isinstance(stolen, StolenAfterRounding):
            return finding
        at = "" if stolen.decimals is None else f" at {_decimals(stolen.decimals)}"
        scores: dict[str, Score] = {}
        for name in (name for name in stolen.values if name in known.values):
            true = known.values[name]
            scores[f"relative error of {name}{at}"] = score = error(name, stolen.values[name], true)
            low, high = stolen.intervals[name]
            if score.value > NEAR and not low <= true <= high:
                summary = f"{finding.summary} The truth is {name} = {true:g}: this is wrong."
                finding = replace(finding, verdict=Verdict.FAILED, summary=summary)
        return replace(finding, scores=scores | dict(finding.scores))


def rounded_to(fitted: Fitted, decimals: int) -> Fitted:
    """The model as it would be released; numbers that were printed are read in full precision."""

    def cut(values: Array | None) -> Array | None:
        return None if values is None else np.round(np.asarray(values, float), decimals)

    layers = tuple((np.round(W.astype(float), decimals), np.round(b.astype(float), decimals)) for W, b in fitted.layers)
    return replace(
        fitted, coef=cut(fitted.coef), intercept=cut(fitted.intercept), dual_coef=cut(fitted.dual_coef), layers=layers
    )


def cost_of_rounding(fitted: Fitted, rounded: Fitted, data: TrainingData, gamma: float | None = None) -> float:
    """Share of labels that change on the training data; of a regression, the rise of its error in spreads of y."""
    prepared = fitted.prepared(data)
    X, y = prepared.X, prepared.y
    assert y is not None  # checked by `build_problem`
    before, after = (_outputs(one, np.asarray(X, float), y, gamma) for one in (fitted, rounded))
    if _classifies(fitted, before, y):
        return float(np.mean(_labels(before) != _labels(after)))
    targets = np.asarray(y, float).reshape(len(y), -1)
    if learner_named(fitted.learner).loss == "poisson":
        before, after = np.exp(before), np.exp(after)
    rise = np.sqrt(np.mean((after - targets) ** 2)) - np.sqrt(np.mean((before - targets) ** 2))
    return max(0.0, float(rise / (targets.std() or 1.0)))


def _classifies(fitted: Fitted, outputs: Array, y: Array) -> bool:
    learner, classes = learner_named(fitted.learner), max(2, outputs.shape[1])
    return learner.classifier or (not learner.regression and y.ndim == 1 and len(np.unique(y)) == classes)


def _labels(outputs: Array) -> Array:
    return np.asarray(outputs.argmax(axis=1) if outputs.shape[1] > 1 else outputs[:, 0] > 0)


def _outputs(fitted: Fitted, X: Array, y: Array, gamma: float | None) -> Array:
    """(n, outputs): what the model says of points, before it is turned into labels."""
    intercept = 0.0 if fitted.intercept is None else fitted.intercept
    if fitted.layers:
        return backprop.outputs(fitted.layers, X, str(fitted.settings.get("activation", "relu")))
    if fitted.dual_coef is None:
        assert fitted.coef is not None  # a model has one of the three
        return np.asarray(X @ np.atleast_2d(fitted.coef).T + intercept)
    kernel, dual = fitted.kernel, fitted.dual_coef
    assert kernel is not None  # checked by `build_problem`
    support = fitted.more["support"].astype(int) if "support" in fitted.more else np.arange(len(X))
    gamma = kernel.gamma or gamma or 1 / X.shape[1]
    K = stationarity.gram(kernel.name, X, gamma, kernel.degree, kernel.coef0, X[support])
    learner = learner_named(fitted.learner)
    if learner.form == "support vectors" and learner.classifier:
        return _votes(K, dual, np.unique(y, return_inverse=True)[1][support], np.atleast_1d(intercept))
    return np.asarray(K @ (dual.T if "support" in fitted.more else dual.reshape(len(support), -1)) + intercept)


def _votes(K: Array, dual: Array, labels: Array, intercept: Array) -> Array:
    """(n, classes): how many of its pairs each class wins."""
    classes = len(dual) + 1
    pairs = [(first, second) for first in range(classes) for second in range(first + 1, classes)]
    votes = np.zeros((len(K), classes))
    for (first, second), part in zip(pairs, svm.machines(dual, labels, intercept), strict=True):
        wins = K[:, part.members] @ part.weights + part.intercept > 0
        votes[np.arange(len(K)), np.where(wins, first, second)] += 1
    return votes


def _found(judged: Rounded, unit: str, reference: float) -> Answer | None:
    """The nearest answer that gives the penalty away: near it, or claimed with an interval that holds it."""
    errors = judged.errors(unit, reference)
    telling = [
        answer
        for answer in judged.answers
        if unit in answer.values
        and (errors[answer.estimator] <= NEAR or (_right(answer, unit, reference) and _sharp(answer, unit)))
    ]
    return min(telling, key=lambda answer: errors[answer.estimator], default=None)


def _sharp(answer: Answer, unit: str) -> bool:
    low, high = answer.intervals[unit]
    return (high - low) / 2 < VAGUE * abs(answer.values[unit])


def _right(answer: Answer, unit: str, reference: float) -> bool:
    low, high = answer.intervals[unit]
    return answer.verdict is Verdict.LEAK and low <= reference <= high


def _says(answer: Answer, unit: str, off: float) -> str:
    if off > NEAR:
        low, high = answer.intervals[unit]
        return f"{answer.estimator} still finds it between {low:.3g} and {high:.3g}"
    claims = "still finds" if answer.verdict is Verdict.LEAK else "is not sure, but has"
    off_by = "exactly" if off < EXACT else f"{_share(off)} off"
    return f"{answer.estimator} {claims} {answer.values[unit]:.4g}, {off_by}"


def _cost(problem: StationarityProblem, cost: float) -> str:
    labels = problem.learner.classifier
    if not cost:
        return f"changes no {'label' if labels else 'error'}"
    return f"changes {_share(cost)} of the labels" if labels else f"adds {_share(cost)} of the targets' spread to the error"


def _decimals(number: float) -> str:
    return f"{number:g} decimal{'' if number == 1 else 's'}"


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if value >= 1e-4 else "less than 0.01 %"


def _line(one: Rounded, unit: str, reference: float) -> str:
    errors = one.errors(unit, reference)
    parts = []
    for answer in one.answers:
        claim = "claimed" if answer.verdict is Verdict.LEAK else "not claimed"
        if answer.verdict is Verdict.LEAK and not _right(answer, unit, reference):
            claim = "claimed, but its interval misses"
        far = f"{errors[answer.estimator]:.2g} off, {claim}" if answer.estimator in errors else f"no answer, as {answer.why}"
        parts.append(f"{answer.estimator} {far}")
    return f"{one.words}: {'; '.join(parts)}."


def _figures(
    problem: StationarityProblem, tried: list[Rounded], judged: Rounded | None, reference: float
) -> tuple[Curve, ...]:
    unit = problem.unit
    points: dict[str, list[tuple[int, float]]] = {}
    for one in tried:
        for estimator, value in one.errors(unit, reference).items():
            points.setdefault(estimator, []).append((one.decimals, max(value, FLOOR)))
    kept = np.array([one.decimals for one in tried], float)
    series = {name: (np.array(line, float)[:, 0], np.array(line, float)[:, 1]) for name, line in points.items()}
    series["guess"] = kept, np.full(len(kept), error(unit, reference, reference).null)
    marks = {} if judged is None else {JUDGED: float(judged.decimals)}
    classifies = problem.learner.classifier
    cost = np.array([one.cost for one in tried])
    return (
        Curve("Error against digits kept", "decimals", f"relative error of {unit}", series, log_y=True, marks=marks),
        Curve(
            "Cost of rounding",
            "decimals",
            "share of labels changed" if classifies else "rise of the error, in spreads of the targets",
            {"training data": (kept, cost)},
            marks=marks,
        ),
    )


def _kept(answer: Answer) -> dict[str, Any]:
    return {
        "estimator": answer.estimator,
        "verdict": answer.verdict.value,
        "why": answer.why,
        "values": dict(answer.values),
        "intervals": {name: [float(low), float(high)] for name, (low, high) in answer.intervals.items()},
    }


def _again(kept: dict[str, Any]) -> Answer:
    intervals = {name: (low, high) for name, (low, high) in kept["intervals"].items()}
    return Answer(kept["estimator"], Verdict(kept["verdict"]), kept["why"], dict(kept["values"]), intervals)
