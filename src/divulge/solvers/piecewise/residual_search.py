"""Residual extraction of a function with one layer of kinks, f(x) = Lx + c + V relu(Wx + b).

Where a copy f̂ has some of the units, the residual r = f - f̂ is a function of the same kind: its kinks along the next line
are those that are missing, or wrong. Line by line the residual shrinks until fresh points agree with the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_gradient import PRECISE, Ask, BreakpointSearch, QueryLine, Tolerance
from divulge.solvers.piecewise.exactness import chosen_points
from divulge.solvers.piecewise.regions import Region, segment
from divulge.solvers.piecewise.two_layer import PARALLEL, TwoLayer

SUMMED = 10.0  # times the noise of an answer: that of a copy, whose pieces are sums of many
SLACK = 16.0  # times that again: an error this large is one. At six decimals that is a unit of 8e-4 of the slopes
NEARLY = 1e-6  # at a point with no larger error, all units are on the right side: a wrong one is off by its whole jump
# Queries a unit of 30 networks, 150-120-1: 2.4 as it is, 2.8 where every kink is confirmed.
TELLING = 100  # numbers in a jump from which on kinks are trusted: of one output, 20 inputs cost 3.2 trusted, 3.0 confirmed
OUTLYING = 5.0  # spreads above the median: a jump this much in line with the residual is a suspect. All: 3.2, none: 2.7
WORTH = 7.0  # queries that a wrong kink costs on the next line. Rechecking always: 2.5, never without a suspect: 2.5
FEW, SEVERAL, GUIDES = 4, 8, 40  # points are asked first to see whether a copy is right, or where it is wrong
AGAIN = 0.5  # times as many fresh points more, each time another copy is checked: for the same bound at a tenth of the doubt
BATCH = 25  # fresh points at once: where a budget ends, those before it count
MOST = 0.8  # points in the wrong: too much is missing to look for it between two of them
TIGHT = 1e-8  # of its size: how near a point beside a kink is to it. Half of the digits, as kinks have the other half
CONDITION = 1e-3  # planes more nearly parallel than this are not made to meet: they would a thousand times farther out
MANY = 0.7  # of the first line's kinks on each of the next two: of one layer these have 0.4 of them at most, of two 1.4
BOUNDED_LINES = 6  # instead of three in a box, where 9, 17 and 13 kinks of 60 units were met once
GAP = 1e-2  # of a coordinate: how far to either side a unit is measured again. Of 645 in single precision, 4e-3 is the most
FOUND = 0.1  # relative error of a jump that is still the one expected: of the same 645, 4e-5 is the most; another's is 1
PLACED = 100.0  # times the noise: hyperplanes nearer to each other are one, measured twice
TINY = float(np.finfo(float).tiny)  # against division by 0
LINES = 200  # never reached
LOOSE = 1e-9  # of the slopes: what sums of a thousand rounded units may be off, and no line mends. The most seen is 6e-12
LOOSELY = 1e3  # times the noise, where that is more: in single precision units of 2e-4 of the slopes are not found
LOOSER = 4.0  # times its largest error so far, a copy that no line mends may be off at fresh points
STALE = 12  # lines in a row that bring nothing: the rest is out of reach


class ResidualExtraction:
    """The copy, growing; `run` may be cut short by an exception of `ask`, and what was found stays."""

    def __init__(
        self,
        ask: Ask,
        region: Region,
        tolerance: Tolerance,
        rng: np.random.Generator,
        *,
        start: TwoLayer,
        checks: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.region, self.tolerance, self.rng = region, tolerance, rng
        self._ask = ask
        self.checks, self.progress = checks, progress
        self.base = start
        "What earlier lines found."
        self.search: BreakpointSearch | None = None
        "The line under way."
        outputs, dimension = start.linear.shape
        self.X, self.C = np.zeros((0, dimension)), np.zeros((0, outputs, dimension + 1))
        "Points at which the copy has been checked so far, and the pieces there."
        self.usual = float(np.linalg.norm(region.usual(np.random.default_rng(0))))
        "The size of usual points."
        self.drawn = np.zeros(0, dtype=bool)
        "Which of them were drawn from the region, rather than chosen."
        self.attempts = 0
        "How often a copy that might be right was checked at fresh points."
        self.agreeing = False
        "Whether the copy was right at all points so far that were asked for this."
        self.noise, self.level = tolerance.noise, SLACK * SUMMED * tolerance.noise
        "Of one answer; and the largest error, relative to slopes, that counts as agreement."
        self.used = 0
        "How many points have had a say in what was asked next, and are fresh no longer."
        self.verified = False
        self.endless = 0
        "Lines on which intervals could be divided without end."
        self.lines = 0
        self.asked = 0
        self.found: list[int] = []
        "Kinks of each line."
        self.history: list[tuple[int, int]] = []
        "Questions so far, and the units known then."

    @property
    def copy(self) -> TwoLayer:
        """Everything found so far."""
        if self.search is None:
            return self.base
        into, bias, out = units(self.search.jumps, self.search.line.direction)
        left = self.search.left
        found = self.base.with_units(into, bias, out, left[:, :-1], left[:, -1])
        return self._reestimate_linear_part(found.merged(self.tolerance.slope, max(PARALLEL, PLACED * self.noise)))

    def run(self) -> None:
        """Line after line until fresh points agree with the copy, or nothing new is found."""
        line, best, most, stale = self.region.line(self.rng), np.inf, 0, 0
        while self.lines < LINES and stale < STALE:
            self.lines += 1
            outputs, dimension = self.base.linear.shape
            trusting = self.lines == 1 and outputs * dimension >= TELLING and (outputs > 1 or self.noise <= PRECISE)
            self.search = BreakpointSearch(self._missing, line, self.tolerance, trusting=trusting)
            settled = self.search.settle(self.progress)
            self.endless += not settled and self.noise <= PRECISE  # coarse answers may hide where an interval ends
            self.found.append(len(self.search.held))
            if self.growing or self.endless:
                return
            worst = self._recheck_suspects()
            while worst <= self.level and self.noise <= PRECISE:
                if self._agrees():
                    self.base, self.search = self.copy, None
                    self.history.append((self.asked, self.base.units))
                    self.verified = self.worst <= SLACK * self.level
                    return
                worst, stale = self._recheck_suspects(), 0  # fresh points tell where to look
            before, self.base, self.search = self.base.units, self.copy, None
            if self.noise > PRECISE:
                self.base = self._reestimate_linear_part(self._remeasure(self.base, before, drop=self._worst() > self.level))
            self.history.append((self.asked, self.base.units))
            self.tolerance.noise = self.noise * SUMMED  # what is missing from now on is a difference of sums
            worst = self._worst()
            # A line across all of space meets every unit: what later ones bring is no progress unless the copy is better.
            progress = worst < best / 2 or (not line.endless and self.base.units > most)
            best, most, stale = min(best, worst), max(most, self.base.units), 0 if progress else stale + 1
            if worst <= self.level and self._agrees():
                return
            if stale == STALE and self.level < worst <= max(LOOSE, LOOSELY * self.noise):
                self.level = LOOSER * worst
                self._agrees()
                return
            line = self._next_line(fresh=self.found[-1] > FEW or stale % 2 == 1 or self.noise > PRECISE)

    def residual(self, copy: TwoLayer, X: Array, C: Array) -> tuple[Array, Array]:
        """The residual r (n, o, d + 1) of a copy at points X (n, d) with pieces C (n, o, d + 1), and its relative size (n,).

        The size is max(‖∇r‖ / s, ‖r(x)‖ / (s‖x‖ + c)), with s and c the largest slope and intercept seen. Near 0, where a
        network without biases has values of any smallness, ‖x‖ is that of usual points.
        """
        lacking = C - copy.pieces(X)
        unit = self.tolerance.scale * np.maximum(np.linalg.norm(X, axis=1), self.usual) + self.tolerance.offset
        value = lacking[:, :, -1] + np.einsum("nod,nd->no", lacking[:, :, :-1], X)
        # On which side of a unit's kink a point lies is open where the unit's share of the value is negligible.
        weights = np.linalg.norm(copy.out, axis=0)
        beside = np.abs(X @ copy.into.T + copy.bias) * weights <= self.level * unit[:, None]
        slope = np.linalg.norm(lacking[:, :, :-1], axis=(1, 2)) - beside @ (weights * np.linalg.norm(copy.into, axis=1))
        return lacking, np.maximum(
            slope / max(self.tolerance.scale, TINY), np.linalg.norm(value, axis=1) / np.maximum(unit, TINY)
        )

    def _worst(self) -> float:
        """The largest error at points asked for checking, of which there are some from now on."""
        self._ask_first()
        return self.worst

    def _ask_first(self) -> None:
        if not len(self.X):
            # The more kinks, the more points it takes to tell which are wrong; jumps of several outputs are hardly ever.
            scalar = self.base.linear.shape[0] == 1
            many = min(GUIDES, self.copy.units // 10) if scalar else min(SEVERAL, self.checks)
            self._ask_more(self.region.points(max(FEW, many), self.rng))

    def _ask_more(self, X: Array, drawn: bool = True) -> Array:
        C = self.ask(X)
        self.X, self.C = np.concatenate([self.X, X]), np.concatenate([self.C, C])
        self.drawn = np.concatenate([self.drawn, np.full(len(X), drawn)])
        return C

    @property
    def fresh(self) -> int:
        """Points drawn from the region that had no say in what was asked next."""
        return int(self.drawn[self.used :].sum())

    @property
    def worst(self) -> float:
        """The largest error of the copy at any point asked for checking."""
        return float(self.errors().max(initial=0))

    @property
    def growing(self) -> bool:
        """Whether every line brings as many kinks as any before it: they are not those of one layer.

        A first line may miss most of one layer: of 300 units that weight decay left nearly parallel, lines brought 13, 295
        and 28. In a box or a ball a line meets some of the units only, and two that follow may well meet others.
        """
        lines = BOUNDED_LINES if self.region.bounded else 3
        counts = self.found[:lines]
        return len(counts) == lines and all(counts[n] > MANY * max(counts[:n]) + FEW for n in range(1, lines))

    def errors(self) -> Array:
        """Of the copy, at all points asked for checking."""
        return self.residual(self.copy, self.X, self.C)[1]

    def ask(self, X: Array) -> Array:
        self.asked += len(X)
        return self.tolerance.see(self._ask(X))

    def _missing(self, X: Array) -> Array:
        return self.ask(X) - self.base.pieces(X)

    def _agrees(self) -> bool:
        """Whether points agree with the copy: a few fresh ones, some beside kinks, some chosen to refute it, many fresh."""
        copy, hints = self.copy, np.concatenate([self.copy.into, self.C[:, :, :-1].reshape(-1, self.X.shape[1])])
        self.attempts += 1
        wanted = max(0, round(self.checks * (1 + AGAIN * (self.attempts - 1))) - self.fresh)
        fresh = self.region.points(wanted, self.rng, hints)
        refuting = chosen_points(copy, self.region.usual(self.rng), self.rng)
        refuting = np.array([x for x in refuting if self.region.holds(x)]).reshape(-1, self.X.shape[1])
        rest = [(fresh[start : start + BATCH], True) for start in range(FEW, wanted, BATCH)]
        for X, drawn in ((fresh[:FEW], True), (self._tight(copy), False), (refuting, False), *rest):
            if len(X) and (self.residual(copy, X, self._ask_more(X, drawn))[1] > self.level).any():
                self.agreeing = False
                return False
            self.agreeing = True
        self.verified = True
        return True

    def _remeasure(self, copy: TwoLayer, known: int, drop: bool) -> TwoLayer:
        """Re-measure new units as jumps across their hyperplanes, where points are usual; `drop` those not there."""
        into, bias, out = copy.into.copy(), copy.bias.copy(), copy.out.copy()
        new = np.arange(min(known, copy.units), copy.units)
        if not len(new):
            return copy
        X = np.array([self.region.usual(self.rng) for _ in new])
        normals = into[new] / np.linalg.norm(into[new], axis=1, keepdims=True)
        X -= (np.einsum("nd,nd->n", X, normals) + bias[new] / np.linalg.norm(into[new], axis=1))[:, None] * normals
        gap = GAP * np.linalg.norm(X, axis=1, keepdims=True) / np.sqrt(X.shape[1]) * normals
        inside = np.array([self.region.holds(x) for x in np.concatenate([X + gap, X - gap])]).reshape(2, -1).all(0)
        new, X, gap = new[inside], X[inside], gap[inside]
        if not len(new):
            return copy
        on, off = np.split(self.ask(np.concatenate([X + gap, X - gap])), 2)
        jumps = on - off
        expected = out.T[new][:, :, None] * into[new][:, None, :]
        error = np.linalg.norm(jumps[:, :, :-1] - expected, axis=(1, 2)) / np.linalg.norm(expected, axis=(1, 2))
        found, gone = new[error < FOUND], new[error >= FOUND]
        into[found], bias[found], out[:, found] = units(jumps[error < FOUND], into[found])
        kept = ~np.isin(np.arange(copy.units), gone if drop else [])
        return TwoLayer(into[kept], bias[kept], out[:, kept], copy.linear, copy.constant)

    def _reestimate_linear_part(self, copy: TwoLayer) -> TwoLayer:
        """Re-estimate the linear part where points are usual: at the far end of a line, digits are lost."""
        if not len(self.X):
            return copy
        lacking = self.C - copy.pieces(self.X)
        off = np.linalg.norm(lacking[:, :, :-1], axis=(1, 2)) / max(self.tolerance.scale, TINY)
        size = np.linalg.norm(self.X, axis=1)
        good = np.flatnonzero(off < max(NEARLY, 4 * self.level))  # all units on the right side, beside none
        if not len(good):
            return copy
        shift = lacking[good[np.argmin(size[good])]]
        return replace(copy, linear=copy.linear + shift[:, :-1], constant=copy.constant + shift[:, -1])

    def _tight(self, copy: TwoLayer) -> Array:
        """Points beside many kinks at once, on one side and on the other: a kink that is several is wrong on one of them.

        Half as many hyperplanes as there are dimensions meet in points not too far away.
        """
        weights, lengths = np.linalg.norm(copy.out, axis=0), np.linalg.norm(copy.into, axis=1)
        waiting, group = self.rng.permutation(copy.units), max(1, self.base.linear.shape[1] // 2)
        found: list[Array] = []
        # In a small region few planes meet; as many points again as are asked anyway have to do.
        while len(waiting) and not (self.region.bounded and len(found) >= self.checks):
            chosen, waiting = waiting[:group], waiting[group:]
            planes, shift = copy.into[chosen], copy.bias[chosen]
            at = self.region.usual(self.rng)
            inverse = np.linalg.pinv(planes, rcond=CONDITION)
            at = at - inverse @ (planes @ at + shift)
            size = np.linalg.norm(at)
            negligible = self.level * (self.tolerance.scale * size + self.tolerance.offset) / weights[chosen]
            gap = np.maximum(TIGHT * size * lengths[chosen], 4 * negligible)
            step = inverse @ (gap * self.rng.choice([-1.0, 1.0], len(chosen)))
            met = np.abs(np.abs(planes @ (at + step) + shift) - gap) < gap / 2
            if met.any() and self.region.holds(at + step) and self.region.holds(at - step):
                found += [at + step, at - step]
                waiting = np.concatenate([waiting, chosen[~met]])
            elif group > 1:  # parallel planes do not meet, and others only outside the region
                waiting = np.concatenate([waiting, chosen])
                group //= 2
        return np.array(found).reshape(-1, self.base.linear.shape[1])

    def _recheck_suspects(self) -> float:
        """Probe those kinks again that look most like the residual, as long as some are wrong; the largest error then left.

        A kink is a suspect if its jump J is in line with the residuals R_i at wrong points: Σ_i cos²(R_i, J) is an outlier.
        """
        search = self.search
        while search is not None:
            self._ask_first()
            lacking, error = self.residual(self.copy, self.X, self.C)
            worst, bad = float(error.max()), error > self.level
            if self.progress:
                self.progress(len(search.held), len(search.held) + int(bad.sum()))
            open_kinks = np.flatnonzero(~search.tested.all(1))
            if not bad.any() or not len(open_kinks):
                break
            self.used = len(self.X)
            jumps = search.jumps[open_kinks][:, :, :-1].reshape(len(open_kinks), -1)
            rest = lacking[bad][:, :, :-1].reshape(int(bad.sum()), -1)
            likeness = ((_unit(rest) @ _unit(jumps).T) ** 2).sum(0)
            middle = np.median(likeness)
            spread = 1.5 * np.median(np.abs(likeness - middle))
            suspects = np.flatnonzero(likeness > middle + OUTLYING * spread)
            if not len(suspects):
                # Each wrong kink is missed at about half of the points.
                wrong = 2 * (rest**2).sum() / len(bad) / np.mean((jumps**2).sum(1))
                suspects = np.flatnonzero(~search.tested[open_kinks].any(1))
                suspects = suspects if len(suspects) else np.arange(len(open_kinks))
                if WORTH * wrong < len(suspects):
                    break
            if not search.recheck(open_kinks[suspects]):
                break
        return worst

    def _next_line(self, fresh: bool) -> QueryLine:
        """A fresh line; or, where only some points lack anything, from one of those to one of the others."""
        bad = self.residual(self.base, self.X, self.C)[1] > self.level
        self.used = len(self.X)
        if fresh or not bad.any() or bad.mean() > MOST:
            return self.region.line(self.rng)
        one = int(self.rng.choice(np.flatnonzero(bad)))
        other = int(self.rng.choice(np.flatnonzero(~bad)))
        return segment(self.X[one], self.X[other])


def units(jumps: Array, towards: Array) -> tuple[Array, Array, Array]:
    """Units (into, bias, out) with these jumps (n, o, d + 1) that switch on in a direction (d,), or one each (n, d)."""
    if jumps.shape[1] == 1:
        sign = np.where((jumps[:, 0, :-1] * towards).sum(1) < 0, -1.0, 1.0)
        return jumps[:, 0, :-1] * sign[:, None], jumps[:, 0, -1] * sign, sign[None]
    left, size, right = np.linalg.svd(jumps[:, :, :-1], full_matrices=False)
    sign = np.where((right[:, 0] * towards).sum(1) < 0, -1.0, 1.0)
    out = left[:, :, 0] * (size[:, 0] * sign)[:, None]
    square = (out**2).sum(1)
    bias = (out * jumps[:, :, -1]).sum(1) / np.where(square > 0, square, 1)
    return right[:, 0] * sign[:, None], bias, out.T


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny))
