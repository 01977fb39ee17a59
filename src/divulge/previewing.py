"""Pictures while an audit runs: `live.html` in its run folder, there from the first picture to the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from divulge import storage
from divulge.contract import Finding, Preview
from divulge.errors import StorageError
from divulge.graph import Step
from divulge.runner import PREVIEW_SECONDS, Observer

PAGE = "live.html"
KEPT = 3
"Attacks whose last pictures stay on the page while others run."


class Previewing:
    """Watches for somebody else, who is told all the same, and keeps the page."""

    def __init__(self, observer: Observer, folder: Path, title: str) -> None:
        self.observer, self.path, self.title = observer, folder / PAGE, title
        self.shown: dict[str, str] = {}
        "Attack and what it is on -> its part of the page, the latest first."
        self.step, self.progressed = "", ""
        self.began = time.monotonic()
        self.written = 0.0

    def __enter__(self) -> Self:
        self._remove()  # of a run that was killed
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def starts(self, step: Step) -> None:
        self.step, self.progressed = _named(step), ""
        self.began = time.monotonic()
        self._write()
        self.observer.starts(step)

    def progress(self, done: int, total: int) -> None:
        self.progressed = f", {done} of {total}"
        if time.monotonic() - self.written >= PREVIEW_SECONDS:
            self._write()
        self.observer.progress(done, total)

    def log(self, sentence: str) -> None:
        self.observer.log(sentence)

    def ends(self, step: Step, finding: Finding[Any], kept: bool) -> None:
        self.observer.ends(step, finding, kept)

    def sent(self, rows: int, requests: int) -> None:
        self.observer.sent(rows, requests)

    def preview(self, step: Step, made: Callable[[], Preview]) -> None:
        try:
            from divulge.report.previews import section
        except ModuleNotFoundError:  # nothing that draws is installed, and the report will say so
            return
        first, name = not self.shown, _named(step)
        latest = section(name, made())
        before = [(key, part) for key, part in self.shown.items() if key != name]
        self.shown = dict([(name, latest), *before][:KEPT])
        self._write()
        if first:
            self.observer.log(f"pictures so far: {self.path}")
        self.observer.preview(step, made)

    def _write(self) -> None:
        """The page as things stand, once there is a picture. No disk is waited for: it is gone when the audit ends."""
        if self.shown:
            from divulge.report import previews

            seconds = time.monotonic() - self.began
            page = previews.render(self.title, f"{self.step}{self.progressed}", seconds, [*self.shown.values()])
            with suppress(StorageError):  # a full disk is for what matters to say
                storage.write(self.path, page.encode(), sure=False)
            self.written = time.monotonic()

    def _remove(self) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def _named(step: Step) -> str:
    return f"{step.attack.name} on {', '.join(held.name for held in step.inputs)}"
