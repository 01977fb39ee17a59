"""Penalties from stationarity: at a minimum of loss + Σ λ_k penalty_k, b + Aλ = 0 in every differentiable coordinate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.sparse import issparse
from scipy.spatial.distance import cdist

from divulge.arrays import Array
from divulge.solvers.stationarity import sparse
from divulge.solvers.stationarity.losses import LOSSES, Loss

BLOCK = 100_000  # numbers in a block of rows: under a megabyte, which stays in the cache; changes no sum but its rounding
ROUNDING_SAFETY = 8.0  # times ε‖magnitude‖ / ‖A‖: of 920 fits of ridge and kernel ridge, 99 % err by less than 5


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
    noise: float = 0.0
    "size of what digits cut off the parameters may have added to b"


@dataclass(frozen=True)
class Estimate:
    """Least-squares λ with what the equations themselves say about its error."""

    values: Array
    "(penalties,)"
    half_widths: Array
    "(penalties,) half the confidence interval"
    covariance: Array
    "(penalties, penalties)"
    relative_residual: float
    "‖(b + Aλ̂, check)‖ / ‖b‖: 0 when λ̂ explains the gradient fully, 1 and more when it explains nothing"
    largest: float
    "the largest entry of (b + Aλ̂, check)"
    degrees_of_freedom: int
    "equations − penalties"
    p_value: float
    "P(as small a residual) if b had a random direction: how often penalties explain as much of an unrelated gradient"
    null_median: float
    "median relative residual of such a gradient"


def solve(system: System, confidence: float = 0.99, stopped: float = 0.0) -> Estimate:
    """λ̂ = argmin ‖b + Aλ‖₂, with half-widths h √diag((AᵀA)⁻¹); A (m, k), b (m,).

    h = max(t √(‖r‖² / (m − k)), ‖(r, check)‖, 8 ε ‖magnitude‖, noise, what `stopped` lets pass), where r = b + Aλ̂ and t is
    Student's quantile with m − k degrees of freedom: the gradient is taken to be as large along A as it is across it, a
    direction at a time, and never smaller than all of it at once, as solvers that stop early leave structured remains.
    `stopped` is the largest entry with which the solver would have been content: so much may lie along A unseen.
    """
    A, b = system.A, system.b
    # Equilibrate: the two columns of an elastic net differ by orders of magnitude.
    scale = np.linalg.norm(A, axis=0)
    Q, R = np.linalg.qr(A / scale)
    inverse = np.linalg.inv(R)
    values = -(inverse @ (Q.T @ b)) / scale
    residual = b + A @ values
    freedom = len(b) - A.shape[1]
    left = float(np.linalg.norm(residual))
    size = float(np.hypot(left, np.linalg.norm(system.check)))
    spread = np.linalg.norm(inverse, axis=1) / scale
    quantile = float(stats.t.ppf(0.5 + confidence / 2, freedom)) if freedom else 0.0
    typical = left / np.sqrt(freedom) if freedom else 0.0
    rounding = ROUNDING_SAFETY * system.epsilon * float(np.linalg.norm(system.magnitude))
    # What a gradient with no entry above `stopped` can have along a column of A.
    unseen = stopped * float((np.abs(A).sum(axis=0) / scale).max())
    half = max(quantile * typical, size, rounding, system.noise, min(unseen, float(np.linalg.norm(b))))
    covariance = (inverse @ inverse.T) / np.outer(scale, scale) * half**2
    norm = float(np.linalg.norm(b)) or 1.0
    # In a random direction the share of ‖b‖² explained follows a Beta law, and what is left the mirrored one.
    law = stats.beta(freedom / 2, A.shape[1] / 2) if freedom else None
    p_value = float(law.cdf((left / norm) ** 2)) if law else 1.0
    null_median = float(np.sqrt(law.median())) if law else 0.0
    largest = float(np.abs(np.concatenate([residual, system.check])).max(initial=0))
    return Estimate(values, half * spread, covariance, size / norm, largest, freedom, p_value, null_median)


@dataclass(frozen=True)
class Gradient:
    """Gradient of a loss at the learned parameters, with the magnitude of the terms it is the sum of."""

    values: Array
    "(outputs, d)"
    magnitude: Array
    "(outputs, d)"
    balance: Array
    "(outputs,) the derivative in the intercept"
    balance_magnitude: Array
    "(outputs,)"
    column_scale: float
    "root mean square of the entries of X: what brings the balance to the units of the others"


def gradient(loss: Loss, X: Array, Y: Array, W: Array, c: Array, weight: Array, centred: bool = False) -> Gradient:
    """∇_W = Dᵀ X and ∇_c = Dᵀ 1 of Σᵢ weightᵢ loss(W xᵢ + c, yᵢ), where D = weight · ∂loss/∂f (n, outputs).

    X (n, d), targets Y (n, outputs), W (outputs, d), c (outputs,), weight (n,).
    With a squared loss and a free intercept the residuals add up to nothing, so columns may be centred, which cancels
    less. One pass over blocks of rows that stay in the cache: on large data the time is all memory. A sparse X stays sparse.
    """
    if issparse(X):
        return Gradient(*sparse.gradient(loss, X, Y, W, c, weight, centred))
    d = X.shape[1]
    mean = weight @ X / weight.sum() if centred else np.zeros(d)
    c = c + W @ mean
    values, magnitude = np.zeros(W.shape), np.zeros(W.shape)
    balance, balance_magnitude = np.zeros(len(W)), np.zeros(len(W))
    squares = 0.0
    rows = max(1, BLOCK // d)
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        block = X[part] - mean
        scores = block @ W.T + c
        first = weight[part, None] * loss.first_derivative(scores, Y[part])
        values += first.T @ block
        balance += first.sum(axis=0)
        squares += float(weight[part] @ np.einsum("ij,ij->i", block, block))
        np.abs(block, out=block)
        # A squared loss cancels score against target; the others lose what their scores lost.
        lost = block @ np.abs(W).T + (np.abs(c - Y[part]) if loss is LOSSES["squared"] else np.abs(c))
        terms = weight[part, None] * loss.second_derivative(scores, Y[part]) * lost + np.abs(first)
        magnitude += terms.T @ block
        balance_magnitude += terms.sum(axis=0)
    column_scale = float(np.sqrt(squares / (d * weight.sum())))
    return Gradient(values, magnitude, balance, balance_magnitude, column_scale)


def at_zero(loss: Loss, X: Array, Y: Array, level: Array, weight: Array) -> tuple[Array, Array]:
    """∇_W (outputs, d) and ∇_c (outputs,) of the loss at W = 0 and c = `level` (outputs,)."""
    first = weight[:, None] * loss.first_derivative(np.broadcast_to(level, Y.shape), Y)
    return (X.T @ first).T, first.sum(axis=0)


def systems(
    found: Gradient, W: Array, penalties: Sequence[str], *, free: bool, constant: tuple[Array, float] | None, used: Array
) -> list[System]:
    """One system an output. `constant` is (intercepts, scaling) where the intercept is penalised like a coefficient."""
    built = []
    for k, w in enumerate(W):
        values, magnitude = found.values[k][used[k]], found.magnitude[k][used[k]]
        w = w[used[k]]
        if constant is not None:
            intercepts, scaling = constant
            w = np.append(w, intercepts[k] / scaling)
            values = np.append(values, scaling * found.balance[k])
            magnitude = np.append(magnitude, scaling * found.balance_magnitude[k])
        check = np.array([found.column_scale * found.balance[k]]) if free else np.zeros(0)
        built.append(penalised(w, values, magnitude, penalties, check))
    return built


def penalised(w: Array, values: Array, magnitude: Array, penalties: Sequence[str], check: Array) -> System:
    """loss + λ₁ ‖w‖₁ + λ₂/2 ‖w‖²; where there is an L1 penalty, only coordinates that are not 0."""
    if "l1" in penalties:
        moved = w != 0
        w, values, magnitude = w[moved], values[moved], magnitude[moved]
    columns = {"l1": np.sign(w), "l2": w}
    return System(np.column_stack([columns[name] for name in penalties]), values, magnitude, check)


def kernel_systems(loss: Loss, K: Array, Y: Array, dual: Array, weight: Array, penalties: Sequence[str]) -> list[System]:
    """D + λα = 0 of f = Kα with penalty λ/2 αᵀKα (the common factor K taken out), or KD + λ sign α = 0 with λ‖α‖₁.

    D = weight · ∂loss/∂f (n, outputs), K (n, n), dual (outputs, n).
    """
    scores = K @ dual.T
    first = weight[:, None] * loss.first_derivative(scores, Y)
    lost = np.abs(K) @ np.abs(dual).T + (np.abs(Y) if loss is LOSSES["squared"] else 0)
    terms = weight[:, None] * loss.second_derivative(scores, Y) * lost + np.abs(first)
    if penalties == ("l1",):
        return [
            penalised(dual[k], K @ first[:, k], np.abs(K) @ terms[:, k], penalties, np.zeros(0)) for k in range(len(dual))
        ]
    return [System(dual[k][:, None], first[:, k], terms[:, k], np.zeros(0)) for k in range(len(dual))]


def stacked(systems: list[System]) -> System:
    """Several outputs that share their penalties."""
    return System(
        np.concatenate([system.A for system in systems]),
        np.concatenate([system.b for system in systems]),
        np.concatenate([system.magnitude for system in systems]),
        np.concatenate([system.check for system in systems]),
        max(system.epsilon for system in systems),
        float(np.linalg.norm([system.noise for system in systems])),
    )


def gram(name: str, X: Array, gamma: float, degree: float, coef0: float, others: Array | None = None) -> Array:
    """The kernel matrix of the points with themselves, or with others, by scikit-learn's names."""
    Z = X if others is None else others
    kernels: dict[str, Callable[[], Array]] = {
        "linear": lambda: X @ Z.T,
        "poly": lambda: (gamma * (X @ Z.T) + coef0) ** degree,
        "polynomial": lambda: (gamma * (X @ Z.T) + coef0) ** degree,
        "sigmoid": lambda: np.tanh(gamma * (X @ Z.T) + coef0),
        "rbf": lambda: np.exp(-gamma * distances(name, X, others)),
        "laplacian": lambda: np.exp(-gamma * distances(name, X, others)),
        "cosine": lambda: _unit_rows(X) @ _unit_rows(Z).T,
    }
    return kernels[name]()


KERNELS = ("cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid")
WITH_BANDWIDTH = ("laplacian", "rbf")
"Kernels exp(−γ D), which have no parameter but their bandwidth γ."


def distances(name: str, X: Array, others: Array | None = None) -> Array:
    """D of such a kernel, (n, n) or (n, others): ‖x − z‖² for `rbf`, ‖x − z‖₁ for `laplacian`."""
    Z = X if others is None else others
    if name == "laplacian":
        return np.asarray(cdist(X, Z, "cityblock"))
    found = np.maximum((X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1)[None, :] - 2 * (X @ Z.T), 0)
    if others is None:
        np.fill_diagonal(found, 0)
    return np.asarray(found)


def _unit_rows(X: Array) -> Array:
    """Rows of length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths == 0, 1, lengths))
