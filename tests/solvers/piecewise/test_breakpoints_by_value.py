"""Kinks on a line from values alone, on functions whose kinks are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from numpy.typing import ArrayLike

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_value import (
    Broken,
    Noise,
    TooManyKinks,
    find_kinks,
    measure_coarse_noise,
    measure_noise,
)

EXACT = Noise(1e-15, False)
PLACES = np.array([0.3, -0.7, 5.0])


class Piecewise:
    """t -> Σ jumps relu(t - places) + 1, with its calls counted."""

    def __init__(self, places: ArrayLike, jumps: ArrayLike) -> None:
        self.places = np.asarray(places, float)
        self.jumps = np.asarray(jumps, float).reshape(len(self.places), -1)
        self.asked = 0

    def __call__(self, t: Array) -> Array:
        self.asked += len(t)
        return np.asarray(np.maximum(t[:, None] - self.places, 0) @ self.jumps + 1)

    def repeats_a_piece(self) -> bool:
        """Whether two of its pieces lie on one line: what is between them leaves no trace outside."""
        slopes = np.cumsum(self.jumps, axis=0)
        levels = np.cumsum(self.jumps * self.places[:, None], axis=0)
        pieces = np.round(np.vstack([np.zeros(2 * slopes.shape[1]), np.hstack([slopes, levels])]), 9)
        return len(np.unique(pieces, axis=0)) < len(pieces)


def test_every_kink_is_found_for_five_values_each() -> None:
    rng = np.random.default_rng(0)
    places = np.sort(rng.standard_cauchy(100))
    ask = Piecewise(places, rng.standard_normal(100))
    kinks = find_kinks(ask, 1e4, EXACT, 1.0, 1000)
    np.testing.assert_allclose(kinks.places, places, rtol=1e-8, atol=1e-8)
    assert ask.asked < 6 * 100


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=25, unique=True),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_kinks_on_a_grid_are_found_whatever_their_jumps(hundredths: list[int], outputs: int, seed: int) -> None:
    """Round places make lines meet where no kink is, more often than chance would."""
    places = np.sort(hundredths) / 100
    jumps = np.random.default_rng(seed).choice([-2.0, -1.0, 1.0, 3.0], size=(len(places), outputs))
    function = Piecewise(places + 1e-3 * np.sqrt(2), jumps)
    assume(not function.repeats_a_piece())
    steepest = float(np.abs(np.cumsum(jumps, axis=0)).max())
    rounding = Noise(float(np.finfo(float).eps) * max(1.0, steepest), False)  # less would be noise that nobody was told of
    kinks = find_kinks(function, 1e4, rounding, 1.0, 1000)
    np.testing.assert_allclose(kinks.places, places + 1e-3 * np.sqrt(2), atol=1e-9)
    np.testing.assert_allclose(kinks.jumps, jumps, rtol=1e-6, atol=1e-9)


def test_a_hat_between_two_pieces_of_one_line_is_not_seen_from_outside() -> None:
    """Why a copy has to agree with fresh points: along a line, nothing says that there is more to look for."""
    hat = Piecewise([0.5, 0.6, 0.7], [1.0, -2.0, 1.0])
    assert hat.repeats_a_piece()
    assert len(find_kinks(hat, 1e4, EXACT, 1.0, 10).places) == 0


def test_a_pair_of_opposite_kinks_is_not_taken_for_one() -> None:
    """Their outer pieces cross beside them, where the function is on one of the two."""
    for second in (-0.9, -1.1, -5.0):
        kinks = find_kinks(Piecewise([1.0, 2.0], [1.0, second]), 1e4, EXACT, 1.0, 10)
        np.testing.assert_allclose(kinks.places, [1, 2], atol=1e-9)


def test_two_kinks_closer_than_a_millionth_are_told_apart() -> None:
    kinks = find_kinks(Piecewise([0.5, 0.5 + 1e-7], [1.0, 2.0]), 1e3, EXACT, 1.0, 10)
    assert len(kinks.places) == 2
    assert np.diff(kinks.places)[0] == pytest.approx(1e-7, rel=1e-3)


def test_a_line_has_no_kink() -> None:
    kinks = find_kinks(lambda t: np.stack([3 * t + 1, -t], axis=1), 1e4, EXACT, 1.0, 10)
    assert len(kinks.places) == 0
    assert len(kinks.pieces) == 1


def test_a_curve_has_too_many_kinks_and_a_step_is_no_kink() -> None:
    with pytest.raises(TooManyKinks):
        find_kinks(lambda t: np.tanh(t)[:, None], 1e3, EXACT, 1.0, 100)
    with pytest.raises(Broken):
        find_kinks(lambda t: np.floor(t / 7 + 0.1)[:, None], 30.0, EXACT, 1.0, 1000)


def test_noise_and_curves_are_measured() -> None:
    rng = np.random.default_rng(0)
    straight = Piecewise([0.5], [1.0])
    assert measure_noise(straight, PLACES).level < 1e-14
    assert not measure_noise(straight, PLACES).curved
    noisy = measure_noise(lambda t: straight(t) + 1e-6 * rng.standard_normal((len(t), 1)), PLACES)
    assert 1e-7 < noisy.level < 1e-5
    assert not noisy.curved
    assert measure_noise(lambda t: np.exp(t)[:, None], PLACES).curved
    assert measure_noise(lambda t: np.tanh(t)[:, None], PLACES * [1, 1, 100]).curved  # flat in one of the places


@pytest.mark.parametrize(("curvature", "curved"), [(1e-6, False), (4e-5, True)])
def test_a_curve_is_one_where_it_leaves_a_straight_line_by_hundreds_of_roundings(curvature: float, curved: bool) -> None:
    """Rounding of values near 1, extrapolated from steps of 1e-6 to one of 1e-4, is a hundred times itself."""
    places = np.array([0.3, -0.3, 0.31])
    assert measure_noise(lambda t: (1 + t + curvature * t**2)[:, None], places).curved == curved


def test_noise_is_measured_beside_kinks_and_a_curve_is_told_from_it() -> None:
    rng = np.random.default_rng(0)
    function = Piecewise(rng.standard_cauchy(60), rng.standard_normal(60))
    places = np.tan(rng.uniform(-1, 1, 24))

    def noisy(t: Array) -> Array:
        return function(t) + 1e-6 * (1 + np.abs(t))[:, None] * rng.standard_normal((len(t), 1))

    noise = measure_coarse_noise(noisy, places, 1.0)
    assert 0.5e-6 < noise.level < 2e-6
    assert not noise.curved
    assert measure_coarse_noise(lambda t: np.tanh(t)[:, None] + 1e-6 * rng.standard_normal((len(t), 1)), places, 1.0).curved


def test_noisy_kinks_are_found_from_many_starts_where_a_piece_from_far_away_passes_over_them() -> None:
    found = []
    for starts in (0, 100):
        right = 0
        for seed in range(10):
            rng = np.random.default_rng(seed)
            places = np.sort(rng.standard_cauchy(30))
            function = Piecewise(places, rng.choice([-1.0, 1.0], 30))

            def noisy(t: Array, function: Piecewise = function, rng: np.random.Generator = rng) -> Array:
                return function(t) + 1e-7 * (1 + np.abs(t))[:, None] * rng.standard_normal((len(t), 1))

            kinks = find_kinks(noisy, 100.0, Noise(1e-7, False, clear=8.0), 1.0, 1000, starts)
            right += len(kinks.places) == int((np.abs(places) < 100).sum())
        found.append(right)
    assert found[0] < found[1]
    assert found[1] >= 7
