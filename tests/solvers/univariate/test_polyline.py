"""Breakpoints, slopes and crossings are those of the network, and windows those of Algorithm 1."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.arrays import Array, Layer, Layers
from divulge.solvers.univariate import polyline
from divulge.solvers.univariate.polyline import Piecewise, Window


def network(rng: np.random.Generator, widths: tuple[int, ...]) -> list[Layer]:
    sizes = [1, *widths, 1]
    return [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(sizes)]


def values(layers: Layers, x: Array) -> Array:
    out = x[:, None]
    for number, (W, b) in enumerate(layers):
        out = (np.maximum(out, 0) if number else out) @ W.T + b
    return out[:, 0]


@pytest.mark.parametrize("widths", [(1,), (7,), (5, 4), (4, 3, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_the_function_is_the_networks_at_every_place(widths: tuple[int, ...], seed: int) -> None:
    layers = network(np.random.default_rng(seed), widths)
    function = polyline.of_network(layers)
    x = np.concatenate([np.linspace(-20, 20, 2001), function.knots])
    assert function(x) == pytest.approx(values(layers, x), abs=1e-9)


def test_breakpoints_of_one_hidden_layer_are_those_of_its_units() -> None:
    rng = np.random.default_rng(0)
    layers = network(rng, (9,))
    (W, b), _ = layers
    assert polyline.of_network(layers).knots == pytest.approx(np.sort(-b / W[:, 0]))


def test_units_with_the_same_breakpoint_make_one_and_constant_units_none() -> None:
    W, b = np.array([[1.0], [2.0], [-1.0], [0.0], [1e-20]]), np.array([-0.5, -1.0 + 1e-12, 0.5, 3.0, 1.0])
    function = polyline.of_network([(W, b), (np.ones((1, 5)), np.zeros(1))])
    assert function.knots == pytest.approx([0.5])
    assert function(np.array([0.5, 1.5])) == pytest.approx([4.0, 4.0 + 3.0])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 5))
def test_every_crossing_is_listed_once_and_is_one(seed: int, margin: float) -> None:
    function = polyline.of_network(network(np.random.default_rng(seed), (6,)))
    reading = polyline.read(function, margin)
    assert np.abs(function(reading.points)) == pytest.approx(margin, rel=1e-4)
    assert (np.diff(reading.points) > 0).all()
    grid = np.linspace(-40, 40, 20_001)
    above = np.abs(function(grid)) > margin
    changes = np.flatnonzero(above[1:] != above[:-1])
    for place in changes:
        assert ((reading.points >= grid[place] - 1e-6) & (reading.points <= grid[place + 1] + 1e-6)).any()


def test_a_peak_that_touches_the_margin_is_one_point() -> None:
    for height in (1 - 1e-9, 1.0, 1 + 1e-9):
        function = Piecewise(np.array([0.0, 1.0, 2.0]), np.array([0.0, height, 0.0]), np.array([0, height, -height, 0]))
        assert polyline.read(function, 1.0).points == pytest.approx([1.0])


def test_plateaus_are_told_from_crossings() -> None:
    knots, heights = np.array([0.0, 1, 2, 3, 4]), np.array([0.0, 1, 1, -1, -1])
    function = Piecewise(knots, heights, np.array([0.0, 1, 0, -2, 0, 0]))
    reading = polyline.read(function, 1.0)
    assert reading.plateaus.tolist() == [[1, 2], [3, 4], [4, np.inf]]
    assert reading.points.tolist() == [1, 2, 3, 4]


def test_plateau_ramp_plateau_opens_a_window_at_the_ends_of_the_ramp() -> None:
    knots = np.array([0.0, 1, 2, 3, 4])
    function = Piecewise(knots, np.array([0.0, 1, 1, -1, -1]), np.array([0.0, 1, 0, -2, 0, 1]))
    (window,) = polyline.read(function, 1.0).windows
    assert (window.theorem, window.low, window.high, window.members.tolist()) == ("3.3", 2, 3, [1, 2])


def test_windows_of_slanted_intervals_come_two_by_two() -> None:
    knots, heights = np.arange(6.0), np.array([1.0, -1, 1, -1, 1, -1])
    function = Piecewise(knots, heights, np.array([2.0, -2, 2, -2, 2, -2, 2]))
    reading = polyline.read(function, 1.0)
    assert [(one.theorem, one.low, one.high) for one in reading.windows] == [("3.2", 0, 2), ("3.2", 2, 4)]
    assert {one.theorem for one in reading.further} == {"3.2", "A.1"}
    assert polyline.guaranteed(reading.windows) == 1  # the two share a point
    assert polyline.guaranteed([*reading.windows, *reading.further]) == 2
    assert polyline.read(function, 5.0).empty == 2


def test_a_guarantee_is_the_least_number_of_points_that_meets_every_window() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        starts = rng.integers(0, 7, 4)
        windows = [Window("3.2", 0, 0, np.arange(start, start + rng.integers(1, 4))) for start in starts]
        members = [set(one.members.tolist()) for one in windows]
        least = min(
            bin(chosen).count("1")
            for chosen in range(1024)
            if all(any(chosen >> place & 1 for place in group) for group in members)
        )
        assert polyline.guaranteed(windows) == least


def test_values_and_breakpoints_give_the_function_back() -> None:
    layers = network(np.random.default_rng(3), (8,))
    function = polyline.of_network(layers)
    back = polyline.through(function.knots, lambda x: values(layers, x))
    x = np.linspace(-30, 30, 500)
    assert back(x) == pytest.approx(function(x), abs=1e-9)
    straight = polyline.through(np.empty(0), lambda x: 3 * x + 1)
    assert straight(x) == pytest.approx(3 * x + 1)


def test_peaks_are_where_the_size_turns() -> None:
    function = Piecewise(np.arange(4.0), np.array([0.0, 2, -3, 0]), np.array([0.0, 2, -5, 3, 0]))
    assert polyline.peaks(function).tolist() == [1, 2]
