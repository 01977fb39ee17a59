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
from typing import Self

import numpy as np

from divulge.arrays import Array
from divulge.errors import StorageError

APPLICATION = 0x64767267
"What an sqlite file says it belongs to, so that no other program's file is taken for a ledger ('dvrg')."
SCHEMA = 2
CHUNK = 500
"Points looked up at once: sqlite takes 999 values a statement in its older versions."

PAGE, CHECKPOINT = 16384, 4000
"Bytes, and pages until what is written moves into the main file and waits for the disk: explanations are large."

_TABLES = """
CREATE TABLE model (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, token TEXT NOT NULL, looked TEXT NOT NULL, numbers BLOB NOT NULL,
  UNIQUE (name, token)
);
CREATE TABLE answer (
  source TEXT NOT NULL, point BLOB NOT NULL, shapes TEXT NOT NULL, numbers BLOB NOT NULL, asker TEXT NOT NULL,
  UNIQUE (source, point)
);
CREATE TABLE sent (asker TEXT PRIMARY KEY, rows INTEGER NOT NULL, requests INTEGER NOT NULL) WITHOUT ROWID;
"""

Parts = tuple[Array, ...]
"What one answer holds of one point: its values, or its values and its explanation."


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
        known: dict[bytes, Parts] = {}
        for start in range(0, len(points), CHUNK):
            chunk = points[start : start + CHUNK]
            query = f"SELECT point, shapes, numbers FROM answer WHERE source = ? AND point IN ({','.join('?' * len(chunk))})"
            with self._explained(), self._lock:
                found = self._file.execute(query, (source, *chunk)).fetchall()
            known.update((point, self._parts(shapes, numbers)) for point, shapes, numbers in found)
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
        flat = np.concatenate([np.asarray(part, dtype="<f8").reshape(len(points), -1) for part in parts], axis=1)
        with self._explained(), self._transaction():
            self._file.executemany(
                "INSERT OR IGNORE INTO answer VALUES (?, ?, ?, ?, ?)",
                ((source, point, shapes, row.tobytes(), asker) for point, row in zip(points, flat, strict=True)),
            )

    def sent(self, asker: str | None = None) -> tuple[int, int]:
        """Rows and requests that were sent since the file was made: for somebody, or in all."""
        with self._explained(), self._lock:
            query = "SELECT total(rows), total(requests) FROM sent WHERE ?1 IS NULL OR asker = ?1"
            rows, requests = self._file.execute(query, (asker,)).fetchone()
        return int(rows), int(requests)

    def answers(self, source: str | None = None) -> int:
        """How many points have been answered."""
        with self._explained(), self._lock:
            query = "SELECT count(*) FROM answer WHERE ?1 IS NULL OR source = ?1"
            return int(self._file.execute(query, (source,)).fetchone()[0])

    def models(self, name: str) -> dict[str, Parts]:
        """What models of one address answered when they were first looked at, by their token, the latest first."""
        with self._explained(), self._lock:
            query = "SELECT token, looked, numbers FROM model WHERE name = ? ORDER BY id DESC"
            found = self._file.execute(query, (name,)).fetchall()
        return {token: self._parts(shapes, numbers) for token, shapes, numbers in found}

    def know(self, name: str, token: str, looked: Parts) -> None:
        """Write down how a model answers when it is looked at."""
        shapes = json.dumps([list(part.shape) for part in looked])
        numbers = np.concatenate([np.asarray(part, dtype="<f8").ravel() for part in looked]).tobytes()
        with self._explained(), self._transaction():
            query = "INSERT OR IGNORE INTO model (name, token, looked, numbers) VALUES (?, ?, ?, ?)"
            self._file.execute(query, (name, token, shapes, numbers))

    def forget(self, source: str, asker: str) -> None:
        """Drop what somebody was answered by a model that turned out to be another one."""
        with self._explained(), self._transaction():
            self._file.execute("DELETE FROM answer WHERE source = ? AND asker = ?", (source, asker))

    def _parts(self, shapes: str, numbers: bytes) -> Parts:
        try:
            flat = np.frombuffer(numbers, dtype="<f8")
            places, end = _places(shapes)
            if len(flat) != end:
                raise ValueError("numbers are missing or left over")
            return tuple(flat[place].reshape(shape) for place, shape in places)
        except (TypeError, ValueError):
            raise StorageError(
                f"the ledger {self._path} holds an answer that is no array; move that file away to ask again"
            ) from None

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
    return hashlib.blake2b(np.ascontiguousarray(point, dtype="<f8").tobytes(), digest_size=16).digest()


@lru_cache(maxsize=64)
def _places(shapes: str) -> tuple[tuple[tuple[slice, tuple[int, ...]], ...], int]:
    """Where the parts of an answer are among its numbers, and how many these are."""
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
