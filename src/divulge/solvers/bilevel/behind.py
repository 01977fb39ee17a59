"""Training behind affine steps that stay as they are, and behind a scaling that answers to the points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from divulge.arrays import Array
from divulge.solvers.bilevel.ascent import Trainer
from divulge.solvers.bilevel.inner import Trained

ROUNDING = 1e-24
"Variance up to which a feature that is scaled does not vary."


class Behind:
    """A training on Z = XA + c, called with points X: gradients come back as g Aᵀ, weights as W Aᵀ and b + Wc.

    `make` makes the training from clean and validation points as they leave. Of a network, whose parameters come flat,
    `units` is how many its first layer has, and these alone change.
    """

    def __init__(
        self, make: Callable[[Array, Array], Trainer], A: Array, c: Array, X: Array, X_val: Array, *, units: int = 0
    ) -> None:
        self.A, self.c, self.units = A, c, units
        square = A.shape[0] == A.shape[1]
        self._diagonal = A.diagonal() if square and not (A - np.diag(A.diagonal())).any() else None  # a matter of speed
        self._train = make(self._left(X), self._left(X_val))

    @property
    def rate(self) -> float:
        """The learning rate behind; 0 where training has none."""
        return float(getattr(self._train, "rate", 0.0))

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        """Train with points (problems, own, features) that have targets (problems, outputs, own)."""
        found = self._train(self._left(points), targets, strengths, penalties=penalties)
        W, b = self._raw_network(found.W) if self.units else self._raw(found.W, found.b)
        return replace(found, point_gradients=self._back(found.point_gradients), W=W, b=b)

    def _left(self, X: Array) -> Array:
        return np.asarray((X @ self.A if self._diagonal is None else X * self._diagonal) + self.c)

    def _back(self, g: Array) -> Array:
        return np.asarray(g @ self.A.T if self._diagonal is None else g * self._diagonal)

    def _raw(self, W: Array, b: Array) -> tuple[Array, Array]:
        return self._back(W), b + W @ self.c

    def _raw_network(self, flat: Array) -> tuple[Array, Array]:
        """Parameters (problems, 1, all) whose first are W (units, leaving) and b (units,), with W Aᵀ and b + Wc for them."""
        first = self.units * len(self.c)
        W = flat[:, 0, :first].reshape(len(flat), self.units, len(self.c))
        W, b = self._raw(W, flat[:, 0, first : first + self.units])
        parts = [W.reshape(len(flat), -1), b, flat[:, 0, first + self.units :]]
        return np.concatenate(parts, axis=1)[:, None], np.zeros((len(flat), 0))


class Scaled:
    """A training on points scaled to variance 1, those contributed among them: scales answer to where these are.

    A free intercept takes the means, so in points as they come weights have the penalty e^λ Σ_j σ_j^p |w_j|^p, p = 2, or 1
    of L1: scales are a penalty for each feature, λ_j = λ + p ln σ_j, and a contributed x has the gradient
    ∂L/∂λ_j p (x_j − μ_j)/(n σ_j²) more. `train` has a penalty for each feature; X is what it trains on anyway.
    """

    def __init__(self, train: Trainer, X: Array, *, power: int) -> None:
        self._train, self.X, self.power = train, X, power

    @property
    def rate(self) -> float:
        """The learning rate; 0 where training has none."""
        return float(getattr(self._train, "rate", 0.0))

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        """Train with points (problems, own, features) and log penalties (problems, 1)."""
        n = len(self.X) + points.shape[1]
        mean = (self.X.sum(axis=0) + points.sum(axis=1)) / n
        around = points - mean[:, None]
        variance = (((self.X - mean[:, None]) ** 2).sum(axis=1) + (around**2).sum(axis=1)) / n
        variance = np.where(variance > ROUNDING, variance, 1.0)  # scikit-learn leaves what does not vary as it is
        by_feature = strengths + self.power / 2 * np.log(variance)
        found = self._train(points, targets, by_feature, penalties=True)
        more = self.power * (found.strength_gradients / variance / n)[:, None] * around
        total = found.strength_gradients.sum(axis=1, keepdims=True)
        return replace(found, point_gradients=found.point_gradients + more, strength_gradients=total)
