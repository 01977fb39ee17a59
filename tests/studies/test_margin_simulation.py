"""The simulation of the margin test: what it finds in high dimensions, in low ones, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from divulge import Context, TrainingData, datasets
from divulge.contract import Access, Array, Finding
from divulge.studies import MarginSimulation
from divulge.studies.margin_simulation import SimulatedMargin, _Simulated

SMALL: dict[str, Any] = {"trials": 6, "points": 10, "hidden": 200, "fresh": 300}


def simulate(name: str, dimension: int, seed: int = 0, **options: Any) -> Finding[Access]:
    wanted = {**SMALL, **options}
    rows = wanted["trials"] * wanted["points"] + wanted["fresh"]
    data = datasets.load(name, dimension=dimension, samples=rows, seed=seed, test=1)
    return MarginSimulation(**wanted)(TrainingData(data.X, data.y), context=Context(seed))


@pytest.mark.parametrize("name", ["sphere", "normal", "gaussian-mixture"])
def test_in_many_dimensions_members_are_on_the_margin_and_others_below(name: str) -> None:
    finding = simulate(name, 300)
    assert finding.verdict == "leak"
    assert finding.scores["training points on the margin"].value > 0.98
    assert finding.scores["fresh points at or above the margin"].value < 0.01
    assert finding.scores["advantage from one known member"].value > 0.95
    assert "No given model was attacked" in finding.summary


def test_in_few_dimensions_others_are_above_the_margin_too() -> None:
    few, many = (simulate("sphere", dimension) for dimension in (5, 300))
    name = "fresh points at or above the margin"
    assert few.scores[name].value > 0.2 > many.scores[name].value
    one = few.scores[f"{name}, one side"]
    assert 0 < one.value < few.scores[name].value
    assert few.scores["advantage where the margin is known"].value == pytest.approx(1 - few.scores[name].value)


def test_in_very_many_dimensions_the_proof_covers_every_fresh_point() -> None:
    finding = simulate("sphere", 3000, points=5, trials=3)
    assert finding.scores["fresh points proven below the margin"].value == 1
    assert any("fresh ones reach at most 0." in note for note in finding.notes)
    assert simulate("sphere", 20).scores["fresh points proven below the margin"].value == 0


def sizes(finding: Finding[Access]) -> Array:
    assert isinstance(finding.evidence, SimulatedMargin)
    return finding.evidence.sizes


def test_the_evidence_has_training_points_first_in_every_trial() -> None:
    seen = sizes(simulate("sphere", 300))
    assert seen.shape == (6, 310)
    np.testing.assert_allclose(seen[:, :10].min(axis=1), 1)
    assert np.median(seen[:, 10:]) < 0.5


def simulated(margins: np.ndarray, fresh: np.ndarray) -> _Simulated:
    blank = np.zeros(len(margins))
    return _Simulated(margins, fresh, np.full(fresh.shape, np.inf), blank, blank, blank > 0, blank, blank)


def test_a_network_that_treats_members_like_others_scores_the_nulls() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.standard_exponential((4000, 60))
    alike = simulated(sizes[:, :10], sizes[:, 10:] * rng.choice((-1, 1), (4000, 50)))
    scores = MarginSimulation(points=10)._scores(alike)
    for name in (
        "fresh points at or above the margin",
        "fresh points at or above the margin, one side",
        "advantage where the margin is known",
    ):
        assert scores[name].value == pytest.approx(scores[name].null, abs=0.01)
    assert alike.advantage(1e-9).mean() == pytest.approx(0, abs=0.01)
    finding = MarginSimulation(points=10, slack=1e-9)._finding(alike.only(np.arange(50)), rng)
    assert finding.verdict == "none found"
    assert "advantage above" in finding.power


def test_the_advantage_from_one_member_is_that_of_every_pair() -> None:
    margins, fresh = np.array([[1.0, 1.005, 2.0]]), np.array([[0.5, -1.5, 0.995, 3.0]])
    right = np.mean([1, 1, 1, 1, 0, 0])  # known 1: both others; known 1.005: both, by the slack; known 2: none
    wrong = np.mean([3, 3, 1]) / 4
    assert simulated(margins, fresh).advantage(0.01)[0] == pytest.approx(right - wrong)


def test_one_network_alone_claims_nothing() -> None:
    margins = np.array([[1.0, 1.0, 1.0], [-1.0, 1.0, 1.0]])
    finding = MarginSimulation(points=3)._finding(simulated(margins, np.zeros((2, 5))), np.random.default_rng(0))
    assert finding.verdict == "none found"
    assert "Of 2 networks 1 got all their points right" in finding.notes[0]


def test_labels_of_other_kinds_become_coin_flips() -> None:
    data = datasets.load("normal", dimension=100, samples=360, test=1)
    names = np.where(data.y > 0, "yes", "no")
    two, named = (MarginSimulation(**SMALL)(TrainingData(data.X, y), context=Context(1)) for y in (data.y, names))
    np.testing.assert_array_equal(sizes(two), sizes(named))
    none, many, tossed = (
        MarginSimulation(**SMALL, random_labels=toss)(TrainingData(data.X, y), context=Context(1))
        for y, toss in ((None, False), (np.arange(360), False), (data.y, True))
    )
    np.testing.assert_array_equal(sizes(none), sizes(many))
    np.testing.assert_array_equal(sizes(none), sizes(tossed))
    assert not np.array_equal(sizes(none), sizes(two))


@pytest.mark.parametrize(
    ("dimension", "options", "verdict", "sentence"),
    [
        (
            10,
            {"fresh": 300, "rows": 359},
            "not applicable",
            "need 360 rows, and there are 359; lower trials, points or fresh",
        ),
        (1, {}, "not applicable", "two equal rows with different labels"),
        (2, {"steps": 3}, "failed", "none of the 6 networks got all its points right in 3 steps"),
        (50_000, {"hidden": 10_000, "fresh": 1, "points": 2, "trials": 2}, "not applicable", "lower hidden"),
    ],
)
def test_what_cannot_be_simulated_is_said(dimension: int, options: dict[str, int], verdict: str, sentence: str) -> None:
    wanted = {**SMALL, **options}
    rows = wanted.pop("rows", wanted["trials"] * wanted["points"] + wanted["fresh"])
    data = datasets.load("sphere", dimension=dimension, samples=rows, test=1)
    finding = MarginSimulation(**wanted)(TrainingData(data.X, data.y))
    assert finding.verdict == verdict
    assert sentence in finding.summary[0].lower() + finding.summary[1:]
