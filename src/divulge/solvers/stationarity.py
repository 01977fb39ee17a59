"""Penalties from stationarity: at a minimum of loss + Σ λ_k penalty_k, b + Aλ = 0 in every differentiable coordinate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.spatial.distance import cdist

Array = npt.NDArray[Any]

BLOCK = 100_000  # numbers in a block of rows: under a megabyte
ROUNDING_SAFETY = 8.0  # a direct solver's backward error is a small multiple of machine precision


@dataclass(frozen=True)
class System:
    """The equations b + Aλ = 0, one a differentiable coordinate, and the size of the terms that cancel in b."""

    A: Array
    "(equations, penalties)"
    b: Array
    "(equations,)"
    magnitude: Array
    "(equations,) sum of absolute values of what was added up in b: its rounding error is a multiple of this"
    check: Array
    "(checks,) more that must vanish, whatever the penalty and however early the solver stopped"
    epsilon: float = float(np.finfo(float).eps)
    "precision in which the parameters were computed"


@dataclass(frozen=True)
class Estimate:
    """Least-squares λ with what the equations themselves say about its error."""

    values: Array
    "(penalties,)"
    half_widths: Array
    "(penalties,) half the confidence interval"
    covariance: Array
    "(penalties, penalties)"
    leftover: float
    "‖(b + Aλ̂, check)‖ / ‖b‖: 0 when λ̂ explains the gradient fully, 1 and more when it explains nothing"
    spare: int
    "equations beyond the number of penalties"
    chance: float
    "how often penalties would explain as much of a gradient that has nothing to do with them"
    luck: float
    "what they would leave of such a gradient, in the median"


def solve(system: System, confidence: float = 0.99) -> Estimate:
    """Solve the overdetermined system; the interval comes from its residual and from rounding.

    The leftover gradient is taken to be as large along A as it is, a direction at a time, across it (Student's t),
    and never smaller than all of it at once divided by ‖A‖: solvers that stop early leave structured remains.
    """
    A, b = system.A, system.b
    # Equilibrate: the two columns of an elastic net differ by orders of magnitude.
    scale = np.linalg.norm(A, axis=0)
    Q, R = np.linalg.qr(A / scale)
    inverse = np.linalg.inv(R)
    values = -(inverse @ (Q.T @ b)) / scale
    residual = b + A @ values
    spare = len(b) - A.shape[1]
    left = float(np.linalg.norm(residual))
    size = float(np.hypot(left, np.linalg.norm(system.check)))
    spread = np.linalg.norm(inverse, axis=1) / scale
    quantile = float(stats.t.ppf(0.5 + confidence / 2, spare)) if spare else 0.0
    typical = left / np.sqrt(spare) if spare else 0.0
    rounding = ROUNDING_SAFETY * system.epsilon * float(np.linalg.norm(system.magnitude))
    half = max(quantile * typical, size, rounding)
    covariance = (inverse @ inverse.T) / np.outer(scale, scale) * half**2
    norm = float(np.linalg.norm(b)) or 1.0
    # In a random direction the share of ‖b‖² explained follows a Beta law, and what is left the mirrored one.
    law = stats.beta(spare / 2, A.shape[1] / 2) if spare else None
    chance = float(law.cdf((left / norm) ** 2)) if law else 1.0
    luck = float(np.sqrt(law.median())) if law else 0.0
    return Estimate(values, half * spread, covariance, size / norm, spare, chance, luck)


@dataclass(frozen=True)
class Gradient:
    """Gradient of a loss at the learned parameters, with the magnitude of the terms it is the sum of."""

    values: Array
    "(d,)"
    magnitude: Array
    "(d,)"
    balance: float | None
    "the derivative in a free intercept, in units of the others: it must vanish whatever the penalty"

    @property
    def check(self) -> Array:
        return np.zeros(0) if self.balance is None else np.array([self.balance])


def squared_loss(X: Array, y: Array, w: Array, c: float, weight: Array, free: bool) -> Gradient:
    """Gradient of ½Σ weight (Xw + c − y)², where the intercept c is free or absent.

    With a free intercept the residuals add up to nothing, so columns may be centred, which cancels less.
    One pass over blocks of rows that stay in the cache: on large data the time is all memory.
    """
    d = X.shape[1]
    mean = weight @ X / weight.sum() if free else np.zeros(d)
    c += float(mean @ w)
    gradient, magnitude = np.zeros(d), np.zeros(d)
    squares = balance = 0.0
    rows = max(1, BLOCK // d)
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        block = X[part] - mean
        residual = weight[part] * (block @ w + c - y[part])
        gradient += block.T @ residual
        balance += float(residual.sum())
        np.abs(block, out=block)
        magnitude += block.T @ (weight[part] * (block @ np.abs(w) + np.abs(c - y[part])))
        squares += float(weight[part] @ (block**2).sum(axis=1))
    if not free:
        return Gradient(gradient, magnitude, None)
    width = float(np.sqrt(squares / (d * weight.sum())))  # of a typical centred column
    return Gradient(gradient, magnitude, width * balance)


def ridge(w: Array, gradient: Gradient) -> System:
    """½ loss + λ/2 ‖w‖²."""
    return System(w[:, None], gradient.values, gradient.magnitude, gradient.check)


def lasso(w: Array, gradient: Gradient) -> System:
    """½ loss + λ ‖w‖₁, where w is not 0."""
    return System(np.sign(w)[:, None], gradient.values, gradient.magnitude, gradient.check)


def elastic_net(w: Array, gradient: Gradient) -> System:
    """½ loss + λ₁ ‖w‖₁ + λ₂/2 ‖w‖², where w is not 0."""
    A = np.column_stack([np.sign(w), w])
    return System(A, gradient.values, gradient.magnitude, gradient.check)


def kept(gradient: Gradient, chosen: Array) -> Gradient:
    """Only the chosen coordinates."""
    return replace(gradient, values=gradient.values[chosen], magnitude=gradient.magnitude[chosen])


def kernel_ridge(K: Array, y: Array, dual: Array, weight: Array) -> System:
    """½ Σ weight (K c − y)² + λ/2 cᵀKc, with the common factor K taken out."""
    magnitude = weight * (np.abs(K) @ np.abs(dual) + np.abs(y))
    return System(dual[:, None], weight * (K @ dual - y), magnitude, np.zeros(0))


def stacked(systems: list[System]) -> System:
    """Several outputs that share their penalties."""
    return System(
        np.concatenate([system.A for system in systems]),
        np.concatenate([system.b for system in systems]),
        np.concatenate([system.magnitude for system in systems]),
        np.concatenate([system.check for system in systems]),
        max(system.epsilon for system in systems),
    )


def gram(name: str, X: Array, gamma: float, degree: float, coef0: float) -> Array:
    """The kernel matrix (n, n) of the points with themselves, by scikit-learn's names."""
    kernels: dict[str, Callable[[], Array]] = {
        "linear": lambda: X @ X.T,
        "poly": lambda: (gamma * (X @ X.T) + coef0) ** degree,
        "polynomial": lambda: (gamma * (X @ X.T) + coef0) ** degree,
        "sigmoid": lambda: np.tanh(gamma * (X @ X.T) + coef0),
        "rbf": lambda: np.exp(-gamma * _squared_distances(X)),
        "laplacian": lambda: np.exp(-gamma * cdist(X, X, "cityblock")),
        "cosine": lambda: (unit := _unit_rows(X)) @ unit.T,
    }
    return kernels[name]()


KERNELS = ("cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid")


def _unit_rows(X: Array) -> Array:
    """Rows of length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths == 0, 1, lengths))


def _squared_distances(X: Array) -> Array:
    squares = (X**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * (X @ X.T), 0)
    np.fill_diagonal(distances, 0)
    return np.asarray(distances)
