"""Audits logged to MLflow's own tracking server, which keeps them in a database and the artifacts itself."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from mlflow import MlflowClient

from divulge.auditing import reopen
from divulge.mlflow_log import metrics, parameters
from divulge.report import sarif
from divulge.serving.processes import PATIENCE, STARTS, free_ports, is_ready

from ..test_audit_file import EXAMPLES, make_files
from .conftest import ENVIRONMENTS, stop

pytestmark = pytest.mark.servers


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a tracking server with an SQLite database, on loopback."""
    log, home = tmp_path / "log", tmp_path / "server"
    home.mkdir()
    command = [str(Path(str(ENVIRONMENTS)) / "mlflow" / "bin" / "python"), "-m", "mlflow", "server", "--workers", "1"]
    command += ["--host", "127.0.0.1", "--backend-store-uri", f"sqlite:///{home}/mlflow.db"]
    command += ["--artifacts-destination", str(home / "artifacts"), "--port"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["MLFLOW_DISABLE_TELEMETRY"] = "true"
    for _ in range(STARTS):
        (port,) = free_ports(1)
        with log.open("a") as output:
            process = subprocess.Popen(
                [*command, str(port)], env=environment, cwd=home, stdout=output, stderr=output, start_new_session=True
            )
        try:
            if is_ready(f"http://127.0.0.1:{port}/health", process):
                yield f"http://127.0.0.1:{port}"
                return
        finally:
            stop(process)
    pytest.fail(f"mlflow server did not start:\n{log.read_text()}")


def test_an_audit_from_the_command_line_is_read_back_from_the_server(server: str, tmp_path: Path) -> None:
    home = tmp_path / "audit"
    home.mkdir()
    make_files(home)
    (home / "audit.toml").write_text((EXAMPLES / "fitted-skops.toml").read_text("utf-8"))
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": server,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "NO_PROXY": "127.0.0.1",
    }
    flags = ["--mlflow", "audits of models", "--format", "sarif,junit", "--fail-on", "hyperparameters>=1", "--json"]
    command = [sys.executable, "-m", "divulge.cli", "audit", "audit.toml", *flags]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1, done.stderr
    assert "fails on hyperparameters>=1: 1 leak of hyperparameters" in done.stderr
    assert json.loads(done.stdout)["leaks"] == 1

    client = MlflowClient(server)
    known = client.get_experiment_by_name("audits of models")
    assert known is not None
    (found,) = client.search_runs([known.experiment_id])
    record = reopen(home / "runs" / "audit")
    assert f"mlflow: run {found.info.run_id} in experiment 'audits of models' at {server}" in done.stderr
    assert found.info.status == "FINISHED"
    assert found.data.params == parameters(record)
    assert found.data.metrics == pytest.approx(metrics(record))
    assert found.data.tags["divulge.worst"] == record.findings[0].summary
    files = {each.path for each in client.list_artifacts(found.info.run_id)}
    assert {"report.html", "report.sarif", "report.junit.xml", "findings.json"} <= files
    place = f"{server}/get-artifact?path=report.sarif&run_uuid={found.info.run_id}"
    with build_opener(ProxyHandler({})).open(place) as answer:
        assert answer.read().decode() == sarif.render(record)
