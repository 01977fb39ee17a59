"""Training to the end, differentiated implicitly: Newton's method for the weights, one more solve for the gradient.

At the minimum of Σ loss + ½ Σ e^λ_j w_j² the gradient is 0 whatever the points are, so with the Hessian H and the outer
gradient g, v = −H⁻¹g gives the gradient in a training point, s v + ℓ″ (xv + v_b) w with s = ℓ′, and in λ, e^λ v · w.
With fewer points than features H is never made: with K = X D⁻¹ Xᵀ, D = e^λ, everything follows from one Cholesky factor of
I + S½ K S½, S the second derivatives at the points. With an L1 part all of this holds on the support of w (`newton`).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from divulge.arrays import Array
from divulge.solvers.bilevel.inner import Diverged, Shared, Trained
from divulge.solvers.bilevel.newton import HALVINGS, NEWTON, NO_MINIMUM, ROUNDING, Minimum, by_features

NEGLIGIBLE = 1e-7
"Second derivative times squared length of a point below which it has no row in a factor. Steps and solves are judged by \
the residual of the whole problem, so this is a matter of speed."
CONTRACTION = 0.4
"To what share an old factor has to bring the residual, or a new one is made: five such steps gain two digits."
REFINEMENTS = 40
"Most corrections of a solve with an old factor, a guard: each has to halve the residual."


class Converged:
    """Training to the minimum. Called with each problem's own points, it trains and differentiates.

    Where it is called again with as many problems it starts from where they ended. `tolerance` is the largest residual of
    stationarity, in first derivatives of one point, at which training has ended; and the precision of the linear systems.
    """

    def __init__(self, shared: Shared, *, tolerance: float = 1e-9) -> None:
        self.shared, self.tolerance = shared, tolerance
        self.rate = 0.0
        "There is none."
        self._before: list[Minimum] = []
        by_points = shared.groups is None and not shared.penalty.l1_ratio and len(shared.X) <= shared.X.shape[1]
        self._gram = shared.X @ shared.X.T if by_points else None

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        """Train with points (problems, own, features) that have targets (problems, outputs, own).

        `strengths` (problems, penalties) are the logarithms λ.
        """
        before = self._before if len(self._before) == len(points) else [None] * len(points)
        self._before = made = [
            self._one(P, Y, lam, last)
            for P, Y, lam, last in zip(points, targets, np.asarray(strengths, float), before, strict=True)
        ]
        W, b = np.stack([one.W for one in made]), np.stack([one.b for one in made])
        value, g, g_b = self.shared.validation_loss(W, b)
        lam, penalty = self.shared.spread(np.asarray(strengths, float)), self.shared.penalty
        gradients, parts = [], []
        for number, one in enumerate(made):
            v, q = one.solve(g[number], g_b[number])
            own = slice(len(self.shared.X), None)
            gradients.append(one.first[:, own].T @ v + q[:, own].T @ one.W)
            weight = penalty.weight(lam[number], one.first.shape[1])
            parts.append((weight * v * penalty.slope(one.W)).sum(axis=0))
        return Trained(value, np.stack(gradients), self.shared.gathered(np.stack(parts)), W, b)

    def _one(self, P: Array, Y_own: Array, lam: Array, last: Minimum | None) -> Minimum:
        X = np.concatenate([self.shared.X, P])
        Y = np.concatenate([self.shared.Y, Y_own], axis=1)
        penalty = self.shared.penalty
        D = np.broadcast_to(penalty.weight(self.shared.spread(lam[None])[0], len(X)), X.shape[1])
        alike = last is not None and last.first.shape == Y.shape
        start, factor = (last.end, last.factor) if last is not None and alike else (None, None)
        if penalty.l1_ratio:
            return by_features(X, Y, D, penalty.l1_ratio, self.shared.risk, start, self.tolerance)
        if len(Y) > 1:
            return _by_conjugate_gradients(X, Y, D, self.shared, start, self.tolerance)
        if len(X) <= X.shape[1]:
            gram = self._whole_gram(P, D)
            return _by_points(X, Y, D, gram, self.shared, start, factor, self.tolerance)
        return by_features(X, Y, D, 0.0, self.shared.risk, start, self.tolerance)

    def _whole_gram(self, P: Array, D: Array) -> Array:
        X, m = self.shared.X, len(self.shared.X)
        if self._gram is None:
            everything = np.concatenate([X, P])
            return np.asarray((everything / D) @ everything.T)
        gram = np.empty((m + len(P),) * 2)
        gram[:m, :m] = self._gram
        gram[m:, :m] = P @ X.T
        gram[:m, m:] = gram[m:, :m].T
        gram[m:, m:] = P @ P.T
        gram /= D[0]
        return gram


def _by_points(
    X: Array,
    Y: Array,
    D: Array,
    K: Array,
    shared: Shared,
    start: tuple[Array, Array] | None,
    factor: _Factor | None,
    tolerance: float,
) -> Minimum:
    """One output, fewer points than features: w = D⁻¹Xᵀa, and at the minimum a = −∂ℓ/∂f with Σ a = 0.

    The factor of an earlier, similar problem serves for as long as steps with it do well.
    """
    n, risk = len(X), shared.risk
    a, b = (start[0][0].copy(), float(start[1][0])) if start is not None else (np.zeros(n), 0.0)
    ones = np.ones((1, n))

    def state(a: Array, b: float) -> tuple[Array, float, float]:
        """∂ℓ/∂f, the objective, and the residual of stationarity."""
        f = K @ a
        s = risk.first_derivative((f + b)[None], Y)[0]
        objective = float(risk.value((f + b)[None], Y).sum() + a @ f / 2)
        return s, objective, max(float(np.abs(a + s).max()), abs(float(a.sum())) / n)

    s, before, residual = state(a, b)
    if start is not None and before > (fresh := state(np.zeros(n), 0.0))[1]:  # far out, where the loss has no curvature
        a, b, (s, before, residual) = np.zeros(n), 0.0, fresh
    for _ in range(NEWTON):
        if residual < tolerance:
            break
        S = risk.hessian_product(s[None], Y, ones)[0]
        if factor is not None:
            step, step_b = factor.solve(-a - s, -a.sum())
            tried = state(a + step, b + step_b)
            if tried[2] < CONTRACTION * residual:
                a, b = a + step, b + step_b
                s, before, residual = tried
                continue
        factor = _Factor(K, S)
        step, step_b = factor.solve(-a - s, -a.sum())
        size = 1.0
        for _ in range(HALVINGS):
            tried = state(a + size * step, b + size * step_b)
            if tried[1] <= before + ROUNDING * (1 + abs(before)):
                break
            size /= 2
        a, b = a + size * step, b + size * step_b
        s, before, residual = tried
    else:
        raise Diverged(NO_MINIMUM)
    S = risk.hessian_product(s[None], Y, ones)[0]
    found = factor if factor is not None else _Factor(K, S)

    def solve(g: Array, g_b: Array) -> tuple[Array, Array]:
        q, _ = found.refined(K, S, -S * (X @ (g[0] / D)), -float(g_b[0]), tolerance)
        return (-(g[0] + q @ X) / D)[None], q[None]

    return Minimum((-(s @ X) / D)[None], np.array([b]), s[None], (a[None], np.array([b])), solve, found)


class _Factor:
    """Solves (I + S K) x + S t = g, Σ x = h through the Cholesky factor of I + S½ K S½."""

    def __init__(self, K: Array, S: Array) -> None:
        self.K = K
        # Points that the model is sure of have next to no curvature and need no row of the factor.
        self.curved = np.flatnonzero(S * K.diagonal() > NEGLIGIBLE)
        self.root = np.sqrt(S[self.curved])
        self.rows = K if len(self.curved) == len(K) else K[self.curved]
        made = np.multiply(self.rows if self.rows is K else self.rows[:, self.curved], self.root, order="F")
        made *= self.root[:, None]
        made.T.flat[:: len(made) + 1] += 1
        self.factor = cho_factor(made, lower=True, overwrite_a=True, check_finite=False)
        self.border = self._inverse(S)

    def solve(self, g: Array, h: float) -> tuple[Array, float]:
        """x and t."""
        x, total = self._inverse(g), self.border.sum()
        t = (x.sum() - h) / total if total > 0 else 0.0
        return x - t * self.border, t

    def refined(self, K: Array, S: Array, g: Array, h: float, tolerance: float) -> tuple[Array, float]:
        """x and t for another, similar K and S; with a factor of its own where this one does not do."""
        x, t = self.solve(g, h)
        target = tolerance * (np.abs(g).max() + abs(h) / len(g))
        last = np.inf
        for _ in range(REFINEMENTS):
            rest, rest_h = g - x - S * (K @ x + t), h - x.sum()
            size = max(float(np.abs(rest).max()), abs(float(rest_h)) / len(g))
            if size <= target or (K is self.K and size > last / 2):
                return x, t
            if size > last / 2:
                return _Factor(K, S).refined(K, S, g, h, tolerance)
            last = size
            more, more_t = self.solve(rest, rest_h)
            x, t = x + more, t + more_t
        return _Factor(K, S).refined(K, S, g, h, tolerance)

    def _inverse(self, g: Array) -> Array:
        inner = cho_solve(self.factor, self.root * (self.rows @ g), check_finite=False)
        found: Array = g.copy()
        found[self.curved] -= self.root * inner
        return found


def _by_conjugate_gradients(
    X: Array, Y: Array, D: Array, shared: Shared, start: tuple[Array, Array] | None, tolerance: float
) -> Minimum:
    """Several outputs that share a term: Newton's method with products only."""
    risk, Z, k = shared.risk, np.column_stack([X, np.ones(len(X))]), len(Y)
    penalty = np.append(D, 0.0)
    w = np.column_stack(start) if start is not None else np.zeros((k, Z.shape[1]))

    def objective(w: Array) -> float:
        return float(risk.value(w @ Z.T, Y).sum() + (penalty * w**2).sum() / 2)

    def inverse(s: Array, g: Array, tolerance: float) -> Array:
        """H⁻¹g, up to a number that is added to all intercepts of a softmax, which changes nothing."""

        def product(flat: Array) -> Array:
            u = flat.reshape(w.shape)
            return np.asarray(risk.hessian_product(s, Y, u @ Z.T) @ Z + penalty * u).ravel()

        p = s + Y
        second = p * (1 - p) if risk.second_derivative is None else risk.second_derivative(s, Y)
        diagonal = (second @ Z**2 + penalty).ravel() + ROUNDING
        shape = (w.size, w.size)
        found, _ = cg(
            LinearOperator(shape, product), g.ravel(), rtol=tolerance, maxiter=20 * w.size,
            M=LinearOperator(shape, lambda flat: flat / diagonal),
        )  # fmt: skip
        return np.asarray(found.reshape(w.shape))

    for _ in range(NEWTON):
        s = risk.first_derivative(w @ Z.T, Y)
        g = s @ Z + penalty * w
        size_of_g = np.abs(g).max() / (1 + np.abs(Z).sum(axis=0).max())
        if size_of_g < tolerance:
            break
        step, before, size = -inverse(s, g, min(1e-2, size_of_g**0.5)), objective(w), 1.0
        for _ in range(HALVINGS):
            if objective(w + size * step) <= before + ROUNDING * (1 + abs(before)):
                break
            size /= 2
        w = w + size * step
    else:
        raise Diverged(NO_MINIMUM)

    if risk.second_derivative is None:
        w[:, -1] -= w[:, -1].mean()

    def solve(g: Array, g_b: Array) -> tuple[Array, Array]:
        v = -inverse(s, np.column_stack([g, g_b]), tolerance / 10)
        return v[:, :-1], risk.hessian_product(s, Y, v @ Z.T)

    return Minimum(w[:, :-1], w[:, -1], s, (w[:, :-1], w[:, -1]), solve)
