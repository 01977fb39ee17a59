"""What kind of explanation a model gives: raw gradients, or something else that only looks like them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from divulge.arrays import Array

Kind = Literal[
    "gradient",
    "absolute gradient",
    "gradient times input",
    "integrated gradients (sums to the difference of values)",
    "smoothed",
    "unknown",
]

POINTS = 12
COORDINATES = 8
AGREEING = 0.9
"Share of partial derivatives that must agree. A few cannot: a kink of the model lies between the two values."
TOLERANCE = 3.0
"In units of the root of the step: so much do the kinks stepped over change a wide network's derivative."
COMPLETE = 0.05
"Attributions are sums of a few dozen terms on most servers, so they add up to a few per cent only."
CORRELATED = 0.5
"Cosine of the angle to the true derivatives; among 96 unrelated numbers it stays below 0.4."


def probe(
    value: Callable[[Array], Array],
    gradient: Callable[[Array], Array],
    dimension: int,
    rng: np.random.Generator,
    *,
    scale: float = 1.0,
) -> Kind:
    """Name the kind of explanation that `gradient` gives of `value`, from about 200 values and 12 explanations.

    `value` takes (n, dimension) to (n,) or (n, outputs), `gradient` to (n, dimension) or (n, outputs, dimension); of a
    full Jacobian the first output is looked at. Where one explanation stands for several outputs it may explain any one
    of them, their sum, or the largest. Points are normal with standard deviation `scale`: take the data's.

    Smoothing over a width much smaller than the distance between the model's kinks cannot be told from raw gradients.
    """
    X = scale * rng.standard_normal((POINTS, dimension))
    explained = np.asarray(gradient(X), dtype=float)
    if explained.ndim == 3:
        explained, outputs = explained[:, 0], _first
    else:
        outputs = _explainable
    values = np.asarray(value(X), dtype=float)
    chosen = np.stack([rng.permutation(dimension)[:COORDINATES] for _ in X])
    with np.errstate(over="ignore"):
        single = bool((values == values.astype(np.float32)).all())
    # At the root of the precision with which values come, a step over few kinks still outweighs rounding.
    step = float(np.sqrt(np.finfo(np.float32 if single else np.float64).eps))
    partials = _partials(lambda Z: outputs(value(Z)), X, chosen, step)
    parts, inputs = (np.take_along_axis(rows, chosen, axis=1) for rows in (explained, X))
    if not parts.any() or not partials.any():
        return "unknown"
    tolerance = TOLERANCE * step**0.5
    kinds = [
        _kind(parts, inputs, explained.sum(1), v, d, tolerance) for v, d in zip(outputs(values).T, partials, strict=True)
    ]
    return max(kinds)[1]


def _kind(parts: Array, inputs: Array, sums: Array, values: Array, partials: Array, tolerance: float) -> tuple[float, Kind]:
    """How sure a description of an explanation as one of this output is, and its name.

    `parts`, `inputs` and `partials` are (points, coordinates), `sums` and `values` (points,).
    """
    guesses: dict[Kind, Array] = {
        "gradient": partials,
        "absolute gradient": np.abs(partials),
        "gradient times input": partials * inputs,
    }
    shares: dict[Kind, float] = {name: _share(parts, guess, tolerance) for name, guess in guesses.items()}
    best = max(shares, key=shares.__getitem__)  # the first of equals: a rising function's gradient is never negative
    if shares[best] >= AGREEING:
        return 3 + shares[best], best
    # Do the parts add up to the value, less that of some fixed point?
    if np.std(sums - values) <= COMPLETE * np.std(values):
        return 3, "integrated gradients (sums to the difference of values)"
    if np.mean(_cosines(parts, partials) >= 1 - tolerance**2) >= AGREEING:
        return 2, "unknown"  # each point's gradient times a number of its own, from a server that normalises
    likeness = float(_cosines(parts.ravel(), partials.ravel()))
    if likeness >= CORRELATED and not parts.min() >= 0 > partials.min():
        return likeness, "smoothed"
    return 0, "unknown"


def _share(parts: Array, guess: Array, tolerance: float) -> float:
    allowed = tolerance * np.sqrt(np.mean(guess**2))
    return float(np.mean(np.abs(parts - guess) <= allowed))


def _cosines(a: Array, b: Array) -> Array:
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return np.asarray(np.sum(a * b, axis=-1) / np.where(lengths > 0, lengths, 1))


def _partials(value: Callable[[Array], Array], X: Array, chosen: Array, step: float) -> Array:
    """Partial derivatives (outputs, points, coordinates) by central differences."""
    count, width = chosen.shape
    lengths = step * np.linalg.norm(X, axis=1)
    moves = np.zeros((count, width, X.shape[1]))
    np.put_along_axis(moves, chosen[:, :, None], lengths[:, None, None], axis=2)
    ends = np.concatenate([X[:, None] + moves, X[:, None] - moves]).reshape(-1, X.shape[1])
    up, down = value(ends).T.reshape(-1, 2, count, width).swapaxes(0, 1)
    return np.asarray((up - down) / (2 * lengths[:, None]))


def _first(values: Array) -> Array:
    """The first output, (n, 1)."""
    return np.asarray(values, dtype=float).reshape(len(values), -1)[:, :1]


def _explainable(values: Array) -> Array:
    """The outputs (n, choices) that one explanation could be of: each, their sum, the largest."""
    values = np.asarray(values, dtype=float).reshape(len(values), -1)
    return values if values.shape[1] == 1 else np.column_stack([values, values.sum(1), values.max(1)])
