"""What training added to a layer whose start is known: the rest is exact, whatever decayed and whoever permuted it."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array, Layer
from divulge.solvers.directions import known_start

RNG = np.random.default_rng


def trained(
    factor: float = 0.8, shift_factor: float = 0.8, units: int = 50, inputs: int = 90, points: int = 12, still: int = 0
) -> tuple[Layer, Layer, Array]:
    """A layer γ [W₀, b₀] + A [X, 1], its start, and what was added; the first inputs are 0 at all points."""
    rng = RNG(0)
    start = rng.uniform(-0.1, 0.1, (units, inputs)), rng.uniform(-0.1, 0.1, units)
    X = np.column_stack([rng.standard_normal((points, inputs)), np.ones(points)])
    X[:, :still] = 0
    added = 0.01 * rng.standard_normal((units, points)) @ X
    return (factor * start[0] + added[:, :-1], shift_factor * start[1] + added[:, -1]), start, added


@pytest.mark.parametrize("factor", [1.0, 0.8, 0.01])
def test_what_was_added_is_exact_whatever_is_left_of_the_start(factor: float) -> None:
    layer, start, added = trained(factor, factor)
    found = known_start.moved(layer, start)
    assert found.factor == pytest.approx(factor, abs=1e-12)
    assert np.abs(found.rows - added).max() < 1e-12
    assert found.exact


def test_biases_that_did_not_decay_have_a_factor_of_their_own() -> None:
    layer, start, added = trained(0.7, 1.0)
    found = known_start.moved(layer, start)
    assert found.factor == pytest.approx(0.7)
    assert found.shift_factor == pytest.approx(1.0)
    assert np.abs(found.rows - added).max() < 1e-12
    assert "0.7 was left (1 of its biases)" in found.words


def test_an_input_that_never_changes_tells_the_factor_of_a_layer_with_more_points_than_units() -> None:
    layer, start, added = trained(0.6, 0.6, units=20, points=40, still=3)
    found = known_start.moved(layer, start)
    assert np.abs(found.rows - added).max() < 1e-12
    assert not found.exact
    assert "as many directions as the layer has" in found.words


def test_without_a_trace_of_the_factor_the_start_is_taken_off_whole() -> None:
    layer, start, added = trained(1.0, 1.0, units=20, points=40)
    assert np.abs(known_start.moved(layer, start).rows - added).max() < 1e-12


def test_the_start_of_another_network_takes_nothing_away() -> None:
    (W, b), _, added = trained(1e-9, 1e-9)  # long decayed
    other = RNG(7).uniform(-0.1, 0.1, W.shape), RNG(8).uniform(-0.1, 0.1, len(b))
    found = known_start.moved((W, b), other)
    assert found.factor == 0
    assert np.abs(found.rows[:, :-1] - added[:, :-1]).max() < 1e-8
    assert "another network's" in found.words


def test_rounding_to_single_precision_moves_the_factor_by_no_more_than_rounding() -> None:
    (W, b), start, added = trained(0.8, 0.8)
    layer = W.astype(np.float32).astype(float), b.astype(np.float32).astype(float)
    found = known_start.moved(layer, start)
    assert found.factor == pytest.approx(0.8, abs=1e-6)
    assert np.abs(found.rows - added).max() < 1e-6


@pytest.mark.parametrize("points", [5, 12, 20])
def test_units_in_another_order_and_scale_are_brought_back(points: int) -> None:
    (W, b), start, _ = trained(0.8, 0.8, points=points)
    rng = RNG(1)
    order, scale = rng.permutation(len(W)), np.exp(rng.standard_normal(len(W)))
    pair = known_start.matched(((W / scale[:, None])[order], (b / scale)[order]), start)
    assert pair is not None
    factors, (before, shift) = pair
    assert np.array_equal(before, start[0][order])
    assert np.array_equal(shift, start[1][order])
    assert np.ptp(factors / scale[order]) < 1e-9  # one factor is everybody's: the span does not see it


def test_a_copy_that_lacks_units_is_paired_with_those_it_has() -> None:
    (W, b), start, _ = trained()
    pair = known_start.matched((W[5:] * 3, b[5:] * 3), start)
    assert pair is not None
    assert np.array_equal(pair[1][0], start[0][5:])


def test_a_start_of_something_else_is_refused() -> None:
    layer, _, _ = trained()
    other = RNG(2).standard_normal(layer[0].shape), RNG(3).standard_normal(len(layer[1]))
    assert known_start.matched(layer, other) is None
    assert known_start.matched(layer, (other[0][:-1], other[1][:-1])) is None


def test_a_layer_that_was_left_alone_is_known_from_one_that_moved() -> None:
    layer, start, _ = trained(1.0, 1.0)
    assert known_start.frozen(start, start)
    assert not known_start.frozen(layer, start)
    assert not known_start.frozen((start[0], layer[1]), start)
