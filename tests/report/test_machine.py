"""What other programs read: the same for every record, in the form that the schema gives."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from divulge import cli, storage
from divulge.contract import Finding, Hyperparameters, Record, Remedy, Score, Trial
from divulge.report import machine, overview, severity

from .example import full_record
from .test_page import hostile_record

SCHEMA = json.loads(machine.schema())


def errors(document: dict[str, Any]) -> list[str]:
    """What the schema says against a document that no audit has sealed yet."""
    unsealed = {**SCHEMA, "required": [key for key in SCHEMA["required"] if key != "seal"]}
    return [f"{one.json_path}: {one.message}" for one in jsonschema.Draft202012Validator(unsealed).iter_errors(document)]


def defended_record() -> Record:
    record = full_record()
    trial = Trial("rounding, digits = 2", ("api",), record.findings[1:], {"accuracy": (0.95, 0.94)}, {"digits": 2})
    first = replace(record.findings[0], measured=("agreement",), remedy=(Remedy("Round.", "From 64 units to 0."),))
    return replace(record, findings=(first, *record.findings[1:]), trials=(trial,))


RECORDS = {
    "full": full_record(), "hostile": hostile_record(), "defended": defended_record(), "empty": Record("Nothing", (), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_described_in_the_form_of_the_schema(name: str) -> None:
    assert errors(machine.describe(RECORDS[name])) == []


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_read_back_from_disk_is_described_in_the_same_words(name: str, tmp_path: Path) -> None:
    storage.save(RECORDS[name], tmp_path / "findings.json")
    assert machine.describe(storage.load(tmp_path / "findings.json")) == machine.describe(RECORDS[name])


def test_the_schema_is_valid_and_describes_every_field() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == machine.SCHEMA == SCHEMA["properties"]["schema"]["const"]
    forms = [SCHEMA, *(one for one in SCHEMA["$defs"].values() if "properties" in one)]
    for form in forms:
        for name, field in form["properties"].items():
            told = field.get("description") or SCHEMA["$defs"][field["$ref"].rpartition("/")[2]].get("description")
            assert told, name


def test_the_schema_refuses_what_it_does_not_know() -> None:
    document = machine.describe(full_record())
    assert errors({**document, "more": 1})
    assert errors({**document, "leaks": -1})
    worse = json.loads(json.dumps(document))
    worse["findings"][0]["severity"] = "harmless"
    assert errors(worse)


def test_what_is_no_finite_number_is_null() -> None:
    (score,) = machine.describe(full_record())["findings"][2]["scores"].values()
    assert (score["value"], score["null"]) == (None, None)
    loot = Hyperparameters({"alpha": 1.0})
    odd = Finding.leak(loot, "All.", scores={"a": Score(1.0, 0.0, "none", interval=(0, np.inf))})
    document = machine.describe(Record("Odd", (), (odd,)))
    assert document["findings"][0]["scores"]["a"]["interval"] == [0.0, None]
    assert "NaN" not in json.dumps(document, allow_nan=False)


def test_leaks_are_counted_and_rated_as_the_page_does() -> None:
    record = full_record()
    document = machine.describe(record)
    rated = {leak.edge.number: leak.rating for leak in overview.leaks(record)}
    for found in document["findings"]:
        rating = rated.get(found["number"])
        assert found["severity"] == (str(rating.severity) if rating else None)
        assert (found["rating"] or {}).get("sure") == (rating.sure if rating else None)
    assert document["leaks"] == sum(document["leaks_by_severity"].values()) == sum(document["leaks_by_asset"].values()) == 3
    assert document["rule"] == severity.RULE


def test_no_array_is_in_it_and_what_a_defence_did_is() -> None:
    document = machine.describe(defended_record())
    assert len(json.dumps(document)) < 100_000
    (trial,) = document["trials"]
    assert trial["kept"] == {"accuracy": {"without": 0.95, "with": 0.94}}
    assert [found["number"] for found in trial["findings"]] == [1, 2, 3, 4, 5]
    assert trial["leaks"] == 2
    first = document["findings"][0]
    assert first["remedies"] == [{"action": "Round.", "measured": "From 64 units to 0."}]
    assert first["scores"]["agreement"]["measured"] is True
    assert first["options"] == {"count": 500, "tolerance": 1e-8, "margin": None, "layers": [784, 64, 1]}


def test_the_schema_is_printed_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--schema"]) == 0
    assert json.loads(capfd.readouterr().out) == SCHEMA
    assert cli.main(["report"]) == 2
    assert "expected a run folder" in capfd.readouterr().err
