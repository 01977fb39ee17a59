"""Watches in a notebook: one display of a cell, brought up to date in its place while an audit or an attack runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from divulge.contract.display import Progress, in_kernel

if TYPE_CHECKING:
    from divulge.contract import Finding, Preview
    from divulge.graph import Step
    from divulge.runner import Observer

EVERY = 0.2
"Seconds between updates: each is a message and a redrawing, and five a second look alive."
PATIENCE = 0.5
"Seconds before an attack by itself gets a bar: most are done by then, and a bar would only flicker."
LINES = 20
"Lines of what is done; each update sends all of them."
LENGTH = 200
"Characters of one line."
SOFT = "opacity:.7;font-size:.9em"
TRACK = "height:.45em;max-width:32em;margin:.4em 0;border-radius:.3em;overflow:hidden;background:rgba(128,128,128,.3)"
FILL = "height:100%;background:#c8371f"
BADGE = (
    "display:inline-block;padding:0 .55em;border:1px solid currentColor;border-radius:1em;font-size:.82em;white-space:nowrap"
)
LEAK = f"{BADGE};background:#c8371f;border-color:#c8371f;color:#fff;font-weight:600"


class Display:
    """One place in a cell's output: shown once, changed from then on."""

    def __init__(self) -> None:
        self.name = uuid4().hex
        self.shown = 0.0

    def show(self, html: str, text: str) -> None:
        # Loaded wherever a kernel runs, and nowhere else asked for.
        tool: Any = import_module("IPython.display")
        tell = tool.update_display if self.shown else tool.display
        tell({"text/html": html, "text/plain": text}, raw=True, display_id=self.name)
        self.shown = time.monotonic()

    @property
    def due(self) -> bool:
        return time.monotonic() - self.shown >= EVERY


class Bar:
    """How far a piece of work is, and how long it may still take."""

    def __init__(self, title: str) -> None:
        self.title, self.began = title, time.monotonic()
        self.done = self.total = 0

    def at(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def __str__(self) -> str:
        if not self.total:
            return self.title
        left = f", {_seconds(self.elapsed * (self.total - self.done) / self.done)} left" if self.done else ""
        return f"{self.title}: {self.done:,} of {self.total:,}{left}"

    def html(self) -> str:
        share = min(100.0, 100 * self.done / self.total) if self.total else 0.0
        drawn = f'<div style="{TRACK}"><div style="{FILL};width:{share:.1f}%"></div></div>' if self.total else ""
        return f"<div>{escape(str(self))}{drawn}</div>"


class Cell:
    """An observer for `audit` in a notebook: what runs and how far it is, what was sent, a line for each finding."""

    def __init__(self) -> None:
        self.display = Display()
        self.bar: Bar | None = None
        self.traffic = ""
        self.lines: list[tuple[str, str]] = []
        "The verdict of each where it has one, and what it says."

    def starts(self, step: Step) -> None:
        self.bar = Bar(_called(step))
        self._update()

    def progress(self, done: int, total: int) -> None:
        if self.bar is not None:
            self.bar.at(done, total)
        self._update()

    def log(self, sentence: str) -> None:
        self.lines.append(("", sentence))
        self._update(now=self.bar is None)  # between attacks and after the last one nothing may come any more

    def ends(self, step: Step, finding: Finding[Any], kept: bool) -> None:
        again = " (kept from an earlier run)" if kept else ""
        self.lines.append((finding.verdict.value, f"{_called(step)}{again}: {finding.summary}"))
        self.bar = None
        self._update(now=True)

    def sent(self, rows: int, requests: int) -> None:
        self.traffic = f"{rows:,} rows sent in {requests:,} requests" if requests else ""
        self._update()

    def preview(self, step: Step, made: Callable[[], Preview]) -> None:
        """The line that says where the pictures are has been told; they would push it out of sight."""

    def _update(self, *, now: bool = False) -> None:
        if not (now or self.display.due):
            return
        last = [(verdict, said if len(said) <= LENGTH else f"{said[:LENGTH]}…") for verdict, said in self.lines[-LINES:]]
        if len(self.lines) > len(last):
            last.insert(0, ("", f"{len(self.lines) - len(last)} lines before these"))
        below = [*last, *([("", self.traffic)] if self.traffic else [])]
        rows = "".join(f"<div>{_line(*line)}</div>" for line in below)
        bar = self.bar.html() if self.bar else ""
        html = f'<div style="color:inherit;line-height:1.7;overflow-wrap:anywhere">{rows}{bar}</div>'
        text = [f"{verdict}: {said}" if verdict else said for verdict, said in below]
        self.display.show(html, "\n".join([*text, *([str(self.bar)] if self.bar else [])]))


def observer() -> Observer | None:
    """Who watches an audit that nobody else watches: the cell, in a notebook."""
    return Cell() if in_kernel() else None


@contextmanager
def bar(title: str) -> Iterator[Progress]:
    """A bar for one attack that takes its time; a line says how long it took once it is done."""
    display, work = Display(), Bar(title)

    def progress(done: int, total: int) -> None:
        work.at(done, total)
        if display.due and work.elapsed >= PATIENCE:
            display.show(work.html(), str(work))

    try:
        yield progress
    finally:
        if display.shown:
            told = f"{title}: {_seconds(work.elapsed)}"
            display.show(f'<div style="{SOFT}">{escape(told)}</div>', told)


def _line(verdict: str, said: str) -> str:
    style = LEAK if verdict == "leak" else BADGE
    shown = f'<span style="{style}">{verdict}</span> {escape(said)}'
    return shown if verdict else f'<span style="{SOFT}">{escape(said)}</span>'


def _called(step: Step) -> str:
    return f"{step.attack.title} on {', '.join(held.name for held in step.inputs)}"


def _seconds(number: float) -> str:
    return f"{number:.0f} s" if number < 120 else f"{number / 60:.0f} min"
