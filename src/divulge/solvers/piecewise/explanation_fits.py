"""How well slopes fit explanations of a kind, and which norm explanations share."""

from __future__ import annotations

import numpy as np

from divulge.arrays import Array
from divulge.explanations import Normalised

TOLD = 0.2  # share of slopes that must be known to a fifth: others agree with anything
CLEAR = 0.2  # that fifth
SLOPE = (0.4, 1.6)  # of the rise along a smoothed gradient, in units of what a gradient's would be
SCALED = 1e-3  # relative: by so much may a norm vary that is always the same


def about_one(rises: Array, expected: Array) -> bool:
    return SLOPE[0] <= float((rises * expected).sum() / max((expected**2).sum(), 1e-300)) <= SLOPE[1]


def power(sizes: Array, parts: Array) -> float:
    """With which power of slopes explanations grow, by the spread of both: 2 of means of squares, 1 of other means."""
    told = (sizes > 0) & (parts > 0)
    spread = np.std(np.log(sizes[told])) if told.any() else 0.0
    return float(np.std(np.log(parts[told])) / spread) if spread > 0 else 0.0


def agreement(rises: Array, predicted: Array, allowed: Array) -> float:
    """Share of slopes that agree; 0 where too few of them are known well enough to disagree."""
    told = float(np.mean(allowed <= CLEAR * np.abs(rises)))
    return float(np.mean(np.abs(rises - predicted) <= allowed)) if told >= TOLD else 0.0


def norms(explained: Array) -> list[Normalised]:
    """Which norms all answers share."""
    explained = explained[explained.any(1)]
    sizes = np.abs(explained)
    norms: dict[Normalised, Array] = {
        "maximum": sizes.max(1), "length": np.linalg.norm(explained, axis=1), "sum": sizes.sum(1)
    }  # fmt: skip
    shared = [name for name, norm in norms.items() if np.ptp(norm) <= SCALED * norm.max()]
    return [*shared, "range"] if "maximum" in shared and not explained.min(1).any() else shared


def lines(x: Array, y: Array, weight: Array) -> Array:
    """Each row's values on the straight line through y over x."""
    total = weight.sum(1, keepdims=True)
    x0, y0 = ((weight * rows).sum(1, keepdims=True) / total for rows in (x, y))
    slope = (weight * (x - x0) * (y - y0)).sum(1, keepdims=True) / np.maximum(
        (weight * (x - x0) ** 2).sum(1, keepdims=True), 1e-300
    )
    return np.asarray(y0 + slope * (x - x0))


def within_groups(numbers: Array, groups: Array) -> Array:
    return np.asarray(numbers - np.array([numbers[groups == group].mean() for group in groups]))


def along(directions: Array, rows: Array) -> Array:
    return np.asarray(np.einsum("pkd,pd->pk", directions, rows))


def blur(directions: Array, rough: Array) -> Array:
    return np.asarray(3 * np.sqrt(np.einsum("pkd,pd->pk", directions**2, rough**2)))


def cosine(a: Array, b: Array) -> float:
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.sum(a * b)) / lengths if lengths else 0.0
