"""Numbers with digits cut off: noticed where they are, and the round ones that people type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from divulge.solvers.shared.rounding import RATIOS, round_numbers, rounded_to, significant


def test_cut_off_digits_are_noticed_and_full_ones_are_not() -> None:
    values = np.random.default_rng(0).normal(size=8)
    assert rounded_to(values) is None
    assert rounded_to(np.round(values, 3)) == 3
    assert rounded_to(np.array([1.0, -2.0])) == 0
    assert rounded_to(np.zeros(4)) is None
    assert rounded_to(values.astype(np.float32)) is None


def test_nine_decimals_are_a_rounding_and_ten_are_not() -> None:
    """Printing with %.9f is the longest that is usual; a float of order 1 has 16."""
    values = np.random.default_rng(1).normal(size=8)
    assert rounded_to(np.round(values, 9)) == 9
    assert rounded_to(np.round(values, 10)) is None


def test_shares_that_people_type_are_the_twentieths_and_their_edge() -> None:
    assert sorted(RATIOS) == pytest.approx([*(k / 20 for k in range(1, 20)), 0.99])
    assert RATIOS[0] == 0.5
    tenths = [share for share in RATIOS if round(10 * share, 9).is_integer()]
    fives = [share for share in RATIOS if share not in tenths]
    assert fives[0] == 0.15  # the default of stochastic descent, before the rounder 0.4 and 0.6
    assert max(map(RATIOS.index, tenths)) < min(map(RATIOS.index, fives[1:]))


@pytest.mark.parametrize("digits", [1, 2, 5])
def test_significant_digits_are_counted_from_the_first(digits: int) -> None:
    values = np.array([123.456, -0.00123456, 0.0, 9.99999])
    expected = [float(f"{value:.{digits}g}") for value in values]
    assert significant(values, digits) == pytest.approx(expected, rel=1e-14)


def test_a_number_too_small_for_any_digit_becomes_nothing() -> None:
    assert significant(np.array([1e-320]), 3).tolist() == [0.0]


def test_round_numbers_come_roundest_first_and_stay_inside() -> None:
    found = round_numbers(0.05, 20, 40)
    assert found[:3] == [0.1, 1.0, 10.0]
    assert all(0.05 <= one <= 20 for one in found)
    assert {0.5, 2.0, 0.25, 3.0} <= set(found)
    assert round_numbers(0.3100, 0.3149, 40)[0] == 0.31
    assert 10**0.5 in round_numbers(3.0, 3.5, 40)
    assert round_numbers(0.0, 1.0, 5) == []


@pytest.mark.parametrize("grid", [np.logspace(-4, 4, 10), np.logspace(-3, 3, 13), 2.0 ** np.arange(-10, 11)])
def test_the_grids_that_people_search_are_among_them(grid: np.ndarray) -> None:
    for value in grid:
        near = round_numbers(0.99 * float(value), 1.01 * float(value), 40)
        assert min(abs(one / value - 1) for one in near) < 1e-12


@given(st.floats(1e-7, 1e6), st.floats(1, 100), st.integers(1, 50))
def test_there_are_never_more_than_asked_for_and_none_twice(low: float, factor: float, most: int) -> None:
    found = round_numbers(low, low * factor, most)
    assert len(found) <= most
    assert len(set(found)) == len(found)
    assert all(low <= one <= low * factor for one in found)
