"""JUnit's XML, in the dialect of Jenkins: one test case a finding, a leak is a failure."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from divulge.contract import Finding, Record, Verdict
from divulge.report import overview, severity, wording
from divulge.report.overview import Leak
from divulge.report.paths import Paths

ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"Characters that XML 1.0 has no way to write."


def render(record: Record) -> str:
    """A record as one test suite."""
    tally = Counter(finding.verdict for finding in record.findings)
    seconds = sum(_seconds(finding) for finding in record.findings)
    totals = {
        "name": record.title or "audit",
        "tests": str(len(record.findings)),
        "failures": str(tally[Verdict.LEAK]),
        "errors": str(tally[Verdict.FAILED]),
        "time": f"{seconds:.3f}",
    }
    suites = Element("testsuites", _legal(totals))
    suite = SubElement(suites, "testsuite", _legal({**totals, "skipped": str(tally[Verdict.NOT_APPLICABLE])}))
    properties = SubElement(suite, "properties")
    for name, value in _properties(record).items():
        SubElement(properties, "property", _legal({"name": name, "value": value}))
    leaks = {leak.edge.number: leak for leak in overview.leaks(record)}
    for edge in Paths(record).edges:
        _case(suite, edge.finding, leaks.get(edge.number))
    unstarted = [f"not started: {name} {reason}" for name, reason in record.unmet.items()]
    unstarted += [f"plug-in skipped: {name}: {reason}" for name, reason in record.broken.items()]
    if unstarted:
        _text(suite, "system-out", "\n".join(unstarted))
    if not record.complete:
        _text(suite, "system-err", "The audit is not complete: allow more time or queries, then run it again to go on.")
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _case(suite: Element, finding: Finding[Any], leak: Leak | None) -> None:
    title = wording.attack(finding)
    on = wording.listing(list(finding.provenance.inputs))
    case = {
        "classname": f"divulge.{severity.asset_of(finding) or 'other'}",
        "name": f"{title} on {on}" if on else title,
        "time": f"{_seconds(finding):.3f}",
    }
    test = SubElement(suite, "testcase", _legal(case))
    told = [f"{wording.beside_null(name, score)}" for name, score in finding.scores.items()]
    if leak:
        kind = str(leak.rating.severity)
        why = f"Severity {kind}: {leak.rating.worth}; {leak.rating.sure}; {leak.rating.price}."
        remedy = [f"Remedy: {remedy}" for remedy in finding.remedy[:1]]
        _text(test, "failure", "\n".join([why, *told, *remedy]), type=kind, message=finding.summary)
    elif finding.verdict is Verdict.FAILED:
        _text(test, "error", "\n".join([*told, *finding.notes]), type="failed", message=finding.summary)
    elif finding.verdict is Verdict.NOT_APPLICABLE:
        _text(test, "skipped", "", message=finding.summary)
    else:
        _text(test, "system-out", "\n".join([finding.summary, finding.power, *told]))


def _properties(record: Record) -> dict[str, str]:
    counted = {f"leaks.{name}" if name != "leaks" else name: str(n) for name, n in overview.counts(record).items() if name}
    versions = {f"version.{name}": version for name, version in record.versions.items()}
    return {"complete": str(record.complete).lower(), "seed": str(record.seed), **counted, **versions}


def _seconds(finding: Finding[Any]) -> float:
    return finding.cost.seconds if math.isfinite(finding.cost.seconds) else 0.0


def _text(parent: Element, tag: str, text: str, **attributes: str) -> None:
    child = SubElement(parent, tag, _legal(attributes))
    child.text = ILLEGAL.sub("\ufffd", text) or None


def _legal(attributes: dict[str, str]) -> dict[str, str]:
    return {name: ILLEGAL.sub("\ufffd", value) for name, value in attributes.items()}
