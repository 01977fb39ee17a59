"""Training behind affine steps: its gradients, its weights in raw units, and climbs that units do not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from divulge.solvers.bilevel.ascent import Starts, ascend
from divulge.solvers.bilevel.behind import Behind, Scaled
from divulge.solvers.bilevel.implicit import Converged
from divulge.solvers.bilevel.inner import Penalty, Shared
from divulge.solvers.bilevel.torch_inner import NetworkTraining, dense

from .test_implicit import NARROW, WIDE, close, difference, problem

RNG = np.random.default_rng(0)
STEPS = {
    "diagonal": (np.diag(RNG.uniform(0.5, 2, NARROW)), RNG.standard_normal(NARROW)),
    "to fewer": (RNG.standard_normal((NARROW, 3)), RNG.standard_normal(3)),
}


def behind(shared: Shared, kind: str, tolerance: float = 1e-12) -> Behind:
    return Behind(
        lambda X, X_val: Converged(replace(shared, X=X, X_val=X_val), tolerance=tolerance),
        *STEPS[kind],
        shared.X,
        shared.X_val,
    )


@pytest.mark.parametrize("kind", STEPS)
def test_gradients_go_through_the_steps(kind: str) -> None:
    shared, P, Y, lam = problem("logistic", NARROW)
    found = behind(shared, kind)(P, Y, lam)
    assert close(found.point_gradients, difference(lambda P: behind(shared, kind)(P, Y, lam).value[0], P), 1e-6)
    assert close(found.strength_gradients, difference(lambda lam: behind(shared, kind)(P, Y, lam).value[0], lam), 1e-6)


@pytest.mark.parametrize("kind", STEPS)
def test_weights_are_those_of_raw_points(kind: str) -> None:
    shared, P, Y, lam = problem("softmax", NARROW)
    A, c = STEPS[kind]
    found = behind(shared, kind)(P, Y, lam)
    inside = Converged(replace(shared, X=shared.X @ A + c, X_val=shared.X_val @ A + c), tolerance=1e-12)(P @ A + c, Y, lam)
    raw, entered = found.W[0] @ shared.X.T + found.b[0][:, None], inside.W[0] @ (shared.X @ A + c).T + inside.b[0][:, None]
    np.testing.assert_allclose(raw, entered, atol=1e-12)


def test_a_network_behind_steps_says_of_raw_points_what_it_says_of_what_enters() -> None:
    shared, P, Y, lam = problem("logistic", NARROW)
    A, c = STEPS["to fewer"]
    layers = [(RNG.standard_normal((4, 3)), RNG.standard_normal(4)), (RNG.standard_normal((1, 4)), RNG.standard_normal(1))]
    settings: dict[str, Any] = {"steps": 5, "rate": 0.3, "dtype": np.float64}

    def inside(X: np.ndarray, X_val: np.ndarray) -> NetworkTraining:
        return NetworkTraining(dense(layers, "tanh"), X, shared.Y, X_val, shared.Y_val, "logistic", **settings)

    train = Behind(inside, A, c, shared.X, shared.X_val, units=4)
    found = train(P, Y, lam)
    assert train.rate == 0.3
    raw = dense([(layers[0][0] @ A.T, layers[0][1]), layers[1]], "tanh")
    scorer = NetworkTraining(raw, shared.X, shared.Y, shared.X, shared.Y, "logistic", **settings)
    entered = inside(shared.X @ A + c, shared.X_val @ A + c)
    known = entered.scores(entered(P @ A + c, Y, lam).W, shared.X @ A + c)
    np.testing.assert_allclose(scorer.scores(found.W, shared.X), known, atol=1e-12)
    assert close(found.point_gradients, difference(lambda P: train(P, Y, lam).value[0], P), 1e-6)


def test_a_climb_in_other_units_is_the_same_climb() -> None:
    shared, P, Y, lam = problem("logistic", NARROW)
    units = np.array([1e-3, 1.0, 1e4, 7.0, 0.2])

    def climbed(unit: np.ndarray) -> np.ndarray:
        def train(X: np.ndarray, X_val: np.ndarray) -> Converged:
            return Converged(replace(shared, X=X, X_val=X_val), tolerance=1e-10)

        found = ascend(
            Behind(train, np.diag(1 / unit), np.zeros(NARROW), shared.X * unit, shared.X_val * unit),
            lambda count: Starts(P * unit, Y, np.zeros((1, 2), dtype=int)), lam[0],
            lambda points, _: np.clip(points, -3 * unit, 3 * unit), starts=1, iterations=20, step=0.5 * unit,
        )  # fmt: skip
        return found.points

    np.testing.assert_allclose(climbed(units) / units, climbed(np.ones(NARROW)), atol=1e-6)


def scaling(shared: Shared, l1_ratio: float) -> Scaled:
    grouped = replace(shared, groups=np.arange(shared.X.shape[1]), penalty=Penalty(l1_ratio))
    return Scaled(Converged(grouped, tolerance=1e-13), shared.X, power=1 if l1_ratio else 2)


@pytest.mark.parametrize("features", [WIDE, NARROW])
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_scales_answer_to_points_and_are_differentiated(features: int, l1_ratio: float) -> None:
    shared, P, Y, lam = problem("logistic", features)
    P *= 2
    lam -= 1
    found = scaling(shared, l1_ratio)(P, Y, lam)
    assert found.W.any()
    assert close(found.point_gradients, difference(lambda P: scaling(shared, l1_ratio)(P, Y, lam).value[0], P), 1e-5)
    assert close(found.strength_gradients, difference(lambda lam: scaling(shared, l1_ratio)(P, Y, lam).value[0], lam), 1e-5)


def test_training_on_scaled_points_is_scikit_learns() -> None:
    shared, P, Y, lam = problem("logistic", WIDE)
    found = scaling(shared, 0.0)(3 * P, Y, lam)
    X, y = np.concatenate([shared.X, 3 * P[0]]), np.concatenate([shared.Y, Y[0]], axis=1)[0]
    known = make_pipeline(StandardScaler(), LogisticRegression(C=np.exp(-lam[0, 0]), tol=1e-12, max_iter=10_000)).fit(X, y)
    np.testing.assert_allclose(found.W[0], known[-1].coef_ / known[0].scale_, atol=1e-6)
    assert scaling(shared, 0.0).rate == 0
