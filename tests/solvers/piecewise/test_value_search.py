"""The search by values: one line is enough where it can be, others are of the right size, and coarse answers are refused."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.piecewise.check_points import CheckPoints, Unsuitable
from divulge.solvers.piecewise.two_layer import TwoLayer
from divulge.solvers.piecewise.units_by_value import Survey
from divulge.solvers.piecewise.value_search import ValueSearch


def function(units: int, inputs: int, outputs: int = 1, bias: float = 1.0, seed: int = 0) -> TwoLayer:
    rng = np.random.default_rng(seed)
    into = rng.standard_normal((units, inputs))
    into /= np.linalg.norm(into, axis=1, keepdims=True)
    out = rng.standard_normal((outputs, units)) / np.sqrt(units)
    return TwoLayer(into, bias * rng.choice([-1.0, 1.0], units), out, np.zeros((outputs, inputs)), np.ones(outputs))


def searching(true: TwoLayer, seed: int = 0, decimals: int = 99) -> ValueSearch:
    rng = np.random.default_rng(seed)

    def ask(X: Array) -> Array:
        return np.asarray(np.round(true.values(X), decimals)) if decimals < 99 else true.values(X)

    return ValueSearch(CheckPoints(ask, true.linear.shape[1], 1.0, 48, rng), rng)


@pytest.mark.parametrize("outputs", [1, 3])
def test_one_line_gives_a_copy_that_agrees_everywhere(outputs: int) -> None:
    search = searching(function(20, 15, outputs))
    copy = search.search(100)
    assert copy.units == 20
    assert search.off(copy).max() <= 1


@pytest.mark.parametrize(("bias", "too_small"), [(14.0, False), (30.0, True)])
def test_the_scale_grows_where_half_of_the_kinks_are_thirty_times_as_far_out(bias: float, too_small: bool) -> None:
    """On a line of points of size 1 a unit with this bias has its kink 1.5 times as far out, in the median."""
    search = searching(function(200, 12, 2, bias=bias))
    search.search(1000)
    assert (search.checks.scale > search.checks.usual) == too_small


@pytest.mark.parametrize(("decimals", "refused"), [(6, False), (5, True)])
def test_answers_exact_to_a_millionth_of_their_spread_are_looked_along(decimals: int, refused: bool) -> None:
    search = searching(function(1, 6), decimals=decimals)
    if refused:
        with pytest.raises(Unsuitable, match="3e-06 is needed: they are rounded"):
            search.search(100)
    else:
        search.search(100)
        assert 3e-7 < search.checks.coarseness < 3e-6


def test_where_answers_are_coarse_a_line_ends_before_rounding_hides_its_kinks() -> None:
    """Noise grows with the distance: at the end of a line it is 2e-5 of the spread."""
    search = searching(function(3, 6), decimals=8)
    farthest = 0.0

    def recorded(X: Array) -> Array:
        nonlocal farthest
        farthest = max(farthest, float(np.sqrt(np.mean(X**2, axis=1)).max()))
        return np.asarray(np.round(function(3, 6).values(X), 8))

    search.checks.ask = recorded
    search._survey(100)
    assert 1e-5 < farthest * search.checks.coarseness < 4e-5


def parallel(inputs: int, gap: float) -> TwoLayer:
    """Two units whose hyperplanes are `gap` apart: between them a slope can hardly be measured."""
    one = function(1, inputs)
    return one.with_units(one.into, one.bias + gap, one.out, np.zeros((1, inputs)), np.zeros(1))


@pytest.mark.parametrize(("inputs", "crudeness", "lines"), [(500, 6e-10, 3), (500, 4e-10, 1), (490, 6e-10, 1)])
def test_where_inputs_are_many_the_best_of_three_lines_is_taken_if_slopes_are_crude(
    inputs: int, crudeness: float, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveys: list[Survey] = []
    survey = ValueSearch._survey

    def counted(self: ValueSearch, most: int) -> Survey:
        surveys.append(survey(self, most))
        return surveys[-1]

    true = parallel(inputs, 1e-5)
    monkeypatch.setattr(ValueSearch, "_survey", counted)
    monkeypatch.setattr(ValueSearch, "_extended", lambda self, survey: true)
    monkeypatch.setattr(Survey, "crudeness", lambda self: crudeness)  # rounding errors are another machine's there
    searching(true).search(100)
    assert len(surveys) == lines


def test_slopes_between_kinks_that_are_close_are_crude() -> None:
    """Ten times as close, ten times as crude, but for rounding."""
    near, far = (searching(parallel(500, gap))._survey(100).crudeness() for gap in (2e-6, 2e-5))
    assert near > 3 * far > 1e-10


@pytest.mark.parametrize(("share", "kept"), [(0.2, True), (0.45, False)])
def test_a_unit_is_kept_that_is_known_three_times_as_well_as_it_has_to_be(share: float, kept: bool) -> None:
    true = function(5, 6)
    search = searching(true)
    survey = search._survey(100)
    nearly = TwoLayer(true.into, true.bias, true.out.copy(), true.linear, true.constant)
    along = abs(float(true.into[2] @ survey.line.direction))
    nearly.out[0, 2] += share * search.checks.accuracy * search.checks.spread / along
    search.copy = nearly
    assert (search._extended(survey).out[0] == nearly.out[0, 2]).any() == kept


def test_what_is_no_two_layer_network_is_unsuitable() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((10, 6)), rng.standard_normal((8, 10))

    def search(value: object) -> None:
        rng = np.random.default_rng(0)
        assert callable(value)
        ValueSearch(CheckPoints(value, 6, 1.0, 48, rng), rng).search(50)

    with pytest.raises(Unsuitable, match="more than one hidden layer"):
        search(lambda X: np.maximum(np.maximum(X @ first.T + 0.5, 0) @ second.T - 0.2, 0))
    with pytest.raises(Unsuitable, match="not continuous"):
        search(lambda X: X[:, :1] + (X[:, 1:2] > 0.1))
    with pytest.raises(Unsuitable, match="not piecewise linear"):
        search(lambda X: np.sqrt(1 + X[:, :1] ** 2))
    with pytest.raises(Unsuitable, match="more than 50 times"):
        search(function(60, 6).values)
