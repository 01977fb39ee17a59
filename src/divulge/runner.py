"""Runs attacks: seeds, parallelism, budgets. The only door to joblib."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from divulge.contract import Access, Budget, Context, Cost, Finding, Preview, Provenance, Truth, Verdict
from divulge.contract.context import Forgetful, Memory, Task, one_by_one
from divulge.contract.service import SCORING, Account, charged, services
from divulge.errors import BadInput, BudgetSpent, StorageError, TargetFailed, sentence
from divulge.graph import Step
from divulge.run_folder import Pieces, code_version, versions
from divulge.storage import fingerprint, write

PREVIEW_SECONDS = 3.0
"""Between two previews of one step, at least: a person looks no oftener.

The clock decides what is shown, and nothing else: no attack learns whether it was looked at.
"""
PREVIEW_SHARE = 0.02
"Of the time of an attack that its previews may take: what takes longer to draw is drawn less often."


class Observer(Protocol):
    """Who watches an audit: a terminal, a log, a test, or nobody."""

    def starts(self, step: Step) -> None: ...

    def progress(self, done: int, total: int) -> None: ...

    def log(self, sentence: str) -> None: ...

    def ends(self, step: Step, finding: Finding[Any], kept: bool) -> None: ...

    def sent(self, rows: int, requests: int) -> None: ...

    def preview(self, step: Step, made: Callable[[], Preview]) -> None: ...


class Nobody:
    """Watches nothing."""

    def starts(self, step: Step) -> None: ...

    def progress(self, done: int, total: int) -> None: ...

    def log(self, sentence: str) -> None: ...

    def ends(self, step: Step, finding: Finding[Any], kept: bool) -> None: ...

    def sent(self, rows: int, requests: int) -> None: ...

    def preview(self, step: Step, made: Callable[[], Preview]) -> None: ...


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
        if seed < 0 or (workers is not None and workers < 1):
            raise BadInput(f"expected a seed from 0 and at least one worker, got {seed} and {workers}; correct them")
        if budget is not None and not isinstance(budget, Budget):
            raise BadInput(f"expected a Budget, got {budget!r}; pass Budget(seconds=..., queries=...)")
        self.folder = folder
        self.seed = seed
        self.budget = budget or Budget()
        self.workers = workers or os.cpu_count() or 1
        self.observer = observer or Nobody()

    def execute(self, step: Step, truth: Truth, ending: Callable[[], bool] | None = None) -> Finding[Any]:
        """One attack, blind, then scored; each half is kept under the hash of all it depends on.

        `ending` is for what counts its answers: it is called when the attempt is over, and says whether what ended it
        would end it again. Parts of such an attempt are not kept, so that one that was killed is begun anew.
        """
        pieces = self._pieces(step)
        self.observer.starts(step)
        blind = _finding(pieces, "finding")
        kept = blind is not None
        if blind is None:
            with truth.sealed():
                blind = self._attempt(step, whole=ending is not None)
            if ending is not None and ending():
                blind = replace(blind, partial=False)
            if not blind.partial:
                pieces.keep("finding", blind)
        else:
            self._count_again(step, blind)
            if ending is not None:
                ending()
        finding = self._judged(step, self._signed(step, blind), truth, pieces)
        self.observer.ends(step, finding, kept)
        return finding

    def _count_again(self, step: Step, kept: Finding[Any]) -> None:
        """What a finding of an earlier run cost; the ledger knows what was sent to servers."""
        self.budget.points += kept.cost.points
        if not services(_accesses(step)):
            self.budget.in_memory += kept.cost.points

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

    def _pieces(self, step: Step, *parts: str) -> Memory:
        if self.folder is None:
            return Forgetful()
        return Pieces(self.folder.joinpath("pieces", self.key(step), *parts), self.observer.log)

    def _attempt(self, step: Step, *, whole: bool) -> Finding[Any]:
        # Every attack has a stream of its own, whatever ran before it and whatever its target is called.
        name = int(fingerprint(step.attack.name)[:8], 16)
        context = Context(
            np.random.SeedSequence(self.seed, spawn_key=(name,)),
            progress=self.observer.progress,
            log=self.observer.log,
            budget=self.budget,
            memory=Forgetful() if whole else self._pieces(step, "parts"),
            spread=self._spread,
            asker=self.key(step),
            show=_Shown(step, self.observer),
        )
        unclaimed = Provenance(step.attack.name, claimed=False)
        before, start = self.budget.points, time.perf_counter()
        try:
            with one_blas_thread():
                return self._checked(step, step.attack.attempt(_accesses(step), context))
        except StorageError:
            raise
        except BadInput as error:
            if step.choices == 1 and not any(held.path for held in step.inputs):
                raise  # the auditor's own mistake; what an attack won, or a pair that does not fit, is nobody's
            return Finding.not_applicable(sentence(error), provenance=unclaimed)
        except Exception as error:  # one attack's bug must not cost the audit its other findings
            self._remember_failure(step)
            sent = [service.sent_for(self.key(step)) for service in services(_accesses(step))[:1]]
            rows, requests = sent[0] if sent else (0, 0)
            cost = Cost(self.budget.points - before, time.perf_counter() - start, rows, requests)
            said = sentence(f"{type(error).__name__}: {error}")
            return Finding.failed(said, partial=True, cost=cost, provenance=unclaimed)

    def _checked(self, step: Step, finding: Finding[Any]) -> Finding[Any]:
        """The finding, unless a server's model was replaced while it was made: then it is of neither."""
        try:
            for service in services(_accesses(step)):
                service.check(self.key(step))
        except BudgetSpent:
            return finding  # nothing is left to look with
        except TargetFailed as error:
            if not (finding.partial and finding.verdict is Verdict.FAILED):  # which is tried again anyway
                return Finding.failed(sentence(error), partial=True, cost=finding.cost)
        return finding

    def _signed(self, step: Step, finding: Finding[Any]) -> Finding[Any]:
        """The finding with where it comes from, by the names that things have in this audit."""
        provenance = replace(
            finding.provenance,
            attack=step.attack.name,
            role=step.attack.role,
            asset=step.attack.asset,
            title=step.attack.title,
            paper=step.attack.paper,
            options=step.attack.options(),
            inputs={held.name: held.fingerprint for held in step.inputs},
            won=step.wins if finding.loot is not None and finding.provenance.claimed else "",
            seed=self.seed,
            versions=versions(),
        )
        return replace(finding, provenance=provenance)

    def _judged(self, step: Step, blind: Finding[Any], truth: Truth, pieces: Memory) -> Finding[Any]:
        known = truth.all()
        if not known:
            return blind
        name = f"scored-{fingerprint({'truth': known, 'blind': blind})[:16]}"
        scored = _finding(pieces, name)
        if scored is None:
            try:
                with one_blas_thread(), charged(_accesses(step), Account(SCORING, self.budget)):
                    scored = step.attack.judge(blind, _accesses(step), truth)
            except BadInput:
                raise
            except Exception as error:  # as above: the finding stands, only its scores are missing
                self._remember_failure(step)
                return replace(blind, notes=(*blind.notes, sentence(f"Not scored: {type(error).__name__}: {error}")))
            pieces.keep(name, scored)
        return scored

    def _remember_failure(self, step: Step) -> None:
        text = f"{step.attack.name} on {', '.join(held.name for held in step.inputs)}\n{traceback.format_exc()}"
        if self.folder is None:
            self.observer.log(text)
            return
        path = self.folder / f"error-{step.attack.name}.txt"
        write(path, text.encode())
        self.observer.log(f"{step.attack.name} broke; the traceback is in {path}")

    def _spread(self, function: Callable[[Task], Any], tasks: Sequence[Task]) -> Iterator[Any]:
        """Tasks over the machine's cores, one thread each, so that sums come out the same however many there are."""
        single = _SingleThreaded(function)
        if self.workers == 1 or len(tasks) < 2:
            yield from one_by_one(single, tasks)
            return
        # joblib replaces a worker whose memory has grown, and warns of it in the thread that looks after the workers: as an
        # error, which some make of warnings, that would end the thread, and the wait for its results would never end.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        jobs = (joblib.delayed(single)(task) for task in tasks)
        results = joblib.Parallel(n_jobs=self.workers, return_as="generator_unordered")(jobs)
        try:
            for result in results:  # noqa: UP028  # `yield from` would close the results before the warning is silenced
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib says that it cancels what a spent budget no longer wants
                results.close()


def one_blas_thread() -> AbstractContextManager[object]:
    """NumPy's sums in one order, so that a seed gives the same digits on any number of cores; torch has threads of its own.

    It costs little: most products here are small, and on a busy machine threads only wait for each other.
    """
    return threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]  # threadpoolctl has no types


def _finding(pieces: Memory, name: str) -> Finding[Any] | None:
    try:
        found = pieces.recall(name)
    except KeyError:
        return None
    return found if isinstance(found, Finding) else None


def _accesses(step: Step) -> tuple[Access, ...]:
    return tuple(held.access for held in step.inputs if held.access is not None)


class _Shown:
    """Passes previews on, the first at once and then some; whatever goes wrong with one costs the attack nothing."""

    def __init__(self, step: Step, observer: Observer) -> None:
        self.step, self.observer = step, observer
        self.due = -np.inf

    def __call__(self, made: Callable[[], Preview]) -> None:
        began = time.monotonic()
        if began < self.due:
            return
        try:
            self.observer.preview(self.step, made)
        except Exception as error:
            self.due = np.inf
            self.observer.log(f"No pictures are shown of {self.step.attack.name}: {type(error).__name__}: {error}")
            return
        ended = time.monotonic()
        self.due = ended + max(PREVIEW_SECONDS, (ended - began) / PREVIEW_SHARE)


class _SingleThreaded:
    def __init__(self, function: Callable[[Task], Any]) -> None:
        self.function = function

    def __call__(self, task: Task) -> Any:
        with threadpool_limits(1):
            return self.function(task)
