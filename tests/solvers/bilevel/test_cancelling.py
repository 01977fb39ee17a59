"""The fewest points that reach parameters are those of a linear programme, and training with them ends there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

from divulge.arrays import Array
from divulge.solvers.bilevel import cancelling
from divulge.solvers.bilevel.cancelling import SIDES, Objective

RISKS = ("logistic", "squared", "squared_hinge")


def problem(risk: str, seed: int, features: int = 2, room: float = 3.0) -> tuple[Objective, Array, Array]:
    """Parameters apart from those that forty points lead to, and the points with their classes, 0 and 1."""
    rng = np.random.default_rng(seed)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, features)) + 1.5 * y[:, None] - 0.7
    w, b = rng.normal(size=features), 0.3 * rng.normal()
    ends = {"low": np.full(features, -room), "high": np.full(features, room)}
    return Objective.at(risk, w, float(b), X, np.array(SIDES[risk])[y], np.full(features, 0.5), **ends), X, y


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("seed", range(4))
def test_no_mixture_of_points_on_a_grid_reaches_the_parameters_with_fewer(risk: str, seed: int) -> None:
    held, _, _ = problem(risk, seed)
    found = cancelling.reach(held)
    axis = np.linspace(-3, 3, 41)
    grid = np.array(np.meshgrid(axis, axis)).reshape(2, -1).T
    slopes = [held.slopes(grid @ held.w + held.b, np.full(len(grid), side)) for side in SIDES[risk]]
    pulls = np.concatenate([np.column_stack([each[:, None] * grid, each]) for each in slopes])
    least = linprog(np.ones(len(pulls)), A_eq=pulls.T, b_eq=-np.append(held.g, held.g_b))
    assert least.fun is not None
    assert found.needed <= least.fun * (1 + 1e-9)
    assert found.needed == pytest.approx(least.fun, rel=2e-3)
    assert found.counts.sum() == pytest.approx(found.needed)
    assert np.abs(held.left(found.X, found.y, found.counts)).max() < 1e-9 * (1 + found.needed)
    assert (np.abs(found.X) <= 3).all()
    assert cancelling.published_bound(held) <= found.needed * (1 + 1e-6)


def test_the_published_bound_is_met_where_the_box_has_room() -> None:
    held, _, _ = problem("logistic", 2)
    wide = replace(held, low=np.full(2, -1e3), high=np.full(2, 1e3))
    assert cancelling.published_bound(wide) > 10
    assert cancelling.reach(wide).needed == pytest.approx(cancelling.published_bound(wide), rel=1e-6)


def test_training_with_the_fewest_points_ends_at_the_parameters() -> None:
    held, X, y = problem("logistic", 5, features=6)
    found = cancelling.reach(held)
    weights = np.append(np.ones(40), found.counts)
    model = LogisticRegression(C=2.0, tol=1e-12, max_iter=10_000)
    model.fit(np.vstack([X, found.X]), np.append(y, [0, 1]), sample_weight=weights)
    np.testing.assert_allclose(model.coef_[0], held.w, atol=1e-5)
    np.testing.assert_allclose(model.intercept_[0], held.b, atol=1e-5)


@pytest.mark.parametrize("risk", RISKS)
def test_points_of_fixed_labels_cancel_the_gradient_where_there_are_enough(risk: str) -> None:
    held, _, _ = problem(risk, 1, features=6)
    found = cancelling.reach(held)
    rng = np.random.default_rng(0)
    left = []
    for share in (0.5, 1.3):
        counts = np.ceil(share * found.counts).astype(int)
        y = np.repeat(found.y, counts)
        X = cancelling.cancelled(held, 0.1 * rng.normal(size=(len(y), 6)), y)
        assert (np.abs(X) <= 3).all()
        left.append(np.linalg.norm(held.left(X, y)) / np.linalg.norm(np.append(held.g, held.g_b)))
    assert left[0] > 0.1
    assert left[1] < 1e-4


def test_a_feature_without_room_is_in_nobodys_reach() -> None:
    held, _, _ = problem("logistic", 0)
    stuck = replace(held, low=np.array([-3.0, 0.0]), high=np.array([3.0, 0.0]))
    assert cancelling.reach(stuck).needed == np.inf
    free = replace(stuck, g=np.array([held.g[0], 0.0]))
    assert np.isfinite(cancelling.reach(free).needed)


@pytest.mark.parametrize("risk", RISKS)
def test_parameters_that_training_ends_at_need_no_points(risk: str) -> None:
    held, _, _ = problem(risk, 3)
    there = replace(held, g=np.zeros(2), g_b=0.0)
    assert cancelling.reach(there).needed < 1e-6
    assert cancelling.published_bound(there) == 0
