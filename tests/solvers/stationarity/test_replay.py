"""Training again: the values are found where there is only a training to ask."""

import numpy as np
import pytest

from divulge.solvers.shared.rounding import RATIOS, round_numbers, rounded_to
from divulge.solvers.stationarity import replay

AXES = np.random.default_rng(0).normal(size=(12, 2))


def smooth(values):
    """A training whose parameters depend on its values without jumps."""
    first, second = values["alpha"], values.get("l1_ratio", 0.4)
    return np.tanh(AXES[:, 0] * np.log(first) + AXES[:, 1] * second)


def test_a_round_value_is_found_bit_for_bit():
    found = replay.match(smooth, smooth({"alpha": 0.3}), {"alpha": (0.1, 1.0)})
    assert found.values == {"alpha": 0.3}
    assert found.same
    assert found.snapped
    assert found.distance == 0


@pytest.mark.parametrize("value", [0.123456789, 7.7391, 212.00471])
def test_any_other_value_is_found_by_descent_and_lies_in_its_interval(value):
    found = replay.match(smooth, smooth({"alpha": value}), {"alpha": (value / 5, value * 8)})
    assert found.values["alpha"] == pytest.approx(value, rel=1e-9)
    assert abs(found.values["alpha"] - value) <= found.half_widths["alpha"] <= 1e-6 * value
    assert not found.snapped
    assert found.fits <= 63 + 5


def test_two_values_are_found_together():
    observed = smooth({"alpha": 0.7318, "l1_ratio": 0.2713})
    found = replay.match(smooth, observed, {"alpha": (0.2, 2.0), "l1_ratio": (0.1, 0.9)})
    assert found.values["alpha"] == pytest.approx(0.7318, rel=1e-7)
    assert found.values["l1_ratio"] == pytest.approx(0.2713, rel=1e-7)


def test_a_training_that_jumps_is_searched_piece_by_piece():
    def jumping(values):
        piece = np.floor(4 * np.log(values["alpha"]))
        return smooth(values) + 0.05 * np.sin(piece * np.arange(1, 13))

    found = replay.match(jumping, jumping({"alpha": 0.4242}), {"alpha": (0.1, 3.0)})
    assert found.values["alpha"] == pytest.approx(0.4242, rel=1e-7)


def test_parameters_that_no_value_trains_to_are_not_called_the_same():
    found = replay.match(smooth, smooth({"alpha": 0.3}) + 0.01 * AXES[:, 1], {"alpha": (0.1, 1.0)})
    assert not found.same
    assert found.distance > 1e-4


@pytest.mark.parametrize("decimals", [1, 2, 4])
def test_digits_cut_off_leave_an_interval_of_all_values_that_round_alike(decimals):
    for value in (0.31, 0.4567, 1.3):
        observed = np.round(smooth({"alpha": value}), decimals)
        cut = np.full(12, 0.5 * 10.0**-decimals)
        found = replay.match(smooth, observed, {"alpha": (0.1, 3.0)}, cut=cut)
        assert abs(found.values["alpha"] - value) <= found.half_widths["alpha"] <= 3 * 10.0**-decimals


def test_a_value_that_changes_nothing_has_no_interval():
    found = replay.match(lambda values: np.ones(3), np.ones(3), {"alpha": (0.1, 1.0)})
    assert found.half_widths["alpha"] == np.inf


def test_trainings_that_fail_are_passed_over():
    def fails(values):
        return smooth(values) if values["alpha"] > 0.2 else np.full(1, np.nan)

    found = replay.match(fails, smooth({"alpha": 0.3}), {"alpha": (0.05, 1.0)})
    assert found.values == {"alpha": 0.3}


def test_where_nothing_says_where_to_look_the_decade_is_found():
    around = replay.search(smooth, smooth({"alpha": 0.0237}), ["alpha"], lambda done: None)
    low, high = around["alpha"]
    assert low <= 0.0237 <= high


def test_single_precision_is_not_taken_for_equality():
    observed = smooth({"alpha": 0.3}).astype(np.float32)
    found = replay.match(smooth, observed, {"alpha": (0.1, 1.0)})
    assert not found.same
    assert abs(found.values["alpha"] - 0.3) <= found.half_widths["alpha"]


def test_round_numbers_come_roundest_first_and_stay_inside():
    found = round_numbers(0.05, 20, 40)
    assert found[:3] == [0.1, 1.0, 10.0]
    assert all(0.05 <= one <= 20 for one in found)
    assert {0.5, 2.0, 0.25, 3.0} <= set(found)
    assert round_numbers(0.3100, 0.3149, 40)[0] == 0.31
    assert 10**0.5 in round_numbers(3.0, 3.5, 40)
    assert round_numbers(0.0, 1.0, 5) == []
    assert sorted(set(RATIOS)) == sorted(RATIOS)


def test_cut_off_digits_are_noticed_and_full_ones_are_not():
    values = np.random.default_rng(0).normal(size=8)
    assert rounded_to(values) is None
    assert rounded_to(np.round(values, 3)) == 3
    assert rounded_to(np.array([1.0, -2.0])) == 0
    assert rounded_to(np.zeros(4)) is None
    assert rounded_to(values.astype(np.float32)) is None
