"""Images apart from their mixtures by ICA of their differences: sparse-gradient source separation.

A mixture of images has few equal neighbours, each image alone has many. Start as FastICA does (Hyvärinen 1999), with
components that are uncorrelated; then give that up, because images are not, and minimise over rows a_i of A, y_i = a_i @ D,

    Σ_i mean ½ log(l² + y_i²) / own_i − log |det A|,

the negative likelihood of components with heavy tails, by a quasi-Newton method (as in Picard, Ablin et al. 2018), with
own_i the scale that makes every component stationary in its size. The level l falls from stage to stage: tails get heavier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from divulge.arrays import Array

# How the descent goes. None of these decides what is found: each halved or doubled leaves 178 to 183 of 214 images right at
# NCC > 0.9 (8 spans of strokes and leaves, one start each), as these leave 180.
STAGES = (1.0, 0.5, 0.3, 0.2, 0.1)  # the level l, in root mean squares of the component
ENDING = (0.2, 0.1)  # the last of them
FINEST = (0.05, 0.03)  # beyond them, where rows have settled: 109 of 200 photographs are right in the place of 103
STEPS = 15  # of every stage, at most
ENOUGH = 1e-3  # components that mix by less in a step have settled
LONGEST = 0.3  # by which two components may mix in one step
CURVED = 0.1  # least curvature that a step assumes
HALVINGS = 4  # of a step that leads upwards
STARTS = 60  # steps of FastICA; with 5 there are 175 right
BLUR = 0.6  # in pixels: differences of colour pictures are small and large together

LEVEL = 0.2
"The level at which components are compared; the confidence in a candidate was fitted at it."
NEW = 0.3
"Share of a component that the chosen ones before it must not explain: an image has less in common with others, as a rule."
TINY = 1e-30  # against division by 0


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences of neighbouring pixels in every axis of a span, in all places, kinds and colours."""

    flat: Array
    "(rank, samples)"
    grid: tuple[int, int, int, int]
    "(kinds, height, width, colours) of the samples."

    @classmethod
    def of(cls, pictures: Array, shape: tuple[int, ...]) -> Differences:
        """First and second differences, along rows, along columns and across; none over the border."""
        height, width, colours = (*shape, 1)[:3]
        P = pictures.reshape(-1, height, width, colours)
        kinds = np.zeros((5, *P.shape))
        kinds[0, :, :, :-1] = P[:, :, 1:] - P[:, :, :-1]
        kinds[1, :, :-1] = P[:, 1:] - P[:, :-1]
        kinds[2, :, :, 1:-1] = (P[:, :, 2:] - 2 * P[:, :, 1:-1] + P[:, :, :-2]) / np.sqrt(3)
        kinds[3, :, 1:-1] = (P[:, 2:] - 2 * P[:, 1:-1] + P[:, :-2]) / np.sqrt(3)
        kinds[4, :, :-1, :-1] = (P[:, 1:, 1:] + P[:, :-1, :-1] - P[:, :-1, 1:] - P[:, 1:, :-1]) / np.sqrt(2)
        # Photographs have no pixels to make exact, so that half the digits will do.
        flat = np.ascontiguousarray(kinds.swapaxes(0, 1), dtype=np.float64 if colours == 1 else np.float32)
        return cls(flat.reshape(len(P), -1), (len(kinds), height, width, colours))

    def mixed(self, rows: Array) -> Array:
        """(k, samples): the samples of rows (k, rank)."""
        return np.asarray(rows.astype(self.flat.dtype) @ self.flat)

    def halves(self, blocks: int, rng: np.random.Generator) -> tuple[Differences, Differences]:
        """The samples in a random half of the blocks of a picture, so many along its longer side, and in the other half."""
        _, height, width, _ = self.grid
        side = max(1, -(-max(height, width) // blocks))
        shape = -(-height // side), -(-width // side)
        chosen = rng.permutation(shape[0] * shape[1]).reshape(shape) < shape[0] * shape[1] / 2
        inside = chosen.repeat(side, axis=0).repeat(side, axis=1)[:height, :width]
        return self._only(inside), self._only(~inside)

    def _only(self, pixels: Array) -> Differences:
        """The samples at pixels (height, width); blurred ones keep their places, with 0 elsewhere."""
        kept = np.broadcast_to(pixels[None, :, :, None], self.grid).ravel()
        if self.grid[3] == 1:
            return Differences(np.ascontiguousarray(self.flat[:, kept]), (1, 1, int(kept.sum()), 1))
        return Differences(self.flat * (kept / np.sqrt(kept.mean())).astype(self.flat.dtype), self.grid)

    def small(self, Y: Array, level: Array) -> tuple[Array, Array]:
        """½ log(level² + y²) summed over samples, (k,), and its derivative over y; colours have theirs in common."""
        squares = Y * Y
        floor = (level * level)[:, None]
        if self.grid[3] == 1:
            squares += floor
            logs = np.log(squares).sum(axis=1)
            return logs / 2, 1 / squares
        kinds, height, width, colours = self.grid
        energy = self._blurred(squares.reshape(-1, kinds, height, width, colours).mean(axis=-1))
        energy += floor[:, :, None, None]
        weight = self._blurred(1 / energy)
        spread = np.broadcast_to(weight[..., None], (*weight.shape, colours)).reshape(len(Y), -1)
        return np.log(energy).sum(axis=(1, 2, 3)) * colours / 2, spread

    @staticmethod
    def _blurred(values: Array) -> Array:
        found: Array = gaussian_filter(values, (0, 0, BLUR, BLUR), mode="constant", truncate=2.5)
        return found


def separate(samples: Differences, rng: np.random.Generator) -> Array:
    """Rows A (rank, rank) that turn the axes of a span of pictures into the pictures, from a random start.

    Where there are many pictures some rows get stuck in mixtures, other ones from every start.
    """
    whitening = _whitening(samples.flat)
    return refined(fast_ica(samples.mixed(whitening), rng, STARTS) @ whitening, samples, STAGES)


def separate_from(pool: Array, samples: Differences) -> Array:
    """Rows (rank, rank) from the best ones of a pool (k, rank), with which the others come free as well."""
    return refined(best_basis(pool, samples), samples, STAGES[1:])


def shaken(rows: Array, samples: Differences, kept: int, rng: np.random.Generator) -> Array:
    """Rows (rank, rank) separated anew but for the `kept` sparsest of rows (rank, rank), beside which the others begin.

    Iterated local search: rows that are images stay where they are, and leave fewer directions to those that were stuck.
    """
    root = np.linalg.cholesky(_covariance(samples.flat))
    best = rows[np.argsort(contrast(rows, samples), kind="stable")[:kept]]
    rest = np.linalg.svd(best @ root)[2][kept:] @ np.linalg.inv(root)
    others = fast_ica(samples.mixed(rest), rng, STARTS) @ rest
    return refined(np.concatenate([best, others]), samples, STAGES)


def fast_ica(white: Array, rng: np.random.Generator, steps: int, enough: float = 1e-4) -> Array:
    """Orthogonal rows (r, r) whose components of white samples (r, m) have the heaviest tails."""
    rows = _orthogonal(rng.standard_normal((len(white), len(white)))).astype(white.dtype)
    for _ in range(steps):
        Y = rows @ white
        squares = Y * Y
        bell = np.exp(-squares / 2)
        slopes = ((1 - squares) * bell).mean(axis=1)
        Y *= bell
        moved = _orthogonal(Y @ white.T / white.shape[1] - slopes[:, None] * rows)
        change = float(np.abs(np.abs((moved * rows).sum(axis=1)) - 1).max())
        rows = moved
        if change < enough:
            break
    return rows


def refined(rows: Array, samples: Differences, stages: Sequence[float]) -> Array:
    """The same rows (r, r), less mixed: each component small in as many samples as it can be."""
    for level in stages:
        rows = _stage(rows, samples, level)
    return rows


def contrast(rows: Array, samples: Differences, level: float = LEVEL) -> Array:
    """(k,): mean log of the squared differences of each component, of root mean square 1; low is sparse."""
    Y = samples.mixed(rows)
    Y /= np.sqrt((Y * Y).mean(axis=1, keepdims=True)) + TINY
    return np.asarray(np.log(level**2 + Y * Y).mean(axis=1))


def best_basis(pool: Array, samples: Differences) -> Array:
    """As many rows (r, r) of a pool (k, r) as span everything, the sparsest first, each mostly new."""
    whole = pool @ np.linalg.cholesky(_covariance(samples.flat))
    whole /= np.linalg.norm(whole, axis=1, keepdims=True)
    order = np.argsort(contrast(pool, samples), kind="stable")
    left, kept, new = whole.copy(), np.zeros(len(pool), dtype=bool), NEW
    while kept.sum() < pool.shape[1] and new > 1e-6:
        for place in order:
            rest = left[place]
            size = float(rest @ rest)
            if not kept[place] and size > new:
                kept[place] = True
                left -= np.outer(left @ rest, rest) / size
                if kept.sum() == pool.shape[1]:
                    break
        new /= 3
    return pool[order[kept[order]]]


def _stage(rows: Array, samples: Differences, level: float) -> Array:
    Y, count = samples.mixed(rows), samples.flat.shape[1]
    for _ in range(STEPS):
        size = np.sqrt((Y * Y).mean(axis=1))
        Y /= size[:, None]
        rows = rows / size[:, None]
        levels = np.full(len(rows), level, dtype=Y.dtype)
        logs, weight = samples.small(Y, levels)
        gradient = np.asarray((weight * Y) @ Y.T, dtype=float) / count
        own = np.diag(gradient).copy()
        curvature = np.asarray(weight @ (Y * Y).T, dtype=float) / count / own[:, None]
        step = _step(gradient / own[:, None] - np.eye(len(rows)), curvature)
        longest = float(np.abs(step).max())
        value = float((logs / own).sum()) / count
        for _ in range(HALVINGS):
            trial = Y + step.astype(Y.dtype) @ Y
            sign, volume = np.linalg.slogdet(np.eye(len(rows)) + step)
            after = float((samples.small(trial, levels)[0] / own).sum()) / count - volume
            if sign > 0 and after <= value:
                break
            step /= 2
        else:
            break
        rows, Y = rows + step @ rows, trial
        if longest < ENOUGH:
            break
    return rows


def _step(gradient: Array, curvature: Array) -> Array:
    """The Newton step of every pair of components, as if there were no others."""
    least = (curvature + curvature.T - np.sqrt((curvature - curvature.T) ** 2 + 4)) / 2
    curvature = curvature + np.maximum(CURVED - least, 0)
    step = -(curvature.T * gradient - gradient.T) / (curvature * curvature.T - 1)
    np.fill_diagonal(step, 0)
    longest = np.maximum(np.abs(step), np.abs(step.T))
    return np.asarray(step * np.minimum(1, LONGEST / np.maximum(longest, 1e-300)))


def _covariance(samples: Array) -> Array:
    """Second moments (rank, rank), of full rank."""
    found = np.asarray(samples @ samples.T, dtype=float) / samples.shape[1]
    return np.asarray(found + 1e-12 * np.trace(found) * np.eye(len(found)))


def _whitening(samples: Array) -> Array:
    values, vectors = np.linalg.eigh(np.asarray(samples @ samples.T, dtype=float) / samples.shape[1])
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))).T)


def _orthogonal(rows: Array) -> Array:
    left, _, right = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(left @ right)
