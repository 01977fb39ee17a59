"""The equations that a learner's objective is written down as, and what cut-off digits and solvers add to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

from divulge import Fitted, TrainingData, datasets
from divulge.arrays import Array
from divulge.attacks.hyperparameters.formulate import build_problem
from divulge.errors import NotApplicable
from divulge.studies.rounded_release import rounded_to

REGRESSION = datasets.load("diabetes", standardised=True)
X, Y = REGRESSION.X, np.asarray(REGRESSION.y, float)


def along_one_direction(seed: int) -> tuple[Array, Array]:
    """Data that lies nearly along one line, so that a single combination of cut-off digits decides what they add."""
    rng = np.random.default_rng(seed)
    points = np.outer(rng.normal(size=60), rng.normal(size=3)) + 1e-3 * rng.normal(size=(60, 3))
    return points, points @ rng.uniform(5, 15, size=3) + rng.normal(size=60)


def test_what_cut_off_digits_add_is_bounded_by_three_standard_deviations() -> None:
    shares = []
    for seed in range(150):
        points, y = along_one_direction(seed)
        fitted = Fitted.of(Ridge(1.0).fit(points, y))
        full = build_problem(fitted, TrainingData(points, y)).system
        cut = build_problem(rounded_to(fitted, 2), TrainingData(points, y)).system
        shares.append(float(np.linalg.norm(cut.b - full.b)) / cut.noise)
    assert max(shares) <= 1
    assert 1 / 4 <= float(np.sqrt(np.mean(np.square(shares)))) <= 1 / 2


@pytest.mark.parametrize(("epsilon", "alpha"), [(1.1, 0.02), (1.35, 0.3), (2.0, 5.0)])
def test_hubers_epsilon_is_where_its_scale_is_stationary(epsilon: float, alpha: float) -> None:
    """L-BFGS leaves up to 5e-5 of that equation, for which the interval has room, and not for ten times as much."""
    fitted = Fitted.of(HuberRegressor(alpha=alpha, epsilon=epsilon, max_iter=1000).fit(X, Y))
    value, half = build_problem(fitted, TrainingData(X, Y)).auxiliary["epsilon"]
    assert abs(value - epsilon) <= half
    z = (Y - X @ np.asarray(fitted.coef) - np.asarray(fitted.intercept)) / fitted.more["scale"]
    outside = float((np.abs(z) > epsilon).sum())
    # d(Σ min(z², ε²)) = 2ε dε (points outside)
    assert 5e-5 <= half * 2 * epsilon * outside / len(Y) <= 5e-4


@pytest.mark.parametrize(
    ("estimator", "stopped"),
    [
        (LogisticRegression(tol=1e-3), 1e-3 * 442),
        (LogisticRegression(tol=1e-12, solver="newton-cholesky"), 1e-12 * 442),
        (LogisticRegression(tol=1e-12), 3e-7 * np.sqrt(10) * 442),
        (LogisticRegression(solver="saga", random_state=0), 0.0),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_solver_says_with_which_gradient_it_was_content(estimator: Any, stopped: float) -> None:
    labels = (np.median(Y) < Y).astype(int)
    problem = build_problem(Fitted.of(estimator.fit(X, labels)), TrainingData(X, labels))
    assert problem.stopped == pytest.approx(stopped)


@pytest.mark.parametrize("estimator", [LogisticRegression(tol=1e-2), PoissonRegressor(tol=1e-2)], ids=str)
def test_and_no_entry_of_the_gradient_exceeds_it(estimator: Any) -> None:
    labels = (np.median(Y) < Y).astype(int)
    problem = build_problem(Fitted.of(estimator.fit(X, labels)), TrainingData(X, labels))
    (unit,) = (name for name in ("C", "alpha") if hasattr(estimator, name))
    penalty = 1 / estimator.C if unit == "C" else len(X) * estimator.alpha
    assert np.abs(problem.system.b + penalty * problem.system.A[:, 0]).max() <= problem.stopped * 1.01


def test_liblinear_penalises_the_intercept_like_a_coefficient() -> None:
    labels = (np.median(Y) < Y).astype(int)
    for estimator in (LinearSVC(C=0.1, tol=1e-10, intercept_scaling=3.0), LogisticRegression(solver="liblinear", tol=1e-10)):
        problem = build_problem(Fitted.of(estimator.fit(X, labels)), TrainingData(X, labels))
        left = problem.system.b + problem.system.A[:, 0] / estimator.C
        assert len(left) == X.shape[1] + 1
        assert np.linalg.norm(left) < 1e-4 * np.linalg.norm(problem.system.b)


def test_a_bandwidth_that_is_not_known_is_attacked_of_a_squared_loss_alone() -> None:
    from divulge.victims.kernels import KernelSVM

    labels = (np.median(Y) < Y).astype(int)
    fitted = Fitted.of(KernelSVM(alpha=1.0).fit(X[:60], labels[:60])).without_gamma()
    with pytest.raises(NotApplicable, match=r"bandwidth \(gamma\) of the kernel is not known, and of a kernel svm"):
        build_problem(fitted, TrainingData(X[:60], labels[:60]))


def test_a_loss_that_is_not_attacked_is_named_with_those_that_are() -> None:
    fitted = replace(Fitted.of(Ridge().fit(X, Y)), learner="sgd_regressor", settings={"loss": "epsilon_insensitive"})
    with pytest.raises(NotApplicable, match=r"the loss 'epsilon_insensitive' of stochastic descent .* squared_error are"):
        build_problem(fitted, TrainingData(X, Y))
