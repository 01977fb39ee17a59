"""Losses of classical learners: their first and second derivatives in the score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_softmax

from divulge.arrays import Array


@dataclass(frozen=True)
class Loss:
    """One term of an empirical risk. Scores and targets have shape (n, outputs)."""

    first_derivative: Callable[[Array, Array], Array]
    "∂loss/∂f (n, outputs)."
    second_derivative: Callable[[Array, Array], Array]
    "∂²loss/∂f² of each output, or a bound on it: how an error in the score moves the first."
    joint: bool = False
    "Whether the outputs of one point share a term."
    margins: bool = False
    "Whether targets are -1 and 1."
    smooth: bool = True
    "Whether the first derivative is known everywhere."


def _active(f: Array, y: Array) -> Array:
    return np.asarray(np.maximum(1 - y * f, 0))


def _modified_huber(f: Array, y: Array) -> Array:
    margin = y * f
    return np.where(margin < -1, -4 * y, -2 * y * np.maximum(1 - margin, 0))


def huber(epsilon: float, scale: float) -> Loss:
    """Huber's loss with its scale: σ H((y − f) / σ), H(z) = z² up to ε and 2ε|z| − ε² beyond."""

    def first_derivative(f: Array, y: Array) -> Array:
        return np.asarray(-2 * np.clip((y - f) / scale, -epsilon, epsilon))

    return Loss(first_derivative, lambda f, y: np.full_like(f, 2 / scale))


LOSSES: dict[str, Loss] = {
    "squared": Loss(lambda f, y: f - y, lambda f, y: np.ones_like(f)),
    "mean_squared": Loss(lambda f, y: 2 * (f - y) / f.shape[1], lambda f, y: np.full_like(f, 2 / f.shape[1])),
    "logistic": Loss(lambda f, y: -y * expit(-y * f), lambda f, y: expit(f) * expit(-f), margins=True),
    "softmax": Loss(
        lambda f, y: np.exp(log_softmax(f, axis=1)) - y,
        lambda f, y: np.exp(log_softmax(f, axis=1)),
        joint=True,
    ),
    "squared_hinge": Loss(lambda f, y: -2 * y * _active(f, y), lambda f, y: 2.0 * (y * f < 1), margins=True),
    "hinge": Loss(lambda f, y: np.where(y * f < 1, -y, 0.0), lambda f, y: np.zeros_like(f), margins=True, smooth=False),
    "modified_huber": Loss(_modified_huber, lambda f, y: 2.0 * (np.abs(y * f) < 1), margins=True),
    "poisson": Loss(lambda f, y: np.exp(f) - y, lambda f, y: np.exp(f)),
}
