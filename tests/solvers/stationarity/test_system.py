"""The equations: against closed forms, finite differences, and the intervals' promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.arrays import Array
from divulge.solvers.stationarity import system as stationarity
from divulge.solvers.stationarity.losses import LOSSES
from divulge.solvers.stationarity.system import Gradient, System

NOTHING = np.zeros(0)


def problem(seed: int, n: int = 40, d: int = 6) -> tuple[Array, Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    return X, X @ rng.normal(size=d) + rng.normal(size=n), rng


def ridge_solution(X: Array, y: Array, penalty: float) -> tuple[Array, float]:
    centred = X - X.mean(axis=0)
    w = np.linalg.solve(centred.T @ centred + penalty * np.eye(X.shape[1]), centred.T @ (y - y.mean()))
    return w, float(y.mean() - X.mean(axis=0) @ w)


def squared(X: Array, y: Array, w: Array, c: float, weight: Array, centred: bool) -> Gradient:
    return stationarity.gradient(LOSSES["squared"], X, y[:, None], w[None], np.array([c]), weight, centred)


@pytest.mark.parametrize("free", [True, False])
def test_the_squared_loss_gradient_agrees_with_finite_differences(free: bool) -> None:
    X, y, rng = problem(0)
    w, weight = rng.normal(size=6), rng.uniform(0.5, 2, size=40)
    # Columns are centred only where the intercept is at its best.
    c = float(np.average(y - X @ w, weights=weight))
    gradient = squared(X, y, w, c, weight, free)

    def loss(v: Array) -> float:
        return 0.5 * float(weight @ (X @ v + c - y) ** 2)

    step = 1e-6
    numeric = [(loss(w + step * e) - loss(w - step * e)) / (2 * step) for e in np.eye(6)]
    assert gradient.values[0] == pytest.approx(numeric, rel=1e-6, abs=1e-6)
    assert (gradient.magnitude >= np.abs(gradient.values)).all()
    assert abs(gradient.balance[0]) <= 1e-12 * gradient.magnitude.max()


def test_an_intercept_that_is_not_at_its_best_shows_in_the_balance() -> None:
    X, y, rng = problem(0)
    w = rng.normal(size=6)
    best = float(np.mean(y - X @ w))
    gradient = squared(X, y, w, best + 0.5, np.ones(40), True)
    scale = np.sqrt(((X - X.mean(axis=0)) ** 2).mean())
    assert gradient.column_scale * gradient.balance[0] == pytest.approx(40 * 0.5 * scale)


def test_large_data_in_blocks_gives_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, rng = problem(3)
    w, weight = rng.normal(size=6), rng.uniform(0.5, 2, size=40)
    whole = squared(X, y, w, 0.3, weight, True)
    monkeypatch.setattr(stationarity, "BLOCK", 20)
    parts = squared(X, y, w, 0.3, weight, True)
    assert parts.values == pytest.approx(whole.values, rel=1e-12)
    assert parts.magnitude == pytest.approx(whole.magnitude, rel=1e-12)
    assert parts.balance == pytest.approx(whole.balance, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_the_ridge_penalty_is_found_and_lies_in_its_interval(seed: int, exponent: float) -> None:
    X, y, _ = problem(seed)
    penalty = 10.0**exponent
    w, c = ridge_solution(X, y, penalty)
    found = squared(X, y, w, c, np.ones(40), True)
    used = np.full((1, 6), True)
    (system,) = stationarity.systems(found, w[None], ("l2",), free=True, constant=None, used=used)
    estimate = stationarity.solve(system)
    assert estimate.values[0] == pytest.approx(penalty, rel=1e-8)
    assert abs(estimate.values[0] - penalty) <= estimate.half_widths[0]


def test_what_a_solver_is_content_with_widens_the_interval() -> None:
    A, b = np.ones((50, 1)), -np.ones(50)
    sharp = stationarity.solve(System(A, b, np.zeros(50), NOTHING))
    wide = stationarity.solve(System(A, b, np.zeros(50), NOTHING), stopped=1e-3)
    assert sharp.half_widths[0] < 1e-12
    assert wide.half_widths[0] == pytest.approx(1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("equations", [3, 12, 60])
def test_intervals_hold_the_truth_as_often_as_they_say(equations: int, confidence: float) -> None:
    rng = np.random.default_rng(equations)
    truth = np.array([0.7, 0.2])
    held: list[bool] = []
    for _ in range(1000):
        A = rng.normal(size=(equations, 2)) * [1.0, 30.0]
        b = -A @ truth + 10 ** rng.uniform(-8, -2) * rng.normal(size=equations)
        estimate = stationarity.solve(System(A, b, np.zeros(equations), NOTHING), confidence)
        held += (np.abs(estimate.values - truth) <= estimate.half_widths).tolist()
    assert np.mean(held) >= confidence - 0.01


def test_a_gradient_no_penalty_explains_is_all_left_over() -> None:
    A = np.array([[1.0], [0.0]])
    estimate = stationarity.solve(System(A, np.array([0.0, 1.0]), np.ones(2), NOTHING))
    assert estimate.relative_residual == pytest.approx(1.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 100))
def test_scaling_loss_and_penalty_together_changes_nothing(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(8, 1)), rng.normal(size=8)
    one = stationarity.solve(System(A, b, np.abs(b), NOTHING))
    other = stationarity.solve(System(factor * A, factor * b, factor * np.abs(b), NOTHING))
    assert other.values == pytest.approx(one.values, rel=1e-9)
    assert other.relative_residual == pytest.approx(one.relative_residual, rel=1e-9)


@pytest.mark.parametrize("name", stationarity.KERNELS)
def test_kernels_are_scikit_learns(name: str) -> None:
    from sklearn.metrics.pairwise import pairwise_kernels

    X, _, _ = problem(2)
    known = {} if name in ("linear", "cosine") else {"gamma": 0.3}
    if name in ("poly", "polynomial", "sigmoid"):
        known["coef0"] = 0.5
    ours = stationarity.gram(name, X, gamma=0.3, degree=3, coef0=0.5)
    assert ours == pytest.approx(pairwise_kernels(X, metric=name, **known), rel=1e-9, abs=1e-12)


def test_an_interval_is_never_narrower_than_what_is_left_could_make_of_it() -> None:
    rng = np.random.default_rng(0)
    A = np.ones((200, 1))
    b = -0.5 * A[:, 0] + 1e-3 * rng.normal(size=200)
    estimate = stationarity.solve(System(A, b, np.zeros(200), NOTHING))
    left = np.linalg.norm(b + A[:, 0] * estimate.values[0])
    assert estimate.half_widths[0] >= left / np.linalg.norm(A)


@pytest.mark.slow
@pytest.mark.parametrize("equations", [2, 3, 6])
def test_the_p_value_is_how_often_an_unrelated_gradient_would_be_explained_as_well(equations: int) -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(equations, 1))
    p_values = [
        stationarity.solve(System(A, rng.normal(size=equations), np.zeros(equations), NOTHING)).p_value for _ in range(2000)
    ]
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=0.025)


def test_an_interval_of_rounding_alone_is_wide_enough_for_99_direct_solutions_in_100_and_not_much_wider() -> None:
    """In units of ε‖magnitude‖ / ‖A‖ the errors of 920 fits of ridge and kernel ridge are up to 5, but for 1 %."""
    A, b = np.ones((50, 1)), -np.ones(50)
    estimate = stationarity.solve(System(A, b, np.full(50, 1e6), NOTHING))
    unit = float(np.finfo(float).eps) * 1e6
    assert 5 <= estimate.half_widths[0] / unit <= 10
