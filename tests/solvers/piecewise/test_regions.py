"""Lines and points stay where a function may be asked, and spread over it."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.solvers.piecewise.regions import Ball, Box, Everywhere, segment


def test_points_and_lines_stay_in_their_region() -> None:
    rng = np.random.default_rng(0)
    for region in (Box(49, -2.0, 3.0), Ball(49, 0.5)):
        line = region.line(rng)
        ends = line.points(np.array(line.ends))
        assert not line.endless
        if isinstance(region, Box):
            X = np.concatenate([ends, region.points(40, rng), region.points(40, rng, rng.standard_normal((5, 49)))])
            assert X.min() >= -2
            assert X.max() <= 3
            assert all(region.holds(x) for x in X)
        assert region.holds(region.usual(rng))
    far = Everywhere(5, scale=3.0, far=100.0)
    assert not far.holds(np.full(5, 1e3))
    np.testing.assert_allclose(segment(np.zeros(2), np.ones(2)).points(np.array([0.5])), [[0.5, 0.5]])


def test_a_line_through_all_of_space_crosses_nearly_every_hyperplane() -> None:
    """Hyperplanes of random direction meet it at a place of Cauchy's distribution: 2 / (π far) of them beyond its ends."""
    rng = np.random.default_rng(0)
    line = Everywhere(20).line(rng)
    low, high = line.points(np.array(line.ends))
    normals = rng.standard_normal((100_000, 20))
    crossed = np.sign(normals @ low) != np.sign(normals @ high)
    assert (~crossed).sum() <= 1


def test_points_of_space_are_near_and_far() -> None:
    """Half are usual, a quarter are so far away that biases do not matter, and yet nearer than lines go."""
    region = Everywhere(200, scale=3.0)
    X = region.points(4000, np.random.default_rng(0))
    size = np.sqrt(np.mean(X**2, axis=1))
    assert sum(region.sizes.values()) == pytest.approx(1)
    assert sorted(region.sizes) == pytest.approx([0.3, 3, 30, 300, 3e3, 3e4, 3e5])
    for one, share in region.sizes.items():
        assert np.mean(np.abs(np.log(size / one)) < 0.4) == pytest.approx(share, abs=0.03)


def test_points_of_a_ball_lie_at_its_surface_and_inside() -> None:
    X = Ball(200, 0.5).points(400, np.random.default_rng(0))
    size = np.sqrt(np.mean(X**2, axis=1)) / 0.5
    assert np.mean(np.abs(size - 1) < 0.2) > 0.5
    assert size.min() < 0.1


def test_points_of_a_box_are_sparse_and_dense_and_half_of_them_follow_the_hints() -> None:
    rng = np.random.default_rng(0)
    hint = rng.standard_normal((1, 100))
    X = Box(100, 0.0, 1.0).points(400, rng, hint)
    assert {round(share, 1) for share in (X[2::8] > 0).mean(1)} >= {0.1, 0.3, 0.5, 0.7, 0.9}
    alike = np.abs([np.corrcoef(x, hint[0])[0, 1] for x in X])
    assert np.median(alike[::2]) > 0.5 > 3 * np.median(alike[1::2])


def test_pictures_have_patches_where_neighbours_are_alike() -> None:
    rng = np.random.default_rng(0)

    def neighbours(side: int) -> float:
        X = Box(side**2, 0.0, 1.0).points(400, rng)[1::4].reshape(-1, side, side)
        return float(np.mean(X[:, 1:] == X[:, :-1]))

    assert neighbours(28) > 0.85  # 7 patches of 4 pixels across
    assert neighbours(13) < 0.75  # too small for as many


def test_a_usual_point_of_a_box_has_room_on_all_sides() -> None:
    x = Box(1000, -1.0, 3.0).usual(np.random.default_rng(0))
    assert -1 + 0.25 * 4 < x.min() < x.max() < 3 - 0.25 * 4
    assert np.ptp(x) > 0.35 * 4
