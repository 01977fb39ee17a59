"""What an attack is handed besides its target: randomness, progress, budget, memory and parallelism."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

import numpy as np

from divulge.contract.figures import Preview
from divulge.errors import BadInput, BudgetSpent

T = TypeVar("T")
R = TypeVar("R")
Task = tuple[Any, np.random.Generator]
Show = Callable[[Callable[[], Preview]], None]


class Budget:
    """How much time and how many queries the auditor allows, and what is spent.

    A query is what the model has to answer: a point asked of a model in memory, a row sent to a server.
    """

    def __init__(self, seconds: float | None = None, queries: int | None = None) -> None:
        for name, limit in (("seconds", seconds), ("queries", queries)):
            if limit is not None and not limit > 0:
                raise BadInput(f"expected a positive budget of {name}, got {limit}; leave it out for no limit")
        self.seconds, self.queries = seconds, queries
        self.points = 0
        "Asked by attacks, of whatever answers."
        self.in_memory = 0
        "Of those, asked of models in memory."
        self.rows = 0
        "Sent to servers."
        self._start = time.monotonic()

    @property
    def spent(self) -> int:
        return self.in_memory + self.rows

    def spend(self, points: int) -> None:
        """Before a model in memory is asked: refuses what the budget does not hold, so a refused query is never asked."""
        self._refuse(points)
        self.points += points
        self.in_memory += points

    def send(self, rows: int) -> None:
        """Before rows are sent to a server, with the same refusal."""
        self._refuse(rows)
        self.rows += rows

    def _refuse(self, queries: int) -> None:
        self.check()
        if self.queries is not None and self.spent + queries > self.queries:
            raise BudgetSpent(
                f"the budget of {self.queries} queries ran out after {self.spent}; allow more queries to go on"
            )

    def check(self) -> None:
        """Call between steps of long work."""
        if self.seconds is not None and self.elapsed > self.seconds:
            raise BudgetSpent(f"the budget of {self.seconds:g} seconds ran out; allow more time to go on")

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start


class Memory(Protocol):
    """Where finished pieces are kept, with the queries each one cost. `recall` raises KeyError for what is not there."""

    def recall(self, name: str) -> Any: ...

    def keep(self, name: str, value: Any) -> None: ...


class Forgetful:
    """Keeps nothing: for attacks called on their own."""

    def recall(self, name: str) -> Any:
        raise KeyError(name)

    def keep(self, name: str, value: Any) -> None:
        pass


def one_by_one(function: Callable[[Task], R], tasks: Sequence[Task]) -> Iterator[R]:
    """Run tasks here, in order."""
    return map(function, tasks)


class Context:
    """The only service an attack is handed."""

    def __init__(
        self,
        seed: int | np.random.SeedSequence = 0,
        *,
        progress: Callable[[int, int], None] | None = None,
        log: Callable[[str], None] | None = None,
        budget: Budget | None = None,
        memory: Memory | None = None,
        spread: Callable[[Callable[[Task], Any], Sequence[Task]], Iterable[Any]] = one_by_one,
        asker: str = "",
        show: Show | None = None,
    ) -> None:
        """`asker` is what the attempt is called in the books of a server that is asked; none is like another without."""
        self._seed = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self.rng = np.random.default_rng(self._seed)
        self.progress = progress or (lambda done, total: None)
        self.log = log or (lambda sentence: None)
        self.budget = budget or Budget()
        self.asker = asker
        self._show = show
        self._memory = Forgetful() if memory is None else memory
        self._spread = spread
        self._scope: tuple[str, ...] = ()
        self._used: set[str] = set()

    def begin(self) -> None:
        """A new attempt: names of pieces may be used again."""
        self._used.clear()

    def show(self, made: Callable[[], Preview]) -> None:
        """Pictures of how far a long search is, for whoever watches; `made` is called only when somebody does.

        It must neither draw random numbers nor ask for pieces: the same seed gives the same finding, watched or not. What
        runs in another process by `map` cannot show anything; show what it came to when `map` returns.
        """
        if self._show is not None:
            self._show(made)

    @property
    def seed(self) -> int:
        """The number that the auditor gave."""
        entropy = self._seed.entropy
        return int(entropy) if isinstance(entropy, int) else 0

    def once(self, name: str, compute: Callable[[np.random.Generator], T]) -> T:
        """A named piece of long work, computed once: a run that was killed finds it again.

        The piece has a random generator of its own, so that what follows does not depend on whether it was computed.
        Pieces that `compute` asks for in turn are its own: their names need only differ from each other.
        """
        name = self._named(name)
        try:
            kept: T = self._recalled(name)
            return kept
        except KeyError:
            points, in_memory = self.budget.points, self.budget.in_memory
            with self._within(name):
                value = compute(self._generator(name))
            spent = {"points": self.budget.points - points, "in_memory": self.budget.in_memory - in_memory}
            self._memory.keep(name, {"value": value, **spent})
            return value

    def map(self, name: str, function: Callable[[Any, np.random.Generator], R], items: Iterable[Any]) -> list[R]:
        """`function(item, rng)` for every item, in parallel where the runner allows it, each result kept at once.

        Every item has its own generator, so results do not depend on the number of workers.
        Query a target outside: what runs in another process is not counted against the budget.
        """
        items = list(items)
        name = self._named(name)
        names = [self._taken(f"{name}-{index}") for index in range(len(items))]
        results: dict[int, R] = {}
        for index, piece in enumerate(names):
            with suppress(KeyError):
                results[index] = self._recalled(piece)
        waiting = [index for index in range(len(items)) if index not in results]
        tasks = [((index, items[index]), self._generator(names[index])) for index in waiting]
        for index, result in self._spread(_Numbered(function), tasks):
            self._memory.keep(names[index], {"value": result, "points": 0, "in_memory": 0})
            results[index] = result
            self.progress(len(results), len(items))
            self.budget.check()
        return [results[index] for index in range(len(items))]

    def _named(self, name: str) -> str:
        """The piece's name where it is asked for: inside another piece it is that one's own."""
        return self._taken("/".join((*self._scope, name)))

    def _taken(self, whole: str) -> str:
        if whole in self._used:
            raise ValueError(f"expected a name for every piece of an attack, got {whole!r} twice; name them apart")
        self._used.add(whole)
        return whole

    @contextmanager
    def _within(self, name: str) -> Iterator[None]:
        before, self._scope = self._scope, (name,)
        try:
            yield
        finally:
            self._scope = before

    def _recalled(self, name: str) -> Any:
        """A finished piece. What it cost counts again, so that a budget means the same however often a run resumes.

        Rows that it had sent to a server are counted with the server's answers.
        """
        piece = self._memory.recall(name)
        self.budget.points += piece["points"]
        self.budget.in_memory += piece["in_memory"]
        return piece["value"]

    def _generator(self, name: str) -> np.random.Generator:
        digest = hashlib.sha256(name.encode()).digest()
        words = tuple(int.from_bytes(digest[i : i + 4], "big") for i in range(0, 16, 4))
        return np.random.default_rng(np.random.SeedSequence(self._seed.entropy, spawn_key=(*self._seed.spawn_key, *words)))


class _Numbered:
    """Carries an item's number through a worker, so that results may arrive in any order."""

    def __init__(self, function: Callable[[Any, np.random.Generator], Any]) -> None:
        self.function = function

    def __call__(self, task: Task) -> tuple[int, Any]:
        (index, item), rng = task
        return index, self.function(item, rng)
