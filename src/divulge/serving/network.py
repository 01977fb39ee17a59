"""A network in a file, as servers of demonstrations answer for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from divulge.arrays import Array
from divulge.contract import Gradients, Weights

NAME = "network"
OUTPUTS = ("value", "gradient")


@dataclass(frozen=True, eq=False)
class Network:
    """Values and input gradients by the names of a server's outputs."""

    model: Gradients

    @property
    def dimension(self) -> int:
        return self.model.dimension

    def answer(self, name: str, X: Array) -> Array:
        ask = {"value": self.model.value, "gradient": self.model.gradient}[name]
        return np.ascontiguousarray(ask(X), dtype=float)


def metadata(name: str, dimension: int) -> dict[str, Any]:
    """What a V2 server says of it."""
    outputs = [{"name": output, "datatype": "FP64", "shape": [-1, -1]} for output in OUTPUTS]
    inputs = [{"name": "points", "datatype": "FP64", "shape": [-1, dimension]}]
    return {"name": name, "versions": ["1"], "platform": "divulge", "inputs": inputs, "outputs": outputs}


def read(path: Path | str) -> Network:
    """A network from its file."""
    from divulge.targets import files

    found = files.read("weights", Path(path), {})
    assert isinstance(found, Weights)
    return Network(Gradients.of(found))


def save(network: Weights, path: Path) -> None:
    """As `read` takes it: arrays W1, b1, W2, b2 ..."""
    layers = enumerate(network.layers, 1)
    arrays = {f"{name}{number}": array for number, layer in layers for name, array in zip("Wb", layer, strict=True)}
    np.savez(path, allow_pickle=False, **arrays)
