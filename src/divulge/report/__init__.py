"""Findings to one self-contained page: a pure function of a record, so it can be drawn again without running anything."""

from pathlib import Path

from divulge import storage
from divulge.contract import Record
from divulge.errors import BadInput

_DRAWN_WITH = ("jinja2", "markupsafe", "PIL", "vl_convert")


def render(record: Record) -> str:
    """The report as HTML; nothing in it refers to anything outside it."""
    try:
        from divulge.report import page  # brings libraries along: only whoever draws a page pays for them
    except ModuleNotFoundError as missing:
        if missing.name not in _DRAWN_WITH:
            raise
        raise BadInput(f"drawing a report needs {missing.name}, which is missing; pip install 'divulge[report]'") from None
    return page.render(record)


def write(record: Record, folder: Path) -> Path:
    """Write `report.html` into a folder, whole or not at all, and say where it is."""
    path = folder / "report.html"
    storage.write(path, render(record).encode())
    return path
