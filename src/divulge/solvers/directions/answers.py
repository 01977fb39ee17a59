"""How a model's answers are read as a piecewise linear function: through which link, and how precisely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from divulge.arrays import Array
from divulge.solvers.shared.affine import IDENTITY, LOGISTIC, ROUNDING, SOFTMAX, Link, adds_to_one, resolution

FLOOR = 1e-35  # smaller probabilities have lost digits, those of single precision from 1e-38 on
LINES, PLACES = 8, 16  # through as many points a line is asked in three places, through one more in as many
REACH = 2.0**-8  # of the box, in every input at once: a wrong link bends it by 1e-3, rounding in single precision by 3e-5
NEAR = 2.0**-20  # of the box: between two places so near by, values differ by a straight line and rounding
THIRD = 20**0.5  # deviation of third differences of noise of deviation 1
MIDDLE = 0.6745  # median of |noise| of deviation 1


class Unreadable(Exception):
    """Answers that no slope can be read from, with the reason."""


@dataclass(frozen=True)
class Reading:
    """Answers read through a link, which leaves scores that are piecewise linear in the inputs."""

    ask: Callable[[Array], Array]
    "Takes points (n, d), returns answers (n, outputs)."
    link: Link
    noise: Array
    "(outputs,): deviation of scores by rounding, at the points that were looked at."
    X: Array
    "(n, d): readable points that were looked at."
    seen: Array
    "(n, outputs): scores there."

    @property
    def spread(self) -> float:
        """Deviation of scores from point to point."""
        return max(float(self.seen.std(axis=0).max()), float(np.finfo(float).tiny))

    @property
    def relative(self) -> float:
        """Rounding in units of the spread."""
        return float(np.median(self.noise) / self.spread)

    def scores(self, X: Array) -> Array:
        """(n, outputs); not finite where probabilities are 0 or 1."""
        return scores(self.link, self.ask(X))


def scores(link: Link, A: Array) -> Array:
    """What a link was given, where answers (n, outputs) show it, and NaN elsewhere."""
    if link is IDENTITY:
        return A
    seen = (A > FLOOR).all(axis=1) & (True if link is SOFTMAX else (A < 1).all(axis=1))
    found = np.full(A.shape, np.nan)
    found[seen] = link.scores(A[seen])
    return found


def read(ask: Callable[[Array], Array], X: Array, box: float, rng: np.random.Generator) -> Reading:
    """Look at answers at points X (n, d), on short lines through them, and on a very short one through a readable one.

    Logits and other numbers are taken as they are; probabilities of several classes are read as logits with sum 0. One
    output between 0 and 1 may be a probability or any number: it is read in the way that leaves lines straighter.
    """
    steps = box * REACH * rng.choice([-1.0, 1.0], X.shape)
    A = ask(np.concatenate([X, X + steps, X - steps]))
    _refuse(A)
    link = _link(A.reshape(3, len(X), -1))
    found = scores(link, A[: len(X)])
    readable = np.isfinite(found).all(axis=1)
    if not readable.any():
        raise Unreadable(
            "all probabilities asked for are 0 or 1 in their precision, which hides how logits change; "
            "points nearer to where classes meet would have to be known"
        )
    place = int(np.argmin(np.where(readable, np.abs(np.nan_to_num(found)).max(axis=1), np.inf)))
    line = ask(X[place] + box * NEAR * np.arange(PLACES)[:, None] * np.sign(steps[place]))
    near = scores(link, line)
    scatter = np.median(np.abs(np.diff(near, 3, axis=0)), axis=0) / (MIDDLE * THIRD)
    noise = np.maximum(np.nan_to_num(scatter), _rounding(link, A[: len(X)][readable]))
    return Reading(ask, link, noise, X[readable], found[readable])


def _refuse(A: Array) -> None:
    if not np.ptp(A, axis=0).any():
        raise Unreadable("the model answers the same everywhere it was asked: a constant shows no direction")
    if (np.round(A) == A).all():
        raise Unreadable(
            "the model answers whole numbers only, as class labels are: they do not change with a small step, and no slope "
            "can be read from them"
        )


def _link(A: Array) -> Link:
    """Through which link answers (three places of a line, lines, outputs) came."""
    rows = A.reshape(-1, A.shape[2])
    if A.shape[2] > 1:
        return SOFTMAX if (rows >= 0).all() and adds_to_one(rows) else IDENTITY
    if not ((rows >= 0) & (rows <= 1)).all():
        return IDENTITY
    return min((IDENTITY, LOGISTIC), key=lambda link: _bend(*(scores(link, place) for place in A)))


def _bend(middle: Array, up: Array, down: Array) -> float:
    """Second differences over first ones on those lines that have no kink, if a quarter has none; infinite if unreadable."""
    share = np.abs(up + down - 2 * middle) / np.maximum(np.abs(up - down), np.finfo(float).tiny)
    return float(np.quantile(share[np.isfinite(share)], 0.25)) if np.isfinite(share).any() else np.inf


def _rounding(link: Link, A: Array) -> Array:
    """(outputs,): what the digits of answers leave of scores."""
    seen = resolution(A)
    digits = 0.0 if seen.digits > 15 else 0.5 * 10.0 ** (1 - seen.digits)
    off = np.maximum(max(seen.relative / ROUNDING, digits) * np.abs(A), seen.step)
    return np.asarray(np.median(off / link.derivative(A), axis=0))
