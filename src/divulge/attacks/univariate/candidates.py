"""What a piecewise linear function and its margin say about training points, and how much of it is certain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from divulge.contract import Array, TrainingData, Weights
from divulge.solvers.univariate import margin_minima, margin_points, near_margin, polyline
from divulge.solvers.univariate.margin_points import Stationarity
from divulge.solvers.univariate.polyline import Piecewise, Reading

STATIONARY = 1e-4
"""Share of the weights that points on the margin may leave unexplained at a KKT point, and by which |v| and ‖(w, b)‖ of a
unit may differ there. Minima leave 1e-14, and 3e-7 in single precision; L-BFGS with weight decay ends 1.5e-4 off balance."""
NEEDED = 1e-3
"""Share of its multiplier that a point must keep in every explanation to be a training point for certain. All 180
multipliers of 24 minima kept 1 − 1e-8 of theirs, and one that can be done without falls to 0: anything between would do."""
SEVERAL = 2
"Places with the same |N|, at least, for that to be the margin; where there is one, no other margin may explain the weights."
VISIBLE = 3
"The same where values are all there is and no weights can be explained: two may have the same value by symmetry."
DEAD = 1e-12
"Of the largest unit: one that adds less is none, but rounding."
BIASED = 1e-9
"Of the largest value at a breakpoint: a smaller output bias is none, but rounding."

SAME = 1e-3
"""Of the candidates' range: those nearer than this to the first of a group are one, as scoring counts them. Trained networks
have several breakpoints beside a training point, 3e-4 apart (SQP); those certain each are never taken together."""


@dataclass(frozen=True, eq=False)
class Found:
    """The points at which a function meets its margin, and what is known of them."""

    function: Piecewise
    reading: Reading
    margin_from: str
    "How the margin was found, as a sentence."
    doubts: tuple[str, ...]
    "Why nothing is certified, where that is so."
    certain: Array
    "(p,): points on the margin without which the weights cannot be explained."
    certified: Array
    "(p,): those, and the members of windows that a theorem opens."
    weight: Array
    "(p,): multipliers of the best explanation, 0 where there is none."
    more: Array
    "(e,): further candidates without any certificate."
    notes: tuple[str, ...] = ()
    misfit: str = ""
    "What the theorem does not allow for in a network of this kind."
    shift: float = 0.0
    "Added to every place: what the network subtracts from its input."
    tolerance: float = 0.0
    "Within which of a training point a certificate holds, in shares of the breakpoints' spread; 0 where it is exact."

    @property
    def order(self) -> Array:
        """Places of the points: certain ones first, then certified ones, then by their multiplier."""
        return np.lexsort([self.reading.points, -self.weight, ~self.certified, ~self.certain])

    @property
    def x(self) -> Array:
        """(p + e,): all candidates, the surest first."""
        return np.concatenate([self.reading.points[self.order], self.more]) + self.shift

    @property
    def guarantee(self) -> int:
        """Training points among the certified ones, at least."""
        open_still = [one for one in self.all_windows if not self.certain[one.members].any()]
        return int(self.certain.sum()) + polyline.guaranteed(open_still)

    @property
    def windows(self) -> list[polyline.Window]:
        """Those whose theorem holds here."""
        return [one for one in self.reading.windows if self.certified[one.members].all()]

    @property
    def all_windows(self) -> list[polyline.Window]:
        """Those, and what else the same proofs open."""
        return [*self.windows, *(one for one in self.reading.further if self.certified[one.members].all())]

    def loot(self) -> TrainingData | None:
        x = self.x
        return TrainingData(x[:, None], np.sign(self.function(x - self.shift)).astype(int)) if len(x) else None


def of_weights(held: Weights, margin: float | None, slack: float) -> Found:
    """Candidates of a network with one input and one output, each once."""
    found = _of_weights(held, margin, slack)
    if found.misfit or found.certified.any() or not held.exact:
        return _distinct(found)
    return _distinct(_nearly(found, margin))


def of_values(function: Piecewise, margin: float | None, slack: float) -> Found:
    """Candidates of a function of which nothing but its values is known, each once."""
    found = _of_values(function, margin, slack)
    return _distinct(found if found.certified.any() else _nearly(found, margin))


def _of_weights(held: Weights, margin: float | None, slack: float) -> Found:
    function = polyline.of_network(held.layers)
    shift = 0.0 if held.mean is None else float(held.mean[0])
    misfit = _misfit(held, function)
    copy = "" if held.exact else f"the weights are a copy that agrees at {held.agreement:.1%} of check points"
    if misfit:
        found = _of_values(function, margin, slack)
        bare = np.zeros_like(found.certified)
        doubts = (misfit, *([copy] if copy else []))
        return replace(found, doubts=doubts, misfit=misfit, certified=bare, shift=shift)
    w, b, v, balance = _units(held)
    balanced = balance <= STATIONARY and len(w) > 0
    value, said, unsettled = _margin(function, (w, b, v) if balanced else None, margin, slack)
    reading = polyline.read(function, value, slack) if value > 0 else _nothing()
    program = Stationarity.of(w, b, v, reading.points, reading.signs, reading.plateaus)
    explained = program.explained() if balanced else None
    wrong = [one for one in (copy, unsettled, _empty(reading)) if one]
    if explained is None:
        wrong.append(f"units are off balance by {balance:.1e} of the largest, which no KKT point is")
    elif explained.residual > STATIONARY:
        left = f"points on the margin leave {explained.residual:.1e} of the weights unexplained"
        wrong.append(f"{left}, so this is no KKT point")
    certain = np.zeros(len(reading.points), dtype=bool)
    certified, notes = certain, []
    if explained is not None:
        notes.append(f"Points on the margin explain the weights but for {explained.residual:.1e}.")
    if not wrong:
        certain = program.needed(NEEDED)
        certified, more = _certified(reading, certain, w, b, v)
        notes += more
    return Found(
        function,
        reading,
        said,
        tuple(wrong),
        certain,
        certified,
        weight=np.zeros(len(reading.points)) if explained is None else explained.multipliers,
        more=_peaks(function, reading) if wrong or explained is None else _inside(reading, explained),
        notes=tuple(notes),
        shift=shift,
    )


def _of_values(function: Piecewise, margin: float | None, slack: float) -> Found:
    votes = margin_points.voted(function, function.knots)
    if margin is not None:
        value, said = float(margin), f"The margin {margin:g} was given."
    elif votes and votes[0][1] >= VISIBLE:
        value, said = votes[0][0], f"The margin {votes[0][0]:.6g} was found: |N| is that at {votes[0][1]} breakpoints."
    else:
        value, said = _fallback(function)
    reading = polyline.read(function, value, slack) if value > 0 else _nothing()
    same = max((number for one, number in votes if abs(one - value) <= slack * value), default=0)
    few = f"|N| is the margin at {same} breakpoints, and {VISIBLE} would show that it is one" if same < VISIBLE else ""
    doubts = [one for one in (few, _empty(reading)) if one]
    none = np.zeros(len(reading.points), dtype=bool)
    certified = none.copy()
    for window in (*reading.windows, *reading.further) if not doubts else ():
        if window.theorem != "3.3":  # needs a local minimum and a unit that is always on, which values do not show
            certified[window.members] = True
    more = _peaks(function, reading) if doubts else np.empty(0)
    return Found(function, reading, said, tuple(doubts), none, certified, np.zeros(len(none)), more)


def _nearly(found: Found, margin: float | None) -> Found:
    """The same with what can be certified at a tolerance, where the function is near one that training points have made."""
    near = near_margin.read_nearly(found.function, margin)
    if near is None:
        return found
    certified = np.zeros(len(near.reading.points), dtype=bool)
    for window in near.windows:
        certified[window.members] = True
    within = f"{near.tolerance:g} of their spread"
    said = (
        f"Nothing is certified exactly: {'; '.join(found.doubts)}. With breakpoints nearer than {within} taken together, "
        f"{len(near.on)} of {near.knots} are on the margin to {near.slack:.1g} of it. Certificates hold to that much: "
        f"a training point is within {within} of one of each group."
    )
    return replace(
        found,
        reading=near.reading,
        margin_from=f"The margin {near.reading.margin:.6g} was found: |N| is nearly that at {len(near.on)} breakpoints.",
        doubts=(),
        certain=np.zeros_like(certified),
        certified=certified,
        weight=np.zeros(len(certified)),
        more=np.concatenate([found.reading.points, found.more]),
        notes=(*found.notes, said),
        tolerance=near.tolerance,
    )


def _distinct(found: Found) -> Found:
    """The same with candidates that are one listed once, in the windows too."""
    points, reading = found.reading.points, found.reading
    reach = float(np.ptp(np.concatenate([points, found.more]))) if len(points) + len(found.more) else 0.0
    groups = _groups(points, found.certain, SAME * reach)
    count = int(groups.max(initial=-1)) + 1
    first = np.zeros(count, dtype=int)
    for one in range(count):  # the middle one stands for its group, or the one that is certain
        members = np.flatnonzero(groups == one)
        sure = members[found.certain[members]]
        first[one] = sure[0] if len(sure) else members[len(members) // 2]
    windows, further = (
        tuple(replace(window, members=np.unique(groups[window.members])) for window in some)
        for some in (reading.windows, reading.further)
    )
    kept = replace(reading, points=points[first], signs=reading.signs[first], windows=windows, further=further)
    others = np.sort(found.more)
    others = others[_firsts(others, SAME * reach)]
    far = np.array([not (np.abs(kept.points - one) <= SAME * reach).any() for one in others], dtype=bool)
    return replace(
        found,
        reading=kept,
        certain=found.certain[first],
        certified=np.array([bool(found.certified[groups == one].any()) for one in range(count)], dtype=bool),
        weight=np.array([float(found.weight[groups == one].sum()) for one in range(count)]),
        more=others[far],
    )


def _groups(points: Array, certain: Array, near: float) -> Array:
    """(p,): which of sorted points are one: within a distance of the first, and no two of them certain."""
    groups, start, sure = np.zeros(len(points), dtype=int), 0, False
    for place in range(len(points)):
        if place and (points[place] - points[start] > near or (sure and certain[place])):
            start, sure = place, False
            groups[place:] += 1
        sure = sure or bool(certain[place])
    return groups


def _firsts(x: Array, near: float) -> Array:
    """Places of those of sorted x that are farther than a distance from the one kept before."""
    groups = _groups(x, np.zeros(len(x), dtype=bool), near)
    return np.flatnonzero(np.append(True, np.diff(groups) > 0)) if len(x) else np.zeros(0, dtype=int)


def _misfit(held: Weights, function: Piecewise) -> str:
    """What about the network's form the theorem has no room for."""
    if len(held.layers) > 2:
        return f"the theorem is about one hidden layer, and the network has {len(held.layers) - 1}"
    bias = float(np.abs(held.layers[-1][1]).max())
    if bias > BIASED * np.abs(function.values).max(initial=0.0):
        return f"the theorem is about networks without a bias of the output, and this one has {bias:.3g}"
    return ""


def _units(held: Weights) -> tuple[Array, Array, Array, float]:
    """w, b and v of the units that add anything, and how far all are from balance; 1 where none does."""
    (W, bias), (V, _) = held.layers
    w, b, v = W[:, 0].astype(float), bias.astype(float), V[0].astype(float)
    sizes = np.abs(v) * np.hypot(w, b)
    kept = sizes > DEAD * sizes.max()
    return w[kept], b[kept], v[kept], margin_points.balance(w, b, v) if kept.any() else 1.0


def _margin(
    function: Piecewise, units: tuple[Array, Array, Array] | None, given: float | None, slack: float
) -> tuple[float, str, str]:
    """The margin, how it was found, and what is doubtful about it."""
    guess = margin_points.likely_margin(function, *units, slack, STATIONARY) if units else None
    if given is not None:
        other = guess is not None and guess.votes >= SEVERAL and abs(guess.value - given) > slack * given
        doubt = f"{guess.votes} places speak for another margin, {guess.value:.6g}" if guess is not None and other else ""
        return given, f"The margin {given:g} was given.", doubt
    if guess is None or units is None:
        value, said = _fallback(function)
        return value, said, "the margin is not settled"
    found = f"The margin {guess.value:.6g} was found"
    if guess.votes >= SEVERAL:
        return guess.value, f"{found}: |N| is that at {guess.votes} places, and its points explain the weights.", ""
    if margin_points.is_alone(function, guess.value, *units, slack, STATIONARY):
        return guess.value, f"{found}: its points explain the weights, and those of no other do.", ""
    said = f"The margin {guess.value:.6g} was taken: its points explain the weights, but so do those of others."
    return guess.value, said, "the margin is not settled"


def _empty(reading: Reading) -> str:
    return f"{reading.empty} windows hold no point on the margin, as they would at a KKT point" if reading.empty else ""


def _fallback(function: Piecewise) -> tuple[float, str]:
    """A margin where nothing settles it: the lowest peak, or else the largest value at a breakpoint."""
    tops = np.abs(function(polyline.peaks(function)))
    tops = tops[tops > 0]
    if len(tops):
        value = float(tops.min())
        return value, f"No margin stands out; {value:.6g}, the lowest peak of |N|, was taken."
    value = float(np.abs(function.values).max(initial=0.0))
    if value == 0:
        return 0.0, "No margin stands out, and no breakpoint has a value above 0 that could be one."
    return value, f"No margin stands out; {value:.6g}, the largest |N| at a breakpoint, was taken."


def _nothing() -> Reading:
    none = np.empty(0)
    return Reading(0.0, none, none, np.empty((0, 2)), (), (), 0)


def _certified(reading: Reading, certain: Array, w: Array, b: Array, v: Array) -> tuple[Array, list[str]]:
    """Members of windows whose theorem holds, with the certain points; and what was checked."""
    certified, notes = certain.copy(), []
    third = [window for window in reading.windows if window.theorem == "3.3"]
    holds = True
    if third:
        root = np.sqrt(reading.margin)
        lowest = bool(certain.any()) and margin_minima.is_local_minimum(
            w / root, b / root, v / root, reading.points[certain], reading.signs[certain]
        )
        always = bool((np.outer(reading.points, w) + b > 0).all(axis=0).any())
        holds = lowest and always
        notes.append(
            f"Theorem 3.3 would open {len(third)} windows and {'does' if holds else 'does not'}: the weights are "
            f"{'' if lowest else 'not shown to be '}a local minimum, and {'a' if always else 'no'} unit is on at all points."
        )
    for window in (*reading.windows, *reading.further):
        if window.theorem != "3.3" or holds:
            certified[window.members] = True
    return certified, notes


def _inside(reading: Reading, explained: margin_points.Explanation) -> Array:
    """Where a single training point on a plateau would have to be, for every plateau that the weights cannot do without."""
    found = []
    for (low, high), (first, last) in zip(reading.plateaus, explained.inside, strict=True):
        bounded = np.isfinite(low) and np.isfinite(high)
        if first > 0 and last > 0 and bounded:
            found.append((first * low + last * high) / (first + last))
        elif np.isfinite(low) and first > 0:
            found.append(low + last / first if np.isinf(high) else low)
        elif np.isfinite(high) and last > 0:
            found.append(high - first / last if np.isinf(low) else high)
    return _new(np.array(found), reading.points)


def _peaks(function: Piecewise, reading: Reading) -> Array:
    """Peaks at or above the margin that are not on it."""
    tops = polyline.peaks(function)
    return _new(tops[np.abs(function(tops)) > reading.margin], reading.points)


def _new(x: Array, known: Array) -> Array:
    """Places that are not among those known, up to rounding."""
    spread = float(np.ptp(np.concatenate([x, known]))) if len(x) + len(known) else 0.0
    return np.array([one for one in x if not (np.abs(known - one) <= polyline.MERGE * spread).any()])
