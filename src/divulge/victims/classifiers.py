"""Classifiers of pictures, trained as people train them, and the explanations they are served with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional

from divulge.contract import Array, Copy, Gradients
from divulge.errors import BadInput
from divulge.solvers.shared import architectures

BATCH = 128
RATE = 2e-3
"The highest learning rate of a one-cycle schedule."
EPOCHS = 3
SAMPLES = 10
"Noisy points that SmoothGrad averages over, as in the paper."


def train(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    *,
    architecture: str,
    shape: Sequence[int] | None = None,
    width: int | None = None,
    epochs: int = EPOCHS,
    rate: float = RATE,
) -> Copy:
    """Minimise the cross-entropy of classes 0, 1, ... by Adam, in single precision."""
    shape = tuple(shape or (X.shape[1],))
    problem = architectures.unfit(architecture, shape)
    if problem:
        raise BadInput(f"{problem}; choose another architecture")
    if y.min() < 0 or (y != np.round(y)).any():
        raise BadInput(f"expected classes 0, 1, ... as labels, got {y.min():g} to {y.max():g}; number the classes")
    classes = int(y.max()) + 1
    module = architectures.build(architecture, shape, classes, int(rng.integers(2**31)), width)
    points, labels = torch.tensor(np.asarray(X), dtype=torch.float32), torch.tensor(y.astype(np.int64))
    batches = -(-len(X) // BATCH)
    optimiser = torch.optim.Adam(module.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=epochs * batches)
    for _ in range(epochs):
        for rows in torch.split(torch.tensor(rng.permutation(len(X))), BATCH):
            optimiser.zero_grad()
            torch.autograd.backward(functional.cross_entropy(module(points[rows]), labels[rows]))
            optimiser.step()
            schedule.step()
    return Copy(architecture, architectures.state(module), shape, classes)


def smoothed(held: Gradients, noise: float, samples: int = SAMPLES) -> Gradients:
    """The same service with its gradients smoothed: means over points with Gaussian noise (SmoothGrad, arXiv:1706.03825).

    The noise at a point follows from the point, so that the service answers the same when it is asked again.
    """

    def gradient(X: Array) -> Array:
        rows = np.concatenate([x + noise * _generator(x).standard_normal((samples, len(x))) for x in X])
        found = held.gradient(rows)
        return np.asarray(found.reshape(len(X), samples, *found.shape[1:]).mean(1))

    identity = f"{held.identity} smoothed by {noise:g} over {samples}"
    return replace(held, gradient=gradient, identity=identity, explanation=None)


def _generator(x: Array) -> np.random.Generator:
    digest = hashlib.sha256(np.ascontiguousarray(x, dtype=float).tobytes()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32))
