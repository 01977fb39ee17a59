"""What `run` knew reaches `score` as a typed value, is stored with the finding, and is shown to machines."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from divulge import Context, Finding, Hyperparameters, TrainingData, Truth
from divulge.auditing import Audit
from divulge.contract import Array, Attack, Evidence, Record, Score, option_class
from divulge.contract.evidence import StoredEvidence
from divulge.errors import BadInput
from divulge.storage import fingerprint, load, save
from divulge.terminal import summary

X = np.arange(6.0).reshape(3, 2)


@dataclass(frozen=True, eq=False)
class Seen(Evidence):
    """What the attack below saw."""

    rows: int
    least: float
    column: Array
    parts: tuple[float, ...] = ()


@option_class
class CountsRows(Attack[TrainingData, Hyperparameters]):
    """Stands for an attack whose score depends on what it saw."""

    def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
        seen = Seen(len(held.X), float("-inf"), held.X[:, 0], (1.0, np.nan))
        return Finding.leak(Hyperparameters({"rows": float(len(held.X))}), "Counted.", evidence=seen)

    def score(self, finding: Finding[Hyperparameters], held: TrainingData, truth: Truth) -> Finding[Hyperparameters]:
        assert isinstance(finding.evidence, Seen)
        return replace(finding, scores={"rows": Score(finding.evidence.rows, 0.0, "none")}, notes=())


def found() -> Finding[Hyperparameters]:
    return CountsRows()(TrainingData(X), truth={"hyperparameters": Hyperparameters({"rows": 3})})


def test_evidence_goes_from_run_to_score() -> None:
    assert found().scores["rows"].value == 3


def test_evidence_is_stored_with_its_type(tmp_path: Path) -> None:
    kept = found()
    save(kept, tmp_path / "finding.json")
    again = load(tmp_path / "finding.json")
    assert isinstance(again.evidence, Seen)
    assert (again.evidence.rows, again.evidence.least) == (3, float("-inf"))
    assert again.evidence.column.tolist() == [0, 2, 4]
    assert fingerprint(again) == fingerprint(kept)


def test_evidence_of_an_attack_that_is_not_loaded_is_kept_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(found().evidence, tmp_path / "evidence.json")
    before = fingerprint(found().evidence)
    monkeypatch.delitem(Evidence.kinds, "Seen")
    unknown = load(tmp_path / "evidence.json")
    assert isinstance(unknown, StoredEvidence)
    assert unknown.name == "Seen"
    assert unknown.values["rows"] == 3
    assert fingerprint(unknown) == before
    save(unknown, tmp_path / "again.json")
    monkeypatch.undo()
    assert isinstance(load(tmp_path / "again.json"), Seen)


def test_a_machine_reads_the_numbers_of_the_evidence_and_no_arrays() -> None:
    shown = summary(Audit(Record("t", (), (found(),)), None))["findings"][0]["evidence"]
    assert shown == {"kind": "Seen", "rows": 3, "least": None, "parts": [1.0, None]}
    json.dumps(shown, allow_nan=False)


def test_two_kinds_of_evidence_cannot_share_a_name() -> None:
    with pytest.raises(TypeError, match=r"evidence Seen of .* has the name of .*; rename one"):
        type("Seen", (Evidence,), {"__module__": "elsewhere"})
    assert Evidence.kinds["Seen"] is Seen


def test_a_leak_needs_loot_or_evidence() -> None:
    with pytest.raises(BadInput, match="needs its loot, or the evidence of a study"):
        Finding("leak", "Nothing to show.")  # type: ignore[arg-type]  # the mistake is the test
    assert Finding.shown(Seen(1, 0.0, X[0]), "Shown.").loot is None
