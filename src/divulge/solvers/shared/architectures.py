"""Classifiers by name, from flat points to logits: one layer to ResNet-18, as torch modules and as plain arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

DENSE = ("one-layer", "two-layer")
PICTURES = ("convolutional", "vgg-11", "resnet-18")
NAMES = (*DENSE, *PICTURES)
WIDTHS = {"one-layer": 0, "two-layer": 128, "convolutional": 16, "vgg-11": 64, "resnet-18": 64}
"Hidden units, or channels of the first convolution, unless told otherwise; the deep nets have their authors' widths."
KERNEL = 5
HIDDEN = 8
"Units between the two dense layers of the convolutional net, for each channel of its first convolution."
VGG = ((1,), (2,), (4, 4), (8, 8), (8, 8))
"Channels in multiples of the width; a max-pool ends every group."
SMALLEST = {"convolutional": 16, "vgg-11": 8, "resnet-18": 8}
"Sides of the smallest picture that leaves something for the last layer to see."


def build(name: str, shape: Sequence[int], classes: int, seed: int, width: int | None = None) -> nn.Module:
    """An untrained classifier of flat points (n, product of shape), with torch's usual start drawn from `seed`.

    Pictures are (height, width) or (height, width, channels), flattened with the channel last.
    """
    problem = unfit(name, shape)
    if problem:
        raise ValueError(problem)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _BUILDERS[name](tuple(int(side) for side in shape), classes, width or WIDTHS[name])
    return module.float()


def unfit(name: str, shape: Sequence[int]) -> str:
    """Why a classifier of this name cannot take points of this shape; empty where it can."""
    if name not in NAMES:
        return f"expected one of {', '.join(NAMES)}, got {name!r}"
    if name in DENSE:
        return ""
    least = SMALLEST[name]
    if len(shape) not in (2, 3) or min(shape[:2]) < least:
        return f"{name} needs pictures of {least} x {least} pixels or more, and points here have shape {tuple(shape)}"
    return ""


def width_of(name: str, state: Mapping[str, Any]) -> int:
    """The width that a state was built with."""
    if name == "one-layer":
        return 0
    return int(next(value for value in state.values() if np.ndim(value) > 1).shape[0])


def state(module: nn.Module) -> dict[str, Any]:
    """Everything a module learned, as numpy arrays by name."""
    return {name: value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()}


def restore(name: str, shape: Sequence[int], classes: int, arrays: Mapping[str, Any]) -> nn.Module:
    """The module that `state` was read from, ready to answer."""
    module = build(name, shape, classes, 0, width_of(name, arrays))
    module.load_state_dict({key: torch.tensor(np.asarray(value)) for key, value in arrays.items()})
    return module.eval()


class Picture(nn.Module):
    """Flat points, channel last, to what a convolution takes."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = (*shape, 1) if len(shape) == 2 else shape

    def forward(self, X: Tensor) -> Tensor:
        return X.reshape(-1, *self.shape).permute(0, 3, 1, 2).contiguous()

    @property
    def channels(self) -> int:
        return self.shape[2]


class Block(nn.Module):
    """Two convolutions and a way around them (He et al. 2016, arXiv:1512.03385)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(*_convolution(before, after, stride), nn.ReLU(), *_convolution(after, after))
        around = [nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)]
        self.around = nn.Sequential(*around) if stride > 1 or before != after else nn.Identity()

    def forward(self, X: Tensor) -> Tensor:
        return torch.relu(self.inner(X) + self.around(X))


def _convolution(before: int, after: int, stride: int = 1) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after)


def _one_layer(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(math.prod(shape), classes))


def _two_layer(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(math.prod(shape), width), nn.ReLU(), nn.Linear(width, classes))


def _convolutional(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    picture = Picture(shape)
    sides = [((side - KERNEL + 1) // 2 - KERNEL + 1) // 2 for side in shape[:2]]
    return nn.Sequential(
        picture,
        nn.Conv2d(picture.channels, width, KERNEL),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, KERNEL),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * math.prod(sides), HIDDEN * width),
        nn.ReLU(),
        nn.Linear(HIDDEN * width, classes),
    )


def _vgg_11(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    picture = Picture(shape)
    layers: list[nn.Module] = [picture]
    before = picture.channels
    for group in VGG:
        for factor in group:
            layers += [*_convolution(before, factor * width), nn.ReLU()]
            before = factor * width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * math.prod(-(-side // 32) for side in shape[:2]), classes))


def _resnet_18(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    picture = Picture(shape)
    layers: list[nn.Module] = [picture, *_convolution(picture.channels, width), nn.ReLU()]
    before = width
    for stage in range(4):
        after = width << stage
        layers += [Block(before, after, 2 if stage else 1), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


_BUILDERS: dict[str, Callable[[tuple[int, ...], int, int], nn.Module]] = {
    "one-layer": _one_layer,
    "two-layer": _two_layer,
    "convolutional": _convolutional,
    "vgg-11": _vgg_11,
    "resnet-18": _resnet_18,
}
