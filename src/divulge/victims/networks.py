"""Dense ReLU networks with weight decay: to a minimum, or as people train them, on the full batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional

from divulge.contract import Array, TrainingData
from divulge.errors import BadInput, refuse_unknown
from divulge.solvers.margin import relu_minima

EPOCHS = {"lbfgs": 10_000, "sgd": 2000, "adam": 2000}
RATES = {"sgd": 0.1, "adam": 0.01}
"Unless told otherwise."
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": functional.cross_entropy,
    "binary_cross_entropy_with_logits": functional.binary_cross_entropy_with_logits,
    "mse": functional.mse_loss,
}
CLASSES = 20
"Whole numbers of more different values are no classes."


def train(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    *,
    weight_decay: float,
    hidden: Sequence[int] = (16,),
    loss: str = "auto",
    optimiser: str = "lbfgs",
    epochs: int | None = None,
    lr: float | None = None,
) -> torch.nn.Sequential:
    """Minimise mean loss + weight_decay/2 ‖θ‖² over all weights and biases θ, in double precision.

    The loss follows from the labels: two classes have one output, positive for the second in sorted order, more have one
    each, and numbers are fitted by torch's mean squared error. `lbfgs` ends in a local minimum, where the gradient is 0
    but for rounding, except that of weights into a unit whose input is exactly 0 in some point: most minima have such
    kinks. It stops at `epochs` iterations a stage, or short of the last digits in a network of thousands of weights.
    `sgd` and `adam` are torch's own, with their weight_decay, and end after `epochs` steps wherever they are.
    """
    refuse_unknown([optimiser], EPOCHS, "optimiser")
    refuse_unknown([loss], ("auto", *LOSSES), "loss")
    numbers: dict[str, Any] = {"weight_decay": weight_decay, "lr": lr, "epochs": epochs}
    for name, value in numbers.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf):
            raise BadInput(f"expected a positive number for {name} of a network, got {value!r}; correct it")
    if optimiser == "lbfgs" and lr is not None:
        raise BadInput(f"expected no learning rate for lbfgs, which searches for its steps, got {lr:g}; leave lr out")
    if not hidden:
        raise BadInput("expected at least one hidden layer, got none; a linear model has its own recipe")
    for width in hidden:
        if isinstance(width, bool) or not isinstance(width, int | np.integer) or width < 1:
            raise BadInput(f"expected whole numbers from 1 as widths of hidden layers, got {width!r}; correct hidden")
    rows = torch.tensor(TrainingData(X, y).X)
    loss, outputs, targets = _task(np.asarray(y), loss)
    network = _start(rng, [rows.shape[1], *hidden, outputs])
    epochs = int(epochs or EPOCHS[optimiser])
    if optimiser == "lbfgs":
        objective, theta = _objective(network, rows, targets, loss, weight_decay)
        _write(network, relu_minima.minimise(objective, theta, epochs))
        return network
    rate = lr or RATES[optimiser]
    kind = torch.optim.SGD if optimiser == "sgd" else torch.optim.Adam
    steps = kind(network.parameters(), lr=rate, weight_decay=weight_decay)
    with threadpool_limits(1):  # threads cost more than they bring to small products
        for _ in range(epochs):
            steps.zero_grad()
            torch.autograd.backward(LOSSES[loss](network(rows), targets))
            steps.step()
    if not all(torch.isfinite(part).all() for part in network.parameters()):
        raise BadInput(f"training with lr={rate:g} diverged; choose a smaller lr, or standardise data and targets")
    return network


def relative_residual(
    network: torch.nn.Sequential, X: Array, y: Array, weight_decay: float, loss: str = "auto"
) -> tuple[float, float]:
    """‖gradient‖ / (weight_decay ‖θ‖) as torch has it, and without the directions that leave a kink."""
    loss, _, targets = _task(np.asarray(y), loss)
    return relu_minima.relative_residual(
        *_objective(network, torch.tensor(TrainingData(X, y).X), targets, loss, weight_decay)
    )


def _task(y: Array, loss: str) -> tuple[str, int, Tensor]:
    """The loss, how many outputs it takes, and the targets as torch wants them."""
    classes, numbers = np.unique(y, return_inverse=True)
    if loss == "auto":
        whole = y.dtype.kind in "USb" or (classes == np.round(classes)).all()
        names = ("binary_cross_entropy_with_logits", "cross_entropy")
        loss = names[len(classes) > 2] if whole and len(classes) <= CLASSES else "mse"
    if loss == "mse":
        if y.dtype.kind in "US":
            raise BadInput("expected numbers as targets of the loss mse, got names of classes; use loss='auto'")
        targets = torch.tensor(y.reshape(len(y), -1), dtype=torch.float64)
        return loss, targets.shape[1], targets
    if len(classes) < 2 or (loss.startswith("binary") and len(classes) > 2):
        raise BadInput(
            f"expected labels of another number of classes for the loss {loss}, got {len(classes)}; use loss='auto'"
        )
    if loss.startswith("binary"):
        return loss, 1, torch.tensor(numbers.reshape(-1, 1), dtype=torch.float64)
    return loss, len(classes), torch.tensor(numbers.reshape(-1))


def _start(rng: np.random.Generator, sizes: list[int]) -> torch.nn.Sequential:
    """Layers as torch begins them, uniform within 1/√inputs."""
    modules: list[torch.nn.Module] = []
    for inputs, units in pairwise(sizes):
        layer = torch.nn.Linear(inputs, units, dtype=torch.float64)
        for part in (layer.weight, layer.bias):
            part.data = torch.tensor(rng.uniform(-1, 1, part.shape) / np.sqrt(inputs))
        modules += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


def _objective(
    network: torch.nn.Sequential, X: Tensor, targets: Tensor, loss: str, weight_decay: float
) -> tuple[relu_minima.DecayedObjective, Tensor]:
    shapes = tuple((module.out_features, module.in_features) for module in network if isinstance(module, torch.nn.Linear))
    theta = torch.cat([part.data.reshape(-1) for part in network.parameters()])
    return relu_minima.DecayedObjective(shapes, X, lambda outputs: LOSSES[loss](outputs, targets), weight_decay), theta


def _write(network: torch.nn.Sequential, theta: Tensor) -> None:
    parts = list(network.parameters())
    for part, numbers in zip(parts, torch.split(theta, [part.numel() for part in parts]), strict=True):
        part.data = numbers.reshape(part.shape).clone()
