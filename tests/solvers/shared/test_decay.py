"""What weight decay left of a start is read from combinations of units that no point has moved."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.solvers.shared.decay import left_of_start

UNITS, INPUTS = 40, 90


def rows(points: int, left: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(points)
    start = rng.uniform(-0.1, 0.1, (UNITS, INPUTS))
    moved = rng.standard_normal((UNITS, points)) @ rng.standard_normal((points, INPUTS))
    return left * start + moved, start


@pytest.mark.parametrize("left", [1.0, 0.9, 0.3])
def test_the_factor_is_exact_where_there_are_more_units_than_points(left: float) -> None:
    assert left_of_start(*rows(30, left)) == pytest.approx(left, abs=1e-9)


def test_nothing_is_said_of_more_points_than_units_or_of_unrelated_weights() -> None:
    assert left_of_start(*rows(60, 0.9)) is None
    rng = np.random.default_rng(0)
    assert left_of_start(rng.standard_normal((UNITS, INPUTS)), rng.standard_normal((UNITS, INPUTS))) is None


def test_nothing_is_said_of_fewer_inputs_than_units() -> None:
    W, start = rows(3, 0.9)
    assert left_of_start(W[:, :20], start[:, :20]) is None
