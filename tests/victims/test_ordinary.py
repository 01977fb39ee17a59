"""Networks as people train them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from divulge.arrays import Array
from divulge.errors import BadInput
from divulge.victims import ordinary


def points(n: int = 12, d: int = 20) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), np.arange(n) % 2


def by_torch(X: Array, y: Array, start: list[tuple[Array, Array]], momentum: float, decay: float, epochs: int) -> Array:
    """The first layer after as many full-batch steps of torch's own SGD, in all coordinates."""
    parts: list[torch.nn.Module] = []
    for W, b in start:
        layer = torch.nn.Linear(W.shape[1], len(b), dtype=torch.float64)
        layer.weight.data, layer.bias.data = torch.tensor(W), torch.tensor(b)
        parts += [layer, torch.nn.ReLU()]
    network = torch.nn.Sequential(*parts[:-1])
    steps = torch.optim.SGD(network.parameters(), lr=0.1, momentum=momentum, weight_decay=decay)
    targets = torch.tensor(y[:, None], dtype=torch.float64)
    for _ in range(epochs):
        steps.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(network(torch.tensor(X)), targets)
        torch.autograd.backward(loss)
        steps.step()
    first = network[0]
    assert isinstance(first, torch.nn.Linear)
    return np.asarray(first.weight.detach().numpy())


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.9, 1e-2)])
def test_training_in_the_span_of_the_points_is_training(momentum: float, decay: float) -> None:
    X, y = points()
    trained = ordinary.train(X, y, np.random.default_rng(1), hidden=(8,), momentum=momentum, weight_decay=decay, epochs=50)
    assert trained.layers[0][0] == pytest.approx(by_torch(X, y, trained.start, momentum, decay, 50))


def test_the_start_is_torchs_times_a_factor() -> None:
    X, y = points(d=100)
    trained = ordinary.train(X, y, np.random.default_rng(1), hidden=(50,), start=0.1, epochs=1)
    W = trained.start[0][0]
    assert 0.009 < np.abs(W).max() <= 0.1 / np.sqrt(100)
    assert np.abs(trained.start[1][0]).max() > 0.1


@pytest.mark.parametrize("optimiser", sorted(ordinary.OPTIMISERS))
def test_every_optimiser_fits_its_points(optimiser: str) -> None:
    X, y = points()
    rate = 0.1 if optimiser == "sgd" else 1e-2
    trained = ordinary.train(X, y, np.random.default_rng(1), hidden=(20,), optimiser=optimiser, lr=rate, epochs=300, batch=4)
    (W, b), (V, c) = trained.layers
    outputs = np.maximum(X @ W.T + b, 0) @ V.T + c
    assert ((outputs[:, 0] > 0) == y).all()


def test_classes_numbers_and_dropout_have_networks_of_their_own() -> None:
    X, y = points()
    rng = np.random.default_rng(1)
    assert len(ordinary.train(X, np.arange(12) % 3, rng, hidden=(8,), epochs=2).layers[-1][1]) == 3
    assert len(ordinary.train(X, np.linspace(0, 1.5, 12), rng, hidden=(8,), epochs=2).layers[-1][1]) == 1
    one, other = (ordinary.train(X, y, np.random.default_rng(1), hidden=(8,), epochs=9, dropout=p) for p in (0.0, 0.5))
    assert len(other.layers) == 2
    assert not np.allclose(one.layers[0][0], other.layers[0][0])


def test_what_cannot_be_trained_is_refused() -> None:
    X, y = points()
    rng = np.random.default_rng(1)
    with pytest.raises(BadInput, match="optimiser"):
        ordinary.train(X, y, rng, optimiser="newton")
    with pytest.raises(BadInput, match="widths"):
        ordinary.train(X, y, rng, hidden=())
    with pytest.raises(BadInput, match="two classes"):
        ordinary.train(X, 0 * y, rng)
    with pytest.raises(BadInput, match="diverged"):
        ordinary.train(1e3 * X, np.linspace(0, 1.5, 12), rng, hidden=(8,), lr=10.0, epochs=50)


def test_shifted_pictures_are_the_same_a_pixel_off_and_less_their_mean() -> None:
    rng = np.random.default_rng(0)
    X, mean = rng.uniform(size=(50, 20)), rng.uniform(size=20)
    torch.manual_seed(0)
    moved = ordinary.shifted((4, 5), mean)(torch.tensor(X - mean)).numpy() + mean
    wide = np.pad(X.reshape(50, 4, 5), ((0, 0), (1, 1), (1, 1)))
    every = np.array([wide[:, i : i + 4, j : j + 5].reshape(50, 20) for i in range(3) for j in range(3)])
    ways = np.abs(every - moved).max(axis=2) < 1e-12
    assert (ways.sum(axis=0) == 1).all()
    assert (ways.sum(axis=1) > 0).all()


def test_colours_are_shifted_together() -> None:
    X = np.arange(48.0).reshape(1, 48)
    moved = ordinary.shifted((4, 4, 3), np.zeros(48))(torch.tensor(X)).numpy().reshape(16, 3)
    seen = moved[moved.any(axis=1)]
    assert (np.diff(seen, axis=1) == 1).all()


def test_what_augments_changes_every_step_and_leaves_the_span_of_the_points() -> None:
    X, y = points()
    trained = ordinary.train(X, y, np.random.default_rng(1), hidden=(8,), epochs=30, augment=ordinary.noisy(0.5))
    added = trained.layers[0][0] - trained.start[0][0]
    assert np.linalg.matrix_rank(np.concatenate([X, added]), tol=1e-6) > len(X)
    again = ordinary.train(X, y, np.random.default_rng(1), hidden=(8,), epochs=30, augment=ordinary.noisy(0.5))
    np.testing.assert_array_equal(trained.layers[0][0], again.layers[0][0])


def test_a_network_without_biases_has_none() -> None:
    X, y = points()
    trained = ordinary.train(X, y, np.random.default_rng(1), hidden=(8, 6), epochs=30, biases=False)
    assert not any(b.any() for _, b in (*trained.layers, *trained.start))
    assert trained.layers[0][0].any()


def test_a_share_of_the_labels_becomes_another_class() -> None:
    y = np.arange(40) % 4 + 3
    wrong = ordinary.mislabelled(y, 0.25, np.random.default_rng(0))
    assert int(np.sum(wrong != y)) == 10
    assert set(wrong) <= set(y)
    np.testing.assert_array_equal(ordinary.mislabelled(y, 0.0, np.random.default_rng(0)), y)
