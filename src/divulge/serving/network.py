"""A network in a file, as servers of demonstrations answer for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from divulge.arrays import Array
from divulge.contract import Gradients, Weights

NAME = "network"
OUTPUTS = ("value", "gradient")


def answer(model: Gradients, name: str, X: Array) -> Array:
    """An output by its name."""
    ask = {"value": model.value, "gradient": model.gradient}[name]
    return np.ascontiguousarray(ask(X), dtype=float)


def metadata(name: str, dimension: int) -> dict[str, Any]:
    """What a V2 server says of it."""
    outputs = [{"name": output, "datatype": "FP64", "shape": [-1, -1]} for output in OUTPUTS]
    inputs = [{"name": "points", "datatype": "FP64", "shape": [-1, dimension]}]
    return {"name": name, "versions": ["1"], "platform": "divulge", "inputs": inputs, "outputs": outputs}


def read(path: Path | str) -> Gradients:
    """A network from its file, to be asked."""
    from divulge.targets import files

    found = files.read("weights", Path(path), {})
    assert isinstance(found, Weights)
    return Gradients.of(found)


def save(network: Weights, path: Path) -> None:
    """As `read` takes it: arrays W1, b1, W2, b2 ..."""
    layers = enumerate(network.layers, 1)
    arrays = {f"{name}{number}": array for number, layer in layers for name, array in zip("Wb", layer, strict=True)}
    np.savez(path, allow_pickle=False, **arrays)
