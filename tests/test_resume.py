"""A run killed at any moment goes on and ends with the same findings, bit for bit."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from divulge import run_folder, runner
from divulge.auditing import audit, reopen
from divulge.contract import Access, Budget, Context, Cost, Fitted, Hyperparameters, TrainingData
from divulge.errors import BadInput
from divulge.run_folder import locked
from divulge.runner import Runner
from divulge.storage import fingerprint

AUDIT = """
seed = 11
workers = {workers}
attacks = ["resampled-mean", "hyperparameters"]

[held.data]
kind = "training_data"
file = "data.npz"

[held.model]
kind = "fitted"
file = "model.npz"
learner = "ridge"

[truth.hyperparameters]
alpha = 0.5

[options.resampled-mean]
resamples = {resamples}
"""


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "divulge.cli", "audit", str(folder / "audit.toml"), *more]


def content(folder: Path) -> str:
    """Everything the audit found, without the time it took."""
    record = reopen(folder / "runs" / "audit")
    assert record.complete
    return fingerprint([replace(finding, cost=Cost(finding.cost.points)) for finding in record.findings])


def arrays(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "runs" / "audit" / "arrays").iterdir()}


class Described(NamedTuple):
    """A way to make folders with an audit file, and the environment in which the plug-in is installed."""

    make: Callable[..., Path]
    environment: dict[str, str]


@pytest.fixture
def described(tmp_path: Path, plugin: dict[str, str]) -> Described:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=60)

    def make(name: str, workers: int = 1, resamples: int = 24) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        np.savez(folder / "data.npz", X=X, y=y)
        fitted = Ridge(alpha=0.5).fit(X, y)
        np.savez(folder / "model.npz", coef=fitted.coef_, intercept=np.atleast_1d(fitted.intercept_))
        (folder / "audit.toml").write_text(AUDIT.format(workers=workers, resamples=resamples))
        return folder

    return Described(make, plugin)


KILLED = """
import os, signal, sys
from divulge import cli

left = int(sys.argv[1])

def watch(event, arguments):
    global left
    if event == "os.rename" and "pieces" in str(arguments[1]):
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

sys.addaudithook(watch)
sys.exit(cli.main(sys.argv[2:]))
"""
"Dies without warning when so many files have been written and the next one is about to be: always at the same moment."


def killed_after(folder: Path, environment: Mapping[str, str], files: int) -> bool:
    """Start an audit that is killed when it has written so many files more."""
    dying = [sys.executable, "-c", KILLED, str(files), "audit", str(folder / "audit.toml")]
    # Not through pipes: workers outlive what started them for a while, and hold on to what it wrote to.
    ended = subprocess.run(dying, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return ended.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_findings_bit_for_bit_with_any_number_of_workers(described: Described) -> None:
    make, environment = described
    whole = make("whole", workers=1)
    subprocess.run(command(whole), env=environment, check=True, capture_output=True)
    broken = make("broken", workers=2)
    for files in (0, 1, 2, 3, 9, 8):
        assert killed_after(broken, environment, files)
    subprocess.run(command(broken), env=environment, check=True, capture_output=True)
    assert content(broken) == content(whole)
    assert arrays(broken) == arrays(whole)


@pytest.mark.slow
def test_a_finished_run_is_kept_and_not_computed_again(described: Described) -> None:
    make, environment = described
    folder = make("kept")
    subprocess.run(command(folder), env=environment, check=True, capture_output=True)
    again = subprocess.run(command(folder), env=environment, check=True, capture_output=True, text=True)
    assert again.stdout.count("kept from an earlier run") == 2


LISTENING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from divulge import cli
sys.exit(cli.main(sys.argv[1:]))
"""
"The command line in the foreground: a shell hands what it starts in the background an interrupt that is ignored."


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(described: Described) -> None:
    make, environment = described
    folder = make("stopped", resamples=20_000)  # more than anyone waits for
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING, *command(folder)[3:]],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (folder / "runs" / "audit" / "findings.json").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "run the same command again" in said
    record = reopen(folder / "runs" / "audit")
    assert [finding.provenance.attack for finding in record.findings] == ["hyperparameters"]
    assert not record.complete


def test_other_weights_data_options_or_seed_never_reuse_old_pieces(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    y = X @ [1.0, 2.0, 3.0]
    cases = {
        "first": (np.ones(3), y, 0.99, 0),
        "weights": (2 * np.ones(3), y, 0.99, 0),
        "data": (np.ones(3), y + 1, 0.99, 0),
        "options": (np.ones(3), y, 0.95, 0),
        "seed": (np.ones(3), y, 0.99, 1),
    }
    for number, (w, target, confidence, seed) in enumerate(cases.values(), 1):
        audit(
            [Fitted("ridge", coef=w), TrainingData(X, target)],
            out=tmp_path,
            attacks=["hyperparameters"],
            options={"hyperparameters": {"confidence": confidence}},
            seed=seed,
        )
        assert len(list((tmp_path / "pieces").iterdir())) == number


def test_another_truth_scores_again_without_attacking_again(tmp_path: Path) -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=30)
    held = [Fitted.of(Ridge(alpha=2.0).fit(X, y)), TrainingData(X, y)]
    right, wrong = (
        audit(held, {"hyperparameters": Hyperparameters({"alpha": alpha})}, out=tmp_path).findings[0]
        for alpha in (2.0, 50.0)
    )
    assert len(list((tmp_path / "pieces").iterdir())) == 1
    assert right.verdict.value == "leak"
    assert wrong.verdict.value == "failed"
    assert fingerprint(right.loot) == fingerprint(wrong.loot)


def test_a_second_audit_is_kept_out_of_a_folder_in_use(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BadInput, match="another audit is running"):
        audit([TrainingData(np.zeros((2, 2)))], out=tmp_path)


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_with_a_sentence_and_keeps_what_is_finished(described: Described) -> None:
    make, environment = described
    folder = make("full")
    limited = (
        "import resource, sys; from divulge import cli; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)); sys.exit(cli.main(sys.argv[1:]))"
    )
    arguments = ["audit", str(folder / "audit.toml")]
    ended = subprocess.run([sys.executable, "-c", limited, *arguments], env=environment, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "cannot write" in ended.stderr
    assert "Traceback" not in ended.stderr
    subprocess.run(command(folder), env=environment, check=True, capture_output=True)
    assert len(reopen(folder / "runs" / "audit").findings) == 2


def model_and_data() -> tuple[Fitted, TrainingData]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=30)
    from sklearn.linear_model import Ridge

    return Fitted.of(Ridge(alpha=2.0).fit(X, y)), TrainingData(X, y)


def ridge() -> dict[str, Access]:
    model, data = model_and_data()
    return {"model": model, "data": data}


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / "precious.npz").write_bytes(b"mine")
    with pytest.raises(BadInput, match="got one with other files; choose another"):
        audit(ridge(), out=tmp_path)
    assert (tmp_path / "arrays" / "precious.npz").read_bytes() == b"mine"
    with pytest.raises(BadInput, match="an empty one; name a folder"):
        audit(ridge(), out="")


def test_only_a_runs_own_arrays_are_ever_removed(tmp_path: Path) -> None:
    audit(ridge(), out=tmp_path)
    (old,) = (tmp_path / "arrays").iterdir()
    (tmp_path / "arrays" / "precious.npz").write_bytes(b"mine")
    model, data = model_and_data()
    audit({"model": model, "data": TrainingData(2 * data.X, data.y)}, out=tmp_path)
    audit({"model": Fitted("ridge", coef=np.ones(3)), "data": data}, out=tmp_path)
    names = {path.name for path in (tmp_path / "arrays").iterdir()}
    assert "precious.npz" in names
    assert old.name not in names


def test_what_a_killed_run_left_half_written_is_cleared_away(tmp_path: Path) -> None:
    audit(ridge(), out=tmp_path)
    for folder in (tmp_path, next((tmp_path / "pieces").iterdir())):
        (folder / ".writing-half").write_bytes(b"half")
    audit(ridge(), out=tmp_path)
    assert not list(tmp_path.rglob(".writing-*"))


@pytest.mark.parametrize("workers", [1, 2])
def test_every_item_computes_on_one_thread_so_that_sums_come_out_the_same(workers: int) -> None:
    def threads(item: int, rng: np.random.Generator) -> int:
        np.linalg.norm(rng.normal(size=(50, 50)) @ np.eye(50))
        return max(int(pool["num_threads"]) for pool in threadpool_info())

    spread = Runner(workers=workers)._spread
    with threadpool_limits(2):
        assert Context(spread=spread).map("threads", threads, range(4)) == [1, 1, 1, 1]


def test_a_worker_that_is_replaced_because_its_memory_has_grown_ends_no_wait() -> None:
    def grow(item: int, rng: np.random.Generator) -> int:
        kept = vars(sys).setdefault("kept", [])  # as caches are kept: 500 MB from the third item on
        kept.append(np.ones(60_000_000 if len(kept) >= 2 else 10))
        time.sleep(1.1)  # joblib looks once a second
        return item

    assert Context(spread=Runner(workers=2)._spread).map("grow", grow, range(10)) == list(range(10))


def test_other_code_never_reuses_old_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit(ridge(), out=tmp_path)
    monkeypatch.setattr(runner, "code_version", lambda module: "another")
    audit(ridge(), out=tmp_path)
    assert len(list((tmp_path / "pieces").iterdir())) == 2


def test_the_code_of_a_plug_in_is_all_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_plugin"
    package.mkdir()
    (package / "__init__.py").write_text("from some_plugin.helper import number")
    (package / "helper.py").write_text("number = 1")
    monkeypatch.syspath_prepend(tmp_path)
    seen = set()
    for number in (1, 2):
        (package / "helper.py").write_text(f"number = {number}")
        run_folder.code_version.cache_clear()
        seen.add(run_folder.code_version("some_plugin"))
    run_folder.code_version.cache_clear()
    assert len(seen) == 2


@pytest.mark.parametrize("harm", ["finding gone", "arrays gone", "arrays cut", "no finding", "not a value"])
def test_a_damaged_piece_is_computed_again(tmp_path: Path, harm: str) -> None:
    first = audit(ridge(), out=tmp_path).findings[0]
    piece = next(tmp_path.glob("pieces/*/finding.json"))
    arrays_of_piece = next(piece.parent.glob("arrays/*.npz"))
    if harm == "finding gone":
        piece.unlink()
    elif harm == "arrays gone":
        arrays_of_piece.unlink()
    elif harm == "arrays cut":
        arrays_of_piece.write_bytes(arrays_of_piece.read_bytes()[:-9])
    elif harm == "no finding":
        piece.write_text('{"schema": 1, "arrays": null, "value": 5}')
    else:
        piece.write_text("{")
    for _ in range(2):
        again = audit(ridge(), out=tmp_path).findings[0]
        assert fingerprint(again.loot) == fingerprint(first.loot)
    assert reopen(tmp_path).complete


def test_what_is_held_may_be_renamed_without_attacking_again(tmp_path: Path) -> None:
    audit(ridge(), out=tmp_path)
    held = ridge()
    record = audit({"renamed": held["model"], "data": held["data"]}, out=tmp_path).record
    assert len(list((tmp_path / "pieces").iterdir())) == 1
    assert list(record.findings[0].provenance.inputs) == ["renamed", "data"]
    assert record.findings[0].provenance.won == "hyperparameters of renamed"


def test_a_time_budget_stops_before_the_next_attack_and_a_later_run_goes_on(tmp_path: Path) -> None:
    spent = audit(ridge(), out=tmp_path, budget=Budget(seconds=1e-9))
    assert not spent.record.complete
    assert [finding.verdict.value for finding in spent.findings] == ["failed"]
    assert "ran out" in spent.findings[0].summary
    assert audit(ridge(), out=tmp_path).leaks


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BadInput, match=r"cannot write in .*file/run: Not a directory; choose a folder"):
        audit([TrainingData(np.zeros((2, 2)))], out=tmp_path / "file" / "run")
