"""Kernel machines without an intercept, solved until only rounding is left of the gradient.

In all of them K (n, n) is a kernel matrix, y (n,) holds −1 and +1, f = Kα, and `weight` (n,) counts each point so often.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq
from scipy.special import expit

from divulge.arrays import Array

STEPS = 10_000
"A cap: Newton's method takes some tens of steps; with the L1 penalty, a few for each coefficient."
NEAR = 0.1
"A step that changes every f by less changes no curvature of the logistic loss by a factor above e^0.1: take it whole."
HALVES = 0.5 ** np.arange(40)
"Lengths of a step that are tried: the shortest, 2⁻³⁹, changes nothing."
ROUNDING = 4 * float(np.finfo(float).eps)
"Of the terms of a margin: a guard, as a margin of 1 but for rounding may be on either side."
SINGULAR = 1e-14
"Added to a Hessian, as a share of its trace: along a direction that changes no f, a step goes on until a coefficient is 0."


def logistic_l2(K: Array, y: Array, penalty: float, weight: Array | None = None, tol: float = 1e-15) -> Array:
    """α (n,) that minimises Σ weight log(1 + exp(−y f)) + penalty/2 αᵀKα.

    K is positive semi-definite, and may be singular: of all minima in α this is the one an RKHS sees, where
    penalty α = weight y σ(−y f) in every point. Newton's method ends when the two sides differ by `tol`, relative
    to their length, or when rounding keeps them from coming nearer.
    """
    weight = np.ones(len(y)) if weight is None else weight

    def pull(f: Array) -> Array:
        return np.asarray(weight * y * expit(-y * f))

    alpha = best = np.zeros(len(y))
    least = np.inf
    for _ in range(STEPS):
        f = K @ alpha
        rest = pull(f) - penalty * alpha
        root = np.sqrt(weight * expit(-f) * expit(f))
        # (penalty + WK) step = rest, made symmetric.
        B = root[:, None] * K * root + penalty * np.eye(len(y))
        step = (rest - root * cho_solve(cho_factor(B), root * (K @ rest))) / penalty
        change = K @ step
        if np.abs(change).max() > NEAR:
            alpha = alpha + _length(pull, penalty, alpha, step, f, change) * step
            continue
        left = float(np.linalg.norm(rest))
        if left >= least / 2:
            return best
        best, least = alpha, left
        if left <= tol * penalty * float(np.linalg.norm(alpha)):
            return best
        alpha = alpha + step
    raise np.linalg.LinAlgError(f"no convergence in {STEPS} steps")


def squared_hinge(K: Array, y: Array, penalty: float, weight: Array | None = None) -> Array:
    """α (n,) that minimises Σ weight max(0, 1 − y f)² + penalty/2 αᵀKα.

    K is positive semi-definite. Where y f < 1, penalty α = 2 weight y (1 − y f), and α = 0 elsewhere: once it is known
    where, the solution is that of a linear system (Chapelle 2007).
    """
    weight = np.ones(len(y)) if weight is None else weight

    def pull(f: Array) -> Array:
        return np.asarray(2 * weight * y * np.maximum(0, 1 - y * f))

    alpha = np.zeros(len(y))
    for _ in range(STEPS):
        f = K @ alpha
        inside = (y * f < 1) & (weight > 0)
        goal = np.zeros(len(y))
        ridge = np.diag(penalty / (2 * weight[inside]))
        goal[inside] = cho_solve(cho_factor(K[np.ix_(inside, inside)] + ridge), y[inside])
        there = K @ goal
        moved = inside != ((y * there < 1) & (weight > 0))
        if (np.abs(1 - y * there)[moved] <= ROUNDING * (np.abs(K[moved]) @ np.abs(goal))).all():
            return goal
        alpha = alpha + _length(pull, penalty, alpha, goal - alpha, f, there - f) * (goal - alpha)
    raise np.linalg.LinAlgError(f"no convergence in {STEPS} steps")


def logistic_l1(K: Array, y: Array, penalty: float, weight: Array | None = None, tol: float = 1e-12) -> Array:
    """α (n,) with exact zeros that minimises Σ weight log(1 + exp(−y f)) + penalty ‖α‖₁, the columns of K as features.

    K may be any matrix. Newton's method on the coefficients that are not 0; one joins where the gradient outgrows the
    penalty, and one leaves where a step through 0 does best to stop there. In the end nothing violates the conditions
    of a minimum by more than `tol` times the gradient at α = 0, and less where rounding allows it.
    """
    weight = np.ones(len(y)) if weight is None else weight

    def value(alpha: Array, f: Array) -> float:
        return _logistic(f, y, weight) + penalty * float(np.abs(alpha).sum())

    alpha = best = np.zeros(K.shape[1])
    sign = np.zeros(K.shape[1])
    enough = tol * float(np.abs(K.T @ (weight * y)).max()) / 2
    least = np.inf
    for _ in range(STEPS):
        f = K @ alpha
        pull = weight * y * expit(-y * f)
        gradient = -(K.T @ pull)
        rest = np.where(sign != 0, gradient + penalty * sign, 0)
        outside = np.where(sign == 0, np.abs(gradient) - penalty, 0)
        joins = int(np.argmax(outside))
        worst = max(float(np.abs(rest).max()), float(outside[joins]))
        if worst <= enough:
            if worst >= least / 2:
                return best
            best, least = alpha, worst
        if outside[joins] > np.abs(rest).max():
            sign[joins] = -np.sign(gradient[joins])
            rest[joins] = gradient[joins] + penalty * sign[joins]
        step = _signed_step(K, np.abs(pull) * expit(y * f), rest, alpha, sign)
        change = K @ step
        crossing = np.full(len(alpha), np.inf)
        np.divide(-alpha, step, out=crossing, where=alpha * step < 0)
        length = 1.0
        if crossing.min() < 1 or np.abs(change).max() > NEAR:
            lengths = [*crossing[crossing < 1], *HALVES]
            length = lengths[np.argmin([value(alpha + t * step, f + t * change) for t in lengths])]
        alpha = np.where(crossing == length, 0, alpha + length * step)
        sign = np.where(alpha != 0, np.sign(alpha), np.where(crossing == length, 0, sign))
    raise np.linalg.LinAlgError(f"no convergence in {STEPS} steps")


def _signed_step(K: Array, curvature: Array, rest: Array, alpha: Array, sign: Array) -> Array:
    """Newton's step on the coefficients with a sign; one that is 0 and would take the other sign loses it."""
    while True:
        used = sign != 0
        step = np.zeros(len(alpha))
        if not used.any():
            return step
        columns = K[:, used]
        hessian = columns.T @ (curvature[:, None] * columns)
        hessian[np.diag_indices_from(hessian)] += SINGULAR * np.trace(hessian)
        step[used] = cho_solve(cho_factor(hessian), -rest[used])
        wrong = (alpha == 0) & (sign * step < 0)
        if not wrong.any():
            return step
        sign[wrong] = 0


def _logistic(f: Array, y: Array, weight: Array) -> float:
    return float(weight @ np.logaddexp(0, -y * f))


def _length(pull: Callable[[Array], Array], penalty: float, alpha: Array, step: Array, f: Array, change: Array) -> float:
    """Where along a step, at most at its end, an objective with gradient K(penalty α − pull(f)) is least."""

    def derivative(t: float) -> float:
        return float((penalty * (alpha + t * step) - pull(f + t * change)) @ change)

    return 1.0 if derivative(1.0) <= 0 or derivative(0.0) >= 0 else float(brentq(derivative, 0.0, 1.0))
