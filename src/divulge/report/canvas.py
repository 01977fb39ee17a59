"""What all charts share: colours, axes, legends, and the form in which a chart enters the page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COLOURS = [f"var(--series-{number})" for number in range(1, 7)]
"Named in the style sheet, so that light, dark and print each have their own."
DASHES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 4]]
"Lines differ by more than their colour."
SHAPES = ["circle", "triangle-up", "square", "diamond", "cross", "triangle-down"]
"Points as well."
TICKS = 6

CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domainColor": "var(--line-strong)", "tickColor": "var(--line-strong)", "gridColor": "var(--line)",
        "labelColor": "var(--soft)", "titleColor": "var(--soft)", "titleFontWeight": "normal",
        "labelFontSize": 11, "titleFontSize": 12, "titlePadding": 8, "labelOverlap": True, "labelLimit": 110,
    },
    "legend": {
        "orient": "top", "labelColor": "var(--ink)", "titleColor": "var(--soft)", "labelFontSize": 12,
        "titleFontWeight": "normal", "labelLimit": 300, "columnPadding": 16, "symbolSize": 240, "offset": 20,
        "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 8}},
    },
}  # fmt: skip
"Shared by every chart of a page. Colours are CSS, so a change of scheme needs no redrawing."

Columns = Mapping[str, list[Any]]
Json = dict[str, Any]
"A part of a specification in Vega-Lite, as the browser reads it."


@dataclass(frozen=True)
class Chart:
    """A drawing without its data, its data by name, and what a reader should know about it."""

    title: str
    spec: Mapping[str, Any]
    data: Mapping[str, Columns]
    "Columns, not rows: a third of the size."
    note: str = ""
    empty: bool = False
    "Nothing to draw; the page says so in place of a drawing."

    @property
    def json(self) -> str:
        """For a script element: no `<`, so nothing in it can end the element."""
        data = {name: {key: _packed(column) for key, column in columns.items()} for name, columns in self.data.items()}
        return json.dumps({"spec": self.spec, "data": data}, separators=(",", ":")).replace("<", "\\u003c")


def spec(layers: list[Json], title: str) -> Json:
    return {"description": title, "width": "container", "height": 280, "layer": layers}


def layer(data: str, mark: Json, encoding: Json, **rest: Any) -> Json:
    return {"data": {"name": data}, "mark": mark, "encoding": encoding, **rest}


def axis(title: str, values: Iterable[float | None], log: bool) -> Json:
    """What x and y have in common; a logarithmic axis is marked at powers of ten."""
    known = [value for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    shown: Json = {"type": "quantitative", "title": title}
    if not log:
        return {**shown, "scale": {"domain": [low, high], "nice": True, "zero": False}}
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    powers = [float(f"1e{decade}") for decade in decades[:: math.ceil(len(decades) / TICKS)]]
    # Over less than two decades their powers are too few, and the browser marks what lies between.
    ticks: Json = {"values": powers} if high / low > 100 else {"tickCount": TICKS}
    return {**shown, "scale": {"type": "log", "domain": [low, high], "nice": False}, "axis": {"format": ",~g", **ticks}}


def colour(names: list[str], field: str, symbol: str | None = "square") -> Json:
    return told_apart(names, field, COLOURS, legend(names, symbol))


def dash(names: list[str], field: str) -> Json:
    return told_apart(names, field, DASHES, legend(names, "stroke"))


def shape(names: list[str], field: str) -> Json:
    return told_apart(names, field, SHAPES, legend(names, None))


def told_apart(names: list[str], field: str, looks: Sequence[Any], legend: Json | None) -> Json:
    """Each name looks its own way, in the order of the names."""
    return {"field": field, "type": "nominal", "scale": {"domain": names, "range": looks}, "legend": legend}


def legend(names: list[str], symbol: str | None) -> Json | None:
    """None where there is nothing to tell apart. Without a symbol each name has the shape of its points."""
    if len(names) < 2:
        return None
    return listed(names) if symbol is None else listed(names, symbolType=symbol)


def listed(names: list[str], **drawn: Any) -> Json:
    """A legend with one column of long names, or two of short ones."""
    return {"title": None, "columns": 1 if max(map(len, names)) > 20 else 2, **drawn}


def by_legend(field: str) -> Json:
    """Lets the reader choose a name by its entry in the legend."""
    return {"name": "chosen", "select": {"type": "point", "fields": [field]}, "bind": "legend"}


def when_chosen(value: float, otherwise: float) -> Json:
    """While nothing is chosen, everything is."""
    return {"condition": [{"param": "chosen", "value": value}], "value": otherwise}


def tip(field: str, title: str) -> Json:
    return {"field": field, "type": "quantitative", "title": title, "format": ".4~g"}


def name_tip(field: str) -> Json:
    return {"field": field, "type": "nominal", "title": field}


def _packed(column: list[Any]) -> list[Any] | dict[str, list[Any]]:
    """Values that repeat are written once, and then by their place in the list of them: names, and edges of cells."""
    names = dict.fromkeys(column)
    least = 2 if all(isinstance(name, str) for name in names) else 10
    if len(names) == len(column) or len(names) * least > len(column):
        return column
    places = {name: place for place, name in enumerate(names)}
    return {"names": list(names), "at": [places[name] for name in column]}
