"""How alike two lists of points are: correlation, structural similarity, and who belongs to whom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from divulge.arrays import Array

Pairs = tuple[Array, Array]

VOTERS = 1.1
"A reconstruction votes when it is no further from its original than this many times the nearest."
SIDE = math.exp(-0.5 / 1.5**2) / (1 + 2 * math.exp(-0.5 / 1.5**2))
"The outer two of three pixels of a Gaussian of width 1.5; the three sum to 1."
FLAT = 0.01**2, 0.03**2
"What keeps the similarity of flat patches finite, for values from 0 to 1."
CHUNK, BLOCK = 1 << 16, 1000
"Numbers handled at once: what stays in a processor's cache; and rows, where memory is the limit."
ROUNDING = 16
"Times machine precision: what is left of a constant row when its mean is taken away."
SAME = 1e-12
"Squared share of a row that must be left after a projection, or the row lies in what it was projected away from."


def ncc(A: Array, B: Array) -> Array:
    """Normalised cross-correlation of every row of A (m, d) with every row of B (n, d): (m, n), 0 for constant rows."""
    similarity: Array = standard(A) @ standard(B).T
    return np.clip(similarity, -1, 1, out=similarity)


def matched(similarity: Array) -> Pairs:
    """Rows and columns of a matrix (m, n) paired one to one, as alike in sum as can be: min(m, n) of each."""
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return rows, columns


def voted(found: Array, originals: Array, similarity: Array | None = None) -> Array:
    """For each original (n, d), the mean of its nearest reconstructions, stretched to 0 to 1; NaN where it has none.

    Each of `found` (m, d) votes for the one original it is nearest to by the distance 1 − NCC, if that is no more than 1.1
    times the distance of the original's nearest. `similarity` is their NCC (m, n) where it is known.
    """
    similarity = ncc(found, originals) if similarity is None else similarity
    everyone = np.arange(len(found))
    choice = similarity.argmax(axis=1)
    distance = 1 - similarity[everyone, choice]
    least = np.full(len(originals), np.inf, dtype=distance.dtype)
    np.minimum.at(least, choice, distance)
    voters = everyone[distance <= VOTERS * least[choice]]
    votes = sparse.csr_array((np.ones(len(voters), found.dtype), (choice[voters], voters)), (len(originals), len(found)))
    means: Array = scaled(votes @ scaled(found))
    means[np.isinf(least)] = np.nan
    return means


def ssim(A: Array, B: Array, shape: Sequence[int]) -> Array:
    """Structural similarity of each row of A with the same row of B, (n,): the mean over pixels and channels.

    Rows are pictures of `shape` (height, width) or (height, width, channels), values from 0 to 1. Local moments are those
    of a 3 × 3 Gaussian window of width 1.5; pictures are mirrored at their edges.
    """
    A, B = np.broadcast_arrays(A, B)
    parts = [_similarity(A[rows], B[rows], tuple(shape)) for rows in _chunks(B)]
    return np.concatenate([np.zeros(0), *parts])


def affine_ssim(A: Array, B: Array, mean: Array, shape: Sequence[int]) -> Array:
    """`ssim` of B's rows with a·x + b·mean + c, fitted to each by least squares; x the same row of A, `mean` (d,)."""
    axis = mean - mean.mean()
    axis = axis / (np.linalg.norm(axis) or 1.0)
    parts = [_similarity(_fitted(A[rows], B[rows], axis), B[rows], tuple(shape)) for rows in _chunks(B)]
    return np.concatenate([np.zeros(0), *parts])


def ranks(found: Array, originals: Array, others: Array, pairs: Pairs | None = None) -> Array:
    """For each original (n,): 1 + how many of `others` (k, d) its reconstruction resembles more; k + 1 where it has none.

    `pairs` are the reconstructions and the originals they belong to; unless given, those of `matched`.
    """
    rows, columns = matched(ncc(found, originals)) if pairs is None else pairs
    standing = np.full(len(originals), len(others) + 1)
    chosen = standard(found[rows])
    own = np.einsum("ij,ij->i", chosen, standard(originals[columns]))[:, None]
    parts = np.split(others, range(BLOCK, len(others), BLOCK))
    standing[columns] = 1 + sum((chosen @ standard(part.astype(found.dtype)).T > own).sum(axis=1) for part in parts)
    return standing


def scaled(X: Array) -> Array:
    """Each row stretched to run from 0 to 1; a constant row becomes 0."""
    low = X.min(axis=1, keepdims=True)
    width = X.max(axis=1, keepdims=True) - low
    stretched: Array = (X - low) / np.where(width > 0, width, 1)
    return stretched


def standard(X: Array) -> Array:
    """Rows of mean 0 and length 1; a constant row becomes 0."""
    before = np.sqrt(np.einsum("ij,ij->i", X, X))
    X = X - X.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("ij,ij->i", X, X))
    varies = length > ROUNDING * np.finfo(X.dtype).eps * before
    X *= np.divide(1, length, out=np.zeros_like(length), where=varies)[:, None]
    return X


def _fitted(A: Array, B: Array, axis: Array) -> Array:
    """Each row of B as near as the same row of A, a constant, and `axis` (d,), of mean 0 and length 1 or 0, come to it."""
    middle = B.mean(axis=1, keepdims=True)
    x = A - A.mean(axis=1, keepdims=True)
    size = np.einsum("ij,ij->i", x, x)
    x -= np.outer(x @ axis, axis)
    left = np.einsum("ij,ij->i", x, x)
    share = np.divide(np.einsum("ij,ij->i", x, B), left, out=np.zeros_like(left), where=left > SAME * size)
    fitted: Array = middle + np.outer((B - middle) @ axis, axis) + share[:, None] * x
    return fitted


def _chunks(X: Array) -> Iterator[slice]:
    """Rows to be handled at once."""
    rows = max(1, CHUNK // X.shape[1])
    return (slice(at, at + rows) for at in range(0, len(X), rows))


def _similarity(A: Array, B: Array, shape: tuple[int, ...]) -> Array:
    A, B = (part.reshape(len(part), *shape) for part in (A, B))
    mean_a, mean_b = _blurred(A), _blurred(B)
    product = mean_a * mean_b
    squares = mean_a**2 + mean_b**2
    top = (2 * product + FLAT[0]) * (2 * (_blurred(A * B) - product) + FLAT[1])
    bottom = (squares + FLAT[0]) * (_blurred(A**2 + B**2) - squares + FLAT[1])
    alike: Array = (top / bottom).reshape(len(A), -1).mean(axis=1)
    return alike


def _blurred(X: Array) -> Array:
    """Weighted means over 3 × 3 pixels of pictures (n, height, width, ...)."""
    for axis in (1, 2):
        X = np.moveaxis(X, axis, 0)
        smooth = (1 - 2 * SIDE) * X
        smooth[1:-1] += SIDE * (X[:-2] + X[2:])
        smooth[0] += 2 * SIDE * X[min(1, len(X) - 1)]
        smooth[-1] += 2 * SIDE * X[max(-2, -len(X))]
        X = np.moveaxis(smooth, 0, axis)
    return X


def pictured(shape: tuple[int, ...] | None) -> bool:
    """Whether points are pictures of several pixels either way: grey, or red, green and blue last."""
    if shape is None or len(shape) < 2:
        return False
    return min(shape[:2]) > 1 and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)))
