"""What lies in a run folder, and who may touch it: one lock, finished pieces, the ledger, the version of the code."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from divulge import __version__
from divulge.errors import BadInput, StorageError
from divulge.storage import load, save, sweep

FINDINGS = "findings.json"
"The record of the audit."
LOCK = ".lock"
LEDGER = "ledger.sqlite"
"What servers were sent and answered; opened by whoever holds the lock."


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second audit out of a run folder; a killed process lets go by itself."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / LOCK).exists() and any(folder.iterdir()):
            raise BadInput(
                f"expected an empty folder or an earlier run at {folder}, got one with other files; choose another"
            )
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"cannot write in {folder}: {reason}; choose a folder you may write in") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sweep(folder)
        yield
    except BlockingIOError:
        raise BadInput(f"another audit is running in {folder}; wait for it, or choose another folder") from None
    finally:
        os.close(handle)


class Pieces:
    """A folder of finished pieces: one JSON file a name, arrays beside them. A damaged piece is as good as none."""

    def __init__(self, folder: Path, log: Callable[[str], None]) -> None:
        self.folder = folder
        self.log = log

    def recall(self, name: str) -> Any:
        path = self._path(name)
        try:
            if not path.exists():
                raise KeyError(name)
            return load(path)
        except (StorageError, OSError) as error:
            self.log(f"computing a piece again: {error}")
            raise KeyError(name) from None

    def keep(self, name: str, value: Any) -> None:
        save(value, self._path(name))

    def _path(self, name: str) -> Path:
        """A name that an attack chose, as the name of a file in this folder and nowhere else."""
        if not re.fullmatch(r"[\w-][\w.-]{0,79}", name, re.ASCII):
            name = hashlib.sha256(name.encode()).hexdigest()
        return self.folder / f"{name}.json"


@cache
def versions() -> dict[str, str]:
    """What could change a result: Python and the numerical libraries, without importing them."""
    found = {"divulge": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def code_version(module: str) -> str:
    """A hash of the source that computes a finding: ours, and the plug-in's own package."""
    home = Path(__file__).parent
    rooms = ("contract", "learners", "solvers", "attacks", "baselines", "studies", "victims", "defences")
    files = [path for room in rooms for path in sorted((home / room).rglob("*.py"))]
    top = module.split(".")[0]
    digest = hashlib.sha256()
    if top != "divulge":
        spec = find_spec(top)
        folders = list(spec.submodule_search_locations or []) if spec else []
        files += [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
        if spec and spec.origin and not folders:
            files.append(Path(spec.origin))
        for distribution in packages_distributions().get(top, []):
            digest.update(f"{distribution} {version(distribution)}".encode())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]
