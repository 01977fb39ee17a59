"""How far a copy is known to be right, and points that would refute it."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.solvers.piecewise.exactness import FAR, SIZES, chosen_points, share_that_may_differ
from divulge.solvers.piecewise.two_layer import TwoLayer


@pytest.mark.parametrize("points", [8, 100, 300])
def test_a_copy_as_wrong_as_the_bound_agrees_everywhere_nine_times_in_a_thousand(points: int) -> None:
    share = share_that_may_differ(points)
    assert (1 - share) ** points == pytest.approx(0.009)


def test_all_attempts_together_are_wrong_once_in_a_hundred_times() -> None:
    doubts = [(1 - share_that_may_differ(50, attempt)) ** 50 for attempt in range(1, 30)]
    assert sum(doubts) == pytest.approx(0.01)


def test_half_as_many_points_more_keep_the_bound_of_another_attempt() -> None:
    assert share_that_may_differ(150, 2) <= share_that_may_differ(100, 1) * 1.02


def test_nothing_is_known_without_points() -> None:
    assert share_that_may_differ(0) == 1


def copy(units: int, inputs: int) -> TwoLayer:
    rng = np.random.default_rng(0)
    return TwoLayer(
        rng.standard_normal((units, inputs)),
        rng.standard_normal(units),
        np.ones((1, units)),
        np.zeros((1, inputs)),
        np.zeros(1),
    )


def test_every_unit_is_on_at_one_of_two_opposite_points_far_away() -> None:
    known, usual = copy(30, 20), np.random.default_rng(1).standard_normal(20)
    X = chosen_points(known, usual, np.random.default_rng(2))
    rays = X[: 2 * len(SIZES)]
    np.testing.assert_allclose(np.linalg.norm(rays, axis=1), np.tile(SIZES, 2) * np.linalg.norm(usual))
    far, opposite = rays[len(SIZES) - 1], rays[-1]
    assert ((known.into @ far + known.bias > 0) != (known.into @ opposite + known.bias > 0)).all()


def test_all_units_are_on_somewhere_and_off_somewhere_and_one_alone_is_too() -> None:
    known = copy(8, 40)
    X = chosen_points(known, np.random.default_rng(1).standard_normal(40), np.random.default_rng(2))
    on = (X @ known.into.T + known.bias > 0).sum(1)
    assert {0, 1, 7, 8} <= set(on)


def test_far_hyperplanes_are_looked_at_from_both_sides() -> None:
    known = copy(30, 20)
    X = chosen_points(known, np.random.default_rng(1).standard_normal(20), np.random.default_rng(2))
    one, other = X[-8:-4], X[-4:]
    sides = (one @ known.into.T + known.bias > 0) != (other @ known.into.T + known.bias > 0)
    assert (sides.sum(1) >= 1).all()
    assert np.linalg.norm(one, axis=1).min() > 0.1 * FAR


def test_a_linear_copy_is_tried_along_a_line() -> None:
    linear = TwoLayer.affine(np.ones((1, 5)), np.zeros(1))
    assert len(chosen_points(linear, np.ones(5), np.random.default_rng(0))) == 2 * len(SIZES)
