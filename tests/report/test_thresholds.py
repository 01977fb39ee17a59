"""Conditions: what they count, which sentences they make, and that a mistake in one is named."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, strategies

from divulge.contract import ASSETS, Cost, Record, Score
from divulge.errors import BadInput
from divulge.report import overview, thresholds
from divulge.report.severity import Severity

from .example import full_record
from .test_page import hostile_record


def two_critical_and_a_low_one() -> Record:
    record = full_record()
    images, penalty = record.findings[1], record.findings[2]
    sure = {"error": Score(0.0, 1.0, "a guess", better="lower")}
    images = replace(images, scores=sure, measured=("error",), cost=Cost())
    return replace(record, findings=(images, images, penalty))


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ("training_data>=1", "fails on training_data>=1: 2 leaks of training data"),
        ("training_data > 1", "fails on training_data>1: 2 leaks of training data"),
        ("training_data==2", "fails on training_data==2: 2 leaks of training data"),
        ("hyperparameters>=1", "fails on hyperparameters>=1: 1 leak of hyperparameters"),
        ("leaks>=3", "fails on leaks>=3: 3 leaks of any kind"),
        ("critical>=1", "fails on critical>=1: 2 leaks of severity critical"),
        ("membership==0", "fails on membership==0: 0 leaks of membership"),
        ("training_data>2", None),
        ("training_data==1", None),
        ("leaks>=4", None),
        ("membership>=1", None),
        ("failed>=1", None),
    ],
)
def test_a_condition_that_holds_is_one_sentence(condition: str, sentence: str | None) -> None:
    assert thresholds.exceeded(two_critical_and_a_low_one(), [condition]) == ([sentence] if sentence else [])


def test_a_severity_counts_what_is_worse() -> None:
    tally = thresholds.count(two_critical_and_a_low_one())
    assert [tally[str(level)] for level in reversed(Severity)] == [2, 2, 2, 3]
    assert thresholds.exceeded(two_critical_and_a_low_one(), ["high>=1"]) == [
        "fails on high>=1: 2 leaks of severity high or worse"
    ]


def test_verdicts_and_an_audit_cut_short_can_be_named() -> None:
    record = replace(full_record(), complete=False)
    assert thresholds.exceeded(record, ["failed>=1", "incomplete>=1,none_found>=1", "not_applicable>=1"]) == [
        "fails on failed>=1: 1 attack that failed",
        "fails on incomplete>=1: 1 audit cut short",
        "fails on none_found>=1: 1 attack that found none",
        "fails on not_applicable>=1: 1 attack found not applicable",
    ]


def test_every_key_of_the_overview_can_be_named() -> None:
    assert set(overview.counts(full_record())) <= set(thresholds.KEYS)
    assert set(thresholds.KEYS) == set(thresholds.count(full_record()))
    assert set(ASSETS) < set(thresholds.KEYS)


def test_several_conditions_are_tested_each_and_one_that_is_repeated_once() -> None:
    held = thresholds.exceeded(two_critical_and_a_low_one(), ["leaks>=1, membership>=1", "leaks>=1,critical>=1"])
    assert [sentence.split(":")[0] for sentence in held] == ["fails on leaks>=1", "fails on critical>=1"]
    assert thresholds.exceeded(full_record(), []) == []
    assert thresholds.exceeded(hostile_record(), ["leaks>=1"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("training_dat>=1", "unknown key 'training_dat'; did you mean 'training_data'"),
        ("parameter>=1", "unknown key 'parameter'; did you mean '(hyper)?parameters'"),
        ("sev9>=1", "use one of: critical, failed"),
        ("training_data", "got 'training_data'; write a key, .* in quotation marks: a shell takes > for itself"),
        ("leaks=1", "expected a condition"),
        ("leaks<=1", "expected a condition"),
        ("leaks>=-1", "expected a condition"),
        ("leaks>=1.5", "expected a condition"),
        ("leaks>=1,", "got ''"),
        ("", "got ''"),
    ],
)
def test_a_mistake_in_a_condition_is_named(text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        thresholds.read([text])


@given(strategies.text())
def test_any_text_is_a_condition_or_a_mistake_that_is_named(text: str) -> None:
    with suppress(BadInput):
        thresholds.read([text])
