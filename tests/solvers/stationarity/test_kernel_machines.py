"""Kernel machines: conditions of a minimum, and scikit-learn's answer where it has one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from divulge.arrays import Array
from divulge.solvers.stationarity.kernel_machines import logistic_l1, logistic_l2, squared_hinge
from divulge.solvers.stationarity.system import gram

PENALTIES = [10.0**power for power in range(-3, 4)]


def points(rows: int = 150, width: int = 6, seed: int = 0) -> tuple[Array, Array]:
    """Two classes that overlap, with a few points twice."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, width))
    X[: rows // 10] = X[-(rows // 10) :]
    return X, np.where(X @ rng.standard_normal(width) + rng.standard_normal(rows) > 0, 1.0, -1.0)


def pull(K: Array, y: Array, alpha: Array, weight: Array | float = 1.0) -> Array:
    return np.asarray(weight * y * expit(-y * (K @ alpha)))


def hinge_pull(K: Array, y: Array, alpha: Array, weight: Array | float = 1.0) -> Array:
    return np.asarray(2 * weight * y * np.maximum(0, 1 - y * (K @ alpha)))


def relative(difference: Array, whole: Array) -> float:
    return float(np.abs(difference).max() / np.abs(whole).max())


# --- conditions of a minimum


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
def test_squares_of_the_norm_balance_the_loss_in_every_point(kernel: str, penalty: float) -> None:
    X, y = points()
    K = gram(kernel, X, 1 / 6, 3, 1)
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    alpha = logistic_l2(K, y, penalty, weight)
    assert relative(penalty * alpha - pull(K, y, alpha, weight), penalty * alpha) < 1e-9
    alpha = squared_hinge(K, y, penalty, weight)
    assert relative(penalty * alpha - hinge_pull(K, y, alpha, weight), penalty * alpha) < 1e-9
    outside = (y * (K @ alpha) > 1) | (weight == 0)
    assert not alpha[outside].any()


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
def test_an_absolute_penalty_bounds_the_gradient_and_balances_it_where_a_coefficient_is_left(
    kernel: str, penalty: float
) -> None:
    X, y = points()
    K = gram(kernel, X, 1 / 6, 3, 1)
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    alpha = logistic_l1(K, y, penalty, weight)
    gradient = -K.T @ pull(K, y, alpha, weight)
    slack = 1e-12 * np.abs(K.T @ (weight * y)).max() / 2
    left = alpha != 0
    assert np.abs(gradient).max() <= penalty + slack
    np.testing.assert_allclose(gradient[left], -penalty * np.sign(alpha[left]), rtol=0, atol=slack)
    assert left.sum() < len(y)


@pytest.mark.parametrize(
    ("solve", "loss", "size"),
    [
        (logistic_l2, lambda m: np.logaddexp(0, -m), lambda K, a: a @ K @ a / 2),
        (squared_hinge, lambda m: np.maximum(0, 1 - m) ** 2, lambda K, a: a @ K @ a / 2),
        (logistic_l1, lambda m: np.logaddexp(0, -m), lambda K, a: np.abs(a).sum()),
    ],
)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), penalty=st.floats(1e-2, 1e2), distance=st.floats(1e-4, 10))
def test_no_other_point_has_a_lower_objective(
    solve: Callable[..., Array],
    loss: Callable[[Array], Array],
    size: Callable[[Array, Array], float],
    seed: int,
    penalty: float,
    distance: float,
) -> None:
    X, y = points(40, 3, seed)
    K = gram("rbf", X, 0.5, 3, 1)
    rng = np.random.default_rng(seed)

    def objective(alpha: Array) -> float:
        return float(loss(y * (K @ alpha)).sum()) + penalty * float(size(K, alpha))

    alpha = solve(K, y, penalty)
    other = alpha + distance * rng.standard_normal(len(y)) * (rng.random(len(y)) < 0.3)
    assert objective(alpha) <= objective(other) * (1 + 1e-13)


@pytest.mark.parametrize("solve", [logistic_l2, squared_hinge])
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 1e3])
def test_a_point_that_counts_twice_is_two_points(solve: Callable[..., Array], penalty: float) -> None:
    X, y = points(60)
    twice = np.arange(60) % 3 == 0
    K = gram("rbf", X, 0.2, 3, 1)
    weighted = solve(K, y, penalty, np.where(twice, 2.0, 1.0))
    rows = np.concatenate([np.arange(60), np.flatnonzero(twice)])
    repeated = solve(K[np.ix_(rows, rows)], y[rows], penalty)
    np.testing.assert_allclose(K[:, rows] @ repeated, K @ weighted, rtol=1e-9, atol=1e-9)


def test_classes_far_apart_converge_too() -> None:
    """Where a Newton step from 0 overshoots by far."""
    X, y = points(100)
    K = gram("linear", X + 100 * y[:, None], 1, 3, 1)
    for penalty in (1e-3, 1e3):
        alpha = logistic_l2(K, y, penalty)
        assert relative(penalty * alpha - pull(K, y, alpha), penalty * alpha) < 1e-7
        alpha = squared_hinge(K, y, penalty)
        assert relative(penalty * alpha - hinge_pull(K, y, alpha), penalty * alpha) < 1e-5


def test_a_penalty_beyond_the_gradient_leaves_nothing() -> None:
    X, y = points()
    K = gram("rbf", X, 0.2, 3, 1)
    most = np.abs(K.T @ y).max() / 2
    assert not logistic_l1(K, y, most * 1.001).any()
    assert logistic_l1(K, y, most * 0.999).any()


# --- scikit-learn's answer


@pytest.mark.parametrize("penalty", [1e-2, 1.0, 1e2])
def test_a_linear_kernel_gives_the_weights_of_logistic_regression(penalty: float) -> None:
    X, y = points()
    expected = LogisticRegression(C=1 / penalty, fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(X.T @ logistic_l2(X @ X.T, y, penalty), expected.coef_[0], rtol=1e-6)


@pytest.mark.parametrize("penalty", [1e-2, 1.0, 1e2])
def test_a_linear_kernel_gives_the_weights_of_a_linear_svm(penalty: float) -> None:
    X, y = points()
    machine = LinearSVC(C=1 / penalty, loss="squared_hinge", fit_intercept=False, tol=1e-10, max_iter=1_000_000)
    expected = machine.fit(X, y).coef_[0]
    np.testing.assert_allclose(X.T @ squared_hinge(X @ X.T, y, penalty), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kernel_columns_as_features_give_the_coefficients_of_sparse_logistic_regression(penalty: float) -> None:
    X, y = points(80)
    K = gram("laplacian", X, 1.0, 3, 1)
    model = LogisticRegression(
        C=1 / penalty, l1_ratio=1, fit_intercept=False, solver="liblinear", tol=1e-10, max_iter=20_000, random_state=0
    )
    expected = model.fit(K[:, 8:], y).coef_[0]  # the first points are there twice
    alpha = logistic_l1(K[:, 8:], y, penalty)
    np.testing.assert_array_equal(alpha != 0, expected != 0)
    np.testing.assert_allclose(alpha, expected, rtol=1e-5, atol=1e-7)
