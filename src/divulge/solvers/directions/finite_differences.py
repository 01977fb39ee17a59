"""Slopes of a piecewise linear function at a point, by differences of its values, and how precise they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from divulge.arrays import Array

Scores = Callable[[Array], Array]

SHORT = 2.0**-14
"Of the box: values in double precision leave a slope nine digits over it, and of 15,680 such steps none crossed a kink."
LONG = 2.0**-4
"""Of the box: in single precision the errors of rounding and those near kinks weigh alike.

Of 50 digits from 13,000 values at most, mean of 5 draws: 46.0 images over 1/8, 46.6 over 1/16 and 42.8 over 1/32.
"""
BENT = 6.0  # deviations of noise by which a second difference shows a kink: of 8,000 none is so far off by chance
HARMLESS = 1e-6  # of all rises: rounding misses 4e-8 of a step in all inputs, a kink in one of them about 1e-2
SIDES = (1.0, -1.0)
FIRST = 24  # inputs that tell whether it is worthwhile to ask for the others
CURVED = 20.0  # times the rounding of values: single precision leaves up to 5 in most inputs, a kink or a curve 30 and more
HALVINGS = 2  # of a step with kinks on both sides: over 1/16, none was left at six points
HALF_RMS, HALF_MEDIAN = 0.3777, 0.6745  # of noise of deviation 1: of the smaller half of its sizes, and between the halves
SECOND = 6**0.5  # deviation of second differences of noise of deviation 1
LEAST = 0.5  # of a number's rounding, which is at most half of its last digit and in root mean square 0.29
ALIKE = 0.3  # of the usual noise of an output: one that seems to have less repeats its last digit
TOGETHER = 20  # inputs that are asked for by one step, once they did nothing at another point
QUIET = 5.0  # errors: an input whose slopes are no larger, in root mean square, has nothing to do with the model


@dataclass(frozen=True, eq=False)
class Slopes:
    """A function's value and slopes at a point."""

    x: Array
    "(d,)"
    values: Array
    "(outputs,)"
    slopes: Array
    "(outputs, d)"
    errors: Array
    "(outputs,): deviation of one slope."
    bent: int = 0
    "Inputs in which kinks were found on the way; slopes are those at the point nonetheless."

    def rows(self, mean: Array | None) -> Array:
        """(outputs, d + 1): slopes g and what the function would be at the mean if it were linear, f(x) − g·(x − mean)."""
        away = self.x if mean is None else self.x - mean
        return np.column_stack([self.slopes, self.values - self.slopes @ away])

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Values (n, outputs) at points if the function were linear, and their deviation."""
        away = X - self.x
        return self.values + away @ self.slopes.T, np.linalg.norm(away, axis=1)[:, None] * self.errors

    def without(self, inputs: Array) -> Slopes:
        """The same with slopes of 0 in some inputs (k,)."""
        slopes = self.slopes.copy()
        slopes[:, inputs] = 0
        return replace(self, slopes=slopes)

    def joined(self, other: Slopes) -> Slopes:
        """With the slopes of another one at the same point, in inputs where this one has none."""
        return replace(self, slopes=self.slopes + other.slopes, bent=self.bent + other.bent)

    @property
    def quiet(self) -> Array:
        """(d,): whether slopes in an input are no larger than their errors."""
        return np.asarray(np.sqrt(np.mean((self.slopes / self.errors[:, None]) ** 2, axis=0)) < QUIET)


def one_sided(scores: Scores, x: Array, step: float, noise: Array, rng: np.random.Generator) -> Slopes | None:
    """Slopes from d + 2 values, for functions in double precision; None where a kink is within a step.

    Steps up and down in turn at random, so that the error of the value they share is noise and no picture. The last value,
    a step in all inputs at once, is what slopes say unless there is a kink.
    """
    signs = rng.choice([-1.0, 1.0], len(x))
    values = scores(np.concatenate([x[None], x + step * np.diag(signs), x[None] + step * signs]))
    rises = values[1:-1] - values[0]
    errors = np.sqrt(2.0) * noise / step
    missed = np.abs(values[-1] - values[0] - rises.sum(axis=0))  # with the error of the value they share, d times
    allowed = np.maximum(BENT * len(x) * noise, HARMLESS * np.linalg.norm(rises, axis=0))
    if not np.isfinite(values).all() or (missed > allowed).any():
        return None
    return Slopes(x, values[0], (rises * (signs / step)[:, None]).T, errors)


def central(scores: Scores, x: Array, step: float, asked: Array, rounding: Array) -> Slopes | None:
    """Slopes in the inputs `asked` (k,) from 2 k + 1 values and a few more, for rounded values; those in others are 0.

    Over steps as long as rounding asks for, some cross a kink: the values on both sides and at the point are then on no
    line, by more than in most inputs and than `rounding` (outputs,). There, halfway values tell on which side the function
    is straight. None where values cannot be read, or where they are on no line in most of the first inputs.
    """
    start = scores(x[None])[0]
    ends = [_moved(scores, x, asked[:FIRST], side * step) for side in SIDES]
    if len(asked) > FIRST:
        if not np.median(_deviation(ends[0] + ends[1] - 2 * start) / rounding) <= CURVED * SECOND:
            return None
        rest = [_moved(scores, x, asked[FIRST:], side * step) for side in SIDES]
        ends = [np.concatenate(parts) for parts in zip(ends, rest, strict=True)]
    if not all(np.isfinite(end).all() for end in ends):
        return None
    second = ends[0] + ends[1] - 2 * start
    common = np.median(second, axis=0)
    start = start + common / 2  # its error is in all of them
    noise = np.maximum(_deviation(second - common), LEAST * SECOND * rounding)
    found, lengths, bent = (ends[0] - ends[1]) / (2 * step), np.full(len(asked), step), np.zeros(len(asked), dtype=bool)
    doubtful = np.flatnonzero(_stands_out(second - common, noise))
    bent[doubtful] = True
    for _ in range(HALVINGS):
        lengths[doubtful] /= 2
        for end, side in zip(ends, SIDES, strict=True):
            if not len(doubtful):
                break
            middle = _moved(scores, x, asked[doubtful], side * lengths[doubtful])
            straight = ~_stands_out(end[doubtful] + start - 2 * middle, noise)
            sure = doubtful[straight]
            found[sure] = side * (end[sure] - start) / (2 * lengths[sure, None])
            end[doubtful] = middle
            doubtful = doubtful[~straight]
        if len(doubtful):
            found[doubtful] = (ends[0] - ends[1])[doubtful] / (2 * lengths[doubtful, None])
            doubtful = doubtful[_stands_out((ends[0] + ends[1])[doubtful] - 2 * start, noise)]
    slopes = np.zeros((len(start), len(x)))
    slopes[:, asked] = found.T
    return Slopes(x, start, slopes, noise / (SECOND * np.sqrt(2.0) * step), int(bent.sum()))


def loud(scores: Scores, slopes: Slopes, step: float, quiet: Array, rng: np.random.Generator) -> Array:
    """Of inputs `quiet` (k,) elsewhere, those of groups that change values here: by two values a group."""
    if not len(quiet):
        return quiet
    groups = np.array_split(rng.permutation(quiet), -(-len(quiet) // TOGETHER))
    moves = np.zeros((len(groups), len(slopes.x)))
    for move, group in zip(moves, groups, strict=True):
        move[group] = step * rng.choice([-1.0, 1.0], len(group))
    up, down = scores(np.concatenate([slopes.x + moves, slopes.x - moves])).reshape(2, len(groups), -1)
    silent = (np.abs(up - down) / (2 * step) <= QUIET * np.sqrt(TOGETHER) * slopes.errors).all(axis=1)
    heard = [group for group, nothing in zip(groups, silent, strict=True) if not nothing]
    return np.sort(np.concatenate(heard)) if heard else quiet[:0]


def _moved(scores: Scores, x: Array, inputs: Array, steps: Array | float) -> Array:
    """Values (k, outputs) a step away in each of the inputs (k,)."""
    X = np.tile(x, (len(inputs), 1))
    X[np.arange(len(inputs)), inputs] += steps
    return scores(X)


def _deviation(second: Array) -> Array:
    """(outputs,): of second differences (k, outputs) where no kink is, which is in most of them."""
    half = np.sort(np.abs(second), axis=0)[: len(second) // 2 + 1]
    found = np.maximum(np.sqrt((half**2).mean(axis=0)) / HALF_RMS, half[-1] / HALF_MEDIAN)
    return np.asarray(np.maximum(found, ALIKE * np.median(found)) + np.finfo(float).tiny)


def _stands_out(second: Array, noise: Array) -> Array:
    return np.asarray(~(np.abs(second) <= BENT * noise).all(axis=1))
