"""Linear learners as the inner problem of a bilevel one: their losses, their points, and what their training ends at.

A batch of problems shares most of its points; each has a few of its own, which someone may move. Axes are always
(problems, outputs, points or features), so that one matrix product serves the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from divulge.arrays import Array


class Diverged(ArithmeticError):
    """Training did not settle, however small its steps."""


class FirstDerivative(Protocol):
    def __call__(self, f: Array, y: Array, out: Array | None = None) -> Array: ...


@dataclass(frozen=True)
class Risk:
    """A loss ℓ(f, y) of scores f and targets y, both (..., outputs, points). ∂²ℓ/∂f² follows from s = ∂ℓ/∂f and y."""

    value: Callable[[Array, Array], Array]
    "ℓ, (..., points)."
    first_derivative: FirstDerivative
    "s = ∂ℓ/∂f, (..., outputs, points)."
    second_derivative: Callable[[Array, Array], Array] | None
    "The diagonal ∂²ℓ/∂f² of s and y, in their shape; None for a softmax, whose Hessian diag(p) − ppᵀ has more."

    def hessian_product(self, s: Array, y: Array, u: Array) -> Array:
        """∂²ℓ/∂f² · u for a direction u in the shape of f; of a softmax, p ∘ (u − p·u) with p = s + y."""
        if self.second_derivative is not None:
            return np.asarray(self.second_derivative(s, y) * u)
        p = s + y
        return np.asarray(p * (u - (p * u).sum(axis=-2, keepdims=True)))


def _logistic_first(f: Array, y: Array, out: Array | None = None) -> Array:
    """σ(f) − y"""
    out = np.multiply(f, 0.5, out=out)  # a logistic function is half a hyperbolic tangent, which takes a fifth of the time
    np.tanh(out, out=out)
    out *= 0.5
    out += 0.5
    out -= y
    return out


def _logistic_second(s: Array, y: Array) -> Array:
    """σ(f) (1 − σ(f)) = |s| (1 − |s|)"""
    size = np.abs(s)
    rest = 1 - size
    size *= rest
    return np.asarray(size)


def _softmax_first(f: Array, y: Array, out: Array | None = None) -> Array:
    """softmax(f) − y"""
    out = np.subtract(f, f.max(axis=-2, keepdims=True), out=out)
    np.exp(out, out=out)
    out /= out.sum(axis=-2, keepdims=True)
    out -= y
    return out


def _squared_first(f: Array, y: Array, out: Array | None = None) -> Array:
    """f − y"""
    return np.subtract(f, y, out=out)


def _hinge_first(f: Array, y: Array, out: Array | None = None) -> Array:
    """−2y max(1 − yf, 0)"""
    out = np.multiply(f, y, out=out)
    np.subtract(1, out, out=out)
    np.maximum(out, 0, out=out)
    out *= -2 * y
    return out


def _half_square(f: Array, y: Array) -> Array:
    return np.asarray(((f - y) ** 2).sum(axis=-2) / 2)


RISKS = {
    "logistic": Risk(lambda f, y: (np.logaddexp(0, f) - y * f).sum(axis=-2), _logistic_first, _logistic_second),
    "softmax": Risk(lambda f, y: logsumexp(f, axis=-2) - (y * f).sum(axis=-2), _softmax_first, None),
    "squared": Risk(_half_square, _squared_first, lambda s, y: np.ones_like(s)),
    "squared_hinge": Risk(
        lambda f, y: (np.maximum(1 - y * f, 0) ** 2).sum(axis=-2),
        _hinge_first,
        lambda s, y: 2 * (s != 0).astype(s.dtype),
    ),
}
"""Targets are 0 and 1 for `logistic`, one row a class for `softmax`, −1 and 1 for `squared_hinge`; for `squared` any
numbers, or −1 and 1 for classes."""


@dataclass(frozen=True)
class Penalty:
    """e^λ ((1 − ρ) ‖w‖²/2 + ρ ‖w‖₁) beside a sum of losses. The intercept is free."""

    l1_ratio: float = 0.0
    "ρ: 0 for L2, 1 for L1, an elastic net between."
    averaged: bool = False
    "Whether it stands beside the mean of the losses: it then counts n times beside their sum."

    def weight(self, lam: Array, n: int) -> Array:
        """e^λ beside a sum over n points."""
        return np.asarray(np.exp(lam) * (n if self.averaged else 1))

    def slope(self, W: Array) -> Array:
        """Its derivative in w for λ = 0; of the L1 part, at weights that are not 0."""
        return np.asarray((1 - self.l1_ratio) * W + self.l1_ratio * np.sign(W))


L2 = Penalty()


@dataclass(frozen=True, eq=False)
class Shared:
    """What all problems of a batch share: points they train on, and points by which their end is judged."""

    X: Array
    "(points, features)"
    Y: Array
    "(outputs, points)"
    X_val: Array
    Y_val: Array
    risk: Risk
    groups: Array | None = None
    "(features,): number of the penalty that a feature is under; None for one penalty."
    penalty: Penalty = L2
    most: float = np.inf
    "Loss of one validation point from which on it counts no more: it is wrong enough."

    @property
    def penalties(self) -> int:
        return 1 if self.groups is None else int(self.groups.max()) + 1

    def spread(self, strengths: Array) -> Array:
        """Strengths (problems, penalties), one for each feature: (problems, features), or (problems, 1) for one penalty."""
        return strengths if self.groups is None else strengths[:, self.groups]

    def gathered(self, parts: Array) -> Array:
        """Sums over features of (problems, features) by penalty: (problems, penalties)."""
        if self.groups is None:
            return np.asarray(parts.sum(axis=1, keepdims=True))
        return np.stack([np.bincount(self.groups, row, self.penalties) for row in parts])

    def validation_loss(self, W: Array, b: Array) -> tuple[Array, Array, Array]:
        """The mean loss on the validation points (problems,), and its gradient in weights and intercepts."""
        scores = W @ self.X_val.T + b[..., None]
        s = self.risk.first_derivative(scores, self.Y_val) / len(self.X_val)
        losses = self.risk.value(scores, self.Y_val)
        if self.most < np.inf:
            s = np.where((losses > self.most)[..., None, :], 0.0, s)
            losses = np.minimum(losses, self.most)
        return losses.mean(axis=-1), s @ self.X_val, s.sum(axis=-1)


@dataclass(frozen=True, eq=False)
class Trained:
    """Where the training of every problem ends, and how the loss on the validation points there depends on its inputs."""

    value: Array
    "(problems,): loss on the validation points."
    point_gradients: Array
    "(problems, own points, features): its gradient in each problem's own points."
    strength_gradients: Array
    "(problems, penalties): its gradient in the logarithms of the penalties; 0 where it was not asked for."
    W: Array
    "(problems, outputs, features)"
    b: Array
    "(problems, outputs)"


def targets(risk: str, y: Array, classes: Array | None) -> Array:
    """Labels as the targets of a risk, (outputs, points); `classes` in order, None for a regression."""
    if classes is None:
        return y[None].astype(float)
    index = np.searchsorted(classes, y)
    if risk == "softmax":
        return np.asarray(np.eye(len(classes))[:, index])
    sides = index[None].astype(float)
    return sides if risk == "logistic" else 2 * sides - 1


def named(scores: Array, risk: str, classes: Array) -> Array:
    """The class that scores (..., outputs, points) name: (..., points)."""
    index = scores.argmax(axis=-2) if risk == "softmax" else (scores[..., 0, :] > 0).astype(int)
    return np.asarray(classes[index])
