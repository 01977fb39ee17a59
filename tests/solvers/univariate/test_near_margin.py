"""Functions near one whose breakpoints training points have made."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.univariate import near_margin, polyline
from divulge.solvers.univariate.polyline import Piecewise


def zigzag(heights: Array, by: float = 0.0) -> Piecewise:
    """Peaks at 0, 1, 2, ... of these heights, to either side in turn, each cut off at a distance to both of its sides."""
    places = np.arange(len(heights), dtype=float)
    values = heights * (-1.0) ** places
    whole = Piecewise(places, values, np.concatenate([[-1.0], np.diff(values), [1.0]]))
    knots = np.sort(np.concatenate([places - by, places + by])) if by else places
    found = whole(knots)
    return Piecewise(knots, found, np.concatenate([[-1.0], np.diff(found) / np.diff(knots), [1.0]]))


def test_breakpoints_beside_each_other_are_taken_together_and_the_difference_is_measured() -> None:
    cut = zigzag(np.ones(8), by=1e-3)
    simple, off = polyline.coarse(cut, 1e-2)
    np.testing.assert_allclose(simple.knots, np.arange(8), atol=1e-9)
    assert off == pytest.approx(np.abs(simple(cut.knots) - cut.values).max())
    assert 0 < off < 5e-3


def test_a_bend_that_is_hardly_one_is_left_out() -> None:
    straight = Piecewise(
        np.array([0.0, 0.5, 1.0, 2.0]), np.array([1.0, 0.001, -1.0, 1.0]), np.array([-1, -1.998, -2.002, 2, 1])
    )
    assert len(polyline.coarse(straight, 1e-2)[0].knots) == 3
    assert len(polyline.coarse(straight, 1e-5)[0].knots) == 4


@pytest.mark.parametrize(("wrong", "read"), [(0, True), (2, True), (3, False)])
def test_three_of_four_breakpoints_have_to_be_on_the_margin(wrong: int, read: bool) -> None:
    heights = np.where(np.arange(10) < 10 - wrong, 1.0, 1.3 + 0.1 * np.arange(10))
    assert (near_margin.read_nearly(zigzag(heights)) is not None) is read


def test_windows_without_a_breakpoint_on_the_margin_are_not_vouched_for() -> None:
    found = near_margin.read_nearly(zigzag(np.array([1.0] * 8 + [1.5, 1.7])))
    assert found is not None
    assert all(np.isin(found.reading.points[one.members], found.on).any() for one in found.windows)
    assert len(found.windows) < len(found.reading.windows) + len(found.reading.further)


def test_another_margin_than_the_one_given_is_none() -> None:
    assert near_margin.read_nearly(zigzag(np.ones(8)), margin=1.0) is not None
    assert near_margin.read_nearly(zigzag(np.ones(8)), margin=1.2) is None
