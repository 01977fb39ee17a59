"""Support vector machines: what the margin hides and the bound shows, against scikit-learn's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.svm import SVC, SVR, LinearSVC

from divulge.arrays import Array
from divulge.solvers.stationarity import svm, system as stationarity


def standardised(load: Callable[..., Any]) -> tuple[Array, Array]:
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def machine(estimator: Any, X: Array, y: Array, tol: float = 1e-3, kernel: str = "rbf") -> svm.Bound:
    K = stationarity.gram(kernel, X, estimator._gamma, 3, 0, X[estimator.support_])
    labels = np.unique(y, return_inverse=True)[1]
    dual, support = estimator.dual_coef_, estimator.support_
    return svm.bound(K, dual, support, labels, estimator.intercept_, np.ones(len(X)), tol)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
@pytest.mark.parametrize("C", [0.03, 0.7, 2.0])
def test_the_bound_is_the_penalty_exactly(load: Callable[..., Any], C: float) -> None:
    X, y = standardised(load)
    found = machine(SVC(C=C).fit(X, y), X, y)
    assert found.reached
    assert found.value == pytest.approx(C, rel=1e-15)
    assert found.violation < 5e-3


def test_labels_the_wrong_way_round_show_in_the_margins() -> None:
    X, y = standardised(load_breast_cancer)
    assert machine(SVC().fit(X, y), X, 1 - y).violation == np.inf


def test_a_point_that_was_not_there_shows_in_the_margins() -> None:
    X, y = standardised(load_breast_cancer)
    fitted = SVC().fit(X[:400], y[:400])
    assert machine(fitted, X, y).violation > 0.1


def test_the_tube_of_a_regression_is_its_epsilon() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=120)
    fitted = SVR(C=0.8, epsilon=0.2, tol=1e-8).fit(X, y)
    K = stationarity.gram("rbf", X, fitted._gamma, 3, 0, X[fitted.support_])
    found = svm.tube(K, y, fitted.dual_coef_[0], fitted.support_, float(fitted.intercept_[0]), np.ones(120), 1e-8)
    assert found.epsilon == pytest.approx(0.2, abs=1e-7)
    assert found.bound.value == pytest.approx(0.8)
    assert found.bound.reached


@pytest.mark.parametrize("scaling", [1.0, 10.0])
def test_projection_takes_out_what_the_margin_hides(scaling: float) -> None:
    X, y = standardised(load_breast_cancer)
    signs = 2.0 * y - 1
    fitted = LinearSVC(C=0.02, loss="hinge", tol=1e-10, max_iter=10**6, intercept_scaling=scaling, random_state=0).fit(X, y)
    w, c = fitted.coef_[0], float(fitted.intercept_[0])
    found = svm.hinge(X, signs, w, c, np.ones(len(X)), scaling, True)
    assert 0 < len(found.edge) < len(w)
    assert found.blur < 1e-6
    projected, ends = svm.projected(found), svm.range_of_penalty(found, 1e-7)
    assert projected is not None
    assert ends is not None
    estimate = stationarity.solve(projected)
    assert 1 / estimate.values[0] == pytest.approx(0.02, rel=1e-9)
    low, high = ends
    assert low <= 50 * (1 + 1e-6)
    assert high >= 50 * (1 - 1e-6)
    assert svm.relative_residual(found) < 1e-3


def test_coefficients_of_another_loss_leave_the_hinge_equations_open() -> None:
    X, y = standardised(load_breast_cancer)
    fitted = LinearSVC(C=0.02).fit(X, y)
    found = svm.hinge(X, 2.0 * y - 1, fitted.coef_[0], float(fitted.intercept_[0]), np.ones(len(X)), 1.0, True)
    assert svm.relative_residual(found) > 0.1


# --- which points are on the margin


def on_margin(distances: list[float], dimension: int = 4) -> list[bool]:
    """Of points at these distances from the margin of f(x) = x₀, in so many dimensions."""
    X = np.zeros((len(distances), dimension))
    X[:, 0] = 1 - np.array(distances)
    w = np.eye(dimension)[0]
    found = svm.hinge(X, np.ones(len(X)), w, 0.0, np.ones(len(X)), None, False)
    edge = {float(row[0]) for row in found.edge}
    return [float(x) in edge for x in X[:, 0]]


@pytest.mark.parametrize(("nearest", "touches"), [(0.045, True), (0.055, False)])
def test_a_point_a_twentieth_away_is_not_on_the_margin_however_alone_it_is(nearest: float, touches: bool) -> None:
    """At their default tolerances LinearSVC leaves up to 1e-4 and SVC 5e-4: a hundred times as much is no margin."""
    assert on_margin([nearest, 0.5, 0.6, 0.7]) == [touches, False, False, False]


@pytest.mark.parametrize(("ratio", "touches"), [(3.1, True), (2.9, False)])
def test_the_margin_ends_where_the_next_point_is_three_times_as_far(ratio: float, touches: bool) -> None:
    """Of points spread evenly, the next is three times as far as the k-th in 3⁻ᵏ of cases."""
    assert on_margin([0.01, 0.01 * ratio, 0.01 * ratio * 2, 0.01 * ratio * 4]) == [touches, False, False, False]


@pytest.mark.parametrize(("nearest", "touches"), [(0.9e-7, True), (1.1e-7, False)])
def test_points_that_come_nearer_than_chance_are_on_it_without_a_gap(nearest: float, touches: bool) -> None:
    distances = [nearest * 2.0**-k for k in range(3)] + [2 * nearest, 4 * nearest, 8 * nearest]
    assert on_margin(distances)[0] is touches


@pytest.mark.parametrize("count", range(9))
def test_in_few_dimensions_every_number_of_points_on_the_margin_is_tried(count: int) -> None:
    """λw = Σ inside + Σ on it with weights between 0 and 1, solved exactly for one number of points on it alone."""
    rng = np.random.default_rng(count)
    D = 11
    inside, edge = rng.normal(size=D), rng.normal(size=(D, D))
    share = rng.uniform(0.3, 0.7, size=count)
    w = (inside + share @ edge[:count]) / 2.0
    short = np.zeros(D, bool)
    found = svm.Hinge(w, inside, np.abs(inside), edge[:count], 0.0, inside, edge, short, edge[:0])
    assert svm.relative_residual(found) < 1e-7


@pytest.mark.parametrize(("off", "one"), [(0.5e-9, True), (2e-9, False)])
def test_dual_weights_that_differ_by_rounding_are_one_bound(off: float, one: bool) -> None:
    """A weight below the bound would have its point on the margin, and this one is inside."""
    X, y = standardised(load_breast_cancer)
    fitted = SVC(C=0.5).fit(X, y)
    scores = np.where(y == 1, 1, -1) * fitted.decision_function(X)
    deep = int(np.argmin(scores[fitted.support_]))
    fitted.dual_coef_[0, deep] *= 1 - off
    violation = machine(fitted, X, y).violation
    assert (violation < 5e-3) is one
