"""Training again: the values are found where there is only a training to ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.shared.rounding import round_numbers
from divulge.solvers.stationarity import replay
from divulge.solvers.stationarity.replay import Match

AXES = np.random.default_rng(0).normal(size=(12, 2))
Train = Callable[[Mapping[str, float]], Array]


def smooth(values: Mapping[str, float]) -> Array:
    """A training whose parameters depend on its values without jumps."""
    first, second = values["alpha"], values.get("l1_ratio", 0.4)
    return np.asarray(np.tanh(AXES[:, 0] * np.log(first) + AXES[:, 1] * second))


def match(train: Train, observed: Array, around: dict[str, tuple[float, float]], most: int = 63, **told: Any) -> Match:
    return replay.match(replay.Trials(train, observed, most), around, **told)


def search(train: Train, observed: Array) -> tuple[float, float]:
    return replay.search(replay.Trials(train, observed), ["alpha"])["alpha"]


def test_a_round_value_is_found_bit_for_bit() -> None:
    found = match(smooth, smooth({"alpha": 0.3}), {"alpha": (0.1, 1.0)})
    assert found.values == {"alpha": 0.3}
    assert found.same
    assert found.snapped
    assert found.distance == 0


@pytest.mark.parametrize("value", [0.123456789, 7.7391, 212.00471])
def test_any_other_value_is_found_by_descent_and_lies_in_its_interval(value: float) -> None:
    found = match(smooth, smooth({"alpha": value}), {"alpha": (value / 5, value * 8)})
    assert found.values["alpha"] == pytest.approx(value, rel=1e-9)
    assert abs(found.values["alpha"] - value) <= found.half_widths["alpha"] <= 1e-6 * value
    assert not found.snapped
    assert found.fits <= 63 + 5


def test_two_values_are_found_together() -> None:
    observed = smooth({"alpha": 0.7318, "l1_ratio": 0.2713})
    found = match(smooth, observed, {"alpha": (0.2, 2.0), "l1_ratio": (0.1, 0.9)})
    assert found.values["alpha"] == pytest.approx(0.7318, rel=1e-7)
    assert found.values["l1_ratio"] == pytest.approx(0.2713, rel=1e-7)


def test_a_training_that_jumps_is_searched_piece_by_piece() -> None:
    def jumping(values: Mapping[str, float]) -> Array:
        piece = np.floor(4 * np.log(values["alpha"]))
        return np.asarray(smooth(values) + 0.05 * np.sin(piece * np.arange(1, 13)))

    found = match(jumping, jumping({"alpha": 0.4242}), {"alpha": (0.1, 3.0)})
    assert found.values["alpha"] == pytest.approx(0.4242, rel=1e-7)


def test_parameters_that_no_value_trains_to_are_not_called_the_same() -> None:
    found = match(smooth, smooth({"alpha": 0.3}) + 0.01 * AXES[:, 1], {"alpha": (0.1, 1.0)})
    assert not found.same
    assert found.distance > 1e-4


@pytest.mark.parametrize("decimals", [1, 2, 4])
def test_digits_cut_off_leave_an_interval_of_all_values_that_round_alike(decimals: int) -> None:
    for value in (0.31, 0.4567, 1.3):
        observed = np.round(smooth({"alpha": value}), decimals)
        cut = np.full(12, 0.5 * 10.0**-decimals)
        found = match(smooth, observed, {"alpha": (0.1, 3.0)}, cut=cut)
        assert abs(found.values["alpha"] - value) <= found.half_widths["alpha"] <= 3 * 10.0**-decimals


def test_a_value_that_changes_nothing_has_no_interval() -> None:
    found = match(lambda values: np.ones(3), np.ones(3), {"alpha": (0.1, 1.0)})
    assert found.half_widths["alpha"] == np.inf


def test_trainings_that_fail_are_passed_over() -> None:
    def fails(values: Mapping[str, float]) -> Array:
        return smooth(values) if values["alpha"] > 0.2 else np.full(1, np.nan)

    found = match(fails, smooth({"alpha": 0.3}), {"alpha": (0.05, 1.0)})
    assert found.values == {"alpha": 0.3}


def test_where_nothing_says_where_to_look_the_decade_is_found() -> None:
    low, high = search(smooth, smooth({"alpha": 0.0237}))
    assert low <= 0.0237 <= high


def test_single_precision_is_not_taken_for_equality() -> None:
    observed = smooth({"alpha": 0.3}).astype(np.float32)
    found = match(smooth, observed, {"alpha": (0.1, 1.0)})
    assert not found.same
    assert abs(found.values["alpha"] - 0.3) <= found.half_widths["alpha"]


# --- limits, from just inside and from just outside


def beside(distance: float) -> Array:
    """Parameters at this relative distance from those of alpha = 0.3, where no other alpha comes nearer."""
    observed = smooth({"alpha": 0.3})
    tangent = (smooth({"alpha": 0.3 + 1e-6}) - observed) / 1e-6
    across = AXES[:, 1] - tangent * (AXES[:, 1] @ tangent) / (tangent @ tangent)
    return np.asarray(observed + distance * np.linalg.norm(observed) * across / np.linalg.norm(across))


@pytest.mark.parametrize(("times", "same"), [(450, True), (550, False)])
def test_another_blas_is_the_same_training_to_500_rounding_errors(times: float, same: bool) -> None:
    observed = beside(times * float(np.finfo(float).eps))
    assert match(smooth, observed, {"alpha": (0.1, 1.0)}).same is same


def test_an_interval_is_ten_times_what_is_left() -> None:
    """Halving it would trust that neighbouring trainings lie on a straight line."""
    distance = 1e-5
    found = match(smooth, beside(distance), {"alpha": (0.1, 1.0)})
    tangent = np.linalg.norm(smooth({"alpha": 0.3 * (1 + 1e-6)}) - smooth({"alpha": 0.3})) / 1e-6
    alone = distance * float(np.linalg.norm(smooth({"alpha": 0.3}))) / tangent
    assert found.half_widths["alpha"] / 0.3 == pytest.approx(10 * alone, rel=0.2)


def test_without_equal_bits_no_interval_is_finer_than_eight_digits() -> None:
    found = match(smooth, smooth({"alpha": 0.123456789}), {"alpha": (0.05, 0.5)})
    assert found.half_widths["alpha"] / 0.123456789 == pytest.approx(1e-8, rel=0.5)


@pytest.mark.parametrize("value", [1.5e-8, 2e-7, 9e4])
def test_penalties_from_ten_millionths_to_ten_thousands_are_searched(value: float) -> None:
    """The ends are 10⁻⁷ and 10⁴, and a decade beside each."""
    trained: list[float] = []

    def train(values: Mapping[str, float]) -> Array:
        trained.append(values["alpha"])
        return np.asarray(np.log(values["alpha"]) * AXES[:, 0])

    low, high = search(train, np.log(value) * AXES[:, 0])
    assert low <= value <= high
    assert 1e-8 < min(trained) <= 1e-7 * 1.01
    assert 1e4 * 0.99 <= max(trained) < 1e5


def test_a_third_of_the_trainings_and_more_are_left_for_values_between_the_round_ones() -> None:
    """Of 63 trainings, the default, about 40 go to round numbers, however many there are; of 30, about 16."""
    for most, fewest, largest in ((63, 30, 50), (200, 40, 50), (30, 12, 24)):
        trained: list[float] = []

        def train(values: Mapping[str, float], trained: list[float] = trained) -> Array:
            trained.append(values["alpha"])
            return np.asarray(np.log(values["alpha"]) * AXES[:, 0])

        match(train, AXES[:, 1], {"alpha": (1e-3, 1e3)}, most=most)
        typed = set(round_numbers(1e-3, 1e3, 200))
        assert fewest <= sum(value in typed for value in trained) <= largest


@pytest.mark.parametrize("most", [3, 4, 10, 63])
def test_a_limit_is_a_limit(most: int) -> None:
    trained: list[float] = []

    def train(values: Mapping[str, float]) -> Array:
        trained.append(values["alpha"])
        return smooth(values)

    trials = replay.Trials(train, AXES[:, 1], most)  # which no value trains to
    around = replay.search(trials, ["alpha"])
    assert replay.match(trials, around).fits == len(trained) <= most


@pytest.mark.parametrize("value", [0.3, 0.123456789, 7.7391])
@pytest.mark.parametrize("curve", ["in θ", "in 1/θ", "between"])
def test_a_smooth_path_is_followed_in_a_few_trainings(value: float, curve: str) -> None:
    """The parameters of a ridge regression, s / (s + θ), where θ is far below all s, far above, or among them."""
    sizes = {"in θ": 1e3, "in 1/θ": 1e-3, "between": 1.0}[curve] * np.geomspace(0.3, 3, 12)

    def train(values: Mapping[str, float]) -> Array:
        return np.asarray(AXES[:, 0] * sizes / (sizes + values["alpha"]))

    found = match(train, train({"alpha": value}), {"alpha": (value / 300, value * 50)})
    assert found.values["alpha"] == pytest.approx(value, rel=1e-9)
    assert found.fits <= 9
    assert found.snapped == (value == 0.3)


def test_a_descent_that_ends_short_of_eight_digits_is_begun_again_elsewhere() -> None:
    """Beyond 1e-8 no replay is claimed, so that more trainings are worth their time."""
    near, far = (match(smooth, beside(distance), {"alpha": (0.1, 1.0)}) for distance in (0.9e-8, 1.1e-8))
    assert near.fits + 10 < far.fits
