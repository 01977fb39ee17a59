"""Tuning on a sample, stealing what was tuned and training once on everything (Wang and Gong 2018, arXiv:1802.05351)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, NonNegativeInt
from scipy import stats
from threadpoolctl import threadpool_limits

from divulge.attacks.hyperparameters.formulate import build_problem
from divulge.attacks.hyperparameters.stealing import HyperparameterStealing, answers_to, choose
from divulge.contract import (
    Access,
    Array,
    Context,
    Curve,
    Evidence,
    Finding,
    Fitted,
    Pipeline,
    Score,
    Study,
    TaxonomyId,
    TrainingData,
    Verdict,
    option_class,
)
from divulge.errors import NotApplicable
from divulge.learners.catalogue import LEARNERS

TUNED = [name for name, learner in LEARNERS.items() if learner.tuning is not None]
POWERS = tuple(float(power) for power in np.linspace(-3, 3, 13))  # the range that the paper studies, in half decades
CONFIDENCE = 0.95  # of the intervals over draws
ALLOWED = 0.01  # accuracy, or R²: who loses more would rather pay for the tuning


@dataclass(frozen=True)
class Draw:
    """One sample: what was tuned and stolen, and how good the models on everything are."""

    stolen: float | None
    "None where the model of the sample did not give it up."
    tuned_on_sample: float
    tuned_on_all: float
    accuracy_retrained: float | None
    "Or R², on the validation points."
    accuracy_tuned: float
    accuracy_random: float
    "With a penalty drawn from the grid."
    rows: int
    "in the sample"
    trainings: int
    "that stealing took, on the sample"
    seconds: dict[str, float] = field(default_factory=dict)
    "By a clock, where one was given: service, stealing, retraining, tuning."


@dataclass(frozen=True, eq=False)
class StolenFromSamples(Evidence):
    """The hyperparameter of every sample that gave it up, beside what the service had tuned."""

    unit: str
    stolen: Array
    tuned: Array


@option_class
class TrainStealRetrain(Study[Pipeline]):
    """Pay for tuning on a sample only, steal the hyperparameter, and train on everything without tuning."""

    name: ClassVar[str] = "train-steal-retrain"
    asset: ClassVar[str] = "hyperparameters"
    paper: ClassVar[str] = HyperparameterStealing.paper
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = HyperparameterStealing.taxonomy
    remedy: ClassVar[tuple[str, ...]] = (
        "Charge for tuning by what it brings, not by the rows it reads: a sample tunes as well as everything.",
        "Return predictions instead of parameters, or parameters rounded so far that the penalty no longer follows.",
    )

    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    "Share of the data that the service is paid to tune on."
    draws: Annotated[int, Field(ge=2)] = 10
    "How many samples to draw; each is tuned, stolen from and trained again on its own."
    folds: Annotated[int, Field(ge=2)] = 5
    "Parts of the cross-validation."
    grid: Annotated[tuple[float, ...], Field(min_length=2)] = POWERS
    "Powers of ten of the penalties tuned over; of a learner with C, its inverse."
    trainings: NonNegativeInt = 63
    "How often stealing may train again on a sample, where the equations alone do not settle it."

    def run(self, held: Pipeline, context: Context) -> Finding[Access]:
        check = _checked(held.learner, held.y, self.fraction, self.folds)
        options: dict[str, Any] = {
            "fraction": self.fraction, "folds": self.folds, "grid": self.grid, "trainings": self.trainings,
        }  # fmt: skip
        draw = partial(_kept_draw, data=(held.X, held.y, held.X_val, held.y_val, held.learner), options=options)
        draws = [Draw(**kept) for kept in context.map("draws", draw, range(self.draws))]
        return self._judged(draws, len(held.X), check, LEARNERS[held.learner].unit)

    def _judged(self, draws: list[Draw], n: int, measure: str, unit: str) -> Finding[Access]:
        found = [draw for draw in draws if draw.stolen is not None]
        gains = [saving(draw, n, folds=self.folds, grid=len(self.grid)) for draw in draws]
        scores = {"speed-up in rows trained": _mean(gains, 1.0, "tuning on everything")}
        stolen = f"{unit} was stolen in {len(found)} of {len(draws)} draws"
        notes = [f"{stolen[0].upper()}{stolen[1:]}, after {_range([draw.trainings for draw in draws])} trainings each."]
        figures = (_figure(draws, measure),)
        gain = scores["speed-up in rows trained"].value
        power = f"a loss of {measure} up to {ALLOWED:g} would have counted"
        if len(found) <= len(draws) / 2:
            return Finding.none_found(
                f"The models of the samples do not give up their hyperparameters: {stolen}.",
                power=power, scores=scores, figures=figures, notes=tuple(notes),
            )  # fmt: skip
        values = [draw.stolen for draw in found if draw.stolen is not None]
        lost = [draw.accuracy_tuned - (draw.accuracy_retrained or 0.0) for draw in found]
        random = float(np.mean([draw.accuracy_tuned - draw.accuracy_random for draw in found]))
        scores[f"{measure} lost"] = loss = _mean(lost, random, "a penalty drawn from the grid", better="lower")
        off = max(abs(value / draw.tuned_on_sample - 1) for value, draw in zip(values, found, strict=True))
        notes.append(
            f"What was stolen is what the service had tuned, to {off:.1g} at worst; the attacker does not see this."
        )
        low, high = loss.interval or (loss.value, loss.value)
        ends = f"{loss.value:.4f} of {measure} ({low:.4f} to {high:.4f})"
        seen = StolenFromSamples(unit, np.array(values), np.array([draw.tuned_on_sample for draw in found]))
        rest: dict[str, Any] = {"scores": scores, "figures": figures, "notes": tuple(notes)}
        if high > ALLOWED:
            return Finding.none_found(
                f"Tuning on {self.fraction:.3g} of the data and stealing {unit} may cost too much: it loses {ends}.",
                power=f"{power}, and {len(found)} draws tell {(high - low) / 2:.4f} from nothing",
                evidence=seen,
                **rest,
            )
        return Finding.shown(
            seen,
            f"Tuning on {self.fraction:.3g} of the data, stealing {unit} and training once on everything takes 1/{gain:.1f} "
            f"of the training that tuning on everything does, and loses {ends}; {stolen}.",
            **rest,
        )


def train_steal_retrain(
    X: Array,
    y: Array,
    X_val: Array,
    y_val: Array,
    learner: str,
    *,
    rng: np.random.Generator,
    fraction: float = 0.1,
    draws: int = 10,
    folds: int = 5,
    grid: Iterable[float] = POWERS,
    trainings: int = 63,
    clock: Callable[[], float] | None = None,
) -> list[Draw]:
    """What the attack does, as a function; with a clock such as `time.perf_counter` every step is timed."""
    _checked(learner, y, fraction, folds)
    options: dict[str, Any] = {"fraction": fraction, "folds": folds, "grid": tuple(grid), "trainings": trainings}
    return [one_draw(each, (X, y, X_val, y_val, learner), **options, clock=clock) for each in rng.spawn(draws)]


def one_draw(
    rng: np.random.Generator,
    data: tuple[Array, Array, Array, Array, str],
    *,
    fraction: float,
    folds: int,
    grid: tuple[float, ...],
    trainings: int,
    clock: Callable[[], float] | None = None,
) -> Draw:
    """Sample, have it tuned, steal, train on everything; and the rival, who tunes on everything."""
    X, y, X_val, y_val, learner = data
    unit = LEARNERS[learner].unit
    penalties = 10.0 ** np.sort(grid)[::-1]  # of equals the strongest wins
    values = (1 / penalties if unit == "C" else penalties).tolist()
    rows = _sample(y, learner, fraction, rng)
    seed = int(rng.integers(2**31))
    drawn = float(rng.choice(values))
    seconds: dict[str, float] = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a weak penalty may end before its solver is content
        with _timed(seconds, "service", clock):
            tuned, service = tune(learner, X[rows], y[rows], values, folds, seed)
        with _timed(seconds, "stealing", clock):
            stolen, fits = _steal(service, X[rows], y[rows], unit, trainings)
        retrained = None
        if stolen is not None:
            with _timed(seconds, "retraining", clock):
                # The paper's λ weighs the sum of losses, which some learners divide by the number of rows.
                carried = stolen * len(rows) / len(X) if LEARNERS[learner].averaged else stolen
                model = _learner(learner, carried).fit(X, y)
            retrained = float(model.score(X_val, y_val))
        with _timed(seconds, "tuning", clock):
            rivals, rival = tune(learner, X, y, values, folds, seed)
        return Draw(
            stolen=stolen,
            tuned_on_sample=tuned,
            tuned_on_all=rivals,
            accuracy_retrained=retrained,
            accuracy_tuned=float(rival.score(X_val, y_val)),
            accuracy_random=float(_learner(learner, drawn).fit(X, y).score(X_val, y_val)),
            rows=len(rows),
            trainings=fits,
            seconds=seconds,
        )


def tune(learner: str, X: Array, y: Array, values: list[float], folds: int, seed: int) -> tuple[float, Any]:
    """The value that cross-validation likes best, and the model trained with it."""
    from sklearn.model_selection import KFold, StratifiedKFold

    parts = list(
        (KFold if LEARNERS[learner].regression else StratifiedKFold)(folds, shuffle=True, random_state=seed).split(X, y)
    )
    scores = [
        np.mean([_learner(learner, value).fit(X[rest], y[rest]).score(X[part], y[part]) for rest, part in parts])
        for value in values
    ]
    best = values[int(np.argmax(scores))]
    return best, _learner(learner, best).fit(X, y)


def saving(draw: Draw, n: int, *, folds: int, grid: int) -> float:
    """Rows trained on by tuning on everything, divided by those of sample, theft and retraining.

    Who fails to steal has to tune on everything after all.
    """
    tuning = grid * (folds - 1) + 1  # every point is left out of one fold; then the winner is trained
    ours = draw.rows * (tuning + draw.trainings) + (n if draw.stolen is not None else n * tuning)
    return n * tuning / ours


def _kept_draw(_: int, rng: np.random.Generator, data: Any, options: dict[str, Any]) -> dict[str, Any]:
    return asdict(one_draw(rng, data, **options))


def _checked(learner: str, y: Array, fraction: float, folds: int) -> str:
    """The measure of its models, or why the sample cannot be tuned."""
    if learner not in TUNED:
        raise NotApplicable(f"a {learner} is not tuned here; of the learners {', '.join(TUNED)} are")
    if y.ndim > 1:
        raise NotApplicable("one target a point can be tuned for, and there are several")
    regression = LEARNERS[learner].regression
    if regression:
        if y.dtype.kind == "U":
            raise NotApplicable(f"a {learner} needs numbers as targets, and these are names")
        fewest, least = round(fraction * len(y)), 2 * folds
    else:
        counts = np.unique(y, return_counts=True)[1]
        if len(counts) < 2:
            raise NotApplicable("there is one class only, and nothing to tune")
        fewest, least = round(fraction * int(counts.min())), folds
    if fewest < least:
        raise NotApplicable(
            f"a sample of {fraction:g} would have {fewest} points{'' if regression else ' of a class'}, "
            f"and {folds} folds need {least}; raise the fraction"
        )
    return "R²" if regression else "accuracy"


def _sample(y: Array, learner: str, fraction: float, rng: np.random.Generator) -> Array:
    """Rows in random order, of every class its share."""
    groups = [np.arange(len(y))] if LEARNERS[learner].regression else [np.flatnonzero(y == one) for one in np.unique(y)]
    return rng.permutation(np.concatenate([rng.permutation(group)[: round(fraction * len(group))] for group in groups]))


def _learner(learner: str, value: float) -> Any:
    record = LEARNERS[learner]
    assert record.estimator is not None  # what is tuned can be trained
    return record.estimator.load()(**{record.unit: value}, **(record.tuning or {}))


def _steal(model: Any, X: Array, y: Array, unit: str, trainings: int) -> tuple[float | None, int]:
    """The hyperparameter, and how many trainings it took: none where the equations tell it, if only to a few per cent."""
    seen: list[int] = []
    counting = Context(progress=lambda done, total: seen.append(done))
    for most in (0, trainings):
        try:
            problem = build_problem(Fitted.of(model), TrainingData(X, y))
            best = choose(answers_to(problem, HyperparameterStealing().confidence, most, counting))
        except NotApplicable:
            break
        value = best.values.get(unit, 0.0)
        if best.verdict is Verdict.LEAK and 0 < value < np.inf:
            return float(value), len(seen)
    return None, len(seen)


@contextmanager
def _timed(seconds: dict[str, float], what: str, clock: Callable[[], float] | None) -> Iterator[None]:
    before = clock() if clock else 0.0
    yield
    if clock:
        seconds[what] = clock() - before


def _mean(values: list[float], null: float, null_of: str, **rest: Any) -> Score:
    """A mean over draws with Student's interval."""
    mean = float(np.mean(values))
    quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) if len(values) > 1 else np.inf
    half = quantile * float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.inf
    return Score(mean, null, null_of, interval=(mean - half, mean + half), **rest)


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _figure(draws: list[Draw], measure: str) -> Curve:
    number = np.arange(1, len(draws) + 1, dtype=float)
    kept = np.array([draw.accuracy_retrained is not None for draw in draws])
    retrained = np.array([draw.accuracy_retrained or 0.0 for draw in draws])
    return Curve(
        f"What tuning on everything would add to the {measure}",
        "draw",
        f"{measure} on the validation points",
        {
            "tuned on everything": (number, np.array([draw.accuracy_tuned for draw in draws])),
            "tuned on a sample, stolen, trained once": (number[kept], retrained[kept]),
            "a penalty drawn from the grid": (number, np.array([draw.accuracy_random for draw in draws])),
        },
    )
