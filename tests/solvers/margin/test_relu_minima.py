"""Minima on kinks: the objective is torch's, and nothing near what is found is lower."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.func import grad

from divulge.solvers.margin.relu_minima import DecayedObjective, minimise, relative_residual


def objective(
    decay: float = 0.01, shapes: tuple[tuple[int, int], ...] = ((4, 3), (1, 4)), seed: int = 0
) -> DecayedObjective:
    """A noisy curve in three dimensions, 40 points."""
    rng = np.random.default_rng(seed)
    X = torch.tensor(rng.standard_normal((40, 3)))
    y = torch.sin(2 * X.sum(dim=1, keepdim=True)) + 0.1 * torch.tensor(rng.standard_normal((40, 1)))
    return DecayedObjective(shapes, X, lambda outputs: ((outputs - y) ** 2).mean(), decay)


def start(given: DecayedObjective, seed: int = 0) -> torch.Tensor:
    size = sum(units * inputs + units for units, inputs in given.shapes)
    return torch.tensor(np.random.default_rng(seed).standard_normal(size) / 2)


def as_module(given: DecayedObjective, theta: torch.Tensor) -> torch.nn.Sequential:
    modules: list[torch.nn.Module] = []
    for W, b in given.layers(theta):
        layer = torch.nn.Linear(W.shape[1], W.shape[0], dtype=torch.float64)
        layer.weight.data, layer.bias.data = W, b
        modules += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


@pytest.mark.parametrize("shapes", [((4, 3), (1, 4)), ((5, 3), (4, 5), (1, 4))])
def test_the_objective_is_the_network_s_loss_with_decay(shapes: tuple[tuple[int, int], ...]) -> None:
    given = objective(shapes=shapes)
    theta = start(given)
    value, inputs = given.value(theta)
    module = as_module(given, theta)
    assert value.item() == pytest.approx((given.loss(module(given.X)) + 0.005 * theta @ theta).item(), rel=1e-14)
    np.testing.assert_allclose(given.by_layer(inputs)[0], module[0](given.X).detach())


@pytest.mark.slow
@pytest.mark.parametrize("width", [1e-1, 1e-3])
def test_rounding_off_is_within_its_width_and_smooth(width: float) -> None:
    given = objective()
    theta = start(given)
    assert given.value(theta, width)[0].item() == pytest.approx(given.value(theta)[0].item(), abs=20 * width)
    gradient = grad(lambda at: given.value(at, width)[0])(theta)
    step = 1e-7
    for number in range(0, len(theta), 5):
        along = torch.zeros_like(theta)
        along[number] = step
        numeric = (given.value(theta + along, width)[0] - given.value(theta - along, width)[0]) / (2 * step)
        assert gradient[number].item() == pytest.approx(numeric.item(), rel=1e-4, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1e-3, 1e-2, 1e-1])
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_near_a_minimum_is_lower(decay: float, seed: int) -> None:
    given = objective(decay)
    theta = minimise(given, start(given, seed))
    as_torch, along = relative_residual(given, theta)
    assert along < 1e-9
    assert as_torch < 1e-9 or (given.value(theta)[1].abs() < 1e-9).any()
    least = given.value(theta)[0].item()
    rng = np.random.default_rng(seed)
    for size in (1e-5, 1e-3):
        for _ in range(100):
            other = theta + size * torch.tensor(rng.standard_normal(len(theta)))
            assert given.value(other)[0].item() > least - 1e-14


@pytest.mark.slow
def test_the_last_layer_has_no_gradient_on_a_kink() -> None:
    given = objective()
    theta = minimise(given, start(given))
    gradient = given.layers(grad(lambda at: given.value(at)[0])(theta))
    assert max(part.abs().max().item() for part in gradient[-1]) < 1e-12
    assert max(part.abs().max().item() for part in gradient[0]) > 1e-6


@pytest.mark.slow
def test_two_hidden_layers_have_minima_too() -> None:
    given = objective(shapes=((5, 3), (4, 5), (1, 4)))
    assert relative_residual(given, minimise(given, start(given)))[1] < 1e-6


def test_strong_decay_leaves_a_bias_and_no_units() -> None:
    given = objective(decay=10.0)
    theta = minimise(given, start(given))
    (W, b), (after, bias) = given.layers(theta)
    assert not any(part.any() for part in (W, b, after))
    mean = -grad(lambda at: given.loss(at.expand(40, 1)))(torch.zeros(1, dtype=torch.float64)) / 2
    assert bias.item() == pytest.approx(2 * mean.item() / (2 + 10), rel=1e-9)
