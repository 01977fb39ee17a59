"""How a defence is written: as a table, `{ name = "rounding", digits = 3 }`, or in short, `rounding=3`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from divulge.errors import BadInput, refuse_unknown

MAIN = {
    "rounding": "digits", "noise": "sigma", "smoothgrad": "sigma", "query-limit": "points", "label-only": "threshold",
}  # fmt: skip
"The setting that a value alone is of."
SHORT = "write rounding=3, rounding=decimals:3,of:values, noise=0.1, smoothgrad=0.2, query-limit=50, or a name alone"


def spelled(given: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """The table that was meant, with a name out of `names`."""
    table = _from_text(given, names) if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise BadInput(f'expected a defence such as {{ name = "rounding", digits = 3 }}, got {given!r}; {SHORT}')
    refuse_unknown([table["name"]], names, "defence")
    return dict(table)


def words(table: Mapping[str, Any]) -> str:
    """`rounding, digits = 3`"""
    settings = [f"{name} = {_said(value)}" for name, value in table.items() if name != "name"]
    return ", ".join([str(table["name"]), *settings])


def _from_text(text: str, names: Mapping[str, Any]) -> dict[str, Any]:
    name, equals, settings = text.strip().partition("=")
    table: dict[str, Any] = {"name": name.strip()}
    if not name or (equals and not settings.strip()):
        raise BadInput(f"expected a defence as NAME or NAME=SETTINGS, got {text!r}; {SHORT}")
    refuse_unknown([table["name"]], names, "defence")
    for number, part in enumerate(settings.split(",") if equals else []):
        setting, colon, value = (piece.strip() for piece in part.partition(":"))
        if not colon:
            if number or table["name"] not in MAIN:
                raise BadInput(f"expected SETTING:VALUE in the defence {text!r}, got {part!r}; {SHORT}")
            setting, value = MAIN[table["name"]], setting
        if setting in table or not value:
            raise BadInput(f"expected each setting once and with a value in the defence {text!r}, got {part!r}; {SHORT}")
        table[setting] = value
        with suppress(tomllib.TOMLDecodeError):
            table[setting] = tomllib.loads(f"value = {value}")["value"]
    return table


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
