"""Smallest weights for a margin: stationary, proven local minima, and what explains them."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.univariate import margin_minima, margin_points, polyline
from divulge.solvers.univariate.margin_minima import Cell, Minimum
from divulge.solvers.univariate.margin_points import Stationarity
from divulge.solvers.univariate.polyline import Piecewise


def points(rng: np.random.Generator, count: int) -> Array:
    return np.linspace(-1, 1, count) + rng.uniform(-0.4, 0.4, count) / count


def outputs(made: Minimum, x: Array) -> Array:
    return np.asarray(np.maximum(np.outer(x, made.w) + made.b, 0) @ made.v)


def function(made: Minimum) -> Piecewise:
    return polyline.of_network([(made.w[:, None], made.b), (made.v[None], np.zeros(1))])


def residual(made: Minimum, x: Array, y: Array) -> float:
    on = y * outputs(made, x) <= 1 + 1e-8
    return Stationarity.of(made.w, made.b, made.v, x[on], y[on]).explained().residual


def smallest(x: Array, y: Array, cells: list[Cell] | None = None) -> Minimum:
    found = margin_minima.smallest(x, y, cells)
    assert found is not None
    return found


CASES = [
    (seed, 3 + 2 * seed, labels, units) for seed in range(5) for labels in ("alternating", "random") for units in (0, 80)
]


@pytest.mark.parametrize(("seed", "count", "labels", "units"), CASES)
def test_every_minimum_reaches_its_margin_and_is_a_kkt_point_and_a_local_minimum(
    seed: int, count: int, labels: str, units: int
) -> None:
    rng = np.random.default_rng(seed)
    x = points(rng, count)
    y = (-1.0) ** np.arange(count) if labels == "alternating" else np.append(rng.choice([-1.0, 1.0], count - 2), [1, -1])
    starts = (margin_minima.random_cells(rng, x, units) if units else None for _ in range(50))
    made = next(one for one in (margin_minima.smallest(x, y, cells) for cells in starts) if one is not None)
    assert (y * outputs(made, x)).min() == pytest.approx(1, abs=1e-9)
    assert residual(made, x, y) < 1e-9
    assert margin_points.balance(made.w, made.b, made.v) < 1e-9
    assert margin_minima.is_local_minimum(made.w, made.b, made.v, x, y)
    assert made.cost == pytest.approx((made.w @ made.w + made.b @ made.b + made.v @ made.v) / 2)
    assert made.cost == pytest.approx(made.multipliers.sum())  # ‖θ‖² = 2 Σ λ at margin 1


def test_one_point_has_the_unit_in_its_own_direction() -> None:
    made = smallest(np.array([0.5]), np.array([-1.0]))
    assert made.w / made.b == pytest.approx([0.5])
    assert made.cost == pytest.approx(1 / np.hypot(0.5, 1))
    assert made.v[0] < 0


def test_the_global_minimum_is_no_larger_than_any_other_and_no_perturbation_is_smaller() -> None:
    rng = np.random.default_rng(0)
    x, y = points(rng, 7), (-1.0) ** np.arange(7)
    best = smallest(x, y)
    assert best.whole
    for _ in range(20):
        other = margin_minima.smallest(x, y, margin_minima.random_cells(rng, x, 40))
        assert other is None or other.cost >= best.cost * (1 - 1e-9)
    for size in (1e-4, 1e-2):
        for _ in range(50):
            w, b, v = (one + size * rng.normal(size=one.shape) for one in (best.w, best.b, best.v))
            reached = (y * (np.maximum(np.outer(x, w) + b, 0) @ v)).min()
            assert reached <= 0 or (w @ w + b @ b + v @ v) / 2 / reached >= best.cost * (1 - 1e-9)


def test_cells_that_cannot_reach_the_margin_give_nothing() -> None:
    x, y = np.array([-1.0, 0.0, 1.0]), np.array([1.0, -1.0, 1.0])
    assert margin_minima.smallest(x, y, [(0, 0, 1)]) is None


def test_weights_that_are_larger_than_they_must_be_are_no_proven_minimum() -> None:
    rng = np.random.default_rng(1)
    x, y = points(rng, 6), (-1.0) ** np.arange(6)
    made = smallest(x, y)
    assert not margin_minima.is_local_minimum(2 * made.w, 2 * made.b, made.v, x, y)


def test_points_that_are_needed_are_training_points_and_others_are_not() -> None:
    rng = np.random.default_rng(2)
    x, y = points(rng, 8), (-1.0) ** np.arange(8)
    made = smallest(x, y)
    extra = np.append(x, [0.123, -0.456])
    signs = np.sign(function(made)(extra))
    needed = Stationarity.of(made.w, made.b, made.v, extra, signs).needed(1e-3)
    assert needed.tolist() == [True] * 8 + [False] * 2


def test_a_point_less_leaves_weights_unexplained() -> None:
    rng = np.random.default_rng(3)
    x, y = points(rng, 6), (-1.0) ** np.arange(6)
    made = smallest(x, y)
    assert residual(made, x, y) < 1e-9
    assert Stationarity.of(made.w, made.b, made.v, x[1:], y[1:]).explained().residual > 1e-2


def test_a_plateau_explains_what_a_point_inside_it_does() -> None:
    x, y = np.array([-1.0, 0.3, 1.0]), np.array([1.0, 1.0, 1.0])
    w, b, v = np.zeros(1), np.ones(1), np.ones(1)  # constant 1: on the margin everywhere
    inside = Stationarity.of(w, b, v, np.empty(0), np.empty(0), np.array([[-1.0, 1.0]])).explained()
    assert inside.residual < 1e-9
    assert Stationarity.of(w, b, v, x, y).explained().residual < 1e-9


@pytest.mark.parametrize("margin", [0.01, 1.0, 300.0])
def test_the_margin_is_what_most_breakpoints_share(margin: float) -> None:
    rng = np.random.default_rng(4)
    x, y = points(rng, 9), (-1.0) ** np.arange(9)
    made, root = smallest(x, y), np.sqrt(margin)
    w, b, v = root * made.w, root * made.b, root * made.v
    whole = polyline.of_network([(w[:, None], b), (v[None], np.zeros(1))])
    found = margin_points.likely_margin(whole, w, b, v, 1e-5, 1e-4)
    assert found is not None
    assert found.value == pytest.approx(margin)
    assert found.votes == 7
    assert margin_points.likely_margin(whole, 2 * w, b, v, 1e-5, 1e-4) is None
