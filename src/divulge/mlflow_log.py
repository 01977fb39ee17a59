"""An audit as a run of MLflow: what leaked as metrics, how it was audited as parameters, the report as artifacts."""

from __future__ import annotations

import math
import re
import sys
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from divulge.contract import Record
from divulge.errors import BadInput
from divulge.report import headline, overview, severity, thresholds, wording
from divulge.report.overview import Leak

ARTIFACTS = ("report.html", "report.json", "report.sarif", "report.junit.xml", "findings.json")
"What is logged of a run folder where it is there: not the arrays, which hold what was stolen, and not the ledger."
LONGEST = 250
"Characters that MLflow takes as the name of a metric."
PARAMETER = 500
"Characters of a parameter; servers before MLflow 2.8 took no more."
BATCH = 500
"Metrics in one request; MLflow takes 1,000 of everything together."


def check(experiment: str) -> None:
    """Refuse what could not be logged, before an audit runs."""
    if not experiment.strip():
        raise BadInput("expected the name of an MLflow experiment, got an empty one; name one, as in --mlflow audits")
    _client()


def log(record: Record, folder: Path | None, experiment: str) -> str:
    """Log a record, with the report that lies in its run folder, as one run; the answer says where it is."""
    check(experiment)
    with redirect_stdout(sys.stderr):  # the client prints addresses, and what is printed may be JSON
        return _logged(_client(), record, folder, experiment)


def parameters(record: Record) -> dict[str, str]:
    """How it was audited: title, seed, versions, which attacks ran."""
    ran = dict.fromkeys(finding.provenance.attack for finding in record.findings)
    versions = {f"version.{_named(name)}": version for name, version in record.versions.items()}
    return {"title": record.title or "Audit", "seed": str(record.seed), "attacks": ", ".join(ran) or "none", **versions}


def metrics(record: Record) -> dict[str, float]:
    """How much leaked, what it cost, and the headline score of every leak beside its null; what is no number is left out."""
    found: dict[str, float] = {f"divulge.{key}": float(n) for key, n in thresholds.count(record).items()}
    behind = (finding for trial in record.trials for finding in trial.findings)
    costs = [finding.cost for finding in (*record.findings, *behind)]
    besides = list(record.sent.values())
    found["divulge.points"] = sum(cost.points for cost in costs)
    found["divulge.rows"] = sum(cost.rows for cost in costs) + sum(rows for rows, _ in besides)
    found["divulge.requests"] = sum(cost.requests for cost in costs) + sum(requests for _, requests in besides)
    found["divulge.seconds"] = sum(cost.seconds for cost in costs)
    for leak in overview.leaks(record):
        found.update(_scores(leak))
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def tags(record: Record) -> dict[str, str]:
    """What one reads in a list of runs: the version, whether the audit got to its end, the worst finding."""
    leaks = overview.leaks(record)
    worst = leaks[0].edge.finding.summary if leaks else headline.sentences(record)[0]
    return {
        "divulge.version": record.versions.get("divulge", "unknown"),
        "divulge.complete": str(record.complete).lower(),
        "divulge.worst": worst[:PARAMETER],
        "divulge.worst_severity": str(leaks[0].rating.severity) if leaks else "none",
    }


def _logged(client: Any, record: Record, folder: Path | None, experiment: str) -> str:
    run = None
    try:
        known = client.get_experiment_by_name(experiment)
        home = known.experiment_id if known else client.create_experiment(experiment)
        run = client.create_run(home, run_name=record.title or None, tags=tags(record)).info.run_id
        _log_numbers(client, run, record)
        for artifact in (folder / name for name in ARTIFACTS) if folder else ():
            if artifact.exists():
                client.log_artifact(run, str(artifact))
        client.set_terminated(run)
    except Exception as error:  # MLflow's own, of the HTTP client below it, of a disk: whatever it is, the audit is done
        _give_up(client, run)
        kept = f"; the audit is finished and kept in {folder}: log it again with the same command" if folder else ""
        raise BadInput(f"could not log to MLflow at {client.tracking_uri}: {_short(error)}{kept}") from None
    return f"run {run} in experiment {experiment!r} at {client.tracking_uri}"


def _scores(leak: Leak) -> dict[str, float]:
    first = severity.headline(leak.edge.finding)
    if first is None:
        return {}
    name, score = first
    place = _named(f"leak.{leak.edge.finding.provenance.attack}.{' and '.join(leak.edge.sources)}.{name}")
    return {place[:LONGEST]: score.value, f"{place[: LONGEST - 5]}.null": score.null}


def _named(text: str) -> str:
    """Text as MLflow takes names: letters, digits, blanks, points, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9_. -]", "_", text).strip()


def _log_numbers(client: Any, run: str, record: Record) -> None:
    """Parameters and metrics, in as few requests as MLflow takes them."""
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    client.log_batch(run, params=[Param(name, value[:PARAMETER]) for name, value in parameters(record).items()])
    told = [Metric(name, value, now, 0) for name, value in metrics(record).items()]
    for start in range(0, len(told), BATCH):
        client.log_batch(run, metrics=told[start : start + BATCH])


def _client() -> Any:
    try:
        from mlflow import MlflowClient
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "mlflow":
            raise
        raise BadInput("logging to MLflow needs mlflow, which is missing; pip install 'divulge[mlflow]'") from None
    try:
        return MlflowClient()
    except Exception as error:  # an address that MLflow cannot use
        raise BadInput(
            "MLflow cannot log where it is told to; set MLFLOW_TRACKING_URI to a server, as in http://127.0.0.1:5000, or "
            f"install all of mlflow for a database: {_short(error)}"
        ) from None


def _short(error: Exception) -> str:
    """The start of what an error says, in one line."""
    return wording.shorten(" ".join(str(error).split()) or type(error).__name__)


def _give_up(client: Any, run: str | None) -> None:
    """Mark a run that was begun as failed, if the server still answers."""
    if run is None:
        return
    with suppress(Exception):
        client.set_terminated(run, status="FAILED")
