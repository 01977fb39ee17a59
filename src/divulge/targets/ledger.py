"""The books of what servers were sent and what they answered: every row counted, kept, and never paid twice."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from divulge.arrays import Array
from divulge.errors import StorageError

APPLICATION = 0x64767267
"What an sqlite file says it belongs to, so that no other program's file is taken for a ledger ('dvrg')."
SCHEMA = 2
KEY = 16
"Bytes that a point is called by."
PAGE, CHECKPOINT = 16384, 4000
"Bytes, and pages until what is written moves into the main file, which waits for the disk: explanations are large."

_TABLES = """
CREATE TABLE model (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, address TEXT NOT NULL, token TEXT NOT NULL, looked TEXT NOT NULL,
  numbers BLOB NOT NULL, UNIQUE (name, address, token)
);
CREATE TABLE answer (
  id INTEGER PRIMARY KEY, source TEXT NOT NULL, asker TEXT NOT NULL, points BLOB NOT NULL, shapes TEXT NOT NULL,
  numbers BLOB NOT NULL
);
CREATE TABLE sent (asker TEXT PRIMARY KEY, rows INTEGER NOT NULL, requests INTEGER NOT NULL) WITHOUT ROWID;
"""

Parts = tuple[Array, ...]
"What one answer holds of one point: its values, or its values and its explanation."


class Known(NamedTuple):
    """A model that has been looked at."""

    address: str
    token: str
    "What tells it from another one at its address."
    looked: Parts


class Ledger:
    """One sqlite file of the run folder that is used; ":memory:" forgets at the end.

    What is about to be sent is written down first and what is answered at once, so that a killed run knows of every row
    that it sent, and asks again for none that was answered.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._lock = threading.RLock()
        if str(path) != ":memory:":
            _make_folder(Path(path))
        with self._explained():
            self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                fresh = self._is_fresh()
                if fresh:
                    self._file.execute(f"PRAGMA page_size = {PAGE}")
                # A kill loses nothing that was written; a power cut may lose the last answers, and damages nothing.
                # Where there is no shared memory, as on some network drives, sqlite stays with its older journal.
                self._file.execute("PRAGMA journal_mode = WAL")
                self._file.execute("PRAGMA synchronous = NORMAL")
                self._file.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
                if fresh:
                    with self._transaction():
                        self._create()
                self._read_places()
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._explained():
            self._file.close()

    def recall(self, source: str, points: Sequence[bytes]) -> dict[bytes, Parts]:
        """Answers that are here already, by point."""
        places = self._places.get(source, {})
        wanted: dict[int, list[tuple[bytes, int]]] = {}
        for point in points:
            if point in places:
                number, row = places[point]
                wanted.setdefault(number, []).append((point, row))
        known: dict[bytes, Parts] = {}
        for number, rows in wanted.items():
            with self._explained(), self._lock:
                found = self._file.execute("SELECT points, shapes, numbers FROM answer WHERE id = ?", (number,)).fetchone()
            parts = self._rows(len(found[0]) // KEY, found[1], found[2])
            known.update((point, tuple(part[row] for part in parts)) for point, row in rows)
        return known

    def send(self, asker: str, rows: int, requests: int = 1) -> None:
        """Write down what is about to be sent; negative numbers take back what nobody took."""
        with self._explained(), self._lock:  # one statement is a transaction of its own
            self._file.execute(
                "INSERT INTO sent VALUES (?1, ?2, ?3) ON CONFLICT (asker) DO UPDATE SET rows = rows + ?2, "
                "requests = requests + ?3",
                (asker, rows, requests),
            )

    def keep(self, source: str, asker: str, points: Sequence[bytes], parts: Parts) -> None:
        """Answers to points, each part with one row a point."""
        shapes = json.dumps([list(part.shape[1:]) for part in parts])
        numbers = np.concatenate([np.asarray(part, dtype="<f8").reshape(len(points), -1) for part in parts], axis=1)
        with self._explained(), self._lock:  # one statement is a transaction of its own
            added = self._file.execute(
                "INSERT INTO answer (source, asker, points, shapes, numbers) VALUES (?, ?, ?, ?, ?)",
                (source, asker, b"".join(points), shapes, np.ascontiguousarray(numbers).data),
            ).lastrowid
        self._place(source, int(added or 0), points)

    def sent(self, asker: str | None = None) -> tuple[int, int]:
        """Rows and requests that were sent since the file was made: for somebody, or in all."""
        with self._explained(), self._lock:
            query = "SELECT total(rows), total(requests) FROM sent WHERE ?1 IS NULL OR asker = ?1"
            rows, requests = self._file.execute(query, (asker,)).fetchone()
        return int(rows), int(requests)

    def answers(self, source: str | None = None) -> int:
        """How many points have been answered."""
        return sum(len(places) for name, places in self._places.items() if source in (None, name))

    def models(self, name: str) -> list[Known]:
        """What models of one name answered when they were first looked at, the latest first."""
        with self._explained(), self._lock:
            query = "SELECT address, token, looked, numbers FROM model WHERE name = ? ORDER BY id DESC"
            found = self._file.execute(query, (name,)).fetchall()
        return [Known(address, token, self._whole(shapes, numbers)) for address, token, shapes, numbers in found]

    def know(self, name: str, model: Known) -> None:
        """Write down how a model answers when it is looked at."""
        shapes = json.dumps([list(part.shape) for part in model.looked])
        numbers = np.concatenate([np.asarray(part, dtype="<f8").ravel() for part in model.looked]).tobytes()
        with self._explained(), self._transaction():
            query = "INSERT OR IGNORE INTO model (name, address, token, looked, numbers) VALUES (?, ?, ?, ?, ?)"
            self._file.execute(query, (name, model.address, model.token, shapes, numbers))

    def forget(self, source: str, asker: str) -> None:
        """Drop what somebody was answered by a model that turned out to be another one."""
        with self._explained(), self._lock:
            self._file.execute("DELETE FROM answer WHERE source = ? AND asker = ?", (source, asker))
        self._read_places()

    def _read_places(self) -> None:
        """Where each answer is: whoever holds the lock of the run folder is alone with the file."""
        self._places: dict[str, dict[bytes, tuple[int, int]]] = {}
        with self._explained(), self._lock:
            for number, source, points in self._file.execute("SELECT id, source, points FROM answer ORDER BY id"):
                if not isinstance(points, bytes) or len(points) % KEY:
                    raise self._damaged()
                self._place(source, number, [points[at : at + KEY] for at in range(0, len(points), KEY)])

    def _place(self, source: str, number: int, points: Sequence[bytes]) -> None:
        places = self._places.setdefault(source, {})
        for row, point in enumerate(points):
            places.setdefault(point, (number, row))

    def _rows(self, count: int, shapes: str, numbers: bytes) -> Parts:
        """Parts with `count` rows, each of the shape that was written down."""
        try:
            flat = np.frombuffer(numbers, dtype="<f8").reshape(count, -1)
            sides, width = _sides(shapes)
            if flat.shape[1] != width:
                raise ValueError("numbers are missing or left over")
            return tuple(flat[:, place].reshape(count, *shape) for place, shape in sides)
        except (TypeError, ValueError):
            raise self._damaged() from None

    def _whole(self, shapes: str, numbers: bytes) -> Parts:
        return tuple(part[0] for part in self._rows(1, shapes, numbers))

    def _damaged(self) -> StorageError:
        return StorageError(f"the ledger {self._path} holds an answer that is no array; move that file away to ask again")

    def _is_fresh(self) -> bool:
        """Whether the file is empty; what is neither that nor a ledger is left as it is."""
        application, schema, tables = (
            self._file.execute(query).fetchone()[0]
            for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if (application, tables) == (0, 0):
            return True
        if (application, schema) != (APPLICATION, SCHEMA):
            what = "one of another version" if application == APPLICATION else "another sqlite file"
            raise StorageError(
                f"expected a ledger of version {SCHEMA} at {self._path}, got {what}; choose another run folder"
            )
        return False

    def _create(self) -> None:
        for statement in _TABLES.split(";"):
            self._file.execute(statement)
        self._file.execute(f"PRAGMA application_id = {APPLICATION}")
        self._file.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:  # a full disk has already rolled back
                    self._file.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what sqlite says into a sentence a person can act on."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte; the rest is detail
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                remedy = "another process is using it; wait until that has finished or choose another run folder"
            elif code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                remedy = "the file is damaged; move it away to start a new ledger"
            else:
                remedy = "free space or choose a folder that can be written, then run again: what was answered is kept"
            raise StorageError(f"cannot use the ledger {self._path}: {error}; {remedy}") from None


def key(point: Array) -> bytes:
    """What a point is called in the books."""
    return hashlib.blake2b(np.ascontiguousarray(point, dtype="<f8").tobytes(), digest_size=KEY).digest()


@lru_cache(maxsize=64)
def _sides(shapes: str) -> tuple[tuple[tuple[slice, tuple[int, ...]], ...], int]:
    """Where the parts of a row are among its numbers, and how many these are."""
    sides = [tuple(int(side) for side in shape) for shape in json.loads(shapes)]
    if any(side < 0 for shape in sides for side in shape):
        raise ValueError("a side is negative")
    ends = [0, *accumulate(math.prod(shape) for shape in sides)]
    parts = zip(ends, ends[1:], sides, strict=False)
    return tuple((slice(start, end), shape) for start, end, shape in parts), ends[-1]


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make a folder for the ledger {path}: {error.strerror}; choose a folder that can be written"
        ) from None
