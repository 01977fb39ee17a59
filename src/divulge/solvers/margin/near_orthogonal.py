"""What nearly orthogonal points force upon any two-layer network that has stopped moving on them.

N(x) = Σ_j v_j relu(w_j·x + b_j) with margin q over points x_i, where the weights are a sum of the points' gradients with
multipliers λ_i ≥ 0, positive only on the margin (a KKT point). Let g_i = λ_i Σ_j v_j² over the units that x_i reaches. Then

    |N(z)| ≤ Σ_i |⟨x_i,z⟩ + 1| g_i        for every z,
    q ≥ (‖x_i‖² + 1) g_i − Σ_{k≠i} |⟨x_i,x_k⟩ + 1| g_k        for every i.

The second says A g ≤ q for a matrix A without positive entries off its diagonal. Where A is positive definite its inverse
has no negative entry, so g ≤ q A⁻¹1, and the first becomes a bound for every z. Replacing all entries by their worst gives
the theorem as published, which needs far more dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from divulge.arrays import Array


@dataclass(frozen=True)
class Certificate:
    """Whether points are orthogonal enough, by the published theorem and by the finer inequality."""

    points: int
    least_norm: float
    "R²: the least ‖x_i‖²."
    overlap: float
    "p: the largest |⟨x_i, x_k⟩| of two points."
    holds: bool
    "Whether 3n(p+1) < R²+1, so that every training point is on the margin."
    ratio: float | None
    "Where it holds: no z with max_i |⟨x_i,z⟩| ≤ p has |N(z)| above this many margins."
    finer: bool
    "Whether the finer inequality puts every training point on the margin; it does wherever the theorem does."


def certificate(X: Array) -> Certificate:
    """For points X (n, d), in the coordinates in which the network sees them."""
    X = np.asarray(X, dtype=float)
    gram = X @ X.T
    n, least = len(X), float(gram.diagonal().min())
    overlap = float(np.abs(gram[~np.eye(n, dtype=bool)]).max(initial=0.0))
    spread = n * (overlap + 1)
    holds = 3 * spread < least + 1
    largest = _largest(gram)
    # A point without a multiplier would have |N| ≤ q Σ_{k≠i} |⟨x_i,x_k⟩+1| h_k = q ((‖x_i‖²+1) h_i − 1): below the margin.
    finer = largest is not None and bool(((gram.diagonal() + 1) * largest < 2).all())
    return Certificate(n, least, overlap, holds, spread / (least + 1 - 2 * spread) if holds else None, finer)


def bound(X: Array, Z: Array) -> Array:
    """(rows,): how many margins |N(z)| can be at each of Z (rows, d); infinite where X (n, d) allows no bound."""
    X, Z = np.asarray(X, dtype=float), np.asarray(Z, dtype=float)
    largest = _largest(X @ X.T)
    if largest is None:
        return np.full(len(Z), np.inf)
    found: Array = np.abs(Z @ X.T + 1) @ largest
    return found


def _largest(gram: Array) -> Array | None:
    """A⁻¹1: the most that each g_i / q can be; None where A is not positive definite."""
    comparison = -np.abs(gram + 1)
    np.fill_diagonal(comparison, gram.diagonal() + 1)
    try:
        factor = cho_factor(comparison)
    except LinAlgError:
        return None
    found: Array = cho_solve(factor, np.ones(len(gram)))
    return found if (found > 0).all() else None
