"""Algorithm 1 as published: it finds every unit, costs what its formula says, and notices when it fails."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.arrays import Array
from divulge.baselines.milli2018 import bisection


class Network:
    """Σ w_i max(A_i·x + b_i, 0), and how many rows were asked of it."""

    def __init__(self, hidden: Array, out: Array, biases: Array | float = 0.0) -> None:
        self.hidden, self.out, self.biases = hidden, out, biases
        self.values = self.gradients = 0

    def value(self, X: Array) -> Array:
        self.values += len(X)
        return np.asarray(np.maximum(X @ self.hidden.T + self.biases, 0) @ self.out)

    def gradient(self, X: Array) -> Array:
        self.gradients += len(X)
        return np.asarray(((X @ self.hidden.T + self.biases > 0) * self.out) @ self.hidden)


def drawn(units: int, dimension: int, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    return Network(rng.normal(size=(units, dimension)), rng.normal(size=units))


def learn(network: Network, units: int | None = None, seed: int = 7, values_only: bool = False) -> tuple[Array, Array]:
    units = units or len(network.out)
    plan = bisection.planned(units, 0.1, 0.5)
    oracle = bisection.from_values(network.value, plan.step) if values_only else bisection.from_gradients(network.gradient)
    return bisection.learn(network.value, oracle, network.hidden.shape[1], units, plan, np.random.default_rng(seed))


def disagreement(network: Network, hidden: Array, out: Array) -> float:
    X = np.random.default_rng(1).normal(size=(300, hidden.shape[1]))
    expected = network.value(X)
    return float(np.linalg.norm(np.maximum(X @ hidden.T, 0) @ out - expected) / np.linalg.norm(expected))


def test_the_search_is_set_as_the_theorems_print_it() -> None:
    plan = bisection.planned(10, 0.1, 0.5)
    assert plan.reach == 100
    assert plan.resolution == pytest.approx(0.5 / 9 * (0.1 + 2 * np.pi / 10) ** 1.5 / 1000)
    assert plan.step == pytest.approx(0.1 * plan.resolution / (2 * 1.9 * 100 * 10))


def test_every_unit_is_found_up_to_its_sign() -> None:
    network = drawn(20, 30)
    plan = bisection.planned(20, 0.1, 0.5)
    Z = bisection.planes(bisection.from_gradients(network.gradient), 30, 20, plan, np.random.default_rng(0))
    true = network.out[:, None] * network.hidden
    distances = np.minimum(*(np.linalg.norm(Z[:, None] - sign * true, axis=2) for sign in (1, -1)))
    assert sorted(distances.argmin(axis=1)) == list(range(20))
    assert distances.min(axis=1).max() < 1e-12 * np.linalg.norm(true)


@pytest.mark.parametrize("units", [20, 60])
def test_the_copy_is_exact_and_has_as_many_units(units: int) -> None:
    network = drawn(units, 60)
    hidden, out = learn(network)
    assert len(out) == units
    assert set(out) <= {-1.0, 1.0}
    assert disagreement(network, hidden, out) < 1e-12


@pytest.mark.parametrize("units", [20, 60])
def test_a_halving_costs_one_gradient_and_the_signs_two_values_a_unit(units: int) -> None:
    network = drawn(units, 60)
    learn(network)
    plan = bisection.planned(units, 0.1, 0.5)
    halvings = np.log2(plan.reach / plan.resolution)
    assert halvings <= network.gradients / units <= halvings + 2
    assert network.values == 2 * units


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), scale=st.floats(0.01, 100), order=st.permutations(range(12)))
def test_scaling_and_permuting_the_units_changes_nothing(seed: int, scale: float, order: list[int]) -> None:
    network = drawn(12, 15, seed)
    other = Network(scale * network.hidden[order], network.out[order] / scale)
    try:
        first = learn(network)
    except bisection.Failure:
        with pytest.raises(bisection.Failure):
            learn(other)
        return
    second = learn(other)
    assert np.allclose(first[0], second[0], atol=1e-9)
    assert np.array_equal(first[1], second[1])


def test_the_ball_in_the_positive_quadrant_sits_in_the_far_corner_of_the_box() -> None:
    X = bisection.cell_points(np.eye(2), np.random.default_rng(0))
    assert np.allclose(sorted(X.tolist()), [[1, 1.5], [1.5, 1]])


def test_points_for_the_signs_lie_in_one_cell_and_have_full_rank() -> None:
    network = drawn(25, 30)
    X = bisection.cell_points(network.hidden, np.random.default_rng(0))
    assert len(np.unique(X @ network.hidden.T > 0, axis=0)) == 1
    assert np.linalg.matrix_rank(network.hidden @ X.T) == 25


def test_finite_differences_are_gradients_within_their_rounding() -> None:
    network = drawn(10, 20)
    x = np.random.default_rng(3).normal(size=20)
    g, rounding = bisection.from_values(network.value, 1e-9)(x)
    assert network.values == 21
    assert np.linalg.norm(g - network.gradient(x[None])[0]) < rounding < 1e-3 * np.linalg.norm(g)


def test_values_alone_find_ten_units_to_three_digits() -> None:
    network = drawn(10, 30)
    assert disagreement(network, *learn(network, values_only=True)) < 1e-3


@pytest.mark.parametrize(
    ("units", "claimed", "sentence"),
    [(12, 13, "changes 12 times on a line of 13 units"), (12, 11, "behind the last of 11 units: there are more")],
)
def test_a_wrong_number_of_units_is_noticed(units: int, claimed: int, sentence: str) -> None:
    with pytest.raises(bisection.Failure, match=sentence):
        learn(drawn(units, 15), claimed)


def test_kinks_closer_than_the_resolution_are_noticed() -> None:
    network = drawn(12, 15)
    twin = network.hidden[0] + 1e-9 * network.hidden[1]
    with pytest.raises(bisection.Failure, match="two are closer than"):
        learn(Network(np.vstack([network.hidden, twin]), np.append(network.out, 1.0)))


def test_more_units_than_dimensions_are_refused() -> None:
    with pytest.raises(bisection.Failure, match="not linearly independent"):
        learn(drawn(20, 15))


def test_biases_show_in_the_signs() -> None:
    network = drawn(12, 15)
    with pytest.raises(bisection.Failure, match="the signs should be -1, 0 and 1"):
        learn(Network(network.hidden, network.out, np.random.default_rng(0).normal(size=12)))


def test_a_step_below_the_last_digit_is_named() -> None:
    with pytest.raises(bisection.Failure, match=r"the step of the finite differences, .*e-16, is lost"):
        learn(drawn(100, 100), values_only=True)
