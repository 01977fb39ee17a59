"""What a learner minimised, written down as equations for its penalty; or why that cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from divulge.attacks.hyperparameters.networks import build_network_problem
from divulge.attacks.hyperparameters.problem import StationarityProblem, counted, named_kernel
from divulge.attacks.hyperparameters.svm import build_svm_problem
from divulge.contract import Array, Fitted, Table, TrainingData
from divulge.errors import BadInput, NotApplicable
from divulge.learners.catalogue import learner_named
from divulge.learners.records import Learner
from divulge.solvers.shared import rounding
from divulge.solvers.stationarity import bandwidth, svm, system as stationarity
from divulge.solvers.stationarity.losses import LOSSES, Loss, huber
from divulge.solvers.stationarity.precision import HeldTable
from divulge.solvers.stationarity.refit import Trainer, row
from divulge.solvers.stationarity.sparse import hessian_norm
from divulge.solvers.stationarity.system import System

DIRECT = ("cholesky", "svd")  # solvers of ridge that solve outright
UNSETTLED = 1e-4  # of an equation's terms: L-BFGS left up to 5e-5 of the one for Huber's scale in 50 fits
SURE = 3.0  # standard deviations of what cut-off digits add; a single one, uniform, never exceeds 1.73


def build_problem(fitted: Fitted, data: TrainingData, cut: Array | None = None) -> StationarityProblem:
    """Write down the stationarity equations ∇loss(w) + λ ∇penalty(w) = 0 at the learned w, or say why there are none.

    `cut` (d,) is what was cut off the entries of each column, where the data does not show it itself.
    """
    learner = learner_named(fitted.learner)
    if data.y is None:
        raise NotApplicable("the training labels are not held, and the objective depends on them")
    if data.y.dtype.kind == "U" and learner.regression:
        raise BadInput(f"expected numbers as targets of a {learner.name} model, got text; pass the y it was fitted on")
    if fitted.steps is not None or fitted.targets is not None or fitted.prepare or isinstance(data.X, Table):
        plain = replace(fitted, steps=None, targets=None, prepare=())
        return build_problem(plain, fitted.prepared(data), _carried(fitted, data))
    if issparse(data.X):
        _refuse_sparse(fitted)
    assert data.y is not None
    X, weight = data.X.astype(float, copy=False), _weights(fitted, data)
    kernel = fitted.kernel
    told = {} if kernel is None else {"kernel": kernel.name, "degree": kernel.degree, "coef0": kernel.coef0}
    if kernel is not None and kernel.gamma is not None:
        told["gamma"] = kernel.gamma
    trainer = Trainer(learner, fitted.settings, told, data.X, data.y, data.sample_weight)
    if learner.form == "support vectors" and (learner.regression or fitted.coef is None):
        if data.sample_weight is not None and not data.sample_weight.all():
            used = data.sample_weight > 0  # libsvm numbers its support vectors without the points that weigh nothing
            return build_problem(fitted, TrainingData(data.X[used], data.y[used], data.sample_weight[used]))
        return build_svm_problem(fitted, X, weight, trainer)
    if fitted.layers or learner.form == "network":
        return build_network_problem(fitted, X, data.y, weight, trainer)
    loss, Y = _targets(fitted, data.y)
    parameters = _parameters(fitted, X, Y)
    if learner.form == "kernel":
        return _kernel(fitted, X, Y, parameters, weight, loss, trainer)
    return _linear(fitted, cut, X, Y, parameters, weight, loss, trainer)


def _refuse_sparse(fitted: Fitted) -> None:
    """What needs every entry of the points, or as many numbers as features squared."""
    learner = learner_named(fitted.learner)
    if learner.form != "linear" or (learner.losses and not _loss(learner, fitted.settings).smooth):
        what = "of hinge losses" if learner.form == "linear" else "of kernels, support vectors and networks"
        raise NotApplicable(
            f"the equations {what} are solved on dense points, got sparse ones; pass X.toarray() where it fits"
        )


def _linear(
    fitted: Fitted, cut: Array | None, X: Array, Y: Array, W: Array, weight: Array, loss: Loss, trainer: Trainer
) -> StationarityProblem:
    learner, settings = learner_named(fitted.learner), fitted.settings
    free, c = fitted.intercept is not None, _intercepts(fitted, W)
    liblinear = learner.solver_in(settings) == "liblinear"
    scaling = float(settings.get("intercept_scaling", 1)) if liblinear and free else None
    total = float(weight.sum()) if learner.averaged else 1.0
    penalties = _penalties(fitted)
    common: dict[str, Any] = {
        "fitted": fitted, "penalties": penalties, "trainer": trainer, "weight": weight, "total": total,
        "observed": row(fitted.coef, fitted.intercept, None, None, X.shape[0]),
        "decimals": rounding.rounded_to(np.asarray(fitted.coef)),
    }  # fmt: skip
    if not loss.smooth:
        if penalties != ("l2",):
            raise NotApplicable("a hinge loss with an L1 penalty has edges everywhere; no equation is left")
        touching = max(svm.TOUCHING, 10 * float(settings.get("tol") or 0))
        column = (scaling or 1.0) if free else None
        hinges = [
            svm.hinge(X, Y[:, k], W[k], float(c[k]), weight, column, scaling is not None, touching) for k in range(len(W))
        ]
        projected = [system for system in map(svm.projected, hinges) if system is not None]
        return StationarityProblem(systems=_precise(projected, fitted.coef), hinges=hinges, **common)
    auxiliary: dict[str, tuple[float, float]] = {}
    if learner.loss == "huber":
        loss, auxiliary = _huber(fitted, X @ W[0] + c[0] - Y[:, 0], weight)
    squared = loss is LOSSES["squared"]
    centred = squared and free and not learner.stochastic and not (issparse(X) and settings.get("solver") == "sag")
    found = stationarity.gradient(loss, X, Y, W, c, weight, centred)
    tabled = squared and not learner.stochastic and not issparse(X)
    positive = bool(settings.get("positive"))
    used = W > 0 if positive else np.full(W.shape, True)  # a coefficient held at its bound has a gradient of its own
    systems = stationarity.systems(
        found, W, penalties, free=free and scaling is None, constant=None if scaling is None else (c, scaling), used=used
    )
    if learner.loss == "huber":
        # What L-BFGS leaves of the scale moves every residual a little, and with them the gradient.
        systems = [replace(system, A=2 * system.A, noise=UNSETTLED * float(np.linalg.norm(system.b))) for system in systems]
    _refuse_vanishing(stationarity.stacked(systems), len(penalties))
    systems = [stationarity.stacked(systems)] if loss.joint else systems
    systems = _precise(systems, fitted.coef)
    if off := _off(fitted, common["decimals"]):
        systems = [replace(one, noise=_noise(X, weight, loss, Y, W, c, k, off, centred))
                   for k, one in enumerate(systems)]  # fmt: skip
    level = _best_constant(loss, Y, weight, W) if free else np.zeros(len(W))
    from_middle = Y - np.average(Y, axis=0, weights=weight) if centred else Y
    start = stationarity.at_zero(loss, X, from_middle, level, weight)
    return StationarityProblem(
        systems=systems,
        start_size=float(np.linalg.norm(start[0])),
        direct=squared and settings.get("solver") in DIRECT,
        centred=centred,
        stopped=_stopped(fitted, Y, weight, start, scaling, found.column_scale if issparse(X) else 1.0),
        auxiliary=auxiliary,
        table=_table(fitted, cut, X, Y, W, weight, free, found.column_scale) if tabled else None,
        **common,
    )


def _table(
    fitted: Fitted, cut: Array | None, X: Array, Y: Array, W: Array, weight: Array, free: bool, column_scale: float
) -> HeldTable:
    labels = learner_named(fitted.learner).classifier
    cut_targets = 0.0 if labels else float(np.linalg.norm(rounding.cut_off(Y)) / np.sqrt(Y.shape[1]))
    middle, level = np.average(X, axis=0, weights=weight), np.average(Y, axis=0, weights=weight)
    sizes = weight.sum() * (np.abs(W) @ np.abs(middle) + np.abs(level))
    if not free:
        middle, level = 0 * middle, 0 * level
    cut = rounding.cut_off(X) if cut is None else cut
    return HeldTable(X - middle, Y - level, weight, cut, cut_targets, column_scale, sizes)


def _carried(fitted: Fitted, data: TrainingData) -> Array | None:
    """What was cut off the data, as the sums and products of its pipeline carry it on; None where there are other steps."""
    if fitted.steps is not None or not isinstance(data.X, np.ndarray):
        return None
    width = data.X.shape[1]
    at = fitted.prepared(TrainingData(np.concatenate([np.zeros((1, width)), np.eye(width)]))).X
    return np.asarray(np.sqrt(rounding.cut_off(data.X) ** 2 @ (at[1:] - at[0]) ** 2))


def _best_constant(loss: Loss, Y: Array, weight: Array, W: Array) -> Array:
    """Roughly where an intercept would be without any coefficient: the scale of the gradient is all that is asked."""
    if loss is LOSSES["poisson"]:
        return np.asarray(np.log(np.maximum(np.average(Y, axis=0, weights=weight), 1e-12)))
    return np.zeros(len(W))


def _stopped(
    fitted: Fitted, Y: Array, weight: Array, start: tuple[Array, Array], scaling: float | None, column_scale: float
) -> float:
    """The largest entry of the gradient that its solver's tolerance lets pass."""
    settings, tol = fitted.settings, fitted.settings.get("tol")
    if not isinstance(tol, int | float):
        return 0.0
    learner = learner_named(fitted.learner)
    solver = learner.solver_in(settings)
    if solver in learner.stops_by_gradient:
        # Below, an objective no longer falls by more than its rounding, whatever the tolerance: by |g|² / 2L, where L grows
        # with the squared length of a point, d times the mean square of its entries.
        finest = 3e-7 * column_scale * np.sqrt(start[0].shape[1]) if solver != "newton-cholesky" else 0.0
        return float(max(tol, finest) * weight.sum())
    if solver == "liblinear" and not (settings.get("dual") is True or settings.get("loss") == "hinge"):
        share = min(float((Y > 0).mean(axis=0).min()), float((Y < 0).mean(axis=0).min()))
        first = np.concatenate([start[0], (scaling or 0) * start[1][:, None]], axis=1)
        sizes = np.abs(first).sum(axis=1) if "l1" in _penalties(fitted) else np.linalg.norm(first, axis=1)
        return float(tol * share * sizes.max())
    return 0.0


def _kernel(
    fitted: Fitted, X: Array, Y: Array, dual: Array, weight: Array, loss: Loss, trainer: Trainer
) -> StationarityProblem:
    penalties = _penalties(fitted)
    observed = row(None, None, fitted.dual_coef, None, len(X))
    common: dict[str, Any] = {
        "fitted": fitted, "penalties": penalties, "trainer": trainer, "weight": weight,
        "observed": observed, "decimals": rounding.rounded_to(observed),
    }  # fmt: skip
    kernel = named_kernel(fitted)
    auxiliary: dict[str, tuple[float, float]] = {}
    gamma = kernel.gamma
    if gamma is None:
        gamma, auxiliary = _bandwidth(fitted, X, Y, dual, weight)
    K = stationarity.gram(kernel.name, X, gamma, kernel.degree, kernel.coef0)
    systems = _precise(stationarity.kernel_systems(loss, K, Y, dual, weight, penalties), fitted.dual_coef)
    _refuse_vanishing(stationarity.stacked(systems), len(penalties))
    if common["decimals"] is not None:
        unit = 10.0 ** -int(common["decimals"]) / np.sqrt(12)
        lost = K if penalties == ("l2",) else K @ K
        systems = [replace(one, noise=float(SURE * unit * np.linalg.norm(lost))) for one in systems]
    start = float(np.linalg.norm(weight[:, None] * loss.first_derivative(np.zeros_like(Y), Y)))
    direct = learner_named(fitted.learner).solver in DIRECT and common["decimals"] is None
    return StationarityProblem(systems=systems, start_size=start, direct=direct, auxiliary=auxiliary, **common)


def _bandwidth(
    fitted: Fitted, X: Array, Y: Array, dual: Array, weight: Array
) -> tuple[float, dict[str, tuple[float, float]]]:
    """The bandwidth γ with which (K + α / weight) c = y can hold for some α."""
    kernel = named_kernel(fitted)
    if kernel.name not in stationarity.WITH_BANDWIDTH:
        return 1 / X.shape[1], {}
    learner = learner_named(fitted.learner)
    if learner.loss != "squared":
        raise NotApplicable(f"the bandwidth (gamma) of the kernel is not known, and of a {learner.title} it is not attacked")
    everyone = np.arange(len(X))
    equations = [
        bandwidth.Equations(everyone, everyone, c, y, (c / weight)[:, None]) for c, y in zip(dual, Y.T, strict=True)
    ]
    found = bandwidth.find(stationarity.distances(kernel.name, X), equations)
    if found is None:
        raise NotApplicable("the bandwidth (gamma) of the kernel is not known, and nothing in the parameters depends on it")
    return found.gamma, {"gamma": (found.gamma, found.half_width)}


def _huber(fitted: Fitted, residual: Array, weight: Array) -> tuple[Loss, dict[str, tuple[float, float]]]:
    """The loss with the ε at which the learned scale is stationary: Σ weight min(z², ε²) = Σ weight."""
    if "scale" not in fitted.more:
        raise BadInput("expected more['scale'] of the huber model, got none; pass the scale_ it learned")
    scale = float(fitted.more["scale"].reshape(-1)[0])
    squares = np.sort((residual / scale) ** 2)
    order = np.argsort((residual / scale) ** 2)
    w = weight[order]
    below, above = np.cumsum(w * squares), w.sum() - np.cumsum(w)
    # With the first k points inside, ε² = (Σ weight − Σ inside) / (weight outside) must lie between neighbours.
    with np.errstate(divide="ignore", invalid="ignore"):
        epsilon_squared = (w.sum() - below[:-1]) / above[:-1]
    fits = np.flatnonzero((epsilon_squared >= squares[:-1]) & (epsilon_squared <= squares[1:]))
    if not len(fits):
        return huber(float(np.sqrt(squares[-1]) + 1), scale), {}
    k = int(fits[0])
    epsilon = float(np.sqrt(epsilon_squared[k]))
    slack = SURE * float(fitted.settings.get("tol", 1e-5)) + UNSETTLED * w.sum()
    return huber(epsilon, scale), {"epsilon": (epsilon, slack / (2 * epsilon * float(above[k])))}


def _off(fitted: Fitted, decimals: int | None) -> float:
    """Standard deviation of what each coefficient is off: half a unit of its last digit at most, or what is known of all."""
    known = fitted.precision * float(np.abs(fitted.coef).max(initial=0)) if fitted.coef is not None else 0.0
    return known if decimals is None else 10.0**-decimals / np.sqrt(12)


def _noise(X: Array, weight: Array, loss: Loss, Y: Array, W: Array, c: Array, k: int, off: float, centred: bool) -> float:
    """What coefficients that are off by so much each add to the gradient."""
    curvature = weight * loss.second_derivative(X @ W.T + c, Y)[:, k]
    if issparse(X):
        size = hessian_norm(X, curvature, (X.T @ weight) / weight.sum() if centred else None)
    else:
        wide = X - weight @ X / weight.sum() if centred else np.column_stack([X, np.ones(len(X))])
        size = float(np.linalg.norm(wide.T @ (curvature[:, None] * wide)))
    outputs = len(W) if loss.joint else 1
    return float(SURE * np.sqrt(outputs) * off * size)


def _targets(fitted: Fitted, y: Array) -> tuple[Loss, Array]:
    """The loss and its targets (n, outputs)."""
    learner, settings = learner_named(fitted.learner), fitted.settings
    if not learner.classifier:
        if learner.loss == "poisson" and np.min(y) < 0:
            raise BadInput("expected targets that are not negative for a poisson model; pass the y it was fitted on")
        return _loss(learner, settings), np.asarray(y, float).reshape(len(y), -1)
    if y.ndim > 1:
        raise BadInput(f"expected one label a point for a {learner.name} model, got shape {y.shape}; pass class labels")
    classes = np.unique(y)
    if len(classes) < 2:
        raise BadInput(
            f"expected labels of at least two classes for a {learner.name} model, got one; pass the y it was fitted on"
        )
    if settings.get("multi_class") == "crammer_singer":
        raise NotApplicable("the Crammer-Singer loss compares classes with each other; only one-vs-rest is attacked")
    if learner.multiclass and len(classes) > 2 and settings.get("multi_class") != "ovr":
        return LOSSES[learner.multiclass], (y[:, None] == classes).astype(float)
    signs = np.where(y[:, None] == classes, 1.0, -1.0)
    return _loss(learner, settings), signs[:, 1:] if len(classes) == 2 else signs


def _loss(learner: Learner, settings: Mapping[str, Any]) -> Loss:
    """The loss that its settings say; Huber's, until its scale is known, is squared."""
    name = learner.loss
    if learner.losses:
        told = settings.get("loss", name or None)
        if told not in learner.losses:
            raise NotApplicable(
                f"the loss {told!r} of stochastic descent is not attacked; of its losses {', '.join(learner.losses)} are"
            )
        name = learner.losses[told]
    return LOSSES["squared" if name == "huber" else name]


def _penalties(fitted: Fitted) -> tuple[str, ...]:
    penalty = fitted.settings.get("penalty", learner_named(fitted.learner).penalty)
    if penalty is None:
        raise NotApplicable("the model was trained without a penalty, so there is no hyperparameter of one")
    return {"l1": ("l1",), "l2": ("l2",)}.get(penalty, ("l1", "l2"))


def _weights(fitted: Fitted, data: TrainingData) -> Array:
    """Sample weights times class weights."""
    weight = np.ones(data.X.shape[0]) if data.sample_weight is None else np.asarray(data.sample_weight, float)
    given = fitted.settings.get("class_weight")
    if given is None:
        return weight
    assert data.y is not None
    classes, members, counts = np.unique(data.y, return_inverse=True, return_counts=True)
    alone = learner_named(fitted.learner).one_vs_rest or fitted.settings.get("multi_class") == "ovr"
    if len(classes) > 2 and alone:
        raise NotApplicable(
            "class weights differ from output to output in a one-vs-rest model; audit the outputs one at a time"
        )
    if given == "balanced":
        if data.sample_weight is not None:
            raise NotApplicable(
                "balanced class weights together with sample weights are not attacked; use a dict of weights"
            )
        return np.asarray(weight * (data.X.shape[0] / (len(classes) * counts))[members])
    factors = np.array([float(given.get(one.item(), given.get(str(one), 1.0))) for one in classes])
    return np.asarray(weight * factors[members])


def _refuse_vanishing(whole: System, unknowns: int) -> None:
    sizes = np.linalg.norm(whole.A, axis=0)
    if not (sizes > 0).all() or not np.isfinite(sizes).all():
        raise NotApplicable("the coefficients that carry the penalty vanish, and so does what they would say about it")
    if np.linalg.matrix_rank(whole.A / sizes) < unknowns:
        raise NotApplicable("all non-zero coefficients have one size, for which the two penalties cannot be told apart")


def _precise(systems: list[System], learned: Array | None) -> list[System]:
    """The same equations, with the precision in which their parameters were computed."""
    epsilon = float(np.finfo(float if learned is None else learned.dtype).eps)
    return [replace(system, epsilon=epsilon) for system in systems]


def _intercepts(fitted: Fitted, W: Array) -> Array:
    if fitted.intercept is None:
        return np.zeros(len(W))
    intercepts = np.asarray(fitted.intercept, float).reshape(-1)
    if len(intercepts) not in (1, len(W)):
        raise BadInput(
            f"expected one intercept or one for each of the {counted(len(W), 'output')} of the model, "
            f"got {len(intercepts)}; pass what it learned"
        )
    return np.broadcast_to(intercepts, (len(W),))


def _parameters(fitted: Fitted, X: Array, Y: Array) -> Array:
    """Coefficients (outputs, d), or dual ones (outputs, n), that fit the data at hand."""
    if learner_named(fitted.learner).form == "kernel":
        name, learned, wanted, what = "dual_coef", fitted.dual_coef, X.shape[0], f"each of the {len(X)} training points"
    else:
        name, learned, wanted, what = "coef", fitted.coef, X.shape[1], f"each of the {X.shape[1]} features"
    if learned is None:
        raise BadInput(f"expected {name} of the {fitted.learner} model, got none; pass what it learned")
    parameters = learned.reshape(1, -1) if learned.ndim == 1 else (learned.T if name == "dual_coef" else learned)
    if parameters.shape[1] != wanted:
        raise BadInput(
            f"expected one entry of {name} for {what}, got {parameters.shape[1]}; pass the data the model was fitted on"
        )
    if len(parameters) != Y.shape[1]:
        outputs, got = counted(len(parameters), "output"), Y.shape[1]
        if learner_named(fitted.learner).classifier:
            raise BadInput(f"expected labels that need {outputs}, as the model has, got such that need {got}; pass its y")
        raise BadInput(
            f"expected targets with {len(parameters)} columns, one for each output of the model, got {got}; "
            "pass the y it was fitted on"
        )
    unknowns = len(_penalties(fitted))
    if (used := int(np.count_nonzero(parameters))) < unknowns:
        raise NotApplicable(
            f"the {fitted.learner.replace('_', ' ')} model has {used} non-zero coefficients, too few equations for "
            f"{counted(unknowns, 'unknown')}: any penalty above some size gives the same model"
        )
    return np.asarray(parameters, float)
