"""How far a ReLU network is from a KKT point of the margin: is θ = Σ λ_i y_i ∇f(x_i) with λ_i ≥ 0?

A gradient of a dense layer is an outer product, so inner products of gradients come from two small Gram matrices. A unit
whose input is 0 at a point has no gradient there but an interval of them (Clarke's): its slope is an unknown in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import lsq_linear, nnls

from divulge.arrays import Array, Layers

KINK = 0.02
"A unit's input counts as 0 at a point where it is smaller than this share of its root mean square over the points."
ROUNDS = 12
"Of λ and slopes in turn, at most: the residual falls in each, and they end once it falls by less than a thousandth."
SWEEPS = 60
"Accelerated gradient steps for the slopes in a round; the next round goes on where they end."


@dataclass(frozen=True)
class Residual:
    """‖θ − Σ λ_i y_i ∇f(x_i)‖ / ‖θ‖ at the best multipliers."""

    total: float
    layers: tuple[float, ...]
    "The same of each layer alone, at the same multipliers."
    hard: float
    "With slope 0 for a unit whose input is not positive, as a program differentiates."
    multipliers: Array
    "(n,), or (n, outputs) for several outputs: the weight of each output's gradient, 0 or less for the wrong ones."
    kinks: float
    "Share of units and points with a slope of their own."


def residual(
    layers: Layers, X: Array, y: Array | None = None, *, free: bool = False, only: Sequence[int] | None = None
) -> Residual:
    """Of the network at points X (n, d) with labels y: −1 and 1 for one output, whole numbers from 0 for several.

    `free` lets multipliers have any sign and needs no labels: stationarity of weight decay with any loss. `only` counts
    these layers (0 is the first); by default all. A layer without biases other than 0 has none.
    """
    problem = _Problem.of(layers, X, y, free, range(len(layers)) if only is None else only)
    slopes = [(z > 0).astype(float) for z in problem.inputs]
    multipliers, hard = problem.multipliers(slopes)
    best, total = multipliers, hard
    near = [np.abs(z) <= KINK * np.sqrt((z**2).mean(axis=0)) for z in problem.inputs]
    for _ in range(ROUNDS if any(pairs.any() for pairs in near) else 0):
        slopes = problem.better_slopes(slopes, near, best)
        multipliers, found = problem.multipliers(slopes)
        gain, best, total = total - found, multipliers, min(found, total)
        if gain < 1e-3 * total:
            break
    each = tuple(problem.left(number, slopes, best) / max(problem.size(number), 1e-300) for number in range(len(layers)))
    kinks = float(np.mean([pairs.mean() for pairs in near])) if near else 0.0
    return Residual(total, each, hard, problem.by_output(best), kinks)


@dataclass(frozen=True)
class _Problem:
    layers: Layers
    rows: list[Array]
    "What enters each layer, with a column of ones where it has biases."
    inputs: list[Array]
    "Of the hidden units, before the ReLU."
    point: Array
    "(columns,): which point a multiplier belongs to."
    side: Array
    "(columns, outputs): which outputs it counts, with their signs."
    free: bool
    only: Sequence[int]

    @classmethod
    def of(cls, layers: Layers, X: Array, y: Array | None, free: bool, only: Sequence[int]) -> _Problem:
        rows, inputs, value = [], [], X
        for number, (W, b) in enumerate(layers):
            biased = number == 0 or bool(np.any(b))
            rows.append(np.column_stack([value, np.ones(len(X))]) if biased else value)
            z = value @ W.T + b
            if number < len(layers) - 1:
                inputs.append(z)
                value = np.maximum(z, 0)
        outputs = len(layers[-1][1])
        if free:
            point, which = np.divmod(np.arange(len(X) * outputs), outputs)
            side = np.eye(outputs)[which]
        elif y is None:
            raise ValueError("multipliers of one sign need labels")
        elif outputs == 1:
            point, side = np.arange(len(X)), np.asarray(y, dtype=float)[:, None]
        else:
            point, which = np.divmod(np.arange(len(X) * outputs), outputs)
            wrong = which != np.asarray(y)[point]
            point, which = point[wrong], which[wrong]
            side = np.eye(outputs)[np.asarray(y)[point]] - np.eye(outputs)[which]
        return cls(layers, rows, inputs, point, side, free, only)

    def above(self, slopes: list[Array]) -> list[Array]:
        """Derivative of every column's output in what leaves each layer: (columns, units), the last layer last."""
        back = [self.side]
        for number in range(len(self.layers) - 1, 0, -1):
            back.append((back[-1] @ self.layers[number][0]) * slopes[number - 1][self.point])
        return back[::-1]

    def weights(self, number: int) -> Array:
        """A layer as its gradient is laid out: with the bias as one more column where it has one."""
        W, b = self.layers[number]
        return np.column_stack([W, b]) if self.rows[number].shape[1] > W.shape[1] else W

    def size(self, number: int) -> float:
        return float(np.linalg.norm(self.weights(number)))

    def multipliers(self, slopes: list[Array]) -> tuple[Array, float]:
        """The best multipliers for these slopes, and the residual."""
        back = self.above(slopes)
        gram, right, size = np.zeros((len(self.point),) * 2), np.zeros(len(self.point)), 0.0
        for number in self.only:
            inner = self.rows[number] @ self.rows[number].T
            gram += inner[np.ix_(self.point, self.point)] * (back[number] @ back[number].T)
            right += ((self.rows[number] @ self.weights(number).T)[self.point] * back[number]).sum(axis=1)
            size += self.size(number) ** 2
        values, vectors = eigh(gram)
        keep = values > 1e-12 * values[-1]
        root = np.sqrt(values[keep])
        A, b = root[:, None] * vectors[:, keep].T, vectors[:, keep].T @ right / root
        if self.free:
            found = np.linalg.lstsq(A, b, rcond=None)[0]
        else:
            try:
                found = nnls(A, b)[0]
            except RuntimeError:  # it gave up; the other solver is slower and never does
                found = lsq_linear(A, b, (0, np.inf)).x
        left = size - 2 * right @ found + found @ gram @ found
        return found, float(np.sqrt(max(left, 0) / size))

    def left(self, number: int, slopes: list[Array], multipliers: Array) -> float:
        back = self.above(slopes)[number] * multipliers[:, None]
        return float(np.linalg.norm(self.weights(number) - back.T @ self.rows[number][self.point]))

    def better_slopes(self, slopes: list[Array], near: list[Array], multipliers: Array) -> list[Array]:
        """Slopes at kinks that leave less of their own layer, from the last hidden layer down."""
        slopes = list(slopes)
        for number in sorted(set(self.only) & set(range(len(slopes))), reverse=True):
            if not near[number].any():
                continue
            passed = self.above(slopes)[number + 1] @ self.layers[number + 1][0]
            strength = np.zeros_like(slopes[number])
            np.add.at(strength, self.point, multipliers[:, None] * passed)
            slopes[number] = _fitted(slopes[number], near[number], strength, self.rows[number], self.weights(number))
        return slopes

    def by_output(self, multipliers: Array) -> Array:
        if self.side.shape[1] == 1:
            return multipliers
        found = np.zeros((len(self.rows[0]), self.side.shape[1]))
        np.add.at(found, self.point, multipliers[:, None] * self.side)
        return found


def _fitted(slopes: Array, near: Array, strength: Array, rows: Array, weights: Array) -> Array:
    """argmin ‖weights − (strength ∘ slopes)ᵀ rows‖ over slopes in [0, 1] where they are free: accelerated projection."""
    inner = rows @ rows.T
    right = rows @ weights.T
    step = 1 / np.maximum((strength**2).max(axis=0) * np.linalg.norm(inner, 2), 1e-300)
    now, ahead, pace = slopes, slopes, 1.0
    for _ in range(SWEEPS):
        fall = strength * (right - inner @ (strength * ahead))
        following = np.where(near, np.clip(ahead + step * fall, 0, 1), slopes)
        quicker = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = following + (pace - 1) / quicker * (following - now)
        now, pace = following, quicker
    return now
