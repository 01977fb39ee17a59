"""One hidden layer, several, patches, curves: told apart by a few kinks, in a few dozen questions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_gradient import Tolerance
from divulge.solvers.piecewise.layer_kind import ALL, LayerKind, _Tally, opposites_differ, probe, sees_a_patch
from divulge.solvers.piecewise.regions import Ball, Box, Everywhere, Region


class Network:
    """The affine pieces of a ReLU network of any depth, in double precision or with as little noise as single leaves."""

    def __init__(self, widths: tuple[int, ...], seed: int = 0, biases: float = 1.0, noise: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.layers = [
            (rng.standard_normal((after, before)) * np.sqrt(2 / before), biases * rng.standard_normal(after))
            for before, after in pairwise(widths)
        ]
        self.rng, self.noise, self.asked = rng, noise, 0

    def __call__(self, X: Array) -> Array:
        self.asked += len(X)
        J: Array = np.tile(np.eye(X.shape[1]), (len(X), 1, 1))
        Z = X
        for number, (W, b) in enumerate(self.layers):
            if number:
                J, Z = J * (Z > 0)[:, :, None], np.maximum(Z, 0)
            Z, J = Z @ W.T + b, W @ J
        J = J * (1 + self.noise * self.rng.standard_normal(J.shape))
        return np.concatenate([J, (Z - np.einsum("nod,nd->no", J, X))[:, :, None]], axis=2)


def looked_at(network: Network, region: Region | None = None, noise: float = 1e-14) -> LayerKind:
    dimension = network.layers[0][0].shape[1]
    region = region or Everywhere(dimension)
    rng = np.random.default_rng(1)
    lines = [region.line(rng).cut(10.0), region.line(rng)]
    return probe(network, lines, region, Tolerance(noise), rng)


@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize(("inputs", "units"), [(3, 2), (5, 300), (10, 2000), (40, 20), (300, 100)])
def test_one_hidden_layer_is_never_taken_for_several(inputs: int, units: int, outputs: int) -> None:
    for seed in range(3):
        assert looked_at(Network((inputs, units, outputs), seed)).kind in ("one layer", "unsettled")


@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("hidden", [(16, 16), (100, 50), (64, 64, 64), (30, 30, 30, 30)])
@pytest.mark.parametrize("inputs", [10, 200])
def test_several_layers_are_told_in_fifty_questions(inputs: int, hidden: tuple[int, ...], outputs: int) -> None:
    network = Network((inputs, *hidden, outputs))
    assert looked_at(network).kind == "several layers"
    assert network.asked <= ALL + 6


@pytest.mark.parametrize("region", [Box(60, 0.0, 1.0), Ball(60, 2.0)])
def test_in_a_box_or_a_ball_kinks_alone_tell(region: Region) -> None:
    assert looked_at(Network((60, 40, 3), biases=0.3), region).kind == "one layer"
    assert looked_at(Network((60, 40, 40, 3), biases=0.3), region).kind == "several layers"


@pytest.mark.parametrize("region", [Everywhere(60), Ball(60, 2.0)])
def test_coarse_answers_tell_as_well(region: Region) -> None:
    kinds = {
        depth: [looked_at(Network((60, *[40] * depth, 3), seed, noise=1e-8), region, 1e-7).kind for seed in range(6)]
        for depth in (1, 2)
    }
    assert "several layers" not in kinds[1]
    assert kinds[2].count("several layers") >= 4


def test_sums_at_opposite_points_are_the_same_of_two_layers_only() -> None:
    """∇f(x) + ∇f(-x) = Σ v_i w_i far away."""
    for outputs in (1, 4):
        region, rng = Everywhere(20), np.random.default_rng(0)
        assert not opposites_differ(Network((20, 50, outputs)), region, rng)
        assert opposites_differ(Network((20, 50, 50, outputs)), region, rng)


def test_biases_so_huge_that_sums_differ_leave_kinks_as_they_are() -> None:
    network = Network((20, 12, 1))
    network.layers[0][1][:4] = 3e6
    seen = looked_at(network)
    assert seen.kind == "one layer"


def test_nearly_parallel_units_that_all_but_cancel_are_one_layer() -> None:
    for seed in range(10):
        network = Network((20, 16, 1), seed)
        (W, b), (V, _) = network.layers
        W[:8] = W[8:] + 10.0 ** -(seed + 1) * W[:8]
        b[:8], V[:, :8] = b[8:], -V[:, 8:]
        assert looked_at(network).kind in ("one layer", "unsettled")


@pytest.mark.parametrize(
    ("same", "changed", "coarse", "unequal", "kind"),
    [
        (2, 0, False, False, "one layer"), (2, 1, False, False, "one layer"), (0, 1, False, False, "unsettled"),
        (0, 2, False, False, "several layers"), (1, 2, False, False, "several layers"), (1, 2, True, False, "unsettled"),
        (1, 3, True, False, "several layers"), (1, 2, True, True, "several layers"), (2, 0, False, True, "unsettled"),
        (3, 0, False, True, "one layer"), (3, 1, True, True, "unsettled"),
    ],
)  # fmt: skip
def test_two_kinks_decide_and_of_coarse_answers_two_more_than_say_otherwise(
    same: int, changed: int, coarse: bool, unequal: bool, kind: str
) -> None:
    assert _Tally(unequal, coarse, same, changed).kind == kind


def test_a_patch_of_a_picture_is_told_from_all_of_it_and_from_scattered_pixels() -> None:
    for shape in ((28, 28), (3, 16, 16), (16, 16, 3)):
        patch = np.zeros(shape)
        if shape[-1] == 3:
            patch[4:9, 6:11] = 1
        else:
            patch[..., 4:9, 6:11] = 1
        assert sees_a_patch(patch.ravel())
    rng = np.random.default_rng(0)
    assert not sees_a_patch(rng.random(784))
    assert not sees_a_patch((rng.random(784) < 0.03) * 1.0)
    assert not sees_a_patch(np.eye(1, 784)[0])
    assert not sees_a_patch(np.eye(1, 785)[0])


@pytest.mark.parametrize(("side", "patch"), [(11, True), (13, False)])
def test_a_patch_is_no_wider_than_two_fifths(side: int, patch: bool) -> None:
    picture = np.zeros((28, 28))
    picture[2 : 2 + side, 3:8] = 1
    assert sees_a_patch(picture.ravel()) == patch
