"""Penalties from stationarity: at a minimum of loss + Σ λ_k penalty_k, b + Aλ = 0 in every differentiable coordinate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[Any]

EPSILON = float(np.finfo(float).eps)
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
    "‖b + Aλ̂‖ / ‖b‖: 0 when λ̂ explains the gradient fully, 1 when it explains nothing"
    spare: int
    "equations beyond the number of penalties"


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
    size = float(np.linalg.norm(residual))
    spread = np.linalg.norm(inverse, axis=1) / scale
    quantile = float(stats.t.ppf(0.5 + confidence / 2, spare)) if spare else 0.0
    typical = size / np.sqrt(spare) if spare else 0.0
    rounding = ROUNDING_SAFETY * EPSILON * float(np.linalg.norm(system.magnitude))
    half = max(quantile * typical, size, rounding)
    covariance = (inverse @ inverse.T) / np.outer(scale, scale) * half**2
    norm = float(np.linalg.norm(b))
    return Estimate(values, half * spread, covariance, size / norm if norm else 1.0, spare)


def squared_loss(X: Array, y: Array, w: Array, c: float, weight: Array, centre: bool) -> tuple[Array, Array]:
    """Gradient (d,) of ½Σ weight (Xw + c − y)² in w, and the magnitude of its terms.

    With a free intercept the residuals add up to nothing, so columns may be centred, which cancels less.
    One pass over blocks of rows that stay in the cache: on large data the time is all memory.
    """
    mean = weight @ X / weight.sum() if centre else np.zeros(X.shape[1])
    c += float(mean @ w)
    gradient, magnitude = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    rows = max(1, BLOCK // X.shape[1])
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        block = X[part] - mean
        gradient += block.T @ (weight[part] * (block @ w + c - y[part]))
        np.abs(block, out=block)
        magnitude += block.T @ (weight[part] * (block @ np.abs(w) + np.abs(c - y[part])))
    return gradient, magnitude


def ridge(w: Array, gradient: Array, magnitude: Array) -> System:
    """½ loss + λ/2 ‖w‖²."""
    return System(w[:, None], gradient, magnitude)


def lasso(w: Array, gradient: Array, magnitude: Array) -> System:
    """½ loss + λ ‖w‖₁, where w is not 0."""
    kept = w != 0
    return System(np.sign(w[kept])[:, None], gradient[kept], magnitude[kept])


def elastic_net(w: Array, gradient: Array, magnitude: Array) -> System:
    """½ loss + λ₁ ‖w‖₁ + λ₂/2 ‖w‖², where w is not 0."""
    kept = w != 0
    return System(np.column_stack([np.sign(w[kept]), w[kept]]), gradient[kept], magnitude[kept])


def kernel_ridge(K: Array, y: Array, dual: Array, weight: Array) -> System:
    """½ Σ weight (K c − y)² + λ/2 cᵀKc, with the common factor K taken out."""
    return System(dual[:, None], weight * (K @ dual - y), weight * (np.abs(K) @ np.abs(dual) + np.abs(y)))


def stacked(systems: list[System]) -> System:
    """Several outputs that share their penalties."""
    return System(
        np.concatenate([system.A for system in systems]),
        np.concatenate([system.b for system in systems]),
        np.concatenate([system.magnitude for system in systems]),
    )


def gram(name: str, X: Array, gamma: float, degree: float, coef0: float) -> Array:
    """The kernel matrix (n, n) of the points with themselves, by scikit-learn's names."""
    kernels: dict[str, Callable[[], Array]] = {
        "linear": lambda: X @ X.T,
        "poly": lambda: (gamma * (X @ X.T) + coef0) ** degree,
        "polynomial": lambda: (gamma * (X @ X.T) + coef0) ** degree,
        "sigmoid": lambda: np.tanh(gamma * (X @ X.T) + coef0),
        "rbf": lambda: np.exp(-gamma * _squared_distances(X)),
        "laplacian": lambda: np.exp(-gamma * np.abs(X[:, None, :] - X[None, :, :]).sum(axis=2)),
        "cosine": lambda: (unit := X / np.linalg.norm(X, axis=1, keepdims=True)) @ unit.T,
    }
    return kernels[name]()


KERNELS = ("cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid")


def _squared_distances(X: Array) -> Array:
    squares = (X**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * (X @ X.T), 0)
    np.fill_diagonal(distances, 0)
    return np.asarray(distances)
