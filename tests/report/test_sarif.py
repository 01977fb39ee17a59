"""SARIF: valid against the official schema, and so that GitHub's code scanning takes it and shows leaks alone."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
from hypothesis import given, strategies

from divulge import storage
from divulge.contract import Cost, Finding, Holding, Record, Remedy, Score, Verdict
from divulge.contract.taxonomies import RECONSTRUCTION
from divulge.report import sarif
from divulge.report.places import address, place

from .example import full_record, origin
from .test_page import HOSTILE, hostile_record

SCHEMAS = Path(__file__).parent / "schemas"


@cache
def validator() -> Any:
    return jsonschema.Draft7Validator(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text("utf-8")))


def run(record: Record, **options: Any) -> dict[str, Any]:
    """The one run of a record's log, which is valid."""
    log = json.loads(sarif.render(record, **options))
    validator().validate(log)
    (only,) = log["runs"]
    assert isinstance(only, dict)
    return only


def incomplete() -> Record:
    return replace(full_record(), complete=False)


RECORDS: dict[str, Callable[[], Record]] = {
    "full": full_record,
    "incomplete": incomplete,
    "hostile": hostile_record,
    "empty": lambda: Record("", (), ()),
}


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", RECORDS)
def test_every_log_is_valid_against_the_official_schema(name: str, every: bool) -> None:
    run(RECORDS[name](), every=every)


def test_the_schema_refuses_what_is_no_sarif() -> None:
    log = json.loads(sarif.render(full_record()))
    log["runs"][0]["results"][0]["level"] = "critical"
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(log)


def test_results_are_leaks_alone_because_github_takes_every_result_for_an_alert() -> None:
    record = full_record()
    leaks = [finding for finding in record.findings if finding.verdict is Verdict.LEAK]
    found = run(record)
    assert [result["ruleId"] for result in found["results"]] == [finding.provenance.attack for finding in leaks]
    assert {result["kind"] for result in found["results"]} == {"fail"}
    said = [each["message"]["text"] for each in found["invocations"][0]["toolExecutionNotifications"]]
    for finding in record.findings:
        assert any(finding.summary in text for text in said) is (finding.verdict is not Verdict.LEAK)


def test_with_every_finding_each_verdict_has_a_kind_of_its_own() -> None:
    record = full_record()
    found = run(record, every=True)
    kinds = {"leak": "fail", "none found": "pass", "not applicable": "notApplicable", "failed": "open"}
    assert [result["kind"] for result in found["results"]] == [kinds[finding.verdict] for finding in record.findings]
    assert all((result["level"] == "none") is (result["kind"] != "fail") for result in found["results"])


def test_a_failed_attack_is_an_error_of_the_tool_and_what_did_not_start_is_told() -> None:
    record = full_record()
    (invocation,) = run(record)["invocations"]
    told = {each["associatedRule"]["id"]: each["level"] for each in invocation["toolExecutionNotifications"]}
    verdicts = {f.provenance.attack: f.verdict for f in record.findings if f.verdict is not Verdict.LEAK}
    assert told == {name: "error" if verdict is Verdict.FAILED else "note" for name, verdict in verdicts.items()}
    unstarted = {each["properties"]["procedure"]: each["level"] for each in invocation["toolConfigurationNotifications"]}
    assert unstarted == {**dict.fromkeys(record.unmet, "note"), **dict.fromkeys(record.broken, "warning")}


def test_only_a_complete_audit_ran_successfully() -> None:
    assert run(replace(full_record(), complete=True))["invocations"][0]["executionSuccessful"] is True
    assert run(incomplete())["invocations"][0]["executionSuccessful"] is False


def of_severity(asset: str, **rest: Any) -> Record:
    """One leak of an asset, confirmed by the truth, for nothing."""
    leak = full_record().findings[0]
    sure = {"error": Score(0.0, 1.0, "a guess", better="lower")}
    made = replace(
        leak, scores=sure, measured=("error",), cost=Cost(), provenance=replace(leak.provenance, asset=asset), **rest
    )
    return replace(full_record(), findings=(made,))


@pytest.mark.parametrize(
    ("asset", "level", "band"),
    [
        ("training_data", "error", (9.1, 10)),
        ("membership", "error", (7, 8.9)),
        ("some plug-in's", "warning", (4, 6.9)),
        ("hyperparameters", "note", (0.1, 3.9)),
    ],
)
def test_severities_are_levels_and_lie_in_githubs_bands(asset: str, level: str, band: tuple[float, float]) -> None:
    found = run(of_severity(asset))
    (rule,) = found["tool"]["driver"]["rules"]
    assert found["results"][0]["level"] == rule["defaultConfiguration"]["level"] == level
    assert band[0] <= float(rule["properties"]["security-severity"]) <= band[1]
    assert "security" in rule["properties"]["tags"]


def test_a_rule_without_a_leak_has_no_severity() -> None:
    rules = {rule["id"]: rule for rule in run(full_record())["tool"]["driver"]["rules"]}
    assert "security-severity" in rules["gradient-extraction"]["properties"]
    assert "security-severity" not in rules["span-membership"]["properties"]


def test_a_rule_has_its_remedies_and_a_link_only_to_a_paper_that_has_one() -> None:
    measured = Remedy("Round answers.", "agreement 0.99 falls to 0.51")
    record = of_severity("parameters", remedy=(measured, Remedy("Ask for a login.")))
    (rule,) = run(record)["tool"]["driver"]["rules"]
    for text in ("Round answers. Measured: agreement 0.99 falls to 0.51", "Ask for a login."):
        assert text in rule["help"]["text"]
        assert f"- {text}" in rule["help"]["markdown"]
    assert rule["helpUri"] == "https://arxiv.org/abs/2206.07758"
    (finding,) = record.findings
    old = replace(finding, provenance=replace(finding.provenance, paper="A. Author 1998, Proc. of a Conference"))
    (rule,) = run(replace(record, findings=(old,)))["tool"]["driver"]["rules"]
    assert "helpUri" not in rule


def test_a_message_has_the_headline_score_beside_its_null_and_why_it_is_bad() -> None:
    text = run(full_record())["results"][0]["message"]["text"]
    assert "agreement 100 % (null 71.3 %: a copy that always says the commonest class)" in text
    assert "Severity medium: parameters;" in text
    assert "12,345 queries, 3 min 12 s" in text
    assert "Remedy: Answer with explanations rounded to two digits." in text


def test_rules_results_and_taxonomies_point_at_each_other() -> None:
    finding = replace(full_record().findings[0], taxonomy=RECONSTRUCTION)
    record = replace(full_record(), findings=(finding, *full_record().findings[1:]))
    found = run(record, every=True)
    driver, taxonomies = found["tool"]["driver"], found["taxonomies"]
    assert [known["name"] for known in driver["supportedTaxonomies"]] == [known["name"] for known in taxonomies]

    def entry(reference: dict[str, Any]) -> tuple[str, str, str]:
        component = taxonomies[reference["toolComponent"]["index"]]
        assert component["name"] == reference["toolComponent"]["name"]
        assert component["taxa"][reference["index"]]["id"] == reference["id"]
        return component["name"], component["version"], reference["id"]

    for result, finding in zip(found["results"], record.findings, strict=True):
        rule = driver["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"] == finding.provenance.attack
        listed = [(one.taxonomy, one.version, one.id) for one in finding.taxonomy]
        assert [entry(each) for each in result.get("taxa", [])] == listed
        assert [entry(each["target"]) for each in rule.get("relationships", [])] == listed
    atlas = next(known for known in taxonomies if (known["name"], known["version"]) == ("MITRE ATLAS", "5.6.0"))
    assert {"id": "AML.T0044", "shortDescription": {"text": "Full AI Model Access"}} in atlas["taxa"]


def uris(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        return [*([tree["uri"]] if "uri" in tree else []), *(uri for part in tree.values() for uri in uris(part))]
    return [uri for part in tree for uri in uris(part)] if isinstance(tree, list) else []


@pytest.mark.parametrize("name", RECORDS)
def test_every_result_has_a_place_that_is_relative_and_inside_the_repository(name: str) -> None:
    found = run(RECORDS[name](), every=True)
    assert all(result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1 for result in found["results"])
    assert all(map(inside, uris(found)))


def inside(uri: str) -> bool:
    """Whether a URI is that of a file in the repository, whether or not there is one."""
    parts = urlsplit(uri)
    only_a_path = (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("", "", "", "")
    steps = unquote(parts.path).split("/")
    return uri.isascii() and only_a_path and parts.path[:1] not in ("", "/") and not {"..", "."} & set(steps)


@given(strategies.text(strategies.characters(exclude_categories=())), strategies.text())
def test_any_source_and_any_name_make_a_place_inside_the_repository(source: str, name: str) -> None:
    assert inside(place(source, name))
    assert inside(place(f"http://{source}", name))
    assert inside(place(f"{source}.csv", name))


@pytest.mark.parametrize(
    ("source", "uri"),
    [
        ("models/ridge.skops", "models/ridge.skops"),
        ("my data.csv#target=price", "my%20data.csv"),
        ("/home/somebody/work/ridge.skops", "ridge.skops"),
        ("../elsewhere/train.npz", "train.npz"),
        ("http://127.0.0.1:8080/v2/models/digits", "127.0.0.1%3A8080/v2/models/digits"),
        ("https://me:secret@host.org/score?key=secret", "host.org/score"),
        ("https://[broken", "the%20thing"),
        ("in memory", "the%20thing"),
        ("trained by this demonstration", "the%20thing"),
        ("Efron, Hastie, Johnstone and Tibshirani, Least Angle Regression, 2004.", "the%20thing"),
        ("\ud800", "the%20thing"),
    ],
)
def test_a_source_becomes_a_place_that_says_nothing_of_the_machine_and_no_secret(source: str, uri: str) -> None:
    assert place(source, "the thing") == uri
    assert "secret" not in address(source)


def test_what_was_won_is_placed_where_it_goes_back_to_with_the_ways_names() -> None:
    images = next(result for result in run(full_record())["results"] if result["ruleId"] == "kkt-reconstruction")
    (where,) = images["locations"]
    assert where["physicalLocation"]["artifactLocation"]["uri"] == "127.0.0.1%3A8080/v2/models/digits"
    assert [each["name"] for each in where["logicalLocations"]] == ["api", "weights of api"]
    assert where["logicalLocations"][0]["fullyQualifiedName"] == "http://127.0.0.1:8080/v2/models/digits"


def test_what_else_a_leak_rests_on_is_a_related_place() -> None:
    stolen = next(result for result in run(full_record())["results"] if result["ruleId"] == "hyperparameters")
    places = [where["physicalLocation"]["artifactLocation"]["uri"] for where in stolen["relatedLocations"]]
    assert stolen["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "ridge.skops"
    assert places == ["table.npz"]


def marks(record: Record) -> list[str]:
    return [result["partialFingerprints"]["primaryLocationLineHash"] for result in run(record, every=True)["results"]]


def test_fingerprints_stay_when_numbers_seed_and_place_change_and_differ_between_leaks() -> None:
    record = full_record()
    moved = tuple(replace(holding, source="elsewhere.skops", fingerprint="0" * 32) for holding in record.holdings)
    later = tuple(
        replace(finding, summary="Otherwise.", cost=Cost(1, 2.0), provenance=replace(finding.provenance, seed=9))
        for finding in record.findings
    )
    assert marks(replace(record, seed=9, holdings=moved, findings=later)) == marks(record)
    assert len(set(marks(record))) == len(record.findings)


def test_hostile_text_is_no_link_and_no_number_is_spelt_as_json_does_not() -> None:
    text = "Click [here](http://evil) now."
    finding: Finding[Any] = Finding.failed(
        text, cost=Cost(seconds=float("inf")), provenance=origin("an-attack", "", ["api"])
    )
    log = sarif.render(Record(text, (Holding("api", "gradients", HOSTILE, ""),), (finding,)), every=True)
    assert "](http" not in json.loads(log)["runs"][0]["results"][0]["message"]["text"]
    assert "Infinity" not in log
    assert "NaN" not in sarif.render(full_record(), every=True)


def test_a_record_read_back_from_disk_gives_the_same_log(tmp_path: Path) -> None:
    storage.save(full_record(), tmp_path / "findings.json")
    assert sarif.render(storage.load(tmp_path / "findings.json")) == sarif.render(full_record())


def test_audits_of_one_repository_are_kept_apart_by_their_names() -> None:
    assert run(full_record())["automationDetails"]["id"] == "divulge/Digits behind an explanation service/"
    assert run(full_record(), run="fraud/v2")["automationDetails"]["id"] == "divulge/fraud-v2/"


def test_files_for_machines_need_none_of_what_draws_the_page() -> None:
    script = (
        "import sys; sys.modules.update(dict.fromkeys(['altair', 'jinja2', 'vl_convert', 'PIL', 'markupsafe'])); "
        "from divulge.contract import Record; from divulge.report import junit, sarif, thresholds; "
        "record = Record('', (), ()); print(len(sarif.render(record)) > 9, len(junit.render(record)) > 9, "
        "thresholds.exceeded(record, ['leaks==0']))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "True", "['fails", "on", "leaks==0:", "0", "leaks", "of", "any", "kind']"]
