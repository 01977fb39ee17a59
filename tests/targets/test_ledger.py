"""What was answered once is never asked again: not within a batch, not by another run, not after a kill."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.contract import Array
from divulge.errors import BadInput, StorageError
from divulge.targets.ledger import Ledger


class Model:
    """Answers x -> (sum, product) and remembers what it was asked."""

    def __init__(self) -> None:
        self.batches: list[Array] = []

    def __call__(self, X: Array) -> Array:
        self.batches.append(X)
        return np.column_stack([X.sum(1), X.prod(1)])

    @property
    def asked(self) -> Array:
        return np.concatenate(self.batches) if self.batches else np.empty((0, 2))


X = np.arange(12.0).reshape(6, 2)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=4), st.integers(1, 5))
def test_answers_are_the_models_and_every_different_point_is_asked_once(calls: list[list[int]], batch: int) -> None:
    ledger, model = Ledger(":memory:"), Model()
    for call in calls:
        points = np.array([[row, row / 3] for row in call])
        np.testing.assert_array_equal(ledger.answer("m", "value", points, model, batch=batch), Model()(points))
    different = {row for call in calls for row in call}
    assert len(model.asked) == len(different) == ledger.sent()
    assert all(len(rows) <= batch for rows in model.batches)


def test_answers_keep_every_bit_and_their_shape(tmp_path: Path) -> None:
    exact = np.random.default_rng(0).standard_normal((6, 3, 2)) * 1e-300
    Ledger(tmp_path / "ledger").answer("m", "gradient", X, lambda rows: exact)
    again = Ledger(tmp_path / "ledger").answer("m", "gradient", X, Model())
    np.testing.assert_array_equal(again, exact)


def test_another_model_or_another_kind_of_answer_is_asked_for_itself(tmp_path: Path) -> None:
    model = Model()
    for identity, kind in (("m", "value"), ("n", "value"), ("m", "gradient")):
        Ledger(tmp_path / "ledger").answer(identity, kind, X, model)
    assert len(model.asked) == 18
    ledger = Ledger(tmp_path / "ledger")
    assert (ledger.sent(), ledger.sent("m"), ledger.sent("n"), ledger.sent("none")) == (18, 12, 6, 0)


def test_two_ledgers_on_one_file_share_their_answers(tmp_path: Path) -> None:
    one, two, model = Ledger(tmp_path / "ledger"), Ledger(tmp_path / "ledger"), Model()
    one.answer("m", "value", X[:4], model)
    two.answer("m", "value", X[2:], model)
    one.answer("m", "value", X, model)
    np.testing.assert_array_equal(model.asked, X)


def test_a_point_another_process_asked_meanwhile_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, model = Ledger(tmp_path / "ledger"), Ledger(tmp_path / "ledger"), Model()
    begin = one._transaction

    def overtaken() -> AbstractContextManager[None]:
        two.answer("m", "value", X[:4], model)
        return begin()

    monkeypatch.setattr(one, "_transaction", overtaken)
    np.testing.assert_array_equal(one.answer("m", "value", X, model), Model()(X))
    np.testing.assert_array_equal(model.asked, X)


def test_a_request_that_fails_keeps_what_was_answered_before_it(tmp_path: Path) -> None:
    def fails(rows: Array) -> Array:
        if 8.0 in rows:
            raise OSError("the line is cut")
        return rows

    with pytest.raises(OSError, match="the line is cut"):
        Ledger(tmp_path / "ledger").answer("m", "value", X, fails, batch=2)
    ledger, model = Ledger(tmp_path / "ledger"), Model()
    assert ledger.sent() == 4
    ledger.answer("m", "value", X, model)
    np.testing.assert_array_equal(model.asked, X[4:])


KILLED = """
import sys
import numpy as np
from divulge.targets.ledger import Ledger

def ask(rows):
    print(int(rows[0, 0]), flush=True)
    if rows[0, 0] == int(sys.argv[2]):
        sys.stdin.read()  # until killed
    return 2 * rows

Ledger(sys.argv[1]).answer("m", "value", np.arange(200.0).reshape(-1, 1), ask, batch=5)
"""


@pytest.mark.parametrize("stops", [True, False], ids=["while it waits for an answer", "at full speed"])
def test_nothing_answered_is_asked_again_after_a_kill(tmp_path: Path, stops: bool) -> None:
    for last in (15, 60, 105):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "ledger"), str(last if stops else -1)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) >= last:
                    break
            process.send_signal(signal.SIGKILL)
        assert process.wait() in ((-signal.SIGKILL,) if stops else (-signal.SIGKILL, 0))
        # When a batch is asked for, all before it are on disk.
        ledger = Ledger(tmp_path / "ledger")
        assert ledger.sent() == last if stops else ledger.sent() >= last
    everything = np.arange(200.0).reshape(-1, 1)
    asked: list[float] = []
    kept = ledger.sent()

    def ask(rows: Array) -> Array:
        asked.extend(rows[:, 0])
        return 2 * rows

    np.testing.assert_array_equal(ledger.answer("m", "value", everything, ask), 2 * everything)
    assert asked == list(range(kept, 200))
    assert ledger.sent() == 200


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(b"no database, " * 400)
    with pytest.raises(StorageError, match=r"ledger: file is not a database; the file is damaged; move it away"):
        Ledger(tmp_path / "ledger")


def test_a_file_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    points = np.arange(4000.0).reshape(-1, 1)
    ledger = Ledger(tmp_path / "ledger")
    ledger.answer("m", "value", points, lambda rows: rows)
    ledger.close()
    content = bytearray((tmp_path / "ledger").read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    (tmp_path / "ledger").write_bytes(content)
    with pytest.raises(StorageError, match="the file is damaged; move it away"):
        Ledger(tmp_path / "ledger").answer("m", "value", points, lambda rows: rows)


def test_an_answer_that_is_no_array_is_named(tmp_path: Path) -> None:
    Ledger(tmp_path / "ledger").answer("m", "value", X, Model())
    file = sqlite3.connect(tmp_path / "ledger")
    file.execute("UPDATE answer SET numbers = x'00'")
    file.commit()
    file.close()
    with pytest.raises(StorageError, match="holds an answer that is no array; move that file away"):
        Ledger(tmp_path / "ledger").answer("m", "value", X, Model())


def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    file = sqlite3.connect(tmp_path / "ledger")
    file.execute("CREATE TABLE theirs (x)")
    file.close()
    before = (tmp_path / "ledger").read_bytes()
    with pytest.raises(StorageError, match="got another sqlite file; choose another path"):
        Ledger(tmp_path / "ledger")
    assert (tmp_path / "ledger").read_bytes() == before


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
from divulge.targets.ledger import Ledger

ledger = Ledger(sys.argv[1])
rows = np.arange(2000.0).reshape(-1, 1)
ledger.answer("m", "value", rows[:10], lambda rows: rows)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
try:
    ledger.answer("m", "value", rows, lambda rows: rows)
except StorageError as error:
    print(error)
"""


def test_a_full_disk_is_named_and_loses_nothing_answered_before(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "ledger")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "free space" in said
    assert Ledger(tmp_path / "ledger").sent() == 10


def test_a_file_another_process_holds_is_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", patience=0.01)
    other = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    model = Model()
    with pytest.raises(StorageError, match="database is locked; another process is using it; wait until"):
        ledger.answer("m", "value", X, model)
    other.close()
    assert not model.batches
    ledger.answer("m", "value", X, model)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (np.zeros((5, 2)), r"expected 6 answers to 6 points, got shape \(5, 2\)"),
        (np.float64(0), r"expected 6 answers to 6 points, got shape \(\)"),
        (np.full((6, 1), np.nan), "expected finite answers, got NaN or infinite values"),
    ],
)
def test_a_wrong_answer_is_refused_and_not_kept(answer: Array, sentence: str) -> None:
    ledger = Ledger(":memory:")
    with pytest.raises(BadInput, match=sentence):
        ledger.answer("m", "value", X, lambda rows: answer)
    assert ledger.sent() == 0


def test_a_model_that_changed_its_width_is_noticed() -> None:
    ledger = Ledger(":memory:")
    ledger.answer("m", "value", X[:1], lambda rows: rows)
    with pytest.raises(StorageError, match=r"shapes \(1,\) and \(2,\) for one model"):
        ledger.answer("m", "value", X, lambda rows: rows[:, :1])


@pytest.mark.parametrize("points", [np.empty((0, 2)), np.zeros(3)])
def test_what_is_no_list_of_points_is_refused(points: Array) -> None:
    with pytest.raises(BadInput, match="expected query points as a 2-D array with at least one row"):
        Ledger(":memory:").answer("m", "value", points, Model())
