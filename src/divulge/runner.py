"""Runs attacks: seeds, parallelism, budgets, and a folder in which every finished piece is kept. The only door to joblib."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from divulge import __version__
from divulge.contract import Budget, Context, Finding, Truth
from divulge.contract.context import Forgetful, Memory, Task, one_by_one
from divulge.errors import BadInput, StorageError, sentence
from divulge.graph import Step
from divulge.storage import fingerprint, load, save, sweep, write


class Observer(Protocol):
    """Who watches an audit: a terminal, a log, a test, or nobody."""

    def starts(self, step: Step) -> None: ...

    def progress(self, done: int, total: int) -> None: ...

    def log(self, sentence: str) -> None: ...

    def ends(self, step: Step, finding: Finding[Any], kept: bool) -> None: ...


class Nobody:
    """Watches nothing."""

    def starts(self, step: Step) -> None: ...

    def progress(self, done: int, total: int) -> None: ...

    def log(self, sentence: str) -> None: ...

    def ends(self, step: Step, finding: Finding[Any], kept: bool) -> None: ...


class Runner:
    """Executes steps. With a folder, whatever is finished survives a kill and is found again."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        seed: int = 0,
        budget: Budget | None = None,
        workers: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.budget = budget or Budget()
        self.workers = workers or os.cpu_count() or 1
        self.observer = observer or Nobody()

    def execute(self, step: Step, truth: Truth) -> Finding[Any]:
        """One attack, blind, then scored; each half is kept under the hash of all it depends on."""
        key = self.key(step)
        pieces = Pieces(self.folder / "pieces" / key) if self.folder else Forgetful()
        self.observer.starts(step)
        kept = True
        try:
            blind: Finding[Any] = pieces.recall("finding")
            self.budget.spent += blind.cost.queries
        except KeyError:
            kept = False
            with truth.sealed():
                blind = self._attempt(step, pieces)
            if not blind.partial:
                pieces.keep("finding", blind)
        finding = self._judged(step, blind, truth, pieces)
        self.observer.ends(step, finding, kept)
        return finding

    def key(self, step: Step) -> str:
        """Inputs, options, code and seed: when any of them differs, nothing old is used."""
        return fingerprint(
            {
                "attack": step.attack.name,
                "options": step.attack.options(),
                "inputs": [held.fingerprint for held in step.inputs],
                "code": code_version(type(step.attack).__module__),
                "versions": versions(),
                "seed": self.seed,
            }
        )

    def _attempt(self, step: Step, pieces: Memory) -> Finding[Any]:
        context = Context(
            self._seed_of(step),
            progress=self.observer.progress,
            log=self.observer.log,
            budget=self.budget,
            memory=pieces,
            spread=self._spread,
        )
        accesses = tuple(held.access for held in step.inputs if held.access is not None)
        try:
            finding = step.attack.attempt(accesses, context)
        except StorageError:
            raise
        except BadInput as error:
            if step.choices == 1:
                raise
            finding = Finding.not_applicable(sentence(error))
        except Exception as error:  # one attack's bug must not cost the audit its other findings
            self._remember_failure(step)
            finding = Finding.failed(sentence(f"{type(error).__name__}: {error}"), partial=True)
        return replace(
            finding,
            provenance=replace(
                finding.provenance,
                attack=step.attack.name,
                title=step.attack.title,
                paper=step.attack.paper,
                options=step.attack.options(),
                inputs={held.name: held.fingerprint for held in step.inputs},
                won=step.wins if finding.loot is not None else "",
                seed=self.seed,
                versions=versions(),
            ),
        )

    def _seed_of(self, step: Step) -> np.random.SeedSequence:
        """A stream of its own for every step, whatever ran before it."""
        name = fingerprint([step.attack.name, *(held.name for held in step.inputs)])
        return np.random.SeedSequence(self.seed, spawn_key=tuple(int(name[i : i + 8], 16) for i in range(0, 32, 8)))

    def _judged(self, step: Step, blind: Finding[Any], truth: Truth, pieces: Memory) -> Finding[Any]:
        known = truth.all()
        if not known:
            return blind
        accesses = tuple(held.access for held in step.inputs if held.access is not None)
        name = f"scored-{fingerprint({'truth': known, 'blind': blind})[:16]}"
        try:
            scored: Finding[Any] = pieces.recall(name)
        except KeyError:
            scored = step.attack.judge(blind, accesses, truth)
            pieces.keep(name, scored)
        return scored

    def _remember_failure(self, step: Step) -> None:
        text = f"{step.attack.name} on {', '.join(held.name for held in step.inputs)}\n{traceback.format_exc()}"
        self.observer.log(text)
        if self.folder:
            write(self.folder / f"error-{step.attack.name}.txt", text.encode())

    def _spread(self, function: Callable[[Task], Any], tasks: Sequence[Task]) -> Iterable[Any]:
        """Tasks over the machine's cores, one thread each, so that sums come out the same however many there are."""
        single = _SingleThreaded(function)
        if self.workers == 1 or len(tasks) < 2:
            return one_by_one(single, tasks)
        jobs = (joblib.delayed(single)(task) for task in tasks)
        results: Iterable[Any] = joblib.Parallel(n_jobs=self.workers, return_as="generator_unordered")(jobs)
        return results


class Pieces:
    """A folder of finished pieces: one JSON file a name, arrays beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def recall(self, name: str) -> Any:
        path = self.folder / f"{name}.json"
        if not path.exists():
            raise KeyError(name)
        return load(path)

    def keep(self, name: str, value: Any) -> None:
        save(value, self.folder / f"{name}.json")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second audit out of a run folder; a killed process lets go by itself."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StorageError(f"cannot write in {folder}: {error.strerror}; choose a folder you may write in") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sweep(folder)
        yield
    except BlockingIOError:
        raise BadInput(f"another audit is running in {folder}; wait for it, or choose another folder") from None
    finally:
        os.close(handle)


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
    files = [path for room in ("contract", "solvers", "attacks", "victims") for path in sorted((home / room).rglob("*.py"))]
    top = module.split(".")[0]
    digest = hashlib.sha256()
    if top != "divulge":
        spec = find_spec(module)
        if spec and spec.origin:
            files.append(Path(spec.origin))
        for distribution in packages_distributions().get(top, []):
            digest.update(f"{distribution} {version(distribution)}".encode())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


class _SingleThreaded:
    def __init__(self, function: Callable[[Task], Any]) -> None:
        self.function = function

    def __call__(self, task: Task) -> Any:
        with threadpool_limits(1):
            return self.function(task)
