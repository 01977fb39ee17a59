"""A record for other programs: one JSON document, in the form that `report.schema.json` gives. No arrays are in it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from divulge.contract import ASSETS, Evidence, Finding, Record, Score, Trial
from divulge.report import overview, severity, trials
from divulge.report.overview import Leak
from divulge.storage import pack

SCHEMA = "urn:divulge:report:1"
"What the form is called; another number where a program that reads this one could misread it."


def schema() -> str:
    """The form, as JSON Schema 2020-12."""
    return resources.files("divulge.report").joinpath("report.schema.json").read_text("utf-8")


def describe(record: Record) -> dict[str, Any]:
    """Everything that a record says in words and numbers, in types that JSON has; NaN and infinities become None."""
    described: dict[str, Any] = _plain(_document(record))
    return described


def _document(record: Record) -> dict[str, Any]:
    counts = overview.counts(record)
    levels = [str(level) for level in reversed(severity.Severity)]
    named = [key for key in counts if key not in ("leaks", *levels, *ASSETS)]
    return {
        "schema": SCHEMA,
        "title": record.title,
        "divulge": record.versions.get("divulge"),
        "complete": record.complete,
        "seed": record.seed,
        "versions": dict(record.versions),
        "holdings": [
            {
                "name": thing.name,
                "kind": thing.kind,
                "source": thing.source,
                "fingerprint": thing.fingerprint,
                "won_by": thing.won_by or None,
            }
            for thing in record.holdings
        ],
        "leaks": counts["leaks"],
        "leaks_by_severity": {level: counts[level] for level in levels},
        "leaks_by_asset": {asset or "unnamed": counts[asset] for asset in (*ASSETS, *named)},
        "rule": severity.RULE,
        "findings": _findings(record),
        "not_started": dict(record.unmet),
        "broken_plugins": dict(record.broken),
        "sent": {who: {"rows": rows, "requests": requests} for who, (rows, requests) in record.sent.items()},
        "trials": [_trial(trial, record) for trial in record.trials],
    }


def _findings(record: Record) -> list[dict[str, Any]]:
    """Every finding, in the order of the record."""
    leaks = {leak.edge.number: leak for leak in overview.leaks(record)}
    return [_finding(number, finding, leaks.get(number)) for number, finding in enumerate(record.findings, 1)]


def _finding(number: int, finding: Finding[Any], leak: Leak | None) -> dict[str, Any]:
    origin, values = finding.provenance, getattr(finding.loot, "values", None)
    intervals = getattr(finding.loot, "intervals", None)
    return {
        "number": number,
        "attack": origin.attack,
        "role": origin.role,
        "title": origin.title or None,
        "asset": severity.asset_of(finding) or None,
        "verdict": finding.verdict.value,
        "summary": finding.summary,
        "power": finding.power or None,
        "severity": str(leak.rating.severity) if leak else None,
        "rating": _rating(leak) if leak else None,
        "inputs": dict(origin.inputs),
        "claimed": origin.claimed,
        "won": origin.won or None,
        "loot": values if isinstance(values, Mapping) else None,
        "intervals": (intervals or None) if isinstance(intervals, Mapping) else None,
        "evidence": _evidence(finding.evidence),
        "scores": {name: _score(score, name in finding.measured) for name, score in finding.scores.items()},
        "notes": list(finding.notes),
        "remedies": [{"action": one.action, "measured": one.measured or None} for one in finding.remedy],
        "taxonomy": [
            {"taxonomy": one.taxonomy, "version": one.version, "id": one.id, "title": one.title or None}
            for one in finding.taxonomy
        ],
        "points": finding.cost.points,
        "rows": finding.cost.rows,
        "requests": finding.cost.requests,
        "seconds": round(finding.cost.seconds, 3),
        "partial": finding.partial,
        "options": origin.options,
        "paper": origin.paper or None,
        "seed": origin.seed,
        "versions": dict(origin.versions),
    }


def _rating(leak: Leak) -> dict[str, Any]:
    rating = leak.rating
    return {
        "worth": rating.worth,
        "sure": rating.sure,
        "price": rating.price,
        "points": rating.points,
        "seconds": round(rating.seconds, 3),
    }


def _score(score: Score, measured: bool) -> dict[str, Any]:
    return {
        "value": score.value,
        "null": score.null,
        "null_of": score.null_of,
        "interval": score.interval,
        "unit": score.unit or None,
        "better": score.better,
        "published": score.published,
        "measured": measured,
    }


def _trial(trial: Trial, record: Record) -> dict[str, Any]:
    behind = trials.behind(record, trial)
    table = trials.table(record, trial)
    again = _findings(behind)[-len(trial.findings) :] if trial.findings else []
    return {
        "defence": trial.defence,
        "settings": trial.told,
        "guarded": list(trial.guarded),
        "sentence": table.sentence,
        "kept": {name: {"without": without, "with": guarded} for name, (without, guarded) in trial.kept.items()},
        "unmeasured": list(trial.unmeasured),
        "leaks": table.remaining + table.new,
        "partial": trial.partial,
        "findings": [{**finding, "number": number} for number, finding in enumerate(again, 1)],
    }


def _evidence(evidence: Evidence | None) -> dict[str, Any] | None:
    tree, _ = pack(evidence)
    return None if tree is None else {"kind": tree["of"], **_without_arrays(tree["is"])}


def _plain(value: Any) -> Any:
    """The numbers and the text of a value; what has arrays is in the run folder."""
    return _without_arrays(pack(value)[0])


def _without_arrays(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_arrays(item) for item in tree if not _is_array(item)]
    if not isinstance(tree, dict):
        return tree
    kind = tree.get("$")
    if kind in ("tuple", "scalar"):
        return _without_arrays(tree["is"])
    if kind == "float":
        return None
    if kind == "dict":  # keys that are no text
        return {str(_without_arrays(key)): _without_arrays(item) for key, item in tree["is"] if not _is_array(item)}
    return {key: _without_arrays(item) for key, item in tree.items() if not _is_array(item)}


def _is_array(tree: Any) -> bool:
    return isinstance(tree, dict) and tree.get("$") in ("array", "sparse")
