"""Training again: the values are found where there is only a training to ask."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.stationarity import replay

AXES = np.random.default_rng(0).normal(size=(12, 2))


def smooth(values: Mapping[str, float]) -> Array:
    """A training whose parameters depend on its values without jumps."""
    first, second = values["alpha"], values.get("l1_ratio", 0.4)
    return np.asarray(np.tanh(AXES[:, 0] * np.log(first) + AXES[:, 1] * second))


def test_a_round_value_is_found_bit_for_bit() -> None:
    found = replay.match(smooth, smooth({"alpha": 0.3}), {"alpha": (0.1, 1.0)})
    assert found.values == {"alpha": 0.3}
    assert found.same
    assert found.snapped
    assert found.distance == 0


@pytest.mark.parametrize("value", [0.123456789, 7.7391, 212.00471])
def test_any_other_value_is_found_by_descent_and_lies_in_its_interval(value: float) -> None:
    found = replay.match(smooth, smooth({"alpha": value}), {"alpha": (value / 5, value * 8)})
    assert found.values["alpha"] == pytest.approx(value, rel=1e-9)
    assert abs(found.values["alpha"] - value) <= found.half_widths["alpha"] <= 1e-6 * value
    assert not found.snapped
    assert found.fits <= 63 + 5


def test_two_values_are_found_together() -> None:
    observed = smooth({"alpha": 0.7318, "l1_ratio": 0.2713})
    found = replay.match(smooth, observed, {"alpha": (0.2, 2.0), "l1_ratio": (0.1, 0.9)})
    assert found.values["alpha"] == pytest.approx(0.7318, rel=1e-7)
    assert found.values["l1_ratio"] == pytest.approx(0.2713, rel=1e-7)


def test_a_training_that_jumps_is_searched_piece_by_piece() -> None:
    def jumping(values: Mapping[str, float]) -> Array:
        piece = np.floor(4 * np.log(values["alpha"]))
        return np.asarray(smooth(values) + 0.05 * np.sin(piece * np.arange(1, 13)))

    found = replay.match(jumping, jumping({"alpha": 0.4242}), {"alpha": (0.1, 3.0)})
    assert found.values["alpha"] == pytest.approx(0.4242, rel=1e-7)


def test_parameters_that_no_value_trains_to_are_not_called_the_same() -> None:
    found = replay.match(smooth, smooth({"alpha": 0.3}) + 0.01 * AXES[:, 1], {"alpha": (0.1, 1.0)})
    assert not found.same
    assert found.distance > 1e-4


@pytest.mark.parametrize("decimals", [1, 2, 4])
def test_digits_cut_off_leave_an_interval_of_all_values_that_round_alike(decimals: int) -> None:
    for value in (0.31, 0.4567, 1.3):
        observed = np.round(smooth({"alpha": value}), decimals)
        cut = np.full(12, 0.5 * 10.0**-decimals)
        found = replay.match(smooth, observed, {"alpha": (0.1, 3.0)}, cut=cut)
        assert abs(found.values["alpha"] - value) <= found.half_widths["alpha"] <= 3 * 10.0**-decimals


def test_a_value_that_changes_nothing_has_no_interval() -> None:
    found = replay.match(lambda values: np.ones(3), np.ones(3), {"alpha": (0.1, 1.0)})
    assert found.half_widths["alpha"] == np.inf


def test_trainings_that_fail_are_passed_over() -> None:
    def fails(values: Mapping[str, float]) -> Array:
        return smooth(values) if values["alpha"] > 0.2 else np.full(1, np.nan)

    found = replay.match(fails, smooth({"alpha": 0.3}), {"alpha": (0.05, 1.0)})
    assert found.values == {"alpha": 0.3}


def test_where_nothing_says_where_to_look_the_decade_is_found() -> None:
    around = replay.search(smooth, smooth({"alpha": 0.0237}), ["alpha"], lambda done: None)
    low, high = around["alpha"]
    assert low <= 0.0237 <= high


def test_single_precision_is_not_taken_for_equality() -> None:
    observed = smooth({"alpha": 0.3}).astype(np.float32)
    found = replay.match(smooth, observed, {"alpha": (0.1, 1.0)})
    assert not found.same
    assert abs(found.values["alpha"] - 0.3) <= found.half_widths["alpha"]
