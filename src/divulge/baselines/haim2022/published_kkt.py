"""The objective and optimiser of Haim et al. 2022, by automatic differentiation: what the hand-written one is held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from divulge.arrays import Array, Layers
from divulge.solvers.kkt.descent import Solution

MOMENTUM = 0.9


class _SoftReLU(torch.autograd.Function):
    """max(0, z), differentiated as if its slope were sigmoid(αz)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, alpha: float) -> Tensor:
        ctx.save_for_backward(z)
        ctx.alpha = alpha
        return torch.relu(z)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        return above * torch.sigmoid(ctx.alpha * z), None


def _soft(z: Tensor, alpha: float) -> Tensor:
    found: Tensor = _SoftReLU.apply(z, alpha)  # type: ignore[no-untyped-call]  # torch's own
    return found


def objective(theta: Sequence[Tensor], x: Tensor, multipliers: Tensor, signs: Tensor, alpha: float, least: float) -> Tensor:
    """Stationarity over all layers, multipliers of at least `least`, pixels within −1 and 1; theta is W1, b1, W2, W3, ..."""
    W, b, *deeper = theta
    value = _soft(x @ W.T + b, alpha)
    for number, W in enumerate(deeper):
        value = value @ W.T
        if number < len(deeper) - 1:
            value = _soft(value, alpha)
    total = (value[:, 0] * multipliers * signs).sum()
    slopes = torch.autograd.grad(total, theta, create_graph=True)
    stationarity: Tensor = sum(  # type: ignore[assignment]  # there is at least one
        (p.detach() - slope).square().sum() for p, slope in zip(theta, slopes, strict=True)
    )
    short = torch.relu(least - multipliers).sum()
    outside = torch.relu(x - 1).square().sum() + torch.relu(-1 - x).square().sum()
    return stationarity + short + outside


def descend(
    layers: Layers,
    signs: Array,
    rng: np.random.Generator,
    *,
    steps: int,
    rate: float,
    spread: float,
    softness: float,
    least: float,
    report: Callable[[int, float], None] | None = None,
) -> Solution:
    """Gradient descent with momentum on points and multipliers, in double precision and all coordinates.

    signs (m,) of −1 and 1. Biases other than the first layer's are left out, as published.
    """
    theta = [torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in layers[0]]
    theta += [torch.tensor(W, dtype=torch.float64, requires_grad=True) for W, _ in layers[1:]]
    x = torch.tensor(spread * rng.standard_normal((len(signs), layers[0][0].shape[1])), requires_grad=True)
    multipliers = torch.tensor(rng.random(len(signs)), requires_grad=True)
    sides = torch.tensor(signs, dtype=torch.float64)
    optimiser = torch.optim.SGD([x, multipliers], lr=rate, momentum=MOMENTUM)
    loss = torch.tensor(np.inf)
    for step in range(steps):
        optimiser.zero_grad()
        loss = objective(theta, x, multipliers, sides, softness, least)
        if not torch.isfinite(loss):
            break
        torch.autograd.backward(loss, inputs=[x, multipliers])
        optimiser.step()
        if report and step % 10 == 0:
            report(step, float(loss.detach()))
    found = x.detach().numpy()
    found = found if np.isfinite(found).all() else np.zeros_like(found)
    size = sum(float(part.detach().square().sum()) for part in theta)
    return Solution(found, (multipliers.detach() * sides).numpy()[:, None], float(loss.detach()) / size)
