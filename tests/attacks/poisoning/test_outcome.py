"""What counts as a rise: by how many errors, beyond wrong labels, and with what interval over splits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from divulge.arrays import Array
from divulge.attacks.poisoning.learners import PipelineLearner
from divulge.attacks.poisoning.outcome import (
    LevelPenalties,
    Measured,
    Outcome,
    PoisonedPipelines,
    PoisonedSetting,
    leaves_open,
    measured,
    paired_p_value,
)
from divulge.attacks.poisoning.records import PipelineModels, Setting
from divulge.contract import Score

LEARNER = PipelineLearner("logistic", "logistic", np.array([0, 1]), "converged", 150, 0.1, None)
X = np.linspace(-1, 1, 21)[:, None]
y = (X[:, 0] > 0).astype(int)


def thresholds(*ends: tuple[float, float]) -> PipelineModels:
    """Models of one feature that say 1 above these thresholds: a row a split, clean and poisoned."""
    b = -np.array(ends, float)[..., None]
    return PipelineModels(np.ones((*b.shape, 1)), b, np.zeros_like(b))


def outcome(poisoned: PipelineModels, mislabelled: PipelineModels) -> Outcome:
    settings: dict[Setting, PoisonedSetting] = {"fixed": PoisonedSetting(poisoned, mislabelled)}
    penalties = tuple(LevelPenalties("fixed", count, np.zeros((len(poisoned.b), 1))) for count in (0, 5))
    return Outcome(LEARNER, PoisonedPipelines(np.array([0, 5]), settings, penalties, 0, "", 0.1, 0, None), 50, "fixed")


def rise(wrong: int, plain: int = 0, splits: int = 1) -> Measured:
    """A poisoned model with so many of 21 points wrong, where wrong labels alone have `plain`."""
    poisoned, mislabelled = (thresholds(*[(0.01, count / 10 + 0.01)] * splits) for count in (wrong, plain))
    return measured(outcome(poisoned, mislabelled), "test", lambda setting: [(X, y)] * splits)


def test_seven_new_errors_and_no_old_one_are_a_rise_and_six_are_not() -> None:
    assert rise(7).p_value == pytest.approx(2.0**-7)
    assert (rise(6).raised, rise(7).raised) == (False, True)


def test_a_rise_that_wrong_labels_alone_have_too_is_none() -> None:
    assert rise(8, plain=1).raised
    assert not rise(8, plain=2).raised


@pytest.mark.parametrize(
    ("value", "high", "open"),
    [(0.12, 0.31, True), (0.12, 0.29, False), (0.09, 0.31, False), (0.31, None, True), (0.2, None, False)],
)
def test_few_test_points_leave_open_a_rise_that_they_may_have_and_many_deny_it(
    value: float, high: float | None, open: bool
) -> None:
    interval = None if high is None else (0.0, high)
    assert leaves_open(Score(value, 0.1, "wrong labels", interval=interval), 0.2) is open


def test_a_point_that_several_splits_ask_about_counts_once() -> None:
    """The same few test points ten times over are no more evidence than once."""
    assert not rise(4, splits=10).raised
    assert rise(7, splits=10).raised
    poisoned, mislabelled = (thresholds(*[(0.01, count / 10 + 0.01)] * 2) for count in (4, 0))
    apart = [(X, y), (X + 1e-6, y)]
    assert measured(outcome(poisoned, mislabelled), "test", lambda setting: apart).raised


@pytest.mark.parametrize(("ours", "others", "known"), [(0, 0, 1.0), (3, 3, 42 / 64), (5, 0, 1 / 32), (0, 5, 1.0)])
def test_errors_are_compared_by_those_that_one_model_has_alone(ours: int, others: int, known: float) -> None:
    both, one, other = np.ones(9, bool), np.arange(9) < ours, np.arange(9) >= 9 - others
    assert paired_p_value(np.append(one, both), np.append(other, both)) == pytest.approx(known)


def test_squared_errors_are_compared_point_by_point() -> None:
    rng = np.random.default_rng(0)
    others: Array = rng.random(30)
    ours = others + 0.1 + 0.3 * rng.standard_normal(30)
    t = np.mean(ours - others) / (np.std(ours - others, ddof=1) / np.sqrt(30))
    assert paired_p_value(ours, others) == pytest.approx(stats.t.sf(t, 29))
    assert paired_p_value(others, others) == 1


def test_intervals_over_splits_are_students_and_do_not_go_below_no_errors() -> None:
    several = measured(
        outcome(thresholds((0.01, 0.11), (0.01, 0.21), (0.01, 0.31)), thresholds(*[(0.01, 0.01)] * 3)),
        "test",
        lambda setting: [(X, y)] * 3,
    )
    score = several.scores()["test error"]
    assert score.value == pytest.approx(2 / 21)
    # Three values a step of 1/21 apart: 4.303 standard errors, from a table of Student's t with two degrees of freedom.
    assert score.interval is not None
    assert score.interval[0] == 0
    assert score.interval[1] == pytest.approx((2 + 4.303 / np.sqrt(3)) / 21, rel=1e-3)


def test_one_split_has_an_interval_by_its_points() -> None:
    score = rise(7).scores()["test error"]
    assert score.interval is not None
    off = stats.norm.ppf(0.975) * np.std(np.arange(21) < 7, ddof=1) / 21**0.5
    assert score.interval == pytest.approx((7 / 21 - off, 7 / 21 + off))
    assert rise(0).scores()["test error"].interval is None
