"""Fit a classical learner again, with a hyperparameter of one's choice: as its owner did, or to the very minimum."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from divulge.arrays import Array
from divulge.solvers.stationarity import kernel_machines
from divulge.solvers.stationarity.system import gram

SMALL = 50_000  # numbers in a table that no BLAS spreads over threads
FEW = 2000  # features up to which a Hessian is factorised in a second or so; with more, L-BFGS
STOCHASTIC = ("sag", "saga", "adam", "sgd")
KERNEL_SOLVERS = {
    ("logistic", "l1"): kernel_machines.logistic_l1,
    ("logistic", "l2"): kernel_machines.logistic_l2,
    ("squared_hinge", "l2"): kernel_machines.squared_hinge,
}
"(loss, penalty) -> the kernel machine without an intercept that is solved here."


class Trainable(Protocol):
    """What a training needs to know of its learner; the records of the catalogue have it."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str:
        """Where its estimator is imported from; empty where there is none."""

    @property
    def form(self) -> str: ...
    @property
    def loss(self) -> str: ...
    @property
    def penalty(self) -> str: ...
    @property
    def penalty_is_ratio(self) -> bool: ...
    @property
    def one_vs_rest(self) -> bool: ...
    @property
    def stochastic(self) -> bool: ...
    @property
    def settled(self) -> bool: ...
    @property
    def tight(self) -> tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]: ...
    @property
    def no_path(self) -> str: ...
    def solver_in(self, settings: Mapping[str, Any]) -> str | None: ...


@dataclass(frozen=True, eq=False)
class Trainer:
    """A training that can be repeated: `trainer(values)` gives the parameters it would have learned."""

    learner: Trainable
    settings: Mapping[str, Any]
    kernel: Mapping[str, Any]
    X: Array
    y: Array
    sample_weight: Array | None = None

    @property
    def obstacle(self) -> str:
        """Why this training cannot be repeated as it was; empty where it can."""
        settings = self.settings
        if not self.learner.path:
            return f"no solver of ours trains a {self.learner.name}"
        if not settings and not self.learner.settled:
            return "how the model was trained is not known"
        if settings.get("replayed") is False:
            return "the training started from what a search had found, which is not known"
        if self._random and settings.get("random_state") is None:
            return "the solver draws random numbers and its random_state is not known"
        return ""

    @property
    def no_path(self) -> str:
        """Why there is no path of minima; empty where there is one."""
        return self.learner.no_path

    @property
    def _random(self) -> bool:
        settings, solver = self.settings, self.learner.solver_in(self.settings)
        if self.learner.stochastic or solver in STOCHASTIC or settings.get("selection") == "random":
            return True
        return solver == "liblinear" and (settings.get("penalty") == "l1" or _dual(settings, self.X))

    def __call__(self, values: Mapping[str, float], tight: bool = False) -> Array:
        """Coefficients, intercepts, dual coefficients and layers, all in one row."""
        if self.learner.form == "kernel" and self.learner.loss in (loss for loss, _ in KERNEL_SOLVERS):
            return self._kernel_machine(values)
        settings = {key: value for key, value in self.settings.items() if key not in ("replayed", "multi_class")}
        if self.settings.get("multi_class") == "crammer_singer":
            settings["multi_class"] = "crammer_singer"
        if tight:
            settings |= _tight(self.learner, settings, self.X)
        told = dict(values)
        if self.learner.penalty_is_ratio:
            kind = settings.pop("penalty", self.learner.penalty)
            if kind != "elasticnet":
                told["l1_ratio"] = 1.0 if kind == "l1" else 0.0
        module, _, name = self.learner.path.rpartition(".")
        make = getattr(import_module(module), name)
        told = {**settings, **self.kernel, **told}
        if float(told.get("degree", 0.5)).is_integer():
            told["degree"] = int(told["degree"])
        estimator = make(**{key: value for key, value in told.items() if key in make().get_params()})
        with warnings.catch_warnings(), _few_threads(self.X):
            warnings.simplefilter("ignore")
            if self.settings.get("multi_class") == "ovr" and not self.learner.one_vs_rest and len(np.unique(self.y)) > 2:
                from sklearn.multiclass import OneVsRestClassifier

                estimator = OneVsRestClassifier(estimator)
            weight = {} if self.sample_weight is None else {"sample_weight": self.sample_weight}
            try:
                estimator.fit(self.X, self.y, **weight)
            except ValueError:  # values that the learner refuses, or from which its solver leaves the numbers
                return np.full(1, np.nan)
            fits = getattr(estimator, "estimators_", [estimator])
        rows = [_parts(fit) for fit in fits]
        coef, intercept, dual, support = (_joined(part) for part in zip(*rows, strict=True))
        return row(coef, intercept, dual, support, self.X.shape[0])

    def _kernel_machine(self, values: Mapping[str, float]) -> Array:
        kernel = {"gamma": 1 / self.X.shape[1], **self.kernel, **values}
        K = gram(kernel["kernel"], self.X, kernel["gamma"], kernel["degree"], kernel["coef0"])
        classes = np.unique(self.y)
        targets = [np.where(self.y == one, 1.0, -1.0) for one in (classes[1:] if len(classes) == 2 else classes)]
        solve = KERNEL_SOLVERS[self.learner.loss, self.settings.get("penalty", self.learner.penalty)]
        return np.column_stack([solve(K, target, values["alpha"], self.sample_weight) for target in targets]).reshape(-1)


def _few_threads(X: Array) -> AbstractContextManager[Any]:
    """Threads cost more than they bring to small products, and do not change their bits; those of large ones they do."""
    if X.size > SMALL:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limit: AbstractContextManager[Any] = threadpool_limits(1)
    return limit


def _parts(estimator: Any) -> tuple[Array | None, ...]:
    """Coefficients, intercepts, dual coefficients and the points those belong to; a network's layers in one."""
    if hasattr(estimator, "coefs_"):
        parts = [part for W, b in zip(estimator.coefs_, estimator.intercepts_, strict=True) for part in (W.T, b)]
        return np.concatenate([np.ravel(part) for part in parts]), None, None, None
    dual = getattr(estimator, "dual_coef_", None)
    coef = getattr(estimator, "coef_", None) if dual is None else None
    intercept = getattr(estimator, "intercept_", None) if getattr(estimator, "fit_intercept", True) else None
    return coef, intercept, dual, getattr(estimator, "support_", None)


def _joined(parts: tuple[Array | None, ...]) -> Array | None:
    """What a one-vs-rest wrapper's estimators learned, one after the other."""
    found = [np.atleast_1d(part) for part in parts if part is not None]
    return np.concatenate(found) if found else None


def row(coef: Array | None, intercept: Array | None, dual: Array | None, support: Array | None, n: int) -> Array:
    """The parameters in one row; dual coefficients in the places of their points."""
    if dual is not None and support is not None:
        whole = np.zeros((*np.shape(np.atleast_2d(dual))[:-1], n))
        whole[:, np.asarray(support, int)] = dual
        dual = whole
    return np.concatenate([np.ravel(part) for part in (coef, dual, intercept) if part is not None])


def _tight(learner: Trainable, settings: Mapping[str, Any], X: Array) -> dict[str, Any]:
    """Settings that go on to the minimum, whatever the owner's did."""
    given = {"penalty": learner.penalty, **settings}
    for where, tight in learner.tight:
        if all(given.get(name) == value for name, value in where.items()):
            large = tight.get("solver") == "newton-cholesky" and X.shape[1] > FEW
            return {**tight, "solver": "lbfgs"} if large else dict(tight)
    return {}


def _dual(settings: Mapping[str, Any], X: Array) -> bool:
    """Which of its two solvers liblinear takes; only the primal one draws no random numbers."""
    unsaid = False if "solver" in settings else "auto"  # the defaults of LogisticRegression and of LinearSVC
    dual = settings.get("dual", unsaid)
    if dual != "auto":
        return bool(dual)
    if settings.get("loss") == "hinge":
        return True
    return settings.get("penalty") != "l1" and X.shape[0] < X.shape[1]
