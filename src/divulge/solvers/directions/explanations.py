"""Answers of an explanation service as rows [g, β], each a combination of the rows [w, b] of the first layer.

Where a network's value is f(x) = c·(W (x − mean) + b), with c what the later layers make of x, its gradient is g = c·W and
f(x) − g·(x − mean) = c·b = β. Means of gradients, over neighbours or along a path, are combinations as well, and so are
gradients of probabilities: with z the logits and p = softmax(z),

    ∇p_k = Σ_j p_k (δ_kj − p_j) ∇z_j,    Σ_j p_k (δ_kj − p_j) z_j = p_k (log p_k + H(p)),

so that the second takes the place of the value. Along the path x_t = b + t (x − b) of integrated gradients E, with mean
gradient ḡ = E / (x − b) and ∫ t f' dt = f(x) − ∫ f dt, the mean of β is ∫ q dt + ∫ f dt − f(x) − ḡ·(b − mean), where q is
what takes the place of the value f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from divulge.arrays import Array
from divulge.explanations import Explanation
from divulge.solvers.shared.affine import adds_to_one

Answers = Literal["scores", "probabilities", "probability"]

NODES = 8
"Values on a path whose mean is taken, by Gauss and Legendre; with 4 as many images came out, with 1 fewer."
FLOOR = 1e-290  # smaller probabilities have lost digits, and add nothing


@dataclass(frozen=True, eq=False)
class Reading:
    """What answers are, as far as rows can be made of them."""

    said: Explanation
    answers: Answers = "scores"
    scores_explained: bool = True
    "False where values are probabilities, and so is what is explained."

    @property
    def path(self) -> bool:
        return self.said.kind == "integrated gradients"

    def rows(self, X: Array, A: Array, E: Array, mean: Array | float, along: Array | None = None) -> Array:
        """Rows (k, d + 1) of points X (n, d) with values A (n, outputs) and explanations E (n, explained, d).

        `along` (n, NODES, outputs) are values on the path where explanations are means along it.
        """
        G = self._gradients(X, E)
        if self.path and along is not None:
            start = X * 0 + self._baseline
            weight = np.polynomial.legendre.leggauss(NODES)[1] / 2
            there = self._of_explained(along.reshape(-1, A.shape[1]), np.repeat(A, NODES, axis=0))
            q, v = (np.einsum("t,nto->no", weight, one.reshape(len(X), NODES, -1)) for one in there)
            value = q + v - self._of_explained(A, A)[1]
            beta = value - np.einsum("nod,nd->no", G, start - mean)
        else:
            beta = self._of_explained(A, A)[0] - np.einsum("nod,nd->no", G, X - mean)
        if self.answers == "probabilities" and self.scores_explained and E.shape[1] > 1:  # logits but for their sum
            G, beta = G - G[:, :1], beta - beta[:, :1]
            G, beta = G[:, 1:], beta[:, 1:]
        return np.concatenate([G, beta[:, :, None]], axis=2).reshape(-1, X.shape[1] + 1)

    def nodes(self, X: Array) -> Array:
        """(n · NODES, d): points on the path to each of X (n, d)."""
        t = (np.polynomial.legendre.leggauss(NODES)[0] + 1) / 2
        start = X * 0 + self._baseline
        return np.asarray(start[:, None, :] + t[:, None] * (X - start)[:, None, :]).reshape(-1, X.shape[1])

    @property
    def _baseline(self) -> Array | float:
        return 0.0 if self.said.baseline is None else self.said.baseline

    def _gradients(self, X: Array, E: Array) -> Array:
        if self.path:
            return np.asarray(E / (X - self._baseline)[:, None, :])
        return np.asarray(E / X[:, None, :]) if self.said.kind == "gradient times input" else E

    def _of_explained(self, A: Array, at: Array) -> tuple[Array, Array]:
        """What takes the place of values, and the values, of the outputs that are explained at points with values `at`."""
        if self.answers == "scores":
            q = v = A
        elif self.scores_explained:
            q = v = np.log(np.maximum(A, FLOOR)) if self.answers == "probabilities" else np.log(A) - np.log1p(-A)
        else:
            q, v = linearised(A), A
        weights = weights_of(self.said, at)
        return (q, v) if weights is None else ((q * weights).sum(1, keepdims=True), (v * weights).sum(1, keepdims=True))


def linearised(A: Array) -> Array:
    """What takes the place of probabilities (n, outputs) beside their gradients."""
    if A.shape[1] == 1:
        inside = np.clip(A, FLOOR, 1 - 1e-16)
        return np.asarray(inside * (1 - inside) * (np.log(inside) - np.log1p(-inside)))
    logs = np.log(np.maximum(A, FLOOR))
    return np.asarray(A * (logs - (A * logs).sum(axis=1, keepdims=True)))


def weights_of(said: Explanation, A: Array) -> Array | None:
    """(n, outputs): of which outputs one explanation a point is the sum; None where each has its own."""
    if said.of == "each output" or (said.of == "only output" and A.shape[1] == 1):
        return None
    if said.of == "sum of outputs":
        return np.ones_like(A)
    chosen = A.argmax(axis=1) if said.output is None else np.full(len(A), said.output)
    return np.asarray(np.eye(A.shape[1])[chosen])


def kind_of_values(A: Array) -> Answers:
    if A.shape[1] > 1 and (A >= 0).all() and adds_to_one(A):
        return "probabilities"
    return "probability" if A.shape[1] == 1 and ((A >= 0) & (A <= 1)).all() else "scores"
