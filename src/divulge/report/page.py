"""The page: a first screen, evidence by asset, the rest folded; under a policy that lets nothing in or out."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from divulge.contract import Finding, ImagePairs, Record, Verdict
from divulge.report import annex, canvas, charts, graph, loot, overview, pictures, scores, severity, trials, wording
from divulge.report.markup import code
from divulge.report.opening import heading, opening
from divulge.report.paths import Edge, Paths
from divulge.report.scores import Row
from divulge.report.severity import Rating

MEANINGS = {
    Verdict.LEAK: "the attack won something that was not meant to be given away",
    Verdict.NONE_FOUND: "the attack ran to its end and won nothing; its power says what it would have found",
    Verdict.NOT_APPLICABLE: "what the attack assumes does not hold here, so it says nothing",
    Verdict.FAILED: "the attack applies but did not get to an answer, or the truth shows that its answer is wrong",
}
SHOWN = 7
"Pairs of pictures of a leak that are seen before its evidence is unfolded: one row."
FIRST = 2
"Scores of a leak seen before, those that the truth gave first."


@dataclass(frozen=True)
class Section:
    """One finding as the template reads it."""

    edge: Edge
    title: str
    scores: list[Row]
    loot: loot.Loot | None
    rating: Rating
    charts: dict[str, canvas.Chart] = field(default_factory=dict)
    "Id of the element that holds a chart's data -> the chart."
    galleries: list[pictures.Gallery] = field(default_factory=list)
    pictures: pictures.Gallery | None = None
    "What is seen of the first of them before the evidence is unfolded."

    @property
    def finding(self) -> Finding[Any]:
        return self.edge.finding

    @property
    def denied(self) -> bool:
        """Whether the truth denies what was claimed."""
        return self.edge.denied

    @property
    def first(self) -> list[Row]:
        """The scores that speak for it."""
        measured = [row for row in self.scores if row.name in self.finding.measured]
        return (measured or self.scores)[:FIRST]

    @property
    def holds(self) -> str:
        """What waits behind the fold."""
        parts = [
            wording.count(many, what)
            for many, what in ((len(self.scores), "score"), (len(self.charts), "chart"), (len(self.galleries), "gallery"))
            if many
        ]
        return wording.listing([part.replace("gallerys", "galleries") for part in parts])


@dataclass(frozen=True)
class Chapter:
    """The leaks of one asset, those of one attack together."""

    id: str
    heading: str
    groups: list[list[Section]]


@dataclass(frozen=True)
class Attempts:
    """What one attack tried to no avail, wherever it ended so for the same reason."""

    title: str
    verdict: Verdict
    sections: list[Section]

    @property
    def alike(self) -> str:
        """How far the first one's reason is that of all."""
        if len(self.sections) == 1:
            return ""
        other = len({(section.finding.summary, section.finding.power) for section in self.sections}) > 1
        all_of_them = "both" if len(self.sections) == 2 else f"all {len(self.sections)}"
        return f"The same for {all_of_them}{', with other numbers' if other else ''}."


def render(record: Record) -> str:
    paths, first = Paths(record), opening(record)
    sections = {edge.number: _section(edge, paths, first.stolen) for edge in paths.edges}
    drawn = any(not chart.empty for section in sections.values() for chart in section.charts.values())
    style = Markup(_part("page.css"))
    scripts = [Markup(_part("page.js")), *([Markup(_bundle()), Markup(_part("charts.js"))] if drawn else [])]
    chapters = [_chapter(asset, sections) for asset in overview.assets(record) if asset.groups]
    attempts = _attempts([section for section in sections.values() if not section.edge.leak])
    drawing = graph.draw(record)
    return _environment().get_template("page.html.jinja").render(
        record=record,
        opening=first,
        rule=severity.RULE,
        contents=_contents(chapters, attempts, drawing, bool(record.trials)),
        graph=drawing,
        ways=graph.ways(record),
        chapters=chapters,
        attempts=attempts,
        attempts_summary=_summary(attempts),
        trials=trials.tables(record),
        caveat=trials.CAVEAT,
        annex=annex.lists(record) if record.findings else [],
        meanings=MEANINGS,
        style=style,
        scripts=scripts,
        chart_config=Markup(json.dumps(canvas.CONFIG).replace("<", "\\u003c")) if drawn else "",
        policy=policy(style, scripts),
    )  # fmt: skip


def policy(style: str, scripts: list[Markup]) -> str:
    """Only this style sheet and these scripts, known by their hashes; pictures only from the page itself."""
    allowed = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )


def _section(edge: Edge, paths: Paths, stolen: int) -> Section:
    finding = edge.finding
    figures = [figure for figure in finding.figures if isinstance(figure, ImagePairs)]
    return Section(
        edge=edge,
        title=wording.attack(finding),
        scores=scores.rows(finding.scores),
        loot=None if finding.loot is None else loot.describe(finding.loot),
        rating=severity.rate(edge, paths),
        charts={
            f"chart-{edge.number}-{number}": charts.DRAWN[type(figure)](figure)
            for number, figure in enumerate(finding.figures, 1)
            if not isinstance(figure, ImagePairs)
        },
        galleries=[pictures.pairs(figure) for figure in figures],
        pictures=pictures.pairs(figures[0], SHOWN) if figures and edge.leak and edge.number != stolen else None,
    )


def _chapter(asset: overview.Asset, sections: dict[int, Section]) -> Chapter:
    groups = [[sections[leak.edge.number] for leak in group.leaks] for group in asset.groups]
    return Chapter(f"evidence-{asset.name or 'other'}", heading(asset.name), groups)


def _attempts(sections: Sequence[Section]) -> list[Attempts]:
    """Grouped by attack, verdict and reason but for its numbers, in the order of the verdicts; an attack's rows together."""
    gathered: dict[tuple[Verdict, str], dict[str, list[Section]]] = {}
    for section in sections:
        finding = section.finding
        reason = wording.without_numbers(f"{finding.summary}\n{finding.power}")
        gathered.setdefault((finding.verdict, section.title), {}).setdefault(reason, []).append(section)
    order = list(Verdict)
    ordered = sorted(gathered.items(), key=lambda item: order.index(item[0][0]))
    return [Attempts(title, verdict, together) for (verdict, title), reasons in ordered for together in reasons.values()]


def _summary(attempts: Sequence[Attempts]) -> str:
    """How many attempts ended without a leak, and how."""
    tally: Counter[Verdict] = Counter()
    for row in attempts:
        tally[row.verdict] += len(row.sections)
    ended = wording.listing([f"{tally[verdict]:,} {verdict}" for verdict in Verdict if tally[verdict]])
    return f"{wording.count(tally.total(), 'attempt')}, {ended}"


def _contents(
    chapters: list[Chapter], attempts: list[Attempts], drawing: graph.Drawing, tried: bool
) -> list[tuple[str, str]]:
    """Where the page leads: id and title of its parts."""
    listed = [("graph", "What was won from what")] if drawing.boxes else []
    listed += [(chapter.id, chapter.heading) for chapter in chapters]
    listed += [("before-and-after", "Before and after")] if tried else []
    listed += [("attempts", "What won nothing")] if attempts else []
    listed += [("not-run", "What did not run"), ("annex", "For whom it concerns")]
    return [*listed, ("held", "What was held"), ("reading", "How to read this report")]


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
        count=wording.count, kind=wording.kind, value=wording.value, style=graph.style, code=code,
    )  # fmt: skip
    return environment


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _part(name: str) -> str:
    return resources.files("divulge.report").joinpath(name).read_text("utf-8")


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, with the interpreter that needs no `eval`."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
