"""`divulge init`: look at files or an address, say what they are, and write an audit file that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from divulge.audit_file import parse_source
from divulge.contract import Array, Explanation, Gradients, Predictions, Weights
from divulge.contract.service import LOOKING, Account
from divulge.errors import BadInput

TARGETS = ("target", "label", "labels", "y", "class", "outcome", "price")
"What a column to predict is usually called; the last one unless one is called so."
POINTS = 16
"At which a model is looked at to tell probabilities from other numbers."
QUERIES = 20_000
"The budget that is suggested for a server: what the longest attack here asks of a network of 300 units, several times over."


@dataclass(frozen=True)
class Part:
    """A section of an audit file, with what a person should know of it."""

    name: str
    values: Mapping[str, Any]
    comments: Mapping[str, str] = field(default_factory=dict)
    "Key -> what it means, written beside it."
    facts: Mapping[str, str] = field(default_factory=dict)
    "What was seen, a few words each."


@dataclass(frozen=True)
class Written:
    """What `init` leaves behind."""

    path: Path
    facts: Mapping[str, Mapping[str, str]]
    "Source -> what it is."
    sent: tuple[int, int]
    "Rows and requests that it took to find out."


def named_after(sources: Sequence[str]) -> Path:
    """What an audit file of these sources is called where nobody says."""
    words = [re.sub(r"^\w+://", "", source.partition("#")[0]) for source in sources[:1]] or ["AUDIT"]
    return Path(re.sub(r"[^\w.]+", "-", words[0]).strip("-.") + ".toml")


def write(sources: Sequence[str], path: Path, *, force: bool = False, allow_pickle: bool = False) -> Written:
    """Look at sources and write the audit file; what is there already is kept unless `force` says otherwise."""
    if not sources:
        raise BadInput("expected files or an address to look at, got none; as in divulge init model.skops train.csv")
    if path.exists() and not force:
        raise BadInput(f"{path} is there already; choose another name with --out, or replace it with --force")
    addresses = [source for source in sources if "://" in source]
    files = [source for source in sources if "://" not in source]
    if len(addresses) > 1:
        raise BadInput(f"expected one address, got {len(addresses)}; make an audit file for each")
    parts: list[tuple[str, Part]] = []
    account = Account(LOOKING)
    seen = _Files(files, path.parent, allow_pickle)
    for source in addresses:
        parts.append((source.partition("#")[0], address(source, account, seen.width, seen.columns)))
    parts += seen.parts(bool(addresses))
    if not (addresses or seen.models or seen.scores or seen.pipelines):
        raise BadInput(
            "expected something that an attacker holds, such as a model or an address, got data alone; name the model too"
        )
    text = _document(parts, sources, budget=bool(addresses))
    from divulge import audit_file, storage

    before = path.read_bytes() if path.exists() else None
    storage.write(path, text.encode())
    try:
        audit_file.check(path, allow_pickle=allow_pickle)
    except BadInput:
        if before is None:
            path.unlink()
        else:
            storage.write(path, before)
        raise
    facts: dict[str, dict[str, str]] = {}
    for source, part in parts:
        facts.setdefault(source, {}).update(part.facts)
    return Written(path, facts, (account.rows, account.requests))


def address(source: str, account: Account, width: int | None = None, columns: Sequence[str] = ()) -> Part:
    """What answers at an address; a file of its data tells how wide a point is, and what its features are called."""
    from divulge.targets import detection

    url, options = parse_source(source)
    if width is not None and not {"dimension", "shape", "columns"} & options.keys():
        options |= {"columns": list(columns)} if columns else {"dimension": width}
    found = detection.look(url, options, account)
    kind = explanation(found.held)
    facts = {"protocol": found.about or "described by hand", **described(found.held)}
    options = dict(found.options)
    if kind is not None:
        facts["explanations"] = str(kind)
        options |= {} if kind.kind == "unknown" else {"explained": _as_table(kind)}
    if found.notes:
        facts["tried in vain"] = "; ".join(found.notes)
    facts["asked"] = f"{account.rows} rows in {account.requests} requests"
    comments = {
        "kind": "values and explanations on query" if found.kind == "gradients" else "values on query",
        "protocol": "divulge init knows eleven; docs/services.md shows how to describe another",
        "dimension": "numbers in one point",
        "answer": "where the values are, as a JSONPath",
        "explanation": "where explanations are",
        "explained": f"what they are: {kind}; leave it out to let every attack find out",
        "output": "the output that holds the values",
    }
    return Part("held.api", {"kind": found.kind, "url": found.url, **options}, comments, facts)


def described(held: Predictions) -> dict[str, str]:
    """What a model's answers look like."""
    X = np.random.default_rng(1).standard_normal((POINTS, held.dimension))
    values = np.asarray(held.value(X), dtype=float).reshape(POINTS, -1)
    return {
        "inputs": f"{held.dimension} numbers",
        "outputs": f"{values.shape[1]} {_meaning(values)}",
        "precision": _precision(values),
    }


def explanation(held: Predictions) -> Explanation | None:
    """What kind of explanations a model gives, found by probes."""
    if not isinstance(held, Gradients):
        return None
    from divulge.solvers.piecewise import explanation_kind

    return explanation_kind.probe(held.value, held.gradient, held.dimension, np.random.default_rng(2))


def _as_table(said: Explanation) -> dict[str, Any]:
    """A kind of explanations as an audit file tells it; a baseline where it is one number."""
    told: dict[str, Any] = {"kind": said.kind, "of": said.of}
    if said.absolute:
        told["absolute"] = True
    if said.normalised:
        told["normalised"] = said.normalised
    if said.baseline is not None and np.ptp(said.baseline) == 0:
        told["baseline"] = float(np.ravel(said.baseline)[0])
    return told


def _meaning(values: Array) -> str:
    if np.array_equal(values, np.round(values)):
        return "whole numbers: classes rather than values, which most attacks cannot use"
    if values.min() >= 0 and values.max() <= 1:
        if values.shape[1] > 1 and np.allclose(values.sum(1), 1, atol=1e-3):
            return "probabilities that add up to 1"
        return "between 0 and 1: probabilities, it seems"
    return "real numbers: logits, or the values of a regression"


def _precision(values: Array) -> str:
    with np.errstate(over="ignore"):
        if np.array_equal(values, values.astype(np.float32)):
            return "single"
    for digits in range(1, 9):
        if np.array_equal(values, np.round(values, digits)):
            return f"rounded to {digits} decimals"
    return "double"


class _Files:
    """Files, each as what it most probably is."""

    def __init__(self, names: Sequence[str], home: Path, allow_pickle: bool) -> None:
        self.home, self.allow_pickle = home, allow_pickle
        self.models: list[tuple[str, str]] = []
        self.networks: dict[str, Weights] = {}
        "Those in files, by name."
        "File and kind."
        self.data: list[tuple[str, dict[str, Any]]] = []
        "File and its options."
        self.scores: list[str] = []
        self.pipelines: list[str] = []
        self.facts: dict[str, dict[str, str]] = {}
        self.columns: list[str] = []
        self.width: int | None = None
        for name in names:
            self._sort(name)

    def parts(self, served: bool) -> list[tuple[str, Part]]:
        """Sections: a model is held; its data is held too where an attack needs it, and else the truth."""
        found: list[tuple[str, Part]] = []
        fitted = [name for name, kind in self.models if kind == "fitted"]
        for number, (name, kind) in enumerate(self.models):
            called = "model" if kind == "fitted" else "network"
            called += str(number + 1) if len(self.models) > 1 else ""
            found.append((name, Part(f"held.{called}", {"kind": kind, "file": self._near(name)}, facts=self.facts[name])))
            if kind == "fitted":
                own = {"file": self._near(name)}
                note = {"file": "the model file knows what it was fitted with; only scoring reads it"}
                found.append((name, Part(f"truth.{called}.hyperparameters", own, note)))
        for number, (name, options) in enumerate(self.data):
            section = {"file": self._near(name), **options}
            if fitted and not number:
                held: dict[str, Any] = {"kind": "training_data", **section}
                found.append((name, Part("held.data", held, {"target": "the column to predict"}, self.facts[name])))
            elif not number and (self.models or served):
                note = {"file": "your own training data: scoring alone reads it"}
                found.append((name, Part("truth.training_data", section, note, self.facts[name])))
            else:
                note = {"kind": "points whose membership is in question"}
                held = {"kind": "candidates", **section}
                called = "points" if number < 2 else f"points{number}"
                found.append((name, Part(f"held.{called}", held, note, self.facts[name])))
        for name in self.scores:
            found.append((name, Part("held.scores", {"kind": "scores", "file": self._near(name)}, facts=self.facts[name])))
            if "member" in self.facts[name].get("columns", ""):
                found.append((name, Part("truth.membership", {"file": self._near(name)})))
        for name in self.pipelines:
            values = {"kind": "pipeline", "file": self._near(name), "learner": "logistic"}
            found.append((name, Part("held.pipeline", values, {"learner": "what it trains"}, self.facts[name])))
        return found

    def _near(self, name: str) -> str:
        """The file as an audit file beside it would name it."""
        path = Path(name)
        try:
            return str(path.resolve().relative_to(self.home.resolve()))
        except ValueError:
            return str(path.resolve())

    def _sort(self, name: str) -> None:
        from divulge.targets import models
        from divulge.targets.arrays import ROW_FILES, npz
        from divulge.targets.opening import contents
        from divulge.targets.tables import TABLES

        path = Path(name)
        ending = path.suffix.lower()
        known = tuple(dict.fromkeys((*models.ESTIMATOR_FILES, *models.NETWORK_FILES, *ROW_FILES)))
        blob = contents(path, known, "a model or its data")
        if ending in models.ESTIMATOR_FILES:
            self._estimator(name, path, blob)
        elif ending == ".npz":
            self._archive(name, path, npz(path, blob))
        elif ending in models.NETWORK_FILES:
            self._network(name, path)
        elif ending in TABLES:
            self._table(name, path, blob)
        else:
            self.data.append((name, {}))
            self._points(name, path, {})

    def _estimator(self, name: str, path: Path, blob: bytes) -> None:
        from divulge.contract import Fitted
        from divulge.targets.models import estimator

        model = estimator(path, blob, self.allow_pickle)
        called = type(model).__name__
        try:
            fitted = Fitted.of(model)
        except BadInput as error:
            held = Predictions.of(model)
            self.models.append((name, "predictions"))
            self.facts[name] = {"is": f"a fitted {called}", "held as": f"predictions, because {error}", **described(held)}
            return
        self.models.append((name, "fitted"))
        self.facts[name] = {"is": f"a fitted {called}", "held as": f"the parameters of a {fitted.learner} model"}
        if fitted.layers:
            with suppress(BadInput):  # other activations, other preparations
                network = Weights.of(model)
                also = 'a ReLU network: hold the file as kind = "weights" too, to look for training points in it'
                self.facts[name]["also"] = " ".join([also, *network.remarks])

    def _network(self, name: str, path: Path) -> None:
        from divulge.targets import files

        held = files.read("weights", path, {})
        assert isinstance(held, Weights)
        widths = [held.dimension, *(len(bias) for _, bias in held.layers)]
        self.width = self.width or held.dimension
        self.models.append((name, "weights"))
        self.facts[name] = {"is": f"a ReLU network {'-'.join(map(str, widths))}", "held as": "weights, read in full"}
        if held.remarks:
            self.facts[name]["as read"] = " ".join(held.remarks)
        for other, before in self.networks.items():
            with suppress(BadInput):  # other widths, or the same network
                replace(held, start=before.layers)
                self.facts[name]["also"] = (
                    f"as wide as {other}: if one of them was trained from the other, leave that one out and name it with "
                    'start = "..." in the section of the first: what training added is then exact'
                )
        self.networks[name] = held

    def _archive(self, name: str, path: Path, arrays: Mapping[str, Array]) -> None:
        if {"W1", "b1"} <= arrays.keys():
            self._network(name, path)
        elif {"X", "y", "X_val", "y_val"} <= arrays.keys():
            self.pipelines.append(name)
            self.facts[name] = {
                "is": f"a training process: {len(arrays['X'])} points and {len(arrays['X_val'])} to validate"
            }
        elif "coef" in arrays or "dual_coef" in arrays:
            raise BadInput(
                f"{name} holds coefficients and no name of what learned them; write the audit file by hand with "
                'learner = "...", as docs/examples/fitted-arrays.toml shows'
            )
        elif "X" in arrays:
            self.data.append((name, {}))
            self._points(name, path, {})
        else:
            listed = ", ".join(arrays) or "none"
            raise BadInput(
                f"expected arrays X and y, or W1 and b1, in {name}, got {listed}; name them so, or write the file"
            )

    def _table(self, name: str, path: Path, blob: bytes) -> None:
        from divulge.targets.tables import table

        frame = table(path, blob)
        columns = list(frame.columns)
        if {"record", "score"} <= set(columns):
            self.scores.append(name)
            self.facts[name] = {"is": f"membership scores of {len(frame)} records", "columns": ", ".join(columns)}
            return
        named = [column for column in columns if column.lower() in TARGETS]
        options = {"target": named[0] if named else columns[-1]} if len(columns) > 1 else {}
        self.data.append((name, options))
        self._points(name, path, options)
        self.columns = self.columns or [column for column in columns if column not in options.values()]

    def _points(self, name: str, path: Path, options: Mapping[str, Any]) -> None:
        from divulge.targets.arrays import rows

        found = rows(path, options, "points")
        count, width = len(found.X), int(np.prod(np.shape(found.X)[1:]))
        self.width = self.width or width
        beside = f", and {options['target']!r} to predict" if options else ", with labels" if found.y is not None else ""
        self.facts[name] = {"is": f"{count} points of {width} numbers{beside}"}


def _document(parts: Sequence[tuple[str, Part]], sources: Sequence[str], *, budget: bool) -> str:
    title = re.sub(r"^\w+://", "", sources[0].partition("#")[0]).rstrip("/")
    lines = [
        "# Written by divulge init: look through it, then run divulge audit on it.",
        f"title = {_toml(f'Audit of {Path(title).name or title}')}",
        "",
    ]
    for _, part in parts:
        lines.append(f"[{part.name}]")
        for key, value in part.values.items():
            said = f"{key} = {_toml(value)}"
            comment = part.comments.get(key, "")
            lines.append(f"{said}{' ' * max(1, 40 - len(said))}# {comment}" if comment else said)
        lines.append("")
    if budget:
        lines += [
            "[budget]",
            f"queries = {QUERIES}                         # rows that may be sent; answers are kept in the run folder",
            "",
            "# What you know and an attacker does not; only scoring reads it:",
            "# [truth.weights]",
            '# file = "network.safetensors"',
            "# [truth.training_data]",
            '# file = "train.npz"',
            "",
        ]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(inside)}" for key, inside in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
