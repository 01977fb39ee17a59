"""Protocols that model servers speak, one TOML file each: how points are sent, where values and explanations are found."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import Field, PositiveInt

from divulge.contract import option_class
from divulge.errors import BadInput, refuse_unknown
from divulge.targets.messages import Decode

FIELDS = ("url", "headers", "body", "answer", "decode", "columns")
"What describes a call; an audit file may say any of them itself."


@option_class
class Call:
    """One request and where its answer holds what."""

    url: str = "$URL"
    "`$URL` is the address that the audit names, `$HOST` its beginning, `$NAME` its last part."
    headers: dict[str, str] = Field(default_factory=dict)
    body: str = ""
    answer: str | list[str] = "$"
    decode: Decode = "json"
    columns: list[str] = Field(default_factory=list)
    values: str | list[str] | None = None
    "Of a call for explanations: where the same answer holds the values, so that one request gives both."
    batch: PositiveInt | None = None

    def at(self, address: str) -> str:
        """Where it is sent."""
        host = re.match(r"https?://[^/]+", address)
        parts = {"URL": address, "HOST": host[0] if host else address, "NAME": address.rpartition("/")[2]}
        return re.sub(r"\$(URL|HOST|NAME)\b", lambda match: parts[match[1]], self.url)

    def but(self, said: Mapping[str, Any]) -> Call:
        """The same call with what is said otherwise."""
        return Call(**(vars(self) | dict(said)))


@dataclass(frozen=True)
class Look:
    """How a server of this protocol is known: what it says at a path of its host."""

    path: str
    "`$URL` is the path of the address itself."
    says: str
    decode: str = "json"
    models: str | None = None
    "Where the names of its models are."


@dataclass(frozen=True)
class Preset:
    """A protocol that is known by its name."""

    name: str
    about: str = ""
    described: str = ""
    address: str = ""
    "What an audit writes as its url."
    path: str = ""
    "What is added to an address that names a host only."
    predict: Call = field(default_factory=Call)
    explain: Mapping[str, Any] | None = None
    "What a call for explanations says otherwise than the one for values."
    signed: str = ""
    "The service of AWS for which requests are signed, where the address is one of Amazon's own hosts."
    forms: Mapping[str, str] = field(default_factory=dict)
    "Other bodies by name."
    look: Look | None = None

    def form(self, wanted: str | None, columns: Sequence[str]) -> str | None:
        """The body that is asked for, or one that names features where they have names."""
        if wanted is not None:
            refuse_unknown([wanted], self.forms, f"form of protocol {self.name}")
            return self.forms[wanted]
        named = [body for body in self.forms.values() if "$COLUMNS" in body or "$RECORDS" in body]
        return named[0] if columns and named else None


BY_HAND = Preset("by hand")
"A service of one's own, described by the six fields."


@cache
def names() -> tuple[str, ...]:
    here = (file.name for file in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in here if name.endswith(".toml")))


@cache
def read(name: str) -> Preset:
    """A protocol by its name."""
    if name not in names():
        refuse_unknown([name], names(), "protocol")
    document = tomllib.loads((files(__name__) / f"{name}.toml").read_text(encoding="utf-8"))
    try:
        predict, look = Call(**document.pop("predict")), document.pop("look", None)
        return Preset(name, predict=predict, look=None if look is None else Look(**look), **document)
    except TypeError as error:
        raise BadInput(f"the protocol file {name}.toml cannot be read: {error}; correct it") from None


def explained(predict: Call, said: Mapping[str, Any]) -> Call:
    """A call for explanations: as the one for values, but for what is said; where both are one request, it holds both."""
    call = predict.but(said)
    same = (call.url, call.body, call.headers) == (predict.url, predict.body, predict.headers)
    return call.but({"values": predict.answer}) if same and call.values is None else call
