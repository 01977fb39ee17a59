"""Audits in pipelines: files for other programs, exit codes, the workflow in the documentation."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from lxml import etree

from divulge import auditing
from divulge.report import junit, sarif, thresholds

from .report.test_sarif import SCHEMAS
from .test_audit_file import EXAMPLES, make_files
from .test_cli import run

WORKFLOW = EXAMPLES / "github-actions.yml"
ATTACK = ["attack", "hyperparameters", "--fitted", "ridge.skops", "--training-data", "train.npz"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, its data and an audit file whose one leak is a penalty; commands run in it."""
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)
    (tmp_path / "audit.toml").write_text((EXAMPLES / "fitted-skops.toml").read_text("utf-8"))
    return tmp_path


def valid(home: Path) -> tuple[dict[str, Any], Any]:
    """The SARIF and the JUnit of a run folder, after their schemas have accepted them."""
    log = json.loads((home / "report.sarif").read_text("utf-8"))
    jsonschema.Draft7Validator(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text("utf-8"))).validate(log)
    suites = etree.parse(home / "report.junit.xml")
    etree.XMLSchema(etree.parse(SCHEMAS / "junit-10.xsd")).assertValid(suites)
    (only,) = log["runs"]
    return only, suites.getroot()


def test_a_real_audit_is_written_for_other_programs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, "audit", "audit.toml", "--format", "sarif,junit")
    assert (code, err) == (0, "")
    home = Path("runs/audit")
    assert f"sarif: {home / 'report.sarif'}\njunit: {home / 'report.junit.xml'}\n" in out
    log, suites = valid(home)
    (result,) = log["results"]
    assert (result["ruleId"], result["level"]) == ("hyperparameters", "note")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "ridge.skops"
    assert str(folder) not in (home / "report.sarif").read_text() + (home / "report.junit.xml").read_text()
    assert suites.get("failures") == "1"
    record = auditing.reopen(home)
    assert (home / "report.sarif").read_text() == sarif.render(record)
    assert (home / "report.junit.xml").read_text() == junit.render(record)


def test_flags_take_one_value_each_so_that_the_audit_file_may_follow_them(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capfd, "audit", "--format", "sarif", "--fail-on", "leaks>=1", "audit.toml")
    assert (code, err) == (1, "fails on leaks>=1: 1 leak of any kind\n")


def test_without_the_flag_nothing_more_is_written(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, "audit", "audit.toml")
    assert not list(Path("runs/audit").glob("report.[sj]*i*"))


def test_a_finished_run_can_be_written_later_and_stays_current(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, "audit", "audit.toml")
    code, out, _ = run(capfd, "report", "runs/audit", "--format", "sarif", "--format", "junit")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["report", "sarif", "junit", "seal"]
    first = (folder / "runs/audit/report.sarif").read_text()
    (folder / "runs/audit/report.sarif").write_text("of another run")
    assert run(capfd, "audit", "audit.toml")[0] == 0
    assert (folder / "runs/audit/report.sarif").read_text() == first


def test_one_attack_takes_the_same_flags(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, *ATTACK, "--format", "sarif", "--fail-on", "hyperparameters>=1", "--json")
    assert code == 1
    assert json.loads(out)["leaks"] == 1
    assert err == "fails on hyperparameters>=1: 1 leak of hyperparameters\n"
    assert (folder / "runs/hyperparameters/report.sarif").exists()


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--fail-on", "hyperparameters>=1"], 1, ["hyperparameters>=1"]),
        (["--fail-on", "training_data>=1,leaks>=1"], 1, ["leaks>=1"]),
        (["--fail-on", "low>=1", "--fail-on", "leaks>0"], 1, ["low>=1", "leaks>0"]),
        (["--fail-on-leak"], 1, ["leaks>=1"]),
        (["--fail-on-leak", "--fail-on", "leaks>=1"], 1, ["leaks>=1"]),
        (["--fail-on", "training_data>=1,membership>=1,high>=1,failed>=1,incomplete>=1"], 0, []),
    ],
)
def test_the_exit_code_is_one_when_a_condition_holds_and_says_which(
    folder: Path, capfd: pytest.CaptureFixture[str], flags: list[str], code: int, said: list[str]
) -> None:
    found, _, err = run(capfd, "audit", "audit.toml", *flags)
    assert found == code
    assert re.findall(r"^fails on (\S+):", err, re.MULTILINE) == said


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--fail-on", "training_dat>=1"], "did you mean 'training_data'"),
        (["--fail-on", "training_data"], "a shell takes > for itself"),
        (["--fail-on", "leaks>=1,"], "expected a condition such as 'training_data>=1'"),
        (["--format", "serif"], "did you mean 'sarif'"),
        (["--format", "json"], "use one of: junit, sarif"),
        (["--mlflow", " "], "name of an MLflow experiment"),
    ],
)
@pytest.mark.parametrize("command", [["audit", "audit.toml"], ATTACK, ["demo"]], ids=lambda command: command[0])
def test_a_mistake_is_refused_before_anything_runs(
    folder: Path, capfd: pytest.CaptureFixture[str], command: list[str], flags: list[str], sentence: str
) -> None:
    code, _, err = run(capfd, *command, *flags)
    assert code == 2
    assert sentence in err
    assert not (folder / "runs").exists()


def test_an_audit_file_can_ask_for_both_and_the_command_line_adds_to_it(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "audit.toml").read_text()
    (folder / "audit.toml").write_text('format = ["sarif"]\nfail_on = ["hyperparameters >= 1"]\n' + text)
    code, _, err = run(capfd, "audit", "audit.toml", "--format", "junit", "--fail-on", "low>=1")
    assert code == 1
    assert err.splitlines() == [
        "fails on hyperparameters>=1: 1 leak of hyperparameters",
        "fails on low>=1: 1 leak of severity low or worse",
    ]
    valid(folder / "runs" / "audit")
    for line, sentence in (('format = "sarif"', "a list of names"), ('fail_on = ["leak>=1"]', "audit.toml: .*'leaks'")):
        (folder / "audit.toml").write_text(f"{line}\n{text}")
        code, _, err = run(capfd, "audit", "audit.toml")
        assert code == 2
        assert re.search(sentence, err)


def test_every_key_is_in_the_documentation() -> None:
    page = (EXAMPLES.parent / "automation.md").read_text("utf-8")
    assert [key for key in thresholds.KEYS if f"| `{key}` |" not in page] == []


Step = dict[str, Any]


def steps() -> list[Step]:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    found: list[Step] = workflow["jobs"]["audit"]["steps"]
    return found


def workflow(home: Path, audit: str) -> dict[str, int]:
    """Run the steps of the workflow in bash, as a runner does; what pip would install is installed here already.

    Returned are the steps that ran and their exit codes. After one that fails, only those with `if: always()` follow, and
    an upload fails where there is nothing to upload.
    """
    make_files(home)
    (home / "AUDIT.toml").write_text(audit)
    (home / "bin").mkdir()
    command = home / "bin" / "divulge"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m divulge.cli "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    ran: dict[str, int] = {}
    for step in steps():
        if any(ran.values()) and step.get("if") != "always()":
            continue
        if "run" in step and not step["run"].startswith("pip install"):
            shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            ran[step["name"]] = subprocess.run(shell, cwd=home, env=environment, check=False).returncode
        elif "upload" in step.get("uses", ""):
            ran[step["name"]] = int(not all((home / path).is_file() for path in uploaded(step)))
    return ran


def uploaded(step: Step) -> list[str]:
    found = str(step["with"].get("sarif_file") or step["with"]["path"]).split()
    assert found
    return found


NETWORK = 'attacks = ["gradient-extraction"]\n' + (EXAMPLES / "weights.toml").read_text("utf-8")
"It explains itself, and so its parameters are read: a leak that is high."


@pytest.mark.parametrize(
    ("audit", "code", "rules"),
    [
        ((EXAMPLES / "fitted-skops.toml").read_text("utf-8"), 0, {"hyperparameters": "note"}),
        (NETWORK, 1, {"gradient-extraction": "error"}),
    ],
    ids=["a penalty leaks", "parameters leak"],
)
def test_the_steps_of_the_workflow_run_and_leave_what_they_upload(
    tmp_path: Path, audit: str, code: int, rules: dict[str, str]
) -> None:
    assert workflow(tmp_path, audit) == {"Audit": code, "Leaks to code scanning": 0, "What was found": 0}
    log, _ = valid(tmp_path / "runs" / "AUDIT")
    assert {result["ruleId"]: result["level"] for result in log["results"]} == rules


def test_a_workflow_whose_audit_file_is_wrong_fails_and_uploads_nothing(tmp_path: Path) -> None:
    ran = workflow(tmp_path, "[held.model]\nkind = 'fitted'\nfile = 'none.skops'\n")
    assert ran == {"Audit": 2, "Leaks to code scanning": 1, "What was found": 1}


def test_the_workflow_may_upload_and_no_more() -> None:
    known = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    assert known["permissions"] == {"contents": "read", "security-events": "write"}
    assert [step["uses"].partition("@")[0] for step in steps() if "uses" in step] == [
        "actions/checkout",
        "actions/setup-python",
        "github/codeql-action/upload-sarif",
        "actions/upload-artifact",
    ]


def test_what_the_workflow_installs_has_the_extras_that_the_package_has() -> None:
    (install,) = [step["run"] for step in steps() if step.get("run", "").startswith("pip install")]
    found = re.fullmatch(r"pip install '(\w+)\[([\w,]+)\]'", install)
    assert found
    package, extras = found.groups()
    assert package == metadata("divulge")["Name"]
    declared = tomllib.loads((EXAMPLES.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(declared)
