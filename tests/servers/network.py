"""The two-layer ReLU network that every server here serves, with nothing but NumPy; and the book in which it counts."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Network:
    """The arrays W1, b1, W2, b2 of the npz that DIVULGE_NETWORK names."""

    def __init__(self) -> None:
        with np.load(os.environ["DIVULGE_NETWORK"]) as arrays:
            self.W1, self.b1, self.W2, self.b2 = (arrays[name] for name in ("W1", "b1", "W2", "b2"))

    def logits(self, X: Array) -> Array:
        """(n, outputs)."""
        return np.asarray(np.maximum(X @ self.W1.T + self.b1, 0) @ self.W2.T + self.b2)

    def jacobians(self, X: Array) -> Array:
        """(n, outputs, inputs)."""
        active = X @ self.W1.T + self.b1 > 0
        return np.asarray((self.W2 * active[:, None]) @ self.W1)


def points(rows: Any) -> Array:
    """The points of one inference request, which is counted: its rows, on a line of the file that DIVULGE_COUNT names."""
    X = np.asarray(rows, dtype=float)
    X = X.reshape(-1, X.shape[-1])
    with Path(os.environ["DIVULGE_COUNT"]).open("a") as book:
        book.write(f"{len(X)}\n")
    return X
