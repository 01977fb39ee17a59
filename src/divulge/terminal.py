"""What a person, or a machine, reads while an audit runs and when it is done."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.auditing import Audit
    from divulge.contract import Attack, Finding, Preview, Procedure
    from divulge.defending import Plan
    from divulge.experiments import Experiment, Outcome
    from divulge.first_look import Written
    from divulge.graph import Step
    from divulge.runner import Observer
    from divulge.training_risk.placing import Risk
    from divulge.verifying import Verification

QUIET_SECONDS = 10.0  # how often a log gets a line of progress
STYLES = {"leak": "bold red", "none found": "green", "not applicable": "yellow", "failed": "magenta"}


class _Screen(Console):
    """A console that goes on in silence when nobody reads any more, as in `divulge audit ... | head`."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


out = _Screen(highlight=False, soft_wrap=not sys.stdout.isatty())
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def target(step: Step) -> str:
    return ", ".join(held.name for held in step.inputs)


def line(step: Step, finding: Finding[Any], kept: bool) -> str:
    verdict = f"[{STYLES[finding.verdict.value]}]{finding.verdict.value:>14}[/]"
    again = " (kept from an earlier run)" if kept else ""
    return f"{verdict}  {escape(step.attack.name)} on {escape(target(step))}{again}: {escape(finding.summary)}"


class Traffic:
    """What servers have been sent, and how fast it goes."""

    def __init__(self) -> None:
        self.rows = self.requests = 0
        self.began, self.first = time.monotonic(), 0

    def count(self, rows: int, requests: int) -> None:
        if not self.requests:
            self.began, self.first = time.monotonic(), rows
        self.rows, self.requests = rows, requests

    def __str__(self) -> str:
        if not self.requests:
            return ""
        rate = (self.rows - self.first) / max(time.monotonic() - self.began, 1e-3)
        return f"{_counted(self.rows, 'row')} sent in {_counted(self.requests, 'request')}, {rate:,.0f} rows a second"


class Lines:
    """Plain lines for a log or a pipe."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began = self.last = time.monotonic()
        self.done = ""
        self.traffic = Traffic()

    def starts(self, step: Step) -> None:
        self.began = self.last = time.monotonic()
        self.done = ""

    def progress(self, done: int, total: int) -> None:
        elapsed = time.monotonic() - self.began
        self.done = f"{done} of {total}" + (f", {_seconds(elapsed * (total - done) / done)} left" if done else "")
        self._say()

    def sent(self, rows: int, requests: int) -> None:
        self.traffic.count(rows, requests)
        self._say()

    def preview(self, step: Step, made: Callable[[], Preview]) -> None:
        """A terminal has no room for pictures: they are in the run folder."""

    def _say(self) -> None:
        if time.monotonic() - self.last >= QUIET_SECONDS:
            self.last = time.monotonic()
            self.console.print(f"                {'; '.join(filter(None, (self.done, str(self.traffic))))}")

    def log(self, sentence: str) -> None:
        self.console.print(sentence, markup=False)

    def ends(self, step: Step, finding: Finding[Any], kept: bool) -> None:
        self.console.print(line(step, finding, kept))


class Bars(Lines):
    """A live bar with the time left, and a line for each finding."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress.console)
        self.bar = progress
        self.step = "starting"
        self.task = progress.add_task(self.step, total=None)

    def starts(self, step: Step) -> None:
        self.step = escape(f"{step.attack.name} on {target(step)}")
        self.bar.reset(self.task, total=None, description=self.step)

    def progress(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done, total=total)

    def sent(self, rows: int, requests: int) -> None:
        self.traffic.count(rows, requests)
        self.bar.update(self.task, description=f"{self.step} · {self.traffic}")


@contextmanager
def watching(*, quiet: bool) -> Iterator[Observer | None]:
    """An observer that suits where the output goes."""
    if quiet:
        yield None
    elif not out.is_terminal:
        yield Lines(out)
    else:
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=out, transient=True) as progress:
            yield Bars(progress)


def conclude(audit: Audit, files: Mapping[str, Path], *, as_json: bool) -> None:
    """The last lines of an audit: what leaked, what it took, and where it is written down."""
    if as_json:
        say_json(summary(audit))
        return
    from divulge.report import headline, overview

    out.print(f"\n{headline.sentences(audit.record)[0].replace('`', '')}", style="bold", markup=False)
    many = overview.by_severity(audit.record)
    rated = f": {', '.join(f'{count:,} {severity}' for severity, count in many.items())}" if many else ""
    out.print(f"{_counted(len(audit.leaks), 'leak')} in {_counted(len(audit.findings), 'finding')}{rated}.")
    _show_sent(audit)
    for name, reason in audit.record.unmet.items():
        out.print(f"not started: {name} {reason}", markup=False)
    for name, reason in audit.record.broken.items():
        out.print(f"plug-in skipped: {name}: {reason}", markup=False)
    _show_trials(audit)
    if not audit.record.complete:
        out.print("The audit is not complete: allow more time or queries, then run the same command again to go on.")
    if audit.report:
        out.print(f"report: {audit.report}", markup=False)
        show_files(files)
        say_seal(audit.seal)


def show_files(files: Mapping[str, Path]) -> None:
    """Where the files for other programs are, a line each."""
    for name, path in files.items():
        out.print(f"{name}: {path}", markup=False)


def _show_trials(audit: Audit) -> None:
    """Leak by leak, without each defence and with it, and what that costs the users."""
    from divulge.report import trials

    tables = trials.tables(audit.record)
    for table in tables:
        out.print(f"\n{table.sentence}", markup=False)
        leaks = [row for row in table.rows if row.before.leak or row.after.leak]
        rows = [(row.words, row.before.words, row.after.words) for row in leaks]
        rows += [(one.name, one.without, one.behind) for one in table.told]
        if rows:
            show_table(("", "without", "with"), rows)
    if tables:
        out.print(trials.CAVEAT)


def _show_sent(audit: Audit) -> None:
    """What servers were sent, for whom."""
    again = [finding for trial in audit.record.trials for finding in trial.findings]
    attacks = [(finding.cost.rows, finding.cost.requests) for finding in (*audit.findings, *again)]
    besides = list(audit.record.sent.values())
    rows, requests = (sum(part) for part in zip((0, 0), *attacks, *besides, strict=True))
    if requests:
        others = ", ".join(f"{_counted(spent, 'row')} for {who}" for who, (spent, _) in audit.record.sent.items())
        out.print(f"{_counted(rows, 'row')} sent in {_counted(requests, 'request')}{f' ({others})' if others else ''}.")


def summary(audit: Audit) -> dict[str, Any]:
    """What a machine needs of an audit, as report.json has it, and where that is."""
    from divulge.report import machine

    return {
        "folder": str(audit.folder) if audit.folder else None,
        "report": str(audit.report) if audit.report else None,
        "seal": audit.seal,
        **machine.describe(audit.record),
    }


def say_seal(seal: str | None) -> None:
    """What to write down elsewhere; nothing where a folder was never sealed."""
    if seal is not None:
        out.print(f"seal: {seal}", markup=False)


def say_schema() -> None:
    from divulge.report import machine

    sys.stdout.write(machine.schema())


def show_verification(done: Verification, *, as_json: bool) -> None:
    """What was looked at, line by line, and what that proves."""
    if as_json:
        checks = [{"what": one.what, "state": one.state, "said": one.said or None} for one in done.checks]
        about = {"folder": str(done.folder), "unchanged": done.unchanged, "seal": done.seal, "confirmed": done.confirmed}
        say_json({**about, "checks": checks})
        return
    for check in done.checks:
        style = "" if check.state == "unchanged" else "yellow" if check.right else "bold red"
        said = f": {check.said}" if check.said else ""
        out.print(f"[{style}]{check.state:>11}[/]" if style else f"{check.state:>11}", end="  ")
        out.print(_printable(f"{check.what}{said}"), markup=False)
    wrong = sum(not check.right for check in done.checks)
    out.print(f"\n{_counted(wrong, 'thing')} changed or missing." if wrong else "\nNothing was changed since it was sealed.")
    if not wrong and not done.confirmed:
        out.print(
            "That holds against accidents. Whoever can write in the folder can seal it anew: to rule that out, give --seal "
            "with the seal that the audit printed, from where it was written down."
        )


def show_first_look(written: Written, *, as_json: bool) -> None:
    """What was found at each source, and what to do next."""
    if as_json:
        say_json({"file": str(written.path), "found": {source: dict(facts) for source, facts in written.facts.items()}})
        return
    for source, facts in written.facts.items():
        out.print(source, style="bold", markup=False)
        for what, said in facts.items():
            out.print(f"  {what:14}{said}", markup=False)
    out.print(f"wrote {written.path}; look through it, then run: divulge audit {written.path}", markup=False)


def show_plan(steps: Sequence[Step], *, as_json: bool, again: Sequence[tuple[Plan, Sequence[Step]]] = ()) -> None:
    """The steps an audit would take, were every attack to win; and those that it would take again behind defences."""
    if as_json:
        behind = [_planned(step) | {"behind": plan.words} for plan, touched in again for step in touched]
        say_json([*map(_planned, steps), *behind])
        return
    if not steps:
        out.print("No attack can start from what is held: `divulge attacks` shows what each one needs.")
        return
    rows = [(str(number), step.attack.name, target(step), step.wins) for number, step in enumerate(steps, 1)]
    show_table(("", "attack", "from", "would win"), rows)
    for plan, touched in again:
        out.print(
            f"then, behind {plan.words} before {', '.join(plan.guarded)}: {len(touched)} of {len(steps)} again", markup=False
        )


def _planned(step: Step) -> dict[str, Any]:
    return {"attack": step.attack.name, "inputs": [held.name for held in step.inputs], "wins": step.wins}


def show_attacks(attacks: Mapping[str, type[Attack[Any, Any]]], broken: Mapping[str, str], *, as_json: bool) -> None:
    """Needs, yields and paper of every attack, and which plug-ins could not be loaded."""
    needs = {name: [need.kind for need in attack.needs] for name, attack in attacks.items()}
    if as_json:
        listed = [
            {"name": name, "needs": needs[name], "yields": attack.yields.kind, "paper": attack.paper}
            for name, attack in attacks.items()
        ]
        say_json({"attacks": listed, "broken_plugins": dict(broken)})
        return
    rows = [(name, " + ".join(needs[name]), attack.yields.kind, attack.paper) for name, attack in attacks.items()]
    show_table(("attack", "needs", "yields", "paper"), rows)
    for name, reason in broken.items():
        errors.print(f"plug-in skipped: {name}: {reason}", markup=False)


def show_studies(studies: Mapping[str, type[Procedure[Any, Any]]], *, as_json: bool) -> None:
    """Needs, purpose and paper of every study and baseline."""
    rows = [
        (
            name,
            " + ".join(need.kind for need in study.needs),
            "study" if study.yields is None else "baseline",
            (study.__doc__ or "").strip().partition("\n")[0],
            study.paper,
        )
        for name, study in studies.items()
    ]
    if as_json:
        say_json([dict(zip(("name", "needs", "kind", "purpose", "paper"), row, strict=True)) for row in rows])
        return
    show_table(("study", "needs", "is a", "what it does"), [row[:-1] for row in rows])


def show_risk(risk: Risk, *, as_json: bool) -> None:
    """Where a training stands on the map, what was measured nearest to it, and what would lower its risk."""
    if as_json:
        say_json(risk.plain())
        return
    out.print(risk.sentence, markup=False)
    for one in risk.nearest:
        shares = ", ".join(f"{share:.0%}" for share in one.shares)
        out.print(f"  measured near it: {one.recipe.words}: {shares}", markup=False)
    for change in risk.changes:
        out.print(f"  {change}", markup=False)


def show_experiments(experiments: Sequence[Experiment], *, as_json: bool) -> None:
    """What can be reproduced."""
    if as_json:
        say_json([{"name": one.name, "title": one.title, "claim": one.claim, "paper": one.paper} for one in experiments])
        return
    show_table(("name", "claim", "paper"), [(one.name, f"{one.title}: {one.claim}", one.paper) for one in experiments])


def show_outcomes(outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """Claim, published, ours, verdict."""
    if as_json:
        say_json([_outcome(outcome) for outcome in outcomes])
        return
    rows = [
        (
            f"{outcome.experiment.title}: {outcome.experiment.claim}",
            outcome.experiment.published,
            outcome.experiment.expected,
            "–" if outcome.ours is None else f"{outcome.ours:.2g}",
            "–" if outcome.null is None else f"{outcome.null:.2g}",
            ", ".join(f"{count} {verdict}" for verdict, count in outcome.counts.items()),
            "reproduced" if outcome.reproduced else "not reproduced",
        )
        for outcome in outcomes
    ]
    show_table(("claim", "published", "expected", "ours", "null", "cells", "verdict"), rows)
    _show_cells([outcome for outcome in outcomes if outcome.experiment.vary])


def _show_cells(outcomes: Sequence[Outcome]) -> None:
    """One row an experiment and a column a value of what it varies first, such as the penalty."""
    by_axis: dict[tuple[Any, ...], list[tuple[str, ...]]] = {}
    for outcome in outcomes:
        axis, values = next(iter(outcome.experiment.vary.items()))
        rows: dict[str, dict[str, str]] = {}
        for cell in outcome.cells:
            rest = ", ".join(str(value) for place, value in cell.settings.items() if place != axis)
            shown = f"{cell.value:.2g}" if cell.value is not None else f"{cell.finding.verdict.value}"
            rows.setdefault(f"{outcome.experiment.title} {rest}".strip(), {})[str(cell.settings[axis])] = shown
        heading = (axis.rpartition(".")[2], *(f"{value:g}" if isinstance(value, float) else str(value) for value in values))
        for name, cells in rows.items():
            by_axis.setdefault(heading, []).append((name, *(cells[str(value)] for value in values)))
    for heading, lines in by_axis.items():
        show_table(heading, lines)


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, header_style="bold")
    for number, heading in enumerate(headings):
        name = not number and not any(" " in row[0] for row in rows)  # what a row is called stays in one piece
        table.add_column(heading, overflow="fold", no_wrap=name)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


def say_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=1, allow_nan=False) + "\n")


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.experiment.name,
        "claim": outcome.experiment.claim,
        "published": outcome.experiment.published,
        "expected": outcome.experiment.expected,
        "ours": None if outcome.ours is None else _number(outcome.ours),
        "null": None if outcome.null is None else _number(outcome.null),
        "cells": outcome.counts,
        "reproduced": outcome.reproduced,
    }


def _printable(text: str) -> str:
    """One line, whatever a file is called: names may have line ends, escape sequences and bytes that are no text."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _seconds(number: float) -> str:
    return f"{number:.0f} s" if number < 120 else f"{number / 60:.0f} min"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
