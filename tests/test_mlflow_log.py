"""Audits logged to MLflow: what its own client reads back from a store on disk, and what happens where nothing answers."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from divulge import auditing, mlflow_log
from divulge.contract import Record, Score
from divulge.errors import BadInput
from divulge.report import thresholds
from divulge.serving.processes import free_ports

from .report.example import full_record
from .report.test_page import hostile_record
from .test_audit_file import EXAMPLES, make_files
from .test_cli import run

AUDIT = ["audit", "audit.toml", "--mlflow", "audits"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an audit that finds one leak, and MLflow told to log beside it; commands run in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the store that needs no database
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    make_files(tmp_path)
    (tmp_path / "audit.toml").write_text((EXAMPLES / "fitted-skops.toml").read_text("utf-8"))
    return tmp_path


def logged(experiment: str = "audits") -> list[Any]:
    """The runs of an experiment, the latest first."""
    client = MlflowClient()
    known = client.get_experiment_by_name(experiment)
    return list(client.search_runs([known.experiment_id])) if known else []


def names(run_id: str) -> set[str]:
    return {each.path for each in MlflowClient().list_artifacts(run_id)}


def test_an_audit_is_a_run_with_its_parameters_metrics_tags_and_report(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capfd, *AUDIT, "--format", "sarif,junit")
    (found,) = logged()
    assert code == 0
    assert f"mlflow: run {found.info.run_id} in experiment 'audits'" in err
    record = auditing.reopen(folder / "runs" / "audit")
    (leak,) = [finding for finding in record.findings if finding.verdict == "leak"]
    assert (found.info.run_name, found.info.status) == (record.title, "FINISHED")
    assert found.data.params == mlflow_log.parameters(record)
    assert found.data.params["version.numpy"] == record.versions["numpy"]
    assert found.data.metrics == pytest.approx(mlflow_log.metrics(record))
    assert found.data.metrics["divulge.hyperparameters"] == 1
    score = leak.scores["relative error of alpha"]
    place = "leak.hyperparameters.model and data.relative error of alpha"
    assert (found.data.metrics[place], found.data.metrics[f"{place}.null"]) == (score.value, score.null)
    assert found.data.tags["divulge.worst"] == leak.summary
    assert (found.data.tags["divulge.complete"], found.data.tags["divulge.worst_severity"]) == ("true", "low")
    assert names(found.info.run_id) == {"report.html", "report.json", "report.sarif", "report.junit.xml", "findings.json"}


def test_a_second_run_is_logged_again_without_running_anything(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, *AUDIT)
    _, out, _ = run(capfd, *AUDIT)
    assert "kept from an earlier run" in out
    first, second = logged()
    assert first.data.metrics == second.data.metrics
    assert first.info.run_id != second.info.run_id


def test_json_stays_alone_on_the_standard_output_though_the_client_prints_addresses(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = MlflowClient.set_terminated

    def talkative(client: MlflowClient, *given: Any, **more: Any) -> None:  # as it is to a server
        print("View run at http://127.0.0.1")
        ending(client, *given, **more)

    monkeypatch.setattr(MlflowClient, "set_terminated", talkative)
    _, out, err = run(capfd, *AUDIT, "--json")
    assert json.loads(out)["leaks"] == 1
    assert "View run at" in err
    assert "mlflow: run" in err


def test_without_the_package_nothing_runs(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    code, _, err = run(capfd, *AUDIT)
    assert code == 2
    assert "needs mlflow, which is missing; pip install 'divulge[mlflow]'" in err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("address", ["gopher://nowhere", "sqlite:///mlflow.db"])
def test_where_mlflow_cannot_log_is_refused_before_anything_runs(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    code, _, err = run(capfd, *AUDIT)
    assert code == 2
    assert "set MLFLOW_TRACKING_URI to a server, as in http://127.0.0.1:5000" in err
    assert err.count("\n") == 1
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(("flags", "expected"), [([], 2), (["--fail-on-leak"], 1)])
def test_a_server_that_does_not_answer_loses_no_audit(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flags: list[str], expected: int
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    code, out, err = run(capfd, *AUDIT, *flags)
    assert code == expected
    assert "1 leak in 1 finding: 1 low." in out
    assert f"error: could not log to MLflow at http://127.0.0.1:{port}: " in err
    assert "the audit is finished and kept in runs/audit: log it again with the same command" in err
    assert (folder / "runs" / "audit" / "report.html").exists()
    assert "Traceback" not in err


def test_a_run_that_breaks_off_is_marked_as_failed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    (folder / "findings.json").write_text("{}")
    monkeypatch.setattr(MlflowClient, "log_artifact", full)
    with pytest.raises(BadInput, match="No space left on device; the audit is finished"):
        mlflow_log.log(full_record(), folder, "audits")
    (found,) = logged()
    assert found.info.status == "FAILED"


def test_what_is_no_number_is_left_out_and_a_score_beside_its_null_is_not() -> None:
    told = mlflow_log.metrics(full_record())
    assert told["leak.gradient-extraction.api.agreement"] == 100
    assert told["leak.gradient-extraction.api.agreement.null"] == 71.3
    assert not [name for name in told if name.startswith("leak.hyperparameters")]
    assert {name.removeprefix("divulge.") for name in told if name.startswith("divulge.")} == {
        *thresholds.KEYS, "points", "rows", "requests", "seconds",
    }  # fmt: skip


def test_costs_are_those_of_attacks_and_of_what_was_sent_besides() -> None:
    record = replace(full_record(), sent={"looking": (4, 2), "scoring": (30, 1)})
    told, before = mlflow_log.metrics(record), mlflow_log.metrics(full_record())
    assert (told["divulge.rows"], told["divulge.requests"]) == (
        before["divulge.rows"] + 34,
        before["divulge.requests"] + 3,
    )
    assert told["divulge.points"] == sum(finding.cost.points for finding in record.findings)


@pytest.mark.parametrize("record", [hostile_record(), Record("", (), ()), Record("no leak", (), full_record().findings[3:])])
def test_any_record_can_be_logged(folder: Path, record: Record) -> None:
    mlflow_log.log(record, None, "audits")
    (found,) = logged()
    assert found.info.status == "FINISHED"
    assert found.data.tags["divulge.worst"]


def test_long_names_stay_below_what_mlflow_takes(folder: Path) -> None:
    finding = full_record().findings[0]
    long = replace(finding, scores={"x" * 400: Score(1.0, 0.0, "nothing")})
    mlflow_log.log(replace(full_record(), title="t" * 2000, findings=(long,)), None, "audits")
    (found,) = logged()
    assert sorted(len(name) for name in found.data.metrics)[-2:] == [250, 250]


def test_mlflow_is_imported_by_whoever_logs_and_by_nobody_else() -> None:
    script = "import sys, divulge.cli, divulge.mlflow_log, divulge.report.formats; print('mlflow' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
