"""Every query counted, kept and never paid twice."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from divulge.arrays import Array
from divulge.errors import BadInput, StorageError

APPLICATION = 0x64767267
"What an sqlite file says it belongs to, so that no other program's file is taken for a ledger ('dvrg')."
SCHEMA = 1

_TABLES = """
CREATE TABLE source (
  id INTEGER PRIMARY KEY, identity TEXT NOT NULL, kind TEXT NOT NULL, sent INTEGER NOT NULL DEFAULT 0,
  UNIQUE (identity, kind)
);
CREATE TABLE answer (
  source INTEGER NOT NULL REFERENCES source, point BLOB NOT NULL, shape TEXT NOT NULL, numbers BLOB NOT NULL,
  PRIMARY KEY (source, point)
);
"""


class Ledger:
    """Answers a model has given, in one sqlite file that may be shared between runs; ":memory:" forgets at the end."""

    def __init__(self, path: Path | str, *, patience: float = 60.0) -> None:
        """`patience` is how many seconds to wait for another process that is writing."""
        self._path = path
        self._lock = threading.Lock()
        if str(path) != ":memory:":
            _make_folder(Path(path))
        with self._explained():
            self._file = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            self.close = weakref.finalize(self, self._file.close)
            # Without a write-ahead log a ledger may also lie on a network drive.
            self._file.execute("PRAGMA synchronous = EXTRA")
            with self._transaction():
                self._open()

    def answer(
        self, identity: str, kind: str, X: Array, ask: Callable[[Array], Array], *, batch: int | None = None
    ) -> Array:
        """Answers (n, ...) for the points X (n, dimension), asking only for those never answered before.

        `ask` gets at most `batch` different points at a time and returns one finite row for each. Its rows are on disk
        before the next are asked for, so a kill loses no more than the request that was under way. The file stays
        reserved while `ask` works, so two processes never pay for the same point.
        """
        X = np.ascontiguousarray(X, dtype="<f8")
        if X.ndim != 2 or len(X) == 0:
            raise BadInput(f"expected query points as a 2-D array with at least one row, got shape {X.shape}; reshape them")
        keys = [hashlib.sha256(row.tobytes()).digest() for row in X]
        known: dict[bytes, Array] = {}
        with self._explained():
            for key in keys:
                self._recall(identity, kind, key, known)
        waiting = {key: row for key, row in zip(keys, X, strict=True) if key not in known}
        for part in _parts(list(waiting), batch or len(X)):
            with self._explained(), self._transaction():
                # Another process may have asked since we looked.
                missing = [key for key in part if not self._recall(identity, kind, key, known)]
                if missing:
                    rows = _checked(ask(np.stack([waiting[key] for key in missing])), len(missing))
                    self._keep(identity, kind, missing, rows)
                    known.update(zip(missing, rows, strict=True))
        shapes = {row.shape for row in known.values()}
        if len(shapes) > 1:
            raise StorageError(
                f"{self._path} holds answers of shapes {' and '.join(map(str, sorted(shapes)))} for one model, so the model "
                "changed without saying so; move that file away to ask again"
            )
        return np.stack([known[key] for key in keys])

    def sent(self, identity: str | None = None) -> int:
        """How many rows were asked and answered since the file was made: of one model, or of all."""
        with self._explained():
            total = self._file.execute(
                "SELECT coalesce(sum(sent), 0) FROM source WHERE ?1 IS NULL OR identity = ?1", (identity,)
            )
            return int(total.fetchone()[0])

    def _open(self) -> None:
        application, schema, tables = (
            self._file.execute(query).fetchone()[0]
            for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if (application, tables) == (0, 0):
            for statement in _TABLES.split(";"):
                self._file.execute(statement)
            self._file.execute(f"PRAGMA application_id = {APPLICATION}")
            self._file.execute(f"PRAGMA user_version = {SCHEMA}")
        elif (application, schema) != (APPLICATION, SCHEMA):
            raise StorageError(
                f"expected a ledger of version {SCHEMA} at {self._path}, got another sqlite file; choose another path"
            )

    def _recall(self, identity: str, kind: str, key: bytes, known: dict[bytes, Array]) -> bool:
        if key not in known:
            found = self._file.execute(
                "SELECT shape, numbers FROM answer JOIN source ON source.id = source "
                "WHERE identity = ? AND kind = ? AND point = ?",
                (identity, kind, key),
            ).fetchone()
            if found is None:
                return False
            try:
                known[key] = np.frombuffer(found[1], dtype="<f8").reshape([int(side) for side in found[0].split()])
            except (TypeError, ValueError, AttributeError):
                raise StorageError(
                    f"the ledger {self._path} holds an answer that is no array; move that file away to ask again"
                ) from None
        return True

    def _keep(self, identity: str, kind: str, keys: list[bytes], rows: Array) -> None:
        self._file.execute("INSERT OR IGNORE INTO source (identity, kind) VALUES (?, ?)", (identity, kind))
        self._file.execute("UPDATE source SET sent = sent + ? WHERE identity = ? AND kind = ?", (len(keys), identity, kind))
        shape = " ".join(map(str, rows.shape[1:]))
        self._file.executemany(
            "INSERT INTO answer SELECT id, ?, ?, ? FROM source WHERE identity = ? AND kind = ?",
            ((key, shape, row.astype("<f8").tobytes(), identity, kind) for key, row in zip(keys, rows, strict=True)),
        )

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
                remedy = "another process is using it; wait until that has finished or choose another path"
            elif code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                remedy = "the file is damaged; move it away to start a new ledger"
            else:
                remedy = "free space or choose a folder that can be written, then run again: what was answered is kept"
            raise StorageError(f"cannot use the ledger {self._path}: {error}; {remedy}") from None


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make a folder for the ledger {path}: {error.strerror}; choose a folder that can be written"
        ) from None


def _parts(keys: list[bytes], size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _checked(rows: Array, count: int) -> Array:
    """One finite row for each point asked, because what is wrong here would be wrong for ever."""
    rows = np.asarray(rows, dtype=np.float64)
    if rows.shape[:1] != (count,):
        raise BadInput(f"expected {count} answers to {count} points, got shape {rows.shape}; check the model's output")
    if not np.isfinite(rows).all():
        raise BadInput(
            f"expected finite answers, got NaN or infinite values for {count} points; "
            "check that the model accepts points of this scale"
        )
    return rows
