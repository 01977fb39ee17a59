"""Spread points: one of every cluster, each a point that was given, and never one twice."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.distillation.clusters import AXES, ROWS, spread


def clouds(count: int, members: int, dimension: int, distance: float = 20.0) -> tuple[Array, Array]:
    """Centres (count, d), and normal points around each."""
    rng = np.random.default_rng(0)
    centres = distance * rng.normal(size=(count, dimension))
    return centres, np.repeat(centres, members, axis=0) + rng.normal(size=(count * members, dimension))


def nearest(centres: Array, chosen: Array) -> set[int]:
    return {int(np.square(centres - point).sum(1).argmin()) for point in chosen}


def test_every_cluster_sends_the_point_nearest_to_its_centre() -> None:
    centres, X = clouds(5, 50, 4)
    chosen = spread(X, 5, np.random.default_rng(0))
    assert nearest(centres, chosen) == set(range(5))
    usual = np.sqrt(np.square(X - np.repeat(centres, 50, axis=0)).sum(1)).mean()
    off = [np.sqrt(np.square(centres - point).sum(1).min()) for point in chosen]
    assert np.mean(off) < usual / 2
    assert all((point == X).all(1).any() for point in chosen)


def test_a_class_that_random_points_miss_is_among_the_spread_ones() -> None:
    """Ten of ten clusters, one of them with a twentieth of the points."""
    centres, X = clouds(10, 100, 6)
    X = np.concatenate([X[:-100], X[-5:]])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        assert len(nearest(centres, rng.permutation(X)[:10])) < 10
        assert len(nearest(centres, spread(X, 10, rng))) >= 9


@pytest.mark.parametrize(("points", "count", "expected"), [(250, 40, 40), (10, 20, 10), (10, 10, 10)])
def test_as_many_points_come_as_are_wanted_or_there_are_and_none_twice(points: int, count: int, expected: int) -> None:
    X = np.random.default_rng(0).normal(size=(points, 4))
    assert len(np.unique(spread(X, count, np.random.default_rng(0)), axis=0)) == expected


def test_points_that_are_all_alike_are_no_obstacle() -> None:
    assert spread(np.ones((30, 2)), 4, np.random.default_rng(0)).shape == (4, 2)


def test_differences_beyond_the_principal_axes_do_not_count() -> None:
    """Small noise in many directions is not what points differ by."""
    centres, X = clouds(4, 60, AXES // 2)
    rng = np.random.default_rng(1)
    X = np.hstack([X, 0.1 * rng.normal(size=(len(X), 200))])
    chosen = spread(X, 4, rng)
    assert nearest(centres, chosen[:, : AXES // 2]) == set(range(4))


@pytest.mark.slow
def test_more_points_than_are_clustered_can_be_wanted() -> None:
    X = np.random.default_rng(0).normal(size=(ROWS + 200, 2))
    chosen = spread(X, ROWS // 2 + 50, np.random.default_rng(0))
    assert len(chosen) == ROWS // 2 + 50
