"""Studies and baselines: run by name from every door, listed apart from attacks, and never an edge of the graph."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from divulge import Fitted, Predictions, TrainingData, Weights, audit, auditing, cli, registry
from divulge.contract import Attack, Baseline, Study
from divulge.errors import BadInput
from divulge.studies.rounded_release import StolenAfterRounding

QUICK = {"rounded-release": {"decimals": (0,)}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ridge")
    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    skops.io.dump(Ridge(1.37).fit(X, y), folder / "ridge.skops")
    np.savez(folder / "train.npz", X=X, y=y)
    return folder


def held() -> dict[str, Fitted | TrainingData]:
    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return {"model": Fitted.of(Ridge(1.37).fit(X, y)), "data": TrainingData(X, y)}


def test_an_audit_runs_a_study_only_where_it_is_named() -> None:
    plain = audit(held(), attacks=["hyperparameters"])
    assert [finding.provenance.attack for finding in plain.findings] == ["hyperparameters"]
    both = audit(held(), attacks=["hyperparameters"], studies=["rounded-release"], options=QUICK)
    assert [finding.provenance.attack for finding in both.findings] == ["hyperparameters", "rounded-release"]
    stolen = both.findings[1].evidence
    assert isinstance(stolen, StolenAfterRounding)
    assert stolen.values["alpha"] == pytest.approx(1.37, rel=0.01)
    assert both.findings[1].loot is None


def test_what_a_baseline_wins_is_measured_and_goes_no_further() -> None:
    rng = np.random.default_rng(0)
    network = Weights(
        ((rng.normal(size=(4, 9)), rng.normal(size=4)), (rng.normal(size=(1, 4)), rng.normal(size=1))), shape=(3, 3)
    )
    options = {"first-layer-images": {"count": 4}}
    done = audit({"network": network}, attacks=[], studies=["first-layer-images"], options=options)
    assert [finding.provenance.attack for finding in done.findings] == ["first-layer-images"]
    assert done.findings[0].loot is not None
    assert not done.findings[0].provenance.won
    assert [holding.name for holding in done.record.holdings] == ["network"]


def test_a_plan_says_which_steps_win_nothing() -> None:
    steps = auditing.plan(held(), ["hyperparameters"], ["rounded-release"])
    assert [(step.attack.name, step.wins) for step in steps] == [
        ("hyperparameters", "hyperparameters of model"),
        ("rounded-release", ""),
    ]


def test_an_attack_named_as_a_study_is_refused() -> None:
    with pytest.raises(BadInput, match="'hyperparameters' is an attack; name it under attacks"):
        audit(held(), attacks=[], studies=["hyperparameters"])
    with pytest.raises(BadInput, match="unknown key 'rounded-releas'; did you mean 'rounded-release'"):
        audit(held(), attacks=[], studies=["rounded-releas"])


def test_a_study_runs_from_the_command_line(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--fitted", str(files / "ridge.skops"), "--training-data", str(files / "train.npz")]
    options = ["--decimals", "0", "--truth", str(files / "ridge.skops")]
    code = cli.main(["study", "rounded-release", *given, *options, "--out", str(tmp_path / "run"), "--json"])
    assert code == 0
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["verdict"] == "leak"
    assert found["evidence"]["kind"] == "StolenAfterRounding"
    assert found["evidence"]["decimals"] == 0
    assert found["evidence"]["values"]["alpha"] == pytest.approx(1.37, rel=0.01)
    assert found["scores"]["relative error of alpha at 0 decimals"]["value"] < 0.01
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The study rounded release shows a leak: " in page
    assert "attack that ran won something" not in page
    assert cli.main(["report", str(tmp_path / "run")]) == 0


def test_a_study_runs_from_an_audit_file(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"""
    attacks = []
    studies = ["rounded-release"]
    [held.model]
    kind = "fitted"
    file = "{files / "ridge.skops"}"
    [held.data]
    kind = "training_data"
    file = "{files / "train.npz"}"
    [options.rounded-release]
    decimals = [0]
    """
    (tmp_path / "AUDIT.toml").write_text(text)
    assert cli.main(["audit", str(tmp_path / "AUDIT.toml"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["attack"], found["verdict"], found["won"]) == ("rounded-release", "leak", None)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["attack", "rounded-release"], "rounded-release is a study or baseline; run divulge study rounded-release"),
        (["study", "hyperparameters"], "hyperparameters is an attack; run divulge attack hyperparameters"),
    ],
)
def test_the_wrong_command_names_the_right_one(
    command: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command) == 2
    assert sentence in capsys.readouterr().err


def test_attacks_and_studies_are_listed_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["attacks", "--json"]) == 0
    attacks = {one["name"] for one in json.loads(capsys.readouterr().out)["attacks"]}
    assert cli.main(["studies", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    others = {one["name"]: one["kind"] for one in listed}
    assert attacks.isdisjoint(others)
    assert others["rounded-release"] == "study"
    assert others["model-inversion"] == "baseline"
    assert all(one["purpose"] and one["needs"] for one in listed)
    assert cli.main(["studies"]) == 0
    assert "margin-simulation" in capsys.readouterr().out


def test_every_group_holds_its_own_kind() -> None:
    for kind, found in ((Attack, registry.attacks()), (Baseline, registry.baselines()), (Study, registry.studies())):
        assert found
        assert all(issubclass(one, kind) for one in found.values())
    assert all(one.yields is None for one in registry.studies().values())


def loaded(code: str) -> set[str]:
    """Modules that a fresh process has loaded after the code."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(ran.stdout.split())


def test_one_attack_is_loaded_without_the_others() -> None:
    modules = loaded("from divulge import registry; registry.attack('hyperparameters'); registry.names()")
    assert "divulge.attacks.hyperparameters.stealing" in modules
    assert "divulge.attacks.poisoning.attack" not in modules
    assert "torch" not in modules


def test_planning_an_audit_does_not_load_torch() -> None:
    assert "torch" not in loaded("from divulge import registry; registry.attacks(); registry.broken()")


def test_a_function_in_memory_needs_no_reader() -> None:
    assert "divulge.targets.local" not in loaded("from divulge import Predictions; Predictions(lambda X: X, 2)")
    assert Predictions.of(Ridge().fit(np.eye(3), np.arange(3.0))).dimension == 3
