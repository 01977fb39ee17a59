"""Figures as Vega-Lite charts, one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from divulge.contract import Array, Curve, HeatMap, Histogram, Scatter
from divulge.report import maps, thinning, wording
from divulge.report.canvas import (
    Chart,
    Columns,
    Json,
    axis,
    by_legend,
    colour,
    dash,
    layer,
    name_tip,
    shape,
    spec,
    tip,
    told_apart,
    when_chosen,
)

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
    across = {"field": "x", **axis(figure.x, [*lines["x"], *areas["x"], *marks.values()], figure.log_x)}
    height = axis(figure.y, [*lines["y"], *areas["low"], *areas["high"]], figure.log_y)
    base = {"x": across, "y": {"field": "y", **height}, "color": colour(names, "series", "stroke")}
    dotted = max((len(x) for x, _ in figure.series.values()), default=0) <= DOTTED
    drawn = layer(
        "lines",
        {"type": "line", "strokeWidth": 2, "point": {"size": 36} if dotted else False},
        {**base, "strokeDash": dash(names, "series"), "opacity": when_chosen(1, 0.15)},
        params=[by_legend("series")],
    )
    # Wide circles that nobody sees catch the pointer; the one that did is shown by a dot.
    caught = layer(
        "lines",
        {"type": "circle", "size": 60, "opacity": 1, "tooltip": False},
        base,
        transform=[{"filter": {"param": "near", "empty": False}}],
    )
    under_pointer = {"type": "point", "fields": ["x", "series"], "on": "pointerover", "clear": "pointerout"}
    catching = layer(
        "lines",
        {"type": "circle", "size": 300, "opacity": 0, "aria": False},
        {**base, "tooltip": [name_tip("series"), tip("x", figure.x), tip("y", figure.y)]},
        transform=[{"filter": "datum.hover == 1"}],
        params=[{"name": "near", "select": under_pointer}],
    )
    layers, data = [drawn, caught, catching], {"lines": lines}
    if areas["x"]:
        low_and_high = {"y": {"field": "low", **height}, "y2": {"field": "high"}}
        shaded = {**base, **low_and_high, "fillOpacity": when_chosen(PALE, PALE / 4)}
        layers.insert(0, layer("areas", {"type": "area", "tooltip": False, "aria": False}, shaded))
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
    base = {
        "x": {"field": "x", **axis(figure.x, [*dots["x"], *lines["x"], *marks.values()], figure.log_x)},
        "y": {"field": "y", **axis(figure.y, [*dots["y"], *lines["y"]], figure.log_y)},
    }
    encoding = {
        **base,
        "color": colour(names, "group", None),
        "shape": shape(names, "group"),
        "opacity": when_chosen(0.7, 0.08),
        "tooltip": [name_tip("group"), tip("x", figure.x), tip("y", figure.y)],
    }
    mark: Json = {"type": "point", "filled": True, "size": 40, "aria": False}
    if figure.lines:  # where points of several groups are the same, each has to be seen
        sizes = [RINGED * (len(names) - number) for number in range(len(names))]
        encoding["size"] = told_apart(names, "group", sizes, legend=None)
        mark = {"type": "point", "filled": False, "strokeWidth": 2, "aria": False}
    layers, data = [layer("dots", mark, encoding, params=[by_legend("group")])], {"dots": dots}
    if lines["x"]:
        thin = {"type": "line", "stroke": "var(--soft)", "strokeWidth": 1.5, "tooltip": False, "aria": False}
        layers.insert(0, layer("lines", thin, {**base, "strokeDash": dash(list(figure.lines), "line")}))
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
    encoding = {
        "x": {"field": "low", "type": "quantitative", "bin": "binned", "title": figure.x},
        "x2": {"field": "high"},
        "y": {"field": height, "type": "quantitative", "stack": None, "title": what},
        "color": colour(names, "group"),
        "opacity": when_chosen(0.6 if len(names) > 1 else 0.9, 0.08),
        "tooltip": [
            name_tip("group"), tip("low", "from"), tip("high", "to"),
            {**tip("count", "count"), "format": ","}, tip("share", "share of group"),
        ],
    }  # fmt: skip
    drawn = layer("bars", {"type": "bar", "binSpacing": 1, "tooltip": True}, encoding, params=[by_legend("group")])
    missing = sum(np.size(values) for values in figure.groups.values()) - len(pooled)
    note = f"{wording.count(missing, 'value')} not drawn: not finite." if missing else ""
    return Chart(figure.title, spec([drawn], figure.title), {"bars": bars}, note, empty=not bars["low"])


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
    across: Json = {"field": "x", "type": "ordinal", "title": figure.x}
    down: Json = {"field": "y", "type": "ordinal", "title": figure.y}
    encoding = {
        "x": {**across, "sort": column_names, "axis": _few(column_names)},
        # Numbers grow upwards as on any other axis; names are read downwards.
        "y": {**down, "sort": row_names[::-1] if upward else row_names, "axis": _few(row_names)},
        "color": maps.coloured(figure),
        "tooltip": [across, down, tip("value", figure.value)],
    }
    drawn = layer("cells", {"type": "rect", "tooltip": True, "aria": False}, encoding)
    note = maps.blocks_drawn(figure, values)
    return Chart(figure.title, spec([drawn], figure.title), {"cells": cells}, note, empty=not np.isfinite(values).any())


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


def _add_marks(layers: list[Json], data: dict[str, Any], marks: Mapping[str, float], xs: list[float], log: bool) -> None:
    """Vertical lines with their names above."""
    if not marks:
        return
    labels = _merged(marks, xs, log)
    data["marks"] = {"x": list(marks.values()), "name": [labels.get(name, "") for name in marks]}
    at = {"x": {"field": "x", "type": "quantitative"}}
    layers.append(layer("marks", {"type": "rule", "stroke": "var(--soft)", "strokeDash": [3, 3]}, at))
    above = {**at, "y": {"value": -4}, "text": {"field": "name", "type": "nominal"}}
    layers.append(layer("marks", {"type": "text", "baseline": "bottom", "fill": "var(--soft)", "limit": 160}, above))


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


def _few(names: list[str]) -> Json:
    """As many of the names as can be read."""
    return {"values": names[:: max(1, -(-len(names) // 12))], "labelAngle": 0, "ticks": False, "domain": False}


def _labels(values: Array) -> list[str]:
    """Short names for rows or columns, longer where short ones would be the same."""
    for digits in (3, 6):
        names = [wording.number(value, digits) if values.dtype.kind in "iuf" else str(value) for value in values]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({place})" for place, name in enumerate(names, 1)]
