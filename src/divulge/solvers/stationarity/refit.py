"""Fit a classical learner again, with a hyperparameter of one's choice: as its owner did, or to the very minimum."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from divulge.arrays import Array
from divulge.solvers.stationarity import kernel_machines
from divulge.solvers.stationarity.system import gram

CLASSES = {
    "ridge": ("linear_model", "Ridge"),
    "ridge_classifier": ("linear_model", "RidgeClassifier"),
    "lasso": ("linear_model", "Lasso"),
    "elastic_net": ("linear_model", "ElasticNet"),
    "kernel_ridge": ("kernel_ridge", "KernelRidge"),
    "logistic": ("linear_model", "LogisticRegression"),
    "linear_svc": ("svm", "LinearSVC"),
    "svc": ("svm", "SVC"),
    "svr": ("svm", "SVR"),
    "sgd_classifier": ("linear_model", "SGDClassifier"),
    "sgd_regressor": ("linear_model", "SGDRegressor"),
    "poisson": ("linear_model", "PoissonRegressor"),
    "huber": ("linear_model", "HuberRegressor"),
    "mlp_classifier": ("neural_network", "MLPClassifier"),
    "mlp_regressor": ("neural_network", "MLPRegressor"),
}
SMALL = 50_000  # numbers in a table that no BLAS spreads over threads
OURS = ("kernel_logistic", "kernel_svm")
STOCHASTIC = ("sag", "saga", "adam", "sgd")
WITHOUT_MINIMUM = ("sgd_classifier", "sgd_regressor", "mlp_classifier", "mlp_regressor", "network")
"Learners whose solver does not go to a minimum, or to which of many depends on the start."


@dataclass(frozen=True, eq=False)
class Trainer:
    """A training that can be repeated: `trainer(values)` gives the parameters it would have learned."""

    learner: str
    settings: Mapping[str, Any]
    kernel: Mapping[str, Any]
    X: Array
    y: Array
    sample_weight: Array | None = None

    @property
    def obstacle(self) -> str:
        """Why this training cannot be repeated as it was; empty where it can."""
        settings = self.settings
        if self.learner not in (*CLASSES, *OURS):
            return f"no solver of ours trains a {self.learner}"
        if not settings and self.learner not in ("kernel_ridge", "kernel_svm"):
            return "how the model was trained is not known"
        if settings.get("replayed") is False:
            return "the training started from what a search had found, which is not known"
        if self._random and settings.get("random_state") is None:
            return "the solver draws random numbers and its random_state is not known"
        return ""

    @property
    def no_path(self) -> str:
        """Why there is no path of minima; empty where there is one."""
        if self.learner == "huber":
            return "no solver here comes near enough to the minimum of Huber's loss"
        if self.learner in WITHOUT_MINIMUM:
            return "the learner does not train to a minimum that its penalty alone decides"
        return "" if self.learner in (*CLASSES, *OURS) else f"no solver of ours trains a {self.learner}"

    @property
    def _random(self) -> bool:
        settings = self.settings
        if self.learner.startswith(("sgd", "mlp")) or settings.get("solver") in STOCHASTIC:
            return True
        if settings.get("selection") == "random":
            return True
        if self.learner == "linear_svc":
            return settings.get("penalty") == "l1" or _dual(settings, self.X)
        return settings.get("solver") == "liblinear" and (settings.get("penalty") == "l1" or bool(settings.get("dual")))

    def __call__(self, values: Mapping[str, float], tight: bool = False) -> Array:
        """Coefficients, intercepts, dual coefficients and layers, all in one row."""
        if self.learner in OURS:
            return self._ours(values)
        settings = {key: value for key, value in self.settings.items() if key not in ("replayed", "multi_class")}
        if self.settings.get("multi_class") == "crammer_singer":
            settings["multi_class"] = "crammer_singer"
        if tight:
            settings |= _tight(self.learner, settings, self.X)
        told = dict(values)
        if self.learner == "logistic":
            kind = settings.pop("penalty", "l2")
            if kind != "elasticnet":
                told["l1_ratio"] = 1.0 if kind == "l1" else 0.0
        module, name = CLASSES[self.learner]
        make = getattr(import_module(f"sklearn.{module}"), name)
        told = {**settings, **self.kernel, **told}
        if float(told.get("degree", 0.5)).is_integer():
            told["degree"] = int(told["degree"])
        estimator = make(**{key: value for key, value in told.items() if key in make().get_params()})
        with warnings.catch_warnings(), _few_threads(self.X):
            warnings.simplefilter("ignore")
            if self.learner == "logistic" and self.settings.get("multi_class") == "ovr" and len(np.unique(self.y)) > 2:
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
        return row(coef, intercept, dual, support, len(self.X))

    def _ours(self, values: Mapping[str, float]) -> Array:
        kernel = {"gamma": 1 / self.X.shape[1], **self.kernel, **values}
        K = gram(kernel["kernel"], self.X, kernel["gamma"], kernel["degree"], kernel["coef0"])
        classes = np.unique(self.y)
        targets = [np.where(self.y == one, 1.0, -1.0) for one in (classes[1:] if len(classes) == 2 else classes)]
        if self.learner == "kernel_svm":
            solve = kernel_machines.squared_hinge
        else:
            l1 = self.settings.get("penalty") == "l1"
            solve = kernel_machines.logistic_l1 if l1 else kernel_machines.logistic_l2
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


def _tight(learner: str, settings: Mapping[str, Any], X: Array) -> dict[str, Any]:
    """Settings that go on to the minimum, whatever the owner's did."""
    small = X.shape[1] <= 2000
    if learner in ("ridge", "ridge_classifier"):
        return {"tol": 1e-14} if settings.get("positive") else {"solver": "cholesky"}
    if learner in ("lasso", "elastic_net"):
        return {"tol": 1e-13, "max_iter": 100_000, "selection": "cyclic"}
    if learner == "logistic":
        if settings.get("solver") == "liblinear":
            return {"tol": 1e-10, "max_iter": 10_000, "random_state": 0}
        if settings.get("penalty", "l2") == "l2":
            return {"tol": 1e-13, "max_iter": 10_000, "solver": "newton-cholesky" if small else "lbfgs"}
        return {"tol": 1e-9, "max_iter": 20_000, "solver": "saga", "random_state": 0}
    if learner == "linear_svc":
        return {"tol": 1e-10, "max_iter": 50_000, "random_state": 0}
    if learner in ("svc", "svr"):
        return {"tol": 1e-10}
    if learner == "poisson":
        return {"tol": 1e-13, "max_iter": 10_000, "solver": "newton-cholesky" if small else "lbfgs"}
    return {}


def _dual(settings: Mapping[str, Any], X: Array) -> bool:
    """Which of its two solvers LinearSVC takes; only the primal one draws no random numbers."""
    dual = settings.get("dual", "auto")
    if dual != "auto":
        return bool(dual)
    if settings.get("loss") == "hinge":
        return True
    return settings.get("penalty") != "l1" and len(X) < X.shape[1]
