"""Hyperparameters by training again: the values whose parameters are the ones observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from divulge.arrays import Array
from divulge.solvers.shared.rounding import RATIOS, round_numbers

Values = dict[str, float]
Train = Callable[[Mapping[str, float]], Array]

SAME = 500.0  # times machine precision: the relative distance below which two trainings are one, on another BLAS
STEP = 1e-6  # relative change of a value for a difference quotient: its error and that of rounding are both small in double
ROUGH = 1e-8  # relative distance at which a descent has arrived: what is claimed as a replay (estimators.REPLAYED)
SAFETY = 10.0  # times the distance that is left: neighbouring trainings do not lie on a straight line
FINEST = 1e-8  # relative half-width of an interval around a training that is near, but not the same bit for bit
SNAPPED = 40  # round numbers tried inside one interval: two thirds of the 63 trainings allowed by default
DECADES = (-7, 4)  # searched where nothing else says where to begin: penalties that learners are trained with
UNIT = ("l1_ratio",)  # hyperparameters between 0 and 1, changed by adding; the others by factors


@dataclass(frozen=True)
class Match:
    """The nearest training found."""

    values: Values
    half_widths: Values
    distance: float
    "of the parameters from those observed, in units of their norm"
    same: bool
    "bit for bit, or as near as another machine would come"
    snapped: bool
    "whether the values are round numbers"
    fits: int


class _Trials:
    """Trainings already done, and the nearest."""

    def __init__(self, train: Train, observed: Array, most: int, seen: Callable[[int], None]) -> None:
        self.train, self.observed, self.most, self.seen = train, observed, most, seen
        self.epsilon = float(np.finfo(observed.dtype).eps)
        double = self.epsilon < 1e-12
        # In single precision a neighbouring value trains to the same but for noise: only bits count.
        self.same = SAME * self.epsilon if double else 0.0
        self.step = STEP if double else 3e-4
        self.size = float(np.linalg.norm(observed)) or 1.0
        self.done: dict[tuple[float, ...], Array] = {}
        self.best: tuple[float, Values] = (np.inf, {})

    @property
    def left(self) -> int:
        return self.most - len(self.done)

    def distance(self, values: Values) -> float:
        return self._distance(self(values))

    def _distance(self, found: Array) -> float:
        return float(np.linalg.norm(found - self.observed)) / self.size if np.isfinite(found).all() else np.inf

    def __call__(self, values: Values) -> Array:
        key = tuple(values.values())
        if key not in self.done:
            found = self.train(values)
            if found.shape != self.observed.shape or not np.isfinite(found).all():
                found = np.full(self.observed.shape, np.inf)
            self.done[key] = found
            self.seen(len(self.done))
            if self._distance(found) < self.best[0]:
                self.best = self._distance(found), dict(values)
        return self.done[key]


def match(
    train: Train,
    observed: Array,
    around: Mapping[str, tuple[float, float]],
    *,
    most: int = 63,
    cut: Array | None = None,
    seen: Callable[[int], None] = lambda done: None,
    extra: Mapping[str, Sequence[float]] | None = None,
) -> Match:
    """argmin over values in the intervals `around` of ‖train(values) − observed‖: round ones first, then Gauss-Newton.

    `cut` holds, for parameters that were rounded, half a unit of their last digit each: the interval is then all
    values that round to the same. `extra` are more values worth a try, like the round ones.
    """
    trials = _Trials(train, observed, most, seen)
    known = dict(around)
    tolerance = trials.same if cut is None else float(np.linalg.norm(cut)) / trials.size
    for values in _round_values(known, min(SNAPPED, most * 2 // 3), extra):
        trials(values)
        if trials.best[0] <= tolerance and (cut is None or _agrees(trials(trials.best[1]), observed, cut)):
            break
    else:
        if not trials.best[1]:
            trials({name: _middle(name, ends) for name, ends in known.items()})
        _descend(trials, known, tolerance, trials.best[1])
        if trials.best[0] > max(tolerance, ROUGH):
            _scatter(trials, known, tolerance)
        _snap(trials)
    distance, values = trials.best
    widths = _widths(trials, values, cut)
    exact = distance <= trials.same
    return Match(values, widths, distance, exact, exact and _is_round(values), len(trials.done))


def search(
    train: Train, observed: Array, names: Sequence[str], seen: Callable[[int], None]
) -> dict[str, tuple[float, float]]:
    """Where to look when nothing says where: the best decade, and its neighbours."""
    trials = _Trials(train, observed, 1_000_000, seen)
    grids = [[0.15, 0.5, 0.85] if name in UNIT else [10.0**k for k in range(DECADES[0], DECADES[1] + 1)] for name in names]
    for values in product(*grids):
        trials(dict(zip(names, values, strict=True)))
    best = trials.best[1]
    return {name: (0.01, 0.99) if name in UNIT else (best[name] / 10, best[name] * 10) for name in names} if best else {}


def _middle(name: str, ends: tuple[float, float]) -> float:
    low, high = ends
    return (low + high) / 2 if name in UNIT or low <= 0 else float(np.sqrt(low * high))


def _round_values(
    known: Mapping[str, tuple[float, float]], most: int, extra: Mapping[str, Sequence[float]] | None = None
) -> list[Values]:
    each = [
        [value for value in (*(extra or {}).get(name, ()), *(RATIOS if name in UNIT else ())) if low <= value <= high]
        + round_numbers(low, high, most)
        for name, (low, high) in known.items()
    ]
    if len(each) > 1:
        each = [list(dict.fromkeys(one))[: max(1, round(most ** (1 / len(each))))] for one in each]
    return [dict(zip(known, values, strict=True)) for values in product(*each)]


def _moved(values: Values, steps: Array, known: Mapping[str, tuple[float, float]]) -> Values:
    moved = {}
    for (name, value), step in zip(values.items(), steps, strict=True):
        new = value + step if name in UNIT else value * float(np.exp(np.clip(step, -2, 2)))
        low, high = known[name]
        moved[name] = float(np.clip(new, low, high))
    return moved


def _jacobian(trials: _Trials, values: Values, step: float) -> Array:
    """(parameters, names): change of the parameters a step in each value."""
    here = trials(values)
    wide = {name: (0.0, 1.0) if name in UNIT else (0.0, np.inf) for name in values}
    columns = []
    for axis, (name, value) in zip(np.eye(len(values)), values.items(), strict=True):
        signed = -step if name in UNIT and value > 0.5 else step
        columns.append((trials(_moved(values, signed * axis, wide)) - here) / signed)
    return np.column_stack(columns)


def _descend(trials: _Trials, known: Mapping[str, tuple[float, float]], tolerance: float, values: Values) -> None:
    """Gauss-Newton from one training, with shorter steps where a solver's path jumps."""
    while trials.left > len(known) + 1 and values:
        distance = trials.distance(values)
        if not np.isfinite(distance) or distance <= min(tolerance, trials.same):
            return
        jacobian = _jacobian(trials, values, float(np.clip(distance / 10, trials.step, 1e-2)))
        if not np.isfinite(jacobian).all():
            return
        step = np.linalg.lstsq(jacobian, trials.observed - trials(values), rcond=None)[0]
        for shrink in (1.0, 0.3, 0.1, 0.01):
            if trials.left < 1:
                return
            moved = _moved(values, shrink * step, known)
            if trials.distance(moved) < distance:
                values = moved
                break
        else:
            return


def _scatter(trials: _Trials, known: Mapping[str, tuple[float, float]], tolerance: float) -> None:
    """Where the path jumps, a descent ends at the next jump: begin on several of its pieces."""
    each = int(max(2, (trials.left / 2) ** (1 / len(known))))
    grids = [
        np.linspace(*ends, each) if name in UNIT or ends[0] <= 0 else np.geomspace(*ends, each)
        for name, ends in known.items()
    ]
    starts = [dict(zip(known, map(float, values), strict=True)) for values in product(*grids)]
    for values in sorted(starts, key=trials.distance)[:4]:
        if trials.best[0] <= max(tolerance, ROUGH):
            return
        _descend(trials, known, tolerance, values)


def _snap(trials: _Trials) -> None:
    """Round numbers next to the nearest training."""
    distance, values = trials.best
    if not np.isfinite(distance):
        return
    reach = max(1e-9, min(1e-2, 30 * distance))
    near = {
        name: (value * (1 - reach), min(value * (1 + reach), 1.0 if name in UNIT else np.inf))
        for name, value in values.items()
    }
    for candidate in _round_values(near, 12):
        if trials.left < 1 or trials.best[0] <= trials.same:
            return
        trials(candidate)


def _agrees(found: Array, observed: Array, cut: Array) -> bool:
    return bool((np.abs(found - observed) <= cut * (1 + 1e-9)).all())


def _widths(trials: _Trials, values: Values, cut: Array | None) -> Values:
    """How far each value may be off, from the distance that is left or from the digits that were cut off."""
    if not values:
        return {}
    trials.most += 2 * len(values) + 1
    jacobian = _jacobian(trials, values, 1e-4 if cut is not None else trials.step)
    if cut is None:
        # A solver's path jumps where its number of steps changes: believe the smaller of two derivatives.
        wider = _jacobian(trials, values, 1e-3)
        jacobian = np.where(np.linalg.norm(wider, axis=0) < np.linalg.norm(jacobian, axis=0), wider, jacobian)
    scale = {name: 1.0 if name in UNIT else value for name, value in values.items()}
    if not np.isfinite(jacobian).all() or not (np.linalg.norm(jacobian, axis=0) > 0).all():
        return dict.fromkeys(values, np.inf)
    gap = trials(values) - trials.observed
    noise = 10 * trials.epsilon * float(np.linalg.norm(trials.observed))
    if cut is not None and len(values) == 1:
        # Every parameter p must satisfy |gap + derivative·step| ≤ cut: the values that round to what was observed.
        derivative = jacobian[:, 0]
        moves = np.abs(derivative) > 0
        ends = np.stack([(-cut - gap)[moves] / derivative[moves], (cut - gap)[moves] / derivative[moves]])
        low, high = float(ends.min(axis=0).max()), float(ends.max(axis=0).min())
        name = next(iter(values))
        reach = max(abs(low), abs(high)) if low <= high else float(np.linalg.norm(gap) / np.linalg.norm(derivative)) * 2
        return {name: 1.1 * reach * scale[name]}
    blur = SAFETY * (float(np.linalg.norm(gap)) + noise) + (float(np.linalg.norm(cut)) if cut is not None else 0)
    spread = np.linalg.norm(np.linalg.pinv(jacobian), axis=1)
    typed = trials.best[0] == 0 and cut is None and _is_round(values)
    finest = 0 if typed else FINEST
    return {name: max(blur * s, finest) * scale[name] for name, s in zip(values, spread.tolist(), strict=True)}


def _is_round(values: Values) -> bool:
    return all(value in round_numbers(value, value, 4) for value in values.values())
