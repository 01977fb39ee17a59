"""Features after a ReLU come back from the span of rows, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.images import zeros

POINTS, UNITS, INPUTS = 12, 20, 160


def features(seed: int = 0, count: int = POINTS) -> Array:
    """Not below 0, half of them 0, correlated, and the last ten 0 in all points."""
    rng = np.random.default_rng(seed)
    X = np.maximum(rng.standard_normal((count, 20)) @ rng.standard_normal((20, INPUTS)) / 5, 0)
    X[:, -10:] = 0
    return np.asarray(X)


def rows(X: Array, seed: int = 1) -> Array:
    moved = np.random.default_rng(seed).standard_normal((UNITS, len(X)))
    return np.asarray(moved @ np.column_stack([X, np.ones(len(X))]))


def farthest(found: Array, X: Array) -> float:
    """Of each point found the relative distance to the nearest one: the largest."""
    return float((np.linalg.norm(found[:, None] - X, axis=2).min(axis=1) / np.linalg.norm(found, axis=1)).max())


def test_nearly_all_points_come_back_and_all_that_come_back_are_points() -> None:
    X = features()
    found = zeros.search(rows(X), np.random.default_rng(2))
    assert len(found.X) >= POINTS - 1
    assert farthest(found.X, X) < 1e-3
    assert (found.zeros >= zeros.SURPLUS * POINTS).all()
    assert len(np.unique(found.X.round(6), axis=0)) == len(found.X)


def test_a_mean_that_was_subtracted_and_rounded_weights_change_little() -> None:
    X = features()
    mean = X.mean(axis=0)
    seen = rows(X - mean).astype(np.float32).astype(float)
    found = zeros.search(seen, np.random.default_rng(2), mean=mean)
    assert len(found.X) >= POINTS / 2
    assert farthest(found.X, X) < 1e-3


def test_features_may_begin_elsewhere_than_at_0() -> None:
    X = features()
    low = np.linspace(-2, -1, INPUTS)
    found = zeros.search(rows(X + low), np.random.default_rng(2), low=low)
    assert len(found.X) >= POINTS - 1
    assert farthest(found.X - low, X) < 1e-3


@pytest.mark.parametrize("kind", ["normal", "positive"])
def test_of_points_without_zeros_nothing_comes_back(kind: str) -> None:
    X = np.random.default_rng(0).standard_normal((POINTS, INPUTS))
    X = X if kind == "normal" else np.abs(X) + 0.2
    found = zeros.search(rows(X), np.random.default_rng(2))
    assert len(found.X) == 0
    assert found.starts == zeros.PATIENCE
