"""Training behind affine steps that stay as they are: points are moved before them, and train after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from divulge.arrays import Array
from divulge.solvers.bilevel.ascent import Trainer
from divulge.solvers.bilevel.inner import Trained


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
