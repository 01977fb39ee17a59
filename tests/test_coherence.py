"""What a finding says fits together: verdict, summary, scores, power, loot; in the demonstration and in ten experiments."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge import demo, experiments
from divulge.contract import (
    Finding,
    Hyperparameters,
    Membership,
    Poison,
    Provenance,
    Score,
    TrainingData,
    Verdict,
    Weights,
    contradictions,
)

TEN = (
    "hyperparameters-algorithm",
    "hyperparameters-lasso",
    "hyperparameters-rounding-l1",
    "integrity-one-point",
    "membership-answers-digits",
    "membership-span-digits",
    "parameters-gradients-error",
    "parameters-values-logits",
    "training-data-standard-start",
    "univariate-training",
)
LAYERS = ((np.eye(2), np.zeros(2)), (np.ones((1, 2)), np.zeros(1)))
CALLED = Membership(np.arange(4.0), np.arange(4) > 1)
AUC = {"AUC": Score(0.71, 0.5, "scores that know nothing", interval=(0.62, 0.79))}


def leak(loot: Any, summary: str, **scores: Score) -> Finding[Any]:
    return Finding.leak(loot, summary, scores=scores, measured=tuple(scores), provenance=Provenance("attack"))


def said(finding: Finding[Any]) -> str:
    (only,) = contradictions(finding)
    return only


def test_nothing_found_beside_a_score_that_shows_something() -> None:
    finding: Finding[Any] = Finding.none_found("The margin is not known.", power="Little.", scores=AUC, measured=("AUC",))
    assert said(finding) == "nothing was found, and 'AUC' is better than its null, of which the summary says nothing"
    told = replace(finding, summary="The margin is not known. By the truth members score higher, and not beyond doubt.")
    assert contradictions(told) == []
    chance = {"AUC": replace(AUC["AUC"], interval=(0.42, 0.79))}
    assert contradictions(replace(finding, scores=chance)) == []


def test_an_exact_copy_whose_weights_are_all_wrong() -> None:
    wrong = {"largest weight error": Score(1.0, 1.0, "weights of 0", better="lower")}
    points = {"largest error at points": Score(1e-14, 1.0, "the mean", better="lower")}
    finding = leak(Weights(LAYERS, exact=True), "2 units follow.", **points, **wrong)
    assert "the copy is called exact, and 'largest weight error' is 1 where" in said(finding)
    assert contradictions(leak(Weights(LAYERS, exact=True), "2 units follow.", **points)) == []


@pytest.mark.parametrize(("error", "stands"), [(0.9e-4, True), (1.1e-4, False)])
def test_an_exact_copy_is_off_by_less_than_a_ten_thousandth(error: float, stands: bool) -> None:
    points = {"largest error at points": Score(error, 1.0, "the mean", better="lower")}
    assert (contradictions(leak(Weights(LAYERS, exact=True), "2 units follow.", **points)) == []) is stands


def test_a_leak_that_says_what_it_would_have_found() -> None:
    finding = replace(leak(CALLED, "2 of 4 stand out."), power="The same search claims 3, of which none is right.")
    assert said(finding).startswith("the verdict is leak, and power is for what found nothing")


def test_a_leak_no_better_than_its_null_by_the_truth() -> None:
    worse = {"images": Score(3, 3, "the mean image"), "AUC": Score(0.5, 0.5, "a coin", interval=(0.4, 0.6))}
    finding = leak(TrainingData(np.zeros((3, 4))), "3 images come out.", **worse)
    assert "nothing that the truth gave is better than its null: images" in said(finding)


def test_a_claim_that_failed_says_why_and_a_score_lies_within_its_interval() -> None:
    finding = replace(leak(CALLED, "2 of 4 stand out."), verdict=Verdict.FAILED)
    assert "does not say that the truth is against it" in said(finding)
    outside = {"AUC": Score(0.9, 0.5, "scores that know nothing", interval=(0.6, 0.8))}
    assert "outside of its interval" in said(leak(CALLED, "2 of 4 stand out.", **outside))


def amounts(finding: Finding[Any]) -> list[str]:
    """What the summary of an attack's own claim has to name."""
    loot = finding.loot
    if finding.verdict is not Verdict.LEAK or not finding.provenance.claimed:
        return []
    if isinstance(loot, TrainingData | Poison):
        return [f"{len(loot.X):,}"]
    if isinstance(loot, Membership):
        return [f"{int(loot.decisions.sum()):,}"]
    if isinstance(loot, Hyperparameters):
        return [f"{name} = {value:.6g}" for name, value in loot.values.items()]
    return []


def check(finding: Finding[Any]) -> None:
    assert contradictions(finding) == []
    assert [amount for amount in amounts(finding) if amount not in finding.summary] == []


def test_findings_of_the_demonstration_do_not_contradict_themselves(tmp_path: Path) -> None:
    record = demo.run(tmp_path / "run", 11).record
    assert len(record.findings) > 30
    assert sum(map(len, map(amounts, record.findings))) >= 8
    for finding in record.findings:
        check(finding)


@pytest.mark.parametrize("name", TEN)
def test_findings_of_experiments_do_not_contradict_themselves(name: str) -> None:
    outcome = experiments.run(experiments.read(name), seed=11)
    for cell in outcome.cells:
        check(cell.finding)
    assert any(cell.finding.measured for cell in outcome.cells)


@pytest.mark.parametrize(
    ("score", "part"),
    [
        (Score(9, 1, "a guess", most=5), "above 5, which is the most"),
        (Score(4, 1, "a guess", most=5, interval=(3, 8)), "above 5, which is the most"),
    ],
)
def test_a_score_above_all_that_it_can_be(score: Score, part: str) -> None:
    assert part in said(leak(CALLED, "2 of 4 stand out.", images=score))


def test_what_the_truth_shows_has_a_score_and_what_failed_has_no_power() -> None:
    shown = replace(leak(CALLED, "2 of 4 stand out."), provenance=Provenance("attack", claimed=False))
    assert "no score is from the truth" in said(shown)
    failed = replace(leak(CALLED, "The truth contradicts it."), verdict=Verdict.FAILED, power="Little.")
    assert said(failed).startswith("the verdict is failed, and power is for what found nothing")


def test_nothing_found_beside_images_that_nearly_all_came_back() -> None:
    scores = {"rank": Score(9, 9, "a guess"), "images": Score(90, 0, "a guess", most=100)}
    finding: Finding[Any] = Finding.none_found("None.", power="Little.", scores=scores, measured=tuple(scores))
    assert "'images' is better than its null" in said(finding)
    for many, stands in ((49, True), (51, False)):
        other = {**scores, "images": Score(many, 0, "a guess", most=100)}
        assert (contradictions(replace(finding, scores=other)) == []) is stands
