"""A model behind the Open Inference Protocol V2 over HTTP, its explanations in the three spellings that servers use."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from divulge.contract import Array, Gradients, Predictions, option_class
from divulge.errors import BadInput
from divulge.targets.ledger import Ledger
from divulge.targets.wire import Wire, short

_NAME = r"[^/?#@\s]+"
_ADDRESS = re.compile(rf"(https?://{_NAME}(?:/{_NAME})*?)/v2/models/({_NAME})(?:/versions/({_NAME}))?/?")

Ask = Callable[[Array], Array]


@option_class
class RemoteModel:
    """What an audit file may say of a model behind a url; what is left out is read from the model's metadata."""

    input: str | None = None
    "The tensor that takes the points."
    output: str | None = None
    "The tensor that holds the values."
    explanation: str | None = None
    'Where gradients come from: "output:TENSOR", "model:NAME" (or "model:NAME:TENSOR"), or "v1".'
    dimension: PositiveInt | None = None
    "The width of one point."
    datatype: Literal["FP32", "FP64"] | None = None
    "The precision in which the model takes points."
    batch: PositiveInt = 256
    "Rows a request."
    timeout: PositiveFloat = 30.0
    "Seconds to wait for an answer."
    token_env: str | None = None
    "The environment variable that holds the bearer token, which never stands in a file."


def connect(kind: str, url: str, options: Mapping[str, Any], *, ledger: Path | None = None) -> Predictions | Gradients:
    """A model on a server as something held; `kind` is predictions or gradients.

    Without a ledger, answers are kept in memory. A server that states no version is first asked for two fixed points,
    past the ledger, so that answers of a model that has been replaced are never taken for those of the new one.
    """
    if kind not in ("gradients", "predictions"):
        raise BadInput(f"expected gradients or predictions of a model behind a url, got {kind}; give {kind} as a file")
    chosen = RemoteModel(**options)
    explanation = re.fullmatch("(v1)|(output|model):(.+)", chosen.explanation or "")
    if kind == "gradients" and explanation is None:
        raise BadInput(
            f"expected an option that says where gradients come from, got explanation = {chosen.explanation!r}; "
            'write "output:TENSOR", "model:NAME" or "v1"'
        )
    if kind == "predictions" and chosen.explanation is not None:
        raise BadInput("option 'explanation' is for kind gradients, got it for predictions; change the kind or leave it out")
    model = _Model.read(Wire(chosen.timeout, chosen.token_env), url, chosen)
    book = Ledger(ledger or ":memory:")
    if explanation is None:
        values = model.values(model.output(chosen.output), book)
        return Predictions(values, model.dimension, values.identity)
    where, what = explanation[1] or explanation[2], explanation[3]
    values = model.values(model.output(chosen.output, besides=what if where == "output" else None), book)
    if where == "output":
        explained = model.gradients(model.output(what), book)
    elif where == "model":
        name, _, tensor = what.partition(":")
        sibling = _Model.read(model.wire, f"{model.root}/v2/models/{name}", chosen, like=model)
        explained = sibling.gradients(sibling.output(tensor or None), book)
    else:
        explained = model.v1_gradients(book)
    return Gradients(values, model.dimension, f"{values.identity}; {explained.identity}", gradient=explained)


@dataclass(frozen=True)
class _Queries:
    """Points in, answers out, through the ledger."""

    model: _Model
    kind: str
    ask: Ask
    identity: str
    book: Ledger

    def __call__(self, X: Array) -> Array:
        return self.book.answer(self.identity, self.kind, self.model.points(X), self.ask, batch=self.model.chosen.batch)


@dataclass(frozen=True)
class _Model:
    """One model of a server, as its metadata and the options describe it."""

    wire: Wire
    chosen: RemoteModel
    root: str
    name: str
    url: str
    version: str | None
    platform: str
    input: str
    item: tuple[int, ...]
    "The shape of one point on the wire."
    datatype: str
    outputs: tuple[str, ...]
    "Empty where the metadata does not list them."

    @classmethod
    def read(cls, wire: Wire, url: str, chosen: RemoteModel, like: _Model | None = None) -> _Model:
        """Ask a server about a model; a sibling takes its points `like` the model it explains where it says nothing."""
        address = _ADDRESS.fullmatch(url)
        if address is None:
            raise BadInput(
                f"expected a url such as http://127.0.0.1:8080/v2/models/mine, got {url!r}; name server and model"
            )
        root, name, version = address.groups()
        said = wire.send("GET", url.rstrip("/"))
        try:
            versions = [str(stated) for stated in said.get("versions") or ()]
            inputs = {str(tensor["name"]): tensor for tensor in said.get("inputs") or ()}
            shapes = {key: tuple(int(side) for side in tensor["shape"]) for key, tensor in inputs.items()}
            datatypes = {key: str(tensor["datatype"]) for key, tensor in inputs.items()}
            outputs = tuple(str(tensor["name"]) for tensor in said.get("outputs") or ())
        except (AttributeError, KeyError, TypeError, ValueError):
            raise BadInput(
                f"expected V2 model metadata at {url}, got {short(said)}; check that the server speaks V2"
            ) from None
        if version is None and len(versions) > 1:
            raise BadInput(
                f"{url} has versions {', '.join(versions)} and an audit is of one; add /versions/{versions[-1]} to the url"
            )
        wanted = chosen.input if like is None else like.input if not inputs else None
        tensor = _choose("input", wanted, tuple(inputs), url)
        if tensor is None:
            raise BadInput(f"expected the metadata of {url} to list its inputs, got none; name one with option 'input'")
        dimension = chosen.dimension if like is None else like.dimension
        datatype = chosen.datatype or datatypes.get(tensor, "FP64")
        if datatype not in ("FP32", "FP64"):
            raise BadInput(
                f"expected input {tensor!r} of {url} to take FP32 or FP64, got {datatype}; serve the model on real numbers"
            )
        return cls(
            wire=wire, chosen=chosen, root=root, name=name, url=url.rstrip("/"),
            version=version or (versions[0] if versions else None), platform=str(said.get("platform") or ""),
            input=tensor, item=_item(shapes.get(tensor, ()), dimension, url), datatype=datatype, outputs=outputs,
        )  # fmt: skip

    @property
    def dimension(self) -> int:
        return math.prod(self.item)

    def output(self, wanted: str | None, besides: str | None = None) -> str | None:
        """The name of an output, or None where it is the only one of a server that does not list them."""
        names = self.outputs if wanted else tuple(name for name in self.outputs if name != besides)
        return _choose("output", wanted, names, self.url)

    def points(self, X: Array) -> Array:
        """Points as the server will see them: two that it cannot tell apart are one query."""
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or X.shape[1] != self.dimension:
            raise BadInput(f"expected query points of shape (n, {self.dimension}), got {X.shape}; reshape them")
        with np.errstate(over="ignore"):
            X = X.astype(np.float32 if self.datatype == "FP32" else np.float64).astype(float)
        if not np.isfinite(X).all():
            raise BadInput(f"expected query points that {self.datatype} can hold, got NaN or infinity; scale them down")
        return X

    def values(self, output: str | None, book: Ledger) -> _Queries:
        return self._queries(f"value {output or ''}", lambda X: self.infer(X, output).reshape(len(X), -1), book)

    def gradients(self, output: str | None, book: Ledger) -> _Queries:
        return self._queries(f"gradient {output or ''}", lambda X: self._gradients(self.infer(X, output)), book)

    def v1_gradients(self, book: Ledger) -> _Queries:
        return self._queries("v1 explanation", lambda X: self._gradients(self.explain(X)), book)

    def _queries(self, kind: str, ask: Ask, book: Ledger) -> _Queries:
        """Answers of one kind, under an identity that no other version of the model shares."""
        if self.version is not None:
            version = f"version {self.version}"
        else:
            fixed = self.points(np.random.default_rng(0).standard_normal((2, self.dimension)))
            version = f"answering {hashlib.sha256(ask(fixed).tobytes()).hexdigest()[:32]}"
        return _Queries(self, kind, ask, f"{self.url} {version} {self.platform} {self.datatype} {kind}", book)

    def infer(self, X: Array, output: str | None) -> Array:
        """One output (n, ...) at points (n, dimension), in one request."""
        shape = [len(X), *self.item]
        tensor = {"name": self.input, "shape": shape, "datatype": self.datatype, "data": X.ravel().tolist()}
        body: dict[str, Any] = {"inputs": [tensor]}
        if output is not None:
            body["outputs"] = [{"name": output}]
        answer = self.wire.send("POST", f"{self.url}/infer", body)
        try:
            version = answer.get("model_version")
            tensors = {str(tensor["name"]): tensor for tensor in answer["outputs"]}
            name = _choose("output", output, tuple(tensors), self.url)
            shape, data = tensors[str(name)]["shape"], tensors[str(name)]["data"]
        except (AttributeError, KeyError, TypeError):
            raise BadInput(f"expected a V2 answer from {self.url}, got {short(answer)}; check the server") from None
        if self.version and version and str(version) != self.version:
            raise BadInput(
                f"expected version {self.version} at {self.url}, got an answer from version {version}; "
                "the model was replaced meanwhile: run the audit again"
            )
        return self._numbers(data, shape, len(X), f"output {name!r}")

    def explain(self, X: Array) -> Array:
        """KServe's older call: explanations (n, ...) at points (n, dimension)."""
        url = f"{self.root}/v1/models/{self.name}:explain"
        answer = self.wire.send("POST", url, {"instances": X.reshape(-1, *self.item).tolist()})
        rows = answer.get("explanations") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise BadInput(f"expected a list of explanations from {url}, got {short(answer)}; check that it gives gradients")
        return self._numbers(rows, None, len(X), "explanations")

    def _numbers(self, data: Any, shape: Any, count: int, what: str) -> Array:
        try:
            array = np.asarray(data, dtype=float)  # null, as JSON spells NaN, becomes NaN
            array = array if shape is None else array.reshape([int(side) for side in shape])
        except (TypeError, ValueError):
            raise BadInput(
                f"expected numbers of shape {shape} in {what} of {self.url}, got {short(data)}; choose another output"
            ) from None
        if array.shape[:1] != (count,):
            raise BadInput(
                f"expected {count} rows in {what} of {self.url} for {count} points, got shape {array.shape}; "
                "check that the model answers each row, or set batch = 1"
            )
        if not np.isfinite(array).all():
            raise BadInput(
                f"expected finite numbers in {what} of {self.url}, got NaN or infinity; check that it takes such points"
            )
        return array

    def _gradients(self, answer: Array) -> Array:
        """(n, dimension) or (n, outputs, dimension), from whatever shape a point has on the wire."""
        row, size = answer.shape[1:], self.dimension
        if math.prod(row) == size:
            return answer.reshape(-1, size)
        if row[-1:] == (size,) or row[-len(self.item) :] == self.item:
            return answer.reshape(len(answer), -1, size)
        raise BadInput(
            f"expected explanations of shape (n, {size}) or (n, outputs, {size}) from {self.url}, got {answer.shape}; "
            "choose the output that holds input gradients"
        )


def _choose(what: str, wanted: str | None, names: tuple[str, ...], url: str) -> str | None:
    """The tensor that is wanted or the only one; what a server does not list cannot be checked."""
    listed = ", ".join(names)
    if wanted is not None and names and wanted not in names:
        raise BadInput(f"expected {what} {wanted!r} of {url}, got a model that has: {listed}; use one of these")
    if wanted is None and len(names) > 1:
        raise BadInput(f"expected one {what} of {url}, got {listed}; choose one with option '{what}'")
    return wanted or (names[0] if names else None)


def _item(shape: tuple[int, ...], dimension: int | None, url: str) -> tuple[int, ...]:
    """The shape of one point: what the metadata says after the batch, or the dimension."""
    item = shape[1:]
    if not item or min(item) < 1:
        if dimension is None:
            raise BadInput(f"{url} does not say how wide a point is (shape {list(shape)}); give option 'dimension'")
        return (dimension,)
    if dimension not in (None, math.prod(item)):
        raise BadInput(
            f"expected points of width {dimension} at {url}, got a model of shape {list(shape)}; correct 'dimension'"
        )
    return item
