"""Architectures: the published sizes, channels last, and the same network again from its arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from divulge.solvers.shared import architectures

SHAPES: dict[str, tuple[int, ...]] = {
    "one-layer": (7,),
    "two-layer": (7,),
    "convolutional": (28, 28),
    "vgg-11": (28, 28),
    "resnet-18": (32, 32, 3),
}


def small(name: str) -> torch.nn.Module:
    return architectures.build(name, SHAPES[name], 4, 0, width=4).eval()


@pytest.mark.parametrize("name", architectures.NAMES)
def test_flat_points_become_logits(name: str) -> None:
    assert small(name)(torch.rand(3, int(np.prod(SHAPES[name])))).shape == (3, 4)


@pytest.mark.parametrize("name", architectures.NAMES)
def test_a_network_is_the_same_again_from_its_arrays(name: str) -> None:
    module, X = small(name), torch.rand(3, int(np.prod(SHAPES[name])))
    again = architectures.restore(name, SHAPES[name], 4, architectures.state(module))
    assert torch.equal(again(X), module(X))


@pytest.mark.parametrize(("name", "count"), [("vgg-11", 9_228_362), ("resnet-18", 11_173_962)])
def test_the_deep_networks_have_their_published_size_on_cifar(name: str, count: int) -> None:
    module = architectures.build(name, (32, 32, 3), 10, 0)
    assert sum(part.numel() for part in module.parameters()) == count


def test_colours_are_the_last_axis_of_a_flat_picture() -> None:
    pictures = np.random.default_rng(0).random((2, 4, 5, 3)).astype(np.float32)
    seen = architectures.Picture((4, 5, 3))(torch.tensor(pictures.reshape(2, -1)))
    assert np.array_equal(seen.numpy(), pictures.transpose(0, 3, 1, 2))


def test_the_start_follows_from_the_seed_and_leaves_other_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, again, other = (architectures.state(architectures.build("two-layer", (3,), 2, seed)) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["0.weight"], other["0.weight"])


@pytest.mark.parametrize(("name", "shape"), [("convolutional", (30,)), ("convolutional", (8, 8)), ("vgg-11", (4, 4, 3))])
def test_points_that_are_no_pictures_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="needs pictures"):
        architectures.build(name, shape, 10, 0)
