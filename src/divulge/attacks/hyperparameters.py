"""Penalties of the objective from the learned parameters and the data (Wang and Gong 2018, arXiv:1802.05351)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from divulge.contract import (
    Array,
    Attack,
    Context,
    Curve,
    Finding,
    Fitted,
    Hyperparameters,
    Score,
    TaxonomyId,
    TrainingData,
    Truth,
    Verdict,
    option_class,
)
from divulge.errors import BadInput, NotApplicable
from divulge.solvers import stationarity
from divulge.solvers.stationarity import Estimate, Gradient, System

STATIONARY = 0.1  # a larger share of the gradient left over is not what a solver's tolerance leaves
UNCONFIRMED = 0.02  # without an intercept nothing else confirms that this is the data: less is allowed
ROUNDING = 100.0  # times machine precision: what is left of an equation that was solved outright
DIRECT = ("cholesky", "svd")  # solvers of ridge that solve outright
CHANCE = 1e-6  # how often a model of other data may look like a minimum on this data
NEGLIGIBLE = 1e-3  # of the gradient at w = 0: a remainder this small is a fit with next to no penalty
WRONG = 0.01  # relative error from which a claim whose interval misses the truth is no claim
LEARNERS = ("ridge", "lasso", "elastic_net", "kernel_ridge")
AVERAGED = ("lasso", "elastic_net")  # scikit-learn divides the loss of these by the total weight
POWERS = np.logspace(-3, 3, 601)  # a useless attacker draws from the range the paper studies
UNRELATED = "a gradient in a random direction, in the median"
GUESSES = {"l1_ratio": (np.linspace(0, 1, 601), "uniformly from 0 to 1")}


@option_class
class HyperparameterStealing(Attack[tuple[Fitted, TrainingData], Hyperparameters]):
    """Solve the stationarity equations of the learner's objective for its regularisation strength."""

    name: ClassVar[str] = "hyperparameters"
    paper: ClassVar[str] = "Wang and Gong 2018, Stealing Hyperparameters in Machine Learning, arXiv:1802.05351"
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = (
        TaxonomyId("NIST AI 100-2", "E2025", "NISTAML.031"),
        TaxonomyId("MITRE ATLAS", "5", "AML.T0024.002"),
        TaxonomyId("OWASP ML Top 10", "2023", "ML05"),
    )
    remedy: ClassVar[tuple[str, ...]] = (
        "Count the hyperparameters as public once the parameters and the training data are.",
        "Release the parameters without the training data, or the predictions without the parameters.",
        "Round the released parameters and audit again: the paper finds that it helps an L1 penalty more than an L2 one.",
    )

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.99
    "How sure the reported interval should be; solvers that stop early fall short of it (docs/results.md)."

    def run(self, held: tuple[Fitted, TrainingData], context: Context) -> Finding[Hyperparameters]:
        fitted, data = held
        problem = _pose(fitted, data)
        estimate = stationarity.solve(problem.system, self.confidence)
        values, intervals = problem.in_own_units(estimate)
        counts = f"{_counted(len(problem.system.b), 'equation')} for {_counted(len(values), 'unknown')}"
        if not estimate.spare:
            raise NotApplicable(f"{counts}: any data would give an answer, and nothing would show a wrong one")
        if problem.unbalanced:
            raise NotApplicable(
                f"the residuals of this data do not add up to nothing, as the intercept of the {problem.title} model makes "
                "them where it was fitted; the model was trained on other data, or its parameters were rounded"
            )
        problem.refuse_different_penalties(estimate, self.confidence)
        evidence: dict[str, Any] = {
            "scores": {"gradient left unexplained": Score(estimate.leftover, estimate.luck, UNRELATED, better="lower")},
            "figures": (_profile(problem, values),),
        }
        allowed = problem.allowed
        low, high = intervals["alpha"]
        if estimate.leftover <= allowed and estimate.chance <= CHANCE and low > 0:
            found = ", ".join(f"{name} = {value:.6g}" for name, value in values.items())
            return Finding.leak(
                Hyperparameters(values, intervals),
                f"The {problem.title} model was trained with {found}: its parameters and data say so to "
                f"{_digits(values, intervals)} digits.",
                notes=(f"{counts}; {estimate.leftover:.1e} of the loss gradient is left unexplained.",),
                **evidence,
            )
        remainder = estimate.leftover * float(np.linalg.norm(problem.system.b))
        if remainder <= NEGLIGIBLE * problem.start_size and high > 0:
            return Finding.none_found(
                f"The {problem.title} model is too near an unpenalised fit to tell its penalty from what the solver left.",
                power=f"only alpha below {high:.2g} can be said at {100 * self.confidence:g} % confidence",
                **evidence,
            )
        if estimate.leftover <= allowed and low > 0:
            raise NotApplicable(
                f"{counts}, which leave {estimate.leftover:.2g} of the loss gradient unexplained: a model of other data "
                f"would look as good in {estimate.chance:.0e} of cases, too many to claim an answer"
            )
        raise NotApplicable(
            f"the {problem.title} parameters are not a minimum on this data for any penalty: "
            f"{estimate.leftover:.2g} of the loss gradient is left unexplained, where a converged solver leaves far below "
            f"{allowed:.1g}; the model was trained on other data, or its solver stopped early"
        )

    def score(
        self, finding: Finding[Hyperparameters], held: tuple[Fitted, TrainingData], truth: Truth
    ) -> Finding[Hyperparameters]:
        known, loot = truth.get(Hyperparameters), finding.loot
        if known is None or loot is None:
            return finding
        scores, notes = {}, []
        for name in (name for name in loot.values if name in known.values):
            true = known.values[name]
            scores[f"relative error of {name}"] = score = _error(name, loot.values[name], true)
            low, high = loot.intervals[name]
            if low <= true <= high:
                continue
            notes.append(f"The interval of {name} does not hold the truth {true:g}.")
            if score.value > WRONG:
                summary = f"{finding.summary} The truth is {name} = {true:g}: this is wrong."
                finding = replace(finding, verdict=Verdict.FAILED, summary=summary)
        figures = tuple(
            replace(figure, marks={**figure.marks, "true": known.values["alpha"]})
            if isinstance(figure, Curve) and known.values.get("alpha", 0) > 0
            else figure
            for figure in finding.figures
        )
        return replace(finding, scores=scores | dict(finding.scores), notes=(*finding.notes, *notes), figures=figures)


@dataclass(frozen=True, eq=False)
class _Problem:
    """A learner's stationarity equations, in the form that least squares takes."""

    learner: str
    systems: list[System]
    "One an output; they should share their penalties."
    start_size: float
    "Size of the loss gradient at w = 0, on the same scale."
    direct: bool
    "Whether the solver leaves nothing but rounding errors."

    @cached_property
    def system(self) -> System:
        return stationarity.stacked(self.systems)

    @property
    def unbalanced(self) -> bool:
        """Whether an intercept was fitted, but on other data than this."""
        rounding = ROUNDING * self.system.epsilon * float(self.system.magnitude.max())
        return bool((np.abs(self.system.check) > rounding).any())

    @property
    def allowed(self) -> float:
        """The share of the gradient that may be left unexplained on the data the model was fitted on."""
        if self.direct:
            size = float(np.linalg.norm(self.system.b)) or 1.0
            rounding = ROUNDING * self.system.epsilon * float(np.linalg.norm(self.system.magnitude))
            return min(STATIONARY, rounding / size)
        return STATIONARY if self.system.check.size else UNCONFIRMED

    @property
    def title(self) -> str:
        return self.learner.replace("_", " ")

    def refuse_different_penalties(self, pooled: Estimate, confidence: float) -> None:
        alone = [stationarity.solve(system, confidence) for system in self.systems if len(self.systems) > 1]
        for one in alone:
            if one.spare and (np.abs(one.values - pooled.values) > one.half_widths + pooled.half_widths).any():
                listed = ", ".join(f"{self.in_own_units(one)[0]['alpha']:.4g}" for one in alone)
                raise NotApplicable(f"the outputs have different penalties ({listed}); audit them one at a time")

    def in_own_units(self, estimate: Estimate) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
        """Values and intervals as the estimator's own constructor would take them."""
        if self.learner != "elastic_net":
            value, half = float(estimate.values[0]), float(estimate.half_widths[0])
            return {"alpha": value}, {"alpha": (value - half, value + half)}
        first, second = (float(value) for value in estimate.values)
        alpha = first + second or np.finfo(float).tiny
        ratio = float(np.clip(first / alpha, 0, 1))
        slopes = np.array([1.0, 1.0]), np.array([second, -first]) / alpha**2
        spread, ratio_spread = (float(np.sqrt(slope @ estimate.covariance @ slope)) for slope in slopes)
        low, high = np.clip([first / alpha - ratio_spread, first / alpha + ratio_spread], 0, 1).tolist()
        return (
            {"alpha": alpha, "l1_ratio": ratio},
            {"alpha": (alpha - spread, alpha + spread), "l1_ratio": (low, high)},
        )


def _pose(fitted: Fitted, data: TrainingData) -> _Problem:
    """Write down the equations, or say why there are none."""
    if fitted.learner not in LEARNERS:
        raise BadInput(f"expected a learner out of {', '.join(LEARNERS)}, got {fitted.learner!r}; fit one of these")
    if data.y is None:
        raise NotApplicable("the training labels are not held, and the objective depends on them")
    if data.y.dtype.kind == "U":
        raise BadInput(f"expected numbers as targets of a {fitted.learner} model, got text; pass the y it was fitted on")
    X, y = np.asarray(data.X, float), np.asarray(data.y, float).reshape(len(data.X), -1)
    weight = np.ones(len(X)) if data.sample_weight is None else np.asarray(data.sample_weight, float)
    parameters = _parameters(fitted, X, y)
    if fitted.learner == "kernel_ridge":
        K = _gram(fitted, X)
        systems = [stationarity.kernel_ridge(K, target, c, weight) for target, c in zip(y.T, parameters, strict=True)]
        start = float(np.linalg.norm(weight[:, None] * y))
        return _Problem(fitted.learner, _precise(systems, fitted.dual_coef), start, direct=True)
    free = fitted.intercept is not None
    if fitted.learner in AVERAGED:
        weight = weight / weight.sum()
    intercepts = np.zeros(len(parameters)) if fitted.intercept is None else fitted.intercept.reshape(-1)
    if len(intercepts) not in (1, len(parameters)):
        raise BadInput(
            f"expected one intercept or one for each of the {_counted(len(parameters), 'output')} of the model, "
            f"got {len(intercepts)}; pass what it learned"
        )
    intercepts = np.broadcast_to(intercepts, (len(parameters),))
    systems = [
        _linear(fitted, w, stationarity.squared_loss(X, target, w, float(c), weight, free))
        for w, target, c in zip(parameters, y.T, intercepts, strict=True)
    ]
    sizes = np.linalg.norm(stationarity.stacked(systems).A, axis=0)
    if not (sizes > 0).all() or not np.isfinite(sizes).all():
        raise NotApplicable("the coefficients that carry the penalty vanish, and so does what they would say about it")
    if np.linalg.matrix_rank(stationarity.stacked(systems).A / sizes) < len(sizes):
        raise NotApplicable("all non-zero coefficients have one size, for which the two penalties cannot be told apart")
    centred = y - np.average(y, axis=0, weights=weight) if free else y
    start = float(np.linalg.norm(X.T @ (weight[:, None] * centred)))
    direct = fitted.learner == "ridge" and fitted.settings.get("solver") in DIRECT
    return _Problem(fitted.learner, _precise(systems, fitted.coef), start, direct)


def _precise(systems: list[System], learned: Array | None) -> list[System]:
    """The same equations, with the precision in which their parameters were computed."""
    epsilon = float(np.finfo(float if learned is None else learned.dtype).eps)
    return [replace(system, epsilon=epsilon) for system in systems]


def _linear(fitted: Fitted, w: Array, gradient: Gradient) -> System:
    if fitted.settings.get("positive"):
        used = w > 0  # a coefficient held at its bound has a gradient of its own
    elif fitted.learner == "ridge":
        used = np.full(len(w), True)
    else:
        used = w != 0
    build = {"ridge": stationarity.ridge, "lasso": stationarity.lasso, "elastic_net": stationarity.elastic_net}
    return build[fitted.learner](w[used], stationarity.kept(gradient, used))


def _parameters(fitted: Fitted, X: Array, y: Array) -> Array:
    """Coefficients (outputs, d), or dual ones (outputs, n), that fit the data at hand."""
    if fitted.learner == "kernel_ridge":
        name, learned, wanted, what = "dual_coef", fitted.dual_coef, len(X), f"each of the {len(X)} training points"
    else:
        name, learned, wanted, what = "coef", fitted.coef, X.shape[1], f"each of the {X.shape[1]} features"
    if learned is None:
        raise BadInput(f"expected {name} of the {fitted.learner} model, got none; pass what it learned")
    parameters = learned.reshape(1, -1) if learned.ndim == 1 else (learned.T if name == "dual_coef" else learned)
    if parameters.shape[1] != wanted:
        raise BadInput(
            f"expected one entry of {name} for {what}, got {parameters.shape[1]}; pass the data the model was fitted on"
        )
    if len(parameters) != y.shape[1]:
        raise BadInput(
            f"expected targets with {len(parameters)} columns, one for each output of the model, got {y.shape[1]}; "
            "pass the y it was fitted on"
        )
    unknowns = 2 if fitted.learner == "elastic_net" else 1
    if (used := int(np.count_nonzero(parameters))) < unknowns:
        raise NotApplicable(
            f"the {fitted.learner.replace('_', ' ')} model has {used} non-zero coefficients, too few equations for "
            f"{unknowns} unknown{'s' if unknowns > 1 else ''}: any penalty above some size gives the same model"
        )
    return np.asarray(parameters, float)


def _gram(fitted: Fitted, X: Array) -> Array:
    kernel = fitted.kernel
    if kernel is None or kernel.name not in stationarity.KERNELS:
        got = "none" if kernel is None else repr(kernel.name)
        raise BadInput(f"expected a kernel out of {', '.join(stationarity.KERNELS)}, got {got}; pass kernel=Kernel(name)")
    gamma = 1 / X.shape[1] if kernel.gamma is None else kernel.gamma
    return stationarity.gram(kernel.name, X, gamma, kernel.degree, kernel.coef0)


def _error(name: str, value: float, true: float) -> Score:
    """Relative error, beside that of a guess."""
    guesses, drawn = GUESSES.get(name, (POWERS, "log-uniformly from 10⁻³ to 10³"))
    scale = abs(true) or 1.0
    null = float(np.median(np.abs(guesses - true))) / scale
    return Score(abs(value - true) / scale, null, f"the median guess drawn {drawn}", better="lower")


def _profile(problem: _Problem, values: dict[str, float]) -> Curve:
    """How much of the gradient is left for other answers: a sharp valley is a sharp answer."""
    system = problem.system
    centre = abs(values["alpha"]) or 1.0
    grid = np.unique(np.concatenate([np.geomspace(centre / 1e3, centre * 1e3, 241), [centre]]))
    ratio = values.get("l1_ratio")
    parts = np.array([1.0]) if ratio is None else np.array([ratio, 1 - ratio])
    whole = float(np.linalg.norm(system.b)) or 1.0
    left = np.linalg.norm(system.b[:, None] + (system.A @ parts)[:, None] * grid, axis=0) / whole
    return Curve(
        f"Gradient left unexplained, by the {problem.title} penalty",
        x="alpha",
        y="share of the loss gradient",
        series={"leftover": (grid, np.maximum(left, 1e-16))},
        log_x=True,
        log_y=True,
        marks={"stolen": values["alpha"]} if values["alpha"] > 0 else {},
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _digits(values: dict[str, float], intervals: dict[str, tuple[float, float]]) -> int:
    worst = max((high - low) / 2 / (abs(values[name]) or 1) for name, (low, high) in intervals.items())
    return int(max(0, np.floor(-np.log10(max(worst, 1e-16)))))
