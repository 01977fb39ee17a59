"""Hyperparameters by training again, as seldom as can be: the values whose parameters are the ones observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from divulge.arrays import Array
from divulge.solvers.shared.rounding import RATIOS, round_numbers
from divulge.solvers.stationarity.path import CLOSER, follow
from divulge.solvers.stationarity.trials import ROUGH, UNIT, Trials, Values, finite

__all__ = ["UNIT", "Match", "Trials", "agrees", "match", "search"]


SAFETY = 10.0  # times the distance that is left: neighbouring trainings do not lie on a straight line
FINEST = 1e-8  # relative half-width of an interval around a training that is near, but not the same bit for bit
SNAPPED = 40  # round numbers tried inside one interval where the path cannot be followed: two thirds of the usual 63
NEIGHBOURS = (1e-7, 1.0)  # logarithmic change of a value by which a training shows how the parameters change with it
DECADES = (-7, 4)  # searched where nothing else says where to begin: penalties that learners are trained with


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
    "all that were done, for this and before"


def match(
    trials: Trials,
    around: Mapping[str, tuple[float, float]],
    *,
    begin: Mapping[str, float] | None = None,
    cut: Array | None = None,
    rough: float = ROUGH,
    flat: bool = True,
    extra: Mapping[str, Sequence[float]] | None = None,
) -> Match:
    """argmin over values in the intervals `around` of ‖train(values) − observed‖, from `begin` where that is told.

    The path of the parameters is followed as far as it is smooth. Where it jumps, round values come first, then Gauss-Newton
    from several starts. `cut` holds, for parameters that were rounded, half a unit of their last digit each: the interval is
    then all values that round to the same. Within `rough` of the parameters a training is near enough. `flat` is whether
    other values may train to the same, as to a margin with nothing inside. `extra` are more values worth a try, like the
    round ones.
    """
    known = dict(around)
    middle = {name: _begin((begin or {}).get(name, 0.0), name, ends) for name, ends in known.items()}
    tolerance = trials.same if cut is None else float(np.linalg.norm(cut)) / trials.size

    def arrived() -> bool:
        near = trials.best[0] <= tolerance
        return near and (cut is None or agrees(trials(trials.best[1]), trials.observed, cut))

    trials.kept = len(known)  # to see how the parameters change with each value
    if len(known) == 1:
        follow(trials, *next(iter(known.items())), middle, 0.0 if cut is None else float(np.linalg.norm(cut)), arrived)
    elif not arrived():
        _descend(trials, known, tolerance, middle)
    if not arrived() and trials.best[0] > rough:
        for values in _round_values(known, min(SNAPPED, max(0, trials.left) * 2 // 3), extra):
            trials(values)
            if arrived():
                break
        else:
            _descend(trials, known, tolerance, trials.best[1])
            if trials.best[0] > max(tolerance, ROUGH):
                _scatter(trials, known, tolerance)
    if not (arrived() and _is_round(trials.best[1])):
        _snap(trials)
    trials.kept = 0
    distance, values = trials.best
    widths = _widths(trials, values, cut, flat)
    exact = distance <= trials.same
    return Match(values, widths, distance, exact, exact and _is_round(values), len(trials.done))


def search(trials: Trials, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Where to look when nothing says where: the best decade, and its neighbours."""
    grids = [[0.15, 0.5, 0.85] if name in UNIT else [10.0**k for k in range(DECADES[0], DECADES[1] + 1)] for name in names]
    for values in sorted(product(*grids), key=lambda values: abs(np.log(values)).sum()):  # the usual ones first
        trials(dict(zip(names, values, strict=True)))
        if trials.best[0] <= trials.same:
            break
    best = trials.best[1]
    return {name: (0.01, 0.99) if name in UNIT else (best[name] / 10, best[name] * 10) for name in names} if best else {}


def _begin(told: float, name: str, ends: tuple[float, float]) -> float:
    return told if ends[0] <= told <= ends[1] else _middle(name, ends)


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


def _jacobian(trials: Trials, values: Values, step: float) -> Array:
    """(parameters, names): change of the parameters a step in each value."""
    here = trials(values)
    wide = {name: (0.0, 1.0) if name in UNIT else (0.0, np.inf) for name in values}
    columns = []
    for axis, (name, value) in zip(np.eye(len(values)), values.items(), strict=True):
        signed = -step if name in UNIT and value > 0.5 else step
        columns.append((trials(_moved(values, signed * axis, wide)) - here) / signed)
    return np.column_stack(columns)


def _descend(trials: Trials, known: Mapping[str, tuple[float, float]], tolerance: float, values: Values) -> None:
    """Gauss-Newton from one training, with shorter steps where a solver's path jumps.

    After a step that comes closer the Jacobian follows Broyden: J += (Δw − JΔθ) Δθᵀ / ‖Δθ‖².
    """
    jacobian: Array | None = None
    while trials.left > len(known) + 1 and values:
        here, distance = trials(values), trials.distance(values)
        if not np.isfinite(distance) or distance <= min(tolerance, trials.same):
            return
        fresh = jacobian is None
        if jacobian is None:
            jacobian = _jacobian(trials, values, float(np.clip(distance / 10, trials.step, 1e-2)))
        if not np.isfinite(jacobian).all():
            return
        step = np.linalg.lstsq(jacobian, trials.observed - here, rcond=None)[0]
        for shrink in (1.0, 0.3, 0.1, 0.01) if fresh else (1.0,):
            if trials.left < 1:
                return
            moved = _moved(values, shrink * step, known)
            if trials.distance(moved) < (distance if fresh else CLOSER * distance):
                made = _steps(values, moved)
                if not made.any():
                    return
                jacobian = jacobian + np.outer(trials(moved) - here - jacobian @ made, made) / (made @ made)
                values = moved
                break
        else:
            if fresh:
                return
            jacobian = None


def _steps(values: Values, moved: Values) -> Array:
    """What `_moved` was told."""
    return np.array([
        moved[name] - value if name in UNIT else np.log(moved[name] / value) for name, value in values.items()
    ])  # fmt: skip


def _scatter(trials: Trials, known: Mapping[str, tuple[float, float]], tolerance: float) -> None:
    """Where the path jumps, a descent ends at the next jump: begin on several of its pieces."""
    each = int(max(2, (max(0, trials.left) / 2) ** (1 / len(known))))
    grids = [
        np.linspace(*ends, each) if name in UNIT or ends[0] <= 0 else np.geomspace(*ends, each)
        for name, ends in known.items()
    ]
    starts = [dict(zip(known, map(float, values), strict=True)) for values in product(*grids)]
    for values in sorted(starts, key=trials.distance)[:4]:
        if trials.best[0] <= max(tolerance, ROUGH):
            return
        _descend(trials, known, tolerance, values)


def _snap(trials: Trials) -> None:
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


def agrees(found: Array, observed: Array, cut: Array) -> bool:
    return bool((np.abs(found - observed) <= cut * (1 + 1e-9)).all())


def _widths(trials: Trials, values: Values, cut: Array | None, flat: bool) -> Values:
    """How far each value may be off, from the distance that is left or from the digits that were cut off."""
    if not values:
        return {}
    typed = trials.best[0] == 0 and cut is None and _is_round(values)
    jacobian = _slopes(trials, values, cut is not None, typed, flat)
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
    finest = 0 if typed else FINEST
    return {name: max(blur * s, finest) * scale[name] for name, s in zip(values, spread.tolist(), strict=True)}


def _slopes(trials: Trials, values: Values, cut: bool, typed: bool, flat: bool) -> Array:
    """(parameters, names): change of the parameters a step in each value, by trainings beside it that were done; by new ones
    where there are none, or where the path may be flat on the other side.

    A solver's path jumps where its number of steps changes: believe the smaller of two. A number that was typed has no
    interval, but it is none where the very next one trains to the same.
    """
    here = trials(values)
    if len(values) == 1 and not cut and not (typed and flat):
        ((name, value),) = values.items()
        changes = {other: other - value if name in UNIT else float(np.log(other / value)) for other in finite(trials)}
        low, high = NEIGHBOURS[0], np.inf if typed else NEIGHBOURS[1]
        near = sorted((one for one in changes if low < abs(changes[one]) < high), key=lambda one: abs(changes[one]))
        both = [next((one for one in near if changes[one] * side > 0), None) for side in (-1, 1)]
        chosen = both if flat else near[:2]
        if chosen and None not in chosen:
            slopes = [(trials({name: other}) - here) / changes[other] for other in chosen if other is not None]
            return np.asarray(min(slopes, key=np.linalg.norm))[:, None]
    found = _jacobian(trials, values, 1e-4 if cut else trials.step)
    if cut or typed or trials.left < len(values):
        return found
    wider = _jacobian(trials, values, 1e-3)
    return np.where(np.linalg.norm(wider, axis=0) < np.linalg.norm(found, axis=0), wider, found)


def _is_round(values: Values) -> bool:
    return all(value in round_numbers(value, value, 4) for value in values.values())
