"""The handshake of the Open Inference Protocol V2: what a model's metadata says of its tensors, types and versions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from divulge.errors import BadInput, TargetFailed
from divulge.targets.messages import parsed
from divulge.targets.protocols import Call, Preset, explained
from divulge.targets.wire import Refused, Wire, short

_NAME = r"[^/?#@\s]+"
_ADDRESS = re.compile(rf"(https?://{_NAME}(?:/{_NAME})*?)/v2/models/({_NAME})(?:/versions/({_NAME}))?/?")


@dataclass(frozen=True)
class Metadata:
    """One model of a server, as it describes itself and as the auditor corrects it."""

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
    def read(
        cls, wire: Wire, url: str, *, input: str | None = None, dimension: int | None = None, datatype: str | None = None,
        like: Metadata | None = None,
    ) -> Metadata:  # fmt: skip
        """Ask a server about a model; a sibling takes its points `like` the model it explains where it says nothing."""
        with wire.discreet():
            return cls._read(wire, url, input, dimension, datatype, like)

    @classmethod
    def _read(
        cls, wire: Wire, url: str, input: str | None, dimension: int | None, datatype: str | None, like: Metadata | None
    ) -> Metadata:
        address = _ADDRESS.fullmatch(url)
        if address is None:
            raise BadInput(
                f"expected a url such as http://127.0.0.1:8080/v2/models/mine, got {url!r}; name server and model"
            )
        root, name, version = address.groups()
        url = url.rstrip("/")
        try:
            said = parsed(wire.send("GET", url, first=True), url)
        except Refused as error:
            raise _with_models(error, wire, root, name) from None
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
        wanted = input if like is None else like.input if not inputs else None
        tensor = _choose("input", wanted, tuple(inputs), url)
        if tensor is None:
            raise BadInput(f"expected the metadata of {url} to list its inputs, got none; name one with option 'input'")
        dimension = dimension if like is None else math.prod(like.item)
        datatype = datatype or datatypes.get(tensor, "FP64")
        if datatype not in ("FP32", "FP64"):
            raise BadInput(
                f"expected input {tensor!r} of {url} to take FP32 or FP64, got {datatype}; serve the model on real numbers"
            )
        return cls(
            root=root, name=name, url=url, version=version or (versions[0] if versions else None),
            platform=str(said.get("platform") or ""), input=tensor, item=_item(shapes.get(tensor, ()), dimension, url),
            datatype=datatype, outputs=outputs,
        )  # fmt: skip

    def output(self, wanted: str | None, besides: str | None = None) -> str | None:
        """The name of an output, or None where it is the only one of a server that does not list them."""
        names = self.outputs if wanted else tuple(name for name in self.outputs if name != besides)
        return _choose("output", wanted, names, self.url)

    def predict(self, preset: Preset, output: str | None) -> Call:
        """The call for one output."""
        call = preset.predict
        if output is None:
            call = call.but({"body": preset.forms["unnamed"], "answer": "$.outputs[0]"})
        return self._filled(call, output, None)

    def explain(self, preset: Preset, output: str | None, explanation: str) -> Call:
        """The call for an output and its explanation, which come in one answer."""
        return self._filled(explained(preset.predict, preset.explain or {}), output, explanation)

    def guard(self, said: Any) -> None:
        """Refuse what another version than the one looked at has answered."""
        version = said.get("model_version") if isinstance(said, dict) else None
        if self.version and version and str(version) != self.version:
            raise TargetFailed(
                f"expected version {self.version} at {self.url}, got an answer from version {version}; "
                "the model was replaced meanwhile: run the audit again"
            )

    def _filled(self, call: Call, output: str | None, explanation: str | None) -> Call:
        names = {"INPUT": self.input, "DATATYPE": self.datatype, "OUTPUT": output, "EXPLANATION": explanation}

        def fill(text: Any, quote: Callable[[str], str]) -> Any:
            if not isinstance(text, str):
                return text
            return re.sub(r"\$(INPUT|DATATYPE|OUTPUT|EXPLANATION)\b", lambda match: quote(names[match[1]] or ""), text)

        def in_json(name: str) -> str:
            return json.dumps(name)[1:-1]

        def in_path(name: str) -> str:
            return name.replace("\\", "\\\\").replace("'", "\\'")

        said = {"body": fill(call.body, in_json)} | {n: fill(getattr(call, n), in_path) for n in ("answer", "values")}
        return call.but(said)


def models(wire: Wire, root: str) -> list[str]:
    """The models that a server says it has; some say nothing."""
    for method, url, content in (
        ("POST", f"{root}/v2/repository/index", b"{}"),
        ("GET", f"{root}/v2/models", None),
        ("GET", f"{root}/v1/models", None),
    ):
        try:
            headers = {"Content-Type": "application/json"} if content else {}
            said = parsed(wire.send(method, url, content, headers, first=True), url)
        except TargetFailed:
            continue
        listed = said.get("models") if isinstance(said, dict) else said
        names = [one.get("name") if isinstance(one, dict) else one for one in listed] if isinstance(listed, list) else []
        if found := sorted({name for name in names if isinstance(name, str)}):
            return found
    return []


def _with_models(error: Refused, wire: Wire, root: str, name: str) -> Refused:
    """A refusal because of a wrong name also says which names are right."""
    there = models(wire, root) if error.status in (400, 404) else []
    if not there or name in there:
        return error
    sentence = str(error).rpartition(";")[0]
    return Refused(f"{sentence}; the server has: {', '.join(there)}; use one of these", error.status)


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
