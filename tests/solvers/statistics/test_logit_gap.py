"""How far a classifier decides, whatever it answers, and where many points are decided by the same."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import expit, softmax

from divulge.solvers.statistics.logit_gap import gaps, pile

RNG = np.random.default_rng


def test_probabilities_say_what_the_outputs_did():
    f, Z = RNG(0).normal(size=(50, 1)) * 5, RNG(1).normal(size=(50, 4)) * 5
    for outputs, chances, kinds in (
        (f, expit(f), ("output", "probability")),
        (Z, softmax(Z, 1), ("outputs", "probabilities")),
    ):
        mine, theirs = gaps(outputs), gaps(chances)
        assert (mine.kind, theirs.kind) == kinds
        np.testing.assert_allclose(mine.values, theirs.values, rtol=1e-6)


def test_two_outputs_and_one_tell_the_same():
    f = RNG(0).normal(size=30)
    np.testing.assert_allclose(gaps(np.column_stack([0.3 * f, 1.3 * f])).values, gaps(f).values)


@pytest.mark.parametrize("answers", [[-1.0, 1.0, 1.0], [0, 3, 2], [[0, 1], [1, 0]], [[0.0, 1, 0], [1, 0, 0]]])
def test_names_of_classes_are_no_gaps(answers):
    assert gaps(np.array(answers)) is None


def test_outputs_of_few_digits_are_no_names_of_classes():
    assert gaps(np.array([-12.0, 3.0, 7.0])).values.tolist() == [12, 3, 7]


def test_a_probability_of_one_is_larger_than_all_others_and_counted():
    found = gaps(np.array([0.5, 0.9, 1.0, 0.0]))
    assert found.saturated == 2
    assert found.values[2] == found.values[3] > found.values[1]
    assert np.isfinite(found.values).all()


@given(st.integers(0, 10_000), st.sampled_from([30, 300, 3000]))
def test_a_smooth_crowd_is_no_pile(seed, count):
    crowd = RNG(seed).standard_normal(count) * 3
    assert pile(np.abs(crowd)).chance > 1e-4


@pytest.mark.parametrize(("width", "members"), [(1e-4, 12), (0.01, 20), (0.05, 60)])
def test_points_decided_by_the_same_are_found(width, members):
    rng = RNG(0)
    crowd = np.abs(rng.standard_normal(2000))
    found = pile(np.concatenate([crowd, 2.5 * (1 + width * rng.uniform(-0.5, 0.5, members))]))
    assert found.chance < 1e-3
    assert found.at == pytest.approx(2.5, rel=width + 1e-9)
    assert found.count >= 0.7 * members


def test_rounding_makes_no_pile():
    assert pile(np.round(np.abs(RNG(0).standard_normal(4000)), 1)).chance > 1e-3


def test_a_pile_needs_three_values():
    assert pile(np.array([1.0, 1.0, 0.0])) is None
