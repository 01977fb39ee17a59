"""Gradient of a dense network's loss in its weights and biases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from divulge.arrays import Array, Layers

ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(float)),
    "tanh": (np.tanh, lambda a: 1 - a**2),
    "logistic": (expit, lambda a: a * (1 - a)),
    "identity": (lambda z: z, np.ones_like),
}
"Name -> the function, and its derivative written in its value."


def outputs(layers: Layers, X: Array, activation: str = "relu") -> Array:
    """(n, outputs), nothing applied to the last layer."""
    return _forward(layers, X, activation)[-1]


def gradient(
    layers: Layers, X: Array, first_derivative: Callable[[Array], Array], activation: str = "relu"
) -> list[tuple[Array, Array, Array, Array]]:
    """∂/∂W = Bᵀ A and ∂/∂b = Bᵀ 1 of Σ loss in every layer, then |B|ᵀ|A| and |B|ᵀ 1: (dW, db, |dW|, |db|).

    A (n, previous units) enters a layer, and B (n, units) is the loss's derivative in what leaves it.

    `first_derivative` takes outputs (n, outputs) to the loss's first derivative in them.
    """
    values = _forward(layers, X, activation)
    derivative = ACTIVATIONS[activation][1]
    back = first_derivative(values[-1])
    found: list[tuple[Array, Array, Array, Array]] = []
    for number in range(len(layers) - 1, -1, -1):
        size = np.abs(back)
        found.append((back.T @ values[number], back.sum(axis=0), size.T @ np.abs(values[number]), size.sum(axis=0)))
        if number:
            back = (back @ layers[number][0]) * derivative(values[number])
    return found[::-1]


def _forward(layers: Layers, X: Array, activation: str) -> list[Array]:
    """What enters each layer, and the outputs."""
    function = ACTIVATIONS[activation][0]
    values = [X]
    for number, (W, b) in enumerate(layers):
        z = values[-1] @ W.T + b
        values.append(function(z) if number < len(layers) - 1 else z)
    return values
