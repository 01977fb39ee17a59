"""Defences against contributed points, each met by an attack that knows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from divulge import Candidates, Context, Pipeline, datasets
from divulge.attacks.poisoning.learners import learner_of
from divulge.attacks.poisoning.records import FailedTraining, PipelineSplit
from divulge.contract import Access, Array, Curve, Finding
from divulge.contract.truth import Truth
from divulge.defences import partition, sanitising
from divulge.defences.run_off import RunOff
from divulge.studies import PoisoningDefences
from divulge.studies.poisoning_defences.defending import (
    Checks,
    ContributedPoints,
    Defence,
    Scenario,
    _voters,
    campaign,
    defended,
)
from divulge.studies.poisoning_defences.study import ELECTIONS, NAMES, SIFTING, DefendedPipelines, _Tested

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"points": 12, "batch": 12, "iterations": 15, "starts": 1, "parts": 15}


@pytest.fixture(scope="module")
def digits() -> datasets.Dataset:
    return datasets.load("mnist-0-8", samples=200, seed=3)


@pytest.fixture(scope="module")
def held(digits: datasets.Dataset) -> Pipeline:
    return Pipeline(digits.X[:120], digits.y[:120], digits.X[120:], digits.y[120:], shape=(28, 28))


@pytest.fixture(scope="module")
def found(held: Pipeline, digits: datasets.Dataset) -> Finding[Access]:
    return PoisoningDefences(**QUICK)(held, truth=truth(digits), context=Context(0))


def truth(digits: datasets.Dataset) -> dict[str, Candidates]:
    return {"candidates": Candidates(digits.X_test, digits.y_test)}


def seen(finding: Finding[Access]) -> DefendedPipelines:
    assert isinstance(finding.evidence, DefendedPipelines)
    return finding.evidence


def error(finding: Finding[Access], defence: Defence, known: bool = False) -> float:
    return finding.scores[f"test error, {NAMES[defence]}{', known to the attacker' if known else ''}"].value


def test_every_defence_has_its_error_with_and_without_points(found: Finding[Access]) -> None:
    assert found.verdict == "leak"
    assert not any(NAMES["run-off"] in name for name in found.scores)  # between two classes it is the vote
    for name in NAMES:
        if name not in ("none", "run-off"):
            score = found.scores[f"test error, {NAMES[name]}"]
            assert 0 <= score.null < 0.1
            assert score.null_of == "no points"
    assert found.scores["test error"].value > 0.08
    assert "of the defences tried" in found.summary


def test_re_tuning_and_checked_labels_stop_points_made_against_the_plain_pipeline(found: Finding[Access]) -> None:
    plain = found.scores["test error"].value
    assert error(found, "re-tuned") < plain / 2
    assert error(found, "neighbours") < plain / 2
    assert found.scores[f"contributed points left out, {NAMES['neighbours']}"].value > 0.7
    assert found.scores[f"contributed points left out, {NAMES['neighbours']}"].null < 0.1


def test_who_knows_a_filter_gets_points_past_it(found: Finding[Access]) -> None:
    for name in SIFTING:
        evaded, lost = (each[name].lost[-1, 1] for each in (seen(found).knowing, seen(found).plain))
        assert evaded <= 0.5
        assert evaded < lost
    assert error(found, "distance", known=True) > error(found, "distance")


def test_the_error_behind_a_filter_is_that_of_a_model_trained_on_what_it_keeps(
    found: Finding[Access], held: Pipeline, digits: datasets.Dataset
) -> None:
    poison = seen(found).poison
    X, y = np.vstack([held.X, poison.X]), np.append(held.y, poison.y)
    kept = sanitising.by_neighbours(X, y)
    strength = float(seen(found).plain["neighbours"].models.strengths[-1, 0])
    model = LogisticRegression(C=np.exp(-strength), tol=1e-10, max_iter=10_000).fit(X[kept], y[kept])
    assert 1 - model.score(digits.X_test, digits.y_test) == pytest.approx(error(found, "neighbours"), abs=0.006)


def test_no_points_found_exceed_the_certified_error(
    found: Finding[Access], held: Pipeline, digits: datasets.Dataset
) -> None:
    bound = found.scores[f"test error certified, {NAMES['vote']}"].value
    assert error(found, "vote") <= bound <= 1
    strength = float(seen(found).plain["vote"].models.strengths[0, 0])

    def train(X: Array, y: Array) -> partition.Predict:
        model = LogisticRegression(C=np.exp(-strength), tol=1e-8, max_iter=10_000).fit(X, y)
        return lambda points: np.asarray(model.predict(points))

    votes = partition.vote(train, np.asarray(held.X, float), held.y, digits.X_test, 15, np.array([-1, 1]))
    sides = (digits.y_test > 0).astype(int)
    assert partition.certified_error(votes, sides, 12) == pytest.approx(bound, abs=0.02)
    assert 1 - np.mean(votes.winner == sides) == pytest.approx(found.scores[f"test error, {NAMES['vote']}"].null, abs=0.006)


def test_of_more_than_two_classes_a_run_off_is_held_besides() -> None:
    digits = datasets.load("digits", samples=220, seed=2, only=[1, 8, 9])
    held = Pipeline(digits.X[:160], digits.y[:160], digits.X[160:], digits.y[160:])
    options = QUICK | {"points": 2, "batch": 2, "iterations": 2, "neighbours": 5, "bounds": (-2.0, 2.0)}
    test = Candidates(digits.X_test[:200], digits.y_test[:200])
    finding = PoisoningDefences(**options)(held, truth={"candidates": test}, context=Context(0))
    votes, run_off = (finding.scores[f"test error certified, {NAMES[name]}"] for name in ELECTIONS)
    assert error(finding, "vote") <= votes.value < 1
    assert error(finding, "run-off") <= run_off.value < 1
    assert "run-off, certified bound" in _curve(finding.figures[1]).series
    assert "and the run-off" in finding.summary
    learner = learner_of(held, "converged", 1, 0.1, 1, 0)
    models = seen(finding).plain["vote"].models
    tested = _Tested(learner, seen(finding), "test", test.X, np.asarray(test.y))
    elected = tested._votes("run-off", 0)
    assert isinstance(elected, RunOff)
    said = learner.named(models.W[0], models.b[0], test.X)
    np.testing.assert_array_equal(elected.counts.T, [(said == label).sum(axis=0) for label in (1, 8, 9)])


def _curve(figure: object) -> Curve:
    assert isinstance(figure, Curve)
    return figure


def test_a_part_that_knows_one_class_votes_for_it_and_one_without_points_for_the_first(held: Pipeline) -> None:
    learner, split = learner_of(held, "converged", 1, 0.1, 1, 0), PipelineSplit.of(held)
    few = replace(split, X=split.X[:3], y=np.array([1.0, 1.0, 1.0]))
    voters = _voters(learner, few, np.zeros(1), parts=6)
    own = partition.assign(few.X, few.y, 6)
    said = learner.named(voters.W, voters.b, split.X_val[:2])
    np.testing.assert_array_equal(said, np.where(np.isin(np.arange(6), own), 1, -1)[:, None].repeat(2, axis=1))


def test_a_training_that_diverges_is_a_value_that_says_why(held: Pipeline) -> None:
    hasty = replace(learner_of(held, "early-stopped", 9, 1e30, 1, 0), risk="squared")
    terms = PoisoningDefences(**QUICK)._plain().terms(held)
    given = Scenario(hasty, PipelineSplit.of(held), terms, Checks(10, 0.5, 0.95), [3], np.zeros(1), 5)
    points = ContributedPoints(())
    for step in (
        campaign("none", np.random.default_rng(0), given=given),
        campaign("re-tuned", np.random.default_rng(0), given=given),
        defended(("none", points), np.random.default_rng(0), given=given),
    ):
        assert isinstance(step, FailedTraining)
        assert "training diverges" in step.reason


def test_figures_show_both_attackers(found: Finding[Access]) -> None:
    plain, knowing = found.figures
    assert isinstance(plain, Curve)
    assert isinstance(knowing, Curve)
    assert set(plain.series) == {words for name, words in NAMES.items() if name != "run-off"}
    assert "vote, certified bound" in knowing.series
    assert NAMES["neighbours"] in knowing.series


def test_without_test_points_errors_are_said_to_be_optimised_against(held: Pipeline) -> None:
    blind = PoisoningDefences(**QUICK | {"iterations": 4, "points": 6, "batch": 6})(held)
    assert "validation error" in blind.scores
    assert any("optimised against all of them" in note for note in blind.notes)


@pytest.mark.parametrize(("bound", "said"), [(0.49, "certifies at most 49.0 %."), (0.5, "no bound that is of use.")])
def test_a_bound_is_of_use_where_a_guess_does_worse(
    found: Finding[Access], held: Pipeline, bound: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Tested, "certified", lambda tested, election: np.array([0.02, bound]))
    tested = _Tested(learner_of(held, "converged", 1, 0.1, 1, 0), seen(found), "validation", held.X_val, held.y_val)
    assert tested.sentence().endswith(said)


def test_scoring_reads_nothing_that_is_written_for_people(
    found: Finding[Access], held: Pipeline, digits: datasets.Dataset
) -> None:
    study = PoisoningDefences(**QUICK)
    mute = replace(study(held, context=Context(0)), summary="Hidden.", notes=(), figures=(), scores={})
    scored = study.score(mute, held, Truth(truth(digits)))
    assert (scored.verdict, scored.summary) == (found.verdict, found.summary)
    assert scored.notes == found.notes
    assert scored.scores == found.scores


def test_a_regression_is_referred_to_the_plain_attack() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    finding = PoisoningDefences(**QUICK)(Pipeline(X[:40], X[:40, 0], X[40:], X[40:, 0], learner="ridge"))
    assert finding.verdict == "not applicable"
    assert "attack with `poisoning`" in finding.summary
