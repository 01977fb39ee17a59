"""Newton's method in weights and intercepts, with an L1 part too, and the implicit gradient on the support.

At the minimum of Σ loss + Σ D_j ((1 − ρ) w_j²/2 + ρ |w_j|) weights that are not 0 have the gradient 0, and those that are 0
stay so when points or penalties move a little. So H, v = −H⁻¹g and the sums behind v are those of a smooth problem in the
support alone, and v is 0 elsewhere. Learners with an L1 part are poisoned in Carnerero-Cano et al. 2023, arXiv:2306.01613;
derivatives of a lasso on its support are in Bertrand et al. 2020, arXiv:2002.08943.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from divulge.arrays import Array
from divulge.solvers.bilevel.inner import Diverged, Risk, Shared

NEWTON = 400
"Most steps of Newton's method, a guard: from a near start it takes two to four, with a weak L1 penalty from 0 up to 50; \
a squared hinge under one may take hundreds."
HALVINGS = 30
"Of a step that would not lower the objective, a guard."
ROUNDING = 1e-12
"By how much, relatively, an objective may rise in a step that lowers it, and the least share of a diagonal: rounding."
ENTERING = 10
"Weights that may leave 0 in one step, or as many as the support has: from none, a hundred are there in five steps, and \
systems stay small."
DAMPING, LEAST_DAMPING = 10.0, 1e-6
"After a step that had to be cut, diagonals grow by this factor, from this share; after a whole step they fall by it."
TINY = float(np.finfo(float).tiny)
FORBIDDING = 1e300
"A penalty that no loss outweighs, and that times 0 is 0."
NO_MINIMUM = "the training problem has no minimum that Newton's method reaches; raise the least penalty"


@dataclass(frozen=True, eq=False)
class Minimum:
    """Weights (outputs, features), intercepts, ∂ℓ/∂f (outputs, points), and how to solve with the Hessian there."""

    W: Array
    b: Array
    first: Array
    end: tuple[Array, Array]
    solve: Callable[[Array, Array], tuple[Array, Array]]
    "v = −H⁻¹g (outputs, features) for an outer gradient g, and ∂²ℓ/∂f² (Xv + v_b) (outputs, points)."
    factor: Any = None
    "Of a Hessian, where it serves for the next problem too."


def by_features(
    X: Array, Y: Array, D: Array, l1_ratio: float, risk: Risk, start: tuple[Array, Array] | None, tolerance: float
) -> Minimum:
    """The minimum in weights (outputs, features) and free intercepts; D (features,) are the weights of the penalty.

    With an L1 part a step stays in the orthant it begins in: weights that would change their sign become 0, and weights that
    are 0 move only where the least subgradient pulls them.
    """
    Z = np.column_stack([X, np.ones(len(X))])
    sums = np.abs(Z).sum(axis=0)
    smooth, kink = np.append((1 - l1_ratio) * D, 0.0), np.append(l1_ratio * D, 0.0)
    w = np.column_stack(start) if start is not None else np.zeros((len(Y), Z.shape[1]))

    def objective(w: Array) -> float:
        return float(risk.value(w @ Z.T, Y).sum() + (smooth * w**2).sum() / 2 + (kink * np.abs(w)).sum())

    if start is not None and objective(w) > objective(none := np.zeros_like(w)):  # far out, where a loss has no curvature
        w = none
    damping = ROUNDING
    for _ in range(NEWTON):
        s = risk.first_derivative(w @ Z.T, Y)
        pull = _least_subgradient(s @ Z + smooth * w, w, kink)
        if (np.abs(pull) < tolerance * (1 + sums)).all():
            break
        step, before, size = _step(Z, Y, s, risk, smooth, w, pull, kink, damping), objective(w), 1.0
        for _ in range(HALVINGS):
            if objective(_moved(w, size * step, kink)) <= before + ROUNDING * (1 + abs(before)):
                break
            size /= 2
        w = _moved(w, size * step, kink)
        damping = max(damping / DAMPING, ROUNDING) if size == 1 else max(damping * DAMPING, LEAST_DAMPING)
    else:
        raise Diverged(NO_MINIMUM)
    if risk.second_derivative is None:
        w[:, -1] -= w[:, -1].mean()  # a softmax does not know it
    support = (w != 0) | (kink == 0)
    factor = _factor(_hessian(Z, Y, s, risk, smooth, support))

    def solve(g: Array, g_b: Array) -> tuple[Array, Array]:
        v = np.zeros_like(w)
        v[support] = -cho_solve(factor, np.column_stack([g, g_b])[support], check_finite=False)
        return v[:, :-1], risk.hessian_product(s, Y, v @ Z.T)

    return Minimum(w[:, :-1], w[:, -1], s, (w[:, :-1], w[:, -1]), solve)


def emptying(shared: Shared) -> float:
    """The least λ at which the L1 part leaves no weight: ln max |Xᵀs| / ρ, with s of the best intercepts alone."""
    n, d = shared.X.shape
    none = by_features(shared.X, shared.Y, np.full(d, FORBIDDING), 1.0, shared.risk, None, ROUNDING**0.5)
    most = float(np.abs(none.first @ shared.X).max()) / shared.penalty.l1_ratio
    return float(np.log(max(most, TINY))) - (np.log(n) if shared.penalty.averaged else 0.0)


def _least_subgradient(g: Array, w: Array, kink: Array) -> Array:
    """Of the objective, with g that of its smooth part."""
    return np.asarray(np.where(w != 0, g + kink * np.sign(w), np.sign(g) * np.maximum(np.abs(g) - kink, 0)))


def _step(
    Z: Array, Y: Array, s: Array, risk: Risk, smooth: Array, w: Array, pull: Array, kink: Array, damping: float
) -> Array:
    """Newton's step in weights that are not 0 and those that are pulled away from it most, none against its pull."""
    outside = (w == 0) & (kink > 0)
    free = ~outside
    most = max(ENTERING, int(free.sum()))
    strongest = np.argsort(-np.abs(pull) * outside, axis=None)[:most]
    free.ravel()[strongest] |= (pull != 0).ravel()[strongest]
    H = _hessian(Z, Y, s, risk, smooth, free)
    places, step = np.flatnonzero(free), np.zeros_like(w)
    while True:
        found = -cho_solve(_factor(H, damping), pull.ravel()[places], check_finite=False)
        right = ~outside.ravel()[places] | (found * pull.ravel()[places] < 0)
        if right.all():
            step.ravel()[places] = found
            return step
        H, places = H[np.ix_(right, right)], places[right]


def _moved(w: Array, step: Array, kink: Array) -> Array:
    new = w + step
    return np.asarray(np.where((kink > 0) & (new * w < 0), 0.0, new))


def _hessian(Z: Array, Y: Array, s: Array, risk: Risk, smooth: Array, free: Array) -> Array:
    """Σ ZᵀℓʺZ and the smooth penalty, in the free ones of the weights (outputs, features) alone."""
    columns = [np.flatnonzero(row) for row in free]
    parts = [Z if len(each) == Z.shape[1] else Z[:, each] for each in columns]
    blocks = []
    for output, part in enumerate(parts):
        along = np.zeros_like(s)
        along[output] = 1
        second = risk.hessian_product(s, Y, along)
        blocks.append([(part * row[:, None]).T @ other for row, other in zip(second, parts, strict=True)])
    H = blocks[0][0] if len(parts) == 1 else np.block(blocks)
    H.flat[:: len(H) + 1] += smooth[np.concatenate(columns)]
    return np.asarray(H)


def _factor(H: Array, more: float = ROUNDING) -> Any:
    """Of Cholesky, its diagonal raised by this share; a Hessian that rounding left indefinite is given more."""
    diagonal = H.flat[:: len(H) + 1].copy()
    while True:
        H.flat[:: len(H) + 1] = diagonal + more * (1 + diagonal)
        try:
            return cho_factor(H, check_finite=False)
        except LinAlgError:
            more *= 100
