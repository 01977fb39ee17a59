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


class Slope(Protocol):
    def __call__(self, f: Array, y: Array, out: Array | None = None) -> Array: ...


@dataclass(frozen=True)
class Risk:
    """A loss of scores f and targets y, both (..., outputs, points); how it bends follows from its slope."""

    value: Callable[[Array, Array], Array]
    "(..., points)"
    slope: Slope
    "Derivative in the scores, (..., outputs, points)."
    curve: Callable[[Array, Array], Array] | None
    "Second derivative, of slope and targets, in their shape; None for a softmax, whose outputs pull on each other."

    def bend(self, slope: Array, y: Array, u: Array) -> Array:
        """Second derivative times a direction."""
        if self.curve is not None:
            return np.asarray(self.curve(slope, y) * u)
        p = slope + y
        return np.asarray(p * (u - (p * u).sum(axis=-2, keepdims=True)))


def _logistic_slope(f: Array, y: Array, out: Array | None = None) -> Array:
    out = np.multiply(f, 0.5, out=out)  # a logistic function is half a hyperbolic tangent, which takes a fifth of the time
    np.tanh(out, out=out)
    out *= 0.5
    out += 0.5
    out -= y
    return out


def _logistic_curve(slope: Array, y: Array) -> Array:
    size = np.abs(slope)
    rest = 1 - size
    size *= rest
    return np.asarray(size)


def _softmax_slope(f: Array, y: Array, out: Array | None = None) -> Array:
    out = np.subtract(f, f.max(axis=-2, keepdims=True), out=out)
    np.exp(out, out=out)
    out /= out.sum(axis=-2, keepdims=True)
    out -= y
    return out


def _squared_slope(f: Array, y: Array, out: Array | None = None) -> Array:
    return np.subtract(f, y, out=out)


def _hinge_slope(f: Array, y: Array, out: Array | None = None) -> Array:
    out = np.multiply(f, y, out=out)
    np.subtract(1, out, out=out)
    np.maximum(out, 0, out=out)
    out *= -2 * y
    return out


def _half_square(f: Array, y: Array) -> Array:
    return np.asarray(((f - y) ** 2).sum(axis=-2) / 2)


RISKS = {
    "logistic": Risk(lambda f, y: (np.logaddexp(0, f) - y * f).sum(axis=-2), _logistic_slope, _logistic_curve),
    "softmax": Risk(lambda f, y: logsumexp(f, axis=-2) - (y * f).sum(axis=-2), _softmax_slope, None),
    "squared": Risk(_half_square, _squared_slope, lambda slope, y: np.ones_like(slope)),
    "squared_hinge": Risk(
        lambda f, y: (np.maximum(1 - y * f, 0) ** 2).sum(axis=-2),
        _hinge_slope,
        lambda slope, y: 2 * (slope != 0).astype(slope.dtype),
    ),
}
"""Targets are 0 and 1 for `logistic`, one row a class for `softmax`, −1 and 1 for `squared_hinge`; for `squared` any
numbers, or −1 and 1 for classes."""


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

    def judged(self, W: Array, b: Array) -> tuple[Array, Array, Array]:
        """The loss on the validation points (problems,), and its gradient in weights and intercepts."""
        scores = W @ self.X_val.T + b[..., None]
        slopes = self.risk.slope(scores, self.Y_val) / len(self.X_val)
        return self.risk.value(scores, self.Y_val).mean(axis=-1), slopes @ self.X_val, slopes.sum(axis=-1)


@dataclass(frozen=True, eq=False)
class Trained:
    """Where the training of every problem ends, and how the loss on the validation points there depends on its inputs."""

    value: Array
    "(problems,): loss on the validation points."
    points: Array
    "(problems, own points, features): its gradient in each problem's own points."
    strengths: Array
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
