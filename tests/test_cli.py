"""The command line as a person or a machine uses it, with wrong input too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from skops.io import dump

from divulge import cli, terminal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, its data and an audit file; commands run in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=60)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    dump(Ridge(alpha=0.5).fit(X, y), tmp_path / "model.skops")
    (tmp_path / "audit.toml").write_text(
        '[held.model]\nkind = "fitted"\nfile = "model.skops"\n'
        '[held.data]\nkind = "training_data"\nfile = "data.npz"\n'
        '[truth.hyperparameters]\nfile = "model.skops"\n'
    )
    return tmp_path


ATTACK = ["attack", "hyperparameters", "--fitted", "model.skops", "--training-data", "data.npz"]


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(list(arguments))
    said = capfd.readouterr()
    return code, said.out, said.err


def test_help_answers_without_numpy_or_torch() -> None:
    check = (
        "import sys; from divulge import cli; code = cli.main(['--help']); "
        "heavy = {'numpy', 'torch', 'sklearn', 'vl_convert', 'pydantic'} & set(sys.modules); print(code, sorted(heavy))"
    )
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "0 []"
    for name in ("demo", "audit", "attack", "attacks", "reproduce", "report"):
        assert name in ran.stdout


def test_flags_of_an_attack_are_its_fields(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "attack", "hyperparameters", "--help")
    assert code == 0
    assert "--confidence" in out
    assert "How sure the reported interval should be" in out
    assert "--fitted" in out
    assert "--training-data" in out


def test_an_attack_from_files_writes_a_report(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, *ATTACK, "--truth", "model.skops", "--confidence", "0.9", "--out", "kept")
    assert code == 0
    assert "alpha = 0.5" in out
    assert (folder / "kept" / "report.html").stat().st_size > 10_000


def test_json_is_all_that_a_machine_gets(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, *ATTACK, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["leaks"] == 1
    assert found["findings"][0]["loot"]["alpha"] == pytest.approx(0.5)
    assert found["findings"][0]["scores"]["gradient left unexplained"]["null_of"]


def test_exit_code_one_only_for_a_leak_and_only_when_asked(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, *ATTACK)[0] == 0
    assert run(capfd, *ATTACK, "--fail-on-leak")[0] == 1
    np.savez(folder / "data.npz", X=np.random.default_rng(1).normal(size=(60, 5)), y=np.arange(60.0))
    code, out, _ = run(capfd, *ATTACK, "--fail-on-leak")
    assert code == 0
    assert "not applicable" in out


def test_an_audit_runs_from_its_file_and_its_report_can_be_drawn_again(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capfd, "audit", "audit.toml")
    assert code == 0
    assert "1 leak in 1 finding: 1 low." in out
    page = folder / "runs" / "audit" / "report.html"
    first = page.read_bytes()
    page.unlink()
    assert run(capfd, "report", "runs/audit")[0] == 0
    assert page.read_bytes() == first


def test_a_plan_is_printed_and_nothing_runs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "audit", "audit.toml", "--plan", "--json")
    assert code == 0
    assert json.loads(out)[0]["wins"] == "hyperparameters of model"
    code, out, _ = run(capfd, "audit", "audit.toml", "--plan")
    assert code == 0
    assert "hyperparameters of model" in out
    assert not (folder / "runs").exists()


def test_attacks_are_listed_with_needs_yields_and_paper(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal.out, "width", 160)  # a console reads COLUMNS once, when it is made
    code, out, _ = run(capfd, "attacks")
    assert code == 0
    assert "fitted + training_data" in " ".join(out.split())
    assert "Wang" in out


@pytest.mark.slow
def test_demo_writes_a_report_with_leaks_and_a_control_that_is_none(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "demo", "--out", "shown", "--seed", "3", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["leaks"] >= 8
    images = [one for one in found["findings"] if one["attack"] == "span-reconstruction" and one["verdict"] == "leak"]
    assert images[0]["scores"]["images at NCC > 0.9"]["value"] >= 36
    assert images[0]["scores"]["images at NCC > 0.9"]["null"] <= 8
    asked = [one for one in found["findings"] if one["attack"] == "span-membership" and one["verdict"] == "leak"]
    assert asked[0]["scores"]["TPR at 1 % FPR"]["value"] >= 0.9
    verdicts = {tuple(finding["inputs"]): finding["verdict"] for finding in found["findings"]}
    assert verdicts[("ridge of other patients", "data")] == "not applicable"
    assert (folder / "shown" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["audit", "none.toml"], "expected an audit file at none.toml"),
        (["report", "nowhere"], "expected a run folder at nowhere"),
        (["reproduce", "hyperparameters-rigde"], "did you mean 'hyperparameters-ridge'"),
        ([*ATTACK[:3], "none.skops", *ATTACK[4:]], "none.skops"),
        ([*ATTACK, "--confidence", "2"], "confidence"),
        ([*ATTACK, "--confidance", "0.9"], "--confidence"),
        ([*ATTACK, "--seed", "-1"], "expected a seed from 0"),
        (["attack", "hyperparameter"], "hyperparameters"),
        (["attack", "hyperparameters"], "--fitted"),
        (["adit", "audit.toml"], "audit"),
        (["demo", "--out", "data.npz/run"], "cannot write in data.npz/run"),
        (["demo", "--out", "."], "got one with other files; choose another"),
        (["demo", "--seed", "-1"], "expected a seed from 0"),
        (["audit", "audit.toml", "--workers", "0"], "at least one worker"),
        (["reproduce", "hyperparameters-ridge", "--workers", "-5"], "at least one worker"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_exit_code_two(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    code, _, err = run(capfd, *arguments)
    assert code == 2
    assert sentence in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_a_bug_is_one_line_and_never_the_code_of_a_leak(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from divulge import auditing

    def broken(*given: Any, **more: Any) -> None:  # takes whatever an audit takes
        raise RuntimeError("surprise")

    monkeypatch.setattr(auditing, "audit", broken)
    code, _, err = run(capfd, *ATTACK, "--fail-on-leak")
    assert code == 3
    assert err.startswith("error: RuntimeError: surprise; this is a bug")
    monkeypatch.setenv("DIVULGE_DEBUG", "1")
    with pytest.raises(RuntimeError):
        cli.main(ATTACK)


@pytest.mark.slow
def test_output_that_nobody_reads_or_can_be_written_ends_quietly(folder: Path) -> None:
    divulge = f"{sys.executable} -m divulge.cli"
    ran = subprocess.run(
        [
            "bash",
            "-c",
            f"{divulge} attacks | head -c 0; echo ${{PIPESTATUS[0]}}; {divulge} attacks --json > /dev/full; echo $?",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["0", "2"]
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"X": np.full((60, 5), np.nan), "y": np.zeros(60)}, "300 NaN or infinite values"),
        ({"X": np.full((60, 5), np.inf), "y": np.zeros(60)}, "300 NaN or infinite values"),
        ({"X": np.zeros((60, 5)), "y": np.zeros(59)}, "one label for each of the 60 training points, got shape (59,)"),
        ({"X": np.zeros(60), "y": np.zeros(60)}, "expected a 2-D array of training points, got shape (60,)"),
        ({"X": np.zeros((60, 4)), "y": np.zeros(60)}, "for each of the 4 features, got 5"),
        ({"Z": np.zeros((60, 5))}, "expected an array named 'X' in data.npz"),
    ],
)
def test_bad_arrays_end_with_one_sentence_and_exit_code_two(
    folder: Path, capfd: pytest.CaptureFixture[str], arrays: dict[str, Any], sentence: str
) -> None:
    np.savez(folder / "data.npz", **arrays)
    code, _, err = run(capfd, *ATTACK)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_an_unfitted_estimator_is_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dump(Ridge(), folder / "model.skops")
    code, _, err = run(capfd, *ATTACK)
    assert code == 2
    assert "call fit first" in err


def test_a_corrupted_run_folder_is_named_and_nothing_else_is_lost(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "audit", "audit.toml")[0] == 0
    record = folder / "runs" / "audit" / "findings.json"
    record.write_text(record.read_text()[:200])
    code, _, err = run(capfd, "report", "runs/audit")
    assert code == 2
    assert "findings.json" in err
    assert "run the audit again" in err
    code, out, _ = run(capfd, "audit", "audit.toml")
    assert code == 0
    assert "kept from an earlier run" in out


def test_reproduce_lists_runs_and_keeps_its_cells(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "hyperparameters-ridge" in run(capfd, "reproduce")[1]
    code, out, _ = run(capfd, "reproduce", "hyperparameters-ridge")
    assert code == 0
    assert "reproduced" in out
    table = (folder / "runs" / "reproduce" / "hyperparameters-ridge.csv").read_text().splitlines()
    assert table[0] == "experiment,victim.alpha,verdict,score,value,null"
    assert "relative error of alpha" in table[1]
    assert "Ridge  " in out
    assert len(table) == 4


def test_tables_are_json_for_machines(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    listed = {one["name"]: one for one in json.loads(run(capfd, "attacks", "--json")[1])["attacks"]}
    assert listed["hyperparameters"]["needs"] == ["fitted", "training_data"]
    assert "hyperparameters-ridge" in {one["name"] for one in json.loads(run(capfd, "reproduce", "--json")[1])}
    assert json.loads(run(capfd, "reproduce", "hyperparameters-ridge", "--json")[1])[0]["reproduced"] is True
