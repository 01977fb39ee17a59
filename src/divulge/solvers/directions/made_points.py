"""Points made to order, at which slopes are asked for: soft bright patches on a dark ground, far from kinks.

Any points serve where a network reads centred pictures. Where it reads them as they are, those that are bright all over
switch the same units: of 49 directions of 50 digits nine such pictures showed 47.4 to 48, and nine of these 48.7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from divulge.arrays import Array

BLUR = 2.0  # pixels; from 1 to 6 the weakest directions of digits are as strong, within a quarter
EDGE = 1 / 64  # of the box that is kept clear: what explanations were multiplied by, they are divided by
CONTRAST = 0.5  # of the box: the deviation of pixels before they are clipped to it, about its dark end
FAINTER, TIMES = 0.3, 4  # where no probability can be read contrast is lowered by as much, so often
GRID = 2.0**-10  # of the box: sums with steps of 2⁻²⁰ and more are then exact in single precision, where the box is (0, 1)
DIRECTIONS = 2  # in which a candidate is looked at; 4 cost more values than they saved
ROUNDS = 3  # of candidates, where none is straight; of 24 pictures a quarter has no kink within 1/30 in any pixel
STRAIGHT = 15.0  # times the noise of one value: second differences of noise have 2.4, and single precision up to twice that
SHARE = 0.15  # of a step in one input, in every one: so weights of a few hundred inputs move a unit as far


@dataclass(frozen=True)
class MadePoints:
    """Random points of a box; smooth where they are pictures, in `size` (height, width) or (height, width, colours)."""

    dimension: int
    box: tuple[float, float]
    size: tuple[int, ...] | None
    back: Callable[[Array], Array]
    "From colours last to how inputs are laid out."

    @property
    def width(self) -> float:
        return self.box[1] - self.box[0]

    def draw(self, rng: np.random.Generator, count: int, contrast: float = 1.0) -> Array:
        """(count, d), on a grid."""
        noise = rng.standard_normal((count, *(self.size or (self.dimension,))))
        if self.size is not None:
            noise = gaussian_filter(noise, (0.0, BLUR, BLUR, 0.0)[: noise.ndim])
        noise = self.back(noise.reshape(count, -1))
        spread = noise.std(axis=1, keepdims=True)
        shares = np.clip(contrast * CONTRAST * noise / spread, EDGE, 1 - EDGE)
        return np.asarray(self.box[0] + self.width * GRID * np.round(shares / GRID))

    def readable(self, rng: np.random.Generator, count: int, scores: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Points whose scores can be read, of less contrast where they cannot otherwise, and those; none at worst."""
        for attempt in range(TIMES):
            X = self.draw(rng, count, FAINTER**attempt)
            found = scores(X)
            seen = np.isfinite(found).all(axis=1)
            if seen.any():
                return X[seen], found[seen]
        return X[:0], found[:0]

    def far_from_kinks(
        self, rng: np.random.Generator, count: int, step: float, scores: Callable[[Array], Array], noise: Array
    ) -> Array:
        """The point (d,) around which scores are straightest, as far as steps in one input go, of `count` readable ones.

        Where none is straight up to noise (outputs,), more are looked at. Raises LookupError where none can be read.
        """
        best, bend = None, np.inf
        for _ in range(ROUNDS):
            X, bends = self._bends(rng, count, step, scores, noise)
            if len(X) and bends.min() < bend:
                best, bend = X[np.argmin(bends)], float(bends.min())
            if bend <= STRAIGHT:
                break
        if best is None:
            raise LookupError("no point can be read")
        return np.asarray(best)

    def _bends(
        self, rng: np.random.Generator, count: int, step: float, scores: Callable[[Array], Array], noise: Array
    ) -> tuple[Array, Array]:
        """Readable points (n, d), and their largest second differences (n,) in units of noise."""
        X, values = self.readable(rng, count, scores)
        if not len(X):
            return X, np.zeros(0)
        moves = self.draw(rng, DIRECTIONS * len(X)) - self.draw(rng, DIRECTIONS * len(X))
        moves[~moves.any(axis=1)] = self.width  # of few inputs two draws may be the same corner of the box
        moves *= SHARE * step / np.sqrt(np.mean(moves**2, axis=1, keepdims=True))
        starts = np.repeat(X, DIRECTIONS, axis=0)
        ends = scores(np.concatenate([starts + moves, starts - moves])).reshape(2, len(X), DIRECTIONS, -1)
        bends = (np.abs(ends.sum(axis=0) - 2 * values[:, None]) / np.maximum(noise, np.finfo(float).tiny)).max(axis=(1, 2))
        return X, np.where(np.isfinite(bends), bends, np.inf)
