"""Networks with weight decay: which loss, which objective, and how near to its minimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from divulge import Weights, datasets
from divulge.errors import BadInput
from divulge.victims import networks


def seeded(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def targets(name: str, samples: int = 90) -> tuple[Any, Any]:
    data = datasets.load(name, samples=samples, standardised=True)
    return data.X, data.y if data.classes else (data.y - data.y.mean()) / data.y.std()


def objective(network: torch.nn.Sequential, X: Any, y: Any, decay: float) -> torch.Tensor:
    """Written once more, from the labels."""
    outputs = network(torch.tensor(X))
    classes = np.unique(y)
    if y.dtype.kind == "f":
        loss = mse_loss(outputs[:, 0], torch.tensor(y))
    elif len(classes) == 2:
        loss = binary_cross_entropy_with_logits(outputs[:, 0], torch.tensor((y == classes[1]).astype(float)))
    else:
        loss = cross_entropy(outputs, torch.tensor(np.searchsorted(classes, y)))
    return loss + decay / 2 * sum((part**2).sum() for part in network.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "breast-cancer", "diabetes"])
@pytest.mark.parametrize("decay", [0.01, 0.1])
def test_lbfgs_ends_in_a_minimum(name: str, decay: float) -> None:
    X, y = targets(name)
    network = networks.train(X, y, seeded(), weight_decay=decay, hidden=(6,))
    assert networks.relative_residual(network, X, y, decay)[1] < 1e-8
    end = network[-1]
    assert isinstance(end, torch.nn.Linear)
    last = (end.weight, end.bias)
    gradient = torch.autograd.grad(objective(network, X, y, decay), last)
    assert max(part.abs().max().item() for part in gradient) < 1e-8 * decay
    bare = torch.autograd.grad(objective(network, X, y, 0.0), last)
    weights = torch.cat([part.detach().reshape(-1) for part in last])
    slopes = torch.cat([part.reshape(-1) for part in bare])
    assert -(weights @ slopes) / (weights @ weights) == pytest.approx(decay, rel=1e-8)


def test_a_minimum_predicts() -> None:
    X, y = targets("iris")
    network = networks.train(X, y, seeded(), weight_decay=0.01, hidden=(6,))
    assert (network(torch.tensor(X)).argmax(dim=1).numpy() == y).mean() > 0.95
    weights = Weights.of(network)
    assert [W.shape for W, _ in weights.layers] == [(6, 4), (3, 6)]
    np.testing.assert_allclose(weights.predict(X), network(torch.tensor(X)).detach().numpy())


@pytest.mark.parametrize("optimiser", ["lbfgs", "sgd", "adam"])
def test_the_generator_alone_decides(optimiser: str) -> None:
    X, y = targets("iris", 30)
    first, again, other = (
        networks.train(X, y, seeded(seed), weight_decay=0.1, hidden=(3, 2), optimiser=optimiser, epochs=20)
        for seed in (0, 0, 1)
    )
    parts = [torch.cat([part.detach().reshape(-1) for part in one.parameters()]) for one in (first, again, other)]
    assert parts[0].dtype == torch.float64
    assert torch.equal(parts[0], parts[1])
    assert not torch.equal(parts[0], parts[2])


@pytest.mark.parametrize("name", ["iris", "breast-cancer", "diabetes"])
def test_a_step_of_sgd_follows_the_whole_objective(name: str) -> None:
    X, y = targets(name, 30)
    settings: dict[str, Any] = {"weight_decay": 0.5, "optimiser": "sgd", "lr": 0.01}
    one, two = (networks.train(X, y, seeded(), epochs=epochs, **settings) for epochs in (1, 2))
    gradient = torch.autograd.grad(objective(one, X, y, 0.5), list(one.parameters()))
    for before, slope, after in zip(one.parameters(), gradient, two.parameters(), strict=True):
        torch.testing.assert_close(before - 0.01 * slope, after, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_other_optimisers_learn_and_stop_short_of_a_minimum(optimiser: str) -> None:
    X, y = targets("breast-cancer")
    network = networks.train(X, y, seeded(), weight_decay=0.01, optimiser=optimiser, epochs=300)
    assert ((network(torch.tensor(X))[:, 0] > 0).numpy() == y).mean() > 0.95
    assert networks.relative_residual(network, X, y, 0.01)[1] > 1e-4


@pytest.mark.parametrize(
    ("y", "loss", "outputs"),
    [
        (np.arange(30) % 2 * 2 - 1, "auto", 1),
        (np.arange(30) % 4, "auto", 4),
        (np.array(["a", "b", "c"])[np.arange(30) % 3], "auto", 3),
        (np.arange(30) % 2, "cross_entropy", 2),
        (np.arange(30), "auto", 1),
        (np.linspace(0, 1, 30), "auto", 1),
        (np.arange(30) % 2, "mse", 1),
        (np.random.default_rng(0).standard_normal((30, 2)), "auto", 2),
    ],
)
def test_labels_choose_the_outputs(y: Any, loss: str, outputs: int) -> None:
    X = seeded().standard_normal((30, 4))
    network = networks.train(X, y, seeded(), weight_decay=0.1, hidden=(3,), loss=loss, optimiser="adam", epochs=2)
    assert network[-1].out_features == outputs


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weight_decay": 0}, "expected a positive number for weight_decay of a network, got 0"),
        ({"optimiser": "adamw"}, "optimiser: unknown key 'adamw'; did you mean 'adam'"),
        ({"loss": "hinge"}, "loss: unknown key 'hinge'"),
        ({"lr": 0.1}, "expected no learning rate for lbfgs"),
        ({"loss": "binary_cross_entropy_with_logits"}, "expected labels of another number of classes .* got 3"),
        ({"hidden": (0,)}, "expected whole numbers from 1 as widths of hidden layers, got 0"),
        ({"hidden": ()}, "expected at least one hidden layer"),
        ({"optimiser": "sgd", "lr": 1e9, "loss": "mse", "epochs": 500}, "training with lr=1e[+]09 diverged"),
    ],
)
def test_other_settings_are_refused(changes: dict[str, Any], sentence: str) -> None:
    X, y = targets("iris", 30)
    with pytest.raises(BadInput, match=sentence):
        networks.train(X, y, seeded(), **{"weight_decay": 0.1, **changes})
