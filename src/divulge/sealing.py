"""The seal of a run: `report.json` with hashes of itself and of every file that a reader of the run reads."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from divulge import __version__, storage
from divulge.contract import Record
from divulge.errors import BadInput, StorageError
from divulge.report import machine
from divulge.run_folder import FINDINGS

REPORT = "report.json"
HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
NAME = re.compile(r"(arrays/)?[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
"Of a sealed file: in the run folder or its arrays, and nowhere else, whatever a forged seal says."
LARGEST = 1 << 28
"Bytes of a report.json that are read: the demonstration's has 130 thousand, and a forged one need not fill the memory."
LIBRARIES = ("jinja2", "pillow", "vl-convert-python")
"They draw the page: others may draw the same record in other bytes."


class Unsealed(BadInput):
    """A file cannot be vouched for: it is not there, no plain file, or no sealed report."""


def seal(folder: Path, record: Record, *written: Path) -> str:
    """Write report.json, last of all files: what was `written` from the record is sealed with it, and the seal returned.

    Other files keep the hash that they have in the seal that is there. A record that was changed since is refused.
    """
    refuse_changed(folder)
    arrays = storage.arrays_of(folder / FINDINGS)
    named = [FINDINGS, *([arrays] if arrays else []), *(path.name for path in written)]
    before: Mapping[str, Any] = read(folder)["seal"] if sealed(folder) else {"files": {}, "drawn_with": {}}
    document = machine.describe(record)
    document["seal"] = {
        "divulge": __version__,
        "drawn_with": libraries() if written else before["drawn_with"],
        "files": {**before["files"], **{name: hashed(folder, name) for name in named}},
    }
    document["seal"]["sha256"] = own_hash(document)
    storage.write(folder / REPORT, as_written(document))
    return str(document["seal"]["sha256"])


def unseal(folder: Path) -> None:
    """Before the record of a run is written anew: the old seal is of another one."""
    try:
        (folder / REPORT).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {folder / REPORT}: {error.strerror}; choose a folder you may write in") from None


def sealed(folder: Path) -> bool:
    return os.path.lexists(folder / REPORT)


def refuse_changed(folder: Path) -> None:
    """Where a run is sealed, refuse a record that is not the sealed one: what is drawn of it would vouch for the change."""
    if not sealed(folder):
        return
    document = read(folder)
    told = f"restore it, or run the audit again; `divulge verify {folder}` says more"
    if own_hash(document) != document["seal"]["sha256"]:
        raise Unsealed(f"{folder / REPORT} was changed since the run was sealed, so its record cannot be trusted; {told}")
    for name, known in document["seal"]["files"].items():
        if (name == FINDINGS or name.startswith("arrays/")) and hashed(folder, name) != known:
            raise Unsealed(f"{folder / name} was changed since the run was sealed, so nothing is drawn of it; {told}")


def read(folder: Path) -> dict[str, Any]:
    """The sealed report as it stands there, its hashes unchecked but in form; `Unsealed` says what is wrong with it."""
    path = folder / REPORT
    try:
        if (size := path.lstat().st_size) > LARGEST:
            raise Unsealed(f"{path} has {size:,} bytes, more than any report; restore it, or run the audit again")
        blob = contents(folder, REPORT)
        document = json.loads(blob)
        seal = document["seal"]
        names, hashes = seal["files"].keys(), [seal["sha256"], *seal["files"].values()]
        right = all(map(NAME.fullmatch, names)) and all(map(HASH.fullmatch, hashes)) and FINDINGS in names
        right = right and isinstance(seal["drawn_with"], dict) and isinstance(seal["divulge"], str)
        if not right or REPORT in names or as_written(document) != blob:
            raise ValueError("it is not in the form in which divulge writes it")
    except OSError as error:
        raise Unsealed(f"cannot read {path}: {error.strerror}; restore it, or run the audit again") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, Unsealed):
            raise
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise Unsealed(f"{path} is damaged or no report ({reason}); restore it, or run the audit again") from None
    return dict(document)


def own_hash(document: Mapping[str, Any]) -> str:
    """SHA-256 of a report without the field that holds it, in one spelling: sorted keys, no spaces, ASCII."""
    bare = {**document, "seal": {key: value for key, value in document["seal"].items() if key != "sha256"}}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def as_written(document: Mapping[str, Any]) -> bytes:
    """The one way in which a report is written, so that a second meaning cannot hide in repeated keys or spaces."""
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def hashed(folder: Path, name: str) -> str:
    """SHA-256 of a file of the run."""
    with _opened(folder, name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def contents(folder: Path, name: str) -> bytes:
    with _opened(folder, name) as file:
        content: bytes = file.read()
    return content


def _opened(folder: Path, name: str) -> Any:
    """A plain file in the folder itself: no link is followed, and no pipe waited for."""
    path = folder / name
    try:
        kind = path.lstat().st_mode
        if os.path.realpath(path) != os.path.join(os.path.realpath(folder), *name.split("/")):
            raise Unsealed(f"{path} is a link, which is not followed; put the file itself there")
        if not stat.S_ISREG(kind):
            raise Unsealed(f"expected a file at {path}, found something else; put the sealed file there")
        return path.open("rb")
    except FileNotFoundError:
        raise Unsealed(f"expected a file at {path}, found none; put the sealed file there") from None
    except OSError as error:
        raise Unsealed(f"cannot read {path}: {error.strerror}; check that you may read it") from None


def libraries() -> dict[str, str]:
    """What draws the page, as far as it is installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
