"""The conformance suite: what every attack promises. Plug-ins import `check_attack` and run it on their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np

from divulge.contract import (
    Access,
    Array,
    Context,
    Cost,
    Finding,
    Gradients,
    Poison,
    Predictions,
    Preview,
    Procedure,
    Truth,
    contradictions,
)
from divulge.errors import BadInput
from divulge.graph import Step, hold, named
from divulge.run_folder import Pieces
from divulge.runner import Runner
from divulge.storage import fingerprint, load, save

RESUMED = "a run that was resumed found something else than one that was not"


class Nonconforming(AssertionError):
    """An attack broke one of the promises."""


def check_attack(attack: Procedure[Any, Any], *held: Access, truth: Mapping[str, Access] | None = None) -> Finding[Any]:
    """Check an attack on a victim with a known answer; returns the finding, or says which promise is broken."""
    _options_are_frozen_and_checked(attack)
    _wrong_input_is_refused_clearly(attack, held)
    before = [fingerprint(access) for access in held]
    counters = [_Counting(access) for access in held]
    with _silence():
        finding = attack(*(counter.access for counter in counters), truth=truth, context=Context(7))
    asked = sum(counter.rows for counter in counters)
    _require(finding.cost.points == asked, f"it sent {asked} queries and reports {finding.cost.points}")
    _require(finding.cost.seconds > 0, "it reports no time")
    _require([fingerprint(access) for access in held] == before, "it changed what it was handed")
    with tempfile.TemporaryDirectory() as folder:
        kept = _Kept(Path(folder))
        again = attack(*held, truth=truth, context=Context(7, memory=kept, show=_look))
        _require(_content(again) == _content(finding), "the same seed gave another finding, or somebody who watched it")
        blind = attack(*held, context=Context(7))
        _require(fingerprint(blind.loot) == fingerprint(finding.loot), "the truth changed the loot")
        _finding_is_whole(attack, finding)
        _runs_resume(attack, held)
        for lost in kept.losses():
            again = attack(*held, truth=truth, context=Context(7, memory=_Partly(kept, lost)))
            _require(_content(again) == _content(finding), f"{RESUMED}, after it lost {', '.join(lost)[:80]!r}")
    return finding


def _look(made: Callable[[], Preview]) -> None:
    """Watch: what an attack shows are pictures, and showing them changes nothing."""
    shown = made()
    fits = shown.X.ndim == 2 and shown.X.shape[1] == np.prod(shown.shape)
    _require(fits, f"it shows pictures of shape {shown.shape} as rows of shape {shown.X.shape}")


def _options_are_frozen_and_checked(attack: Procedure[Any, Any]) -> None:
    fields: dict[str, Any] = type(attack).__pydantic_fields__  # type: ignore[attr-defined]  # made by @option_class
    for name, field in fields.items():
        _require(bool(field.description), f"option {name!r} has no sentence under it saying what it does")
        _require(not field.is_required(), f"option {name!r} has no default, so no audit can start the attack")
        try:
            setattr(attack, name, getattr(attack, name))
        except FrozenInstanceError:
            continue
        raise Nonconforming(
            f"{type(attack).__name__}: option {name!r} can be changed; decorate the class with @option_class"
        )
    try:
        type(attack)(no_such_option=1)  # type: ignore[call-arg]  # the mistake is the test
    except BadInput:
        return
    raise Nonconforming(f"{type(attack).__name__}: an unknown option was accepted; decorate the class with @option_class")


def _wrong_input_is_refused_clearly(attack: Procedure[Any, Any], held: tuple[Access, ...]) -> None:
    stranger = Poison(np.zeros((1, 1)), np.zeros(1))
    for wrong in ((), (*held, stranger)):
        try:
            attack(*wrong)
        except BadInput as error:
            _require(len(str(error)) > 20, "its error does not say what was expected")
        else:
            raise Nonconforming(f"{type(attack).__name__}: {len(wrong)} inputs were accepted, it needs {len(attack.needs)}")


def _finding_is_whole(attack: Procedure[Any, Any], finding: Finding[Any]) -> None:
    if attack.yields is None:
        _require(finding.loot is None, "a study wins nothing, and it has loot; hand on what it saw as evidence")
    else:
        fits = finding.loot is None or isinstance(finding.loot, attack.yields)
        _require(fits, f"its loot is not {attack.yields.__name__}")
    for name, score in finding.scores.items():
        _require(bool(score.null_of), f"score {name!r} does not say what its null is")
    for contradiction in contradictions(finding):
        _require(False, f"its finding contradicts itself: {contradiction}")
    with tempfile.TemporaryDirectory() as folder:
        save(finding, Path(folder) / "finding.json")
        _require(fingerprint(load(Path(folder) / "finding.json")) == fingerprint(finding), "its finding changes when stored")


def _runs_resume(attack: Procedure[Any, Any], held: tuple[Access, ...]) -> None:
    """Pieces that are kept and found again, and work spread over processes, change nothing."""
    step = named(Step(attack, tuple(hold(held)), choices=1), set())
    with tempfile.TemporaryDirectory() as name:
        folders = Path(name) / "one", Path(name) / "two"
        found = [Runner(folder, workers=number).execute(step, Truth()) for number, folder in enumerate(folders, 1)]
        _require(_content(found[0]) == _content(found[1]), "two workers found something else than one")
        for path in folders[0].glob("pieces/*/finding.json"):
            path.unlink()
        again = Runner(folders[0], workers=1).execute(step, Truth())
    _require(_content(again) == _content(found[0]), RESUMED)


def _content(finding: Finding[Any]) -> str:
    """Everything but the time it took."""
    return fingerprint(replace(finding, cost=Cost(finding.cost.points)))


class _Kept:
    """Pieces on disk, as a run folder keeps them, and what they are called."""

    def __init__(self, folder: Path) -> None:
        self.pieces = Pieces(folder, log=lambda sentence: None)
        self.names: set[str] = set()

    def recall(self, name: str) -> Any:
        return self.pieces.recall(name)

    def keep(self, name: str, value: Any) -> None:
        self.names.add(name)
        self.pieces.keep(name, value)

    def losses(self) -> Iterator[list[str]]:
        """What a kill may cost: every second piece, the others, those inside another piece, those that are not."""
        names = sorted(self.names)
        inner = [name for name in names if "/" in name]
        outer = [name for name in names if "/" not in name]
        yield from filter(None, (names[::2], names[1::2], inner, outer if inner else []))


class _Partly:
    """The same pieces without those that were lost; what is computed again is thrown away."""

    def __init__(self, kept: _Kept, lost: list[str]) -> None:
        self.kept, self.lost = kept, lost

    def recall(self, name: str) -> Any:
        if name in self.lost:
            raise KeyError(name)
        return self.kept.recall(name)

    def keep(self, name: str, value: Any) -> None:
        pass


class _Counting:
    """Counts points at the target itself, to check the attack's own account: value and gradient of one are one query."""

    def __init__(self, access: Access) -> None:
        self.rows = 0
        self.last: tuple[str, bytes] | None = None
        self.access = access
        if isinstance(access, Gradients):
            self.access = replace(
                access, value=self._count("value", access.value), gradient=self._count("gradient", access.gradient)
            )
        elif isinstance(access, Predictions):
            self.access = replace(access, value=self._count("value", access.value))

    def _count(self, what: str, ask: Any) -> Any:
        def counted(X: Array) -> Array:
            where = X.tobytes()
            both = self.last is not None and self.last[0] != what and self.last[1] == where
            self.rows += 0 if both else len(X)
            self.last = None if both else (what, where)
            return np.asarray(ask(X))

        return counted


@contextmanager
def _silence() -> Iterator[None]:
    """Fail when anything reaches standard output or error, from Python or from C."""
    with tempfile.TemporaryFile() as heard, open(heard.fileno(), "w", closefd=False) as text:
        saved = os.dup(1), os.dup(2)
        os.dup2(heard.fileno(), 1)
        os.dup2(heard.fileno(), 2)
        try:
            with redirect_stdout(text), redirect_stderr(text):
                yield
        finally:
            text.flush()
            for original, number in zip(saved, (1, 2), strict=True):
                os.dup2(original, number)
                os.close(original)
        heard.seek(0)
        said = heard.read().decode(errors="replace").strip()
    _require(not said, f"it printed {said[:80]!r}; use context.log")


def _require(condition: bool, broken: str) -> None:
    if not condition:
        raise Nonconforming(f"the attack does not conform: {broken}")
