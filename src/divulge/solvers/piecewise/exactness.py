"""In how much of space a copy that agreed wherever it was checked may still be wrong, and points that would refute one."""

from __future__ import annotations

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.two_layer import TwoLayer

CONFIDENCE = 0.99  # of 300 copies called exact, three may be wrong beyond their bound if all are just about as wrong as that
FIRST = 0.9  # of the doubt goes to the first time a copy is checked, as much of the rest to the second, and so on
CHOSEN = 8  # units of each kind of chosen point: as many again as fresh points are asked for the least bound
SIZES = tuple(10.0**power for power in range(-2, 6))  # over the usual one, along a line
FAR = 1e4  # times the usual size: where biases do not matter
BESIDE = 1e-6  # of its size: how far from a hyperplane a point is on one side of it
CONDITION = 1e-3  # planes more nearly parallel are not made to meet: they would a thousand times farther out


def share_that_may_differ(points: int, attempt: int = 1, confidence: float = CONFIDENCE) -> float:
    """The largest share p of space a copy can be wrong in so that it agrees at n points drawn from it once in 1 / α times.

    (1 - p)^n = α, with α the part of 1 - confidence that goes to this attempt: a copy that was mended after others were
    found to be wrong had more than one chance.
    """
    doubt = (1 - confidence) * FIRST * (1 - FIRST) ** (attempt - 1)
    return float(1 - doubt ** (1 / points)) if points else 1.0


def chosen_points(copy: TwoLayer, usual: Array, rng: np.random.Generator) -> Array:
    """Points (n, d) at which a copy that lacks something is likely to be wrong, from a usual one (d,).

    Along a line, from near 0 to far away on both sides, so that a unit is on at one of two opposite points; along the
    normals of units, either way; where all units are on, none is, one only is or one only is not; and on both sides of
    hyperplanes far away.
    """
    size = float(np.linalg.norm(usual))
    rays = np.array([*SIZES, *(-size for size in SIZES)])[:, None] * usual
    if not copy.units:
        return rays
    some = rng.permutation(copy.units)[:CHOSEN]
    normals = copy.into[some] / np.linalg.norm(copy.into[some], axis=1, keepdims=True)
    along = np.where(np.arange(len(some)) % 2, 1.0, FAR) * rng.choice([-1.0, 1.0], len(some)) * size
    return np.concatenate([rays, along[:, None] * normals, _patterns(copy, size, rng), _sides(copy, some, size, rng)])


def _patterns(copy: TwoLayer, size: float, rng: np.random.Generator) -> Array:
    """Where all of some units are on, or off, or all but one are: as many as half the inputs can be set at once."""
    few = rng.permutation(copy.units)[: max(1, min(copy.units, copy.into.shape[1] // 2))]
    planes, shift = copy.into[few], copy.bias[few]
    back = np.linalg.pinv(planes, rcond=CONDITION)
    signs = [np.full(len(few), sign) for sign in (1.0, -1.0)]
    for number in range(CHOSEN - 2):
        one = signs[number % 2].copy()
        one[rng.integers(len(few))] *= -1
        signs.append(one)
    reach = np.linalg.norm(planes, axis=1) * size / np.sqrt(copy.into.shape[1])
    return np.array([back @ (sign * reach * (FAR if number % 4 > 1 else 1) - shift) for number, sign in enumerate(signs)])


def _sides(copy: TwoLayer, some: Array, size: float, rng: np.random.Generator) -> Array:
    """Far along hyperplanes, on one side and on the other."""
    planes, lengths = copy.into[some[: CHOSEN // 2]], np.linalg.norm(copy.into[some[: CHOSEN // 2]], axis=1)
    normals = planes / lengths[:, None]
    places = FAR * size / np.sqrt(planes.shape[1]) * rng.standard_normal(planes.shape)
    places -= (np.sum(places * normals, axis=1) + copy.bias[some[: CHOSEN // 2]] / lengths)[:, None] * normals
    step = BESIDE * np.linalg.norm(places, axis=1, keepdims=True) * normals
    return np.concatenate([places + step, places - step])
