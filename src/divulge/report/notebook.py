"""Findings, audits, loot and figures as fragments of HTML for a notebook's cell: static, and at home in any theme.

There is no script and nothing from outside. A cell may be light or dark and its page does not say which, so text has the
page's colour, lines are translucent, and the colours of charts stand out from either.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from divulge.contract import ASSETS, Access, Figure, Finding, ImagePairs, Record, Verdict
from divulge.report import headline, loot, opening, overview, pictures, scores, severity, trials, wording
from divulge.report.markup import code
from divulge.report.paths import Paths

ROOM = 1_500_000
"Characters of drawings in one cell: a notebook holds many cells, and is read and saved whole."
SVG = 200_000
"Characters of a chart as SVG; one with more shapes is a picture of its pixels, which takes a tenth of that."
SIZE = {"width": 520, "height": 240}
"Of a chart's axes: a cell is narrower than a page."
SEEN = 16
"Pictures, or pairs of them, and rows of a table that are seen at once; the others are folded away."
ROWS = 200
"Rows of a table in all."
COLOURS = {
    "line": "#80808040", "line-strong": "#808080a0",
    "series-1": "#d9533b", "series-2": "#3482b8", "series-3": "#7d828a",
    "series-4": "#b07a10", "series-5": "#9068bd", "series-6": "#25906f",
}  # fmt: skip
"What the page's style sheet calls a colour -> one that stands out from black and from white; what is not here is text."


@dataclass(frozen=True)
class Drawing:
    """A chart, or a gallery, or why there is neither."""

    title: str
    note: str = ""
    chart: str = ""
    gallery: pictures.Gallery | None = None

    @property
    def size(self) -> int:
        groups = self.gallery.groups if self.gallery else ()
        return len(self.chart) + sum(len(one.uri) for group, _ in groups for one in group)


def show(value: object, report: Path | None = None) -> str | None:
    """Whatever this page knows to draw."""
    match value:
        case Finding():
            return finding(value)
        case Record():
            return audit(value, report)
        case Access():
            return access(value)
    return figure(value) if isinstance(value, Figure) else None


def finding(finding: Finding[Any]) -> str:
    """One finding; its severity is that at its own price, for the way to it is not in it."""
    alone = Paths(Record("", (), (finding,)))
    rating = severity.rate(alone.leaks[0], alone) if alone.leaks else None
    won = loot.describe(finding.loot) if finding.loot is not None else None
    drawings, left = _drawings(finding.figures)
    if won is not None and any(drawing.gallery for drawing in drawings):
        won = replace(won, gallery=None)  # the pairs show them, beside the originals
    return _filled(
        "finding", finding=finding, title=wording.attack(finding), asset=severity.asset_of(finding), rating=rating,
        rows=scores.rows(finding.scores)[:ROWS], loot=won, drawings=drawings, left=left,
    )  # fmt: skip


def audit(record: Record, report: Path | None = None) -> str:
    """The headline, the leaks by asset, some of what was stolen, every verdict, and where the report is."""
    leaks = overview.leaks(record)
    by_asset = {asset: [leak for leak in leaks if leak.asset == asset] for asset in _assets(leaks)}
    first = [leak.edge.finding for leak in leaks]
    opened = opening.opening(record)
    rest = [finding for finding in record.findings if finding.verdict is not Verdict.LEAK]
    return _filled(
        "audit", record=record, sentences=headline.sentences(record), by_asset=by_asset, stolen=opened.showcase,
        behind=[table.sentence for table in trials.tables(record)], caveat=trials.CAVEAT,
        findings=[*first, *rest][:ROWS], more=max(0, len(record.findings) - ROWS), report=report,
        address=None if report is None else quote(report.as_posix()) if not report.is_absolute() else report.as_uri(),
    )  # fmt: skip


def access(held: Access) -> str:
    """What is held or was won, as a small table, with its pictures."""
    return _filled("access", loot=loot.describe(held))


def figure(figure: Figure) -> str:
    """One figure."""
    return _filled("figure", drawing=_drawing(figure))


def _assets(leaks: Iterable[overview.Leak]) -> list[str]:
    named = {leak.asset for leak in leaks}
    return [*(asset for asset in ASSETS if asset in named), *sorted(named - set(ASSETS))]


def _drawings(figures: Iterable[Figure]) -> tuple[list[Drawing], int]:
    """As many as there is room for, one at least, and how many are left."""
    figures = list(figures)
    drawings: list[Drawing] = []
    room = ROOM
    for figure in figures:
        drawing = _drawing(figure)
        room -= drawing.size
        if room < 0 and drawings:
            break
        drawings.append(drawing)
    return drawings, len(figures) - len(drawings)


def _drawing(figure: Figure) -> Drawing:
    if isinstance(figure, ImagePairs):
        gallery = pictures.pairs(figure)
        return Drawing(gallery.title, gallery=gallery)
    try:
        import vl_convert

        from divulge.report import canvas, charts
    except ModuleNotFoundError as missing:
        return Drawing(figure.title, f"Drawing this needs {missing.name}: pip install 'divulge[report]'.")
    chart = charts.DRAWN[type(figure)](figure)
    if chart.empty:
        return Drawing(chart.title, f"Nothing to draw. {chart.note}".rstrip())
    spec = _static(chart.spec) | {"config": {**canvas.CONFIG, "aria": False}}
    spec["datasets"] = {
        name: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for name, columns in chart.data.items()
    }
    svg = vl_convert.vegalite_to_svg(_coloured(spec))
    if len(svg) <= SVG:
        return Drawing(chart.title, chart.note, _at_home(svg, chart.title))
    png = base64.b64encode(vl_convert.vegalite_to_png(_coloured(spec, ink="#808080"), scale=1.5)).decode()
    size = f'width="{SIZE["width"] + 80}"'
    return Drawing(chart.title, chart.note, f'<img {size} alt="{escape(chart.title)}" src="data:image/png;base64,{png}">')


def _static(spec: Any) -> dict[str, Any]:
    """A chart's specification without what only answers a pointer: circles, and what they choose."""
    return {**spec, **SIZE, "layer": [layer for layer in spec["layer"] if layer["mark"]["type"] != "circle"]}


def _coloured(spec: Any, ink: str = "currentColor") -> dict[str, Any]:
    """The same with the colours of a style sheet that is not there written out."""
    text = re.sub(r"var\(--([a-z0-9-]+)\)", lambda name: COLOURS.get(name[1], ink), json.dumps(spec))
    written: dict[str, Any] = json.loads(text)
    return written


def _at_home(svg: str, title: str) -> str:
    """As wide as the cell at most, with ids that no other chart of the notebook has."""
    mark = hashlib.sha256(svg.encode()).hexdigest()[:10]
    svg = re.sub(r'(id="|url\(#)', rf"\g<1>divulge-{mark}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" style="max-width:100%;height:auto" ', 1)


def _filled(part: str, **values: Any) -> str:
    return _environment().get_template("notebook.html.jinja").render(part=part, seen=SEEN, **values)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FunctionLoader(lambda name: resources.files("divulge.report").joinpath(name).read_text("utf-8")),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=wording.number, interval=wording.interval, duration=wording.duration, count=wording.count,
        kind=wording.kind, attack=wording.attack, shorten=wording.shorten, code=code, safely=Markup,
    )  # fmt: skip
    return environment
