"""The kinks of a piecewise linear function along a line, found from its values alone.

Two pieces a + m t and a' + m' t cross at t = -⟨Δm, Δa⟩ / ⟨Δm, Δm⟩; the kink between them is there, with
the jump Δm = m' - m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from divulge.arrays import Array

Ask = Callable[[Array], Array]
"Places (n,) on the line -> values (n, outputs)."

CLEAR = 16.0  # times the noise: what two values have to differ by to be called different,
CLEARER = 8.0  # and where noise was measured at many places: of 37 kinks 0.7 are then lost or wrong on a line, with 16 1.2
SHARP = 4.0  # times the uncertainty of a crossing: how far beside it both pieces are looked for
CROWDED = 0.25  # of a gap, and
BLUNT = 1e-3  # of the place on the line: a crossing known no better than this may hide two
STEPS = (1e-4, 0.05)  # of a gap: the second value of a piece is this far from the first, farther where values are noisy
ROUNDS = 80  # halvings of the line that double precision bears, and some
NEAREST = 1e-13  # of the place on the line: two kinks no further apart are one
NEAR = (0.0, 1e-5, 2e-5, 3e-5)  # around a place, of its size: four values that single precision tells apart
TINY = (0.0, 1e-6, 2e-6, 3e-6)  # around a place, of its size: values that differ from a straight line by noise alone
SHORT = 1e-4  # a piece is expected to go on this far, a curve is not straight for as long
BEND = 100.0  # times the noise is what a curve of unit curvature bends over a step, where values are noisy
MOST = 0.9  # of such steps are bent or flat, if it is a curve; of 300 kinks every second one has one
USUAL = 2.0  # times as much noise as four values show there may well be
STRAIGHT = 400.0  # times the noise: rounding, extrapolated from the tiny steps to the short one


class TooManyKinks(ValueError):
    """The function has more kinks on a line than were allowed for: it may be curved."""

    def __init__(self, kinks: int) -> None:
        super().__init__(f"more than {kinks} kinks on one line")
        self.kinks = kinks


class Broken(ValueError):
    """The function jumps: it is not continuous."""


@dataclass(frozen=True)
class Noise:
    """What a look at short pieces of a line shows."""

    level: float
    "Standard deviation of a value at the line's origin; it grows with the distance from there."
    curved: bool
    "Whether values leave a straight line wherever one looks."
    clear: float = CLEAR
    "How many times the level two values have to differ by to be called different."
    short: float = SHORT
    "The step within which they would leave it."

    def at(self, t: Array | float) -> Any:
        return self.level * (1 + np.abs(t))


@dataclass(eq=False)
class Piece:
    """A stretch [low, high] of the line on which the function is known to be linear, by its values (o,) at both ends."""

    low: float
    high: float
    at_low: Array
    at_high: Array
    sure: bool = False
    "Whether a third value confirmed it: between two alone there may be a kink."
    next: Piece | None = None
    "The piece that follows after a single kink, once that is known."

    @property
    def slope(self) -> Array:
        if not self.high > self.low:  # one place has no slope
            return np.zeros_like(self.at_low)
        return np.asarray((self.at_high - self.at_low) / (self.high - self.low))

    def at(self, t: float) -> Array:
        near, value = (self.low, self.at_low) if abs(t - self.low) < abs(t - self.high) else (self.high, self.at_high)
        return np.asarray(value + self.slope * (t - near))

    def reach(self, t: float) -> float:
        """How many times the noise of its ends the straight line through them has at t."""
        outside = max(self.low - t, t - self.high, 0.0)
        return 1 + 2 * outside / (self.high - self.low) if self.high > self.low else np.inf

    def extend(self, t: float, value: Array) -> None:
        if t > self.high:
            self.high, self.at_high, self.sure = t, value, True
        elif t < self.low:
            self.low, self.at_low, self.sure = t, value, True


@dataclass(frozen=True, eq=False)
class Kinks:
    """A piecewise linear function on a line: one piece more than there are kinks."""

    pieces: list[Piece]
    places: Array
    "(kinks,), in order"
    jumps: Array
    "(kinks, outputs): by how much the slope grows."

    def bounds(self, index: int) -> tuple[float, float]:
        """From where to where a piece goes, between its kinks or as far as was looked."""
        left = self.places[index - 1] if index else self.pieces[0].low
        right = self.places[index] if index < len(self.places) else self.pieces[-1].high
        return float(left), float(right)


def measure_noise(ask: Ask, places: Array, least: float = 0.0) -> Noise:
    """How exact values are, no more so than `least`, and whether the function is piecewise linear, from five a place."""
    sizes = 1 + np.abs(places)
    offsets = np.array([*TINY, SHORT])
    values = ask((places[:, None] + sizes[:, None] * offsets).ravel()).reshape(len(places), len(offsets), -1)
    near, far = values[:, : len(TINY)], values[:, -1]
    design = np.vander(TINY, 2)
    lines = np.einsum("ij,pjo->pio", np.linalg.pinv(design), near)
    left = np.linalg.norm(near - np.einsum("ij,pjo->pio", design, lines), axis=1).max(1) / np.sqrt(len(TINY) - 2)
    level = max(least, USUAL * float(np.sort(left / sizes)[len(places) // 2 :].mean()))
    left = np.maximum(left, least * sizes)
    middle = near.mean(1) + lines[:, 0] * (SHORT - np.mean(TINY))
    straight = STRAIGHT * np.maximum(left, np.finfo(float).eps * np.abs(near).max((1, 2)))
    bent = np.abs(far - middle).max(1) > straight
    flat = np.abs(far - near[:, 0]).max(1) <= straight  # as a curve may be in places
    return Noise(level, bool(bent.sum() > 1 and (bent | flat).all()))


def measure_coarse_noise(ask: Ask, places: Array, spread: float, least: float = 0.0) -> Noise:
    """The same from six values at each of many places; a few may be kinks.

    The sum of squares of what a straight line leaves of four values is σ² times one of χ² with two degrees of freedom.
    A curve shows over a step s in f(0) - 2 f(s) + f(2s) = s² f'', which is of the size of s² times the spread.
    """
    sizes, offsets = 1 + np.abs(places), np.array(NEAR)
    values = ask((places[:, None] + sizes[:, None] * offsets).ravel()).reshape(len(places), len(offsets), -1)
    design = np.vander(offsets, 2)
    left = values - np.einsum("ij,pjo->pio", design @ np.linalg.pinv(design), values)
    squares = np.sum(left**2, axis=1).max(1) / sizes**2 / (2 * np.log(2))  # the median of that χ²
    level = max(least, float(np.sqrt(np.median(squares))))
    short = float(np.sqrt(BEND * level / spread))
    first = values[:, 0]
    second, third = ask((places + sizes * np.array([[short], [2 * short]])).ravel()).reshape(2, *first.shape)
    noise = CLEARER * level * sizes
    bent = np.abs(first - 2 * second + third).max(1) > noise
    flat = np.abs(third - first).max(1) <= noise
    return Noise(level, bool((bent | flat).mean() >= MOST and bent.mean() > 1 - MOST), CLEARER, short)


def find_kinks(
    ask: Ask, reach: float | tuple[float, float], noise: Noise, spread: float, most: int, starts: int = 0
) -> Kinks:
    """All kinks between -reach and reach, or from one end to the other; `spread` is how much values vary near the origin.

    Between two known pieces their lines cross where a single kink would be. Values beside the crossing either confirm it
    or show a piece between the two. All that is open is asked about in one call a round. So many `starts` are pieces from
    the first: where values are noisy, a piece from far away may pass over kinks.
    """
    step = float(np.clip(np.cbrt(noise.level / spread), *STEPS))
    low, high = reach if isinstance(reach, tuple) else (-reach, reach)
    angles = np.linspace(np.arctan(0.9 * low), np.arctan(0.9 * high), 5 * starts + 1)
    ends = np.concatenate([[low, 0.9 * low], np.tan(np.sort([*angles[2::5], *angles[3::5]])), [0.9 * high, high]])
    values = ask(ends)
    pieces = [Piece(*pair) for pair in zip(ends[::2], ends[1::2], values[::2], values[1::2], strict=True)]
    search = _GapSearch(ask, noise, step)
    for _ in range(ROUNDS):
        pieces = search.settled(pieces)
        if len(pieces) > most + 1:
            raise TooManyKinks(most)
        open_gaps = [pair for pair in pairwise(pieces) if pair[0].next is not pair[1]]
        if not open_gaps:
            break
        pieces = sorted([*pieces, *search.explored(open_gaps)], key=lambda piece: piece.low)
    places = np.array([_clip(_crossing(a, b), a.high, b.low) for a, b in pairwise(pieces)])
    jumps = np.array([b.slope - a.slope for a, b in pairwise(pieces)]).reshape(len(places), values.shape[1])
    return Kinks(pieces, places, jumps)


@dataclass(frozen=True)
class _Look:
    """Where to ask in a gap."""

    around: list[float]
    crossing: float | None
    "Where the pieces meet if there is a single kink; None where nothing is expected."


class _GapSearch:
    """One search: what closes a gap, what merges pieces, where to look next."""

    def __init__(self, ask: Ask, noise: Noise, step: float) -> None:
        self.ask, self.noise, self.step = ask, noise, step

    def blur(self, piece: Piece, t: float) -> float:
        """What a value may be off a piece's line at t."""
        ends = max(self.noise.at(piece.low), self.noise.at(piece.high))
        return float(self.noise.clear * max(self.noise.at(t), ends * piece.reach(t)))

    def on(self, piece: Piece, t: float, value: Array) -> bool:
        return bool(np.abs(piece.at(t) - value).max() <= self.blur(piece, t))

    def settled(self, pieces: list[Piece]) -> list[Piece]:
        """Pieces with those of one line merged, and without those that a kink between their two values made up."""
        kept: list[Piece] = []
        for piece in pieces:
            if kept and kept[-1].next is not piece and self._one_line(kept[-1], piece):
                kept[-1].extend(piece.high, piece.at_high)
                kept[-1].next = piece.next
            else:
                kept.append(piece)
        around = [None, *kept, None]
        kept = [
            piece for before, piece, after in zip(around, kept, around[2:], strict=False) if _stands(before, piece, after)
        ]
        for left, right in pairwise(kept):
            if left.next is not right and right.low - left.high <= NEAREST * (1 + abs(right.low)):
                self._refuse_break(left, right)
                left.next = right
        return kept

    def _one_line(self, left: Piece, right: Piece) -> bool:
        """Whether each piece goes on where the other is, and all four values are on one line as far as noise allows."""
        if not (self.on(left, right.low, right.at_low) and self.on(right, left.high, left.at_high)):
            return False
        both = Piece(left.low, right.high, left.at_low, right.at_high)
        return self.on(both, left.high, left.at_high) and self.on(both, right.low, right.at_low)

    def _refuse_break(self, left: Piece, right: Piece) -> None:
        """Two pieces that come as near as numbers can have to meet there."""
        allowed = self.blur(left, right.low) + self.blur(right, left.high)
        allowed += (right.low - left.high) * float(np.abs(left.slope).max() + np.abs(right.slope).max())
        if np.abs(right.at_low - left.at_high).max() > allowed:
            raise Broken("values jump")

    def explored(self, gaps: list[tuple[Piece, Piece]]) -> list[Piece]:
        """Ask inside every gap; extends and closes what the answers explain, returns new pieces for what they do not."""
        wanted = [self._look(left, right) for left, right in gaps]
        places = np.array([t for look in wanted for t in look.around])
        answers = iter(self.ask(places) if len(places) else places)
        strange: list[tuple[float, Array, float]] = []
        for (left, right), look in zip(gaps, wanted, strict=True):
            seen: list[tuple[float, Array]] = [(t, next(answers)) for t in look.around]
            while seen and self.on(left, *seen[0]):
                left.extend(*seen.pop(0))
            while seen and self.on(right, *seen[-1]):
                right.extend(*seen.pop())
            if seen:
                t, value = seen[0]
                strange.append((t, value, self._second(left.high, t, right.low)))
            elif look.crossing is not None and left.high <= look.crossing <= right.low:
                left.next = right
        if not strange:
            return []
        seconds = np.array([second for _, _, second in strange])
        found = []
        for (t, value, second), other in zip(strange, self.ask(seconds), strict=True):
            ends = ((t, value), (second, other)) if t < second else ((second, other), (t, value))
            found.append(Piece(ends[0][0], ends[1][0], ends[0][1], ends[1][1]))
        return found

    def _look(self, left: Piece, right: Piece) -> _Look:
        """Beside the crossing, on both sides as far as they lie in the gap; else between the pieces.

        Nowhere, where the gap is so narrow that noise would hide all there could be.
        """
        a, b = left.high, right.low
        t = _crossing(left, right)
        if a - (b - a) < t < b + (b - a):
            jump = float(np.abs(right.slope - left.slope).max())
            beside = SHARP * (self.blur(left, t) + self.blur(right, t)) / jump + NEAREST * (1 + abs(t))
            finest = 2 * SHARP * self.noise.clear * float(self.noise.at(t)) / jump
            meet = np.abs(right.at(t) - left.at(t)).max() <= 2 * (self.blur(left, t) + self.blur(right, t))
            if b - a < finest / CROWDED and meet:
                return _Look([], _clip(t, a, b))
            if beside < min(CROWDED * (b - a), BLUNT * (1 + abs(t))) and a - beside < t < b + beside:
                return _Look([place for place in (t - beside, t + beside) if a < place < b], _clip(t, a, b))
        return _Look([float(np.tan((np.arctan(a) + np.arctan(b)) / 2))], None)

    def _second(self, a: float, t: float, b: float) -> float:
        """Where to take the slope at t, towards the wider side of the gap."""
        step = self.step * (1 + t * t) * float(np.arctan(b) - np.arctan(a))
        return t + min(step, (b - t) / 2) if b - t > t - a else t - min(step, (t - a) / 2)


def _stands(before: Piece | None, piece: Piece, after: Piece | None) -> bool:
    """Whether a piece is one: not if its neighbours reach up to its only two values, for then a kink lies between those."""
    if piece.sure or (before is None and after is None):
        return True
    closed = (before is None or before.next is piece) and (after is None or piece.next is after)
    return not closed


def _crossing(left: Piece, right: Piece) -> float:
    """Where the lines of two pieces are nearest to each other."""
    jump = right.slope - left.slope
    steepness = float(jump @ jump)
    if not steepness > 0:
        return np.inf
    middle = (left.high + right.low) / 2
    return middle - float(jump @ (right.at(middle) - left.at(middle))) / steepness


def _clip(t: float, low: float, high: float) -> float:
    return min(max(t, low), high) if np.isfinite(t) else (low + high) / 2
