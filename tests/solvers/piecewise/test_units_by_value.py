"""Units across a line from values alone, on networks that are known."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_value import Noise, find_kinks, measure_noise
from divulge.solvers.piecewise.two_layer import TwoLayer
from divulge.solvers.piecewise.units_by_value import Deeper, FramedLine, Survey, _path, extended

EXACT = Noise(1e-15, False)
PLACES = np.array([0.3, -0.7, 5.0])


def network(rng: np.random.Generator, dimension: int, units: int, outputs: int, bias: float = 1.0) -> TwoLayer:
    into = rng.standard_normal((units, dimension)) / np.sqrt(dimension)
    out = rng.standard_normal((outputs, units))
    return TwoLayer(into, bias * rng.standard_normal(units), out, np.zeros((outputs, dimension)), np.ones(outputs))


def copied(true: TwoLayer, rng: np.random.Generator, lines: int = 1, scale: float = 1.0) -> tuple[TwoLayer, int]:
    """A copy of a two-layer function, and how many values it took."""
    asked = 0

    def value(X: Array) -> Array:
        nonlocal asked
        asked += len(X)
        return true.values(X)

    outputs, dimension = true.linear.shape
    copy = TwoLayer.affine(np.zeros((outputs, dimension)), np.zeros(outputs))
    for _ in range(lines):
        line = FramedLine.random(dimension, scale, rng)

        def along(t: Array, line: FramedLine = line) -> Array:
            return value(line.at(t))

        noise = measure_noise(along, PLACES)
        kinks = find_kinks(along, 1e5, noise, 1.0, 500)
        copy = extended(copy, value, Survey(line, kinks, noise, 1.0), 1e-8, rng)
    return copy, asked


def error(copy: TwoLayer, true: TwoLayer, rng: np.random.Generator) -> float:
    X = rng.standard_normal((500, true.into.shape[1]))
    return float(np.abs(copy.values(X) - true.values(X)).max() / true.values(X).std())


@pytest.mark.parametrize(("dimension", "units", "outputs"), [(1, 4, 1), (2, 1, 1), (30, 20, 1), (30, 20, 4), (5, 60, 2)])
def test_a_network_is_copied_from_one_line(dimension: int, units: int, outputs: int) -> None:
    rng = np.random.default_rng(units)
    true = network(rng, dimension, units, outputs)
    copy, _ = copied(true, rng)
    assert copy.units == units
    assert error(copy, true, rng) < 1e-7


def test_ten_outputs_take_a_few_cells_for_many_units() -> None:
    rng = np.random.default_rng(0)
    copy, asked = copied(network(rng, 100, 40, 10), rng)
    assert copy.units == 40
    assert asked < 0.3 * (100 + 10) * 40


@pytest.mark.parametrize(
    ("error", "alike", "cells"),
    [
        (1e-10, 10**-1.5, 2),  # a digit and a half are worth less than a third cell,
        (1e-10, 1e-3, 3),  # three digits are worth more:
        (1e-10, 10**-2.5, 3),
        (5e-8, 0.1, 2),  # a digit is worth half a cell as long as errors stay below a millionth,
        (2e-7, 0.1, 2),  # and above it five more:
        (3.2e-7, 0.1, 3),
    ],
)
def test_cells_are_left_out_where_that_costs_few_digits(error: float, alike: float, cells: int) -> None:
    """Two kinks can be solved for at once, at the price of dividing by how far from parallel their jumps are."""
    angle = 2 * np.arcsin(alike / np.sqrt(2))  # at which the smallest singular value of two unit vectors is `alike`
    jumps = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    assert len(_path(jumps, np.full(3, error / 2))) == cells


def test_a_second_line_finds_what_the_first_did_not_show_and_nothing_twice() -> None:
    rng = np.random.default_rng(3)
    true = network(rng, 8, 5, 1)
    true.bias[2] = 3e5 * np.linalg.norm(true.into[2])  # beyond the end of the first line
    copy, _ = copied(true, rng, lines=1)
    assert copy.units == 4
    far, _ = copied(true, rng, lines=3, scale=100.0)
    assert far.units == 5


def test_units_that_are_not_there_are_taken_out_again() -> None:
    rng = np.random.default_rng(0)
    true = network(rng, 6, 4, 1)
    wrong = true.with_units(
        rng.standard_normal((2, 6)), rng.standard_normal(2), np.ones((1, 2)), np.zeros((1, 6)), np.zeros(1)
    )
    line = FramedLine.random(6, 1.0, rng)
    kinks = find_kinks(lambda t: true.values(line.at(t)), 1e5, EXACT, 1.0, 100)
    copy = extended(wrong, true.values, Survey(line, kinks, EXACT, 1.0), 1e-8, rng)
    assert copy.units == 4
    assert error(copy, true, rng) < 1e-7


def test_a_second_hidden_layer_is_noticed() -> None:
    rng = np.random.default_rng(0)
    first, second, third = (rng.standard_normal(shape) for shape in ((10, 12), (8, 10), (2, 8)))

    def value(X: Array) -> Array:
        return np.asarray(np.maximum(np.maximum(X @ first.T + 0.5, 0) @ second.T - 0.2, 0) @ third.T)

    line = FramedLine.random(12, 1.0, rng)
    kinks = find_kinks(lambda t: value(line.at(t)), 1e5, Noise(1e-14, False), 10.0, 1000)
    nothing = TwoLayer.affine(np.zeros((2, 12)), np.zeros(2))
    with pytest.raises(Deeper):
        extended(nothing, value, Survey(line, kinks, Noise(1e-14, False), 10.0), 1e-8, rng)


def test_directions_across_a_line_are_orthonormal() -> None:
    line = FramedLine.random(9, 2.0, np.random.default_rng(0))
    np.testing.assert_allclose(line.across @ line.across.T, np.eye(8), atol=1e-14)
    np.testing.assert_allclose(line.across @ line.direction, 0, atol=1e-14)
