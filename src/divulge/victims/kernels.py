"""Kernel machines that scikit-learn lacks, in its manner: logistic regression and the squared-hinge SVM, no intercept."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from divulge.contract import Array, TrainingData
from divulge.errors import BadInput, refuse_unknown
from divulge.solvers.stationarity import kernel_machines
from divulge.solvers.stationarity.system import KERNELS, gram

INDEFINITE = 1e-10
"An eigenvalue that is negative by more than this share of their sum is no rounding error: of 1,000 points that is 1e-16."


class _KernelMachine(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """One binary problem, or one against the rest for each of more than two classes."""

    alpha: float
    kernel: str
    gamma: float | None
    degree: float
    coef0: float

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Learn `dual_coef_` (n, outputs): one output for two classes, else one for each."""
        data = TrainingData(X, y, sample_weight)
        refuse_unknown([self.kernel], KERNELS, f"kernel of {type(self).__name__}")
        for name in ("alpha", "gamma", "degree"):
            value = getattr(self, name)
            if name == "gamma" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
                raise BadInput(f"expected a positive number for {name} of {type(self).__name__}, got {value!r}; correct it")
        self.classes_ = np.unique(np.asarray(y))
        if len(self.classes_) < 2:
            raise BadInput(
                f"expected labels of two classes or more, got only {self.classes_.tolist()}; add points of another"
            )
        self.X_fit_ = data.X
        self.n_features_in_ = data.X.shape[1]
        K = gram(self.kernel, data.X, self._scale, self.degree, self.coef0)
        if self._definite:
            _refuse_indefinite(K, self.kernel)
        ones = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        columns = [self._solve(K, np.where(np.asarray(y) == one, 1.0, -1.0), data.sample_weight) for one in ones]
        self.dual_coef_ = np.column_stack(columns)
        return self

    def decision_function(self, X: Array) -> Array:
        """(n,) for two classes, positive for the second; (n, classes) for more."""
        if not hasattr(self, "dual_coef_"):
            raise BadInput(f"expected a fitted {type(self).__name__}, got one that has learned nothing; call fit first")
        rows = TrainingData(X).X
        if rows.shape[1] != self.n_features_in_:
            raise BadInput(
                f"expected points with the {self.n_features_in_} features that were fitted, got {rows.shape[1]}; "
                "prepare both the same way"
            )
        from sklearn.metrics.pairwise import pairwise_kernels

        settings = {"gamma": self._scale, "degree": self.degree, "coef0": self.coef0}
        values = pairwise_kernels(rows, self.X_fit_, metric=self.kernel, filter_params=True, **settings) @ self.dual_coef_
        return np.asarray(values[:, 0] if len(self.classes_) == 2 else values)

    def predict(self, X: Array) -> Array:
        """The class of each point."""
        values = self.decision_function(X)
        return np.asarray(self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)])

    @property
    def _scale(self) -> float:
        return 1 / self.n_features_in_ if self.gamma is None else self.gamma

    @property
    def _definite(self) -> bool:
        """Whether the objective is convex only for a positive semi-definite kernel."""
        return True

    def _solve(self, K: Array, y: Array, weight: Array | None) -> Array:
        raise NotImplementedError


class KernelLogistic(_KernelMachine):
    """Σ log(1 + exp(−y f)) + alpha/2 αᵀKα, or alpha ‖α‖₁ with penalty="l1", where f = Kα; gamma=None is 1/features."""

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        penalty: str = "l2",
        kernel: str = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
    ) -> None:
        self.alpha = alpha
        self.penalty = penalty
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    @property
    def _definite(self) -> bool:
        refuse_unknown([self.penalty], ("l1", "l2"), "penalty of KernelLogistic")
        return self.penalty == "l2"

    def _solve(self, K: Array, y: Array, weight: Array | None) -> Array:
        solve = kernel_machines.logistic_l2 if self.penalty == "l2" else kernel_machines.logistic_l1
        return solve(K, y, self.alpha, weight)


class KernelSVM(_KernelMachine):
    """Σ max(0, 1 − y f)² + alpha/2 αᵀKα, where f = Kα; gamma=None is 1/features."""

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: str = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def _solve(self, K: Array, y: Array, weight: Array | None) -> Array:
        return kernel_machines.squared_hinge(K, y, self.alpha, weight)


def _refuse_indefinite(K: Array, kernel: str) -> None:
    least = np.linalg.eigvalsh(K)[0]
    if least < -INDEFINITE * np.trace(K):
        raise BadInput(
            f"expected a positive semi-definite kernel, got {kernel} with an eigenvalue of {least:.2g} on these points; "
            "use rbf, laplacian, linear or cosine, or a polynomial with a whole degree and coef0 from 0"
        )
