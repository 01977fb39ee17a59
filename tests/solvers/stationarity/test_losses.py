"""Losses: every derivative against finite differences of the loss itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.stationarity.losses import LOSSES, huber

STEP = 1e-6
LOSS: dict[str, Callable[[Array, Array], Array]] = {
    "squared": lambda f, y: 0.5 * (f - y) ** 2,
    "mean_squared": lambda f, y: (f - y) ** 2,
    "logistic": lambda f, y: np.log1p(np.exp(-y * f)),
    "squared_hinge": lambda f, y: np.maximum(1 - y * f, 0) ** 2,
    "hinge": lambda f, y: np.maximum(1 - y * f, 0),
    "modified_huber": lambda f, y: np.where(y * f < -1, -4 * y * f, np.maximum(1 - y * f, 0) ** 2),
    "poisson": lambda f, y: np.exp(f) - y * f,
}


def test_every_loss_but_the_softmax_is_tested_here() -> None:
    assert {*LOSS, "softmax"} == set(LOSSES)


@pytest.mark.parametrize("name", LOSS)
def test_the_first_derivative_is_that_of_the_loss_and_the_second_bounds_its_change(name: str) -> None:
    rng = np.random.default_rng(0)
    loss = LOSSES[name]
    f = rng.uniform(-3, 3, size=(200, 1))
    y = rng.choice([-1.0, 1.0], size=(200, 1)) if loss.margins else rng.uniform(0, 2, size=(200, 1))
    numeric = (LOSS[name](f + STEP, y) - LOSS[name](f - STEP, y)) / (2 * STEP)
    assert loss.first_derivative(f, y) == pytest.approx(numeric, rel=1e-5, abs=1e-5)
    if loss.smooth:
        change = (loss.first_derivative(f + STEP, y) - loss.first_derivative(f - STEP, y)) / (2 * STEP)
        assert (np.abs(change) <= loss.second_derivative(f, y) * (1 + 1e-4) + 1e-6).all()


def test_the_softmax_couples_the_outputs_of_a_point() -> None:
    f, y = np.random.default_rng(1).normal(size=(1, 4)), np.array([[0.0, 1, 0, 0]])

    def cross_entropy(f: Array) -> float:
        return float(np.log(np.exp(f).sum()) - (f * y).sum())

    numeric = [(cross_entropy(f + STEP * e) - cross_entropy(f - STEP * e)) / (2 * STEP) for e in np.eye(4)]
    assert LOSSES["softmax"].first_derivative(f, y)[0] == pytest.approx(numeric, rel=1e-5, abs=1e-8)
    assert LOSSES["softmax"].joint


def test_the_mean_squared_loss_is_divided_by_the_number_of_outputs() -> None:
    rng = np.random.default_rng(2)
    f, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    mean = LOSSES["mean_squared"]
    assert mean.first_derivative(f, y) == pytest.approx(2 / 3 * (f - y))
    assert mean.second_derivative(f, y) == pytest.approx(np.full((5, 3), 2 / 3))


def test_hubers_loss_is_linear_beyond_epsilon() -> None:
    def outliers(f: Array, y: Array, scale: float = 0.7, epsilon: float = 1.35) -> Array:
        z = (y - f) / scale
        return np.asarray(scale * np.where(np.abs(z) < epsilon, z**2, 2 * epsilon * np.abs(z) - epsilon**2))

    rng = np.random.default_rng(1)
    f, y = rng.normal(size=(50, 1)), 2 * rng.normal(size=(50, 1))
    numeric = (outliers(f + STEP, y) - outliers(f - STEP, y)) / (2 * STEP)
    loss = huber(1.35, 0.7)
    assert loss.first_derivative(f, y) == pytest.approx(numeric, rel=1e-5, abs=1e-5)
    change = (loss.first_derivative(f + STEP, y) - loss.first_derivative(f - STEP, y)) / (2 * STEP)
    assert (np.abs(change) <= loss.second_derivative(f, y) * (1 + 1e-4)).all()
