"""Which probabilities have digits enough to be read as logits, and lines along which they have.

A sigmoid's p has all of its digits near 0. Near 1 it is a multiple of the spacing of numbers there, and so is 1 - p where it
is answered beside it: the logit log p - log (1 - p) then carries an error of spacing / (1 - p). A softmax has all digits in
every column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.units_by_value import FramedLine
from divulge.solvers.shared import affine

LEGIBLE = 1e-4
"The logit of a probability this near to 1 has lost four of its sixteen digits,"
LEGIBLE_SINGLE = 0.1
"and of seven digits one is lost here."
SMALL = 2.0**-10
"Of a number below, one in a thousand is a multiple of the spacing of numbers near 1 by chance."
PLANES = 4
"Looked at for a line: in one of random directions the legible side may be narrow."
ANGLES = 16
"Directions of a plane that are asked for."
FAR = 30.0
"Times the scale: where they are, so that biases hardly matter."
ASIDE = 4.0
"Times the scale: how far from the origin a line passes, on the legible side. At the scale itself all can be read."
STEP, STEPS = 4.0, 12
"In which steps the ends of a line are drawn nearer until they can be read, and how many there are."

Ask = Callable[[Array], Array]
"Points (n, d) -> answers (n, o)."


@dataclass(frozen=True, eq=False)
class Legibility:
    """How answers behind a link can be read."""

    link: affine.Link
    own: Array
    "(o,): whether small probabilities of a column have digits of their own."
    spacing: float
    "Of numbers just below 1."
    least: float
    "The smallest number with all digits."
    near: float
    "To 1: probabilities that are nearer cannot be read."

    @classmethod
    def of(cls, link: affine.Link, answers: Array) -> Legibility:
        """Read it off answers (n, o): columns without small probabilities may have no digits of their own."""
        with np.errstate(over="ignore", under="ignore"):
            single = bool((answers.astype(np.float32) == answers).all())
        kind = np.finfo(np.float32 if single else np.float64)
        spacing = float(kind.epsneg)
        if affine.resolution(answers).step:  # decimals that were cut are told from digits that were lost
            own = np.full(answers.shape[1], link is affine.SOFTMAX)
        else:
            small = (answers > 0) & (answers < SMALL)
            own = (small & (np.floor(answers / spacing) * spacing != answers)).any(0)
        return cls(link, own, spacing, float(kind.tiny), LEGIBLE_SINGLE if single else LEGIBLE)

    @property
    def lossy(self) -> bool:
        """Whether there is a side on which logits cannot be read though they are finite."""
        return self.link is affine.LOGISTIC or (self.link is affine.SOFTMAX and not self.own.all())

    @property
    def noise(self) -> float:
        """Of a logit, at most."""
        return self.spacing / self.near if self.lossy else 0.0

    def lost(self, answers: Array) -> Array:
        """(n,): where a probability is so near to 1 that the others have lost their digits."""
        if self.link is affine.IDENTITY:
            return np.zeros(len(answers), dtype=bool)
        found = (answers[:, ~self.own] <= self.near).any(1)
        return np.asarray(found | (answers[:, 0] >= 1 - self.near) if self.link is affine.LOGISTIC else found)

    def readable(self, answers: Array) -> Array:
        """(n,): whether all logits of a row can be read."""
        if self.link is affine.IDENTITY:
            return np.ones(len(answers), dtype=bool)
        return np.asarray(~self.lost(answers) & (answers > self.least).all(1))


def legible_line(
    ask: Ask, legibility: Legibility, dimension: int, scale: float, reach: float, rng: np.random.Generator
) -> tuple[FramedLine, float, float]:
    """A line across the side where logits can be read, and from where to where it can be followed, at most to ±reach.

    Hyperplanes through the origin cut a half plane once. So a line sees nearly all of them that passes the origin on the
    legible side of a plane, parallel to the border.
    """
    turns = 2 * np.pi * np.arange(ANGLES) / ANGLES
    best, plane, middle = -1, np.zeros((2, dimension)), 0.0
    for _ in range(PLANES):
        drawn = scale * rng.standard_normal((2, dimension))
        legible = ~legibility.lost(ask(FAR * np.column_stack([np.cos(turns), np.sin(turns)]) @ drawn))
        start, length = _longest_run(legible)
        if length > best:
            best, plane, middle = length, drawn, float(turns[start]) + np.pi * (length - 1) / ANGLES
        if best > ANGLES / 2:
            break
    origin = ASIDE * np.array([np.cos(middle), np.sin(middle)]) @ plane
    line = FramedLine.along(origin, np.array([-np.sin(middle), np.cos(middle)]) @ plane)
    places = reach * STEP ** -np.arange(STEPS - 1, -1.0, -1)
    readable = legibility.readable(ask(line.at(np.concatenate([places, -places])))).reshape(2, STEPS)
    high, low = (float(places[one.argmin() - 1 if not one.all() else -1]) if one[0] else 0.0 for one in readable)
    return line, -low, high


def _longest_run(flags: Array) -> tuple[int, int]:
    """Start and length of the longest run of true flags on a circle."""
    if flags.all():
        return 0, len(flags)
    longest = 0, 0
    for start in np.flatnonzero(flags & ~np.roll(flags, 1)):
        longest = max(longest, (int(start), int(np.roll(flags, -start).argmin())), key=lambda run: run[1])
    return longest
