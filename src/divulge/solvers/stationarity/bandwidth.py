"""The bandwidth γ of a kernel exp(−γ D) from equations that hold only at the right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divulge.arrays import Array

DECADES = 4.0  # up and down from 1 / the median distance: beyond, a kernel is the identity, or constant but for rounding
GRID = 61  # values of γ tried over these: with 8 none of 120 random kernels was missed, with 6 one
STEPS = 60  # of Gauss-Newton: a cap; those kernels took at most 25 evaluations
STILL = 1e-15  # relative change of γ that is none: a few units in its last place


@dataclass(frozen=True)
class Equations:
    """K[rows][:, columns] @ weights + nuisance @ anything = targets."""

    rows: Array
    "(e,)"
    columns: Array
    "(m,)"
    weights: Array
    "(m,)"
    targets: Array
    "(e,)"
    nuisance: Array
    "(e, k) directions in which the equations may be off"


@dataclass(frozen=True)
class Bandwidth:
    gamma: float
    half_width: float
    relative_residual: float
    "of the targets' norm"


def find(distances: Array, equations: Sequence[Equations]) -> Bandwidth | None:
    """argmin over γ of Σ ‖P(K_γ[rows][:, columns] weights − targets)‖², where K_γ = exp(−γ D) and D is (n, n).

    P projects the nuisance out. By a grid, then Gauss-Newton; None where nothing depends on γ. The half-width is
    2 (‖r‖ + ε size) / ‖∂r/∂γ‖.
    """
    typical = float(np.median(distances[distances > 0], overwrite_input=False)) if (distances > 0).any() else 0.0
    if not typical or not sum(len(one.rows) for one in equations):
        return None
    grid = np.geomspace(10**-DECADES, 10**DECADES, GRID) / typical
    best = float(grid[int(np.argmin([np.linalg.norm(_residual(distances, equations, gamma)[0]) for gamma in grid]))])
    left, derivative, size = _residual(distances, equations, best)
    for _ in range(STEPS):
        steepness = float(derivative @ derivative)
        if not steepness:
            return None
        step = float(np.clip(-(derivative @ left) / steepness, -0.5 * best, best))
        moved = best
        for _ in range(12):
            trial = _residual(distances, equations, best + step)
            if np.linalg.norm(trial[0]) < np.linalg.norm(left):
                moved, left, derivative = best + step, trial[0], trial[1]
                break
            step /= 4
        if abs(moved - best) <= STILL * best:
            break
        best = moved
    rounding = np.finfo(float).eps * size
    half = 2 * (float(np.linalg.norm(left)) + rounding) / (float(np.linalg.norm(derivative)) or np.inf)
    return Bandwidth(best, half, float(np.linalg.norm(left)) / (size or 1.0))


def _residual(distances: Array, equations: Sequence[Equations], gamma: float) -> tuple[Array, Array, float]:
    """r, ∂r/∂γ = −P(D ∘ K_γ) weights, and the size of what cancels in r."""
    left, derivative, size = [], [], 0.0
    for one in equations:
        D = distances[np.ix_(one.rows, one.columns)]
        K = np.exp(-gamma * D)
        r, s = K @ one.weights - one.targets, -(D * K) @ one.weights
        if one.nuisance.shape[1]:
            Q, _ = np.linalg.qr(one.nuisance)
            r, s = r - Q @ (Q.T @ r), s - Q @ (Q.T @ s)
        left.append(r)
        derivative.append(s)
        size += float(np.linalg.norm(np.abs(K) @ np.abs(one.weights) + np.abs(one.targets)))
    return np.concatenate(left), np.concatenate(derivative), size
