"""Whether anything in a run folder was changed since it was sealed, and whether its inputs are still the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from divulge import __version__, report, sealing, storage
from divulge.contract import Record
from divulge.errors import BadInput
from divulge.report import machine
from divulge.run_folder import FINDINGS, LEDGER, LOCK
from divulge.sealing import REPORT, Unsealed

PAGE = "report.html"
OWN = (LOCK, LEDGER, f"{LEDGER}-wal", f"{LEDGER}-shm", f"{LEDGER}-journal", "pieces", "arrays")
"What a run folder holds for the next run, and the seal leaves out: a reader reads none of it."
MANY = 20
"Added files that are named one by one."

State = Literal["unchanged", "changed", "missing", "added", "not checked"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    what: str
    state: State
    said: str = ""
    "Why, where the state does not say it all."

    @property
    def right(self) -> bool:
        return self.state not in ("changed", "missing")


@dataclass(frozen=True)
class Verification:
    """All that was looked at."""

    folder: Path
    seal: str | None
    "The seal that the folder has; None where it has none that can be read."
    confirmed: bool
    "Whether it is the one that was written down elsewhere."
    checks: tuple[Check, ...] = field(default=())

    @property
    def unchanged(self) -> bool:
        return all(check.right for check in self.checks)


def verify(
    folder: Path,
    *,
    given: str | None = None,
    redraw: bool = False,
    now: Mapping[str, str | BadInput | None] | None = None,
) -> Verification:
    """Compare a run folder with its seal.

    `given` is the seal as it was written down; `redraw` draws the page once more and compares; `now` are fingerprints of
    inputs as they are found today, or why one cannot be read, or None for what is not looked at.
    """
    if given is not None and not sealing.HASH.fullmatch(given := given.strip().lower()):
        raise BadInput(f"expected a seal of 64 hexadecimal digits, got {given[:80]!r}; copy the line that the audit printed")
    try:
        return _verified(folder, given, redraw, now)
    except OSError as error:
        raise BadInput(f"cannot read {folder}: {error.strerror}; check that you may read it") from None


def _verified(
    folder: Path, given: str | None, redraw: bool, now: Mapping[str, str | BadInput | None] | None
) -> Verification:
    if not folder.is_dir():
        raise BadInput(f"expected a run folder at {folder}, found none; give the folder an audit wrote")
    if not any(os.path.lexists(folder / name) for name in (FINDINGS, REPORT)):
        raise BadInput(f"{folder} is not a run folder: it has no {FINDINGS} and no {REPORT}; give the folder an audit wrote")
    if not sealing.sealed(folder):
        why = "the audit did not end, an older version ran it, or somebody removed it; run the same audit again to seal it"
        return Verification(folder, None, False, (Check(REPORT, "missing", why),))
    try:
        document = sealing.read(folder)
    except Unsealed as error:
        rest = Check("everything else", "not checked", f"{REPORT} says what it was")
        return Verification(folder, None, False, (Check(REPORT, "changed", str(error)), rest))
    seal = document["seal"]
    checks = [_itself(document), *_files(folder, seal["files"])]
    if all(check.right for check in checks):
        checks += _contents(folder, document, redraw)
    checks += [*_inputs(document.get("holdings"), now), *_added(folder, seal["files"])]
    if given is not None and given != seal["sha256"]:
        checks.insert(0, Check("seal", "changed", f"{REPORT} has {seal['sha256']}, which is not the one given"))
    return Verification(folder, seal["sha256"], given == seal["sha256"] and checks[0].right, tuple(checks))


def _itself(document: Mapping[str, Any]) -> Check:
    if sealing.own_hash(document) == document["seal"]["sha256"]:
        return Check(REPORT, "unchanged")
    return Check(REPORT, "changed", "it does not have the hash that it carries, so what it says of other files may be wrong")


def _files(folder: Path, known: Mapping[str, str]) -> Iterator[Check]:
    """Every sealed file, and the arrays that the record refers to whatever the seal says."""
    whole = False
    for name, hash in known.items():
        if not os.path.lexists(folder / name):
            yield Check(name, "missing")
            continue
        try:
            same = sealing.hashed(folder, name) == hash
            whole |= same and name == FINDINGS
            yield Check(name, "unchanged" if same else "changed")
        except Unsealed as error:
            yield Check(name, "changed", str(error))
    arrays = storage.arrays_of(folder / FINDINGS) if whole else None
    if arrays is not None and arrays not in known:
        yield Check(arrays, "changed", f"{FINDINGS} refers to it, and the seal does not name it")


def _contents(folder: Path, document: Mapping[str, Any], redraw: bool) -> Iterator[Check]:
    """Whether report.json and the page say what the record says, which a seal made anew after a change does not show."""
    what, by = f"what {REPORT} says", document["seal"]["divulge"]
    if by != __version__:
        yield Check(what, "not checked", f"sealed by divulge {by}, this is {__version__}")
        return
    try:
        record = storage.load(folder / FINDINGS)
        if not isinstance(record, Record):
            raise BadInput("it is not the record of an audit")
        told = {**machine.describe(record), "seal": document["seal"]}
        same = sealing.as_written(told) == sealing.as_written(document)
    except Exception as error:  # a forged record can break any constructor, and a plug-in may be missing
        yield Check(what, "not checked", f"cannot read {FINDINGS}: {error}")
        return
    yield Check(what, "unchanged", "it is what the record says") if same else Check(what, "changed", "the record says else")
    if redraw:
        yield _drawn(folder, record, document["seal"])


def _drawn(folder: Path, record: Record, seal: Mapping[str, Any]) -> Check:
    what, here = f"what {PAGE} shows", sealing.libraries()
    if PAGE not in seal["files"]:
        return Check(what, "not checked", "no page was sealed")
    if seal["drawn_with"] != here:
        other = sorted(name for name in {*here, *seal["drawn_with"]} if here.get(name) != seal["drawn_with"].get(name))
        return Check(what, "not checked", f"it was drawn by other versions of {', '.join(map(str, other))}")
    try:
        page = hashlib.sha256(report.render(record).encode()).hexdigest()
    except Exception as error:  # figures of a forged record may be of any shape
        return Check(what, "changed", f"nothing can be drawn of the record: {error}")
    if page == seal["files"][PAGE]:
        return Check(what, "unchanged", "it is what is drawn of the record")
    return Check(what, "changed", "something else is drawn of the record")


def _inputs(holdings: Any, now: Mapping[str, str | BadInput | None] | None) -> Iterator[Check]:
    """What was held at the start, beside what is found at the same place today."""
    if now is None:
        return
    for thing in holdings if isinstance(holdings, list) else []:
        if not isinstance(thing, dict) or thing.get("won_by"):
            continue
        name, source = str(thing.get("name")), str(thing.get("source"))
        what = f"input {name} ({source})"
        found = now.get(name)
        if name not in now:
            yield Check(what, "missing", "the audit file does not hold it")
        elif found is None:
            yield Check(what, "not checked", "it is at an address, which is not asked")
        elif isinstance(found, BadInput):
            yield Check(what, "missing", str(found))
        else:
            same = found == thing.get("fingerprint")
            yield Check(what, "unchanged") if same else Check(what, "changed", "it was something else when it was audited")
    things = holdings if isinstance(holdings, list) else []
    started = {str(thing.get("name")) for thing in things if isinstance(thing, dict)}
    for name in now:
        if name not in started:
            yield Check(f"input {name}", "added", "the run did not have it")


def _added(folder: Path, known: Mapping[str, str]) -> Iterator[Check]:
    """Files that no seal names and no next run needs. They change nothing that the seal vouches for."""
    arrays = folder / "arrays"
    inside = [f"arrays/{path.name}" for path in sorted(arrays.iterdir())] if arrays.is_dir() else []
    names = [path.name for path in sorted(folder.iterdir()) if path.name not in OWN]
    added = [name for name in (*names, *inside) if name not in known and name != REPORT]
    for name in added[:MANY]:
        traceback = name.startswith("error-") and name.endswith(".txt")
        yield Check(name, "added", "the traceback of an attack that broke" if traceback else "the seal does not name it")
    if len(added) > MANY:
        yield Check(f"{len(added) - MANY} files more", "added", "the seal does not name them")
