"""Logit gaps, whatever a classifier answers, and clusters of equal margins among them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from scipy.special import expit, softmax

from divulge.arrays import Array
from divulge.solvers.statistics.logit_gap import LogitGaps, MarginCluster, logit_gaps, margin_cluster

RNG = np.random.default_rng
CROWDS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n),
    "two normals": lambda rng, n: rng.standard_normal(n) + np.where(rng.random(n) < 0.5, 0, 5),
    "two scales": lambda rng, n: rng.standard_normal(n) * np.where(rng.random(n) < 0.5, 1, 20),
}


def gaps_of(answers: Array) -> LogitGaps:
    found = logit_gaps(answers)
    assert found is not None
    return found


def cluster_of(values: Array, low: float = 0.0, high: float = np.inf) -> MarginCluster:
    found = margin_cluster(values, low, high)
    assert found is not None
    return found


def test_probabilities_say_what_the_outputs_did() -> None:
    f, Z = RNG(0).normal(size=(50, 1)) * 5, RNG(1).normal(size=(50, 4)) * 5
    for outputs, chances, kinds in (
        (f, expit(f), ("output", "probability")),
        (Z, softmax(Z, 1), ("outputs", "probabilities")),
    ):
        mine, theirs = gaps_of(outputs), gaps_of(chances)
        assert (mine.kind, theirs.kind) == kinds
        np.testing.assert_allclose(mine.values, theirs.values, rtol=1e-6)


def test_two_outputs_and_one_tell_the_same() -> None:
    f = RNG(0).normal(size=30)
    np.testing.assert_allclose(gaps_of(np.column_stack([0.3 * f, 1.3 * f])).values, gaps_of(f).values)


@pytest.mark.parametrize("answers", [[-1.0, 1.0, 1.0], [0, 3, 2], [[0, 1], [1, 0]], [[0.0, 1, 0], [1, 0, 0]]])
def test_names_of_classes_have_no_gaps(answers: list[float]) -> None:
    assert logit_gaps(np.array(answers)) is None


def test_outputs_of_few_digits_are_no_names_of_classes() -> None:
    assert gaps_of(np.array([-12.0, 3.0, 7.0])).values.tolist() == [12, 3, 7]


def test_a_probability_of_one_is_larger_than_all_others_and_counted() -> None:
    found = gaps_of(np.array([0.5, 0.9, 1.0, 0.0]))
    assert found.saturated == 2
    assert found.values[2] == found.values[3] > found.values[1]
    assert np.isfinite(found.values).all()


@given(st.integers(0, 10_000), st.sampled_from([30, 300, 3000]))
@example(seed=270, count=300)
def test_a_smooth_crowd_has_no_cluster(seed: int, count: int) -> None:
    crowd = RNG(seed).standard_normal(count) * 3
    assert cluster_of(np.abs(crowd)).p_value > 1e-4


@pytest.mark.parametrize("kind", CROWDS)
def test_smooth_crowds_have_p_values_no_smaller_than_they_say(kind: str) -> None:
    """Of so few draws one below 1e-2 would be rare already: the p-value is an upper bound."""
    sizes = np.tile([50, 200, 800], 25)
    found = [cluster_of(np.abs(CROWDS[kind](RNG([draw, size]), size))) for draw, size in enumerate(sizes)]
    p = np.array([one.p_value for one in found])
    assert (p < 0.01).sum() <= 1
    assert (p < 0.001).sum() == 0


@pytest.mark.parametrize(("bump", "is_one"), [(0.15, False), (0.09, True)])
def test_a_wide_bump_is_no_cluster_and_a_narrow_one_is(bump: float, is_one: bool) -> None:
    crowd = np.exp(bump * RNG(0).standard_normal(5000))
    assert (cluster_of(crowd).p_value < 1e-3) is is_one


def test_the_edge_of_a_crowd_is_no_cluster() -> None:
    for seed in range(5):
        assert cluster_of(RNG(seed).uniform(size=5000), low=0.9).p_value > 0.01


@pytest.mark.parametrize(("width", "members"), [(1e-4, 12), (0.01, 20), (0.05, 60)])
def test_points_with_equal_margins_are_found(width: float, members: int) -> None:
    rng = RNG(0)
    crowd = np.abs(rng.standard_normal(2000))
    found = cluster_of(np.concatenate([crowd, 2.5 * (1 + width * rng.uniform(-0.5, 0.5, members))]))
    assert found.p_value < 1e-3
    assert found.at == pytest.approx(2.5, rel=width + 1e-9)
    assert found.count >= 0.7 * members
    assert found.expected < members / 2


FEWEST = [(0.0005, 10), (0.001, 12), (0.002, 14), (0.005, 20), (0.01, 24), (0.02, 36), (0.05, 68), (0.1, 152)]


@pytest.mark.parametrize(("width", "members"), FEWEST)
def test_a_cluster_of_any_width_needs_few_members(width: float, members: int) -> None:
    crowd = np.abs(RNG(0).standard_normal(2000))
    cluster = 1.5 * (1 + 0.99 * width * np.linspace(0, 1, members))
    assert cluster_of(np.concatenate([crowd, cluster])).p_value < 1e-3


def test_six_equal_margins_far_above_all_others_are_enough() -> None:
    crowd = np.abs(RNG(0).standard_normal(200))
    assert cluster_of(np.concatenate([crowd, 100 + 1e-5 * np.arange(6)])).p_value < 1e-3


def test_a_cluster_is_looked_for_where_it_is_said_to_be() -> None:
    crowd = np.concatenate([np.abs(RNG(0).standard_normal(500)), 2.5 + 1e-4 * np.arange(20)])
    assert cluster_of(crowd, low=2.0).at == pytest.approx(2.5, rel=1e-3)
    assert cluster_of(crowd, high=2.0).p_value > 0.01


def test_rounding_makes_no_cluster() -> None:
    assert cluster_of(np.round(np.abs(RNG(0).standard_normal(4000)), 1)).p_value > 1e-3


def test_a_cluster_needs_three_values() -> None:
    assert margin_cluster(np.array([1.0, 1.0, 0.0])) is None


def test_votes_are_told_from_outputs_that_are_near_whole_numbers() -> None:
    rng = np.random.default_rng(0)
    votes = rng.permuted(np.tile([0.0, 1.0, 2.0], (50, 1)), axis=1)
    found = logit_gaps(votes + rng.uniform(-0.33, 0.33, votes.shape))
    assert found is not None
    assert found.votes
    for other in (votes + rng.uniform(-0.4, 0.4, votes.shape), 2 * votes + 0.1, votes[:, :2] + 0.1):
        found = logit_gaps(other)
        assert found is not None
        assert not found.votes
