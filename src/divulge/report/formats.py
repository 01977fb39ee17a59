"""Files for other programs, beside the page that people read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from divulge import storage
from divulge.contract import Record
from divulge.errors import refuse_unknown
from divulge.report import junit, sarif

FORMATS: dict[str, tuple[str, Callable[[Record], str]]] = {
    "sarif": ("report.sarif", sarif.render),
    "junit": ("report.junit.xml", junit.render),
}
"Name -> the file in the run folder, and what it is made with."


def read(names: Iterable[str]) -> tuple[str, ...]:
    """The formats that are named; each text may hold several, with commas between them."""
    chosen = tuple(dict.fromkeys(part.strip() for text in names for part in text.split(",")))
    refuse_unknown(chosen, FORMATS, "format")
    return chosen


def write(record: Record, folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Write a record into its run folder in the formats that are named, and say where each is.

    Files that an earlier run left are written again as well, so that none tells of other findings than the page does.
    """
    left = [name for name, (file, _) in FORMATS.items() if (folder / file).exists()]
    written = {}
    for name in dict.fromkeys((*read(names), *left)):
        file, render = FORMATS[name]
        written[name] = folder / file
        storage.write(written[name], render(record).encode())
    return written
