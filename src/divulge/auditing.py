"""An audit: everything that can be won from what is held, kept in a run folder, drawn as a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from divulge import defending, graph, live, registry, sealing
from divulge.contract import Access, Attack, Budget, Finding, Holding, Predictions, Procedure, Record, Truth, Verdict
from divulge.contract.display import html
from divulge.contract.service import LOOKING, SCORING, Account, Service, charged_to, services
from divulge.defending import Again, Plan, Told
from divulge.errors import BadInput, refuse_unknown
from divulge.graph import Held, Step
from divulge.previewing import Previewing
from divulge.run_folder import FINDINGS, LEDGER, locked, versions
from divulge.runner import Observer, Runner
from divulge.storage import fingerprint, load, save

Known = Mapping[str, Access | Mapping[str, Access]]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit leaves in hand."""

    record: Record
    folder: Path | None

    @property
    def findings(self) -> tuple[Finding[Any], ...]:
        return self.record.findings

    @property
    def leaks(self) -> tuple[Finding[Any], ...]:
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.LEAK)

    @property
    def report(self) -> Path | None:
        return self.folder / "report.html" if self.folder else None

    @property
    def seal(self) -> str | None:
        """The hash to write down elsewhere: `divulge verify` compares the run folder with it."""
        return None if self.folder is None else seal_of(self.folder)

    def _repr_html_(self) -> str | None:
        return html(self.record, self.report)


def audit(
    held: Access | Iterable[Access] | Mapping[str, Access],
    truth: Known | None = None,
    *,
    out: Path | str | None = None,
    title: str = "",
    attacks: Iterable[str] | None = None,
    studies: Iterable[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int = 0,
    budget: Budget | None = None,
    workers: int | None = None,
    sources: Mapping[str, str] | None = None,
    observer: Observer | None = None,
    looked: tuple[int, int] = (0, 0),
    defend: Told | Iterable[Told] = (),
) -> Audit:
    """Run every attack that what is held allows, then every attack that its loot allows, and so on.

    `held` may name its things: `{"model": Fitted.of(ridge), "data": TrainingData(X, y)}`. `truth` gives what the auditor
    knows by kind, `{"hyperparameters": ...}`, or by the name of the thing it is about, `{"model": {...}}`.
    `studies` names baselines and studies to run besides; what they show goes no further.
    With `out`, the run folder there resumes what an earlier audit of the same things finished, and holds the report.
    `looked` is what servers were sent to find out what is held: rows and requests. `defend` names defences, each of which
    is tried: `"rounding=3"`, or `{"name": "rounding", "digits": 3}`; the audit is run again behind it.
    """
    things = graph.hold(held, sources or {})
    plans = defending.chosen(defend, things)
    chosen = choose(attacks, studies, options or {})
    known = _Known(truth or {}, {thing.name for thing in things})
    if out is not None and not str(out).strip():
        raise BadInput("expected the name of a run folder for out, got an empty one; name a folder")
    folder = Path(out) if out is not None else None
    runner = Runner(folder, seed=seed, budget=budget, workers=workers, observer=observer or live.observer())
    if folder is None:
        with _books(things, None, runner, looked) as (kept, books):
            return Audit(_Pursuit(title or "Audit", kept, chosen, known, runner, books).go(plans), None)
    runner.observer = previewing = Previewing(runner.observer, folder, title or "Audit")
    with locked(folder):
        with previewing, _books(things, folder / LEDGER, runner, looked) as (kept, books):
            record = _Pursuit(title or "Audit", kept, chosen, known, runner, books).go(plans)
        draw(folder, record)
    return Audit(record, folder)


Books = Callable[[Iterable[Finding[Any]]], dict[str, tuple[int, int]]]
"What servers were sent besides what findings say, by who asked: rows and requests."


@contextmanager
def _books(
    things: list[Held], path: Path | None, runner: Runner, looked: tuple[int, int]
) -> Iterator[tuple[list[Held], Books]]:
    """The ledger of a run folder, kept by every server that is asked; what it was sent in earlier runs counts again."""
    asked = services(thing.access for thing in things if thing.access is not None)
    if not asked:
        yield things, lambda findings: {}
        return
    from divulge.targets.ledger import Ledger

    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger(path or ":memory:"))
        ledger.send(LOOKING, *looked)
        before = [service.token for service in asked]
        for service in asked:
            stack.enter_context(service.keeping(ledger, runner.observer.log))
            stack.enter_context(charged_to(service, Account(LOOKING, runner.budget)))
            stack.enter_context(_watched(service, lambda: runner.observer.sent(*ledger.sent())))
        runner.budget.rows = ledger.sent()[0]
        tokens = dict(zip(before, (service.token for service in asked), strict=True))

        def besides(findings: Iterable[Finding[Any]]) -> dict[str, tuple[int, int]]:
            sent = {who: ledger.sent(who) for who in (LOOKING, SCORING)}
            told = [*sent.values(), *((finding.cost.rows, finding.cost.requests) for finding in findings)]
            rest = tuple(total - sum(part) for total, part in zip(ledger.sent(), zip(*told, strict=True), strict=True))
            sent["audits before this one"] = rest[0], rest[1]
            return {who: both for who, both in sent.items() if any(both)}

        yield [_renamed(thing, tokens) for thing in things], besides


@contextmanager
def _watched(service: Service, watch: Callable[[], None]) -> Iterator[None]:
    before, service.watch = service.watch, watch
    try:
        yield
    finally:
        service.watch = before


def _renamed(thing: Held, tokens: Mapping[str, str]) -> Held:
    """What asks a server, with the name that its model has in the books of this run folder."""
    access = thing.access
    if not isinstance(access, Predictions) or access.service is None:
        return thing
    identity = access.identity
    for before, token in tokens.items():
        identity = identity.replace(before, token)
    access = replace(access, identity=identity)
    return replace(thing, access=access, fingerprint=fingerprint(access))


def choose(
    attacks: Iterable[str] | None, studies: Iterable[str], options: Mapping[str, Mapping[str, Any]]
) -> list[Procedure[Any, Any]]:
    """Attacks by name, all that are installed where none is named; then baselines and studies by name; with options."""
    available: dict[str, registry.Kind] = {}
    if attacks is None:
        available |= registry.attacks()
    else:
        available |= {name: registry.attack(name) for name in attacks}
    for name in studies:
        available[name] = registry.procedure(name)
        if issubclass(available[name], Attack):
            raise BadInput(f"studies: {name!r} is an attack; name it under attacks")
    if not available:
        raise BadInput("expected at least one attack, got none; leave attacks out to run all that are installed")
    refuse_unknown(options, available, "options")
    chosen = []
    for name, kind in available.items():
        given = options.get(name, {})
        if not isinstance(given, Mapping):
            raise BadInput(f"options of {name}: expected named values, got {given!r}; write them as [options.{name}]")
        refuse_unknown(given, kind.option_names(), f"options of {name}")
        chosen.append(kind(**given))
    return chosen


def plan(
    held: Iterable[Access] | Mapping[str, Access], attacks: Iterable[str] | None = None, studies: Iterable[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Step]:  # fmt: skip
    """What an audit would run, if every attack won."""
    return graph.plan(graph.hold(held), choose(attacks, studies, options or {}))


def plan_again(
    held: Iterable[Access] | Mapping[str, Access], steps: Iterable[Step], defend: Told | Iterable[Told]
) -> list[tuple[Plan, list[Step]]]:
    """Which of the steps would be taken again behind each defence."""
    plans = defending.chosen(defend, graph.hold(held))
    return [(plan, [step for step in steps if plan.touches(step)]) for plan in plans]


def reopen(folder: Path) -> Record:
    """The record of an earlier audit."""
    try:
        found = folder.is_dir()
    except OSError as error:
        raise BadInput(f"cannot read {folder}: {error.strerror}; check that you may read it") from None
    if not found:
        raise BadInput(f"expected a run folder at {folder}, found none; give the folder an audit wrote")
    record = load(folder / FINDINGS)
    if not isinstance(record, Record):
        raise BadInput(f"{folder / FINDINGS} is not the record of an audit; give the folder an audit wrote")
    return record


def draw(folder: Path, record: Record | None = None) -> Path:
    """Write the report of a run folder, and seal it; or write it again, of the record that was sealed and no other.

    A folder that no audit sealed gets its page and no seal: nobody knows what happened to the record since.
    """
    from divulge import report
    from divulge.report import formats

    made = record is not None
    if record is None:
        sealing.refuse_changed(folder)
        record = reopen(folder)
    try:
        page = report.write(record, folder)
    except BadInput:  # a library that draws is missing: findings and report.json stand without it
        if made:
            sealing.seal(folder, record)
        raise
    left = formats.write(record, folder, ())
    if made or sealing.sealed(folder):
        sealing.seal(folder, record, page, *left.values())
    return page


def write(folder: Path, record: Record, names: Iterable[str]) -> dict[str, Path]:
    """Write files for other programs into a run folder besides, and seal them with the rest."""
    from divulge.report import formats

    written = formats.write(record, folder, names)
    if written and sealing.sealed(folder):
        sealing.seal(folder, record, *written.values())
    return written


def seal_of(folder: Path) -> str | None:
    """The seal of a run folder; None where it has none."""
    return str(sealing.read(folder)["seal"]["sha256"]) if sealing.sealed(folder) else None


class _Pursuit:
    """One pass over the graph, with the record brought up to date after every finding."""

    def __init__(
        self, title: str, things: list[Held], attacks: list[Procedure[Any, Any]], known: _Known, runner: Runner,
        books: Books,
    ) -> None:  # fmt: skip
        self.title, self.things, self.attacks, self.known, self.runner = title, things, attacks, known, runner
        self.books = books
        self.holdings = [_holding(thing) for thing in things]
        self.findings: list[Finding[Any]] = []
        self.won: list[Held] = []
        self.again: list[Again] = []

    def go(self, plans: Iterable[Plan] = ()) -> Record:
        if not self.things:
            raise BadInput("expected at least one thing that an attacker holds, got none; add a [held.NAME] section")
        behind = [Again(plan, self.things, self.runner, self.known.about) for plan in plans]
        everything = graph.pursue(self.things, self.attacks, self._execute)
        started = {finding.provenance.attack for finding in self.findings}
        unmet = graph.unmet(everything, self.attacks, started)
        for again in behind:
            self.again.append(again)
            others = [thing for thing in self.won if set(thing.roots).isdisjoint(again.plan.guarded)]
            again.go(self.attacks, others, lambda: self._record(unmet=unmet, complete=False))
        complete = not any(finding.partial for finding in self.findings) and all(again.complete for again in behind)
        return self._record(unmet=unmet, complete=complete)

    def _execute(self, step: Step) -> Held | None:
        finding = self.runner.execute(step, self.known.about(step.roots))
        self.findings.append(finding)
        won = graph.won(step, finding)
        if won is not None:
            self.won.append(won)
            self.holdings.append(_holding(won))
        self._record(complete=False)
        return won

    def _record(self, **rest: Any) -> Record:
        trials = tuple(again.trial for again in self.again)
        everything = [*self.findings, *(finding for trial in trials for finding in trial.findings)]
        record = Record(
            self.title, tuple(self.holdings), tuple(self.findings), broken=registry.broken(), trials=trials,
            seed=self.runner.seed, versions=versions(), sent=self.books(everything), **rest,
        )  # fmt: skip
        if self.runner.folder:
            sealing.unseal(self.runner.folder)
            save(record, self.runner.folder / FINDINGS, prune=True)
        return record


class _Known:
    """The auditor's knowledge, sorted by what it is about."""

    def __init__(self, truth: Known, names: set[str]) -> None:
        kinds = {key: value for key, value in truth.items() if isinstance(value, Access)}
        self.everywhere = kinds
        self.about_one = {key: cast(Mapping[str, Access], value) for key, value in truth.items() if key not in kinds}
        refuse_unknown(self.about_one, names | set(Access.kinds), "truth")
        for name, known in self.about_one.items():
            if not isinstance(known, Mapping):
                raise BadInput(f"truth: expected something such as Hyperparameters(...) under {name!r}, got {known!r}")
        for known in ({}, *self.about_one.values()):
            Truth({**self.everywhere, **known})  # refuses what is of the wrong kind before anything has run

    def about(self, roots: Iterable[str]) -> Truth:
        known = dict(self.everywhere)
        for root in roots:
            known.update(self.about_one.get(root, {}))
        return Truth(known)


def _holding(thing: Held) -> Holding:
    won_by = thing.path[-1] if thing.path else ""
    return Holding(thing.name, thing.kind.kind, thing.source, thing.fingerprint, won_by)
