"""One contributed point, wherever it may be, in pictures (Carnerero-Cano et al. 2021, section 3 and figure 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from divulge.attacks.poisoning.attack import PAPER, Bounds, Poisoning
from divulge.attacks.poisoning.learners import BY_NAME, NETWORKS, PipelineLearner, Regime, learner_of, test_points
from divulge.attacks.poisoning.outcome import CERTAIN, half_width, paired_p_value
from divulge.attacks.poisoning.records import FailedTraining, all_done
from divulge.contract import (
    Access,
    Array,
    Candidates,
    Context,
    Evidence,
    Finding,
    HeatMap,
    Pipeline,
    Remedy,
    Score,
    Study,
    Truth,
    Verdict,
    option_class,
    taxonomies,
)
from divulge.errors import BadInput, NotApplicable
from divulge.solvers.bilevel.ascent import Trainer
from divulge.solvers.bilevel.inner import Diverged, Trained
from divulge.studies.plane import Plane

MOST = 1e8
"Bytes that positions trained side by side may take. Results do not depend on it."
HURTS = 0.1
"Share of the positions that count as those where the point hurts most: of 40 by 40 enough for a mean."
WEAK = "weakest penalty"
CHANCE = "No single point raises the error more than chance does"


@dataclass(frozen=True, eq=False)
class WorstPoint(Evidence):
    """The point that does most against the weakest penalty, and models with both penalties."""

    x: Array
    "(2,)"
    label: Array
    "(1,)"
    weak: tuple[Array, Array]
    "Weights (2, 1, 2) and intercepts (2, 1) without the worst point and with it, at the weakest penalty."
    strong: tuple[Array, Array]
    "The same at the stronger one, with the point that is worst there."


@option_class
class PoisoningMap(Study[Pipeline]):
    """Draw what one contributed point does to the error, for every place of the plane and with two penalties.

    For pipelines with two features and two classes. Penalties are given as λ, the natural logarithm of their weight.
    """

    name: ClassVar[str] = "poisoning-map"
    asset: ClassVar[str] = "integrity"
    paper: ClassVar[str] = PAPER
    scored_by: ClassVar[type[Access]] = Candidates
    taxonomy = taxonomies.POISONING
    remedy: ClassVar[tuple[str | Remedy, ...]] = Poisoning.remedy

    cells: Annotated[int, Field(ge=2)] = 40
    "Positions along each side of the box that contributed points stay in."
    strength: float = 2.9957
    "The penalty λ of the second map; that of the first is the lowest of `bounds`."
    bounds: Bounds = (-8.0, 6.0)
    "Lowest and highest λ that are tried for the one with the least validation error."
    penalties: Annotated[int, Field(ge=2)] = 15
    "How many λ are tried."
    label: Literal["first", "second", "worse"] = "worse"
    "The class that the point claims, in the order of their labels; or whichever does more harm."
    regime: Regime = "early-stopped"
    "Whether the pipeline trains to the end or stops early, after `epochs` steps of gradient descent at `rate` from 0."
    epochs: PositiveInt = 500
    "Steps of a training that stops early."
    rate: PositiveFloat = 0.2
    "Learning rate of a training that stops early."

    def run(self, held: Pipeline, context: Context) -> Finding[Access]:
        if self.strength <= self.bounds[0]:
            raise BadInput(
                f"expected a strength above the weakest penalty {self.bounds[0]:g}, got {self.strength:g}; raise it"
            )
        learner = self._learner(held)
        plane = Plane.over(*held.box, self.cells)
        train = partial(_trained, learner=learner, held=held, positions=plane.positions)
        labels = range(2) if self.label == "worse" else [("first", "second").index(self.label)]
        both = all_done(context.map("weakest", train, [(side, self.bounds[0]) for side in labels]))
        weak = max(both, key=lambda each: each.most)
        grid = np.linspace(*self.bounds, self.penalties)
        *others, strong = all_done(
            context.map("penalties", train, [(weak.side, float(each)) for each in (*grid[1:], self.strength)])
        )
        tried = [weak, *others]
        order = np.lexsort(([each.loss for each in tried], [each.error for each in tried]), axis=0)
        rate = min(each.rate for each in (*tried, strong))
        return self._judged(_Shown(learner, plane, weak, strong, grid[order[0]], rate), held)

    def score(self, finding: Finding[Access], held: Pipeline, truth: Truth) -> Finding[Access]:
        seen = finding.evidence
        if not isinstance(seen, WorstPoint):
            return finding
        learner = self._learner(held)
        test = test_points(truth, held, learner)
        if test is None:
            return finding
        scores, rises = dict(finding.scores), []
        for name, (W, b) in ((WEAK, seen.weak), (self._strong, seen.strong)):
            clean, poisoned = learner.wrong(W, b, *test)
            mean, off = float(poisoned.mean()), half_width(poisoned, clean)
            scores[f"test error with the worst point, {name}"] = Score(
                mean, float(clean.mean()), "no point added", interval=(max(mean - off, 0.0), min(mean + off, 1.0)), most=1.0
            )
            rises.append((clean, poisoned))
        errors = [learner.shown(float(each.mean())) for pair in rises for each in pair]
        claim = (
            f"{_place(seen)} raises the test error from {errors[0]} to {errors[1]} with the {WEAK}; with "
            f"{self._strong} the worst point raises it from {errors[2]} to {errors[3]}."
        )
        clean, poisoned = rises[0]
        raised, judged = paired_p_value(poisoned, clean) < CERTAIN, replace(finding, scores=scores)
        if finding.verdict is Verdict.NONE_FOUND:
            if raised:
                return judged.corrected(Verdict.LEAK, f"Test points show what validation points could not: {_lower(claim)}")
            return replace(judged, summary=f"{CHANCE}: {_lower(claim)}")
        if raised:
            return replace(judged, summary=claim)
        return judged.corrected(Verdict.FAILED, f"On test points the rise is no more than chance explains: {_lower(claim)}")

    @property
    def _strong(self) -> str:
        return f"λ = {self.strength:.1f}"

    def _learner(self, held: Pipeline) -> PipelineLearner:
        if held.X.shape[1] != 2:
            raise NotApplicable(
                f"the plane that is drawn has two features, and these points have {held.X.shape[1]}; use the attack "
                "`poisoning`, or give two of the features"
            )
        if held.module is not None or held.learner in NETWORKS:
            raise NotApplicable(
                f"the boundaries that are drawn are straight, and a {held.learner} network has others; use the attack "
                '`poisoning`, or learner = "logistic"'
            )
        if held.own is not None:
            raise NotApplicable(BY_NAME)
        learner = learner_of(held, self.regime, self.epochs, self.rate, width=1, seed=0)
        classes = 0 if learner.classes is None else len(learner.classes)
        if classes != 2:
            what = f"there are {classes}" if classes else f"a {held.learner} predicts numbers"
            raise NotApplicable(f"errors between two classes are drawn, and {what}; use the attack `poisoning`")
        return learner

    def _judged(self, shown: _Shown, held: Pipeline) -> Finding[Access]:
        weak, strong, learner = shown.weak, shown.strong, shown.learner
        seen = shown.evidence()
        rest: dict[str, Any] = {
            "scores": self._scores(shown),
            "figures": shown.figures(held, self._strong),
            "notes": tuple(self._notes(shown)),
        }
        claim = (
            f"{_place(seen)} raises the validation error from {learner.shown(weak.clean)} to {learner.shown(weak.most[0])} "
            f"with the {WEAK}; with {self._strong} the worst point raises it from {learner.shown(strong.clean)} to "
            f"{learner.shown(strong.most[0])}."
        )
        clean, poisoned = learner.wrong(*weak.models, np.asarray(held.X_val, float), held.y_val)
        if paired_p_value(poisoned, clean) < CERTAIN:
            return Finding.shown(seen, claim, **rest)
        return Finding.none_found(
            f"{CHANCE}: {_lower(claim)}",
            power=f"{len(weak.error)} places were tried, and a rise that chance explains with less than "
            f"{100 * CERTAIN:g} % would have counted",
            evidence=seen,
            **rest,
        )

    def _scores(self, shown: _Shown) -> dict[str, Score]:
        weak, strong = shown.weak, shown.strong
        scores = {
            f"largest validation error, {name}": Score(each.most[0], each.clean, "no point added")
            for name, each in ((WEAK, weak), (self._strong, strong))
        }
        if weak.rise > 0:
            scores[f"largest rise with {self._strong}, in that with the {WEAK}"] = Score(
                strong.rise / weak.rise, 1.0, "a penalty that changes nothing"
            )
        ranks = np.lexsort((weak.loss, weak.error))
        rest = min(round(len(ranks) * (1 - HURTS)), len(ranks) - 1)
        scores["best λ where the point hurts most, less that elsewhere"] = Score(
            float(shown.best[ranks[rest:]].mean() - shown.best[ranks[:rest]].mean()),
            0.0,
            "a point that λ need not answer to",
        )
        return scores

    def _notes(self, shown: _Shown) -> list[str]:
        percent = shown.learner.shown
        ranges = (
            f"from {percent(float(each.error.min()))} to {percent(each.most[0])} with {name} ({percent(each.clean)} without "
            "the point)"
            for name, each in ((f"the {WEAK}", shown.weak), (self._strong, shown.strong))
        )
        trained = (
            "trained to the end"
            if self.regime == "converged"
            else f"trained for {self.epochs} steps of gradient descent at rate {self.rate:g}"
        )
        notes = [
            f"Over {len(shown.best)} places the validation error runs {' and '.join(ranges)}; each map marks its own worst "
            "point.",
            f"Every model is {trained}. Of {self.penalties} penalties from λ = {self.bounds[0]:g} to {self.bounds[1]:g} the "
            "one with the least validation error is drawn, of equals the one with the least validation loss.",
            "The worst point is worst for the validation points it was chosen by: give test points as truth for an error "
            "that had no part in that.",
        ]
        if shown.rate < self.rate and self.regime == "early-stopped":
            notes.append(
                f"At rate {self.rate:g} training diverges with some penalties; for these it was halved until training "
                f"settled, to {shown.rate:.3g} at the least."
            )
        return notes


@dataclass(frozen=True, eq=False)
class PointMap(Evidence):
    """What a point of one class does with one penalty, wherever it is."""

    side: int
    "Number of the class that the point claims."
    error: Array
    "(positions,): share of the validation points that are wrong."
    loss: Array
    W: Array
    "(positions + 1, 1, 2): weights; those without the point come last."
    b: Array
    clean: float
    "Validation error without the point."
    rate: float

    @property
    def worst(self) -> int:
        """The position with the largest error; of equals, the largest loss."""
        return int(np.lexsort((self.loss, self.error))[-1])

    @property
    def most(self) -> tuple[float, float]:
        """Error and loss there."""
        return float(self.error[self.worst]), float(self.loss[self.worst])

    @property
    def rise(self) -> float:
        return self.most[0] - self.clean

    @property
    def models(self) -> tuple[Array, Array]:
        """Weights and intercepts without the point, and with the worst."""
        return self.W[[-1, self.worst]], self.b[[-1, self.worst]]


@dataclass(frozen=True, eq=False)
class _Shown:
    """The maps of a finding."""

    learner: PipelineLearner
    plane: Plane
    weak: PointMap
    strong: PointMap
    best: Array
    "(positions,): the λ with the least validation error."
    rate: float
    "The least that any penalty was trained at."

    def evidence(self) -> WorstPoint:
        assert self.learner.classes is not None
        x, label = self.plane.positions[self.weak.worst], self.learner.classes[[self.weak.side]]
        return WorstPoint(x, label, self.weak.models, self.strong.models)

    def figures(self, held: Pipeline, strong: str) -> tuple[HeatMap, ...]:
        error, percent = "Validation error with one more point", "validation error, %"
        both = np.concatenate([self.weak.error, self.strong.error])
        ends = 100 * float(both.min()), 100 * float(both.max())
        return (
            self._drawn(f"{error}, {WEAK}", 100 * self.weak.error, percent, held, self.weak, ends),
            self._drawn(f"{error}, {strong}", 100 * self.strong.error, percent, held, self.strong, ends),
            self._drawn("Penalty λ with the least validation error", self.best, "λ", held, self.weak),
        )

    def _drawn(
        self, title: str, values: Array, value: str, held: Pipeline, by: PointMap, limits: tuple[float, float] | None = None
    ) -> HeatMap:
        assert self.learner.classes is not None
        x, y = self.plane.positions[by.worst]
        groups = {f"class {_shown(each)}": tuple(held.X[held.y == each].T) for each in self.learner.classes}
        groups[f"worst, labelled {_shown(self.learner.classes[by.side])}"] = np.array([x]), np.array([y])
        names = ("clean boundary", "with worst point") if limits is not None else ("clean boundary",)
        lines = {name: self.plane.boundary(W, b) for name, W, b in zip(names, *by.models, strict=False)}
        return HeatMap(
            title,
            "feature 1",
            "feature 2",
            self.plane.drawn(values),
            self.plane.columns,
            self.plane.rows,
            value,
            groups,
            {name: line for name, line in lines.items() if len(line[0])},
            limits,
        )


def _trained(
    item: tuple[int, float], rng: np.random.Generator, *, learner: PipelineLearner, held: Pipeline, positions: Array
) -> PointMap | FailedTraining:
    """Train with a point of one class at every position, and without it, all at one rate."""
    assert learner.classes is not None
    side, strength = item
    X_val = np.asarray(held.X_val, float)
    train = learner.trainer(np.asarray(held.X, float), held.y, X_val, held.y_val)
    target = learner.targets(learner.classes[[side]])
    size = max(1, int(MOST / (4 * learner.epochs * (len(held.X) + 1))))

    def end(points: Array) -> Trained:
        strengths = np.full((len(points), learner.penalties), strength)
        return train(points[:, None], np.tile(target, (len(points), 1, 1)), strengths, penalties=False)

    try:
        with threadpool_limits(1):  # the same numbers whoever computes them
            rate = np.inf
            while _rate(train) < rate:
                rate = _rate(train)
                parts = [end(positions[low : low + size]) for low in range(0, len(positions), size)]
                parts.append(learner.plain(train, 2, np.full((1, learner.penalties), strength)))
    except Diverged as reason:
        return FailedTraining(f"with λ = {strength:.2g} {reason}")
    W, b, loss = (np.concatenate([getattr(part, name) for part in parts]) for name in ("W", "b", "value"))
    error = learner.wrong(W, b, X_val, held.y_val).mean(axis=1)
    return PointMap(side, error[:-1], loss[:-1], W, b, float(error[-1]), rate)


def _rate(train: Trainer) -> float:
    """At which it trains: it falls where training diverges."""
    return float(getattr(train, "rate", 0.0))


def _place(seen: WorstPoint) -> str:
    x, y = seen.x
    return f"One point at ({x:.3g}, {y:.3g}) with the label {_shown(seen.label[0])}"


def _shown(label: Any) -> str:
    return label if isinstance(label, str) else f"{label:g}"


def _lower(claim: str) -> str:
    return claim[:1].lower() + claim[1:]
