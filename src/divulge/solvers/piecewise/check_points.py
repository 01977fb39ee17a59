"""Answers at fresh points of several sizes: through which link they are read, and how far a copy may be from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.legibility import LEGIBLE, Legibility
from divulge.solvers.shared import affine

Ask = Callable[[Array], Array]
"Points (n, d) -> answers (n, o)."

SIZES = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e5)
"Of the points, over the usual size: every decade. Far away biases do not matter and every second unit is on: two in eight."
FEWEST = 8
"Points that have to be readable: of 24, the fewest there may be, those of three sizes."
SHRINK, SHRINKS = 4.0, 12
"By how much points are drawn nearer until probabilities can be read, and how often: 4¹² = 2e7, any unit of measurement."
SIDES = 0.5, 0.25
"Of the points of a size that have to be readable so that lines are followed there; less where one side never is."
FINE = 1e-7
"Of the spread: so far off, a copy agrees where answers have all digits. The widest ones measured were off by 3e-8."
LOSS = 3e3
"Times the noise of values, where that is more: what is lost on the way from values to slopes to units."
FITTED = 100.0
"Times the noise, where all units were fitted to many values: of 20 such copies none was off by more than 14 anywhere."
EXACT = 1e-5
"Of the spread: a copy that answers can confirm no better is given as a good one, not as the original."
REACHED = 1.5
"Times the largest size: a point of that size is as far out as this at most, in more than a few dimensions."
GROWING = 0.1
"Of the steepest growth of values with the size of points: where it is less they saturate. Those of ReLU networks go on."
CONSTANT = "the model gives the same answer at all {}: there is no network to find"
ILLEGIBLE = "the answers are probabilities of 0 or 1 wherever one looks: no logits can be read from them"


class Unsuitable(ValueError):
    """The answers are not those of a network that can be found by its values; the message is why."""


class Illegible(ValueError):
    """A probability is too near to 0 or 1 to be read as a logit."""


class CheckPoints:
    """Outputs z (n, o) at points (n, d) that no copy is made from, as far as they can be read."""

    def __init__(self, ask: Ask, dimension: int, usual: float, count: int, rng: np.random.Generator) -> None:
        self.ask, self.dimension, self.usual = ask, dimension, usual
        relative, directions = np.resize(SIZES, count), rng.standard_normal((count, dimension))
        for _ in range(SHRINKS):
            sizes = self.usual * relative
            X = sizes[:, None] * directions
            answers = self.answers(X)
            _refuse_labels(answers)
            self.link = _link(answers, relative)
            self.legibility = Legibility.of(self.link, answers)
            readable = self.legibility.readable(answers)
            shares = {size: readable[relative == size].mean() for size in SIZES}
            readable &= np.array([shares[size] >= SIDES[self.legibility.lossy] for size in relative])
            if readable[relative <= 1].all() and readable.sum() >= FEWEST:
                break
            self.usual /= SHRINK
        else:
            raise Unsuitable(ILLEGIBLE)
        self.X, self.A, self.sizes = X[readable], self.link.scores(answers[readable]), sizes[readable]
        self.digits = affine.resolution(answers)
        near = answers[readable & (relative <= 1)]
        self.cut = float(np.median(self._cut(near)))
        "What digits that were cut are worth in outputs, at usual points: of probabilities, more the smaller they are."
        self.scale = self.usual
        "The size of points at which values are compared now: that of the line under way."
        self.repeats = float(np.abs(self.answers(X[:1]) - answers[:1]).max())
        "How far two answers at one point differ,"
        self.noisy = self.repeats > affine.ROUNDING * self.digits.relative * float(np.abs(answers[0]).max())
        "and whether that is more than rounding."
        self.coarseness = 0.0
        "The largest noise of values that was met so far, relative to how they vary."
        self.coarse = False
        "Whether that is so much that slopes along one line are not enough,"
        self.fitted = False
        "and whether a copy is expected to be fitted to many values for that."
        if not self.spread:
            raise Unsuitable(CONSTANT.format("points of one size"))

    def answers(self, X: Array) -> Array:
        return np.asarray(self.ask(X), float).reshape(len(X), -1)

    def _cut(self, answers: Array) -> Array:
        """What digits that were cut are worth in each answer (n, o), or in the logits of a row (n,)."""
        if self.link is not affine.IDENTITY:
            return np.asarray(self.digits.step / _slope(answers))
        return replace(self.digits, relative=0.0).of(answers, answers) if self.digits.step else np.zeros(1)

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """As many fresh points (n, d), with the sizes of those that can be read."""
        sizes = rng.choice(np.unique(self.sizes), count)
        return np.asarray(sizes[:, None] * rng.standard_normal((count, self.dimension)))

    def add(self, X: Array) -> int:
        """Take points (n, d) among those a copy has to agree at, if they are readable and not farther out; how many are."""
        known, lengths = np.unique(self.sizes), np.sqrt(np.mean(X**2, axis=1))
        near = (lengths > 0) & (lengths <= REACHED * known[-1])
        X, lengths = X[near], lengths[near]
        answers = self.answers(X) if len(X) else np.zeros((0, self.A.shape[1]))
        readable = self.legibility.readable(answers)
        X, scores = X[readable], self.link.scores(answers[readable])
        nearest = np.abs(np.log(lengths[readable][:, None] / known)).argmin(1)
        self.X, self.A = np.concatenate([self.X, X]), np.concatenate([self.A, scores])
        self.sizes = np.concatenate([self.sizes, known[nearest]])
        return len(X)

    def value(self, X: Array) -> Array:
        """Outputs z (n, o) of the model; raises `Illegible`."""
        answers = self.answers(X)
        if not self.legibility.readable(answers).all():
            raise Illegible
        return self.link.scores(answers)

    def value_or_nan(self, X: Array) -> Array:
        """Outputs z (n, o) of the model, nan where they cannot be read."""
        answers = self.answers(X)
        readable = self.legibility.readable(answers)
        values = np.full(answers.shape, np.nan)
        values[readable] = self.link.scores(answers[readable])
        return values

    def spread_at(self, size: float) -> float:
        """The standard deviation of values at points of one size, of the output that varies most."""
        values = self.A[self.sizes == size]
        return float(values.std(0).max()) if np.ptp(values, axis=0).any() else 0.0  # where all units are off

    @property
    def spread(self) -> float:
        """How much values vary at points of size `scale`, or would if they did as farther out."""
        sizes = np.unique(self.sizes)
        return self.scale * float(max(self.spread_at(size) / max(size, self.scale) for size in sizes))

    def steep_up_to(self) -> float:
        """The largest size at which values still grow with it; farther out units that saturate are steps to a line."""
        sizes = np.unique(self.sizes)
        growth = np.array([self.spread_at(size) / size for size in sizes])
        return float(sizes[growth >= GROWING * growth.max()].max())

    @property
    def largest(self) -> float:
        return float(self.sizes.max())

    @property
    def accuracy(self) -> float:
        """How far off, relative to the spread of the values, a copy may be that agrees."""
        return max(FINE, FITTED * self.coarseness) if self.fitted else self.accuracy_along

    @property
    def accuracy_along(self) -> float:
        """The same where a copy was made from slopes along a line."""
        return max(FINE, LOSS * self.coarseness)

    def least_noise(self, measured: bool = False) -> float:
        """What the digits of the answers leave at the origin of a line; those that float if it was not `measured` well."""
        steepest = 0.0 if measured else float(np.abs(self.A / np.maximum(self.sizes / self.scale, 1)[:, None]).max())
        return max(steepest * self.digits.relative / affine.ROUNDING, self.cut, self.repeats, self.legibility.noise)

    def off(self, values: Array, slopes: Array | None = None) -> Array:
        """‖ẑ - z‖∞ (n,) of a copy's values ẑ (n, o), in units of what is allowed: above 1 a point does not agree.

        With slopes (n, o, d) of the copy, its directions may be off by as much as its values: on the slope of a unit that
        saturates far away, values are steeper than their spread there tells.
        """
        allowed = self._allowed()
        if slopes is not None:
            sizes = np.sqrt(np.mean(self.X**2, axis=1))
            allowed = np.maximum(allowed, self.accuracy * sizes * np.linalg.norm(slopes, axis=2).max(1))
        return np.asarray(np.abs(values - self.A).max(1) / allowed)

    def _allowed(self) -> Array:
        """Relative to how values vary at points of that size or of the usual one, if that is more; or a digit of theirs."""
        usual = self.spread_at(self.usual) or self.usual * self.spread / self.scale
        allowed = self.accuracy * np.array([max(self.spread_at(size), usual) for size in self.sizes])
        return np.asarray(np.maximum(allowed, self.digits.relative * np.abs(self.A).max(1)))

    def error(self, values: Array) -> float:
        """The largest root mean square error at points of one size, relative to how values vary there."""
        off = (values - self.A) ** 2
        sizes = [size for size in np.unique(self.sizes) if size >= self.usual and self.spread_at(size)]
        return max((float(np.sqrt(off[self.sizes == size].mean())) / self.spread_at(size) for size in sizes), default=0.0)


def _link(answers: Array, sizes: Array) -> affine.Link:
    """Classes' probabilities, a single one, which far away is 0 or 1, or values as they are."""
    if answers.min() < 0 or answers.max() > 1:
        return affine.IDENTITY
    if answers.shape[1] > 1:
        return affine.SOFTMAX if affine.adds_to_one(answers) else affine.IDENTITY
    far = answers[sizes >= np.median(sizes)]
    return affine.LOGISTIC if (np.minimum(far, 1 - far) < LEGIBLE).mean() > 0.5 else affine.IDENTITY


def _slope(answers: Array) -> Array:
    """By how much probabilities (n, o) change with their logits, where that is least: p (1 - p), (n,)."""
    return np.asarray(np.maximum(answers * (1 - answers), np.finfo(float).tiny).min(1))


def _refuse_labels(answers: Array) -> None:
    """Give up where hardly any answer differs from all others; a network may be constant at some points only."""
    counts = np.unique(answers, axis=0, return_counts=True)[1]
    if len(counts) == 1:
        raise Unsuitable(CONSTANT.format(f"{len(answers)} points"))
    if (counts == 1).sum() <= len(answers) // 16:
        raise Unsuitable(
            f"the answers take only {len(counts)} values at {len(answers)} points: labels do not give up weights"
        )
