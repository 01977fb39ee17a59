"""Figures as Vega-Lite charts, one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import altair as alt
import numpy as np

from divulge.contract import Array, Curve, HeatMap, Histogram, Scatter
from divulge.report import maps, thinning, wording
from divulge.report.canvas import Chart, Columns, axis, colour, dash, shape, spec, tip

HOVERED = 150
"Points of a line that the pointer can find: each costs the browser a shape."

CLOSE = 0.06
"Share of the axis within which the labels of two marks would overlap."

DOTTED = 30
"A line through no more points than these shows each of them."

PALE = 0.18
"How much of a band's colour is seen: the lines on it must stand out."

RINGED = 70
"By how much larger an open point is than that of the next group, which may lie in it."

SCATTERED = 1500
"Points drawn of one group: more lie on each other."


def curve(figure: Curve) -> Chart:
    lines: dict[str, list[Any]] = {"x": [], "y": [], "series": [], "hover": []}
    missing = 0
    for name, (x, y) in figure.series.items():
        whole = np.size(x)
        x, y = _drawable(figure, x, y)
        missing += whole - len(x)
        kept = thinning.thin(np.log(x) if figure.log_x else x, y)
        x, y = x[kept], y[kept]
        found = np.zeros(len(x), dtype=int)
        found[thinning.thin(np.log(x) if figure.log_x else x, y, HOVERED)] = 1
        lines["x"] += thinning.rounded(x)
        lines["y"] += thinning.rounded(y)
        lines["series"] += [name] * len(x)
        lines["hover"] += found.tolist()
    names = list(figure.series)
    marks, areas = _marks(figure), _areas(figure, lines["y"])
    x_axis = alt.X("x:Q", **axis(figure.x, [*lines["x"], *areas["x"], *marks.values()], figure.log_x))
    height = axis(figure.y, [*lines["y"], *areas["low"], *areas["high"]], figure.log_y)
    y_axis = alt.Y("y:Q", **height)
    chosen = alt.selection_point(name="chosen", fields=["series"], bind="legend")
    near = alt.selection_point(name="near", fields=["x", "series"], on="pointerover", clear="pointerout", empty=False)
    base = alt.Chart(alt.NamedData("lines")).encode(x=x_axis, y=y_axis, color=colour(names, "series", "stroke"))
    dotted = max((len(x) for x, _ in figure.series.values()), default=0) <= DOTTED
    drawn = base.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=36) if dotted else False).encode(
        strokeDash=dash(names, "series"),
        opacity=alt.when(chosen).then(alt.value(1)).otherwise(alt.value(0.15)),
    )
    # Wide circles that nobody sees catch the pointer; the one that did is shown by a dot.
    catching = base.transform_filter("datum.hover == 1").mark_circle(size=300, opacity=0, aria=False)
    tips = [alt.Tooltip("series:N", title="series"), tip("x", figure.x), tip("y", figure.y)]
    caught = base.transform_filter(near).mark_circle(size=60, opacity=1, tooltip=False)
    layers: list[alt.Chart] = [drawn.add_params(chosen), caught, catching.encode(tooltip=tips).add_params(near)]
    data: dict[str, Columns] = {"lines": lines}
    if areas["x"]:
        shaded = (
            alt.Chart(alt.NamedData("areas"))
            .mark_area(tooltip=False, aria=False)
            .encode(
                x=x_axis,
                y=alt.Y("low:Q", **height),
                y2="high:Q",
                color=colour(names, "series", "stroke"),
                fillOpacity=alt.when(chosen).then(alt.value(PALE)).otherwise(alt.value(PALE / 4)),
            )
        )
        layers.insert(0, shaded)
        data["areas"] = areas
    _add_marks(layers, data, marks, lines["x"], figure.log_x)
    return Chart(figure.title, spec(layers, figure.title), data, _missing(missing), empty=not lines["x"])


def scatter(figure: Scatter) -> Chart:
    dots: dict[str, list[Any]] = {"x": [], "y": [], "group": []}
    missing = crowded = 0
    for name, (x, y) in figure.groups.items():
        whole = np.size(x)
        x, y = _drawable(figure, x, y)
        missing += whole - len(x)
        kept = thinning.some(len(x), SCATTERED)
        crowded += len(x) - len(kept)
        dots["x"] += thinning.rounded(x[kept])
        dots["y"] += thinning.rounded(y[kept])
        dots["group"] += [name] * len(kept)
    names, marks, lines = list(figure.groups), _marks(figure), _lines(figure)
    x_axis = alt.X("x:Q", **axis(figure.x, [*dots["x"], *lines["x"], *marks.values()], figure.log_x))
    y_axis = alt.Y("y:Q", **axis(figure.y, [*dots["y"], *lines["y"]], figure.log_y))
    chosen = alt.selection_point(name="chosen", fields=["group"], bind="legend")
    drawn = alt.Chart(alt.NamedData("dots"))
    if figure.lines:  # where points of several groups are the same, each has to be seen
        sizes = [RINGED * (len(names) - number) for number in range(len(names))]
        size = alt.Size("group:N", scale=alt.Scale(domain=names, range=sizes), legend=None)
        drawn = drawn.mark_point(filled=False, strokeWidth=2, aria=False).encode(size=size)
    else:
        drawn = drawn.mark_point(filled=True, size=40, aria=False)
    encoded = drawn.encode(
        x=x_axis,
        y=y_axis,
        color=colour(names, "group", None),
        shape=shape(names, "group"),
        opacity=alt.when(chosen).then(alt.value(0.7)).otherwise(alt.value(0.08)),
        tooltip=[alt.Tooltip("group:N", title="group"), tip("x", figure.x), tip("y", figure.y)],
    )
    layers, data = [encoded.add_params(chosen)], {"dots": dots}
    if lines["x"]:
        ground = alt.Chart(alt.NamedData("lines")).mark_line(
            stroke="var(--soft)", strokeWidth=1.5, tooltip=False, aria=False
        )
        layers.insert(0, ground.encode(x=x_axis, y=y_axis, strokeDash=dash(list(figure.lines), "line")))
        data["lines"] = lines
    _add_marks(layers, data, marks, dots["x"], figure.log_x)
    left = f"{wording.count(crowded, 'more point')} would lie on those drawn." if crowded else ""
    note = f"{_missing(missing)} {left}".strip()
    return Chart(figure.title, spec(layers, figure.title), data, note, empty=not dots["x"])


def histogram(figure: Histogram) -> Chart:
    groups = {name: _finite(values) for name, values in figure.groups.items()}
    pooled = np.concatenate([np.zeros(0), *groups.values()])
    edges = thinning.edges(pooled) if len(pooled) else np.array([0.0, 1.0])
    bars: dict[str, list[Any]] = {"low": [], "high": [], "share": [], "count": [], "group": []}
    for name, values in groups.items():
        counts, _ = np.histogram(values, edges)
        filled = counts > 0
        bars["low"] += thinning.rounded(edges[:-1][filled])
        bars["high"] += thinning.rounded(edges[1:][filled])
        bars["count"] += counts[filled].tolist()
        bars["share"] += thinning.rounded(counts[filled] / max(1, len(values)))
        bars["group"] += [name] * int(filled.sum())
    names = list(groups)
    # Groups of different sizes are compared by share; one alone is counted.
    height, what = ("share", "share of group") if len(names) > 1 else ("count", "count")
    chosen = alt.selection_point(name="chosen", fields=["group"], bind="legend")
    drawn = alt.Chart(alt.NamedData("bars")).mark_bar(binSpacing=1, tooltip=True)
    encoded = drawn.encode(
        x=alt.X("low:Q", bin="binned", title=figure.x),
        x2="high",
        y=alt.Y(f"{height}:Q", stack=None, title=what),
        color=colour(names, "group"),
        opacity=alt.when(chosen).then(alt.value(0.6 if len(names) > 1 else 0.9)).otherwise(alt.value(0.08)),
        tooltip=[
            alt.Tooltip("group:N", title="group"), tip("low", "from"), tip("high", "to"),
            alt.Tooltip("count:Q", title="count", format=","), tip("share", "share of group"),
        ],
    )  # fmt: skip
    missing = sum(np.size(values) for values in figure.groups.values()) - len(pooled)
    note = f"{wording.count(missing, 'value')} not drawn: not finite." if missing else ""
    return Chart(figure.title, spec([encoded.add_params(chosen)], figure.title), {"bars": bars}, note, empty=not bars["low"])


def heat_map(figure: HeatMap) -> Chart:
    if figure.groups or figure.lines:
        return maps.drawn_over(figure)
    values, rows, columns = thinning.blocks(np.asarray(figure.values, dtype=float))
    row_names = _labels(np.asarray(figure.rows)[rows])
    column_names = _labels(np.asarray(figure.columns)[columns])
    cells: Columns = {
        "x": column_names * len(row_names),
        "y": [name for name in row_names for _ in column_names],
        "value": thinning.rounded(values.ravel()),
    }
    numeric = np.asarray(figure.rows).dtype.kind in "iuf"
    upward = numeric and len(rows) > 1 and figure.rows[0] < figure.rows[-1]
    drawn = alt.Chart(alt.NamedData("cells")).mark_rect(tooltip=True, aria=False)
    encoded = drawn.encode(
        x=alt.X("x:O", title=figure.x, sort=column_names, axis=_few(column_names)),
        # Numbers grow upwards as on any other axis; names are read downwards.
        y=alt.Y("y:O", title=figure.y, sort=row_names[::-1] if upward else row_names, axis=_few(row_names)),
        color=alt.Color("value:Q", title=figure.value, scale=maps.coloured(figure)),
        tooltip=[alt.Tooltip("x:O", title=figure.x), alt.Tooltip("y:O", title=figure.y), tip("value", figure.value)],
    )
    note = maps.blocks_drawn(figure, values)
    return Chart(figure.title, spec([encoded], figure.title), {"cells": cells}, note, empty=not np.isfinite(values).any())


DRAWN: Mapping[type, Callable[[Any], Chart]] = {Curve: curve, Histogram: histogram, HeatMap: heat_map, Scatter: scatter}


def _lines(figure: Scatter) -> dict[str, list[Any]]:
    """What points lie on, as columns."""
    columns: dict[str, list[Any]] = {"x": [], "y": [], "line": []}
    for name, (x, y) in figure.lines.items():
        x, y = _drawable(figure, x, y)
        kept = thinning.thin(np.log(x) if figure.log_x else x, y)
        columns["x"] += thinning.rounded(x[kept])
        columns["y"] += thinning.rounded(y[kept])
        columns["line"] += [name] * len(kept)
    return columns


def _areas(figure: Curve, heights: list[float]) -> dict[str, list[Any]]:
    """Bands as columns. On a logarithmic axis their lower ends reach no further down than the lines do."""
    columns: dict[str, list[Any]] = {"x": [], "low": [], "high": [], "series": []}
    floor = min(heights, default=0.0) if figure.log_y else -np.inf
    for name, (x, low, high) in figure.bands.items():
        x, low, high = (np.asarray(part, dtype=float).ravel() for part in (x, low, high))
        low = np.maximum(low, floor)
        whole = np.isfinite(x + low + high) & (high >= low)
        whole &= ((x > 0) | (not figure.log_x)) & ((low > 0) | (not figure.log_y))
        x, low, high = x[whole], low[whole], high[whole]
        along = np.log(x) if figure.log_x else x
        kept = np.union1d(thinning.thin(along, low, HOVERED), thinning.thin(along, high, HOVERED))
        for column, values in zip(columns, (x, low, high), strict=False):
            columns[column] += thinning.rounded(values[kept])
        columns["series"] += [name] * len(kept)
    return columns


def _drawable(figure: Curve | Scatter, x: Array, y: Array) -> tuple[Array, Array]:
    """The points that the axes can show."""
    x, y = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
    kept = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not figure.log_x)) & ((y > 0) | (not figure.log_y))
    return x[kept], y[kept]


def _missing(points: int) -> str:
    if not points:
        return ""
    return f"{wording.count(points, 'point')} not drawn: not finite, or not above 0 on a logarithmic axis."


def _marks(figure: Curve | Scatter) -> dict[str, float]:
    return {name: float(at) for name, at in figure.marks.items() if np.isfinite(at) and (at > 0 or not figure.log_x)}


def _add_marks(
    layers: list[alt.Chart], data: dict[str, Any], marks: Mapping[str, float], xs: list[float], log: bool
) -> None:
    """Vertical lines with their names above."""
    if not marks:
        return
    labels = _merged(marks, xs, log)
    data["marks"] = {"x": list(marks.values()), "name": [labels.get(name, "") for name in marks]}
    upright = alt.Chart(alt.NamedData("marks"))
    layers.append(upright.mark_rule(stroke="var(--soft)", strokeDash=[3, 3]).encode(x="x:Q"))
    above = upright.mark_text(baseline="bottom", fill="var(--soft)", limit=160)
    layers.append(above.encode(x="x:Q", y=alt.value(-4), text="name:N"))


def _merged(marks: Mapping[str, float], xs: list[float], log: bool) -> dict[str, str]:
    """One label for marks that stand so close that two would lie on each other: first of them -> all their names."""
    places = {name: np.log(at) if log else at for name, at in marks.items()}
    ends = [*(np.log(xs) if log else xs), *places.values()]
    near = CLOSE * (max(ends) - min(ends))
    labels: dict[str, str] = {}
    first = last = ""
    for name in sorted(places, key=lambda name: places[name]):
        together = bool(first) and places[name] - places[last] <= near
        first, last = first if together else name, name
        labels[first] = f"{labels[first]}, {name}" if together else name
    return labels


def _finite(values: Array) -> Array:
    flat: Array = np.asarray(values, dtype=float).ravel()
    finite: Array = flat[np.isfinite(flat)]
    return finite


def _few(names: list[str]) -> alt.Axis:
    """As many of the names as can be read."""
    return alt.Axis(values=names[:: max(1, -(-len(names) // 12))], labelAngle=0, ticks=False, domain=False)


def _labels(values: Array) -> list[str]:
    """Short names for rows or columns, longer where short ones would be the same."""
    for digits in (3, 6):
        names = [wording.number(value, digits) if values.dtype.kind in "iuf" else str(value) for value in values]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({place})" for place, name in enumerate(names, 1)]
