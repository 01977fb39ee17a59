"""SARIF 2.1.0: what leaked as other tools read it, GitHub's code scanning first among them."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from divulge.contract import Finding, Record, TaxonomyId, Verdict
from divulge.contract.taxonomies import ALL
from divulge.report import overview, severity, wording
from divulge.report.overview import Leak
from divulge.report.paths import Edge, Paths
from divulge.report.places import address, place
from divulge.report.severity import Severity

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.LOW: "note", Severity.MEDIUM: "warning", Severity.HIGH: "error", Severity.CRITICAL: "error"}
SCORES = {Severity.LOW: "2.0", Severity.MEDIUM: "5.5", Severity.HIGH: "8.0", Severity.CRITICAL: "9.5"}
"GitHub calls a score above 9 critical, from 7 high, from 4 medium and below that low; these lie inside."
KINDS = {
    Verdict.LEAK: "fail",
    Verdict.NONE_FOUND: "pass",
    Verdict.NOT_APPLICABLE: "notApplicable",
    Verdict.FAILED: "open",
}
"`open` is SARIF's word for what could not be determined."
ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def render(record: Record, *, run: str = "", every: bool = False) -> str:
    """A record as SARIF; `run` names it among others of the same repository, its title where nothing is given.

    Results are leaks. What is none stands among the notifications, because GitHub opens an alert for every result
    whatever its kind; with `every`, it is a result too, for tools that know SARIF's kinds.
    """
    return json.dumps(_Log(record, run, every).tree(), indent=1, allow_nan=False) + "\n"


class _Log:
    """The parts of one log, which point at each other by their places in lists."""

    def __init__(self, record: Record, run: str, every: bool) -> None:
        self.record, self.every = record, every
        self.run = run or record.title or "audit"
        self.paths = Paths(record)
        self.leaks = {leak.edge.number: leak for leak in overview.leaks(record)}
        self.sources = {holding.name: holding.source for holding in record.holdings}
        self.names = list(dict.fromkeys(_rule_id(edge.finding) for edge in self.paths.edges))
        self.taxa: dict[tuple[str, str], dict[str, TaxonomyId]] = {}
        for edge in self.paths.edges:
            for entry in edge.finding.taxonomy:
                self.taxa.setdefault((entry.taxonomy, entry.version), {}).setdefault(entry.id, entry)

    def tree(self) -> dict[str, Any]:
        edges = [edge for edge in self.paths.edges if edge.leak or self.every]
        driver: dict[str, Any] = {"name": "divulge", "rules": [self._rule(name) for name in self.names]}
        if "divulge" in self.record.versions:
            driver["version"] = self.record.versions["divulge"]
        if self.taxa:
            driver["supportedTaxonomies"] = [{"name": name, "index": at} for at, (name, _) in enumerate(self.taxa)]
        run = {
            "tool": {"driver": driver},
            "automationDetails": {"id": f"divulge/{self.run.replace('/', '-')}/"},
            "invocations": [self._invocation()],
            "results": [self._result(edge) for edge in edges],
            "columnKind": "unicodeCodePoints",
            "properties": {"title": self.record.title, "seed": self.record.seed, "severityRule": severity.RULE},
        }
        if self.taxa:
            run["taxonomies"] = [_taxonomy(name, version, entries) for (name, version), entries in self.taxa.items()]
        return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}

    def _rule(self, name: str) -> dict[str, Any]:
        """What one attack is: its paper, its remedies, and the worst that it found here: GitHub sorts by that."""
        edges = [edge for edge in self.paths.edges if _rule_id(edge.finding) == name]
        finding = next((edge.finding for edge in edges if edge.leak), edges[0].finding)
        ratings = [self.leaks[edge.number].rating.severity for edge in edges if edge.leak]
        remedies = [_remedy(remedy.action, remedy.measured) for remedy in finding.remedy] or ["No remedy is known."]
        assets = sorted({severity.asset_of(edge.finding) for edge in edges} - {""})
        rule: dict[str, Any] = {
            "id": name,
            "name": wording.attack(finding),
            "shortDescription": {"text": wording.attack(finding)},
            "fullDescription": {"text": _plain(finding.provenance.paper or wording.attack(finding))},
            "help": {
                "text": _plain("What the owner can do: " + " ".join(remedies)),
                "markdown": "**What the owner can do**\n\n" + "\n".join(f"- {_plain(remedy)}" for remedy in remedies),
            },
            "properties": {"tags": ["security", "machine-learning", finding.provenance.role, *assets]},
        }
        if paper := ARXIV.search(finding.provenance.paper):
            rule["helpUri"] = f"https://arxiv.org/abs/{paper[1]}"
        if ratings:
            rule["defaultConfiguration"] = {"level": LEVELS[max(ratings)]}
            rule["properties"]["security-severity"] = SCORES[max(ratings)]
        entries = {(entry.taxonomy, entry.version, entry.id): entry for edge in edges for entry in edge.finding.taxonomy}
        if entries:
            rule["relationships"] = [{"target": self._taxon(entry), "kinds": ["relevant"]} for entry in entries.values()]
        return rule

    def _result(self, edge: Edge) -> dict[str, Any]:
        finding, leak = edge.finding, self.leaks.get(edge.number)
        roots = self._roots(edge)
        located = [self._location(name, edge) for name in roots]
        mark = _mark(edge)
        result: dict[str, Any] = {
            "ruleId": _rule_id(finding),
            "ruleIndex": self.names.index(_rule_id(finding)),
            "kind": KINDS[finding.verdict],
            "level": LEVELS[leak.rating.severity] if leak else "none",
            "message": {"text": _plain(_message(finding, leak))},
            "locations": located[:1],
            "partialFingerprints": {"primaryLocationLineHash": f"{mark}:1", "divulge/v1": mark},
            "properties": _properties(finding, leak),
        }
        if located[1:]:
            result["relatedLocations"] = [{**where, "id": number} for number, where in enumerate(located[1:], 1)]
        if finding.taxonomy:
            result["taxa"] = [self._taxon(entry) for entry in finding.taxonomy]
        return result

    def _roots(self, edge: Edge) -> list[str]:
        """What was held at the start that a finding goes back to; first the one at the head of the longest way."""
        roots = self.paths.roots(edge)
        first = self.paths.way(edge)[0]
        return [first, *(name for name in roots if name != first)] if first in roots else roots or [self.run]

    def _location(self, name: str, edge: Edge) -> dict[str, Any]:
        source = self.sources.get(name, "")
        logical = [{"name": name, "fullyQualifiedName": address(source) or name, "kind": "resource"}]
        between = [each for each in edge.sources if each != name]
        logical += [{"name": each, "fullyQualifiedName": each, "kind": "resource"} for each in between]
        return {
            "physicalLocation": {"artifactLocation": {"uri": place(source, name)}, "region": {"startLine": 1}},
            "logicalLocations": logical,
        }

    def _invocation(self) -> dict[str, Any]:
        """Whether the audit got to its end, and all that is no leak: GitHub shows nothing of it, and other tools can."""
        unstarted = [("note", name, f"{name} was not started: {reason}") for name, reason in self.record.unmet.items()]
        unstarted += [("warning", name, f"plug-in {name} skipped: {why}") for name, why in self.record.broken.items()]
        return {
            "executionSuccessful": self.record.complete,
            "toolExecutionNotifications": [self._notification(edge) for edge in self.paths.edges if not edge.leak],
            "toolConfigurationNotifications": [
                {"level": level, "message": {"text": _plain(text)}, "properties": {"procedure": name}}
                for level, name, text in unstarted
            ],
        }

    def _notification(self, edge: Edge) -> dict[str, Any]:
        finding = edge.finding
        name = _rule_id(finding)
        failed = finding.verdict is Verdict.FAILED
        told = f"{wording.attack(finding)}, {finding.verdict.value}: {finding.summary} {finding.power}".strip()
        return {
            "level": "error" if failed else "note",
            "message": {"text": _plain(told)},
            "associatedRule": {"id": name, "index": self.names.index(name)},
            "locations": [self._location(self._roots(edge)[0], edge)],
        }

    def _taxon(self, entry: TaxonomyId) -> dict[str, Any]:
        key = (entry.taxonomy, entry.version)
        return {
            "id": entry.id,
            "index": list(self.taxa[key]).index(entry.id),
            "toolComponent": {"name": entry.taxonomy, "index": list(self.taxa).index(key)},
        }


def _taxonomy(name: str, version: str, entries: Mapping[str, TaxonomyId]) -> dict[str, Any]:
    about = next((known.about for known in ALL if (known.name, known.version) == (name, version)), name)
    return {
        "name": name,
        "version": version,
        "shortDescription": {"text": about},
        "taxa": [
            {"id": entry.id, **({"shortDescription": {"text": entry.title}} if entry.title else {})}
            for entry in entries.values()
        ],
    }


def _message(finding: Finding[Any], leak: Leak | None) -> str:
    """The summary, the headline score beside its null, and why it is as bad as it is."""
    told = [finding.summary]
    if first := severity.headline(finding):
        told.append(f"{wording.beside_null(*first)}.")
    if leak:
        rating = leak.rating
        told.append(f"Severity {rating.severity}: {rating.worth}; {rating.sure}; {rating.price}.")
        told += [f"Remedy: {_remedy(remedy.action, remedy.measured)}" for remedy in finding.remedy[:1]]
    elif finding.power:
        told.append(finding.power)
    return " ".join(told)


def _remedy(action: str, measured: str) -> str:
    return f"{action} Measured: {measured}" if measured else action


def _properties(finding: Finding[Any], leak: Leak | None) -> dict[str, Any]:
    cost = finding.cost
    spent = {"points": cost.points, "rows": cost.rows, "requests": cost.requests}
    told: dict[str, Any] = {"verdict": finding.verdict.value, "asset": severity.asset_of(finding), **spent}
    if math.isfinite(cost.seconds):
        told["seconds"] = round(cost.seconds, 3)
    return {**told, "severity": str(leak.rating.severity)} if leak else told


def _mark(edge: Edge) -> str:
    """The same in every run: which attack, on what."""
    told = "\0".join((_rule_id(edge.finding), *edge.sources))
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:16]


def _rule_id(finding: Finding[Any]) -> str:
    return finding.provenance.attack or wording.attack(finding)


def _plain(text: str) -> str:
    """Text in which nothing is a link: SARIF reads `[words](target)` as one."""
    return text.replace("](", "] (")
