"""Training with differential privacy: opacus's DP-SGD, and the ε it is worth."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from divulge.arrays import Layer
from divulge.contract import Array
from divulge.errors import BadInput


def train(
    layers: list[Layer],
    X: Array,
    y: Array,
    rng: np.random.Generator,
    *,
    epochs: int,
    batch: int,
    rate: float,
    noise: float,
    clip: float,
    biases: bool = False,
) -> list[Layer]:
    """DP-SGD from these layers: each gradient clipped to `clip`, `noise` times that added to every sum of them.

    y is −1 and 1 for one output, or whole numbers from 0. Without `biases` only the first layer trains one.
    """
    import torch
    from torch.nn import functional
    from torch.utils.data import DataLoader, TensorDataset

    opacus = _opacus()
    modules: list[torch.nn.Module] = []
    for number, (W, b) in enumerate(layers):
        layer = torch.nn.Linear(W.shape[1], W.shape[0], bias=biases or number == 0)
        layer.weight.data = torch.tensor(W, dtype=torch.float32)
        if layer.bias is not None:
            layer.bias.data = torch.tensor(b, dtype=torch.float32)
        modules += [layer, torch.nn.ReLU()]
    seed = torch.Generator().manual_seed(int(rng.integers(2**31)))
    network = torch.nn.Sequential(*modules[:-1])
    alone = len(layers[-1][1]) == 1
    targets = torch.tensor((y + 1) / 2 if alone else y, dtype=torch.float32 if alone else torch.int64)
    points = TensorDataset(torch.tensor(X, dtype=torch.float32), targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its notes on random numbers and hooks are no news here
        engine = opacus.PrivacyEngine(secure_mode=False)
        network, steps, loader = engine.make_private(
            module=network,
            optimizer=torch.optim.SGD(network.parameters(), lr=rate),
            data_loader=DataLoader(points, batch_size=min(batch, len(X)), generator=seed),
            noise_multiplier=noise,
            max_grad_norm=clip,
            noise_generator=seed,
        )
        for _ in range(epochs):
            for rows, wanted in loader:
                if not len(rows):  # a random batch may be empty
                    continue
                steps.zero_grad()
                outputs = network(rows)
                if alone:
                    loss = functional.binary_cross_entropy_with_logits(outputs[:, 0], wanted)
                else:
                    loss = functional.cross_entropy(outputs, wanted)
                torch.autograd.backward(loss)
                steps.step()
    found: list[Layer] = []
    for module in network.modules():
        if isinstance(module, torch.nn.Linear):
            W = module.weight.detach().double().numpy()
            found.append((W, np.zeros(len(W)) if module.bias is None else module.bias.detach().double().numpy()))
    return found


def epsilon(points: int, *, epochs: int, batch: int, noise: float, delta: float = 1e-5) -> float:
    """What so many epochs of DP-SGD guarantee: (ε, delta)-differential privacy, by Rényi accounting."""
    _opacus()
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    batches = -(-points // min(batch, points))  # in an epoch, each with every point by this chance
    accountant.history = [(noise, 1 / batches, epochs * batches)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on the order at which the bound is best
        return float(accountant.get_epsilon(delta))


def _opacus() -> Any:
    try:
        import opacus
    except ImportError:
        raise BadInput(
            "expected opacus for private training, found none; get it by pip install 'divulge[private]'"
        ) from None
    return opacus
