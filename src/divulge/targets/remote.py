"""A model behind an address as something held, whatever protocol its server speaks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from divulge.contract import Gradients, Predictions, option_class
from divulge.contract.service import Account
from divulge.errors import BadInput, TargetFailed, refuse_unknown
from divulge.targets import oip, protocols
from divulge.targets.files import mean_of, started_from
from divulge.targets.messages import Answer, Body, Decode, parsed
from divulge.targets.oip import Metadata
from divulge.targets.protocols import Call, Preset, explained
from divulge.targets.service import Exchange, Guard, RemoteService, unguarded
from divulge.targets.signing import Signer
from divulge.targets.wire import Manners, Refused, Wire

OIP = "oip-v2"
EXPLANATIONS = 'a table such as explanation = { answer = "$.gradients" }'


@option_class
class RemoteModel:
    """What an audit file may say of a model behind a url; what is left out is the protocol's, or in the model's metadata."""

    protocol: str | None = None
    "The protocol by its name; without one, `body` and `answer` describe it."
    form: str | None = None
    "One of the bodies that the protocol knows, such as dataframe_split of mlflow."
    headers: dict[str, str] | None = None
    "Headers to send; `$NAME` in them is filled in from the environment, so that no secret stands in a file."
    body: str | None = None
    "What is sent, with `$X` where the points go."
    answer: str | list[str] | None = None
    "The JSONPath of the values in the answer; two where text in the answer holds JSON of its own."
    decode: Decode | None = None
    "json, string (JSON inside a string) or csv."
    columns: list[str] | None = None
    "The names of the features, in the order of a point's numbers."
    explanation: str | dict[str, Any] | None = None
    'Where gradients come from: a table of the same fields, or of V2 "output:TENSOR", "model:NAME[:TENSOR]", "v1".'
    input: str | None = None
    "The V2 tensor that takes the points."
    output: str | None = None
    "The V2 tensor that holds the values."
    dimension: PositiveInt | None = None
    "The width of one point."
    shape: Annotated[list[PositiveInt], Field(min_length=1)] | None = None
    "The shape that one point has on the wire; a list of numbers unless it says otherwise."
    pictures: Annotated[list[PositiveInt], Field(min_length=2, max_length=3)] | None = None
    "The shape of one point that is a picture, where it goes over the wire otherwise: height, width, and 3 for colours."
    mean: str | None = None
    "A file with what the model subtracts from every point, where the auditor knows it."
    start: str | None = None
    "A file with the network that the model was trained from, where that is public."
    datatype: Literal["FP32", "FP64"] | None = None
    "The precision in which the model takes points."
    batch: PositiveInt = 256
    "Rows a request."
    timeout: PositiveFloat = 30.0
    "Seconds to wait for an answer."
    patience: Annotated[float, Field(ge=0)] = 60.0
    "Seconds for which a server that is busy or restarting is asked again."
    repeat: NonNegativeInt = 0
    "How often a request is sent again that the server may have charged: timed out, cut off or unreadable."
    rate: PositiveFloat | None = None
    "Requests a second at most."
    concurrency: PositiveInt = 1
    "Requests under way at the same time."
    token_env: str | None = None
    "The environment variable that holds the bearer token, which never stands in a file."
    authority: str | None = None
    "A file of certificates that the server's is checked against."
    certificate: str | None = None
    "A file with the client's own certificate, where the server asks for one."
    key: str | None = None
    "The file of that certificate's key, where it is another one."
    proxy: str | None = None
    "The address of a proxy, in place of what the environment says."


def connect(
    kind: str, url: str, options: Mapping[str, Any], *, look: bool = True, account: Account | None = None
) -> Predictions | Gradients:
    """A model on a server as something held; `kind` is predictions or gradients.

    Answers are kept in memory, or in the run folder of the audit that uses it. The model is first asked for two fixed
    points, so that answers of one that has been replaced are never taken for those of the new one; without `look` not
    before the run folder is open, so that a killed run knows of these rows too.
    """
    if kind not in ("gradients", "predictions"):
        raise BadInput(f"expected gradients or predictions of a model behind a url, got {kind}; give {kind} as a file")
    chosen = RemoteModel(**options)
    if kind == "predictions" and chosen.explanation is not None:
        raise BadInput("option 'explanation' is for kind gradients, got it for predictions; change the kind or leave it out")
    if not re.match(r"https?://[^/\s@]+(/[^\s@]*)?$", url):
        got = "another" if "@" in url else repr(url)  # what may be a password is not repeated
        raise BadInput(f"expected a url that begins with http:// or https:// and holds no password, got {got}; correct it")
    preset = _preset(chosen, url)
    spoken = _open_inference if preset.name == OIP else _described
    wire = client(chosen, preset, url)
    service = spoken(kind, url, chosen, preset, wire).service(wire)
    service.refused = partial(_refused, wire=wire, url=url, preset=preset)
    service.account = account or service.account
    if look:
        service.meet()
    known: dict[str, Any] = {"service": service, "shape": _picture(chosen), "mean": None}
    if chosen.mean is not None:
        known["mean"] = mean_of(Path(chosen.mean), service.dimension)
    if chosen.start is not None:
        known["start"] = started_from({"start": chosen.start})
    if kind == "predictions":
        return Predictions(service.value, service.dimension, service.identity, **known)
    return Gradients(service.value, service.dimension, service.identity, gradient=service.gradient, **known)


def _picture(chosen: RemoteModel) -> tuple[int, ...] | None:
    """The shape of one point as a picture: as it is told, or as it goes over the wire."""
    if chosen.pictures is not None:
        return tuple(chosen.pictures)
    shape = tuple(chosen.shape or ())
    if len(shape) == 3 and 1 in (shape[0], shape[2]):
        shape = shape[1:] if shape[0] == 1 else shape[:2]
    return shape if len(shape) == 2 or (len(shape) == 3 and 3 in (shape[0], shape[2])) else None


def client(chosen: RemoteModel, preset: Preset, url: str) -> Wire:
    """A client with the manners that the auditor wants; a token of their own goes before what the protocol names."""
    headers = dict(chosen.headers or {})
    if chosen.token_env:
        headers["Authorization"] = f"Bearer ${{{chosen.token_env}}}"
    said = {name.lower() for name in headers}
    headers |= {name: value for name, value in preset.predict.headers.items() if name.lower() not in said}
    return Wire(
        Manners(
            timeout=chosen.timeout, patience=chosen.patience, repeat=chosen.repeat, rate=chosen.rate,
            concurrency=chosen.concurrency, headers=headers, authority=chosen.authority,
            certificate=chosen.certificate, key=chosen.key, proxy=chosen.proxy,
            signer=Signer.of(preset.signed, url) if preset.signed else None,
        )
    )  # fmt: skip


def models(wire: Wire, url: str, preset: Preset) -> list[str]:
    """The models that a server says it has, where its protocol tells how to ask."""
    if preset.name == OIP:
        return oip.models(wire, url)
    if preset.look is None or preset.look.models is None:
        return []
    import jsonpath

    try:
        said = parsed(wire.send("GET", host_of(url) + preset.look.path, first=True), url)
    except TargetFailed:
        return []
    found = jsonpath.compile(preset.look.models).findall(said) if isinstance(said, dict | list) else []
    return sorted({name for name in found if isinstance(name, str)})


def _refused(error: Refused, explains: str, *, wire: Wire, url: str, preset: Preset) -> Refused:
    """A refusal at the first look with what helps: which names are right, or that nothing is explained at `explains`."""
    said = str(error).rpartition(";")[0]
    if error.status == 404 and preset.name != OIP:
        there = models(wire, url, preset)
        if there and re.split("[/:]", root_of(url, preset))[-1] not in there:
            return Refused(f"{said}; the server has: {', '.join(there)}; use one of these", error.status)
    if error.status in (404, 405, 501) and explains and explains in said:
        return Refused(
            f'{said}; it explains nothing there: audit predictions alone with kind = "predictions", or correct where '
            "explanations come from",
            error.status,
        )
    return error


def _preset(chosen: RemoteModel, url: str) -> Preset:
    if chosen.protocol is not None:
        return protocols.read(chosen.protocol)
    if chosen.body is not None:
        return protocols.BY_HAND
    if "/v2/models/" in url:
        return protocols.read(OIP)
    raise BadInput(
        f"expected the protocol of {url}, got none; write protocol = one of {', '.join(protocols.names())}, or body and "
        f"answer for a service of your own; divulge init {url} finds out"
    )


def _described(kind: str, url: str, chosen: RemoteModel, preset: Preset, wire: Wire) -> _Spoken:
    """A service of which the preset, or the auditor, says all there is to say."""
    said: dict[str, Any] = {name: getattr(chosen, name) for name in ("answer", "decode", "columns")}
    said["body"] = chosen.body or preset.form(chosen.form, chosen.columns or preset.predict.columns)
    predict = preset.predict.but({name: value for name, value in said.items() if value is not None})
    if not predict.body:
        raise BadInput("expected a body with $X where the points go, got none; write body = '{\"inputs\": $X}'")
    item = _item(chosen, predict)
    root = root_of(url, preset)
    explain = None if kind == "predictions" else _explain(chosen, preset, predict)
    value = predict if explain is None or explain.values is None else explain
    single = chosen.datatype == "FP32"
    return _Spoken(f"{_path(root)} {preset.name}", root, predict, value, explain, item, chosen.batch, single)


def _explain(chosen: RemoteModel, preset: Preset, predict: Call) -> Call:
    if isinstance(chosen.explanation, str):
        raise BadInput(
            f"expected {EXPLANATIONS}, got explanation = {chosen.explanation!r}, which is of protocol {OIP}; write the table"
        )
    told = chosen.explanation or {}
    refuse_unknown(told, (*protocols.FIELDS, "values", "batch"), "explanation")
    if not told and preset.explain is None:
        raise BadInput(
            f"protocol {preset.name} has no explanations of its own, so say where they are: {EXPLANATIONS}; or audit "
            'predictions alone with kind = "predictions"'
        )
    own = {**(preset.explain or {}), **told}
    if chosen.body is not None and "body" not in told:
        own.pop("body", None)
    return explained(predict, own)


@dataclass(frozen=True)
class _Spoken:
    """How a model is asked, as its protocol and its metadata say."""

    name: str
    "What can be said of the model without asking it."
    root: str
    predict: Call
    value: Call
    "`predict`, or the call that explains where its answer holds the values too."
    gradient: Call | None
    item: tuple[int, ...]
    batch: int
    single: bool
    guards: Mapping[int, Guard] = field(default_factory=dict)
    "By call: what looks at its answers."

    def service(self, wire: Wire) -> RemoteService:
        """Ask it over a wire; a call that serves for values and for explanations is one exchange."""
        calls = {"value": self.value, **({"gradient": self.gradient} if self.gradient else {})}
        made = {id(call): self._exchange(call, wire) for call in calls.values()}
        same = (self.value.url, self.value.body) == (self.predict.url, self.predict.body)
        return RemoteService(
            self.name, self.root, {what: made[id(call)] for what, call in calls.items()}, dimension=math.prod(self.item),
            batch=min([self.batch, *(call.batch for call in calls.values() if call.batch)]), single=self.single,
            plain=None if same else self._exchange(self.predict, wire),
        )  # fmt: skip

    def _exchange(self, call: Call, wire: Wire) -> Exchange:
        answers: dict[str, Answer] = {}
        if call is self.predict:
            answers["value"] = Answer.at(call.answer, call.decode, call.columns)
        else:
            if call.values is not None:
                answers["value"] = Answer.at(call.values, self.predict.decode, call.columns)
            answers["gradient"] = Answer.at(call.answer, call.decode, call.columns)
        url = call.at(self.root)
        paths = {part: [str(path) for path in answer.paths] for part, answer in answers.items()}
        signature = json.dumps([_path(url), call.body, paths, call.decode, call.columns, self.item])
        own = {name: value for name, value in call.headers.items() if value != self.predict.headers.get(name)}
        return Exchange(
            wire, wire.filled(url), {name: wire.filled(value) for name, value in own.items()},
            Body(call.body, self.item, call.columns, self.single), answers, self.item, signature,
            self.guards.get(id(call), unguarded),
        )  # fmt: skip


def _item(chosen: RemoteModel, predict: Call) -> tuple[int, ...]:
    """The shape of one point, from whatever says it."""
    if chosen.shape is not None:
        item = tuple(chosen.shape)
        if chosen.dimension not in (None, math.prod(item)):
            raise BadInput(f"a shape of {item} does not hold {chosen.dimension} numbers; correct 'shape' or 'dimension'")
        return item
    width = chosen.dimension or len(predict.columns)
    if not width:
        raise BadInput("expected the width of one point, got none; give option 'dimension', 'shape' or 'columns'")
    if predict.columns and width != len(predict.columns):
        raise BadInput(f"got {len(predict.columns)} columns and dimension {width}; give one of them")
    return (width,)


def root_of(url: str, preset: Preset) -> str:
    """The address without what the protocol adds to it, which people copy along; a host alone gets the protocol's path."""
    url = url.rstrip("/")
    said = (preset.predict.url, (preset.explain or {}).get("url", ""))
    for added in sorted((text.removeprefix("$URL") for text in said if text.startswith("$URL")), key=len, reverse=True):
        if added and url.endswith(added):
            return url.removesuffix(added)
    return url if _path(url) != "/" else url + preset.path


def host_of(url: str) -> str:
    found = re.match(r"https?://[^/]+", url)
    return found[0] if found else url


def _path(url: str) -> str:
    """An address without its host, which may change while the model behind it does not."""
    return url.removeprefix(host_of(url)) or "/"


def _open_inference(kind: str, url: str, chosen: RemoteModel, preset: Preset, wire: Wire) -> _Spoken:
    """V2: names and shapes of tensors come from the model's metadata."""
    for name in ("form", "body", "answer", "decode", "columns", "shape"):
        if getattr(chosen, name) is not None:
            raise BadInput(f"option {name!r} is not for protocol {OIP}, which says it itself; leave it out")
    if isinstance(chosen.explanation, dict):
        raise BadInput('expected "output:TENSOR", "model:NAME" or "v1" as explanation of protocol oip-v2, got a table')
    explanation = re.fullmatch("(v1)|(output|model):(.+)", chosen.explanation or "")
    if kind == "gradients" and explanation is None:
        raise BadInput(
            f"expected an option that says where gradients come from, got explanation = {chosen.explanation!r}; "
            'write "output:TENSOR", "model:NAME" or "v1"'
        )
    model = Metadata.read(wire, url, input=chosen.input, dimension=chosen.dimension, datatype=chosen.datatype)
    version = "" if model.version is None else f" version {model.version}"
    name = f"{_path(model.url)} {OIP}{version} {model.platform} {model.datatype}".replace("  ", " ")
    where, what = (explanation[1] or explanation[2], explanation[3]) if explanation else ("", "")
    output = model.output(chosen.output, besides=what if where == "output" else None)
    predict = value = model.predict(preset, output)
    gradient, guard = None, model.guard
    if where == "output":
        value = gradient = model.explain(preset, output, str(model.output(what)))
    elif where == "model":
        called, _, tensor = what.partition(":")
        sibling = Metadata.read(wire, f"{model.root}/v2/models/{called}", datatype=chosen.datatype, like=model)
        gradient = sibling.predict(preset, sibling.output(tensor or None)).but({"url": f"{sibling.url}/infer"})
        guard = sibling.guard
    elif where == "v1":
        v1 = protocols.read("kserve-v1")
        gradient = explained(v1.predict, v1.explain or {}).but({"url": f"{model.root}/v1/models/{model.name}:explain"})
    guards = {id(gradient): guard, id(value): model.guard, id(predict): model.guard}
    single = model.datatype == "FP32"
    return _Spoken(name, model.url, predict, value, gradient, model.item, chosen.batch, single, guards)
