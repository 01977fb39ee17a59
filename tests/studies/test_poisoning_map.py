"""The map of one contributed point: where it hurts, what a penalty does about it, and what cannot be drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from divulge import Candidates, Context, Pipeline, datasets
from divulge.contract import Access, Array, Finding, HeatMap
from divulge.errors import BadInput
from divulge.studies import PoisoningMap
from divulge.studies.plane import Plane
from divulge.studies.poisoning_map import PointMap, WorstPoint, _Shown

pytestmark = pytest.mark.slow

WEAK = "largest validation error, weakest penalty"
STRONG = "largest validation error, λ = 3.0"
RATIO = "largest rise with λ = 3.0, in that with the weakest penalty"
GROWTH = "best λ where the point hurts most, less that elsewhere"
SMALL: dict[str, Any] = {"cells": 12, "penalties": 8}


def clouds(seed: int = 1, **rest: Any) -> tuple[Pipeline, Candidates]:
    """The example of the paper: 16 training and 32 validation points of each class."""
    data = datasets.load("two-gaussians", seed=seed)
    train = np.concatenate([np.flatnonzero(data.y == side)[:16] for side in (-1, 1)])
    rest = {"low": -9.5, "high": 9.5, **rest}
    val = np.setdiff1d(np.arange(96), train)
    pipeline = Pipeline(data.X[train], data.y[train], data.X[val], data.y[val], **rest)
    return pipeline, Candidates(data.X_test, data.y_test)


def draw(held: Pipeline, truth: Candidates | None = None, **options: Any) -> Finding[Access]:
    known = None if truth is None else {"candidates": truth}
    return PoisoningMap(**{**SMALL, **options})(held, truth=known, context=Context(0))


@cache
def drawn(seed: int) -> Finding[Access]:
    return draw(*clouds(seed))


def seen(finding: Finding[Access]) -> WorstPoint:
    assert isinstance(finding.evidence, WorstPoint)
    return finding.evidence


def maps(finding: Finding[Access]) -> list[HeatMap]:
    drawn = [figure for figure in finding.figures if isinstance(figure, HeatMap)]
    assert len(drawn) == len(finding.figures) == 3
    return drawn


def values(finding: Finding[Access]) -> tuple[Array, ...]:
    return tuple(figure.values for figure in maps(finding))


@pytest.mark.parametrize("seed", [1, 5, 14])
def test_one_point_does_harm_that_a_penalty_takes_back(seed: int) -> None:
    finding = drawn(seed)
    assert finding.verdict == "leak"
    assert finding.scores[WEAK].value > 0.15 > 0.1 > finding.scores[STRONG].value
    assert finding.scores[RATIO].value < 0.5
    weak, strong, best = values(finding)
    assert weak.shape == strong.shape == best.shape == (12, 12)
    assert strong.std() < weak.std() / 2


@pytest.mark.parametrize("seed", [1, 5, 14])
def test_the_best_penalty_is_larger_where_the_point_hurts(seed: int) -> None:
    finding = drawn(seed)
    assert finding.scores[GROWTH].value > 3
    weak, _, best = values(finding)
    assert set(best.ravel()) <= set(np.linspace(-8, 6, 8))
    assert np.corrcoef(weak.ravel(), best.ravel())[0, 1] > 0.3


def test_test_points_confirm_the_rise() -> None:
    finding = drawn(1)
    weak, strong = (finding.scores[f"test error with the worst point, {name}"] for name in ("weakest penalty", "λ = 3.0"))
    assert weak.value > 0.1 > weak.null
    assert strong.value < 0.1
    assert "raises the test error" in finding.summary


@pytest.mark.parametrize("learner", ["logistic", "ridge_classifier", "linear_svc"])
def test_the_worst_point_is_in_the_box_and_the_figures_say_where(learner: str) -> None:
    held, _ = clouds(learner=learner)
    finding = draw(held, epochs=100)
    worst = seen(finding)
    assert worst.x.shape == (2,)
    assert (np.abs(worst.x) <= 9.5).all()
    for figure in maps(finding)[::2]:
        assert [len(x) for x, _ in figure.groups.values()] == [16, 16, 1]
        np.testing.assert_array_equal(np.ravel(list(figure.groups.values())[2]), worst.x)
    row, column = np.unravel_index(maps(finding)[0].values.argmax(), (12, 12))
    assert maps(finding)[0].values[row, column] == pytest.approx(100 * finding.scores[WEAK].value)
    assert maps(finding)[0].columns[[0, -1]].tolist() == [-9.5, 9.5]
    assert [list(figure.lines) for figure in maps(finding)] == [
        ["clean boundary", "with worst point"],
        ["clean boundary", "with worst point"],
        ["clean boundary"],
    ]


@pytest.mark.parametrize("seed", range(3))
def test_scikit_learn_trained_with_the_point_has_the_error_that_was_stated(seed: int) -> None:
    held, _ = clouds(seed)
    finding = draw(held, regime="converged", penalties=2)
    exact = {"C": np.exp(8), "tol": 1e-10, "max_iter": 10_000}
    clean = LogisticRegression(**exact).fit(held.X, held.y)
    worst = seen(finding)
    X, y = np.vstack([held.X, worst.x]), np.concatenate([held.y, worst.label])
    poisoned = LogisticRegression(**exact).fit(X, y)
    score = finding.scores[WEAK]
    assert 1 - poisoned.score(held.X_val, held.y_val) == pytest.approx(score.value)
    assert 1 - clean.score(held.X_val, held.y_val) == pytest.approx(score.null)
    np.testing.assert_allclose(worst.weak[0][:, 0], [*clean.coef_, *poisoned.coef_], rtol=0.02)


def test_both_labels_are_tried_and_the_worse_one_is_kept() -> None:
    held, _ = clouds()
    first, second, worse = (draw(held, label=label, penalties=2, epochs=100) for label in ("first", "second", "worse"))
    assert seen(first).label[0] == -1
    assert seen(second).label[0] == 1
    stronger = max((first, second), key=lambda each: each.scores[WEAK].value)
    np.testing.assert_array_equal(seen(worse).x, seen(stronger).x)
    assert worse.scores == stronger.scores


def test_labels_may_be_names_and_the_box_what_the_data_span() -> None:
    held, _ = clouds(low=None, high=None)
    named = replace(held, y=np.where(held.y > 0, "up", "down"), y_val=np.where(held.y_val > 0, "up", "down"))
    finding, plain = (draw(each, penalties=2, epochs=100) for each in (named, held))
    np.testing.assert_array_equal(values(finding), values(plain))
    assert seen(finding).label[0] in ("up", "down")
    assert list(maps(finding)[0].groups)[:2] == ["class down", "class up"]
    everything = np.concatenate([held.X, held.X_val])
    assert [figure.columns[-1] for figure in maps(finding)] == [everything[:, 0].max()] * 3


def test_it_does_not_matter_how_many_positions_are_trained_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    held, _ = clouds()
    whole = draw(held, epochs=100, cells=6)
    monkeypatch.setattr("divulge.studies.poisoning_map.MOST", 4 * 100 * 33 * 7)
    for one, other in zip(values(whole), values(draw(held, epochs=100, cells=6)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_rate_that_diverges_somewhere_is_lowered_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    held, _ = clouds()
    options: dict[str, Any] = {"cells": 6, "rate": 5.0, "strength": 4.0, "epochs": 100, "penalties": 2}
    whole = draw(held, **options)
    assert "At rate 5 training diverges with some penalties" in whole.notes[-1]
    monkeypatch.setattr("divulge.studies.poisoning_map.MOST", 4 * 100 * 33 * 7)
    parts = draw(held, **options)
    np.testing.assert_array_equal(maps(parts)[1].values, maps(whole)[1].values)
    assert parts.notes[-1] == whole.notes[-1]


def test_one_point_among_many_within_their_span_does_no_more_than_chance() -> None:
    held, test = clouds()
    many = replace(held, X=np.tile(held.X, (20, 1)), y=np.tile(held.y, 20), low=None, high=None)
    for truth, where in ((None, "validation"), (test, "test")):
        finding = draw(many, truth, cells=8, penalties=2, epochs=100)
        assert finding.verdict == "none found"
        assert "64 places were tried, and a rise that chance explains with less than 1 %" in finding.power
        assert finding.summary.startswith("No single point raises the error more than chance does: one point at (")
        assert f"the {where} error from" in finding.summary


def test_the_tenth_of_the_places_where_a_point_hurts_most_is_compared_with_the_rest() -> None:
    held, _ = clouds()
    error = np.random.default_rng(0).permutation(100) / 100
    weak = PointMap(0, error, np.zeros(100), np.zeros((101, 1, 2)), np.zeros((101, 1)), 0.0, 0.2)
    study = PoisoningMap(**SMALL)
    shown = _Shown(study._learner(held), Plane.over(*held.box, 10), weak, weak, np.where(error >= 0.9, 3.0, 1.0), 0.2)
    assert study._scores(shown)[GROWTH].value == pytest.approx(2)


def test_four_places_are_a_map() -> None:
    finding = draw(clouds()[0], cells=2, penalties=2, epochs=20)
    assert maps(finding)[0].values.shape == (2, 2)
    assert np.isfinite(finding.scores[GROWTH].value)


def test_test_points_may_show_what_validation_points_are_too_few_for() -> None:
    held, test = clouds()
    few = replace(held, X_val=held.X_val[[0, 1, -2, -1]], y_val=held.y_val[[0, 1, -2, -1]])
    blind, scored = (draw(few, truth, penalties=2, epochs=100) for truth in (None, test))
    assert (blind.verdict, scored.verdict) == ("none found", "leak")
    assert scored.power == ""
    assert scored.summary.startswith("Test points show what validation points could not: one point")
    assert not scored.provenance.claimed


def test_a_rise_that_test_points_do_not_show_is_no_leak() -> None:
    held, _ = clouds()
    blind = draw(held, penalties=2)
    assert blind.verdict == "leak"
    easy = Candidates(np.array([[-8.0, 0.0], [8.0, 0.0]] * 20), np.array([-1.0, 1.0] * 20))
    scored = draw(held, easy, penalties=2)
    assert scored.verdict == "failed"
    assert scored.summary.startswith("On test points the rise is no more than chance explains: one point")
    np.testing.assert_array_equal(seen(scored).x, seen(blind).x)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"X": np.zeros((32, 3)), "X_val": np.zeros((64, 3)), "low": None, "high": None}, "these points have 3"),
        ({"y": np.ones(32)}, "one class only"),
        ({"learner": "ridge"}, "a ridge predicts numbers; use the attack `poisoning`"),
        ({"y": np.arange(32) % 3, "y_val": np.arange(64) % 3}, "there are 3"),
        ({"learner": "two-layer"}, "a two-layer network has others"),
        ({"learner": "huber"}, "not differentiated here"),
        ({"low": np.array([-9.5, 0.0]), "high": np.array([9.5, 0.0])}, "Feature 2 may have one value only"),
    ],
)
def test_what_cannot_be_drawn_is_said(changed: dict[str, Any], sentence: str) -> None:
    held, _ = clouds()
    if "low" in changed and "X" not in changed:
        changed = {**changed, "X": held.X * [1, 0], "X_val": held.X_val * [1, 0]}
    finding = draw(replace(held, **changed))
    assert finding.verdict == "not applicable"
    assert sentence in finding.summary


@pytest.mark.parametrize(
    ("options", "truth", "sentence"),
    [
        ({"strength": -8.0}, None, "above the weakest penalty -8, got -8; raise it"),
        ({"bounds": (3.0, -3.0)}, None, "expected the lower bound first"),
        ({"cells": 1}, None, "greater than or equal to 2"),
        ({}, Candidates(np.zeros((2, 3)), np.ones(2)), "test points with 2 features, got 3"),
        ({}, Candidates(np.zeros((2, 2)), np.array([5, 1])), "of the classes of the training points"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], truth: Candidates | None, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        draw(clouds()[0], truth, **{"epochs": 2, **options})
