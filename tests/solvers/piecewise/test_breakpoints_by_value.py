"""Kinks on a line and units across it, from values alone, on functions whose kinks are known."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.solvers.piecewise.breakpoints_by_value import Broken, Noise, TooManyKinks, find_kinks, measure_noise
from divulge.solvers.piecewise.two_layer import TwoLayer
from divulge.solvers.piecewise.units_by_value import Deeper, Line, Survey, extended

EXACT = Noise(1e-15, False)
PLACES = np.array([0.3, -0.7, 5.0])


def piecewise(places, jumps):
    """t -> Σ jumps relu(t - places), with its calls counted."""
    places, jumps = np.asarray(places, float), np.asarray(jumps, float).reshape(len(places), -1)

    def ask(t):
        ask.asked += len(t)
        return np.maximum(t[:, None] - places, 0) @ jumps + 1

    ask.asked = 0
    return ask


def network(rng, dimension, units, outputs, bias=1.0):
    into = rng.standard_normal((units, dimension)) / np.sqrt(dimension)
    out = rng.standard_normal((outputs, units))
    return TwoLayer(into, bias * rng.standard_normal(units), out, np.zeros((outputs, dimension)), np.ones(outputs))


def copied(true, rng, lines=1, scale=1.0):
    """A copy of a two-layer function, and how many values it took."""
    asked = 0

    def value(X):
        nonlocal asked
        asked += len(X)
        return true.values(X)

    outputs, dimension = true.linear.shape
    copy = TwoLayer.affine(np.zeros((outputs, dimension)), np.zeros(outputs))
    for _ in range(lines):
        line = Line.random(dimension, scale, rng)
        noise = measure_noise(lambda t, line=line: value(line.at(t)), PLACES)
        kinks = find_kinks(lambda t, line=line: value(line.at(t)), 1e5, noise, 1.0, 500)
        copy = extended(copy, value, Survey(line, kinks, noise, 1.0), 1e-8, rng)
    return copy, asked


def error(copy, true, rng):
    X = rng.standard_normal((500, true.into.shape[1]))
    return np.abs(copy.values(X) - true.values(X)).max() / true.values(X).std()


def test_every_kink_is_found_for_five_values_each():
    rng = np.random.default_rng(0)
    places = np.sort(rng.standard_cauchy(100))
    ask = piecewise(places, rng.standard_normal(100))
    kinks = find_kinks(ask, 1e4, EXACT, 1.0, 1000)
    np.testing.assert_allclose(kinks.places, places, rtol=1e-8, atol=1e-8)
    assert ask.asked < 6 * 100


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=25, unique=True),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_kinks_on_a_grid_are_found_whatever_their_jumps(hundredths, outputs, seed):
    """Round places make lines meet where no kink is, more often than chance would."""
    places = np.sort(hundredths) / 100
    jumps = np.random.default_rng(seed).choice([-2.0, -1.0, 1.0, 3.0], size=(len(places), outputs))
    kinks = find_kinks(piecewise(places + 1e-3 * np.sqrt(2), jumps), 1e4, EXACT, 1.0, 1000)
    np.testing.assert_allclose(kinks.places, places + 1e-3 * np.sqrt(2), atol=1e-9)
    np.testing.assert_allclose(kinks.jumps, jumps, rtol=1e-6, atol=1e-9)


def test_a_pair_of_opposite_kinks_is_not_taken_for_one():
    """Their outer pieces cross beside them, where the function is on one of the two."""
    for second in (-0.9, -1.1, -5.0):
        kinks = find_kinks(piecewise([1.0, 2.0], [1.0, second]), 1e4, EXACT, 1.0, 10)
        np.testing.assert_allclose(kinks.places, [1, 2], atol=1e-9)


def test_two_kinks_closer_than_a_millionth_are_told_apart():
    kinks = find_kinks(piecewise([0.5, 0.5 + 1e-7], [1.0, 2.0]), 1e3, EXACT, 1.0, 10)
    assert len(kinks.places) == 2
    assert np.diff(kinks.places)[0] == pytest.approx(1e-7, rel=1e-3)


def test_a_line_has_no_kink():
    kinks = find_kinks(lambda t: np.stack([3 * t + 1, -t], axis=1), 1e4, EXACT, 1.0, 10)
    assert len(kinks.places) == 0
    assert len(kinks.pieces) == 1


def test_a_curve_has_too_many_kinks_and_a_step_is_no_kink():
    with pytest.raises(TooManyKinks):
        find_kinks(lambda t: np.tanh(t)[:, None], 1e3, EXACT, 1.0, 100)
    with pytest.raises(Broken):
        find_kinks(lambda t: np.floor(t / 7 + 0.1)[:, None], 30.0, EXACT, 1.0, 1000)


def test_noise_and_curves_are_measured():
    rng = np.random.default_rng(0)
    straight = piecewise([0.5], [1.0])
    assert measure_noise(straight, PLACES).level < 1e-14
    assert not measure_noise(straight, PLACES).curved
    noisy = measure_noise(lambda t: straight(t) + 1e-6 * rng.standard_normal((len(t), 1)), PLACES)
    assert 1e-7 < noisy.level < 1e-5
    assert not noisy.curved
    assert measure_noise(lambda t: np.exp(t)[:, None], PLACES).curved
    assert measure_noise(lambda t: np.tanh(t)[:, None], PLACES * [1, 1, 100]).curved  # flat in one of the places


@pytest.mark.parametrize(("dimension", "units", "outputs"), [(1, 4, 1), (2, 1, 1), (30, 20, 1), (30, 20, 4), (5, 60, 2)])
def test_a_network_is_copied_from_one_line(dimension, units, outputs):
    rng = np.random.default_rng(units)
    true = network(rng, dimension, units, outputs)
    copy, _ = copied(true, rng)
    assert copy.units == units
    assert error(copy, true, rng) < 1e-7


def test_ten_outputs_take_a_few_cells_for_many_units():
    rng = np.random.default_rng(0)
    copy, asked = copied(network(rng, 100, 40, 10), rng)
    assert copy.units == 40
    assert asked < 0.3 * (100 + 10) * 40


def test_a_second_line_finds_what_the_first_did_not_show_and_nothing_twice():
    rng = np.random.default_rng(3)
    true = network(rng, 8, 5, 1)
    true.bias[2] = 3e5 * np.linalg.norm(true.into[2])  # beyond the end of the first line
    copy, _ = copied(true, rng, lines=1)
    assert copy.units == 4
    far, _ = copied(true, rng, lines=3, scale=100.0)
    assert far.units == 5


def test_units_that_are_not_there_are_taken_out_again():
    rng = np.random.default_rng(0)
    true = network(rng, 6, 4, 1)
    wrong = true.with_units(
        rng.standard_normal((2, 6)), rng.standard_normal(2), np.ones((1, 2)), np.zeros((1, 6)), np.zeros(1)
    )
    line = Line.random(6, 1.0, rng)
    kinks = find_kinks(lambda t: true.values(line.at(t)), 1e5, EXACT, 1.0, 100)
    copy = extended(wrong, true.values, Survey(line, kinks, EXACT, 1.0), 1e-8, rng)
    assert copy.units == 4
    assert error(copy, true, rng) < 1e-7


def test_a_second_hidden_layer_is_noticed():
    rng = np.random.default_rng(0)
    first, second, third = (rng.standard_normal(shape) for shape in ((10, 12), (8, 10), (2, 8)))

    def value(X):
        return np.maximum(np.maximum(X @ first.T + 0.5, 0) @ second.T - 0.2, 0) @ third.T

    line = Line.random(12, 1.0, rng)
    kinks = find_kinks(lambda t: value(line.at(t)), 1e5, Noise(1e-14, False), 10.0, 1000)
    nothing = TwoLayer.affine(np.zeros((2, 12)), np.zeros(2))
    with pytest.raises(Deeper):
        extended(nothing, value, Survey(line, kinks, Noise(1e-14, False), 10.0), 1e-8, rng)


def test_directions_across_a_line_are_orthonormal():
    line = Line.random(9, 2.0, np.random.default_rng(0))
    np.testing.assert_allclose(line.across @ line.across.T, np.eye(8), atol=1e-14)
    np.testing.assert_allclose(line.across @ line.direction, 0, atol=1e-14)
