from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from divulge.solvers.margin import kkt_residual, max_margin as md, weight_decay

RNG = np.random.default_rng


def planted(n: int = 6, d: int = 20, units: int = 15) -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]:
    """A first layer that is exactly Σ λ_i y_i ∇f(x_i) for the slopes that it has itself."""
    rng = RNG(3)
    y, lam = np.where(np.arange(n) % 2, 1, -1), rng.uniform(0.5, 2, n)
    axes = np.linalg.qr(rng.standard_normal((d, n + 1)))[0].T
    X = 5 * axes[1:] + 3 * np.outer(y, axes[0])  # the sides look away from each other
    v = rng.choice([-1.0, 1.0], units)
    rows = np.column_stack([X, np.ones(n)])
    slopes = np.outer(y, v) > 0
    theta = (slopes * v * (lam * y)[:, None]).T @ rows
    assert ((rows @ theta.T > 0) == slopes).all()
    return [(theta[:, :-1], theta[:, -1]), (v[None], np.zeros(1))], X, y, lam


def test_a_planted_kkt_point_has_no_residual_and_gives_its_multipliers_back() -> None:
    layers, X, y, lam = planted()
    found = kkt_residual.residual(layers, X, y, only=(0,))
    assert found.total < 1e-6
    assert found.layers[0] < 1e-6
    np.testing.assert_allclose(found.multipliers, lam, rtol=1e-5)


def test_other_points_leave_most_of_the_weights_unexplained() -> None:
    layers, X, y, _ = planted()
    assert kkt_residual.residual(layers, RNG(9).standard_normal(X.shape), y, only=(0,)).total > 0.7


def test_multipliers_of_the_wrong_sign_are_not_allowed_unless_free() -> None:
    layers, X, y, _ = planted()
    assert kkt_residual.residual(layers, X, -y, only=(0,)).total > 0.7
    assert kkt_residual.residual(layers, X, free=True, only=(0,)).total < 1e-6


@pytest.mark.parametrize("scale", [0.1, 7.0])
def test_the_residual_does_not_depend_on_the_scale_of_a_homogeneous_network(scale: float) -> None:
    X, y = RNG(0).standard_normal((8, 20)), np.where(np.arange(8) % 2, 1, -1)
    run = md.train(md.initial(RNG(1), [20, 30, 1]), X, y)
    scaled = [(W * scale, b * scale) for W, b in run.layers]
    assert kkt_residual.residual(scaled, X, y).total == pytest.approx(
        kkt_residual.residual(run.layers, X, y).total, rel=1e-3
    )


def test_training_longer_comes_closer() -> None:
    X, y = RNG(0).standard_normal((10, 40)), np.where(np.arange(10) % 2, 1, -1)
    start = md.initial(RNG(1), [40, 50, 1])
    early, late = (kkt_residual.residual(md.train(start, X, y, target=target).layers, X, y) for target in (0.3, 1e-8))
    assert late.total < early.total < 1


@pytest.mark.slow
def test_a_minimum_with_weight_decay_is_one_once_kinks_have_slopes_of_their_own() -> None:
    X, y = RNG(0).standard_normal((12, 30)), np.where(np.arange(12) % 2, 1, -1)
    found = weight_decay.minimise(md.initial(RNG(1), [30, 40, 1], first=None), X, y, weight_decay=1e-2, rounded=True)
    residual = kkt_residual.residual(found.layers, X, y)
    assert residual.total < 1e-2
    assert residual.total < residual.hard
    np.testing.assert_allclose(residual.multipliers, found.multipliers[:, 0] * y, rtol=0.05, atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_any_loss_with_weight_decay_ends_at_a_stationary_point(loss: str) -> None:
    rng = RNG(4)
    X = rng.standard_normal((12, 30))
    y = rng.standard_normal(12) if loss == "squared" else np.arange(12) % 3
    start = md.initial(rng, [30, 25, 1 if loss == "squared" else 3], first=None)
    found = weight_decay.minimise(start, X, y, weight_decay=1e-2, loss=loss, rounded=True)
    assert kkt_residual.residual(found.layers, X, free=True).total < 0.02
    assert kkt_residual.residual(found.layers, rng.standard_normal(X.shape), free=True).total > 0.5


def test_several_classes_have_multipliers_that_add_up_to_nothing() -> None:
    rng = RNG(5)
    X, y = rng.standard_normal((9, 30)), np.arange(9) % 3
    run = md.train(md.initial(rng, [30, 40, 3]), X, y)
    found = kkt_residual.residual(run.layers, X, y)
    assert found.multipliers.shape == (9, 3)
    np.testing.assert_allclose(found.multipliers.sum(axis=1), 0, atol=1e-9)
    assert (found.multipliers[np.arange(9), y] >= 0).all()
    assert found.total < kkt_residual.residual(run.layers, X[::-1], y).total
