"""Which points on the margin explain the weights, and which of them must: against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.univariate import margin_minima, margin_points, polyline
from divulge.solvers.univariate.margin_points import Stationarity
from divulge.solvers.univariate.polyline import Piecewise

NONE = np.empty(0)
ONE = np.ones(1)


def constant() -> tuple[Array, Array, Array]:
    """N = 1 everywhere: a unit whose gradient at x is (x, 1, 1), so that points explain it where Σ λ = 1 and Σ λ x = 0."""
    return np.zeros(1), ONE, ONE


def minimum(count: int = 6, seed: int = 3) -> tuple[Array, Array, margin_minima.Minimum]:
    rng = np.random.default_rng(seed)
    x = np.linspace(-1, 1, count) + rng.uniform(-0.4, 0.4, count) / count
    y = (-1.0) ** np.arange(count)
    found = margin_minima.smallest(x, y)
    assert found is not None
    return x, y, found


def test_multipliers_are_those_of_the_closed_form() -> None:
    found = Stationarity.of(*constant(), np.array([-1.0, 3.0]), np.ones(2)).explained()
    np.testing.assert_allclose(found.multipliers, [0.75, 0.25], atol=1e-9)
    assert found.residual < 1e-9


def test_points_on_one_side_leave_what_they_cannot_pull_back() -> None:
    found = Stationarity.of(*constant(), np.array([1.0]), ONE).explained()
    # (λ, λ, λ) for (0, 1, 1): the largest error is smallest at λ = 1/2
    assert found.multipliers == pytest.approx([0.5])
    assert found.residual == pytest.approx(np.sqrt(3) / 2 / np.sqrt(2))


@pytest.mark.parametrize(("third", "needed"), [(0.02, True), (1e-4, False)])
def test_a_point_is_needed_where_the_others_leave_it_a_share_of_its_multiplier(third: float, needed: bool) -> None:
    """−1 balances 1 with λ = 1/2, or the third point with λ = third/(1 + third): all but nothing where that is near 0."""
    program = Stationarity.of(*constant(), np.array([-1.0, third, 1.0]), np.ones(3))
    least = program._solved(0, 1e-9)
    assert least is not None
    assert least[0] == pytest.approx(third / (1 + third), abs=1e-6)
    assert bool(least[0] > 1e-3 * 0.5) is needed


def test_a_plateau_stands_for_every_point_inside_it() -> None:
    found = Stationarity.of(*constant(), NONE, NONE, np.array([[-1.0, 3.0]])).explained()
    assert found.residual < 1e-9
    np.testing.assert_allclose(found.inside, [[0.75, 0.25]], atol=1e-9)
    endless = Stationarity.of(*constant(), NONE, NONE, np.array([[-2.0, np.inf]])).explained()
    np.testing.assert_allclose(endless.inside, [[1.0, 2.0]], atol=1e-9)  # −2 once, and 2 in the direction of infinity


@pytest.mark.parametrize(("off", "on"), [(5e-7, True), (2e-6, False)])
def test_a_breakpoint_is_on_a_point_within_a_millionth_of_their_spread(off: float, on: bool) -> None:
    x, w = np.array([0.0, 1.0, 4.0]), np.array([2.0])
    found = margin_points.on_points(w, -w * (1 + 4 * off), x)
    assert found[:, 0].tolist() == [False, on, False]


def test_a_unit_that_ends_on_a_point_takes_any_share_of_its_gradient() -> None:
    """relu(x) + relu(−x) turns at 0, where each unit's slope is from 0 to 1; a unit that is no edge there is not helped."""
    x, y, made = minimum()
    whole = Stationarity.of(made.w, made.b, made.v, x, y).explained().residual
    never = Stationarity.of(made.w, made.b, made.v, x, y, at=0.0).explained().residual
    assert whole < 1e-9
    assert never > 1e-3


def test_units_are_balanced_at_a_minimum_and_not_off_it() -> None:
    _, _, made = minimum()
    assert margin_points.balance(made.w, made.b, made.v) < 1e-9
    assert margin_points.balance(made.w, made.b, 1.01 * made.v) == pytest.approx(0.01 / 1.01)


@pytest.mark.parametrize(("apart", "votes"), [(5e-6, 3), (3e-5, 2)])
def test_values_within_a_hundred_thousandth_are_the_same(apart: float, votes: int) -> None:
    values = np.array([1.0, -1.0, 1.0 + apart, -2.0])
    function = Piecewise(np.arange(4.0), values, np.array([0.0, *np.diff(values), 0.0]))
    assert margin_points.voted(function, function.knots)[0][1] == votes


def test_two_ends_of_a_flat_stretch_are_one_vote() -> None:
    function = Piecewise(np.arange(3.0), np.array([1.0, 1.0, -1.0]), np.array([1.0, 0.0, -2.0, 1.0]))
    assert margin_points.voted(function, function.knots) == [(1.0, 2)]


@pytest.mark.parametrize(("points", "alone"), [(1, True), (3, True), (6, False)])
def test_a_margin_is_not_alone_where_points_on_another_explain_the_weights(points: int, alone: bool) -> None:
    """Smaller margins have more points, and from some number on those of any of them explain as much."""
    _, _, made = minimum(points)
    function = polyline.of_network([(made.w[:, None], made.b), (made.v[None], np.zeros(1))])
    assert margin_points.is_alone(function, 1.0, made.w, made.b, made.v, 1e-5, 1e-4) is alone


@pytest.mark.parametrize("margin", [0.01, 300.0])
def test_the_likely_margin_scales_with_the_weights(margin: float) -> None:
    _, _, made = minimum(9, 4)
    w, b, v = (np.sqrt(margin) * part for part in (made.w, made.b, made.v))
    found = margin_points.likely_margin(polyline.of_network([(w[:, None], b), (v[None], np.zeros(1))]), w, b, v, 1e-5, 1e-4)
    assert found is not None
    assert found.value == pytest.approx(margin)
    assert found.residual < 1e-9
