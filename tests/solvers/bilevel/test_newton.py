"""Training with an L1 part to the end: against scikit-learn, and its gradient on the support against finite differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression
from sklearn.svm import LinearSVC

from divulge.solvers.bilevel.implicit import Converged
from divulge.solvers.bilevel.inner import RISKS, Penalty, Shared, Trained
from divulge.solvers.bilevel.newton import emptying

from .test_implicit import NARROW, WIDE, close, difference, problem, same, whole

RISKS_AND_SHAPES = [(risk, features) for risk in sorted(RISKS) for features in (WIDE, NARROW)]


def sparse(risk: str, features: int, l1_ratio: float, averaged: bool = False, **rest: Any) -> tuple[Shared, Any, Any, Any]:
    """As of L2 penalties, with the weakest that leaves some weights at 0."""
    shared, P, Y, lam = problem(risk, features, **rest)
    shared = replace(shared, penalty=Penalty(l1_ratio, averaged))
    lam = next(lam + more for more in np.arange(-6, 3, 0.25) if (exact(shared, P, Y, lam + more).W == 0).any())
    return shared, P, Y, lam


def exact(shared: Shared, P: np.ndarray, Y: np.ndarray, lam: np.ndarray) -> Trained:
    return Converged(shared, tolerance=1e-13)(P, Y, lam)


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize(("risk", "features"), RISKS_AND_SHAPES)
def test_the_gradient_on_the_support_is_that_of_finite_differences(risk: str, features: int, l1_ratio: float) -> None:
    shared, P, Y, lam = sparse(risk, features, l1_ratio)
    found = exact(shared, P, Y, lam)
    assert found.W.any()
    assert not found.W.all()
    assert close(found.point_gradients, difference(lambda P: exact(shared, P, Y, lam).value[0], P), 1e-5)
    assert close(found.strength_gradients, difference(lambda lam: exact(shared, P, Y, lam).value[0], lam), 1e-5)


@pytest.mark.parametrize("risk", ["logistic", "squared"])
def test_a_penalty_beside_a_mean_and_one_for_each_group_are_differentiated_too(risk: str) -> None:
    shared, P, Y, lam = sparse(risk, WIDE, 0.7, averaged=True, parts=3)
    found = exact(shared, P, Y, lam)
    assert close(found.point_gradients, difference(lambda P: exact(shared, P, Y, lam).value[0], P), 1e-5)
    assert close(found.strength_gradients, difference(lambda lam: exact(shared, P, Y, lam).value[0], lam), 1e-5)


@pytest.mark.parametrize("features", [WIDE, NARROW])
@pytest.mark.parametrize("l1_ratio", [0.4, 1.0])
def test_squared_loss_is_scikit_learns_elastic_net(features: int, l1_ratio: float) -> None:
    shared, P, Y, _ = sparse("squared", features, l1_ratio, averaged=True)
    X, Y_all = whole(shared, P, Y)
    for alpha in (1e-3, 0.05, 0.3):
        kind = Lasso(alpha=alpha) if l1_ratio == 1 else ElasticNet(alpha=alpha, l1_ratio=l1_ratio)
        known = kind.set_params(tol=1e-14, max_iter=1_000_000).fit(X, Y_all[0])
        found = Converged(shared)(P, Y, np.array([[np.log(alpha)]]))
        np.testing.assert_allclose(found.W[0, 0], known.coef_, atol=1e-6)
        assert found.b[0, 0] == pytest.approx(known.intercept_, abs=1e-6)


@pytest.mark.parametrize("features", [WIDE, NARROW])
@pytest.mark.parametrize("risk", ["logistic", "softmax"])
@pytest.mark.parametrize("l1_ratio", [0.4, 1.0])
def test_logistic_loss_is_scikit_learns(risk: str, features: int, l1_ratio: float) -> None:
    shared, P, Y, lam = sparse(risk, features, l1_ratio)
    lam = np.maximum(lam, -1.0)  # below, scikit-learn's solver does not arrive
    X, Y_all = whole(shared, P, Y)
    y = Y_all[0] if risk == "logistic" else Y_all.argmax(axis=0)
    known = LogisticRegression(C=np.exp(-lam[0, 0]), l1_ratio=l1_ratio, solver="saga", tol=1e-12, max_iter=100_000).fit(X, y)
    found = Converged(shared)(P, Y, lam)
    np.testing.assert_allclose(found.W[0], known.coef_, atol=1e-5)
    np.testing.assert_array_equal(found.W[0] != 0, np.abs(known.coef_) > 1e-9)


def test_squared_hinge_is_scikit_learns() -> None:
    shared, P, Y, lam = sparse("squared_hinge", NARROW, 1.0)
    lam = np.maximum(lam, 1.0)
    X, Y_all = whole(shared, P, Y)
    settings: dict[str, Any] = {"penalty": "l1", "dual": False, "tol": 1e-7, "max_iter": 1_000_000, "intercept_scaling": 30}
    known = LinearSVC(C=np.exp(-lam[0, 0]), **settings).fit(X, Y_all[0])
    np.testing.assert_allclose(Converged(shared)(P, Y, lam).W[0], known.coef_, atol=1e-2)


@pytest.mark.parametrize(("risk", "features"), RISKS_AND_SHAPES)
def test_a_start_from_an_earlier_end_changes_nothing(risk: str, features: int) -> None:
    shared, P, Y, lam = sparse(risk, features, 0.8, problems=2)
    lam += 3  # where a minimum is no valley
    warm, rng = Converged(shared, tolerance=1e-11), np.random.default_rng(0)
    for size in (0.0, 1e-3, 0.1, 3.0, 1e-3):
        P, lam = P + size * rng.standard_normal(P.shape), lam + size * rng.standard_normal(lam.shape)
        assert same(warm(P, Y, lam), exact(shared, P, Y, lam), 1e-5)


def test_a_penalty_that_leaves_no_weight_leaves_points_no_pull() -> None:
    shared, P, Y, lam = sparse("logistic", WIDE, 1.0)
    found = Converged(shared)(P, Y, lam + 9)
    assert not found.W.any()
    assert not found.point_gradients.any()
    assert not found.strength_gradients.any()


@pytest.mark.parametrize("log", [-8.0, -4.0, 0.0])
def test_more_features_than_points_and_a_weak_penalty_are_trained_to_the_end(log: float) -> None:
    rng = np.random.default_rng(0)
    X, X_val = rng.standard_normal((80, 200)), rng.standard_normal((30, 200))
    y, y_val = ((rows[:, 0] + 0.5 * rng.standard_normal(len(rows)) > 0).astype(float)[None] for rows in (X, X_val))
    shared = Shared(X, y, X_val, y_val, RISKS["logistic"], None, Penalty(1.0))
    found = Converged(shared)(np.zeros((1, 0, 200)), np.zeros((1, 1, 0)), np.array([[log]]))
    pull = shared.risk.first_derivative(found.W[0] @ X.T + found.b[0][:, None], y) @ X
    weight, w = np.exp(log), found.W[0]
    assert 0 < (w != 0).sum() <= 80
    assert np.abs(pull + weight * np.sign(w))[w != 0].max() < 1e-6
    assert np.abs(pull[w == 0]).max() < weight * (1 + 1e-6)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize(("risk", "features"), RISKS_AND_SHAPES)
def test_the_penalty_that_takes_all_weights_is_known(risk: str, features: int, averaged: bool) -> None:
    shared, _, _, lam = sparse(risk, features, 0.6, averaged)
    outputs = len(shared.Y)
    none = np.zeros((1, 0, features)), np.zeros((1, outputs, 0))
    end = emptying(shared)
    assert not Converged(shared)(*none, np.full_like(lam, end + 1e-3)).W.any()
    assert Converged(shared)(*none, np.full_like(lam, end - 1e-2)).W.any()


def test_a_start_far_out_is_left_for_none() -> None:
    """Points that were moved by thousands leave weights of before without any curvature."""
    shared, P, Y, lam = sparse("logistic", WIDE, 1.0)
    warm = Converged(shared)
    warm(P, Y, lam)
    assert same(warm(1e4 * P, Y, lam), Converged(shared)(1e4 * P, Y, lam), 1e-5)
