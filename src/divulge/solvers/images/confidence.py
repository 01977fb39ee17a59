"""How likely an image separated from a span is a training image, without knowing the truth.

Four measures m of a candidate go into a logistic regression, p = 1/(1 + e^−(w·m + c)), that was fitted where the truth is
known (bench/fit_confidence.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from divulge.arrays import Array
from divulge.solvers.images.ica import Differences, refined

LEAST = 1e-3
"Of 1 − NCC between two attempts: less is told from 0 by rounding only. Other shares are told from 0 to a percent."
TINY = 1e-12
NEARLY = 0.002
"Share of pixels that may lie outside of the box where it tells the scale: one or two of a digit's 784 are noise."
OVER = 0.05
"Of the box, by which noise may lead below it where it tells the scale: black pixels would else leave no scale but 0."
BLOCKS = 7
"Along the longer side of a picture, of which a random half decides: 4 pixels of a digit's 28, wider than its strokes."
SPLITS = 2  # such halves, with their complements; the mean over more says the same
STAGES = (0.2, 0.1)
"At which levels rows are separated again by half of a picture: the last of ICA's own, as they begin where it has ended."
WEIGHTS, INTERCEPT = (-0.70, -0.63, -1.26, -0.70), -9.28
"Of a logistic regression of NCC > 0.9 with a training picture on the measures (bench/fit_confidence.py)."
UNBOXED, UNBOXED_INTERCEPT = (-0.94, 0.0, -1.46, -0.86), -9.86
"The same without `outside`: where the mean is an estimate, what lies outside of the box says how wrong that is."


@dataclass(frozen=True, eq=False)
class Measures:
    """What may tell training images from mixtures, one number a candidate each."""

    agreement: Array
    "Mean over other attempts of the best NCC with one of their pictures."
    outside: Array
    "Root mean square of what lies outside the box, in deviations of the picture."
    stability: Array
    "NCC of the two pictures that a candidate becomes where one half of the pixels, or the other, is all that separates it."

    hidden: Array
    "Edge of the noise over the weakest directions of the span: near 1, others are hidden below it."

    @property
    def features(self) -> Array:
        """(candidates, 4): logarithms of what is lacking, in which the regression is linear."""
        return np.column_stack(
            [
                np.log(np.clip(1 - self.agreement, LEAST, 2)),
                np.log(np.clip(self.outside, 10 * LEAST, 10)),
                np.log(np.clip(1 - self.stability, LEAST, 2)),
                np.log(np.clip(self.hidden, 50 * LEAST, 1)),
            ]
        )

    def confidence(self, boxed: bool = True) -> Array:
        """How likely each is a training picture at NCC > 0.9; `boxed` where the box that pixels are in is known."""
        weights, shift = (WEIGHTS, INTERCEPT) if boxed else (UNBOXED, UNBOXED_INTERCEPT)
        found: Array = 1 / (1 + np.exp(-(self.features @ np.array(weights) + shift)))
        return found


def measure(
    rows: Array,
    others: list[Array],
    samples: Differences,
    show: Callable[[Array], tuple[Array, Array]],
    box: tuple[float, float] | None,
    hidden: float,
    rng: np.random.Generator,
) -> Measures:
    """Measures of the pictures that `show` makes of rows (rank, rank), beside those of `others` attempts.

    `show` gives pictures (k, d) and the factors (k,) by which rows were multiplied.
    """
    mine, _ = show(rows)
    unit = _unit(mine)
    best = [(unit @ _unit(show(other)[0]).T).max(axis=1) for other in others]
    spread = mine.std(axis=1) + np.finfo(float).tiny
    low, high = box or (-np.inf, np.inf)
    outside = np.sqrt((np.maximum(low - mine, 0) ** 2 + np.maximum(mine - high, 0) ** 2).mean(axis=1))
    return Measures(
        np.mean(best, axis=0) if best else np.ones(len(rows)),
        outside / spread,
        stability(rows, samples, show, rng),
        np.full(len(rows), hidden),
    )


def stability(
    rows: Array, samples: Differences, show: Callable[[Array], tuple[Array, Array]], rng: np.random.Generator
) -> Array:
    """(rank,): how alike the pictures of rows (rank, rank) are that are separated by one half of the pixels, or the other.

    What the pixels determine comes out twice; where they are too few for so many directions, each half fits its own.
    """
    found = []
    for _ in range(SPLITS):
        with np.errstate(all="ignore"):  # half a picture may have no differences at all
            halves = [_unit(show(refined(rows, half, STAGES))[0]) for half in samples.halves(BLOCKS, rng)]
        found.append(np.nan_to_num((halves[0] * halves[1]).sum(axis=1)))
    return np.asarray(np.mean(found, axis=0))


def scaled_by_bias(rows: Array, pictures: Array, bias: Array) -> tuple[Array, Array]:
    """Pictures c·(a @ pictures) (k, d) of rows a (k, rank), and the factors c = 1/(a·bias): a training point has bias 1."""
    scale = rows @ bias
    factors = 1 / np.where(np.abs(scale) > TINY, scale, TINY)
    return factors[:, None] * (rows @ pictures), factors


def scaled_to_box(rows: Array, pictures: Array, mean: Array | None, box: tuple[float, float]) -> tuple[Array, Array]:
    """The same where no bias tells the scale: as large as the box allows, the way round that is larger."""
    low, high = box
    shift: Any = 0.0 if mean is None else mean
    Y = rows @ pictures
    fits = []
    for sign in (1, -1):
        over = OVER * (high - low)
        ups = (high - shift) / np.maximum(sign * Y, TINY)
        downs = (low - over - shift) / np.minimum(sign * Y, -TINY)
        least = np.minimum(np.where(sign * Y > TINY, ups, np.inf), np.where(sign * Y < -TINY, downs, np.inf))
        spread = 1 / (Y.std(axis=1) + TINY)
        fits.append(sign * np.maximum(np.quantile(least, NEARLY, axis=1), LEAST * spread * (high - low)))
    factors = np.where(np.abs(fits[0]) >= np.abs(fits[1]), fits[0], fits[1])
    return factors[:, None] * Y + shift, factors


def scaled_to_unit_deviation(rows: Array, pictures: Array) -> tuple[Array, Array]:
    """The same where nothing tells the scale: of deviation 1, with more that is far brighter than far darker."""
    Y = rows @ pictures
    away = Y - Y.mean(axis=1, keepdims=True)
    factors = np.where((away**3).mean(axis=1) < 0, -1, 1) / (away.std(axis=1) + TINY)
    return factors[:, None] * Y, factors


def _unit(X: Array) -> Array:
    centred = X - X.mean(axis=1, keepdims=True)
    return np.asarray(centred / (np.linalg.norm(centred, axis=1, keepdims=True) + np.finfo(float).tiny))
