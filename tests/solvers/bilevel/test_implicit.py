"""Training to the end: against scikit-learn, against very long descent, and its gradient against finite differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from divulge.solvers.bilevel.implicit import Converged
from divulge.solvers.bilevel.inner import RISKS, Diverged, Shared, Trained, targets
from divulge.solvers.bilevel.unrolled import EarlyStopped

NAMES = sorted(RISKS)
WIDE, NARROW = 16, 5
"Features, more and fewer than the 12 points."
SOLVES = [(risk, features, parts) for risk in NAMES for features in (WIDE, NARROW) for parts in (1, 3)]


def labelled(risk: str, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(outputs, points): a noisy line through the points, or the sides of one."""
    noise = rng.standard_normal((len(X), 3))
    if risk == "squared":
        return X[None, :, 0] + 0.3 * noise.T[:1]
    index = (X[:, :3] + 0.7 * noise).argmax(axis=1) if risk == "softmax" else (X[:, 0] + 0.7 * noise[:, 0] > 0).astype(int)
    return targets(risk, index, np.arange(3 if risk == "softmax" else 2))


def problem(
    risk: str, features: int = NARROW, parts: int = 1, problems: int = 1, own: int = 2
) -> tuple[Shared, np.ndarray, np.ndarray, np.ndarray]:
    """What is shared, and points, targets and log penalties of each problem."""
    rng = np.random.default_rng(3)
    X, X_val, P = (rng.standard_normal(size) for size in ((10, features), (13, features), (problems, own, features)))
    groups = None if parts == 1 else np.arange(features) % parts
    common = Shared(X, labelled(risk, X, rng), X_val, labelled(risk, X_val, rng), RISKS[risk], groups)
    Y = np.stack([labelled(risk, points, rng) for points in P])
    return common, P, Y, rng.uniform(-1, 1, (problems, parts))


def exact(shared: Shared, P: np.ndarray, Y: np.ndarray, lam: np.ndarray) -> Trained:
    """From 0, to where finite differences are not those of where training stopped."""
    return Converged(shared, tolerance=1e-12)(P, Y, lam)


def whole(shared: Shared, P: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([shared.X, P[0]]), np.concatenate([shared.Y, Y[0]], axis=1)


def difference(value: Any, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences in every number of `at`."""
    found = np.empty_like(at)
    for place in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[place] = step
        found[place] = (value(at + move) - value(at - move)) / (2 * step)
    return found


def close(found: np.ndarray, known: np.ndarray, share: float) -> bool:
    """Within this share of the largest entry."""
    return found.shape == known.shape and bool(np.abs(found - known).max() <= share * np.abs(known).max())


def same(found: Trained, known: Trained, share: float) -> bool:
    return all(close(getattr(found, name), getattr(known, name), share) for name in vars(known))


@pytest.mark.parametrize(("risk", "features", "parts"), SOLVES)
def test_the_gradient_is_that_of_finite_differences(risk: str, features: int, parts: int) -> None:
    shared, P, Y, lam = problem(risk, features, parts)
    found = exact(shared, P, Y, lam)
    assert close(found.point_gradients, difference(lambda P: exact(shared, P, Y, lam).value[0], P), 1e-6)
    assert close(found.strength_gradients, difference(lambda lam: exact(shared, P, Y, lam).value[0], lam), 1e-6)


@pytest.mark.parametrize(("risk", "features", "parts"), SOLVES)
def test_nothing_pulls_at_the_end(risk: str, features: int, parts: int) -> None:
    shared, P, Y, lam = problem(risk, features, parts)
    found = Converged(shared)(P, Y, lam)
    X, Y_all = whole(shared, P, Y)
    slopes = shared.risk.first_derivative(found.W[0] @ X.T + found.b[0][:, None], Y_all)
    strength = np.exp(shared.spread(lam)[0])
    assert np.abs(slopes @ X + strength * found.W[0]).max() < 1e-7
    assert np.abs(slopes.sum(axis=1)).max() < 1e-7


@pytest.mark.parametrize(("risk", "features", "parts"), SOLVES)
def test_very_many_steps_of_descent_come_to_the_same(risk: str, features: int, parts: int) -> None:
    shared, P, Y, lam = problem(risk, features, parts)
    lam += 3
    descent = EarlyStopped(shared, steps=2000, rate=0.15, dtype=np.float64)
    assert same(exact(shared, P, Y, lam), descent(P, Y, lam), 1e-7)


@pytest.mark.parametrize("features", [WIDE, NARROW])
@pytest.mark.parametrize("risk", ["logistic", "softmax"])
def test_logistic_regression_is_that_of_scikit_learn(risk: str, features: int) -> None:
    shared, P, Y, lam = problem(risk, features)
    X, Y_all = whole(shared, P, Y)
    y = Y_all[0] if risk == "logistic" else Y_all.argmax(axis=0)
    known = LogisticRegression(C=np.exp(-lam[0, 0]), tol=1e-12, max_iter=100_000).fit(X, y)
    found = Converged(shared)(P, Y, lam)
    np.testing.assert_allclose(found.W[0], known.coef_, atol=1e-6)
    intercepts = found.b[0] - found.b[0].mean() * (risk == "softmax")  # which are known up to a number for all classes
    np.testing.assert_allclose(intercepts, known.intercept_ - known.intercept_.mean() * (risk == "softmax"), atol=1e-6)


@pytest.mark.parametrize("features", [WIDE, NARROW])
def test_squared_loss_is_ridge_regression(features: int) -> None:
    shared, P, Y, lam = problem("squared", features)
    X, Y_all = whole(shared, P, Y)
    known = Ridge(alpha=np.exp(lam[0, 0]), tol=1e-12).fit(X, Y_all[0])
    found = Converged(shared)(P, Y, lam)
    np.testing.assert_allclose(found.W[0, 0], known.coef_, rtol=1e-9)
    assert found.b[0, 0] == pytest.approx(known.intercept_, rel=1e-9)


@pytest.mark.parametrize(("risk", "features", "parts"), SOLVES)
def test_a_batch_gives_what_its_problems_give_alone(risk: str, features: int, parts: int) -> None:
    shared, P, Y, lam = problem(risk, features, parts, problems=3)
    together = exact(shared, P, Y, lam)
    for one in range(3):
        alone = exact(shared, P[one : one + 1], Y[one : one + 1], lam[one : one + 1])
        assert all(close(vars(together)[name][one : one + 1], vars(alone)[name], 1e-9) for name in vars(alone))


@pytest.mark.parametrize(("risk", "features", "parts"), SOLVES)
def test_a_start_from_an_earlier_end_and_its_factor_change_nothing(risk: str, features: int, parts: int) -> None:
    shared, P, Y, lam = problem(risk, features, parts, problems=2)
    warm, rng = Converged(shared), np.random.default_rng(0)
    for size in (0.0, 1e-3, 1e-3, 0.1, 3.0, 1e-3):
        P, lam = P + size * rng.standard_normal(P.shape), lam + size * rng.standard_normal(lam.shape)
        assert same(warm(P, Y, lam), Converged(shared)(P, Y, lam), 1e-5)


@pytest.mark.parametrize("risk", NAMES)
def test_a_start_from_an_earlier_end_with_other_points_or_labels_changes_nothing(risk: str) -> None:
    shared, P, Y, lam = problem(risk, WIDE, problems=2)
    warm = Converged(shared)
    warm(P, Y, lam)
    for points, labels, strengths in (
        (P[::-1], Y[::-1], lam[::-1]),
        (P[:, :1], Y[..., :1], lam),
        (P[:1], Y[:1], lam[:1]),
        (P[:, ::-1], Y, lam),
    ):
        fresh = Converged(shared)(points, labels, strengths)
        assert same(warm(points, labels, strengths), fresh, 1e-6)


@pytest.mark.parametrize(("risk", "features", "parts"), SOLVES)
def test_no_points_of_its_own_are_no_trouble(risk: str, features: int, parts: int) -> None:
    shared, P, Y, lam = problem(risk, features, parts, own=0)
    lam += 1  # away from where the validation loss is least and its slope 0
    found = exact(shared, P, Y, lam)
    assert found.point_gradients.shape == (1, 0, features)
    assert close(found.strength_gradients, difference(lambda lam: exact(shared, P, Y, lam).value[0], lam, step=1e-4), 1e-6)


@pytest.mark.parametrize("features", [WIDE, NARROW])
@pytest.mark.parametrize("log", [-8.0, -4.0, 0.0, 8.0, 14.0])
def test_weak_and_strong_penalties_are_trained_with(features: int, log: float) -> None:
    shared, P, Y, lam = problem("logistic", features)
    lam[:] = log
    found = Converged(shared)(P, Y, lam)
    X, Y_all = whole(shared, P, Y)
    slopes = shared.risk.first_derivative(found.W[0] @ X.T + found.b[0][:, None], Y_all)
    assert np.abs(slopes @ X + np.exp(log) * found.W[0]).max() < 1e-7
    assert np.isfinite(found.point_gradients).all()


@pytest.mark.parametrize(("risk", "features", "parts"), SOLVES)
def test_a_start_from_the_end_of_a_much_stronger_penalty_does_not_lead_astray(risk: str, features: int, parts: int) -> None:
    shared, P, Y, lam = problem(risk, features, parts)
    warm = Converged(shared)
    for log in (6.0, -8.0, 6.0, -6.0):
        assert same(warm(P, Y, lam + log), Converged(shared)(P, Y, lam + log), 1e-4)


@pytest.mark.parametrize("features", [WIDE, NARROW])
def test_points_without_a_second_derivative_have_no_pull(features: int) -> None:
    """A squared hinge is flat beyond its margin: moving a point there changes nothing."""
    shared, P, Y, lam = problem("squared_hinge", features)
    start = Converged(shared)(P, Y, lam)
    far = P + 50 * np.sign(Y[0, 0])[None, :, None] * start.W[:, 0, None] / np.linalg.norm(start.W)
    found = Converged(shared)(far, Y, lam)
    assert (Y[0] * (found.W[0] @ far[0].T + found.b[0]) > 1).all()
    assert not found.point_gradients.any()


def test_a_problem_without_a_minimum_says_so() -> None:
    shared, P, Y, lam = problem("logistic", WIDE)
    with pytest.raises(Diverged, match="no minimum that Newton's method reaches; raise the least penalty"):
        Converged(shared, tolerance=0)(P, Y, lam)


def test_outputs_that_do_not_pull_on_each_other_are_trained_as_if_alone() -> None:
    shared, P, Y, lam = problem("squared", WIDE)
    twice = replace(shared, Y=np.concatenate([shared.Y, -2 * shared.Y]), Y_val=np.concatenate([shared.Y_val] * 2))
    found, alone = Converged(twice)(P, np.concatenate([Y, -2 * Y], axis=1), lam), Converged(shared)(P, Y, lam)
    assert close(found.W[0], np.concatenate([alone.W[0], -2 * alone.W[0]]), 1e-7)
    assert close(found.b[0], np.concatenate([alone.b[0], -2 * alone.b[0]]), 1e-7)


def test_one_group_for_all_features_is_one_penalty() -> None:
    shared, *asked = problem("logistic", WIDE)
    grouped = replace(shared, groups=np.zeros(WIDE, dtype=int))
    assert same(Converged(grouped)(*asked), Converged(shared)(*asked), 1e-9)
