"""Fully connected ReLU networks: their layers read out of a module or a state dict, and their Jacobian by hand."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from divulge.contract import Array, Predictions, Weights
from divulge.errors import BadInput
from divulge.targets.folding import EPSILON, LINKS, Layer, Link, Scale, Step, stack, with_relus

AGREEMENT = 1e-9
"How far a network that was read may be from the module it was read from, both in double precision."
POINTS = 64
"At how many random points the two are compared."


def layers(model: object) -> tuple[Layer, ...]:
    """Weights and biases of a torch module, or of a mapping such as its state dict, which is taken to be a ReLU network."""
    return read(model).layers


def read(model: object) -> Weights:
    """The network of a torch module, or of a mapping such as its state dict, which is taken to be a ReLU network."""
    if isinstance(model, Mapping):
        return _named(model)
    if not is_module(model):
        raise BadInput(
            f"expected a torch module of Linear and ReLU layers, got {type(model).__name__}; "
            "pass arrays as Weights([(W1, b1), ...])"
        )
    steps = list(_steps(model))
    if _is_plain(model):
        found = stack(steps)
        return _agreeing(model, [found]) if found.folded or found.link else found
    # A module with a forward of its own keeps its ReLUs there, unseen, and perhaps what comes last: assume them, then ask
    # whether it answers the same.
    called = list(_steps(model, _order(model)))
    unseen = [step for step in called if step[1] is not None and not isinstance(step[1], Link)]
    tried = [_perhaps(called), stack(with_relus(unseen)), _perhaps(with_relus(unseen, late=True))]
    return _agreeing(model, [network for network in tried if network is not None])


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


def _steps(model: Any, order: list[str] | None = None) -> Iterator[Step]:
    from torch import nn

    parts = dict(model.named_modules(remove_duplicate=False))
    for name in parts if order is None else order:
        part = parts[name]
        title = f"layer {name!r} ({type(part).__name__})" if name else type(part).__name__
        if next(part.children(), None) is not None or isinstance(part, nn.Flatten | nn.Identity | nn.Dropout):
            continue
        if isinstance(part, nn.ReLU):
            yield title, None
        elif isinstance(part, nn.Linear) and part.in_features:
            yield title, _layer(part.weight, part.bias)
        elif isinstance(part, nn.BatchNorm1d):
            yield title, _scale(part, title)
        elif type(part).__name__ in _LINKS:
            if getattr(part, "dim", None) not in (None, 1, -1):
                raise BadInput(f"expected {title} over the outputs of a point, got dim={part.dim}; write it with dim=1")
            yield title, Link(_LINKS[type(part).__name__])
        elif "Norm" in type(part).__name__:
            raise BadInput(f"expected layers that scale every point alike, got {title}, {_UNEVEN}")
        else:
            raise BadInput(
                "expected only Linear, ReLU, BatchNorm1d, Flatten, Identity and Dropout layers, Sigmoid or Softmax last, "
                f"got {title}; read the network without it"
            )


_LINKS = {"Sigmoid": "sigmoid", "Softmax": "softmax", "LogSoftmax": "log-softmax"}
"torch's name of a layer -> the link's."
_UNEVEN = "which scales each point by what it is, and no ReLU network does; hold the model as predictions or gradients"


def _scale(part: Any, title: str) -> Scale:
    if part.running_mean is None:
        raise BadInput(
            f"expected {title} with running statistics, got one that scales by the batch it is asked with; train it with "
            "track_running_stats=True, or hold the model as predictions"
        )
    weight, bias = (None if one is None else _array(one) for one in (part.weight, part.bias))
    return Scale.of(_array(part.running_mean), _array(part.running_var), weight, bias, part.eps)


def _order(model: Any) -> list[str]:
    """The names of the layers in the order in which forward calls them; as they are defined, where it does not call them."""
    from divulge.targets.local import queries

    called: list[str] = []
    copy = _doubled(model)
    leaves = {name: part for name, part in copy.named_modules() if next(part.children(), None) is None}
    for name, part in leaves.items():
        part.register_forward_hook(lambda *_, name=name: called.append(name))
    asked = queries(Predictions, copy)
    called.clear()
    asked.value(np.zeros((1, asked.dimension)))
    learned = [name for name, part in leaves.items() if next(part.parameters(), None) is not None]
    return called if set(learned) <= set(called) else list(leaves)


def _is_plain(model: Any) -> bool:
    """Whether nothing but torch's own layers in torch's own Sequential decides what the module computes."""
    from torch import nn

    for part in model.modules():
        if next(part.children(), None) is not None and type(part) is not nn.Sequential:
            return False
        if not type(part).__module__.startswith("torch.nn.modules."):
            return False
    return True


def _perhaps(steps: Any) -> Weights | None:
    """The network of these steps, where they make one."""
    try:
        return stack(steps)
    except BadInput:
        return None


def _agreeing(model: Any, tried: list[Weights]) -> Weights:
    """The first of these networks that answers as the module does, with what comes last."""
    from divulge.targets.local import queries

    asked = queries(Predictions, _doubled(model))
    X = np.random.default_rng(0).standard_normal((POINTS, asked.dimension))
    theirs = asked.value(X).reshape(len(X), -1)
    for network in tried:
        if network.dimension == asked.dimension:
            for link in [network.link, *LINKS]:
                if agree(network, link, X, theirs):
                    return replace(network, link=link)
    raise BadInput(
        f"expected linear layers with ReLU between them, got {type(model).__name__}, which computes something else; "
        "write it as nn.Sequential of Linear, BatchNorm1d and ReLU"
    )


def agree(network: Weights, link: str, X: Array, theirs: Array) -> bool:
    """Whether a network with this link answers points X as the model that it was read from did."""
    ours = LINKS[link](network.predict(X))
    return ours.shape == theirs.shape and bool(np.abs(ours - theirs).max() <= AGREEMENT * max(1.0, np.abs(theirs).max()))


def _doubled(model: Any) -> Any:
    try:
        return deepcopy(model).double()
    except RuntimeError:
        raise BadInput(
            f"expected a module that can be copied, got {type(model).__name__}; write it as nn.Sequential of Linear and ReLU"
        ) from None


def _named(state: Mapping[str, Any]) -> Weights:
    """Layers in the order of the numbers in their names; one without a number, such as 'head', comes last.

    A ReLU leaves no name behind. It is taken to follow BatchNorm, as in Linear, BatchNorm, ReLU, unless the numbers have a
    gap for it right before BatchNorm alone.
    """
    steps = list(_by_number(state))
    placed: list[Step] = []
    for k, (owner, place, part) in enumerate(steps):
        after = steps[k + 1][1] if k + 1 < len(steps) else None
        between = isinstance(part, Scale) and any(isinstance(one[2], tuple) for one in steps[:k])
        early = between and k > 0 and _gap(steps[k - 1][1], place) and not isinstance(steps[k - 1][2], Scale)
        if early and after is not None and _gap(place, after):
            raise BadInput(
                f"cannot tell whether a ReLU stands before {owner!r} (BatchNorm) or behind it; read the module itself or an "
                "ONNX file"
            )
        if early or (isinstance(part, tuple) and not _relu_waits(placed)):
            placed.append(("a ReLU", None))
        placed.append((f"{owner!r} (BatchNorm)" if isinstance(part, Scale) else owner, part))
    return stack(placed)


def _relu_waits(placed: list[Step]) -> bool:
    """Whether a ReLU stands behind the last linear layer already, or there is no such layer."""
    for _, part in reversed(placed):
        if part is None or isinstance(part, tuple):
            return part is None
    return True


Place = tuple[bool, tuple[int, ...]]


def _gap(before: Place, after: Place) -> bool:
    """Whether the numbers of two layers leave room for one between them that has no weights."""
    if not before[1] or before[0] != after[0] or before[1][:-1] != after[1][:-1]:
        return False
    return after[1][-1] > before[1][-1] + 1


def _by_number(state: Mapping[str, Any]) -> Iterator[tuple[str, Place, Layer | Scale]]:
    """Layers by number; of a matrix and a BatchNorm with the same, as fc1 and bn1, the second is that whose width fits."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        owner, _, part = str(key).rpartition(".")
        shape = tuple(np.shape(value))
        if part == "num_batches_tracked":
            continue
        if (part, len(shape)) not in (("weight", 2), ("weight", 1), ("bias", 1), ("running_mean", 1), ("running_var", 1)):
            raise BadInput(
                f"expected matrices such as '0.weight' and vectors such as '0.bias', got {key!r} of shape {shape}; "
                "only fully connected ReLU networks can be read"
            )
        parts.setdefault(owner, {})[part] = value
    made = {owner: _part(owner, held) for owner, held in parts.items()}
    outputs = {_place(owner): len(one[1]) for owner, one in made.items() if isinstance(one, tuple)}
    order: list[tuple[Place, int, str]] = []
    for owner, one in made.items():
        place = _place(owner)
        fits = isinstance(one, Scale) and outputs.get(place) == len(one.factor)
        order.append((place, 0 if isinstance(one, tuple) else 1 if fits else -1, owner))
    before = None
    for place, _, owner in sorted(order):
        kind = place, type(made[owner])
        if kind == before:
            raise BadInput(
                f"cannot tell which layer comes first, {owner!r} or another; name them '0.weight', '2.weight', ..."
            )
        yield owner, place, made[owner]
        before = kind


def _part(owner: str, values: Mapping[str, Any]) -> Layer | Scale:
    """A linear layer, or BatchNorm with ε as torch has it: a state dict does not say."""
    if "running_mean" in values:
        if "running_var" not in values:
            raise BadInput(f"expected '{owner}.running_var' beside its running_mean, got none; save the whole state dict")
        given = {name: _array(value) for name, value in values.items()}
        return Scale.of(given["running_mean"], given["running_var"], given.get("weight"), given.get("bias"), EPSILON)
    if "weight" not in values:
        raise BadInput(f"expected '{owner}.weight' beside '{owner}.bias', got the bias alone; save the whole state dict")
    if np.ndim(values["weight"]) == 1:
        raise BadInput(
            f"expected layers that scale every point alike, got the weights of a LayerNorm in {owner!r}, {_UNEVEN}"
        )
    return _layer(values["weight"], values.get("bias"))


def _place(owner: str) -> Place:
    digits = tuple(int(number) for number in re.findall(r"\d+", owner))
    return not digits, digits


def _layer(weight: Any, bias: Any) -> Layer:
    W = _array(weight)
    return W, np.zeros(len(W)) if bias is None else _array(bias)


def _array(numbers: Any) -> Array:
    """A double-precision copy of a tensor or an array."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().double().numpy()
    return np.array(numbers, dtype=float)
