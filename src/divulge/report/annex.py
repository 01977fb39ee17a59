"""For whom it concerns: findings under the entries of public lists, and what of those lists nothing here has tested."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from divulge.contract import Finding, Record, TaxonomyId, Verdict
from divulge.contract.taxonomies import ALL

_ORDER = (Verdict.LEAK, Verdict.NONE_FOUND, Verdict.FAILED, Verdict.NOT_APPLICABLE)
"What is said of an entry under which findings end differently: the first of these that there is."


@dataclass(frozen=True)
class Entry:
    """One entry of a list, with what was found under it."""

    id: str
    title: str
    outcome: Verdict
    findings: tuple[int, ...]
    "Numbers of the findings that ended so."


@dataclass(frozen=True)
class Listed:
    """One public list, in the version that its ids are of."""

    name: str
    version: str
    about: str
    entries: tuple[Entry, ...]
    untested: tuple[str, ...]
    "Entries about models such as these that no finding speaks of."


def lists(record: Record) -> list[Listed]:
    """Every list that divulge knows, then those that only plug-ins or older runs name."""
    under: dict[tuple[str, str], dict[TaxonomyId, list[tuple[int, Finding[Any]]]]] = defaultdict(lambda: defaultdict(list))
    for number, finding in enumerate(record.findings, 1):
        for told in finding.taxonomy:
            under[told.taxonomy, told.version][told].append((number, finding))
    known = {(it.name, it.version): it for it in ALL}
    return [
        Listed(
            name,
            version,
            known[name, version].about if (name, version) in known else "",
            tuple(_entry(told, findings) for told, findings in sorted(under[name, version].items(), key=_by_id)),
            _untested(name, version, {told.id for told in under[name, version]}),
        )
        for name, version in dict.fromkeys([*known, *under])
    ]


def _entry(told: TaxonomyId, findings: list[tuple[int, Finding[Any]]]) -> Entry:
    outcome = next(verdict for verdict in _ORDER if any(finding.verdict is verdict for _, finding in findings))
    return Entry(told.id, told.title, outcome, tuple(number for number, finding in findings if finding.verdict is outcome))


def _by_id(item: tuple[TaxonomyId, object]) -> str:
    return item[0].id


def _untested(name: str, version: str, tested: set[str]) -> tuple[str, ...]:
    entries = next((it.entries for it in ALL if (it.name, it.version) == (name, version)), {})
    return tuple(f"{id} {title}" for id, title in entries.items() if id not in tested)
