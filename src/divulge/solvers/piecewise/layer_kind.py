"""Whether kinks are those of one hidden layer, of several, or of a curve: told by two or three, in a few dozen questions.

A unit of the first of two layers has the same jump everywhere on its hyperplane. Behind further layers the jump of a
first-layer unit depends on which of the others are on, and a deeper unit's hyperplane bends where it meets another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_gradient import PRECISE, STEPS, Ask, BreakpointSearch, QueryLine, Tolerance
from divulge.solvers.piecewise.regions import Everywhere, Region, segment

Kind = Literal["one layer", "several layers", "curved", "unsettled"]

ENOUGH = 2  # kinks that say the same
QUESTIONS, ALL = 24, 44  # until one is found on a line, and in all: as many halvings leave no two of 10,000 kinks together
OPPOSITE = 1e6  # times the usual size: where biases do not matter any more
UNEQUAL = 0.1  # of the slopes: sums at opposite points that differ more are no two-layer network's
AWAY = (1.0, 100.0)  # times the usual size: where on its hyperplane a kink is looked for again
BESIDE, WIDELY = 1e-9, 1e-4  # of its size: how far to both sides; widely, as two that are nearly parallel may pass for one
ALIKE = 1e-2  # relative error of a jump that is the same
PLACES = 3  # in a box or a ball, or where answers are coarse
PARTLY = 0.2  # where they are: how far the share of the jump may be from 1. In one layer it is by 0.01, in two by 0.6 to 1
DRAWS = 50  # of lines that may not meet a hyperplane inside the region
INNER = 0.98  # of the way to the ends of a line: with room to both sides
PATCHED = 0.4  # of a picture's side: a unit that sees no more sees a patch
SMALLEST, FEWEST = 8, 4  # side of a picture and inputs of a unit that can be told to be a patch of it
SILENT = 0.02  # of the largest weight: an input with no more is not looked at


@dataclass(frozen=True)
class LayerKind:
    """What was seen."""

    kind: Kind
    kinks: int = 0
    "How many were looked for again elsewhere on their hyperplanes,"
    changed: int = 0
    "and how many of them were not there, or not the same."
    patches: bool = False
    "Whether one of them depends on a patch of a square picture only."
    unequal: bool = False
    "Whether far away the slopes at opposite points do not add up to the same."


def probe(ask: Ask, lines: Iterable[QueryLine], region: Region, tolerance: Tolerance, rng: np.random.Generator) -> LayerKind:
    """Compare opposite points; find single kinks on lines, one after the other, and look for each along its hyperplane."""
    asked = 0

    def see(X: Array) -> Array:
        nonlocal asked
        asked += len(X)
        return tolerance.see(ask(X))

    tally = _Tally(isinstance(region, Everywhere) and opposites_differ(see, region, rng), tolerance.noise > PRECISE)
    patches = False
    for line in lines:
        search = BreakpointSearch(see, line, tolerance)
        while tally.kind == "unsettled" and asked < ALL and search.isolate(min(QUESTIONS, ALL - asked)):
            kink = _Kink(search)
            patches |= sees_a_patch(kink.weights(tolerance))
            tally.add(kink.elsewhere(see, region, tolerance, rng))
        if search.curved and not tally.same:
            return LayerKind("curved")
        if tally.kind != "unsettled" or asked >= ALL:
            break
    kind = tally.kind
    if kind == "unsettled" and tally.unequal and (tally.changed or not tally.same):
        kind = "several layers"
    return LayerKind(kind, tally.same + tally.changed, tally.changed, patches, tally.unequal)


@dataclass
class _Tally:
    """How many kinks were the same elsewhere, and how many were not."""

    unequal: bool
    "Whether opposite points say that there are several layers; huge biases say so too, but leave kinks as they are."
    coarse: bool
    "Whether two kinks may pass for one that changes."
    same: int = 0
    changed: int = 0

    def add(self, found: bool | None) -> None:
        self.same, self.changed = self.same + (found is True), self.changed + (found is False)

    @property
    def kind(self) -> Kind:
        if self.same >= ENOUGH and self.same > self.changed and not self.unequal:
            return "one layer"
        if self.same > ENOUGH and not self.changed:
            return "one layer"
        several = self.changed >= ENOUGH + (self.same if self.coarse and not self.unequal else 0)
        return "several layers" if several and self.changed > self.same else "unsettled"


def opposites_differ(ask: Ask, region: Everywhere, rng: np.random.Generator) -> bool:
    """Whether ∇f(x) + ∇f(-x) is another one for another x, far away.

    Of a two-layer network every unit is on at one of two opposite points, so that the sum is Σ v_i w_i wherever they are.
    """
    far = OPPOSITE * np.stack([region.usual(rng) for _ in range(2)])
    slopes = ask(np.concatenate([far, -far]))[:, :, :-1]
    one, other = slopes[:2] + slopes[2:]
    return bool(np.linalg.norm(one - other) > UNEQUAL * np.linalg.norm(slopes, axis=(1, 2)).max())


class _Kink:
    """The last kink that a search holds: n·x + c = 0 with the jump (o, d + 1) across."""

    def __init__(self, search: BreakpointSearch) -> None:
        self.jump, self.coarse = search.jumps[-1], search.coarse
        self.distance = float(search.distance[search.held[-1]].max())
        left, size, right = np.linalg.svd(self.jump[:, :-1], full_matrices=False)
        self.size = float(np.linalg.norm(self.jump[:, :-1]))
        sign = 1.0 if right[0] @ search.line.direction > 0 else -1.0  # from before to after the kink
        self.normal, out = sign * right[0], sign * size[0] * left[:, 0]
        self.shift = float(out @ self.jump[:, -1] / (out @ out))
        ends = search.line.points(search.along[search.held[-1]]) @ self.normal
        self.place = abs(float(ends[1] - ends[0])) / 2
        "How far off its hyperplane may be here."
        by_value = float(search.tolerance.intercept(np.array(self.distance))) / self.size
        if self.coarse and self.place < by_value:  # where it was found says more than values do
            self.shift = -float(ends.mean())
        self.place = min(self.place, by_value)

    def weights(self, tolerance: Tolerance) -> Array:
        """How much the unit looks at every input, (d,)."""
        found = np.linalg.norm(self.jump[:, :-1], axis=0)
        return np.asarray(np.where(found > max(SILENT * found.max(), STEPS * tolerance.slope), found, 0.0))

    def elsewhere(self, ask: Ask, region: Region, tolerance: Tolerance, rng: np.random.Generator) -> bool | None:
        """Whether the kink is the same at other places of its hyperplane; None where there are none in the region."""
        seen: list[bool] = []
        for away in AWAY if isinstance(region, Everywhere) and not self.coarse else AWAY[:1] * PLACES:
            place = self._place(region, away, rng)
            if place is None:
                continue
            size = float(np.linalg.norm(place))
            if self.coarse:
                gap = max(BESIDE * size, tolerance.slope / self.size * (size + self.distance) + 2 * self.place)
                share = float((self._across(ask, place, gap) * self.jump[:, :-1]).sum()) / self.size**2
                seen.append(abs(share - 1) < PARTLY)
                if max(seen.count(True), seen.count(False)) > PLACES // 2:
                    return seen[-1]
                continue
            gap = STEPS * float(tolerance.intercept(np.array(size + self.distance))) / self.size
            seen.append(
                self._there(ask, place, max(BESIDE * size, gap), ALIKE)
                or self._there(ask, place, max(WIDELY * size, 2 * gap), ALIKE)
            )
            if not seen[-1]:
                return False
        return all(seen) if seen else None

    def _place(self, region: Region, away: float, rng: np.random.Generator) -> Array | None:
        if isinstance(region, Everywhere):
            place = away * region.usual(rng)
            return np.asarray(place - (self.normal @ place + self.shift) * self.normal)
        for _ in range(DRAWS):
            inside = region.usual(rng)
            line = segment(*inside + INNER * (region.points(2, rng) - inside))
            steep = float(self.normal @ line.direction) or np.finfo(float).tiny
            along = float(np.clip(-(self.normal @ line.start + self.shift) / steep, -1, 2))
            place = line.points(np.array([along]))[0]
            step = 2 * WIDELY * np.linalg.norm(place) * self.normal
            if 0 < along < 1 and region.holds(place + step) and region.holds(place - step):
                return np.asarray(place)
        return None

    def _across(self, ask: Ask, place: Array, gap: float) -> Array:
        before, after = ask(np.stack([place - gap * self.normal, place + gap * self.normal]))
        return np.asarray((after - before)[:, :-1])

    def _there(self, ask: Ask, place: Array, gap: float, alike: float) -> bool:
        return bool(np.linalg.norm(self._across(ask, place, gap) - self.jump[:, :-1]) <= alike * self.size)


def sees_a_patch(weights: Array) -> bool:
    """Whether the inputs (d,) with weights lie in a small part of a square picture, of one colour or of three."""
    for colours in (1, 3):
        side = round((len(weights) / colours) ** 0.5)
        if colours * side**2 != len(weights) or side < SMALLEST:
            continue
        for picture in (weights.reshape(colours, side, side).max(0), weights.reshape(side, side, colours).max(2)):
            rows, columns = np.flatnonzero(picture.max(1)), np.flatnonzero(picture.max(0))
            if np.count_nonzero(weights) >= FEWEST and max(np.ptp(rows), np.ptp(columns)) < PATCHED * side:
                return True
    return False
