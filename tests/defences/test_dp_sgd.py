"""DP-SGD: without noise it is gradient descent on clipped gradients, and ε answers to noise, epochs and points."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

from divulge.arrays import Array, Layer
from divulge.defences import dp_sgd
from divulge.errors import BadInput

RATE = 0.1


def one_step(X: Array, noise: float = 0.0, clip: float = 1e3, seed: int = 0) -> list[Layer]:
    """A linear model from 0, one step on all points, labelled 1."""
    start = [(np.zeros((1, X.shape[1])), np.zeros(1))]
    rng = np.random.default_rng(seed)
    return dp_sgd.train(start, X, np.ones(len(X)), rng, epochs=1, batch=len(X), rate=RATE, noise=noise, clip=clip)


def test_without_noise_a_step_is_one_of_gradient_descent() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    ((W, b),) = one_step(X)
    # At weights of 0 every point has the probability ½, so its gradient is −½ (x, 1).
    np.testing.assert_allclose(W[0], RATE * X.mean(axis=0) / 2, atol=1e-7)
    np.testing.assert_allclose(b, RATE / 2, rtol=1e-6)


def test_no_point_moves_the_model_by_more_than_its_clipped_gradient() -> None:
    X = np.zeros((4, 2))
    X[0, 0] = 1e4
    ((W, b),) = one_step(X, clip=0.25)
    assert np.hypot(W[0, 0], b[0]) <= RATE * 0.25 + 1e-7
    assert W[0, 0] == pytest.approx(RATE * 0.25 / 4, rel=1e-3)


def test_noise_is_as_large_as_it_says_and_drawn_by_the_seed() -> None:
    X = np.zeros((10, 2000))
    (W, _), (same, _), (other, _) = (one_step(X, noise=2.0, clip=0.5, seed=seed)[0] for seed in (0, 0, 1))
    assert np.std(W) == pytest.approx(RATE * 2.0 * 0.5 / 10, rel=0.1)
    np.testing.assert_array_equal(W, same)
    assert not np.array_equal(W, other)


def test_epsilon_falls_with_noise_and_points_and_grows_with_epochs() -> None:
    def worth(points: int = 1000, epochs: int = 10, noise: float = 1.0) -> float:
        return dp_sgd.epsilon(points, epochs=epochs, batch=64, noise=noise)

    assert worth(noise=2.0) < worth() < worth(noise=0.5)
    assert worth(points=10_000) < worth() < worth(epochs=40)


def test_without_opacus_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opacus"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(BadInput, match="pip install"):
        one_step(np.zeros((4, 2)))
