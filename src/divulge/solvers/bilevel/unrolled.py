"""Training that stops early, differentiated by hand: gradient descent from 0, and its sweep backwards.

For scores f = Xw + b, the mean of a loss and a penalty ½ Σ c_j w_j² with c = e^λ / n, forward

    s = ℓ′(Xw + b) / n;  w ← (1 − ηc) w − η Xᵀs;  b ← b − η Σ s

and backward, from v = the outer gradient at the end,

    q = ℓ″ · (Xv + v_b) / n;  v ← (1 − ηc) v − η Xᵀq;  v_b ← v_b − η Σ q

after which the gradient in a training point is −η Σ_t (s_t v_t + q_t w_t), and in λ −ηc Σ_t v_t · w_t.

With fewer points than features both sweeps run on the Gram matrix, as Xw + b and Xv + v_b obey one recursion,
z ← (1 − ηc) z − η (XXᵀ + 1) s. The intercept in it is the score of the origin, kept as one more point, whose loss −½ e^λ b²
takes back the penalty that this puts on the intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import get_blas_funcs

from divulge.arrays import Array
from divulge.solvers.bilevel.inner import Diverged, Shared, Trained

HALVINGS = 12
"Rates that are tried, each half the last: one more than 2,000 times too high is a mistake to be told about."
WORSE = 1.05
"A training that ends with this much more loss than it began with has diverged: stable descent from 0 ends no higher, \
and the rest is room for rounding in single precision."
FEW = 8
"Problems from which one matrix product is faster than a product with a vector for each of them. A matter of speed."
BLOCK = 1 << 16
"Second derivatives made at a time: fewer calls than one for each step, and all still in the cache. A matter of speed."


class EarlyStopped:
    """So many steps of gradient descent from 0. Called with each problem's own points, it trains and differentiates."""

    def __init__(
        self, shared: Shared, *, steps: int, rate: float, dtype: npt.DTypeLike = np.float32, dual: bool | None = None
    ) -> None:
        self.steps, self.rate, self.dtype = steps, rate, np.dtype(dtype)
        X, Y, X_val, Y_val = (np.asarray(part, self.dtype) for part in (shared.X, shared.Y, shared.X_val, shared.Y_val))
        self.shared = replace(shared, X=X, Y=Y, X_val=X_val, Y_val=Y_val)
        self.dual = len(X) < 2 * X.shape[1] if dual is None else dual
        if self.dual and shared.groups is not None:
            if dual:
                raise ValueError("expected one penalty for the Gram matrix, got several; leave dual out")
            self.dual = False
        self._X, self._Y = np.ascontiguousarray(X), Y
        if self.dual:  # the origin comes first
            self._X, self._Y = np.pad(X, ((1, 0), (0, 0))), np.pad(Y, ((0, 0), (1, 0)))
            self._gram = self._X @ self._X.T + 1
            self._square = np.empty((0, 0), self.dtype)
            self._room = np.empty(0, self.dtype)

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        """Train with points (problems, own, features) that have targets (problems, outputs, own).

        `strengths` (problems, penalties) are the logarithms λ. Without `penalties`, their gradient is left 0.
        A rate at which any of the problems diverges is halved, and stays so.
        """
        P, Y_own, lam = (np.ascontiguousarray(part, self.dtype) for part in (points, targets, strengths))
        Y = np.concatenate([np.broadcast_to(self._Y, (len(P), *self._Y.shape)), Y_own], axis=2)
        sweep = self._by_gram if self.dual else self._by_features
        if self.dual and Y.shape[1] == 1 and 1 < len(P) < FEW:
            sweep = self._one_by_one
        for _ in range(HALVINGS):
            with np.errstate(over="ignore", invalid="ignore"):
                trained = sweep(P, Y, lam, penalties)
            if trained is not None:
                return trained
            self.rate /= 2
        raise Diverged(f"training diverges even at a rate of {self.rate:.2g}; scale the features, or lower the penalty")

    def _one_by_one(self, P: Array, Y: Array, lam: Array, penalties: bool) -> Trained | None:
        made = []
        for each in range(len(P)):
            one = slice(each, each + 1)
            trained = self._by_gram(P[one], Y[one], lam[one], penalties)
            if trained is None:
                return None
            made.append(vars(trained))
        return Trained(**{name: np.concatenate([each[name] for each in made]) for name in made[0]})

    def _by_gram(self, P: Array, Y: Array, lam: Array, penalties: bool) -> Trained | None:
        risk, T, n = self.shared.risk, self.steps, Y.shape[2] - 1
        scale, back = self.rate / n, -np.exp(lam)
        shrink = (1 + scale * back)[..., None]
        if self._room.shape[1:] != (T + 1, *Y.shape):
            self._room = np.empty((3, T + 1, *Y.shape), self.dtype)
        S, Q, R = self._room[0, :T], self._room[1, :T], self._room[2]
        z = np.zeros_like(Y)
        origin, advance = z[..., 0], self._advance(z, P, shrink, scale)
        for s in S:
            risk.first_derivative(z, Y, out=s)
            np.multiply(origin, back, out=s[..., 0])
            advance(s)
        if not self._settled(z[..., 1:], Y[..., 1:]):
            return None
        late = shrink ** np.arange(T - 1, -1, -1, dtype=self.dtype)  # what is left at the end of each step's change
        W, b = self._weights(-scale * _summed(late, S), P), origin.copy()
        value, v, v_b = self.shared.validation_loss(W, b)
        np.add(self._scores(v, P), v_b[..., None], out=z)
        R[T], block = 0, max(1, BLOCK // z.size)
        for t in range(T - 1, -1, -1):
            if penalties:
                r = np.multiply(R[t + 1], shrink, out=R[t])
                r += z
            q = Q[t]
            if risk.second_derivative is None:
                q[:] = risk.hessian_product(S[t], Y, z)
                np.multiply(origin, back, out=q[..., 0])
            else:
                if (T - 1 - t) % block == 0:
                    part = slice(max(0, t + 1 - block), t + 1)
                    Q[part] = risk.second_derivative(S[part], Y)
                    Q[part, ..., 0] = back
                q *= z
            advance(q)
        gradient = self._point_gradient(S, Q, v, late, P, scale)
        by_strengths = np.zeros_like(lam)
        if penalties:  # Σ_t v_t · w_t = −η/n Σ_t s_t · (r_t − its entry at the origin)
            S[..., 0] = -S[..., 1:].sum(axis=-1)
            by_strengths = -(scale**2) * back * np.einsum("tbki,tbki->b", S, R[1:])[:, None]
        return Trained(value, gradient, by_strengths, W, b)

    def _advance(self, z: Array, P: Array, shrink: Array, scale: float) -> Callable[[Array], None]:
        """A function of s (problems, outputs, points) by which z becomes shrink z − scale (XXᵀ + 1) s."""
        X, (problems, own, features) = self._X, P.shape
        m, points = len(X), len(X) + own
        across = (X @ P.reshape(-1, features).T + 1).T.reshape(problems, own, m)
        among = P @ P.transpose(0, 2, 1) + 1
        if z.size == points:
            if len(self._square) != points:
                self._square = np.zeros((points, points), self.dtype)
                self._square[:m, :m] = self._gram
            self._square[m:, :m], self._square[m:, m:] = across[0], among[0]  # only one triangle is read
            symmetric, upper = get_blas_funcs("symv", dtype=self.dtype), self._square.T
            row, share = z[0, 0], shrink.item()

            def alone(s: Array) -> None:
                symmetric(-scale, upper, s[0, 0], share, row, overwrite_y=True)

            return alone
        gram, across, among = self._gram * scale, across * scale, among * scale
        by_all = np.concatenate([across, among], axis=2).transpose(0, 2, 1)
        theirs, ours = z[..., :m], z[..., m:]
        their_step, our_step = np.empty_like(theirs), np.empty_like(ours)

        def together(s: Array) -> None:
            np.multiply(z, shrink, out=z)
            np.matmul(s.reshape(-1, points)[:, :m], gram, out=their_step.reshape(-1, m))
            np.subtract(theirs, their_step, out=theirs)
            np.subtract(theirs, np.matmul(s[..., m:], across, out=their_step), out=theirs)
            np.subtract(ours, np.matmul(s, by_all, out=our_step), out=ours)

        return together

    def _point_gradient(self, S: Array, Q: Array, v: Array, late: Array, P: Array, scale: float) -> Array:
        """−η/n Σ_t (s_t v_t + q_t w_t) for each problem's own points, with v_t and w_t as sums over all points."""
        m, T = len(self._X), len(S)
        # (1 − ηc)^(t−1−τ) in row t and column τ < t, else 0: w_t is made of −η/n times the sum over τ of this times s_τ.
        line = np.concatenate([late[:, 0], np.zeros_like(late[:, 0])], axis=1)
        powers = np.ascontiguousarray(sliding_window_view(line, T, axis=1)[:, :0:-1])
        by = np.zeros((*P.shape[:2], S.shape[3]), self.dtype)
        for s, q in zip(S.transpose(2, 1, 0, 3), Q.transpose(2, 1, 0, 3), strict=True):  # (problems, steps, points)
            by += (s[..., m:].transpose(0, 2, 1) @ powers.transpose(0, 2, 1)) @ q
            by += (q[..., m:].transpose(0, 2, 1) @ powers) @ s
        from_end = _summed(late, S[..., m:]).transpose(0, 2, 1) @ v
        return np.asarray(scale * (scale * self._weights(by, P) - from_end))

    def _weights(self, A: Array, P: Array) -> Array:
        """Sums over points of A (problems, any, points): (problems, any, features)."""
        m = len(self._X)
        shared = A[..., :m].reshape(-1, m) @ self._X
        return np.asarray(shared.reshape(*A.shape[:2], P.shape[2]) + A[..., m:] @ P)

    def _scores(self, W: Array, P: Array) -> Array:
        """(problems, outputs, points), without intercepts."""
        shared = W.reshape(-1, W.shape[2]) @ self._X.T
        return np.concatenate([shared.reshape(*W.shape[:2], -1), W @ P.transpose(0, 2, 1)], axis=2)

    def _by_features(self, P: Array, Y: Array, lam: Array, penalties: bool) -> Trained | None:
        risk, T, m, (problems, k, n) = self.shared.risk, self.steps, len(self._X), Y.shape
        scale, c = self.rate / n, np.exp(self.shared.spread(lam))[:, None] / n
        shrink = 1 - self.rate * c
        S, Ws = np.empty((T, *Y.shape), self.dtype), np.zeros((T + 1, problems, k, P.shape[2]), self.dtype)
        b = np.zeros((problems, k, 1), self.dtype)
        for s, w, after in zip(S, Ws[:-1], Ws[1:], strict=True):
            risk.first_derivative(self._scores(w, P) + b, Y, out=s)
            np.multiply(shrink, w, out=after)
            after -= scale * self._weights(s, P)
            b -= scale * s.sum(axis=2, keepdims=True)
        W, b = Ws[T].copy(), b[..., 0]
        if not self._settled(self._scores(W, P) + b[..., None], Y):
            return None
        value, v, v_b = self.shared.validation_loss(W, b)
        gradient, parts = np.zeros_like(P), np.zeros((problems, P.shape[2]), self.dtype)
        for s, w in zip(S[::-1], Ws[-2::-1], strict=True):
            q = risk.hessian_product(s, Y, self._scores(v, P) + v_b[..., None])
            gradient += s[..., m:].transpose(0, 2, 1) @ v + q[..., m:].transpose(0, 2, 1) @ w
            if penalties:
                parts += (v * w).sum(axis=1)
            v *= shrink
            v -= scale * self._weights(q, P)
            v_b -= scale * q.sum(axis=2)
        by_strengths = -self.rate * self.shared.gathered(c[:, 0] * parts) if penalties else np.zeros_like(lam)
        return Trained(value, -scale * gradient, by_strengths, W, b)

    def _settled(self, scores: Array, Y: Array) -> bool:
        after = self.shared.risk.value(scores, Y).mean(axis=-1)
        before = self.shared.risk.value(np.zeros_like(Y), Y).mean(axis=-1)
        return bool(np.isfinite(scores).all() and (after <= WORSE * before).all())


def _summed(late: Array, S: Array) -> Array:
    """Σ_t late_t s_t: (problems, outputs, points) of (problems, 1, steps) and (steps, problems, outputs, points)."""
    return np.asarray((late[:, None] @ S.transpose(1, 2, 0, 3))[:, :, 0])
