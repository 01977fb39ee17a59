"""Sums over sparse points are those over the same points, dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from divulge.solvers.stationarity import sparse, system as stationarity
from divulge.solvers.stationarity.losses import LOSSES

RNG = np.random.default_rng(0)
X: Any = scipy.sparse.random(60, 12, 0.3, random_state=0, format="csr", data_rvs=RNG.standard_normal)
W, C, WEIGHT = RNG.normal(size=(2, 12)), RNG.normal(size=2), RNG.uniform(0.5, 2, 60)
SIGNS = RNG.choice((-1.0, 1.0), (60, 2))


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "softmax", "poisson"])
@pytest.mark.parametrize("entries", [40, 10**6])
def test_the_gradient_is_that_of_dense_points(loss: str, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "ENTRIES", entries)
    for centred in (False, True) if loss == "squared" else (False,):
        found, wanted = (
            stationarity.gradient(LOSSES[loss], points, SIGNS, W, C, WEIGHT, centred) for points in (X, X.toarray())
        )
        np.testing.assert_allclose(found.values, wanted.values, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.balance, wanted.balance, rtol=1e-12, atol=1e-12)
        assert found.column_scale == pytest.approx(wanted.column_scale, rel=1e-12)
        if not centred:
            np.testing.assert_allclose(found.magnitude, wanted.magnitude, rtol=1e-12)
        at_zero = [stationarity.at_zero(LOSSES[loss], points, SIGNS, C, WEIGHT) for points in (X, X.toarray())]
        np.testing.assert_allclose(at_zero[0][0], at_zero[1][0], rtol=1e-12, atol=1e-12)


def test_the_rounding_of_centred_columns_is_never_counted_too_low() -> None:
    args = SIGNS, W, C, WEIGHT, True
    found = stationarity.gradient(LOSSES["squared"], X, *args)
    wanted = stationarity.gradient(LOSSES["squared"], X.toarray(), *args)
    assert (np.abs(found.values - wanted.values) <= np.finfo(float).eps * found.magnitude).all()


@pytest.mark.parametrize("centred", [False, True])
def test_the_norm_of_a_hessian_is_found_without_it(centred: bool) -> None:
    curvature, dense = RNG.uniform(0, 1, 60), X.toarray()
    wide = dense - dense.mean(axis=0) if centred else np.column_stack([dense, np.ones(60)])
    exact = float(np.linalg.norm(wide.T @ (curvature[:, None] * wide)))
    mean = dense.mean(axis=0) if centred else None
    assert sparse.hessian_norm(X, curvature, mean) == pytest.approx(exact, rel=0.25)
