"""Minima of Σ ℓ(f_θ(x_i), y_i)/n + decay/2 ‖θ‖² for dense ReLU networks, in coordinates of the data's span."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_expit, log_softmax
from threadpoolctl import threadpool_limits

from divulge.arrays import Array, Layer
from divulge.solvers.margin.max_margin import Span

Loss = Callable[[Array, Array], tuple[Array, Array]]
"Outputs (n, outputs) and labels -> each point's loss (n,) and its derivative in the outputs."

WIDTHS = (0.1, 0.02, 4e-3, 8e-4, 1.6e-4)
"""Over which kinks are rounded off, one after the other: shares of the root mean square input of the layer's units at the
start of each. Most minima lie on kinks, which L-BFGS cannot see as they are."""
SMALL = 100_000
"Points times units below which one thread is quicker than several."
RESTARTS = 4
"Where kinks are left as they are, L-BFGS stalls at one and is started again so many times."


def logistic(outputs: Array, y: Array) -> tuple[Array, Array]:
    """Labels −1 and 1, one output."""
    signed = y * outputs[:, 0]
    return -log_expit(signed), (-y * np.exp(log_expit(-signed)))[:, None]


def cross_entropy(outputs: Array, y: Array) -> tuple[Array, Array]:
    """Labels 0, 1, ..., an output each."""
    logs, rows = log_softmax(outputs, axis=1), np.arange(len(outputs))
    back = np.exp(logs)
    back[rows, y] -= 1
    return -logs[rows, y], back


def squared(outputs: Array, y: Array) -> tuple[Array, Array]:
    """Numbers (n,) or (n, outputs), half the squared distance."""
    error = outputs - np.asarray(y, dtype=float).reshape(len(outputs), -1)
    return (error**2).sum(axis=1) / 2, error


LOSSES: dict[str, Loss] = {"logistic": logistic, "cross-entropy": cross_entropy, "squared": squared}


@dataclass(frozen=True)
class Minimum:
    layers: list[Layer]
    loss: float
    "Mean loss, without the decay."
    multipliers: Array
    "(n, outputs): −ℓ'/(n weight_decay), so that θ = Σ multipliers · ∇f at a minimum."


def minimise(
    layers: list[Layer],
    X: Array,
    y: Array,
    *,
    weight_decay: float,
    loss: str = "logistic",
    biases: bool = False,
    rounded: bool = False,
    iterations: int = 2000,
    report: Callable[[int, int], None] | None = None,
) -> Minimum:
    """L-BFGS on mean loss + weight_decay/2 ‖θ‖², as people use it: it stalls near a minimum, at some kink.

    `rounded` ends nearer: in stages, kinks less and less rounded off. What lies outside the span decays to 0.

    Without `biases` only the first layer has one.
    """
    W, b = decayed_start(*layers[0], X)
    span = Span.of(X, W)
    points, start = span.points, [(span.rows, b), *layers[1:]]
    sizes = [part.size for layer in start for part in layer]
    shapes = [part.shape for layer in start for part in layer]

    def unpacked(theta: Array) -> list[Layer]:
        parts = [p.reshape(s) for p, s in zip(np.split(theta, np.cumsum(sizes)[:-1]), shapes, strict=True)]
        return list(zip(parts[::2], parts[1::2], strict=True))

    def objective(widths: Array, theta: Array) -> tuple[float, Array]:
        now = unpacked(theta)
        values, slopes = _forward(now, points, widths)
        each, back = LOSSES[loss](values[-1], y)
        found: list[Layer] = []
        back = back / len(X)
        for number in range(len(now) - 1, -1, -1):
            found.append((back.T @ values[number], back.sum(axis=0) * (biases or number == 0)))
            if number:
                back = (back @ now[number][0]) * slopes[number - 1]
        return float(each.mean() + weight_decay / 2 * theta @ theta), _packed(found[::-1]) + weight_decay * theta

    theta, small = _packed(start), len(X) * max(len(b) for _, b in start) < SMALL
    stages = WIDTHS if rounded else (0.0,) * RESTARTS
    for stage, share in enumerate(stages):
        inputs = _forward(unpacked(theta), points, np.zeros(len(start)))[0]
        widths = share * np.array([np.sqrt((z**2).mean()) for z in inputs[1:]])
        options: Any = {"maxiter": iterations // len(stages), "maxcor": 30, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-9}
        with threadpool_limits(1 if small else None):  # threads that wait for each other
            theta = minimize(partial(objective, widths), theta, jac=True, method="L-BFGS-B", options=options).x
        if report:
            report(stage + 1, len(stages))
    rows = unpacked(theta)
    each, back = LOSSES[loss](_forward(rows, points, np.zeros(len(start)))[0][-1], y)
    outside = [(rows[0][0] @ span.axes, rows[0][1]), *rows[1:]]
    return Minimum(outside, float(each.mean()), -back / (len(X) * weight_decay))


def decayed_start(W: Array, b: Array, X: Array) -> tuple[Array, Array]:
    """What long decay leaves of a first layer before training has moved it: its part in the span of the points [x, 1].

    Gradients move [W, b] inside that span and decay shrinks all of it, so what lies outside ends at 0.
    """
    axes = np.linalg.svd(np.column_stack([X, np.ones(len(X))]), full_matrices=False)[2]
    kept = np.column_stack([W, b]) @ axes.T @ axes
    return kept[:, :-1], kept[:, -1]


def _forward(layers: list[Layer], X: Array, widths: Array) -> tuple[list[Array], list[Array]]:
    """What enters each layer and the outputs, and the slopes of the hidden units, kinks rounded off over `widths`."""
    values, slopes = [X], []
    for number, ((W, b), width) in enumerate(zip(layers, widths, strict=True)):
        z = values[-1] @ W.T + b
        if number == len(layers) - 1:
            values.append(z)
        elif width > 0:
            slope = np.clip(z / (2 * width) + 0.5, 0, 1)
            slopes.append(slope)
            values.append(np.where(slope < 1, width * slope**2, z))
        else:
            slopes.append((z > 0).astype(float))
            values.append(np.maximum(z, 0))
    return values, slopes


def _packed(layers: Sequence[tuple[Array, Array]]) -> Array:
    return np.concatenate([part.reshape(-1) for layer in layers for part in layer])
