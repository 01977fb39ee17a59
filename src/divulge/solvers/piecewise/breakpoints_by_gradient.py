"""The kinks that a piecewise linear function has along a line, found from the affine pieces that hold at chosen points.

Two neighbouring pieces S x + c and S' x + c' differ by the jump (ΔS, Δc), of rank one for a single unit. They meet on the
line x = a + t u where ΔS (a + t u) + Δc = 0: at t = -⟨r, h⟩ / ⟨r, r⟩ with h = ΔS a + Δc and r = ΔS u.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from divulge.arrays import Array

Ask = Callable[[Array], Array]
"Points (n, d) -> the affine pieces (n, o, d + 1) that hold there: slope and intercept."

BESIDE = 1e-6  # of an interval: how near to a kink a probe is set, so that little room is left for another one
STEPS = 4.0  # times the uncertainty of a kink's place: as near as a probe may come to it
VAGUE = 0.05  # of an interval
WIDTHS = 8.0  # uncertainties: an interval no wider cannot be divided
CALM = 6.0  # expected kinks of an interval below which one is taken for granted. 12 costs a tenth more queries, 3 less
FURTHER = 30.0  # times as far from 0 as a kink: a point there says less about its place than one beside it
UNRESOLVED = 100  # kinks too close to be told apart, and half of all: a curve, which has a million of them at once
PRECISE = 1e-10  # noise: answers of double precision leave 1e-14 to 1e-12, of single precision 1e-7, with kinks too close
LARGE = 0.01  # of the slopes: jumps that come first. Of two units that all but cancel, what is left is no unit's
VERY_CLEAR = 1e3  # times the noise: a jump that is worth a closer look, as its hyperplane is known to three digits;
CLEAR = 100.0  # of coarse answers, to two
SHORT = 2e-5  # of the distance from 0: an interval that holds two kinks of 2,500 once in a hundred lines
EDGE = 0.05  # of an interval: where two pieces meet nearer to an end, it is halved first, lest it stay as long as it is
NARROW = 1e-6  # of a line: no wider an interval holds two kinks of 10,000 once in a hundred lines
CURVED = 10  # intervals in a row so divided: of 2,000 kinks in one dimension, seven may be
EVENLY = 0.1  # of the change of an interval: so near a curve's is to what its part of the interval has of it
ROUNDS = 100  # more than the digits of a floating-point number: no interval can be divided more often


@dataclass(frozen=True, eq=False)
class QueryLine:
    """Points start + t direction, t from one end to the other: a segment, or nearly all of a line that has no ends."""

    start: Array
    direction: Array
    ends: tuple[float, float]
    endless: bool = True

    def points(self, along: Array) -> Array:
        return np.asarray(self.start + along[:, None] * self.direction)

    def cut(self, reach: float) -> QueryLine:
        """The part of it no farther than this from its start, to either side."""
        return replace(self, ends=(max(self.ends[0], -reach), min(self.ends[1], reach)))

    def angle(self, along: Array) -> Array:
        """The same place in units in which kinks are about evenly spread: hyperplanes meet an endless line at any angle."""
        return np.arctan(along) if self.endless else along

    def middle(self, one: Array, other: Array) -> Array:
        """Where as many kinks are to be expected on either side."""
        return np.tan((np.arctan(one) + np.arctan(other)) / 2) if self.endless else (one + other) / 2

    def stretch(self, along: Array) -> Array:
        """How far t moves when the angle does."""
        return 1 + along**2 if self.endless else np.ones_like(along)


@dataclass
class Tolerance:
    """How much answers say: differences below `noise` times the largest numbers seen so far are none."""

    noise: float
    scale: float = 0.0
    "The largest slope."
    offset: float = 0.0
    "The largest intercept."

    def see(self, pieces: Array) -> Array:
        """Take note of how large pieces (n, o, d + 1) are."""
        self.scale = max(self.scale, float(np.linalg.norm(pieces[:, :, :-1], axis=(1, 2)).max(initial=0)))
        self.offset = max(self.offset, float(np.linalg.norm(pieces[:, :, -1], axis=1).max(initial=0)))
        return pieces

    @property
    def slope(self) -> float:
        return self.noise * self.scale

    def intercept(self, distance: Array) -> Array:
        """For pieces measured at points this far from 0."""
        return np.asarray(self.noise * (self.scale * distance + self.offset))


class BreakpointSearch:
    """Divide and conquer along one line: all intervals between points with different pieces are probed at once.

    A single kink between two points sits where their pieces meet, and a probe beside that place must find the piece of the
    point on its side. Unless `trusting`: then a jump of several outputs that has rank one, and with one output an interval
    so short that many kinks in it are unlikely, are held without a probe. Whoever has other points at which the sum of all
    kinks can be checked finds the few that are wrong, and rechecks them.
    """

    def __init__(
        self,
        ask: Ask,
        line: QueryLine,
        tolerance: Tolerance,
        *,
        trusting: bool = False,
    ) -> None:
        self.ask, self.line, self.tolerance = ask, line, tolerance
        self.trusting = trusting
        self.along = np.zeros(0)
        self.distance = np.zeros(0)
        ends = np.asarray(line.ends, dtype=float)
        first = ask(line.points(ends))
        self.store = np.zeros((0, *first.shape[1:]))
        self._add(ends, first)
        self.open = np.array([[0, 1]])
        "Intervals (n, 2) between two points that have to be looked into."
        self.empty = 0.0
        "How much of the line is known to be without a kink."
        self.unsure = 0
        "How many intervals became too narrow to be divided."
        self.held = np.zeros((0, 2), dtype=int)
        "Intervals with a single kink, as far as is known."
        self.tested = np.zeros((0, 2), dtype=bool)
        "Of each, whether the piece to the left and to the right of the kink was seen to reach up to it."
        self.curved = False
        "Whether intervals could be divided as those of a curve can, again and again,"
        self.even = 0
        "and how many in a row by now."

    @property
    def pieces(self) -> Array:
        return self.store[: len(self.along)]

    @property
    def left(self) -> Array:
        """The piece at the left end of the line."""
        return np.asarray(self.store[0])

    @property
    def jumps(self) -> Array:
        """From the piece before to the piece after every kink that is held: (kinks, o, d + 1)."""
        return np.asarray(self.pieces[self.held[:, 1]] - self.pieces[self.held[:, 0]])

    def settle(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Look into open intervals until there are none; False when they could be divided without end."""
        for _ in range(ROUNDS):
            self._close()
            if progress:
                progress(len(self.held), len(self.held) + len(self.open))
            if self.unsure > UNRESOLVED + len(self.held) / 2 and self.tolerance.noise < PRECISE:
                return False
            if len(self.open):
                intervals, self.open = self.open, np.zeros((0, 2), dtype=int)
                self._probe(intervals, np.zeros(intervals.shape, dtype=bool))
            elif not self.recheck(self._lopsided()):
                return True
        return False

    def isolate(self, most: int) -> bool:
        """Look for one more kink, depth first, and hold it once seen from both sides; False after `most` questions.

        Of the halves of the last interval, else of all, the one with a large jump is divided, of two the one that changes
        less. Where answers are too coarse to see beside a kink, an interval too short for two has one.
        """
        whole, asked, divided = float(self._length(np.array([[0, 1]]))[0]), len(self.along), 0
        while len(self.along) < asked + most:
            left, right = self.open.T
            changed = ~self.same(self.pieces[right] - self.pieces[left], left, right)
            older = (np.arange(len(self.open)) < len(self.open) - divided)[changed]
            self.open = self.open[changed]
            jump = self.pieces[self.open[:, 1]] - self.pieces[self.open[:, 0]]
            size, length = np.linalg.norm(jump[:, :, :-1], axis=(1, 2)), self._length(self.open)
            levels = LARGE * self.tolerance.scale, VERY_CLEAR * self.tolerance.slope, CLEAR * self.tolerance.slope
            vague = (size[:, None] < levels).sum(1)
            vain = vague > 1 + self.coarse
            if vain.all():
                return False
            chosen = np.lexsort(((-size if self.coarse else size), length.round(12), vague, older, vain))[0]
            interval, self.open = self.open[[chosen]], np.delete(self.open, chosen, axis=0)
            divided = 2
            if self.coarse and self._short(interval[0]):
                self._hold(interval, np.ones((1, 2), dtype=bool))
                return True
            narrow = length[chosen] < NARROW * whole
            if narrow or self.coarse or not self._middling(interval):
                self._halve(interval[0])
            elif self._confirmed(interval):
                return True
            if self._is_curve(1 if narrow else CURVED):
                return False
            if narrow:  # two units that all but cancel
                self.open, divided = self.open[:-2], 0
        return False

    @property
    def coarse(self) -> bool:
        return self.tolerance.noise > PRECISE

    def _middling(self, interval: Array) -> bool:
        """Whether the pieces at the ends of an interval (1, 2) meet well inside it."""
        meeting, _ = self._meeting(self.pieces[interval[:, 1]] - self.pieces[interval[:, 0]], interval)
        place = (self.line.angle(meeting) - self.line.angle(self.along[interval[:, 0]])) / self._length(interval)
        return bool(EDGE < place[0] < 1 - EDGE)

    def _is_curve(self, enough: int) -> bool:
        """Whether so many intervals in a row had their share of the change in either part, as a curve's have."""
        (left, middle), (_, right) = self.open[-2:]
        ends, change = self._length(np.array([[left, middle], [left, right]])), self.pieces[right] - self.pieces[left]
        off = (self.pieces[middle] - self.pieces[left] - ends[0] / ends[1] * change)[:, :-1]
        self.even = self.even + 1 if np.linalg.norm(off) < EVENLY * np.linalg.norm(change[:, :-1]) else 0
        self.curved = self.even >= enough
        return self.curved

    def _short(self, interval: Array) -> bool:
        width = float(np.ptp(self.along[interval]) * np.linalg.norm(self.line.direction))
        return width < SHORT * float(self.distance[interval].max())

    def _halve(self, interval: Array) -> None:
        start, end = self.along[interval][:, None]
        (middle,) = self._look(self.line.middle(start, end))
        self.open = np.concatenate([self.open, [[interval[0], middle], [middle, interval[1]]]])

    def _confirmed(self, interval: Array) -> bool:
        """Whether the kink in an interval (1, 2) is a single one, seen from one side and then from the other."""
        count, tested = len(self.held), np.zeros((1, 2), dtype=bool)
        for _ in range(2):
            self._probe(interval, tested)
            if len(self.held) == count:
                return False
            interval, tested = self.held[count:], self.tested[count:]
            if tested.all():
                return True
            self.held, self.tested = self.held[:count], self.tested[:count]
        return False

    def recheck(self, which: Array) -> int:
        """Probe kinks that are held again, on a side not tested yet; how many turned out to be several."""
        if not len(which):
            return 0
        intervals, tested = self.held[which], self.tested[which]
        rest = np.ones(len(self.held), dtype=bool)
        rest[which] = False
        self.held, self.tested = self.held[rest], self.tested[rest]
        self._probe(intervals, tested)
        wrong = len(self.open) // 2
        self.settle()
        return wrong

    def _lopsided(self) -> Array:
        """Kinks between points of which one is so much further away that digits are lost, unless tested on that side."""
        meeting, _ = self._meeting(self.jumps, self.held)
        near = np.linalg.norm(self.line.points(meeting), axis=1) + np.linalg.norm(self.line.start)
        return np.flatnonzero(((self.distance[self.held] > FURTHER * near[:, None]) & ~self.tested).any(1))

    def _close(self) -> None:
        """Drop open intervals without a change, and hold those with a single kink."""
        left, right = self.open.T
        jump = self.pieces[right] - self.pieces[left]
        changed = ~self.same(jump, left, right)
        length = self._length(self.open)
        self.empty += float(length[~changed].sum())
        intervals, jump, length = self.open[changed], jump[changed], length[changed]
        start, end = self.along[intervals].T
        meeting, blur = self._meeting(jump, intervals)
        inside = (meeting > start) & (meeting < end)
        around = (meeting > start - WIDTHS * blur) & (meeting < end + WIDTHS * blur)
        # Two large kinks that all but cancel are closer to each other than the small one they look like can be placed.
        narrow = end - start <= WIDTHS * np.where(around, blur, np.spacing(np.maximum(np.abs(start), np.abs(end))))
        single = narrow.copy()
        if self.trusting and jump.shape[1] > 1:
            single |= inside & self._one(jump, intervals, meeting)
        elif self.trusting:
            everywhere = np.concatenate([length, self._length(self.held)])
            single |= inside & (_rate(everywhere, self.empty) * length < CALM)
        self.unsure += int(narrow.sum())
        self._hold(intervals[single], np.repeat(narrow[single, None], 2, axis=1))
        self.open = intervals[~single]

    def _probe(self, intervals: Array, tested: Array) -> None:
        """One more point in each interval: beside its kink if it may have one only, else between its kinks.

        Of two sides not tested yet, the longer one is, where more kinks are to be expected.
        """
        left, right = intervals.T
        start, end = self.along[intervals].T
        jump = self.pieces[right] - self.pieces[left]
        meeting, blur = self._meeting(jump, intervals)
        inside = (meeting > start) & (meeting < end)
        # A place known no better than to a good part of the interval is no kink's, but one to divide it at.
        known = STEPS * blur < VAGUE * self._length(intervals) * self.line.stretch(np.clip(meeting, start, end))
        one = inside & known & self._one(jump, intervals, meeting)
        place = self.line.angle(np.clip(meeting, start, end))
        on_left = np.where(tested.any(1), tested[:, 1], 2 * place > self.line.angle(start) + self.line.angle(end))
        gap = np.maximum(BESIDE * self._length(intervals) * self.line.stretch(meeting), STEPS * blur)
        before, after = meeting - np.minimum(gap, (meeting - start) / 2), meeting + np.minimum(gap, (end - meeting) / 2)
        between = np.where(inside, meeting, self.line.middle(start, end))
        probe = self._look(np.where(one, np.where(on_left, before, after), between))
        expected = np.where(on_left, left, right)
        as_expected = one & self.same(self.pieces[probe] - self.pieces[expected], probe, expected)
        seen = tested | np.stack([on_left, ~on_left], axis=1)
        closer = np.where(np.stack([on_left, ~on_left], axis=1), probe[:, None], intervals)
        self._hold(closer[as_expected], seen[as_expected])
        other = ~as_expected
        halves = [np.stack([left[other], probe[other]], axis=1), np.stack([probe[other], right[other]], axis=1)]
        self.open = np.concatenate([self.open, *halves])

    def _length(self, intervals: Array) -> Array:
        """In units in which kinks are about evenly spread."""
        start, end = self.line.angle(self.along[intervals]).T
        return np.asarray(end - start)

    def _hold(self, intervals: Array, tested: Array) -> None:
        self.held, self.tested = np.concatenate([self.held, intervals]), np.concatenate([self.tested, tested])

    def _look(self, along: Array) -> Array:
        """Ask at new places; returns their numbers."""
        count = len(self.along)
        self._add(along, self.ask(self.line.points(along)))
        return np.arange(count, len(self.along))

    def _add(self, along: Array, pieces: Array) -> None:
        count, total = len(self.along), len(self.along) + len(along)
        if total > len(self.store):
            room = np.empty((max(2 * count, total), *pieces.shape[1:]))
            room[:count] = self.store[:count]
            self.store = room
        self.store[count:total] = pieces
        self.along = np.concatenate([self.along, along])
        self.distance = np.concatenate([self.distance, np.linalg.norm(self.line.points(along), axis=1)])

    def same(self, difference: Array, one: Array, other: Array) -> Array:
        """Whether pieces that differ by this much are the same but for noise."""
        slope = np.linalg.norm(difference[:, :, :-1], axis=(1, 2)) <= self.tolerance.slope
        intercept = np.linalg.norm(difference[:, :, -1], axis=1) <= self._blur(one, other)
        return np.asarray(slope & intercept)

    def _blur(self, one: Array, other: Array) -> Array:
        """How much the difference of two pieces' intercepts may be off."""
        return self.tolerance.intercept(self.distance[one]) + self.tolerance.intercept(self.distance[other])

    def _one(self, jump: Array, intervals: Array, meeting: Array) -> Array:
        """Whether jumps may be a single unit's: one direction of outputs times one of inputs, and all outputs meet."""
        if jump.shape[1] == 1:
            return np.ones(len(jump), dtype=bool)
        apart = np.einsum("nod,nd->no", jump[:, :, :-1], self.line.points(meeting)) + jump[:, :, -1]
        together = np.linalg.norm(apart, axis=1) <= 2 * self._blur(*intervals.T)
        return np.asarray(together & _rank_one(jump, self.tolerance.slope))

    def _meeting(self, jump: Array, intervals: Array) -> tuple[Array, Array]:
        """Where on the line two pieces meet, t (n,), and how far off that may be."""
        height = jump[:, :, :-1] @ self.line.start + jump[:, :, -1]
        rise = jump[:, :, :-1] @ self.line.direction
        square = (rise**2).sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            along = -(height * rise).sum(1) / square
            if jump.shape[1] > 1:
                # Of several kinks, a place between them: where outputs are weighed so that units count alike.
                whitened = np.linalg.pinv(_gram(jump), rcond=1e-12, hermitian=True) @ rise[:, :, None]
                between = -(height * whitened[:, :, 0]).sum(1) / (rise * whitened[:, :, 0]).sum(1)
                start, end = self.along[intervals].T
                along = np.where((between > start) & (between < end), between, along)
            off = self._blur(*intervals.T) / np.sqrt(square)
        # Pieces of one slope never meet: a place off the line, and nothing said about how well it is known.
        nowhere = 2 * self.line.ends[1]
        place = np.nan_to_num(along, nan=nowhere, posinf=nowhere, neginf=nowhere)
        return place, np.where(np.isfinite(off), off, 0.0) + np.spacing(np.abs(self.along[intervals]).sum(1))


def _rate(lengths: Array, empty: float) -> float:
    """Kinks per length, given the lengths of intervals with at least one and how much of the line has none.

    The rate of largest likelihood, if kinks lie independently: infinite as long as no part of the line is empty.
    """
    if not empty > 0:
        return np.inf
    low, high = 0.0, (len(lengths) + 1) / empty
    for _ in range(40):  # bisection: the derivative Σ length / (exp(rate length) - 1) - empty falls
        rate = (low + high) / 2
        with np.errstate(over="ignore"):
            rising = (lengths / np.expm1(rate * lengths)).sum() > empty
        low, high = (rate, high) if rising else (low, rate)
    return low


def _rank_one(jump: Array, tolerance: float) -> Array:
    """Whether jumps (n, o, d + 1) have slopes of one direction of outputs times one of inputs."""
    sizes = np.linalg.eigvalsh(_gram(jump))
    # Squares lose half the digits.
    return np.asarray(np.sqrt(np.maximum(sizes[:, -2], 0)) <= np.maximum(2 * tolerance, 1e-7 * np.sqrt(sizes[:, -1])))


def _gram(jump: Array) -> Array:
    """How the outputs' jumps of slope go together: (n, o, o)."""
    return np.asarray(jump[:, :, :-1] @ jump[:, :, :-1].transpose(0, 2, 1))
