"""How a function rises in chosen directions at chosen points, by differences of its values, and how precisely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from divulge.arrays import Array
from divulge.solvers.shared.affine import ROUNDING, adds_to_one, resolution

LOOKED_AT = 500  # numbers are enough to see how finely they are given
LONG = 1e-5  # of a point's size: over shorter steps no curvature shows
LONGEST = 0.05  # of a point's size: a longer step sees a curved function's average
TYPICAL = 3.0  # times the median bend: so much do values computed in a few thousand rounded sums scatter
LENGTHS = 0.5 ** np.arange(20.0, -1, -1)  # of a line from a point, on which its first kink is looked for
NEAREST = 4  # places on it that show how precise values are
CHANGING = 0.01  # of a slope: what a kink changes at least, to be seen
PRECISE = 1e-5  # of a rise: less precise ones may hide kinks of many small units, which add up
BACK = (1e-3, 0.3)  # of the way: so far before a kink one stops
REFINED = 10  # times the place of a kink is halved: to a thousandth of the way there


@dataclass(frozen=True)
class Rounding:
    """How finely values and explanations are given, and so how long a step in a difference should be."""

    single: bool
    values: Array
    "(outputs,): in their own units."
    step: float
    "Of a point's size: the root of the values' precision, at which rounding and a step over kinks weigh alike."

    @classmethod
    def of(cls, values: Array, explained: Array) -> Rounding:
        with np.errstate(over="ignore"):
            single = bool((values.astype(np.float32) == values).all() and (explained.astype(np.float32) == explained).all())
        fine = fineness(values, np.abs(values).max(0))
        relative = float(np.median(fine / np.maximum(np.maximum(values.std(0), fine), 1e-300)))
        return cls(single, fine, float(np.sqrt(min(relative, LONGEST**2))))

    def seen(self, X: Array) -> Array:
        """Points as the model will see them."""
        return X.astype(np.float32).astype(float) if self.single else X


def fineness(numbers: Array, unit: Array | float) -> Array:
    """By how much numbers computed with others of size `unit` may be off, read off their digits."""
    found = resolution(numbers.ravel()[:: max(1, numbers.size // LOOKED_AT)])
    cut = 0.0 if found.digits > 15 else 0.5 * 10.0 ** (1 - found.digits)
    return np.asarray(np.maximum(max(found.relative / ROUNDING, cut) * unit, found.step))


@dataclass(frozen=True)
class Slopes:
    """Rises of every output in a few directions at each point."""

    directions: Array
    "(points, directions, d)"
    rises: Array
    "(points, directions, outputs)"
    kinks: Array
    "By how much slopes jump at the point, in the same shape: kinks and rounding."
    drift: Array
    "By how much they differ over half the step, in the same shape."
    rounding: Array
    "(points, 1, outputs): what rounded values leave of a slope."

    def of(self, weights: Array) -> tuple[Array, Array]:
        """Slopes (points, directions) of outputs' sums with `weights` (points, outputs), and how far off they may be."""
        rises, kinks, drift = (np.einsum("pko,po->pk", one, weights) for one in (self.rises, self.kinks, self.drift))
        off = np.abs(kinks) + np.abs(drift)
        rounding = 4 * np.einsum("pko,po->pk", self.rounding, np.abs(weights))
        return rises, off + TYPICAL * np.median(off) + rounding


def slopes(
    value: Callable[[Array], Array],
    X: Array,
    values: Array,
    directions: Array,
    rounding: Rounding,
    most: float = np.inf,
    *,
    halved: bool = True,
) -> Slopes:
    """Central differences along unit `directions` (n, k, d) at points (n, d) whose values (n, outputs) are known.

    Where values are coarse and steps long, so that curvature shows, half a step is taken too, if `halved`: a curve's slopes
    before and behind the point then differ by half, which leaves the jumps of kinks.
    """
    dimension = X.shape[1]
    sizes = np.minimum(rounding.step * np.maximum(np.linalg.norm(X, axis=1), 1e-9), most)
    shares = np.array([1.0, 0.5] if halved and rounding.step > LONG else [1.0])
    lengths = sizes[:, None, None] * shares[:, None, None, None]
    ends = rounding.seen(np.stack([X[:, None] + lengths * directions, X[:, None] - lengths * directions]))
    answers = as_rows(value(ends.reshape(-1, dimension))).reshape(*ends.shape[:-1], -1)
    rises = (answers[0] - answers[1]) / (2 * lengths)
    bends = (answers[0] + answers[1] - 2 * values[:, None, :]) / lengths
    moved = (ends[0, -1] - ends[1, -1]) / (2 * lengths[-1])
    jumps = 2 * bends[1] - bends[0] if len(bends) > 1 else bends[0]
    return Slopes(moved, rises[-1], jumps, rises[0] - rises[-1], rounding.values / lengths[-1])


def as_rows(answer: Array) -> Array:
    """Values (n, outputs), of one output too."""
    return np.asarray(answer, dtype=float).reshape(len(answer), -1)


def directions_at(explained: Array, rng: np.random.Generator, largest: int, random: int, masked: int) -> Array:
    """Unit directions (n, k, d): coordinates with large entries, others, and the explanation's entries in half of all.

    Along its own entries a gradient rises by its length, along one coordinate by a small share of that: in many
    dimensions rounded values tell only of the former, but signs show only in the latter.
    """
    count, dimension = explained.shape
    order = np.argsort(-np.abs(explained), axis=1)[:, np.arange(largest) % dimension]
    others = rng.integers(0, dimension, (count, random))
    axes = np.zeros((count, largest + random, dimension))
    np.put_along_axis(axes, np.concatenate([order, others], axis=1)[:, :, None], 1.0, axis=2)
    halves = explained[:, None, :] * (rng.random((count, masked, dimension)) < 0.5)
    empty = ~halves.any(axis=2)
    halves[empty] = np.broadcast_to(explained[:, None, :], halves.shape)[empty]
    empty = ~halves.any(axis=2)
    halves[empty] = rng.standard_normal((int(empty.sum()), dimension))
    return np.concatenate([axes, halves / np.linalg.norm(halves, axis=2, keepdims=True)], axis=1)


@dataclass(frozen=True)
class Beside:
    """Points just before the first kink on a line, and how the function rises on the way there."""

    X: Array
    values: Array
    lines: Array
    "(n, d): from the points the lines began at."
    rises: Array
    "(n, outputs): along those lines, as far as the function is linear there."
    off: Array
    "(n, 1): by how much these may be."


def beside_kinks(value: Callable[[Array], Array], X: Array, values: Array, lines: Array, rounding: Rounding) -> Beside:
    """Go from each point along its line up to where the function, or what a link hides, stops being linear."""

    def at(shares: Array) -> Array:
        """Outputs (n, k, outputs) at shares (n, k) of the lines."""
        places = rounding.seen(X[:, None] + shares[:, :, None] * lines[:, None])
        return as_rows(value(places.reshape(-1, X.shape[1]))).reshape(*shares.shape, -1)

    answers = at(np.tile(LENGTHS, (len(X), 1)))
    every = np.concatenate([values, answers.reshape(-1, values.shape[1])])
    low, noise = _linear_up_to(at, answers, values, np.full(len(X), 4 * rounding.values.max()), np.asarray)
    # A kink shows only some way behind it, where rounded values have changed by it: go back by as much.
    size = np.abs(answers[:, -1] - values).max(1)
    back = np.clip(3 * noise / (low * CHANGING * np.maximum(size, 1e-300)), *BACK)
    off = np.where(noise <= PRECISE * low * size, 6 * noise / (low * back), np.inf)
    if _probabilities(every):
        scores, error = _logits(every)
        far, _ = _linear_up_to(at, answers, values, 4 * rounding.values.max() * error(values), scores)
        low, off = np.maximum(low, far), np.where(far > low, np.inf, off)
    way = (1 - back)[:, None] * low[:, None]
    places = rounding.seen(X + way * lines)
    found = as_rows(value(places))
    return Beside(places, found, (places - X) / way, (found - values) / way, off[:, None])


def _linear_up_to(
    at: Callable[[Array], Array], answers: Array, values: Array, noise: Array, scores: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """(n,): the share of each line on which scores change by no more than noise; and that, as seen in the first places."""
    start = scores(values)
    slope = (scores(answers) - start[:, None]) / LENGTHS[:, None]
    jumps = np.abs(np.diff(slope, axis=1)).max(2)
    noise = np.maximum(noise, (jumps * LENGTHS[:-1])[:, :NEAREST].max(1))
    same = np.cumprod(jumps <= 3 * noise[:, None] / LENGTHS[:-1], axis=1).sum(1)
    reach, known = LENGTHS[same], slope[np.arange(len(same)), same]
    low, high = reach, np.minimum(2 * reach, 1.0)
    for _ in range(REFINED):
        middle = (low + high) / 2
        rise = scores(at(middle[:, None]))[:, 0] - start
        linear = np.abs(rise / middle[:, None] - known).max(1) <= 3 * noise / reach
        low, high = np.where(linear, middle, low), np.where(linear, high, middle)
    return low, noise


def _probabilities(values: Array) -> bool:
    if values.shape[1] == 1:
        return bool(((values > 0) & (values < 1)).all())
    return bool((values > 0).all()) and adds_to_one(values[:LOOKED_AT])


def _logits(values: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """The logit of one probability, or the difference between those of two that are large; and how errors grow by it."""
    if values.shape[1] == 1:
        return lambda P: np.log(P) - np.log1p(-P), lambda P: 1 / (P * (1 - P)).min(1)
    one, other = np.argsort(-values.mean(0))[:2]
    return (
        lambda P: np.log(P[..., [one]]) - np.log(P[..., [other]]),
        lambda P: 1 / np.minimum(P[:, one], P[:, other]),
    )
