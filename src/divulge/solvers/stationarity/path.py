"""The path of the parameters: from a few trainings to the value at which it comes to those observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from divulge.arrays import Array
from divulge.solvers.shared.rounding import round_numbers
from divulge.solvers.stationarity.trials import ROUGH, UNIT, Trials, Values

ROUNDER = 0.03  # of a guess: a round number as near as the square of its move is tried instead, as it comes as close
TINY = float(np.finfo(float).tiny)
UNSURE = 12.0  # times their logarithm: a guess between the decades needs trainings a factor of three apart, as paths jump
APART = 1.1  # factor between the two trainings that a path is followed from: its curve shows, and jumps in it hardly
ASTRAY = 0.3  # of what is left, of which the step between two trainings explains so little: a path jumped between them
FAR = 100.0  # times a value, to which two trainings lead at most
PATIENCE = 2  # trainings in a row that come no closer: the path is not one that can be followed
CLOSER = 0.5  # of the distance, by which a path that can be followed brings the next training nearer


def follow(
    trials: Trials, name: str, ends: tuple[float, float], begin: Values, blur: float, arrived: Callable[[], bool]
) -> None:
    """Follow the path from two trainings near the guess; where a jump hides its way, from two far apart, and the best."""
    guess = begin[name]
    _follow_from(_near(guess, ends), trials, name, ends, blur)
    if not arrived() and trials.best[0] > ROUGH:
        _follow_from(_far(guess, name, ends), trials, name, ends, blur)
    if not arrived() and trials.best[0] > ROUGH and trials.best[1]:
        best = trials.best[1][name]
        _follow_from((best, best / APART), trials, name, ends, blur)


def _follow_from(starts: Sequence[float], trials: Trials, name: str, ends: tuple[float, float], blur: float) -> None:
    """Interpolate θ, the value at which the path w(θ) comes nearest to the parameters observed, while that comes closer.

    How far training k is behind along the path, pₖ = (wₖ − w_observed)·(w₁ − w₂) / ‖w₁ − w₂‖² of the nearest two, is 0
    there. The nearest three determine θ = (A + Bp) / (1 + Cp), which holds exactly where the parameters are linear in θ, as
    with small penalties, or in 1/θ, as with large ones. Next is the roundest number about as near as the last guess was off.
    """
    tried: dict[float, Array] = {}
    value, slow = starts[0], 0
    for start in starts:
        found = trials({name: start})
        if trials.best[0] <= trials.same:
            return
        if np.isfinite(found).all():
            tried[start] = found - trials.observed
    guess = value
    while trials.left > 0 and slow < PATIENCE:
        nearest = sorted(tried, key=lambda one: float(np.linalg.norm(tried[one])))[:3]
        ahead = _interpolated(np.array(nearest), [tried[one] for one in nearest], blur)
        if ahead is None:
            return
        before, last = np.linalg.norm(tried[nearest[0]]), guess
        guess = float(np.clip(ahead, *ends)) if name in UNIT else ahead  # the interval may be wrong, the path is not
        reach = guess * min(ROUNDER, (guess / last - 1) ** 2)
        value = next(iter(round_numbers(guess - reach, guess + reach, 1)), guess)
        value = guess if value in tried else value
        if value in tried:
            return
        found = trials({name: value})
        if trials.best[0] <= trials.same or not np.isfinite(found).all():
            return
        tried[value] = found - trials.observed
        slow = slow + 1 if np.linalg.norm(tried[value]) > CLOSER * before else 0


def _near(guess: float, ends: tuple[float, float]) -> tuple[float, float]:
    """Two values near the guess, as near as it is sure, one of them round where there is a round one."""
    spread = float(np.log(ends[1] / ends[0]))
    apart = min(spread / 2, max(np.log(APART), spread / UNSURE))
    first = next(iter(round_numbers(guess / APART, min(guess * APART, ends[1]), 1)), guess)
    other = guess if apart <= np.log(APART) and first != guess else first * float(np.exp(apart))
    return first, other if abs(np.log(other / first)) > apart / 4 else first * float(np.exp(apart))


def _far(guess: float, name: str, ends: tuple[float, float]) -> tuple[float, float]:
    """Two values a decade away on either side; of shares, between the guess and the ends."""
    if name in UNIT:
        return (guess + ends[0]) / 2, (guess + ends[1]) / 2
    return guess / 10, guess * 10


def _interpolated(values: Array, behind: Sequence[Array], blur: float) -> float | None:
    """θ where p is 0; values (k,) of up to three trainings, the nearest first, and their wₖ − w_observed.

    None where the path leads elsewhere: what is left, but for digits that were cut off (`blur`), is not along it.
    """
    if len(values) < 2 or not (length := float(np.sum((behind[0] - behind[1]) ** 2))):
        return None
    p = np.array([one @ (behind[0] - behind[1]) for one in behind]) / length
    if abs(p[0]) * np.sqrt(length) < ASTRAY * (float(np.linalg.norm(behind[0])) - blur):
        return None
    if len(values) == 3:
        # θ (1 + Cp) = A + Bp through three points.
        found = float(np.linalg.lstsq(np.column_stack([np.ones(3), p, -p * values]), values, rcond=None)[0][0])
        if 0 < found < np.inf:
            return found
    first, second = values[:2].tolist()
    linear = first - p[0] * (first - second)
    if min(first, second) <= 0:
        return float(linear)
    # Two do not tell whether the path is linear in θ or in 1/θ: between them the middle of what both say, beyond them the
    # farther, as a path is sure once it is seen from both sides.
    inverse = 1 / first - p[0] * (1 / first - 1 / second)
    steps = [np.log(max(linear, TINY) / first), -np.log(max(inverse, TINY) * first)]
    step = sum(steps) / 2 if p[0] * p[1] < 0 else max(steps, key=abs)
    return float(first * np.exp(np.clip(step, -np.log(FAR), np.log(FAR))))
