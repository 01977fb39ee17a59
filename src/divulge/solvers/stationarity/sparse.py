"""Gradients of losses on sparse points: sums over the entries that are there, without a dense copy of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from divulge.arrays import Array
from divulge.solvers.stationarity.losses import LOSSES, Loss

ENTRIES = 500_000  # in a block of rows: 6 MB, little beside any data worth keeping sparse; changes no sum but its rounding
PROBES = 64  # random signs for the norm of a Hessian: its square errs by √(2/64) = 18 % at the worst, one eigenvalue alone

Sums = tuple[Array, Array, Array, Array, float]


def gradient(loss: Loss, X: Any, Y: Array, W: Array, c: Array, weight: Array, centred: bool) -> Sums:
    """The fields of `system.Gradient`, with X (n, d) by rows of scipy.sparse.

    Centred columns are not made: Dᵀ(X − 1mᵀ) = DᵀX − (Dᵀ1)mᵀ, with the mean m (d,), and |X − 1mᵀ| ≤ |X| + 1|m|ᵀ.
    """
    n, d = X.shape
    total = float(weight.sum())
    mean = (X.T @ weight) / total if centred else np.zeros(d)
    values, magnitude = np.zeros(W.shape), np.zeros(W.shape)
    balance, balance_magnitude = np.zeros(len(W)), np.zeros(len(W))
    squares = 0.0
    rows = max(1, int(ENTRIES * n / max(1, X.nnz)))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        block = X[part]
        scores = block @ W.T + c
        first = weight[part, None] * loss.first_derivative(scores, Y[part])
        values += (block.T @ first).T
        balance += first.sum(axis=0)
        absolute = csr_matrix((np.abs(block.data), block.indices, block.indptr), shape=block.shape)
        squares += float((absolute.multiply(absolute).T @ weight[part]).sum())
        # A squared loss cancels score against target; the others lose what their scores lost.
        lost = absolute @ np.abs(W).T + (np.abs(c - Y[part]) if loss is LOSSES["squared"] else np.abs(c))
        terms = weight[part, None] * loss.second_derivative(scores, Y[part]) * lost + np.abs(first)
        magnitude += (absolute.T @ terms).T
        balance_magnitude += terms.sum(axis=0)
    values -= np.outer(balance, mean)
    magnitude += np.outer(balance_magnitude, np.abs(mean))
    spread = max(squares - total * float(mean @ mean), 0.0)
    return values, magnitude, balance, balance_magnitude, float(np.sqrt(spread / (d * total)))


def hessian_norm(X: Any, curvature: Array, mean: Array | None = None) -> float:
    """‖Zᵀ diag(curvature) Z‖ in Frobenius' norm, where Z = X − 1 meanᵀ, or [X, 1] where no mean is given.

    It is the root of the mean of ‖Hz‖² over random signs z (Hutchinson), so that H (d, d) is never made.
    """
    rng = np.random.default_rng(0)
    found = 0.0
    for _ in range(PROBES):
        signs = rng.choice((-1.0, 1.0), X.shape[1])
        constant = float(rng.choice((-1.0, 1.0))) if mean is None else -float(mean @ signs)
        scores = curvature * (X @ signs + constant)
        image, total = X.T @ scores, float(scores.sum())
        found += float(image @ image) + total**2 if mean is None else float(np.sum((image - total * mean) ** 2))
    return float(np.sqrt(found / PROBES))
