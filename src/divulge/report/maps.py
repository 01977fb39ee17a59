"""Heat maps with points and lines drawn over them, on axes of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from divulge.contract import Array, HeatMap
from divulge.report import thinning, wording
from divulge.report.canvas import (
    SHAPES,
    Chart,
    Columns,
    Json,
    by_legend,
    layer,
    listed,
    name_tip,
    spec,
    tip,
    told_apart,
    when_chosen,
)

MARKED = 500
"Points drawn of one group: more would hide the map."

FILLS = ["#ffffff", "#111111", "#ff3b30", "#ff9f1c", "#ff8fd0", "#7df9ff"]
"Of points. A map has the same colours in every scheme, and these are none of them."
STROKES = ["var(--over)", "#ff3b30", "#ff9f1c", "#ff8fd0", "#7df9ff", "#c9a6ff"]
"Of lines. The first is white on the map, and in the legend as text is."
DASHES = [[9, 4], [5, 2], [14, 3], [9, 3, 3, 3], [3, 3], [20, 4]]
"Longer than those of other charts: colour has to be told on a dark line."
SIZE = 90
DARK, LIGHT = "#111111", "#ffffff"
"Rims of points and lines, so that they are seen on the darkest and the brightest cell."


def drawn_over(figure: HeatMap) -> Chart:
    """The map on two axes of numbers, which end where its cells do; what lies beyond is cut off."""
    values, rows, columns = thinning.blocks(np.asarray(figure.values, dtype=float))
    left, right = _sides(figure.columns, columns)
    low, high = _sides(figure.rows, rows)
    cells: Columns = {
        "left": thinning.rounded(np.tile(left, len(low))),
        "right": thinning.rounded(np.tile(right, len(low))),
        "low": thinning.rounded(np.repeat(low, len(left))),
        "high": thinning.rounded(np.repeat(high, len(left))),
        "value": thinning.rounded(values.ravel()),
    }
    x, y = _axis(figure.x, np.append(left, right)), _axis(figure.y, np.append(low, high))
    encoding = {
        "x": {**x, "field": "left"},
        "x2": {"field": "right"},
        "y": {**y, "field": "low"},
        "y2": {"field": "high"},
        "color": coloured(figure),
        "tooltip": [tip("x", figure.x), tip("y", figure.y), tip("value", figure.value)],
    }
    middles = [
        {"calculate": "(datum.left + datum.right) / 2", "as": "x"},
        {"calculate": "(datum.low + datum.high) / 2", "as": "y"},
    ]
    ground = layer("cells", {"type": "rect", "clip": True, "aria": False}, encoding, transform=middles)
    dots, note = _dots(figure, np.append(left, right), np.append(low, high))
    lines = _lines(figure)
    layers, data = [ground], {"cells": cells}
    if lines["x"]:
        layers += _strokes(list(figure.lines), x, y)
        data["lines"] = lines
    if dots["x"]:
        layers += _points(figure, x, y)
        data["dots"] = dots
    note = f"{blocks_drawn(figure, values)} {note}".strip()
    return Chart(figure.title, spec(layers, figure.title), data, note, empty=not np.isfinite(values).any())


def coloured(figure: HeatMap) -> Json:
    """Colours of a map, from its least value to its most, or as it says."""
    ends: Json = {} if figure.limits is None else {"domain": [float(end) for end in figure.limits], "clamp": True}
    return {"field": "value", "type": "quantitative", "title": figure.value, "scale": {"scheme": "viridis", **ends}}


def blocks_drawn(figure: HeatMap, values: Array) -> str:
    """What to say where fewer values are drawn than there are."""
    whole = np.shape(figure.values)
    if whole == values.shape:
        return ""
    return f"{wording.shape(whole)} values, drawn as the means of {wording.shape(values.shape)} blocks."


def _sides(values: Array, starts: Array) -> tuple[Array, Array]:
    """Where every block of columns or rows begins and ends."""
    edges = thinning.between(np.asarray(values, dtype=float))
    return edges[starts], edges[np.append(starts[1:], len(edges) - 1)]


def _axis(title: str, ends: Array) -> Json:
    return {
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [float(ends.min()), float(ends.max())], "nice": False, "zero": False},
        "axis": {"grid": False, "domain": False},
    }


def _dots(figure: HeatMap, across: Array, upward: Array) -> tuple[dict[str, list[Any]], str]:
    """Points on the map as columns, and how many are not drawn."""
    dots: dict[str, list[Any]] = {"x": [], "y": [], "group": []}
    outside = crowded = 0
    for name, (x, y) in figure.groups.items():
        x, y = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
        inside = (x >= across.min()) & (x <= across.max()) & (y >= upward.min()) & (y <= upward.max())
        x, y = x[inside], y[inside]
        kept = thinning.some(len(x), MARKED)
        outside += int((~inside).sum())
        crowded += len(x) - len(kept)
        dots["x"] += thinning.rounded(x[kept])
        dots["y"] += thinning.rounded(y[kept])
        dots["group"] += [name] * len(kept)
    notes = [f"{wording.count(outside, 'point')} not drawn: outside the map, or not finite."] if outside else []
    notes += [f"{wording.count(crowded, 'more point')} would hide the map."] if crowded else []
    return dots, " ".join(notes)


def _lines(figure: HeatMap) -> dict[str, list[Any]]:
    """Lines as columns; a line may turn back, so its points are numbered."""
    columns: dict[str, list[Any]] = {"x": [], "y": [], "line": [], "step": []}
    for name, (x, y) in figure.lines.items():
        x, y = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
        finite = np.isfinite(x) & np.isfinite(y)
        x, y = x[finite], y[finite]
        kept = thinning.thin(x, y)
        columns["x"] += thinning.rounded(x[kept])
        columns["y"] += thinning.rounded(y[kept])
        columns["line"] += [name] * len(kept)
        columns["step"] += list(range(len(kept)))
    return columns


def _strokes(names: list[str], x: Json, y: Json) -> list[Json]:
    """Bright dashes on a dark line."""
    mark: Json = {"type": "line", "clip": True, "tooltip": False, "aria": False}
    dark = {**mark, "stroke": DARK, "strokeWidth": 4.5, "strokeOpacity": 0.5}
    base = {"x": {**x, "field": "x"}, "y": {**y, "field": "y"}, "order": {"field": "step", "type": "quantitative"}}
    # Said even of a single name: nothing else tells what is drawn over a map.
    legend = listed(names, symbolType="stroke", symbolStrokeWidth=2.5)
    bright = {"stroke": told_apart(names, "line", STROKES, legend), "strokeDash": told_apart(names, "line", DASHES, legend)}
    return [
        layer("lines", dark, {**base, "detail": {"field": "line", "type": "nominal"}}),
        layer("lines", {**mark, "strokeWidth": 3}, {**base, **bright}),
    ]


def _points(figure: HeatMap, x: Json, y: Json) -> list[Json]:
    """Filled points with a bright rim, and a dark one around it."""
    names = list(figure.groups)
    mark: Json = {"type": "point", "size": SIZE, "aria": False}
    legend = listed(names, symbolSize=130, symbolStrokeColor="var(--ink)", symbolStrokeWidth=1)
    base = {
        "x": {**x, "field": "x"},
        "y": {**y, "field": "y"},
        "shape": told_apart(names, "group", SHAPES, legend),
        "opacity": when_chosen(1, 0.1),
    }
    filled = {
        **base,
        "fill": told_apart(names, "group", FILLS, legend),
        "tooltip": [name_tip("group"), tip("x", figure.x), tip("y", figure.y)],
    }
    return [
        layer("dots", {**mark, "stroke": DARK, "strokeWidth": 3, "tooltip": False}, base),
        layer("dots", {**mark, "stroke": LIGHT, "strokeWidth": 1.2}, filled, params=[by_legend("group")]),
    ]
