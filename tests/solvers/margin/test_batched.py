"""Batched training against finite differences, the single-network solver, and the network written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from divulge.solvers.margin import batched as mt, kkt_residual, max_margin


def drawn(trials: int = 3, n: int = 6, d: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((trials, n, d)), rng.choice((-1.0, 1.0), (trials, n))


def test_the_gradient_of_the_log_loss_agrees_with_finite_differences() -> None:
    rng = np.random.default_rng(0)
    points, signs = rng.standard_normal((2, 5, 4)), rng.choice((-1.0, 1.0), (2, 5))
    inside, outer = rng.standard_normal((2, 4, 7)), rng.standard_normal((2, 7))
    task = mt._Task(points, signs)
    inward, outward, square = task.slopes(task.look(inside, outer))
    step = 1e-6
    for trial, row, unit in ((0, 0, 0), (1, 3, 6), (1, 2, 4)):
        moved = [inside.copy(), inside.copy()]
        moved[0][trial, row, unit] += step
        moved[1][trial, row, unit] -= step
        up, down = (task.look(one, outer).log_loss[trial] for one in moved)
        assert inward[trial, row, unit] == pytest.approx((up - down) / (2 * step), abs=1e-7)
        moved = [outer.copy(), outer.copy()]
        moved[0][trial, unit] += step
        moved[1][trial, unit] -= step
        up, down = (task.look(inside, one).log_loss[trial] for one in moved)
        assert outward[trial, unit] == pytest.approx((up - down) / (2 * step), abs=1e-7)
    np.testing.assert_allclose(square, (inward**2).sum(axis=(1, 2)) + (outward**2).sum(axis=1))


def test_loss_and_gradient_are_those_of_the_single_network_solver() -> None:
    X, y = drawn()
    trained = mt.train(X, y, np.random.default_rng(1), hidden=30, steps=5, dtype=np.float64)
    for trial in range(3):
        layers = trained.layers(trial)
        state = max_margin._Task(X[trial], y[trial], False).look(layers)
        assert trained.log_loss[trial] == pytest.approx(state.log_loss, abs=1e-9)
        points = np.concatenate([X[trial] @ trained.axes[trial].T, np.ones((6, 1))], axis=1)
        task = mt._Task(points[None], y[trial][None])
        square = task.slopes(task.look(trained.inside[trial][None], trained.outer[trial][None]))[2]
        assert square[0] == pytest.approx(state.predicted, rel=1e-9)


@pytest.mark.parametrize("d", [3, 40])
def test_values_are_those_of_the_network_written_out(d: int) -> None:
    X, y = drawn(d=d)
    trained = mt.train(X, y, np.random.default_rng(1), hidden=50, first=0.05, steps=60, dtype=np.float64)
    fresh = np.random.default_rng(2).standard_normal((mt.CHUNK + 7, d))
    outputs = trained.values(fresh)
    assert outputs.shape == (3, mt.CHUNK + 7)
    for trial in range(3):
        layers = trained.layers(trial)
        np.testing.assert_allclose(outputs[trial], max_margin.forward(layers, fresh)[-1][:, 0], atol=1e-9)
        np.testing.assert_allclose(
            trained.margins[trial], y[trial] * max_margin.forward(layers, X[trial])[-1][:, 0], atol=1e-9
        )


def test_outside_the_span_of_its_points_a_first_layer_keeps_its_start() -> None:
    X, y = drawn(trials=1)
    trained = mt.train(X, y, np.random.default_rng(1), hidden=20, first=0.1, steps=50, dtype=np.float64)
    across = np.linalg.svd(X[0])[2][6:]
    np.testing.assert_allclose(trained.layers(0)[0][0] @ across.T, trained.start[0].T @ across.T, atol=1e-12)


def test_every_network_ends_at_the_depth_asked_for_near_a_stationary_point() -> None:
    X, y = drawn(n=8, d=60)
    trained = mt.train(X, y, np.random.default_rng(1), hidden=100, depth=200)
    assert (trained.margin >= 200).all()
    assert (trained.margin < 220).all()
    shallow = mt.train(X, y, np.random.default_rng(1), hidden=100, depth=2)
    deep, early = (
        [kkt_residual.residual(one.layers(trial), X[trial], y[trial]).total for trial in range(3)]
        for one in (trained, shallow)
    )
    assert max(deep) < 0.12
    assert min(early) > 0.15


@pytest.mark.parametrize("change", ["shorter steps", "no momentum"])
def test_another_way_down_leads_to_the_same_network(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = drawn(trials=2, n=8, d=60)
    fresh = np.random.default_rng(3).standard_normal((200, 60))
    options: dict[str, Any] = {"hidden": 100, "steps": 10_000, "dtype": np.float64}
    outputs = []
    for usual in (True, False):
        if change == "shorter steps" and not usual:
            for name in ("FIRST_FALL", "LAST_FALL", "FALL_SHARE"):
                monkeypatch.setattr(mt, name, getattr(mt, name) / 5)
        momentum = usual or change == "shorter steps"
        trained = mt.train(X, y, np.random.default_rng(1), momentum=momentum, **options)
        outputs.append(trained.values(fresh) / trained.margin[:, None])
        assert (trained.margins <= 1.01 * trained.margin[:, None]).all()
    assert np.abs(outputs[0]).max() > 0.5
    assert np.abs(outputs[0] - outputs[1]).max() < 0.05


def test_networks_in_a_batch_do_not_know_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = drawn(trials=4, n=5, d=6)
    together = mt.train(X, y, np.random.default_rng(1), hidden=40, depth=50, dtype=np.float64)
    assert len(set(together.steps)) > 1
    monkeypatch.setattr(mt, "CACHED", 40)
    alone = mt.train(X, y, np.random.default_rng(1), hidden=40, depth=50, dtype=np.float64)
    np.testing.assert_array_equal(alone.steps, together.steps)
    np.testing.assert_allclose(alone.margins, together.margins, rtol=1e-6)


def test_single_precision_tells_the_same_of_fresh_points() -> None:
    X, y = drawn(trials=4, n=10, d=100)
    fresh = np.random.default_rng(3).standard_normal((400, 100))
    shares = []
    for dtype in (np.float32, np.float64):
        trained = mt.train(X, y, np.random.default_rng(1), hidden=200, depth=200, dtype=dtype)
        shares.append((np.abs(trained.values(fresh)) < trained.margin[:, None] / 2).mean())
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


def test_points_that_no_network_can_tell_apart_have_no_margin() -> None:
    X = np.ones((1, 2, 3))
    trained = mt.train(X, np.array([[-1.0, 1.0]]), np.random.default_rng(0), hidden=10, steps=5000)
    assert trained.margin[0] <= 0
    assert trained.steps[0] < 1000
    assert trained.log_loss[0] == pytest.approx(np.log(np.log(2)), abs=1e-3)
