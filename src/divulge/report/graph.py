"""The attack graph, drawn: what was held on the left, each finding an edge, what was won to its right.

Of many findings only those that lead to a leak are drawn; and every way to a leak is told in words as well, for a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from divulge.contract import Record, Verdict
from divulge.report import layout, wording
from divulge.report.paths import Edge, Paths

HELD, TRIED, HEIGHT, GAP, BETWEEN = 150.0, 200.0, 50.0, 18.0, 36.0
"Width of a holding, width of an edge's label, height of both, space below and beside them, in pixels."
LONG = 1200
"A wider drawing is not shrunk to a screen's width: it could not be read."
EDGE = 4.0
"Room around the drawing for outlines."
FEW = 8
"As many findings as are all drawn, on half a screen; of more, those that lead nowhere are told in the table alone."


MEANS = "no leak by itself"
"What a finding is that others go on from."


@dataclass(frozen=True)
class Box:
    """A holding, or the label in the middle of an edge."""

    x: float
    y: float
    width: float
    title: str
    below: str
    full: str
    "What does not fit, for a reader who points at it."
    style: str
    "`start`, `won`, `taken` (loot that is no leak), `denied` (none at all), or a verdict as the style sheet spells it."
    link: str = ""


@dataclass(frozen=True)
class Connection:
    path: str
    style: str
    "The verdict of its finding."
    arrow: bool
    "Whether it leads to what was won."


@dataclass(frozen=True)
class Drawing:
    width: float
    height: float
    boxes: list[Box]
    lines: list[Connection]
    words: str

    @property
    def tried(self) -> int:
        """How many findings it shows."""
        return sum(bool(box.link) for box in self.boxes)

    @property
    def denies(self) -> bool:
        """Whether it shows what was claimed and is not so."""
        return any(box.style == "denied" for box in self.boxes)

    @property
    def long(self) -> bool:
        return self.width > LONG


@dataclass(frozen=True)
class Step:
    """One attack on the way to a leak, and the kind of thing that it won."""

    title: str
    won: str
    link: str
    leak: bool


@dataclass(frozen=True)
class Way:
    """From what was held to a leak; several things held that lead the same way are told together."""

    starts: tuple[str, ...]
    helped: tuple[str, ...]
    "What else was held for it."
    steps: tuple[Step, ...]


def ways(record: Record) -> list[Way]:
    """Every way that ends in a leak, the longest first."""
    paths = Paths(record)
    gathered: dict[tuple[str, ...], list[Way]] = {}
    for edge in paths.ends:
        names = paths.way(edge)
        made = [(name, paths.makers[name]) for name in names if name in paths.makers]
        steps = tuple(
            Step(wording.attack(by.finding), wording.kind(paths.kinds[name]), f"#finding-{by.number}", by.leak)
            for name, by in made
        )
        start = names[:1] if names[0] not in paths.makers else []
        helped = [name for name in paths.roots(edge) if name not in start]
        gathered.setdefault(tuple(step.title for step in steps), []).append(Way(tuple(start), tuple(helped), steps))
    told = [
        Way(
            tuple(dict.fromkeys(name for way in same for name in way.starts)),
            tuple(dict.fromkeys(name for way in same for name in way.helped)),
            same[0].steps,
        )
        for same in gathered.values()
    ]
    return sorted(told, key=lambda way: -len(way.steps))


def draw(record: Record) -> Drawing:
    paths = Paths(record)
    edges = paths.edges if len(paths.edges) <= FEW else paths.leading
    touched = {name for edge in edges for name in (*edge.sources, edge.won)}
    kinds = {name: kind for name, kind in paths.kinds.items() if edges is paths.edges or name in touched}
    columns = {f"held {name}": 2 * paths.depths[name] for name in kinds}
    lines: list[tuple[str, str]] = []
    styles: list[tuple[str, bool]] = []
    for edge in edges:
        label, verdict = f"edge {edge.number}", style(edge.finding.verdict)
        columns[label] = 1 + max((columns[f"held {name}"] for name in edge.sources), default=0)
        lines += [(f"held {name}", label) for name in edge.sources]
        styles += [(verdict, False)] * len(edge.sources)
        if edge.won and columns[f"held {edge.won}"] > columns[label]:  # a circular record has edges that cannot be drawn
            lines.append((label, f"held {edge.won}"))
            styles.append((verdict, True))

    placed = layout.place(columns, lines, box=HEIGHT, gap=GAP)
    boxes: dict[str, Box] = {}
    for name, kind in kinds.items():
        key = f"held {name}"
        maker = paths.makers.get(name)
        title, below = _parted(name, wording.kind(kind))
        boxes[key] = Box(
            *(_left(columns[key]), EDGE + placed.middles[key] - HEIGHT / 2, HELD),
            *(wording.shorten(title, 16), wording.shorten(below, 20), f"{name}: {wording.kind(kind)}"),
            style="start" if maker is None else "won" if maker.leak else "denied" if maker.denied else "taken",
        )
    for edge in edges:
        key, title = f"edge {edge.number}", wording.attack(edge.finding)
        verdict = edge.finding.verdict
        boxes[key] = Box(
            *(_left(columns[key]), EDGE + placed.middles[key] - HEIGHT / 2, TRIED),
            *(wording.shorten(title, 26), MEANS if edge.finding.onward else str(verdict)),
            f"{title}: {verdict}. {edge.finding.summary}",
            style=style(verdict),
            link=f"#finding-{edge.number}",
        )
    drawn = [
        Connection(_curve(boxes[start], boxes[end], bends), *line)
        for (start, end), bends, line in zip(lines, placed.bends, styles, strict=True)
    ]
    width = max((box.x + box.width for box in boxes.values()), default=0) + EDGE
    return Drawing(width, placed.height + 2 * EDGE, list(boxes.values()), drawn, _words(edges))


def style(verdict: Verdict) -> str:
    return str(verdict).replace(" ", "-")


def _parted(name: str, kind: str) -> tuple[str, str]:
    """A name and what it is; one that says so itself, as `weights of api` does, is parted there."""
    return (kind, name.removeprefix(kind).strip()) if name.startswith(f"{kind} ") else (name, kind)


def _left(column: int) -> float:
    pairs, edge = divmod(column, 2)
    return EDGE + pairs * (HELD + TRIED + 2 * BETWEEN) + edge * (HELD + BETWEEN)


def _curve(start: Box, end: Box, bends: Sequence[tuple[int, float]]) -> str:
    """A smooth way from one box to the next, level where it passes a column."""
    points = [(start.x + start.width, start.y + HEIGHT / 2)]
    for column, middle in bends:
        left, width = _left(column), TRIED if column % 2 else HELD
        points += [(left, EDGE + middle), (left + width, EDGE + middle)]
    points.append((end.x, end.y + HEIGHT / 2))
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x, y), (next_x, next_y) in pairwise(points):
        middle = (x + next_x) / 2
        path += f"C{middle:g} {y:g} {middle:g} {next_y:g} {next_x:g} {next_y:g}"
    return path


def _words(edges: Sequence[Edge]) -> str:
    """The drawing for a reader who cannot see it."""
    said = []
    for edge in edges:
        sources = wording.listing(edge.sources) or "nothing named"
        won = f", {'claiming' if edge.denied else 'winning'} {edge.won}" if edge.won else ""
        said.append(f"From {sources}, {wording.attack(edge.finding)}: {edge.finding.verdict}{won}.")
    return " ".join(said)
