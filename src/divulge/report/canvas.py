"""What all charts share: colours, axes, legends, and the form in which a chart enters the page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt

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


def spec(layers: list[alt.Chart], title: str) -> dict[str, Any]:
    """A specification that names every part itself: altair's own names count up from page to page."""
    named = [layer.properties(name=f"layer {number}") for number, layer in enumerate(layers)]
    whole = alt.layer(*named).properties(width="container", height=280, description=title)
    made: dict[str, Any] = whole.to_dict(validate=False)
    return {key: part for key, part in made.items() if key not in ("$schema", "config", "datasets")}


def axis(title: str, values: Iterable[float | None], log: bool) -> dict[str, Any]:
    """What x and y have in common; a logarithmic axis is marked at powers of ten."""
    known = [value for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    if not log:
        return {"title": title, "scale": alt.Scale(domain=[low, high], nice=True, zero=False)}
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    powers = [float(f"1e{decade}") for decade in decades[:: math.ceil(len(decades) / TICKS)]]
    # Over less than two decades their powers are too few, and the browser marks what lies between.
    ticks: dict[str, Any] = {"values": powers} if high / low > 100 else {"tickCount": TICKS}
    return {
        "title": title,
        "scale": alt.Scale(type="log", domain=[low, high], nice=False),
        "axis": alt.Axis(format=",~g", **ticks),
    }


def colour(names: list[str], field: str, symbol: str | None = "square") -> alt.Color:
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=names, range=COLOURS), legend=legend(names, symbol))


def dash(names: list[str], field: str) -> alt.StrokeDash:
    return alt.StrokeDash(f"{field}:N", scale=alt.Scale(domain=names, range=DASHES), legend=legend(names, "stroke"))


def shape(names: list[str], field: str) -> alt.Shape:
    return alt.Shape(f"{field}:N", scale=alt.Scale(domain=names, range=SHAPES), legend=legend(names, None))


def legend(names: list[str], symbol: str | None) -> alt.Legend | None:
    """One column of long names, two of short ones; none where there is nothing to tell apart.

    Without a symbol each name has the shape of its points.
    """
    if len(names) < 2:
        return None
    drawn: dict[str, Any] = {} if symbol is None else {"symbolType": symbol}
    return alt.Legend(title=None, columns=1 if max(map(len, names)) > 20 else 2, **drawn)


def tip(field: str, title: str) -> alt.Tooltip:
    return alt.Tooltip(f"{field}:Q", title=title, format=".4~g")


def _packed(column: list[Any]) -> list[Any] | dict[str, list[Any]]:
    """Values that repeat are written once, and then by their place in the list of them: names, and edges of cells."""
    names = dict.fromkeys(column)
    least = 2 if all(isinstance(name, str) for name in names) else 10
    if len(names) == len(column) or len(names) * least > len(column):
        return column
    places = {name: place for place, name in enumerate(names)}
    return {"names": list(names), "at": [places[name] for name in column]}
