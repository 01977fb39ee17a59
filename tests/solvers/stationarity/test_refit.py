"""Training again: the parameters are those that the owner's training gave, or those of the minimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVC, SVR, LinearSVC

from divulge.arrays import Array
from divulge.contract import Fitted
from divulge.learners.catalogue import LEARNERS
from divulge.learners.records import Estimator, Learner
from divulge.solvers.stationarity import refit
from divulge.solvers.stationarity.refit import Trainer, row
from divulge.victims.kernels import KernelLogistic, KernelSVM

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def standardised(load: Any) -> tuple[Array, Array]:
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


NUMBERS, LABELS, SPECIES = standardised(load_diabetes), standardised(load_breast_cancer), standardised(load_iris)
DATA = {"numbers": NUMBERS, "labels": LABELS, "species": SPECIES}


def trainer(estimator: Any, X: Array, y: Array) -> tuple[Trainer, Array]:
    """How to repeat a training, and the parameters that it gave, in one row."""
    fitted = Fitted.of(estimator.fit(X, y))
    kernel = fitted.kernel
    told: dict[str, Any] = {} if kernel is None else {"kernel": kernel.name, "degree": kernel.degree, "coef0": kernel.coef0}
    if kernel is not None and kernel.gamma is not None:
        told["gamma"] = kernel.gamma
    again = Trainer(LEARNERS[fitted.learner], fitted.settings, told, X, y)
    if fitted.layers:
        return again, np.concatenate([np.ravel(part) for layer in fitted.layers for part in layer])
    support = fitted.more.get("support")
    return again, row(fitted.coef, fitted.intercept, fitted.dual_coef, support, len(X))


@pytest.mark.parametrize(
    ("estimator", "data", "values"),
    [
        (Ridge(0.3), "numbers", {"alpha": 0.3}),
        (Lasso(0.3), "numbers", {"alpha": 0.3}),
        (PoissonRegressor(alpha=0.3), "numbers", {"alpha": 0.3}),
        (SVR(C=3.0, epsilon=2.0), "numbers", {"C": 3.0, "epsilon": 2.0}),
        (MLPRegressor(hidden_layer_sizes=(3,), alpha=0.3, max_iter=5, random_state=0), "numbers", {"alpha": 0.3}),
        (LogisticRegression(C=0.3), "labels", {"C": 0.3}),
        (LogisticRegression(C=0.3, l1_ratio=1, solver="saga", random_state=0), "labels", {"C": 0.3}),
        (OneVsRestClassifier(LogisticRegression(C=0.3, solver="liblinear")), "species", {"C": 0.3}),
        (LinearSVC(C=0.3), "species", {"C": 0.3}),
        (SVC(C=0.3), "species", {"C": 0.3}),
        (SVC(C=0.3, kernel="poly", degree=2), "labels", {"C": 0.3}),
        (SGDClassifier(alpha=0.3, random_state=0), "labels", {"alpha": 0.3}),
        (KernelLogistic(alpha=0.3), "species", {"alpha": 0.3}),
        (KernelLogistic(alpha=0.3, penalty="l1"), "species", {"alpha": 0.3}),
        (KernelSVM(alpha=0.3), "labels", {"alpha": 0.3}),
    ],
    ids=lambda one: str(one) if hasattr(one, "fit") else "",
)
def test_the_same_values_train_to_the_same_bits(estimator: Any, data: str, values: dict[str, float]) -> None:
    again, observed = trainer(estimator, *DATA[data])
    assert again.obstacle == ""
    np.testing.assert_array_equal(again(values), observed)


def test_a_tight_ridge_is_the_closed_form_whatever_its_owner_did() -> None:
    X, y = NUMBERS
    again, observed = trainer(Ridge(7.0, solver="sag", max_iter=1, random_state=0), X, y)
    w = np.linalg.solve(X.T @ X + 7.0 * np.eye(X.shape[1]), X.T @ (y - y.mean()))
    assert again({"alpha": 7.0}, tight=True) == pytest.approx([*w, y.mean()], rel=1e-9)
    assert np.linalg.norm(again({"alpha": 7.0}) - observed) == 0


def gradient_of_logistic(X: Array, y: Array, learned: Array, C: float) -> Array:
    """Σ −s x σ(−s f) + w / C, and the balance of the intercept; s = ±1."""
    w, c, s = learned[:-1], learned[-1], 2.0 * y - 1
    pull = s / (1 + np.exp(s * (X @ w + c)))
    return np.append(w / C - X.T @ pull, pull.sum())


def test_a_tight_logistic_regression_is_a_minimum_and_a_loose_one_is_not() -> None:
    X, y = LABELS
    again, observed = trainer(LogisticRegression(C=0.3, max_iter=5), X, y)
    assert np.abs(gradient_of_logistic(X, y, again({"C": 0.3}, tight=True), 0.3)).max() < 1e-9
    assert np.abs(gradient_of_logistic(X, y, observed, 0.3)).max() > 0.1


def test_a_hessian_too_large_to_factorise_is_left_to_lbfgs(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = LABELS
    again, _ = trainer(LogisticRegression(C=0.3), X, y)
    by_newton = again({"C": 0.3}, tight=True)
    monkeypatch.setattr(refit, "FEW", 29)  # one less than there are features
    by_lbfgs = again({"C": 0.3}, tight=True)
    assert by_lbfgs == pytest.approx(by_newton, rel=1e-4)
    assert not np.array_equal(by_lbfgs, by_newton)


@pytest.mark.parametrize("estimator", [Lasso(0.3), SVC(C=0.3), LinearSVC(C=0.3, random_state=0)], ids=str)
def test_going_on_changes_the_parameters_by_no_more_than_the_tolerance_left(estimator: Any) -> None:
    X, y = NUMBERS if isinstance(estimator, Lasso) else LABELS
    again, observed = trainer(estimator, X, y)
    values = {"alpha" if isinstance(estimator, Lasso) else "C": 0.3}
    minimum = again(values, tight=True)
    assert 0 < np.linalg.norm(minimum - observed) < 0.05 * np.linalg.norm(observed)


def test_values_that_a_learner_refuses_train_to_no_numbers() -> None:
    again, _ = trainer(Ridge(0.3), *NUMBERS)
    assert np.isnan(again({"alpha": -1.0})).all()


def test_sample_weights_reach_the_estimator() -> None:
    X, y = NUMBERS
    weight = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    fitted = Ridge(0.3).fit(X, y, sample_weight=weight)
    settings = Fitted.of(fitted).settings
    again = Trainer(LEARNERS["ridge"], settings, {}, X, y, weight)
    np.testing.assert_array_equal(again({"alpha": 0.3}), row(fitted.coef_, np.atleast_1d(fitted.intercept_), None, None, 0))


# --- what cannot be repeated


@pytest.mark.parametrize(
    ("learner", "settings", "reason"),
    [
        ("network", {}, "no solver of ours trains a network"),
        ("ridge", {}, "how the model was trained is not known"),
        ("kernel_ridge", {}, ""),
        ("kernel_svm", {}, ""),
        ("ridge", {"solver": "cholesky"}, ""),
        ("ridge", {"solver": "svd", "replayed": False}, "the training started from what a search had found"),
        ("ridge", {"solver": "saga"}, "the solver draws random numbers"),
        ("ridge", {"solver": "saga", "random_state": 3}, ""),
        ("lasso", {"selection": "random"}, "the solver draws random numbers"),
        ("sgd_classifier", {"loss": "hinge"}, "the solver draws random numbers"),
        ("mlp_regressor", {"solver": "lbfgs"}, "the solver draws random numbers"),
        ("logistic", {"solver": "liblinear", "penalty": "l2", "dual": False}, ""),
        ("logistic", {"solver": "liblinear", "penalty": "l2"}, ""),
        ("logistic", {"solver": "liblinear", "penalty": "l2", "dual": True}, "the solver draws random numbers"),
        ("logistic", {"solver": "liblinear", "penalty": "l1", "dual": False}, "the solver draws random numbers"),
        ("linear_svc", {"dual": "auto", "loss": "squared_hinge", "penalty": "l2"}, ""),
        ("linear_svc", {"dual": "auto", "loss": "hinge", "penalty": "l2"}, "the solver draws random numbers"),
        ("linear_svc", {"dual": True, "loss": "squared_hinge", "penalty": "l2"}, "the solver draws random numbers"),
        ("linear_svc", {"dual": "auto", "loss": "squared_hinge", "penalty": "l1"}, "the solver draws random numbers"),
    ],
)
def test_what_stands_in_the_way_of_repeating_a_training_is_said(learner: str, settings: dict[str, Any], reason: str) -> None:
    found = Trainer(LEARNERS[learner], settings, {}, np.ones((5, 3)), np.ones(5)).obstacle
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


def test_with_fewer_points_than_features_a_linear_svm_is_solved_in_its_dual_which_draws() -> None:
    settings = {"dual": "auto", "loss": "squared_hinge", "penalty": "l2"}
    assert "random" in Trainer(LEARNERS["linear_svc"], settings, {}, np.ones((3, 5)), np.ones(3)).obstacle


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_only_minima_that_the_penalty_alone_decides_are_a_path(learner: Learner) -> None:
    path = Trainer(learner, {}, {}, np.ones((5, 3)), np.ones(5)).no_path == ""
    assert path == (not learner.stochastic and learner.name not in ("huber", "network"))


def test_a_learner_that_is_added_is_trained_by_its_record_alone() -> None:
    from sklearn.linear_model import BayesianRidge

    X, y = NUMBERS
    added = Learner("bayesian", Estimator("sklearn.linear_model.BayesianRidge", {"alpha_init": "alpha_init"}, ("tol",)))
    again = Trainer(added, {"tol": 1e-2}, {}, X, y)
    assert again.obstacle == ""
    fitted = BayesianRidge(tol=1e-2, alpha_init=0.5).fit(X, y)
    np.testing.assert_array_equal(again({"alpha_init": 0.5}), [*fitted.coef_, fitted.intercept_])


def test_dual_coefficients_stand_in_the_places_of_their_points() -> None:
    found = row(None, np.array([9.0]), np.array([[1.0, 2.0]]), np.array([3, 1]), 5)
    assert found.tolist() == [0, 2, 0, 1, 0, 9]
