"""By how much a classifier decides, from whatever it answers, and where many points are decided by the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import poisson

from divulge.arrays import Array
from divulge.solvers.shared.affine import adds_to_one

Kind = Literal["output", "outputs", "probability", "probabilities"]

WIDTHS = (0.0005, 0.005, 0.02, 0.1)
"Of a pile, as shares of its height."
AROUND = 4
"Times its width: the stretch to either side that says how many points would be there anyway."
TIMES = 3
"So many times more are in a pile than around it; even where a smooth crowd is densest there are not twice as many."


@dataclass(frozen=True, eq=False)
class Gaps:
    """|f| of one output, or of several how far the largest is above the next."""

    values: Array
    "(n,), never negative."
    kind: Kind
    "What was answered."
    saturated: int
    "Probabilities of exactly 0 or 1: they say only that the gap is larger than any number could tell."


def gaps(answers: Array, kind: Literal["auto", "values", "probabilities"] = "auto") -> Gaps | None:
    """From answers (n, outputs); None where they are names of classes, whatever is answered."""
    A = np.asarray(answers, dtype=float).reshape(len(answers), -1)
    if _named(A):
        return None
    alone = A.shape[1] == 1
    chances = bool(((A >= 0) & (A <= 1)).all()) if alone else adds_to_one(A)
    if kind == "values" or (kind == "auto" and not chances):
        return Gaps(_apart(A), "output" if alone else "outputs", 0)
    whole = np.column_stack([1 - A, A]) if alone else A
    with np.errstate(divide="ignore"):
        logs = np.log(np.clip(whole, 0, 1))
    ends = ~np.isfinite(logs)
    logs[ends] = logs[~ends].min(initial=-37.0)
    return Gaps(_apart(logs), "probability" if alone else "probabilities", int(ends.any(axis=1).sum()))


def _named(A: Array) -> bool:
    """Whether answers are classes: numbers from 0, or −1 and 1, or a 1 among zeros."""
    if A.shape[1] > 1:
        return bool(np.isin(A, (0, 1)).all() and (A.sum(axis=1) == 1).all())
    return bool((np.round(A) == A).all() and ((A >= 0).all() or np.isin(A, (-1, 1)).all()))


def _apart(A: Array) -> Array:
    if A.shape[1] == 1:
        return np.abs(A[:, 0])
    best = np.sort(A, axis=1)[:, -2:]
    found: Array = best[:, 1] - best[:, 0]
    return found


@dataclass(frozen=True)
class Pile:
    """A value that more points have than the values around it explain."""

    at: float
    width: float
    "As a share of it: from the least of the pile to its largest."
    count: int
    expected: float
    chance: float
    "Of so many anywhere, if there were no pile."


def pile(values: Array, low: float = 0.0, high: float = np.inf) -> Pile | None:
    """The most unlikely one among positive values (n,), each counted once: rounding makes equal ones, training does not.

    Its least value lies between `low` and `high`. None where there are too few values, or none is there.
    """
    heights = np.log(np.unique(values[values > 0]))
    with np.errstate(divide="ignore"):
        starts = np.flatnonzero((heights >= np.log(low)) & (heights <= np.log(high)))
    if len(heights) < 3 or not len(starts):
        return None
    return min((_likeliest(heights, starts, width) for width in WIDTHS), key=lambda one: one.chance)


def _likeliest(heights: Array, starts: Array, width: float) -> Pile:
    tall = np.log1p(width)
    first, far = heights[starts], AROUND * tall
    inside = np.searchsorted(heights, first + tall, side="right") - starts
    around = np.searchsorted(heights, first + tall + far, side="right")
    around -= np.searchsorted(heights, first - far, side="left") + inside
    expected = (around + 1) * tall / (2 * far)
    # One of them is where the window was put, and there are as many windows as places for it, of each width.
    chance = np.minimum(1.0, poisson.sf(inside - 2, expected) * len(starts) * len(WIDTHS))
    chance[inside < TIMES * expected] = 1.0
    best = int(np.lexsort((-inside, chance))[0])
    those = np.exp(heights[starts[best] : starts[best] + inside[best]])
    return Pile(
        float(np.median(those)),
        float(those[-1] / those[0] - 1),
        int(inside[best]),
        float(expected[best]),
        float(chance[best]),
    )
