"""Support vector machines: what the margin hides and the bound shows, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.svm import SVC, SVR, LinearSVC

from divulge.solvers.stationarity import bandwidth, svm, system as stationarity


def standardised(load):
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def machine(estimator, X, y, tol=1e-3, kernel="rbf"):
    K = stationarity.gram(kernel, X, estimator._gamma, 3, 0, X[estimator.support_])
    labels = np.unique(y, return_inverse=True)[1]
    dual, support = estimator.dual_coef_, estimator.support_
    return svm.bound(K, dual, support, labels, estimator.intercept_, np.ones(len(X)), tol)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
@pytest.mark.parametrize("C", [0.03, 0.7, 2.0])
def test_the_bound_is_the_penalty_exactly(load, C):
    X, y = standardised(load)
    found = machine(SVC(C=C).fit(X, y), X, y)
    assert found.reached
    assert found.value == pytest.approx(C, rel=1e-15)
    assert found.violation < 5e-3


def test_labels_the_wrong_way_round_show_in_the_margins():
    X, y = standardised(load_breast_cancer)
    assert machine(SVC().fit(X, y), X, 1 - y).violation == np.inf


def test_a_point_that_was_not_there_shows_in_the_margins():
    X, y = standardised(load_breast_cancer)
    fitted = SVC().fit(X[:400], y[:400])
    assert machine(fitted, X, y).violation > 0.1


def test_the_tube_of_a_regression_is_its_epsilon():
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
def test_projection_takes_out_what_the_margin_hides(scaling):
    X, y = standardised(load_breast_cancer)
    signs = 2.0 * y - 1
    fitted = LinearSVC(C=0.02, loss="hinge", tol=1e-10, max_iter=10**6, intercept_scaling=scaling, random_state=0).fit(X, y)
    w, c = fitted.coef_[0], float(fitted.intercept_[0])
    found = svm.hinge(X, signs, w, c, np.ones(len(X)), scaling, True)
    assert 0 < len(found.edge) < len(w)
    assert found.blur < 1e-6
    estimate = stationarity.solve(svm.projected(found))
    assert 1 / estimate.values[0] == pytest.approx(0.02, rel=1e-9)
    low, high = svm.range_of_penalty(found, 1e-7)
    assert low <= 50 * (1 + 1e-6)
    assert high >= 50 * (1 - 1e-6)
    assert svm.leftover(found) < 1e-3


def test_coefficients_of_another_loss_leave_the_hinge_equations_open():
    X, y = standardised(load_breast_cancer)
    fitted = LinearSVC(C=0.02).fit(X, y)
    found = svm.hinge(X, 2.0 * y - 1, fitted.coef_[0], float(fitted.intercept_[0]), np.ones(len(X)), 1.0, True)
    assert svm.leftover(found) > 0.1


@pytest.mark.parametrize("name", stationarity.WIDTHS)
def test_the_width_of_a_kernel_is_found_to_rounding(name):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 4))
    D = stationarity.distances(name, X)
    c = rng.normal(size=60)
    targets = np.exp(-0.137 * D) @ c + 0.5 * c
    everyone = np.arange(60)
    found = bandwidth.find(D, [bandwidth.Equations(everyone, everyone, c, targets, c[:, None])])
    assert found.gamma == pytest.approx(0.137, rel=1e-10)
    assert abs(found.gamma - 0.137) <= found.half_width


def test_no_width_is_found_where_nothing_depends_on_it():
    none = np.zeros(0, int)
    D = np.ones((3, 3)) - np.eye(3)
    assert bandwidth.find(D, [bandwidth.Equations(none, np.arange(3), np.ones(3), np.zeros(0), np.zeros((0, 0)))]) is None
