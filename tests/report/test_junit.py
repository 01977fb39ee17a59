"""JUnit's XML: valid against the schema of Jenkins, a test a finding, and legal whatever a finding says."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies
from lxml import etree

from divulge.contract import Cost, Finding, Record, Verdict
from divulge.report import junit

from .example import full_record, origin
from .test_sarif import RECORDS, SCHEMAS


@cache
def schema() -> Any:
    return etree.XMLSchema(etree.parse(SCHEMAS / "junit-10.xsd"))


def suites(record: Record) -> Any:
    """The root of a record's document, which is valid."""
    root = etree.fromstring(junit.render(record).encode())
    schema().assertValid(root)
    return root


@pytest.mark.parametrize("name", RECORDS)
def test_every_document_is_valid_against_the_schema_of_jenkins(name: str) -> None:
    suites(RECORDS[name]())


def test_the_schema_refuses_what_is_no_junit() -> None:
    root = suites(full_record())
    etree.SubElement(root[0], "finding")
    assert not schema().validate(root)


def test_every_finding_is_a_test_and_its_verdict_is_how_the_test_ended() -> None:
    record = full_record()
    cases = suites(record).findall(".//testcase")
    endings = {"leak": "failure", "none found": "system-out", "not applicable": "skipped", "failed": "error"}
    assert [[child.tag for child in case] for case in cases] == [[endings[f.verdict]] for f in record.findings]
    for case, finding in zip(cases, record.findings, strict=True):
        (child,) = case
        assert finding.summary in (child.get("message") or child.text)
        assert float(case.get("time")) == pytest.approx(finding.cost.seconds, abs=1e-3)


def test_the_totals_are_those_of_the_findings() -> None:
    record = full_record()
    root = suites(record)
    for element in (root, root[0]):
        assert element.get("tests") == str(len(record.findings))
        assert element.get("failures") == str(sum(f.verdict is Verdict.LEAK for f in record.findings))
        assert element.get("errors") == str(sum(f.verdict is Verdict.FAILED for f in record.findings))
    assert root[0].get("skipped") == str(sum(f.verdict is Verdict.NOT_APPLICABLE for f in record.findings))


def test_a_leak_says_how_bad_it_is_its_scores_and_the_first_remedy() -> None:
    case = suites(full_record()).find(".//testcase")
    assert case.get("classname") == "divulge.parameters"
    assert case.get("name") == "Gradient extraction on api"
    (failure,) = case
    assert failure.get("type") == "medium"
    assert "weight error 1.2e-10 (null 0.83: weights drawn at random)" in failure.text
    assert failure.text.endswith("Remedy: Answer with explanations rounded to two digits.")


def test_none_found_passes_with_its_power() -> None:
    record = full_record()
    finding = next(f for f in record.findings if f.verdict is Verdict.NONE_FOUND)
    passed = suites(record).find(".//testcase[system-out]")
    assert finding.power in passed.find("system-out").text


def test_a_suite_says_what_did_not_start_and_that_it_was_cut_short() -> None:
    record = full_record()
    (suite,) = suites(replace(record, complete=False))
    for name in (*record.unmet, *record.broken):
        assert name in suite.find("system-out").text
    assert "not complete" in suite.find("system-err").text
    assert suites(replace(record, complete=True)).find(".//system-err") is None


@given(strategies.text(strategies.characters(exclude_categories=()), min_size=1))
def test_any_text_is_legal_xml(text: str) -> None:
    of = origin(text, text, [text])
    finding: Finding[Any] = Finding.none_found(text, power=text, cost=Cost(seconds=float("nan")), provenance=of)
    skipped: Finding[Any] = Finding.not_applicable(text)
    root = suites(Record(text, (), (finding, skipped), unmet={text: text}, versions={text: text}))
    assert len(root.findall(".//testcase")) == 2


def test_control_characters_are_replaced_and_markup_stays_text(tmp_path: Path) -> None:
    root = suites(Record("", (), (Finding.not_applicable("a\x00b\x1b[31m</skipped><x/>\ud800"),)))
    assert root.find(".//skipped").get("message") == "a\ufffdb\ufffd[31m</skipped><x/>\ufffd"
