"""The theorem's inequality holds where it should, for trained networks; and the finer one is never the worse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.solvers.margin import batched, near_orthogonal


def test_orthogonal_points_are_certified_with_the_ratio_of_the_theorem() -> None:
    found = near_orthogonal.certificate(10 * np.eye(4, 7))
    assert (found.points, found.least_norm, found.overlap) == (4, 100, 0)
    assert found.holds
    assert found.finer
    assert found.ratio == pytest.approx(4 / (101 - 8))
    # one point of its own, and three that are orthogonal: g ≤ 1/98
    np.testing.assert_allclose(near_orthogonal.bound(10 * np.eye(4, 7), np.eye(7)[5:]), 4 / 98)


def test_points_that_are_alike_are_not_certified() -> None:
    found = near_orthogonal.certificate(np.ones((3, 5)))
    assert not found.holds
    assert not found.finer
    assert found.ratio is None
    assert np.isinf(near_orthogonal.bound(np.ones((3, 5)), np.eye(5))).all()


def test_between_the_two_only_the_finer_inequality_certifies() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3000))
    found = near_orthogonal.certificate(X)
    assert (found.holds, found.finer) == (False, True)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 6), size=st.floats(1, 100), seed=st.integers(0, 999))
def test_the_finer_bound_is_never_above_the_theorem(n: int, size: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = size * np.eye(n, 30) + rng.standard_normal((n, 30))
    found = near_orthogonal.certificate(X)
    if found.ratio is None:
        return
    assert found.finer
    Z = rng.standard_normal((50, 30))
    near = np.abs(Z @ X.T).max(axis=1) <= found.overlap
    assert (near_orthogonal.bound(X, Z)[near] <= found.ratio * (1 + 1e-12)).all()


@pytest.mark.parametrize("d", [6000, 300])
def test_trained_networks_keep_the_bound(d: int) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((1, 5, d)), np.array([[1.0, -1, 1, 1, -1]])
    found = near_orthogonal.certificate(X[0])
    assert (found.holds, found.finer) == (d == 6000, True)
    trained = batched.train(X, y, rng, hidden=100, first=1e-6, depth=400, dtype=np.float64)
    assert (trained.margins <= 1.01 * trained.margin[0]).all()
    # Points made to come near the bound: sums of training points with the labels' signs
    Z = np.concatenate([rng.standard_normal((300, d)), 0.2 * y * rng.random((300, 5)) @ X[0]])
    reached, limits = np.abs(trained.values(Z)[0]) / trained.margin[0], near_orthogonal.bound(X[0], Z)
    assert (reached <= limits).all()
    assert (reached / limits).max() > 0.5
    if found.ratio is not None:
        near = np.abs(Z @ X[0].T).max(axis=1) <= found.overlap
        assert near.sum() > 100
        assert (reached[near] <= found.ratio).all()
