"""Where a finding points: the file or address of what it goes back to, as a relative reference that any tool takes."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import quote, urlsplit

FILE = re.compile(r"\.[A-Za-z]\w{0,11}")
"What the name of a file ends with; a source in words, as `in memory` is, has no such end."


def place(source: str, name: str) -> str:
    """A relative URI: a file as the audit names it, host and path of an address, the thing's own name where it is neither.

    GitHub refuses a whole upload in which one location has the scheme of a web address, and the path to a file on the
    machine that ran the audit is nobody's business.
    """
    path = address(source).partition("://")[2] if "://" in source else _file(source)
    steps = [step for step in (path or name).split("/") if step not in ("", ".", "..")]
    return "/".join(quote(step, safe="", errors="replace") for step in steps) or "audit"


def address(source: str) -> str:
    """An address without what could be a secret in it: a user's name and password, a query; empty where it is none."""
    if "://" not in source:
        return ""
    try:
        parts = urlsplit(source)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host and parts.scheme else ""


def _file(source: str) -> str:
    """A file without its options; of an absolute path, or one that leaves the folder, the last part."""
    path = PurePosixPath(source.partition("#")[0])
    if not FILE.fullmatch(path.suffix):
        return ""
    return path.name if path.is_absolute() or ".." in path.parts else str(path)
