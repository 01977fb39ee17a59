"""Functions of one layer of kinks: sums, merges and networks compute the same, and weights are compared unit by unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.arrays import Array, TwoLayers
from divulge.solvers.piecewise.two_layer import TwoLayer, UnitMatch, balanced, match_units


def network(rng: np.random.Generator, units: int, inputs: int, outputs: int) -> TwoLayers:
    return (
        (rng.standard_normal((units, inputs)), rng.standard_normal(units)),
        (rng.standard_normal((outputs, units)), rng.standard_normal(outputs)),
    )


def values(layers: TwoLayers, X: Array) -> Array:
    (W, b), (V, c) = layers
    return np.asarray(np.maximum(X @ W.T + b, 0) @ V.T + c)


def flipped(layers: TwoLayers, which: Array) -> TwoLayer:
    """The same function with some units the other way round, and what that makes linear."""
    (W, b), (V, c) = layers
    sign = np.where(which, -1.0, 1.0)
    return TwoLayer(W * sign[:, None], b * sign, V, V[:, which] @ W[which], c + V[:, which] @ b[which])


def whole(match: UnitMatch, units: int) -> bool:
    return match.found == match.units == units and match.error < 1e-10


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 8), st.integers(1, 3))
def test_a_piece_is_the_function_around_its_point(seed: int, units: int, inputs: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    function = flipped(network(rng, units, inputs, outputs), rng.random(units) < 0.5)
    X = rng.standard_normal((5, inputs))
    pieces = function.pieces(X)
    np.testing.assert_allclose(np.einsum("nod,nd->no", pieces[:, :, :-1], X) + pieces[:, :, -1], function.values(X))
    step = 1e-7 * rng.standard_normal((5, inputs))
    rise = (function.values(X + step) - function.values(X)) / 1e-7
    np.testing.assert_allclose(np.einsum("nod,nd->no", pieces[:, :, :-1], step) / 1e-7, rise, atol=1e-5)


@pytest.mark.parametrize(("units", "inputs", "outputs"), [(5, 10, 1), (40, 50, 3), (30, 20, 1), (15, 20, 1)])
def test_units_are_flipped_until_nothing_linear_is_left(units: int, inputs: int, outputs: int) -> None:
    rng = np.random.default_rng(0)
    true = network(rng, units, inputs, outputs)
    found, plain = flipped(true, rng.random(units) < 0.5).layers()
    assert plain
    assert len(found[0][1]) == units
    assert whole(match_units(found, true), units)


def test_what_stays_linear_is_added_by_pairs_of_units() -> None:
    rng = np.random.default_rng(0)
    true = network(rng, 60, 5, 2)  # more units than could be told apart
    found, plain = flipped(true, rng.random(60) < 0.5).layers()
    assert not plain
    assert len(found[0][1]) == 60 + 2 * 2
    X = rng.standard_normal((50, 5))
    np.testing.assert_allclose(values(found, X), values(true, X))
    assert match_units(found, true).found < 60
    assert whole(match_units(found, true, oriented=False), 60)


def test_units_of_one_hyperplane_become_one_and_opposites_cancel() -> None:
    rng = np.random.default_rng(0)
    function = flipped(network(rng, 6, 4, 2), np.zeros(6, dtype=bool))
    nothing = np.zeros((2, 4)), np.zeros(2)
    both = function.with_units(-3 * function.into[:2], -3 * function.bias[:2], function.out[:, :2], *nothing)
    gone = function.with_units(2 * function.into[2:3], 2 * function.bias[2:3], -function.out[:, 2:3] / 2, *nothing)
    X = rng.standard_normal((50, 4))
    assert both.merged(1e-12).units == 6
    np.testing.assert_allclose(both.merged(1e-12).values(X), both.values(X))
    assert gone.merged(1e-12).units == 5
    np.testing.assert_allclose(gone.merged(1e-12).values(X), gone.values(X), atol=1e-12)


def test_balancing_keeps_the_function_and_evens_the_norms() -> None:
    true = network(np.random.default_rng(0), 6, 4, 2)
    (W, b), (V, _) = even = balanced(true)
    np.testing.assert_allclose((W**2).sum(1) + b**2, (V**2).sum(0))
    X = np.random.default_rng(1).standard_normal((20, 4))
    np.testing.assert_allclose(values(even, X), values(true, X))


def test_the_error_of_weights_does_not_see_order_and_scale_but_sees_a_missing_unit() -> None:
    true = network(np.random.default_rng(0), 6, 4, 2)
    (W, b), (V, c) = true
    order, scale = np.array([3, 0, 5, 1, 4, 2]), np.array([1, 2, 0.5, 3, 1, 7])
    same = ((W[order] * scale[:, None], b[order] * scale), (V[:, order] / scale, c))
    assert whole(match_units(same, true), 6)
    missing = match_units(((W[1:], b[1:]), (V[:, 1:], c)), true)
    assert (missing.found, missing.units) == (5, 6)
    assert missing.error < 1e-14
    assert match_units(((W + 1e-6, b), (V, c)), true).error == pytest.approx(1e-6, rel=3)
    assert match_units(((W, b), (V, c + 1e-3)), true).error > 1e-4


def test_a_unit_of_a_copy_stands_for_one_of_the_true_ones_and_strangers_for_none() -> None:
    rng = np.random.default_rng(0)
    (W, b), (V, c) = network(rng, 6, 4, 2)
    twice = ((W[[0, 0, 1, 2, 3, 4]], b[[0, 0, 1, 2, 3, 4]]), (V[:, [0, 0, 1, 2, 3, 4]], c))
    assert match_units(((W, b), (V, c)), twice).found == 5
    assert match_units(((W[:0], b[:0]), (V[:, :0], c)), twice) == UnitMatch(0, 6, 1.0)
    assert match_units(network(rng, 6, 4, 2), ((W, b), (V, c))).found <= 2


def test_a_jump_without_a_slope_is_a_constant() -> None:
    rng = np.random.default_rng(0)
    function = flipped(network(rng, 6, 4, 2), np.zeros(6, dtype=bool))
    nothing = np.zeros((2, 4)), np.zeros(2)
    odd = function.with_units(np.zeros((2, 4)), np.array([0.5, -0.5]), np.ones((2, 2)), *nothing)
    X = rng.standard_normal((50, 4))
    assert odd.merged(0.0).units == 6
    np.testing.assert_allclose(odd.merged(0.0).values(X), odd.values(X))


@pytest.mark.parametrize("flipped", [False, True])
def test_pairs_that_nearly_take_each_other_back_are_made_to_do_so_exactly(flipped: bool) -> None:
    rng = np.random.default_rng(4)
    normals, shift, jumps = rng.standard_normal((3, 5)), rng.standard_normal(3), rng.standard_normal((2, 3))
    into = np.concatenate([normals, 2 * normals + 1e-9 * rng.standard_normal((3, 5))])
    bias, out = np.concatenate([shift, 2 * (shift - 1)]), np.concatenate([jumps, -jumps / 2], axis=1)
    linear, constant = np.zeros((2, 5)), np.zeros(2)
    if flipped:  # v relu(z) = v relu(-z) + v z
        linear, constant = jumps @ normals, jumps @ shift
        into[:3], bias[:3] = -into[:3], -bias[:3]
    copy, pairs = TwoLayer(into, bias, out, linear, constant).saturating()
    assert pairs == 3
    far = 1e9 * rng.standard_normal((200, 5))
    assert np.abs(copy.values(far) - np.clip(far @ normals.T + shift, 0, 1) @ jumps.T).max() < 1e-5


def test_units_with_other_jumps_or_directions_are_no_pairs() -> None:
    rng = np.random.default_rng(4)
    into, out = rng.standard_normal((6, 5)), rng.standard_normal((2, 6))
    parallel = TwoLayer(np.concatenate([into, into]), rng.standard_normal(12), np.concatenate([out, 0.99 * -out], axis=1),
                        np.zeros((2, 5)), np.zeros(2))  # fmt: skip
    assert parallel.saturating()[1] == 0
    turned = TwoLayer(np.concatenate([into, into[:, ::-1]]), parallel.bias, np.concatenate([out, -out], axis=1),
                      parallel.linear, parallel.constant)  # fmt: skip
    assert turned.saturating()[1] == 0
