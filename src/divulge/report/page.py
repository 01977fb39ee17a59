"""The page: sections from a record, filled into the template under a policy that lets nothing in or out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup, escape

from divulge.contract import Finding, ImagePairs, Record, Verdict
from divulge.report import canvas, charts, graph, headline, loot, pictures, scores, wording
from divulge.report.paths import Edge, Paths

MEANINGS = {
    Verdict.LEAK: "the attack won something that was not meant to be given away",
    Verdict.NONE_FOUND: "the attack ran to its end and won nothing; its power says what it would have found",
    Verdict.NOT_APPLICABLE: "what the attack assumes does not hold here, so it says nothing",
    Verdict.FAILED: "the attack applies but did not get to an answer, or the truth shows that its answer is wrong",
}


@dataclass(frozen=True)
class Section:
    """One finding as the template reads it."""

    edge: Edge
    title: str
    scores: list[scores.Row]
    loot: loot.Loot | None
    charts: dict[str, canvas.Chart] = field(default_factory=dict)
    "Id of the element that holds a chart's data -> the chart."
    galleries: list[pictures.Gallery] = field(default_factory=list)

    @property
    def finding(self) -> Finding[Any]:
        return self.edge.finding


def render(record: Record) -> str:
    paths = Paths(record)
    sections = [_section(edge) for edge in paths.edges]
    drawn = any(not chart.empty for section in sections for chart in section.charts.values())
    style = Markup(_part("page.css"))
    scripts = [Markup(_bundle()), Markup(_part("page.js"))] if drawn else []
    return _environment().get_template("page.html.jinja").render(
        record=record,
        headline=headline.sentences(record),
        tally=Counter(finding.verdict for finding in record.findings),
        graph=graph.draw(record),
        sections=sections,
        meanings=MEANINGS,
        style=style,
        scripts=scripts,
        chart_config=Markup(json.dumps(canvas.CONFIG).replace("<", "\\u003c")),
        policy=policy(style, scripts),
    )  # fmt: skip


def policy(style: str, scripts: list[Markup]) -> str:
    """Only this style sheet and these scripts, known by their hashes; pictures only from the page itself."""
    allowed = " ".join(map(_hash, scripts)) or "'none'"
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )


def _section(edge: Edge) -> Section:
    finding = edge.finding
    section = Section(
        edge=edge,
        title=wording.attack(finding),
        scores=scores.rows(finding.scores),
        loot=None if finding.loot is None else loot.describe(finding.loot),
    )
    for number, figure in enumerate(finding.figures, 1):
        if isinstance(figure, ImagePairs):
            section.galleries.append(pictures.pairs(figure))
        else:
            chart = charts.DRAWN[type(figure)](figure)
            section.charts[f"chart-{edge.number}-{number}"] = chart
    return section


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_part),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=wording.number, precise=wording.precise, interval=wording.interval, duration=wording.duration,
        count=wording.count, kind=wording.kind, value=wording.value, style=graph.style, code=_code,
    )  # fmt: skip
    return environment


def _code(text: str) -> Markup:
    """Text with `names` set as code; everything in it is escaped first."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _part(name: str) -> str:
    return resources.files("divulge.report").joinpath(name).read_text("utf-8")


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, with the interpreter that needs no `eval`."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
