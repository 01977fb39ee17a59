"""A training process as an attacker meets it: its data, its limits, and test points that only scoring sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from divulge import Candidates, Pipeline, datasets, victims
from divulge.errors import BadInput

DIGITS = datasets.load("mnist-0-8", samples=40)


def made(test: Candidates | None = None, **settings: Any) -> victims.Victim:
    rng = np.random.default_rng(0)
    return victims.make("pipeline", DIGITS.X, DIGITS.y, rng, test=test, shape=DIGITS.shape, learner="logistic", **settings)


def held(**settings: Any) -> Pipeline:
    pipeline = made(**settings).held["pipeline"]
    assert isinstance(pipeline, Pipeline)
    return pipeline


def test_every_point_is_trained_on_or_kept_for_validation() -> None:
    pipeline = held(validation=0.25)
    assert (len(pipeline.X), len(pipeline.X_val)) == (30, 10)
    together = np.concatenate([pipeline.X, pipeline.X_val])
    assert sorted(map(tuple, together)) == sorted(map(tuple, DIGITS.X))


def test_both_parts_have_of_every_class_its_share() -> None:
    pipeline = held(validation=0.25)
    assert np.unique(pipeline.y, return_counts=True)[1].tolist() == [15, 15]
    assert np.unique(pipeline.y_val, return_counts=True)[1].tolist() == [5, 5]


def test_a_pipeline_of_pictures_knows_their_shape_and_its_limits() -> None:
    assert held().shape == (28, 28)
    assert held().low is None
    limited = held(low=0, high=1)
    assert isinstance(limited.low, np.ndarray)
    assert isinstance(limited.high, np.ndarray)
    assert (np.unique(limited.low).tolist(), np.unique(limited.high).tolist()) == ([0], [1])
    with pytest.raises(BadInput, match="widen the box"):
        held(high=0.5)


def test_limits_and_test_points_do_not_change_the_split() -> None:
    test = Candidates(DIGITS.X_test, DIGITS.y_test)
    np.testing.assert_array_equal(held().X, held(test=test, low=0, high=1).X)


def test_test_points_are_the_truth_and_not_held() -> None:
    victim = made(Candidates(DIGITS.X_test, DIGITS.y_test))
    known = victim.truth["candidates"]
    assert isinstance(known, Candidates)
    np.testing.assert_array_equal(known.X, DIGITS.X_test)
    assert known.shape == (28, 28)
    assert set(victim.held) == {"pipeline"}
    assert made().truth == {}
