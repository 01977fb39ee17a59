"""A rectangle of places: what lies where, and where boundaries cross it."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.errors import NotApplicable
from divulge.studies.plane import Plane


def test_places_include_the_ends_of_the_box_and_are_drawn_row_by_row() -> None:
    plane = Plane.over(np.array([-1.0, 0.0]), np.array([1.0, 4.0]), 3)
    assert plane.columns.tolist() == [-1, 0, 1]
    assert plane.rows.tolist() == [0, 2, 4]
    assert plane.positions[:4].tolist() == [[-1, 0], [0, 0], [1, 0], [-1, 2]]
    drawn = plane.drawn(plane.positions[:, 0] + 10 * plane.positions[:, 1])
    np.testing.assert_array_equal(drawn, plane.columns + 10 * plane.rows[:, None])


def test_a_feature_with_one_value_has_no_plane() -> None:
    with pytest.raises(NotApplicable, match="feature 2 may have one value only"):
        Plane.over(np.array([-1.0, 3.0]), np.array([1.0, 3.0]), 3)


@pytest.mark.parametrize(
    ("W", "b", "ends"),
    [
        ((1.0, 0.0), 0.5, [(-0.5, -2), (-0.5, 2)]),
        ((0.0, 2.0), 1.0, [(-1, -0.5), (1, -0.5)]),
        ((2.0, 1.0), 0.0, [(-1, 2), (1, -2)]),
        ((1.0, 1.0), 0.0, [(-1, 1), (1, -1)]),
        ((1.0, 1.0), 9.0, []),
        ((0.0, 0.0), 1.0, []),
    ],
)
def test_boundaries_end_where_the_box_does(W: tuple[float, float], b: float, ends: list[tuple[float, float]]) -> None:
    plane = Plane(np.linspace(-1, 1, 3), np.linspace(-2, 2, 3))
    x, y = plane.boundary(np.array([W]), np.array([b]))
    np.testing.assert_allclose(np.column_stack([x, y]), np.reshape(ends, (-1, 2)))
