"""The books: what was answered is found again to the last bit, what was sent is counted, and a kill changes neither."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.contract import Array
from divulge.errors import StorageError
from divulge.targets.ledger import PAGE, Known, Ledger, key

X = np.arange(12.0).reshape(6, 2)
KEYS = [key(row) for row in X]


def kept(path: Path | str, source: str = "m", answers: Array = X) -> Ledger:
    ledger = Ledger(path)
    ledger.keep(source, "me", KEYS, (answers,))
    return ledger


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=20), st.lists(st.integers(0, 9), max_size=20))
def test_what_was_kept_is_recalled_and_nothing_else(before: list[int], asked: list[int]) -> None:
    with Ledger(":memory:") as ledger:
        for number in before:
            ledger.keep("m", "me", [key(np.array([number]))], (np.full((1, 2), number / 3),))
        found = ledger.recall("m", [key(np.array([number])) for number in asked])
        assert set(found) == {key(np.array([number])) for number in set(before) & set(asked)}
        for number in set(before) & set(asked):
            np.testing.assert_array_equal(found[key(np.array([number]))][0], np.full(2, number / 3))


def test_several_parts_of_an_answer_keep_every_bit_and_their_shapes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((6, 3)), rng.standard_normal((6, 3, 2)) * 1e-300, rng.standard_normal((6, 0))
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.keep("m", "me", KEYS, parts)
    with Ledger(tmp_path / "ledger") as ledger:
        found = ledger.recall("m", KEYS)
    for number, name in enumerate(KEYS):
        for part, exact in zip(found[name], parts, strict=True):
            np.testing.assert_array_equal(part, exact[number])


def test_more_points_than_one_statement_takes_are_recalled() -> None:
    names = [key(np.array([number])) for number in range(2000)]
    with Ledger(":memory:") as ledger:
        ledger.keep("m", "me", names, (np.arange(2000.0)[:, None],))
        assert len(ledger.recall("m", names)) == 2000


def test_another_source_knows_nothing_of_it(tmp_path: Path) -> None:
    with kept(tmp_path / "ledger") as ledger:
        assert (len(ledger.recall("m", KEYS)), len(ledger.recall("n", KEYS)), ledger.answers("m")) == (6, 0, 6)


def test_what_was_sent_is_counted_for_each_and_in_all(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.send("me", 5)
        ledger.send("me", 7)
        ledger.send("you", 1)
        ledger.send("you", -1, -1)
    with Ledger(tmp_path / "ledger") as ledger:
        assert (ledger.sent("me"), ledger.sent("you"), ledger.sent("none"), ledger.sent()) == (
            (12, 2), (0, 0), (0, 0), (12, 2),
        )  # fmt: skip


def test_only_what_one_was_told_is_forgotten() -> None:
    with Ledger(":memory:") as ledger:
        ledger.keep("m", "me", KEYS[:2], (X[:2],))
        ledger.keep("m", "you", KEYS[2:], (X[2:],))
        ledger.forget("m", "me")
        assert set(ledger.recall("m", KEYS)) == set(KEYS[2:])


def test_models_of_one_name_are_known_by_their_looks() -> None:
    with Ledger(":memory:") as ledger:
        ledger.know("/m", Known("http://h/m", "a", (X, X[0])))
        ledger.know("/m", Known("http://i/m", "b", (2 * X, X[0])))
        assert [(model.address, model.token) for model in ledger.models("/m")] == [("http://i/m", "b"), ("http://h/m", "a")]
        np.testing.assert_array_equal(ledger.models("/m")[0].looked[0], 2 * X)
        assert ledger.models("/n") == []


KILLED = """
import sys
import numpy as np
from divulge.targets.ledger import PAGE, Known, Ledger, key

ledger = Ledger(sys.argv[1])
for number in range(ledger.answers(), 100_000):
    ledger.send("me", 1)
    print(number, flush=True)
    ledger.keep("m", "me", [key(np.array([number]))], (np.full((1, 3), number),))
"""


def test_a_kill_loses_nothing_that_was_written(tmp_path: Path) -> None:
    for least in (3, 60, 200):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "ledger")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            last = next(int(line) for line in process.stdout if int(line) >= least)
            process.send_signal(signal.SIGKILL)
        with Ledger(tmp_path / "ledger") as ledger:
            rows, requests = ledger.sent()
            assert rows == requests
            assert rows > last  # it was written down before it was said
            assert ledger.answers() >= last  # all before it
            names = [key(np.array([number])) for number in range(last)]
            assert [float(parts[0][0]) for parts in map(ledger.recall("m", names).get, names) if parts] == list(range(last))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(b"no database, " * 400)
    with pytest.raises(StorageError, match=r"ledger: file is not a database; the file is damaged; move it away"):
        Ledger(tmp_path / "ledger")


def test_a_file_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    names = [key(np.array([number])) for number in range(4000)]
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.keep("m", "me", names, (np.zeros((4000, 1)),))
    content = bytearray((tmp_path / "ledger").read_bytes())
    content[PAGE:] = b"\xff" * (len(content) - PAGE)
    (tmp_path / "ledger").write_bytes(content)
    with pytest.raises(StorageError, match="the file is damaged; move it away"), Ledger(tmp_path / "ledger") as ledger:
        ledger.recall("m", names)


@pytest.mark.parametrize(
    "damage", ["numbers = x'00'", "shapes = '[[1]]'", "shapes = '{}'", "shapes = '[[-1]]'", "points = x'00'"]
)
def test_an_answer_that_is_no_array_is_named(tmp_path: Path, damage: str) -> None:
    kept(tmp_path / "ledger").close()
    file = sqlite3.connect(tmp_path / "ledger")
    file.execute(f"UPDATE answer SET {damage}")
    file.commit()
    file.close()
    with pytest.raises(StorageError, match="holds an answer that is no array; move"), Ledger(tmp_path / "ledger") as ledger:
        ledger.recall("m", KEYS)


def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    file = sqlite3.connect(tmp_path / "ledger")
    file.execute("CREATE TABLE theirs (x)")
    file.close()
    before = (tmp_path / "ledger").read_bytes()
    with pytest.raises(StorageError, match="got another sqlite file; choose another run folder"):
        Ledger(tmp_path / "ledger")
    assert (tmp_path / "ledger").read_bytes() == before


def test_a_ledger_of_another_version_is_named(tmp_path: Path) -> None:
    kept(tmp_path / "ledger").close()
    file = sqlite3.connect(tmp_path / "ledger")
    file.execute("PRAGMA user_version = 1")
    file.close()
    with pytest.raises(StorageError, match="got one of another version; choose another run folder"):
        Ledger(tmp_path / "ledger")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot make a folder for the ledger .*; choose a folder that can be written"):
        Ledger(tmp_path / "file" / "ledger")


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to open database file; free space or choose a folder"):
        Ledger(tmp_path)


FULL = """
import resource, sys
import numpy as np
from divulge.errors import StorageError
from divulge.targets.ledger import PAGE, Known, Ledger, key

rows = np.arange(4000.0).reshape(-1, 1)
names = [key(row) for row in rows]
ledger = Ledger(sys.argv[1])
ledger.keep("m", "me", names[:10], (rows[:10],))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    ledger.keep("m", "me", names, (rows,))
except StorageError as error:
    print(error)
"""


def test_a_full_disk_is_named_and_loses_nothing_answered_before(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "ledger")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "free space" in said
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.answers() == 10
