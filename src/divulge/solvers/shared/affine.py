"""An affine map behind a link, from its answers at chosen points or from one gradient, and how well it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from divulge.arrays import Array

ROUNDING = 16.0  # times machine precision: what a sum, a link and its inverse leave
HIDDEN_STEPS = 4.0  # times as much may be lost on the way to the scores, where data are scaled first
PEAK = 4.0  # standard deviations of noise that a true copy may be off at one point
USUAL = 2.0  # and at all of them together
PRINTED = 9  # as many digits tell all numbers of single precision apart, and more are those of a double
BINARY = 3  # more decimals, in numbers that short binary fractions hold, are the fractions': 0.125 was rounded, 0.0625 not
KEPT = 15  # decimal digits that a double always keeps; where there are more, nothing was rounded
DUSTED = 12  # digits at most, but for the last of a double: they were rounded as round(x / u) * u is


@dataclass(frozen=True)
class Link:
    """How scores z = Wx + b become answers."""

    name: str
    suits: Callable[[Array], bool]
    "Whether answers (n, outputs) can come from it."
    scores: Callable[[Array], Array]
    answers: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    "dA/dz of each answer in its own score, written in terms of the answer."
    unit: Callable[[Array], Array]
    "The size of the numbers whose rounding an answer carries: a probability near 0 may be 1 less another one."


def adds_to_one(A: Array) -> bool:
    """Whether every row does, within the precision of its numbers."""
    return bool((np.abs(A.sum(1) - 1) <= A.shape[1] * resolution(A).coarseness).all())


def _log_centred(A: Array) -> Array:
    logs = np.log(A)
    return np.asarray(logs - logs.mean(1, keepdims=True))


def _softmax(Z: Array) -> Array:
    powers = np.exp(Z - Z.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def _exp(Z: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(Z))


IDENTITY = Link("identity", lambda A: True, np.array, np.array, np.ones_like, np.abs)
LOGISTIC = Link(
    "logistic",
    lambda A: bool(((A > 0) & (A < 1)).all()),
    lambda A: np.asarray(np.log(A) - np.log1p(-A)),
    lambda Z: np.asarray(1 / (1 + _exp(-Z))),
    lambda A: np.asarray(A * (1 - A)),
    np.ones_like,
)
SOFTMAX = Link(
    "softmax",
    lambda A: A.shape[1] > 2 and bool((A > 0).all()) and adds_to_one(A),
    _log_centred,
    _softmax,
    np.array,
    np.ones_like,
)
EXPONENTIAL = Link("exponential", lambda A: bool((A > 0).all()), np.log, _exp, np.array, np.abs)
LINKS = (IDENTITY, LOGISTIC, SOFTMAX, EXPONENTIAL)


@dataclass(frozen=True)
class Resolution:
    """How finely answers are given."""

    relative: float
    "To the size of the numbers that were computed with."
    step: float = 0.0
    "Half of the last decimal, where decimals were cut."
    digits: int = 17
    "How many are left, where digits were cut."

    def of(self, A: Array, unit: Array) -> Array:
        """Of answers A computed with numbers of size `unit`."""
        leading = np.floor(np.log10(np.maximum(np.abs(A), np.finfo(float).tiny)))
        return np.maximum(self.relative * unit, np.maximum(self.step, 0.5 * 10.0 ** (leading + 1 - self.digits)))

    @property
    def coarseness(self) -> float:
        """Of answers of size 1, at most."""
        return max(self.relative, self.step, 0.5 * 10.0 ** (1 - self.digits))


def resolution(A: Array) -> Resolution:
    """Read it off the answers: half, single or double precision, a number of decimals, or of digits."""
    printed = [Decimal(repr(float(value))).normalize().as_tuple() for value in np.unique(A)]
    digits = max(len(one.digits) for one in printed)
    if digits > KEPT:
        dusted = [Decimal(f"{float(value):.{KEPT}g}").normalize().as_tuple() for value in np.unique(A)]
        if max(len(one.digits) for one in dusted) <= DUSTED:
            printed, digits = dusted, max(len(one.digits) for one in dusted)
    decimals = max(-int(one.exponent) for one in printed)
    with np.errstate(over="ignore"):
        exact = next(kind for kind in (np.float16, np.float32, np.float64) if (A.astype(kind) == A).all())
    binary = exact is not np.float64 and decimals > BINARY
    relative = ROUNDING * float(np.finfo(exact if binary or digits > PRINTED else np.float32).eps)
    return Resolution(relative) if binary or digits > KEPT else Resolution(relative, 0.5 * 10.0**-decimals, digits)


@dataclass(frozen=True, eq=False)
class Affine:
    """A recovered map x -> link(Wx + b)."""

    link: Link
    coef: Array
    "(outputs, d)"
    intercept: Array
    "(outputs,)"
    noise: Array
    "(outputs,): standard deviation of the scores at points about `size` from `centre` in every coordinate."
    centre: Array
    "(d,)"
    size: float

    def answers(self, X: Array) -> Array:
        return self.link.answers(X @ self.coef.T + self.intercept)

    @property
    def error(self) -> float:
        """What share of the coefficients may be wrong."""
        length = float(np.linalg.norm(self.coef)) * self.size
        return float(np.linalg.norm(self.noise)) / length if length else np.inf

    def misfit(self, X: Array, A: Array, precision: Resolution) -> float:
        """Errors at points X in units of what noise allows there: above 1 this is not the model that answered A."""
        predicted = self.answers(X)
        distance = np.sum((X - self.centre) ** 2, axis=1, keepdims=True) / self.size**2
        terms = np.abs(X) @ np.abs(self.coef).T + np.abs(self.intercept)  # large ones may cancel
        with np.errstate(over="ignore", invalid="ignore"):  # an exponential of anything else overflows
            noise = np.sqrt((1 + distance) / (X.shape[1] + 1)) * self.noise + HIDDEN_STEPS * precision.relative * terms
            if self.link is SOFTMAX:  # the score of one class moves all probabilities
                noise = noise + np.sum(np.maximum(predicted, A) * noise, axis=1, keepdims=True)
            slope = np.maximum(self.link.derivative(predicted), self.link.derivative(A))
            allowed = precision.of(A, self.link.unit(A)) + slope * noise
            ratio = np.nan_to_num(np.abs(predicted - A) / np.maximum(allowed, np.finfo(float).tiny), nan=np.inf)
            return float(max(ratio.max() / PEAK, np.sqrt(np.mean(ratio**2)) / USUAL))

    def balanced(self) -> tuple[Array, float]:
        """A centre and a size for queries that lose fewer digits: scores vary around 0, by about 1 behind a curved link."""
        centre = -np.linalg.lstsq(self.coef, self.intercept, rcond=None)[0]
        spread = float(np.abs(self.intercept).max()) if self.link is IDENTITY else 1.0
        return centre, (spread or 1.0) / float(np.linalg.norm(self.coef, axis=1).max())


def simplex(dimension: int, rng: np.random.Generator) -> Array:
    """Corners (d + 1, d) of a regular simplex, turned at random: coordinates of size 1, columns orthogonal and without sum.

    As few points as can determine an affine map, and of those the ones that magnify errors least.
    """
    square = rng.standard_normal((dimension + 1, dimension + 1))
    square[:, 0] = 1
    return np.asarray(np.sqrt(dimension + 1) * np.linalg.qr(square)[0][:, 1:])


def from_answers(link: Link, corners: Array, centre: Array, size: float, A: Array, precision: Resolution) -> Affine:
    """The map whose answers at `centre + size * corners` are A (d + 1, outputs)."""
    scores = link.scores(A)
    mean = scores.mean(0)
    coef = (scores - mean).T @ corners / (len(corners) * size)
    with np.errstate(over="ignore"):
        noise = np.sqrt(np.mean((precision.of(A, link.unit(A)) / link.derivative(A)) ** 2, axis=0))
    return Affine(link, coef, mean - coef @ centre, noise, centre, size)


def from_gradient(link: Link, x: Array, size: float, A: Array, J: Array, precision: Resolution) -> Affine:
    """The map that answers A (1, outputs) at x (d,), with the Jacobian J (outputs, d) there."""
    slope = link.derivative(A)[0][:, None]
    coef = J / slope
    if link is SOFTMAX:
        coef = coef - coef.mean(0)
    value = precision.of(A, link.unit(A))[0] / slope[:, 0]
    # A rounded answer moves the slope by which the gradient is divided, and the gradient is rounded too.
    shares = np.linalg.norm(resolution(J).of(J, np.abs(J)) / slope, axis=1)
    if link is not IDENTITY:
        shares = shares + value * np.linalg.norm(coef, axis=1)
    return Affine(link, coef, link.scores(A)[0] - coef @ x, value + size * shares, x, size)
