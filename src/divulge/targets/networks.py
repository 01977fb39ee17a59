"""Fully connected ReLU networks: their layers read out of a module or a state dict, and their Jacobian by hand."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from divulge.contract import Array, Predictions, Weights
from divulge.errors import BadInput

Layer = tuple[Array, Array]
Step = tuple[str, Layer | None]
"A layer's name, and its weights and bias; None for a ReLU."

AGREEMENT = 1e-9
"How far a network that was read may be from the module it was read from, both in double precision."


def layers(model: object) -> tuple[Layer, ...]:
    """Weights and biases of a torch module, or of a mapping such as its state dict, which is taken to be a ReLU network."""
    if isinstance(model, Mapping):
        return stack(_relu_between(_by_number(model)))
    if not is_module(model):
        raise BadInput(
            f"expected a torch module of Linear and ReLU layers, got {type(model).__name__}; "
            "pass arrays as Weights([(W1, b1), ...])"
        )
    steps = list(_steps(model))
    if _is_plain(model):
        return stack(steps)
    # A module with a forward of its own keeps its ReLUs there, unseen: assume them, then ask whether it answers the same.
    found = stack(_relu_between((name, layer) for name, layer in steps if layer is not None))
    _check_agreement(model, found)
    return found


def stack(steps: Iterable[Step]) -> tuple[Layer, ...]:
    """Layers of a network in which linear layers and ReLUs alternate, starting and ending with a linear layer."""
    found: list[Layer] = []
    before = ""
    for name, layer in steps:
        if layer is None and not found:
            raise BadInput(f"expected a linear layer first, got {name}; apply the ReLU to the points instead")
        if layer is not None and before == "linear":
            raise BadInput(f"expected a ReLU before {name}, got another linear layer; merge the two into one")
        if layer is not None and found and len(found[-1][0]) != layer[0].shape[1]:
            raise BadInput(
                f"expected {name} to take the {len(found[-1][0])} values of the layer before it, "
                f"got weights of shape {layer[0].shape}; check the order of the layers"
            )
        if layer is not None:
            found.append(layer)
        before = "relu" if layer is None else "linear"
    if not found:
        raise BadInput("expected at least one linear layer, got none; check that this is the whole network")
    if before == "relu":
        raise BadInput("expected a linear layer last, got a ReLU; read the network without its last ReLU")
    return tuple(found)


def jacobian(network: Weights, X: Array) -> Array:
    """Derivatives of the outputs at points (n, dimension): (n, outputs, dimension), or (n, dimension) for one output."""
    active = []
    X = network.centred(X)
    for W, b in network.layers[:-1]:
        X = X @ W.T + b
        active.append(X > 0)  # at a kink the slope counts as 0, as in torch
        X = np.maximum(X, 0)
    W, _ = network.layers[-1]
    slope = np.broadcast_to(W, (len(X), *W.shape))
    for mask, (W, _) in zip(reversed(active), reversed(network.layers[:-1]), strict=True):
        slope = (slope * mask[:, None, :]) @ W
    return (slope[:, 0] if slope.shape[1] == 1 else slope).copy()


def is_module(model: object) -> bool:
    """Whether this is a torch module, found out without importing torch: who holds one has imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _steps(model: Any) -> Iterator[Step]:
    from torch import nn

    for name, part in model.named_modules(remove_duplicate=False):
        title = f"layer {name!r} ({type(part).__name__})" if name else type(part).__name__
        if next(part.children(), None) is not None or isinstance(part, nn.Flatten | nn.Identity | nn.Dropout):
            continue
        if isinstance(part, nn.ReLU):
            yield title, None
        elif isinstance(part, nn.Linear) and part.in_features:
            yield title, _layer(part.weight, part.bias)
        else:
            raise BadInput(
                f"expected only Linear, ReLU, Flatten, Identity and Dropout layers, got {title}; read the network without it"
            )


def _is_plain(model: Any) -> bool:
    """Whether nothing but torch's own layers in torch's own Sequential decides what the module computes."""
    from torch import nn

    for part in model.modules():
        if next(part.children(), None) is not None and type(part) is not nn.Sequential:
            return False
        if not type(part).__module__.startswith("torch.nn.modules."):
            return False
    return True


def _check_agreement(model: Any, found: tuple[Layer, ...]) -> None:
    from divulge.targets.local import queries

    try:
        double = deepcopy(model).double()
    except RuntimeError:
        raise BadInput(
            f"expected a module that can be copied, got {type(model).__name__}; write it as nn.Sequential of Linear and ReLU"
        ) from None
    network = Weights(found)
    X = np.random.default_rng(0).standard_normal((64, network.dimension))
    ours = network.predict(X)
    theirs = queries(Predictions, double).value(X).reshape(len(X), -1)
    if ours.shape != theirs.shape or not np.abs(ours - theirs).max() <= AGREEMENT * max(1.0, np.abs(theirs).max()):
        raise BadInput(
            f"expected linear layers with ReLU between them, got {type(model).__name__}, which computes something else; "
            "write it as nn.Sequential of Linear and ReLU"
        )


def _by_number(state: Mapping[str, Any]) -> Iterator[tuple[str, Layer]]:
    """Layers in the order of the numbers in their names; one without a number, such as 'head', comes last."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        owner, _, part = str(key).rpartition(".")
        shape = tuple(np.shape(value))
        if (part, len(shape)) not in (("weight", 2), ("bias", 1)):
            raise BadInput(
                f"expected matrices such as '0.weight' and vectors such as '0.bias', got {key!r} of shape {shape}; "
                "only fully connected ReLU networks can be read"
            )
        parts.setdefault(owner, {})[part] = value
    before = None
    for place, owner in sorted((_place(owner), owner) for owner in parts):
        if place == before:
            raise BadInput(
                f"cannot tell which layer comes first, {owner!r} or another; name them '0.weight', '2.weight', ..."
            )
        if "weight" not in parts[owner]:
            raise BadInput(f"expected '{owner}.weight' beside '{owner}.bias', got the bias alone; save the whole state dict")
        yield owner, _layer(parts[owner]["weight"], parts[owner].get("bias"))
        before = place


def _place(owner: str) -> tuple[bool, tuple[int, ...]]:
    digits = tuple(int(number) for number in re.findall(r"\d+", owner))
    return not digits, digits


def _relu_between(named: Iterable[tuple[str, Layer]]) -> Iterator[Step]:
    for index, step in enumerate(named):
        if index:
            yield "a ReLU", None
        yield step


def _layer(weight: Any, bias: Any) -> Layer:
    W = _array(weight)
    return W, np.zeros(len(W)) if bias is None else _array(bias)


def _array(numbers: Any) -> Array:
    """A double-precision copy of a tensor or an array."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().double().numpy()
    return np.array(numbers, dtype=float)
