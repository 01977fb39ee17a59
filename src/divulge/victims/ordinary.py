"""Dense ReLU networks as people train them: torch's start, an optimiser of torch's, some epochs over batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn import functional

from divulge.arrays import Array, Layer
from divulge.errors import BadInput, refuse_unknown

OPTIMISERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
}

Augmentation = Callable[[Tensor], Tensor]
"What a step sees in the place of its points (batch, d); it draws from torch's own generator, which training seeds."


@dataclass(frozen=True, eq=False)
class Trained:
    """A network, and what it was before."""

    layers: list[Layer]
    start: list[Layer]


def train(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    *,
    hidden: Sequence[int] = (300,),
    optimiser: str = "sgd",
    lr: float = 0.1,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    epochs: int = 1000,
    batch: int | None = None,
    start: float = 1.0,
    dropout: float = 0.0,
    single: bool = False,
    biases: bool = True,
    augment: Augmentation | None = None,
) -> Trained:
    """Minimise the mean loss over `epochs`, in random batches where `batch` is given.

    Two classes have one output and the logistic loss, more have one each and cross-entropy, numbers squared error. `start`
    multiplies torch's own start of the first layer. Steps of `sgd` stay in the span of the points, so that it trains in
    coordinates of it: outside, weights only decay. Points that `augment` changes at every step have no such span.
    """
    refuse_unknown([optimiser], OPTIMISERS, "optimiser")
    if not hidden or min(hidden) < 1:
        raise BadInput(f"expected widths of hidden layers from 1, got {list(hidden)}; correct hidden")
    targets, outputs = _targets(np.asarray(y))
    kind = torch.float32 if single else torch.float64
    before = _start(rng, [X.shape[1], *hidden, outputs], start)
    if not biases:
        before = [(W, 0 * b) for W, b in before]
    axes = _axes(X) if optimiser == "sgd" and augment is None else None
    points = X if axes is None else X @ axes.T
    inside = before if axes is None else [(before[0][0] @ axes.T, before[0][1]), *before[1:]]
    network = _network(inside, dropout, kind, biases)
    options: dict[str, Any] = {"lr": lr, "weight_decay": weight_decay}
    if optimiser == "sgd":
        options["momentum"] = momentum
    with threadpool_limits(1):  # threads cost more than they bring to small products
        seen = torch.tensor(points, dtype=kind)
        _run(network, seen, targets, OPTIMISERS[optimiser], options, epochs, batch, rng, augment)
    layers = [
        (part.weight.detach().double().numpy(), part.bias.detach().double().numpy())
        for part in network
        if isinstance(part, nn.Linear)
    ]
    if not all(np.isfinite(W).all() and np.isfinite(b).all() for W, b in layers):
        raise BadInput(f"training with lr={lr:g} diverged; choose a smaller lr, or standardise data and targets")
    if axes is not None:
        steps = epochs * (1 if batch is None else -(-len(X) // batch))
        W = before[0][0]
        left = _decayed(steps, lr, momentum, weight_decay)
        layers[0] = (layers[0][0] @ axes + left * (W - W @ axes.T @ axes), layers[0][1])
    return Trained(layers, before)


def shifted(shape: Sequence[int], mean: Array, most: int = 1) -> Augmentation:
    """Pictures less a mean, each moved by up to so many pixels both ways before the mean was taken; black comes in."""
    height, width, *_ = shape
    rows, columns = np.mgrid[:height, :width]
    places = torch.tensor(rows * (width + 2 * most) + columns)

    def augment(X: Tensor) -> Tensor:
        was = torch.as_tensor(mean, dtype=X.dtype)
        pictures = (X + was).reshape(len(X), height, width, -1)
        wide = functional.pad(pictures, (0, 0, most, most, most, most)).flatten(1, 2)
        down, right = torch.randint(2 * most + 1, (2, len(X), 1, 1))
        chosen = (places + down * (width + 2 * most) + right).reshape(len(X), -1, 1).expand(-1, -1, wide.shape[-1])
        return wide.gather(1, chosen).reshape(len(X), -1) - was

    return augment


def noisy(deviation: float) -> Augmentation:
    """Points with normal noise of their own at every step."""
    return lambda X: X + deviation * torch.randn_like(X)


def mislabelled(y: Array, share: float, rng: np.random.Generator) -> Array:
    """Labels, a share of which were replaced by another class."""
    classes, places = np.unique(y, return_inverse=True)
    wrong = rng.permutation(len(y))[: round(share * len(y))]
    places[wrong] = (places[wrong] + rng.integers(1, len(classes), len(wrong))) % len(classes)
    return np.asarray(classes[places])


def _run(
    network: nn.Sequential,
    X: Tensor,
    targets: Tensor,
    kind: type[torch.optim.Optimizer],
    options: dict[str, Any],
    epochs: int,
    batch: int | None,
    rng: np.random.Generator,
    augment: Augmentation | None,
) -> None:
    steps = kind([one for one in network.parameters() if one.requires_grad], **options)
    loss = _loss(targets)
    targets = targets if targets.dtype == torch.int64 else targets.to(X.dtype)
    torch.manual_seed(int(rng.integers(2**31)))  # of dropout and augmentation
    network.train()
    for _ in range(epochs):
        order = torch.tensor(rng.permutation(len(X))) if batch is not None else None
        chosen = [slice(None)] if order is None else torch.split(order, batch or len(X))
        for some in chosen:
            steps.zero_grad()
            points = X[some] if augment is None else augment(X[some])
            torch.autograd.backward(loss(network(points), targets[some]))
            steps.step()


def _loss(targets: Tensor) -> Any:
    if targets.dtype == torch.int64:
        return functional.cross_entropy
    two = bool(((targets == 0) | (targets == 1)).all())
    return functional.binary_cross_entropy_with_logits if two else functional.mse_loss


def _targets(y: Array) -> tuple[Tensor, int]:
    """Labels as torch wants them, and how many outputs they take."""
    if y.dtype.kind == "f" and (y != np.round(y)).any():
        return torch.tensor(y.reshape(len(y), -1)), 1 if y.ndim == 1 else y.shape[1]
    classes, places = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(f"expected points of at least two classes, got {len(classes)}; draw more of them")
    if len(classes) == 2:
        return torch.tensor(places.reshape(-1, 1), dtype=torch.float64), 1
    return torch.tensor(places.reshape(-1)), len(classes)


def _start(rng: np.random.Generator, sizes: list[int], factor: float) -> list[Layer]:
    """Uniform within 1/√inputs, as torch has it, the first layer times a factor."""
    layers = []
    for number, (inputs, units) in enumerate(pairwise(sizes)):
        edge = (factor if number == 0 else 1.0) / np.sqrt(inputs)
        layers.append((rng.uniform(-edge, edge, (units, inputs)), rng.uniform(-edge, edge, units)))
    return layers


def _network(layers: list[Layer], dropout: float, kind: torch.dtype, biases: bool) -> nn.Sequential:
    parts: list[nn.Module] = []
    for W, b in layers:
        layer = nn.Linear(W.shape[1], len(b), dtype=kind)
        layer.weight.data, layer.bias.data = torch.tensor(W, dtype=kind), torch.tensor(b, dtype=kind)
        layer.bias.requires_grad_(biases)
        parts += [layer, nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*parts[: -2 if dropout else -1])


def _axes(X: Array) -> Array:
    """(rank, d), orthonormal: what the points span."""
    _, sizes, axes = np.linalg.svd(X, full_matrices=False)
    return np.asarray(axes[sizes > 1e-12 * sizes[0]])


def _decayed(steps: int, lr: float, momentum: float, weight_decay: float) -> float:
    """What is left of a weight that no point moves, of SGD's steps v ← μv + wd·w, w ← w − lr·v."""
    w, v = 1.0, 0.0
    for _ in range(steps):
        v = momentum * v + weight_decay * w
        w -= lr * v
    return w
