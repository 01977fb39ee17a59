"""The small ReLU network that test servers serve."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

RNG = np.random.default_rng(7)
W1, B1, W2 = RNG.standard_normal((16, 4)), RNG.standard_normal(16), RNG.standard_normal(16)


def value(X: Array) -> Array:
    return np.maximum(X @ W1.T + B1, 0) @ W2


def gradient(X: Array) -> Array:
    return np.asarray(((X @ W1.T + B1 > 0) * W2) @ W1)


def magnitude(X: Array) -> Array:
    return np.abs(gradient(X))
