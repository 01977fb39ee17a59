"""Findings stand under the entries of public lists, with their versions; what nobody tested is named, and nothing is promised."""

from typing import Any

from divulge.contract import Finding, Provenance, Record, taxonomies
from divulge.report import annex

LISTS = ["EDPB Opinion 28/2024", "AI Act", "NIST AI 100-2", "MITRE ATLAS", "OWASP ML Top 10"]


def nothing(verdict: str, told: tuple[Any, ...]) -> Finding[Any]:
    return Finding(verdict, "nothing", power="some", taxonomy=told, provenance=Provenance("attack"))  # type: ignore[arg-type]  # as a file has it


def test_every_list_is_there_with_its_version_and_what_is_not_tested(record: Record) -> None:
    listed = {it.name: it for it in annex.lists(record)}
    assert list(listed) == [*LISTS, "Own list"]
    assert (listed["MITRE ATLAS"].version, listed["OWASP ML Top 10"].version) == ("5.6.0", "2023")
    assert "ML01 Input Manipulation Attack" in listed["OWASP ML Top 10"].untested
    assert not any(name.startswith("ML03") for name in listed["OWASP ML Top 10"].untested)
    assert listed["Own list"].untested == ()


def test_weights_and_answers_are_different_techniques() -> None:
    read = {told.id for told in taxonomies.RECONSTRUCTION}
    asked = {told.id for told in taxonomies.INVERSION}
    assert read - asked == {"AML.T0044"}
    assert asked - read == {"AML.T0040"}


def test_an_entry_says_the_worst_that_was_found_and_where(record: Record) -> None:
    entries = {entry.id: entry for it in annex.lists(record) for entry in it.entries}
    assert (entries["ML03"].outcome, entries["ML03"].findings) == ("leak", (2,))
    assert entries["A1"].title == ""


def test_what_did_not_apply_is_not_told_as_resistance() -> None:
    told = taxonomies.MEMBERSHIP
    both = Record("", (), (nothing("not applicable", told), nothing("none found", told)))
    entry = next(entry for it in annex.lists(both) for entry in it.entries if entry.id == "ML04")
    assert (entry.outcome, entry.findings) == ("none found", (2,))
    alone = Record("", (), (nothing("not applicable", told),))
    entry = next(entry for it in annex.lists(alone) for entry in it.entries if entry.id == "ML04")
    assert entry.outcome == "not applicable"


def test_every_id_of_an_attack_is_in_a_list_that_is_read() -> None:
    known = {(it.name, it.version, id) for it in taxonomies.ALL for id in it.entries}
    groups = (
        taxonomies.HYPERPARAMETERS, taxonomies.EXTRACTION, taxonomies.RECONSTRUCTION, taxonomies.INVERSION,
        taxonomies.MEMBERSHIP, taxonomies.POISONING,
    )  # fmt: skip
    assert {(told.taxonomy, told.version, told.id) for group in groups for told in group} <= known
