"""Which algorithm trained this model: the one whose objective its parameters minimise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from scipy.optimize import brentq
from scipy.sparse import issparse

from divulge.attacks.hyperparameters import premises
from divulge.attacks.hyperparameters.formulate import build_problem
from divulge.attacks.hyperparameters.problem import StationarityProblem
from divulge.attacks.hyperparameters.stealing import HyperparameterStealing
from divulge.attacks.hyperparameters.svm import by_bound
from divulge.contract import (
    Array,
    Attack,
    Context,
    Evidence,
    Finding,
    Fitted,
    HeatMap,
    Parameters,
    Score,
    Table,
    TaxonomyId,
    TrainingData,
    Truth,
    Verdict,
    option_class,
)
from divulge.errors import BadInput, NotApplicable
from divulge.learners.catalogue import LEARNERS, learner_named
from divulge.learners.records import Learner, Setup
from divulge.solvers.stationarity import svm, system as stationarity

NOTHING = 1e-9  # of the larger penalty: a negative one this small is 0 with a rounding error, a larger one no penalty
PENALTY_SHARE = 0.02  # of what both penalties pull: with less the other alone would do, but for a solver's tolerance
DEFAULT_EPSILON = 1.35  # of Huber's loss in scikit-learn
UNRELATED = 0.05  # a larger share of the gradient left names nobody: one on two columns left 0.10 of liblinear's
HINGED = 1e-3  # the same of a hinge loss, whose margin hides much: squared hinges left 0.012 of it on 30 columns
ZERO = 1e-12  # of the largest coefficient: an extracted 0 comes with thousands of rounding errors, a coefficient with more
BLURRED = 3.0  # times what a learner leaves that contains it: a ridge by float32 left 1.02 times that, elastic nets 11, 24
HIDDEN = 10.0  # times the precision of extracted coefficients: one that is no larger may be 0
SIGNIFICANCE = 1e-2  # the p-value of a claim: of a hundred unrelated gradients one may look like a learner's own
BY_BOUND = 1e-3  # shown for an SVM whose margins agree with its dual weights: libsvm's tolerance; it competes with no other
AS_GOOD = 10.0  # times what a learner leaves that contains it, a plainer one may leave: it has a penalty less to fit with
CONVERGED = 1e-6  # of what the former leaves, less is not asked of the latter: solvers differ in how far they go
FEW_CLASSES = 20  # as many whole numbers at most are labels; more are counts
SHORT = 1e-12  # coefficients known no better have lost digits on their way
FLOOR = 1e-13  # relative residuals below are hundreds of rounding errors, and equal


@dataclass(frozen=True)
class Candidate:
    """A learner, set up as scikit-learn does by default."""

    learner: Learner
    setup: Setup

    @property
    def title(self) -> str:
        return self.setup.title


@dataclass(frozen=True, eq=False)
class LearnersCompared(Evidence):
    """What every learner that could have been it leaves of its own gradient."""

    titles: tuple[str, ...]
    relative_residuals: Array


@option_class
class AlgorithmIdentification(Attack[tuple[Parameters, TrainingData], Fitted]):
    """Rank learners by how much of their objective's gradient the parameters leave, and name the one that fits alone."""

    name: ClassVar[str] = "algorithm"
    raw: ClassVar[bool] = True
    title: ClassVar[str] = "Which algorithm"
    paper: ClassVar[str] = HyperparameterStealing.paper
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = HyperparameterStealing.taxonomy
    remedy: ClassVar[tuple[str, ...]] = (
        "Count the learner as public once the parameters and the training data are.",
        "Release the parameters without the training data, or the predictions without the parameters.",
    )

    margin: Annotated[float, Field(ge=1)] = 1.5
    "How many times less the winner must leave than the next; nearer ones cannot be told apart."

    def run(self, held: tuple[Parameters, TrainingData], context: Context) -> Finding[Fitted]:
        parameters, data = held
        if data.y is None:
            raise NotApplicable("the training labels are not held, and every objective depends on them")
        _refuse_raw(parameters, data)
        found, untold = rank(_without_nothing(parameters), data)
        ranked = sorted(found, key=lambda one: one.relative_residual)
        if untold:
            raise NotApplicable(
                f"the model has too few parameters to tell its learner: {untold[0]} "
                f"{f'and {len(untold) - 1} more learners ' if len(untold) > 1 else ''}would fit any data as well"
            )
        if not ranked:
            raise NotApplicable("no learner that is known here has parameters of this shape for such targets")
        best = _plainest([one for one in ranked if one.relative_residual <= one.limit] or ranked)
        first = ranked[0]
        rest = [one for one in ranked if one is not best and best.candidate.title not in one.candidate.setup.contains]
        figure = HeatMap(
            "Gradient left unexplained, by learner",
            x="", y="learner", values=np.array([[one.relative_residual] for one in ranked]),
            columns=np.array(["relative residual"]), rows=np.array([one.candidate.title for one in ranked]),
            value="share of the loss gradient",
        )  # fmt: skip
        listed = "; ".join(f"{one.candidate.title} {one.relative_residual:.1e}" for one in ranked[:4])
        residuals = np.array([one.relative_residual for one in ranked])
        shown: dict[str, Any] = {
            "evidence": LearnersCompared(tuple(one.candidate.title for one in ranked), residuals),
            "figures": (figure,),
            "notes": (
                f"Left unexplained of the loss gradient: {listed}.",
                "Settings are taken to be scikit-learn's defaults.",
                *(["Hinge losses are not among them: their equations need dense points."] if issparse(data.X) else []),
            ),
        }
        power = f"of {len(ranked)} learners, one that leaves {self.margin:g} times less than the others"
        if best.relative_residual > best.limit or best.p_value > SIGNIFICANCE:
            return Finding.none_found(
                f"The parameters minimise the objective of none of {len(ranked)} learners on this data: "
                f"the nearest leaves {best.relative_residual:.2g} of its gradient.",
                power=power,
                **shown,
            )
        if (other := _as_likely(first, best, ranked, parameters.precision)) is not None:
            return Finding.none_found(
                f"The parameters fit {first.candidate.title} and {other.candidate.title} alike.", power=power, **shown
            )
        second = min((one.relative_residual for one in rest), default=np.inf)
        if second < self.margin * max(best.relative_residual, FLOOR):
            twin = next(one for one in rest if one.relative_residual == second)
            return Finding.none_found(
                f"The parameters fit {best.candidate.title} and {twin.candidate.title} alike.", power=power, **shown
            )
        scores = {
            "gradient left unexplained": Score(best.relative_residual, second, "the next best learner", better="lower"),
        }
        return Finding.leak(
            best.problem.fitted,
            f"The model was trained by {best.candidate.title}: its parameters leave {best.relative_residual:.1e} of "
            f"that objective's gradient, and {second:.1e} of the next best learner's.",
            scores=scores,
            **shown,
        )

    def score(self, finding: Finding[Fitted], held: tuple[Parameters, TrainingData], truth: Truth) -> Finding[Fitted]:
        known, loot, compared = truth.get(Fitted), finding.loot, finding.evidence
        if known is None or loot is None or not isinstance(compared, LearnersCompared):
            return finding
        right = same_learner(loot, known)
        null = 1 / max(2, len(compared.titles))
        scores = {"right": Score(float(right), null, "a learner drawn at random", most=1.0), **finding.scores}
        finding = replace(finding, scores=scores)
        if right or finding.verdict is not Verdict.LEAK:
            return finding
        claimed, true = (one.learner.replace("_", " ") for one in (loot, known))
        objective = f"another {true}" if claimed == true else true
        return finding.corrected(Verdict.FAILED, f"The truth is {objective}, and {claimed} was claimed: this is wrong.")


@dataclass(frozen=True, eq=False)
class Ranked:
    """A candidate and what it leaves of its own gradient."""

    candidate: Candidate
    problem: StationarityProblem
    relative_residual: float
    shares: tuple[float, ...]
    "Of the gradient that each of its penalties explains."
    p_value: float = 0.0
    "How often they would explain as much of a gradient that has nothing to do with them."

    @property
    def limit(self) -> float:
        """The largest share of the gradient that a model of this learner may leave."""
        return HINGED if self.problem.hinges else UNRELATED


def same_learner(one: Fitted, other: Fitted) -> bool:
    """Whether two models minimise the same objective, up to its hyperparameters."""

    def objective(fitted: Fitted) -> tuple[Any, ...]:
        settings = fitted.settings
        default = learner_named(fitted.learner).penalty
        liblinear = settings.get("solver") == "liblinear" and fitted.intercept is not None
        return fitted.learner, settings.get("penalty", default), settings.get("loss"), liblinear

    return objective(one) == objective(other)


def rank(parameters: Parameters, data: TrainingData) -> tuple[list[Ranked], list[str]]:
    """Candidates that such parameters could come from, with the relative residual of their best penalty; and the titles of
    those that have too few equations to be refuted."""
    ranked: list[Ranked] = []
    untold: list[str] = []
    for candidate in _candidates(parameters, data):
        try:
            problem = build_problem(_as_fitted(parameters, candidate, data), data)
            if problem.hinges:
                left = float(np.sqrt(np.mean([svm.relative_residual(one) ** 2 for one in problem.hinges])))
                ranked.append(Ranked(candidate, problem, max(left, FLOOR), (1.0,)))
            elif problem.systems:
                estimate = stationarity.solve(problem.system)
                for weaker in premises.weaker(problem) if parameters.precision > SHORT else ():
                    again = stationarity.solve(weaker.system)
                    if again.relative_residual < estimate.relative_residual:
                        problem, estimate = weaker, again
                if estimate.degrees_of_freedom < 2:
                    untold.append(candidate.title)
                    continue
                if (estimate.values < -NOTHING * np.abs(estimate.values).max()).any():
                    continue
                sizes = np.linalg.norm(problem.system.A * estimate.values, axis=0)
                shares = tuple((sizes / (sizes.sum() or 1.0)).tolist())
                left = max(estimate.relative_residual, FLOOR)
                if not np.isfinite(left):  # exp of scores in dollars
                    continue
                ranked.append(Ranked(candidate, problem, left, shares, estimate.p_value))
            else:
                if not by_bound(problem).unidentifiable:
                    ranked.append(Ranked(candidate, problem, BY_BOUND, (1.0,)))
        except (NotApplicable, BadInput, np.linalg.LinAlgError, FloatingPointError):
            continue
    return ranked, untold


def _plainest(ranked: list[Ranked]) -> Ranked:
    """The first, unless it only contains a plainer one that does as well: then that."""
    best = ranked[0]
    enough = AS_GOOD * max(best.relative_residual, CONVERGED)
    return next((one for one in _plainer(best, ranked) if one.relative_residual <= enough), best)


def _plainer(best: Ranked, ranked: list[Ranked]) -> list[Ranked]:
    return [
        one for one in ranked if one.candidate.title in best.candidate.setup.contains and one.relative_residual <= UNRELATED
    ]


def _as_likely(first: Ranked, best: Ranked, ranked: list[Ranked], precision: float) -> Ranked | None:
    """A learner that the first contains, or is, and that may as well have been it; None where there is none.

    With a penalty that pulls next to nothing the first may be the plainer one, whose solver stopped early. And of parameters
    that lost digits, a plainer one that leaves more may have lost just that.
    """
    if best is first:
        plainer = _plainer(first, ranked)
        return plainer[0] if plainer and min(first.shares) < PENALTY_SHARE else None
    return best if precision > SHORT and best.relative_residual > BLURRED * first.relative_residual else None


def candidates(dual: bool, classifiers: bool, machines: bool) -> list[Candidate]:
    """Set-ups of learners whose parameters are dual coefficients or not; `machines` are those with support vectors."""
    return [
        Candidate(learner, setup)
        for learner in LEARNERS.values()
        for setup in learner.setups
        if setup.dual == dual
        and learner.classifier == classifiers
        and (not dual or (learner.form == "support vectors") == machines)
    ]


def _candidates(parameters: Parameters, data: TrainingData) -> list[Candidate]:
    assert data.y is not None
    classes = len(np.unique(data.y))
    labels = data.y.dtype.kind == "U" or (
        classes <= FEW_CLASSES and np.array_equal(data.y, np.round(np.asarray(data.y, float)))
    )
    return candidates(parameters.dual_coef is not None, labels, machines=parameters.intercept is not None)


def _without_nothing(parameters: Parameters) -> Parameters:
    """The parameters with zeros where an extraction found what rounding leaves, and no intercept where that is all of it."""
    if parameters.coef is None:
        return parameters
    least = max(ZERO, HIDDEN * parameters.precision) * float(np.abs(parameters.coef).max(initial=0))
    intercept = parameters.intercept
    if intercept is not None and 0 < np.abs(intercept).max() <= least:
        intercept = None
    return replace(parameters, coef=np.where(np.abs(parameters.coef) <= least, 0.0, parameters.coef), intercept=intercept)


def _refuse_raw(parameters: Parameters, data: TrainingData) -> None:
    """Refuse tables, which only a pipeline makes numbers of, and dual coefficients of sparse points."""
    if isinstance(data.X, Table):
        raise BadInput(f"expected numbers as training points, got {data.X.unfit}; pass the data as it enters the model")
    if issparse(data.X) and parameters.dual_coef is not None:
        raise NotApplicable("kernels are compared on dense points, got sparse ones; pass X.toarray() where it fits")


def _as_fitted(parameters: Parameters, candidate: Candidate, data: TrainingData) -> Fitted:
    """The parameters, as if this candidate had learned them."""
    learner, settings = candidate.learner, candidate.setup.settings
    if parameters.dual_coef is not None and learner.form == "support vectors":
        dual = parameters.dual_coef.reshape(len(data.X), -1)
        support = np.flatnonzero(np.abs(dual).sum(axis=1))
        return Fitted(
            learner.name, intercept=parameters.intercept, dual_coef=dual[support].T, kernel=parameters.kernel,
            more={"support": support}, settings=settings,
        )  # fmt: skip
    if parameters.dual_coef is not None:
        return Fitted(learner.name, dual_coef=parameters.dual_coef, kernel=parameters.kernel, settings=settings)
    more = {}
    if learner.loss == "huber":
        more = {"scale": np.array([_huber_scale(parameters, data)])}
    assert parameters.coef is not None
    settings = {**settings, "fit_intercept": parameters.intercept is not None}
    precision = parameters.precision
    return Fitted(
        learner.name, coef=parameters.coef, intercept=parameters.intercept, more=more, settings=settings, precision=precision
    )  # fmt: skip


def _huber_scale(parameters: Parameters, data: TrainingData) -> float:
    """The scale that is stationary with the default ε: Σ min((r / σ)², ε²) = n."""
    assert parameters.coef is not None
    assert data.y is not None
    y = np.asarray(data.y, float)
    constant = 0.0 if parameters.intercept is None else float(parameters.intercept.reshape(-1)[0])
    residual: Array = np.abs(y - data.X @ parameters.coef.reshape(-1) - constant)
    top = float(residual.max())

    def excess(scale: float) -> float:
        return float(np.minimum((residual / scale) ** 2, DEFAULT_EPSILON**2).mean() - 1)

    if not top or excess(1e-9 * top) <= 0:
        raise NotApplicable("no scale of Huber's loss fits these residuals")
    return float(brentq(excess, 1e-9 * top, 1e3 * top, xtol=1e-15 * top, rtol=1e-14))
