"""Before and after: the same attacks without a defence and behind it, and what that costs the users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from divulge.contract import Holding, Record, Trial, Verdict
from divulge.report import overview, severity, wording
from divulge.report.paths import Edge, Paths
from divulge.report.severity import Rating, Severity

CAVEAT = "Behind a defence the attacks ran as they are; an attacker who knows of the defence may get further."
NOT_REACHED = "not reached"
"Of a finding that one pass has and the other has not, as a chain broke or another one led there."
NOT_MEASURED = (
    "what it costs the users was not measured: no points are known at which answers could be computed and compared"
)
DEAR = 0.05
"Of accuracy, of fit, or of labels: an owner who gives up more has another model."
MANY = 4
"Measures of what a defence costs that are all listed; of more, those that it changes."
FEW = 2
"Measures of one sort that a sentence names; of more, the one that falls furthest."
RIGHT = ("accuracy", "R²")
"How right answers are, each the measure of another kind of model."
CHANGED = ("answers with the same label", "cosine of the explanations")
"How far answers stay what they were: told where nothing says how right they are, and where they change much."

_WORDS: Mapping[str, tuple[str, str]] = {
    "digits": ("rounding", "rounding to {} digits"),
    "decimals": ("rounding", "rounding to {} decimals"),
    "sigma": ("noise", "noise of {}"),
    "points": ("query-limit", "a limit of {} points"),
}
"The setting that says most -> of which defence, and how that is said."


@dataclass(frozen=True)
class Side:
    """A finding in one of the two passes."""

    verdict: str
    "As in `Verdict`, or `not reached`."
    severity: str = ""
    "Of a leak."
    value: float | None = None
    null: float | None = None
    summary: str = ""

    @property
    def leak(self) -> bool:
        return self.verdict == Verdict.LEAK

    @property
    def words(self) -> str:
        """`leak (high), 0.98`"""
        said = f"{self.verdict} ({self.severity})" if self.severity else self.verdict
        return said if self.value is None else f"{said}, {wording.number(self.value)}"


@dataclass(frozen=True)
class Row:
    """One attack on what has the same names, before and after."""

    title: str
    attack: str
    inputs: tuple[str, ...]
    score: str
    "What the numbers are of; empty where nothing was scored."
    before: Side
    after: Side
    number: int | None
    "The finding's number on the page, from 1; None of what only the second pass has."

    @property
    def words(self) -> str:
        """`Span reconstruction on weights of api: images at NCC > 0.9`"""
        name = f"{self.title} on {', '.join(self.inputs)}" if self.inputs else self.title
        return f"{name}: {self.score}" if self.score else name


@dataclass(frozen=True)
class Kept:
    """One measure of use."""

    name: str
    without: str
    behind: str


@dataclass(frozen=True)
class Table:
    """A trial as a page shows it."""

    defence: str
    guarded: tuple[str, ...]
    unguarded: tuple[str, ...]
    "Other things held from the start that answer or were released: these stayed as they were."
    rows: tuple[Row, ...]
    "The worst before first."
    kept: tuple[Kept, ...]
    before: int
    "Leaks without the defence, of what was run again."
    remaining: int
    "Of those, leaks with it."
    new: int
    "Leaks that only the second pass has."
    partial: bool
    "Whether it was ended early: then nothing can be said of it yet."
    sentence: str

    @property
    def told(self) -> tuple[Kept, ...]:
        """The measures of use; of many those that changed."""
        return tuple(one for one in self.kept if len(self.kept) <= MANY or one.without != one.behind)

    @property
    def same(self) -> int:
        """How many others stayed as they were."""
        return len(self.kept) - len(self.told)


def tables(record: Record) -> list[Table]:
    """Every trial of a record, in the order in which they were asked for."""
    return [table(record, trial) for trial in record.trials]


def table(record: Record, trial: Trial) -> Table:
    paths = Paths(record)
    before = {_key(edge, paths): (edge, severity.rate(edge, paths)) for edge in _touched(paths, trial)}
    later, ran = Paths(behind(record, trial)), {id(finding) for finding in trial.findings}
    after = {_key(edge, later): (edge, severity.rate(edge, later)) for edge in later.edges if id(edge.finding) in ran}
    rows = [_row(before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]
    rows.sort(key=lambda row: -max(_level(row.before), _level(row.after) - 0.5))
    leaks = [row for row in rows if row.before.leak]
    remaining = sum(row.after.leak for row in leaks)
    new = sum(row.after.leak and not row.before.leak for row in rows)
    kinds = ("predictions", "gradients", "weights", "fitted", "parameters")
    held = [one.name for one in record.holdings if not one.won_by and one.kind in kinds]
    kept = tuple(Kept(name, wording.number(a), wording.number(b)) for name, (a, b) in trial.kept.items())
    return Table(
        trial.defence, trial.guarded, tuple(name for name in held if name not in trial.guarded), tuple(rows), kept,
        len(leaks), remaining, new, trial.partial,
        _sentence(trial, len(leaks), remaining, new, len(paths.leaks) - len(leaks)),
    )  # fmt: skip


def best(record: Record) -> Trial | None:
    """The defence that did most on this very target; None where none of those that were tried to the end did anything.

    Defences that leave users what they had (their `cost` is no more than `DEAR`) come before others; among these the one
    behind which the worst leak of the whole audit is least severe, then the one with fewest leaks, then the one that costs
    least. One that lowers neither the worst severity nor, with the same worst, the number of leaks is none.
    """
    without = _left(record)
    ranked = []
    for number, trial in enumerate(record.trials):
        left = _left(behind(record, trial))
        if not trial.partial and left < without:
            price = cost(trial)
            ranked.append((not bearable(trial), *left, 1.0 if price is None else price, number))
    return record.trials[min(ranked)[-1]] if ranked else None


def bearable(trial: Trial) -> bool:
    """Whether a defence is known to leave users what they had."""
    price = cost(trial)
    return price is not None and price <= DEAR


def cost(trial: Trial) -> float | None:
    """The most that users lose of accuracy, fit or explanations, and of labels where accuracy is unknown.

    None where nothing was measured, and of a limit: who needs more answers gets none.
    """
    if trial.told.get("name") == "query-limit":
        return None
    lost = {name: before - after for name, (before, after) in trial.kept.items()}
    right = any(name.startswith(RIGHT) for name in lost)
    told = [less for name, less in lost.items() if not (right and name.startswith(CHANGED[0]))]
    return max(0.0, *told) if told else None


def _left(record: Record) -> tuple[int, int]:
    """How severe the worst leak of a record is, and how many leaks there are."""
    levels = [int(leak.rating.severity) for leak in overview.leaks(record)]
    return max(levels, default=0), len(levels)


def behind(record: Record, trial: Trial) -> Record:
    """The record as it would be with the defence: findings of the trial in the place of those that were run again."""
    paths = Paths(record)
    again = {edge.number for edge in _touched(paths, trial)}
    rest = [edge.finding for edge in paths.edges if edge.number not in again]
    findings = (*rest, *trial.findings)
    still = {finding.provenance.won for finding in rest}
    holdings = [one for one in record.holdings if not one.won_by or one.name in still]
    named = {one.name for one in holdings}
    for finding in trial.findings:
        won, loot = finding.provenance.won, finding.loot
        if won and loot is not None and won not in named:
            named.add(won)
            holdings.append(Holding(won, loot.kind, finding.provenance.attack, "", finding.provenance.attack))
    return replace(record, holdings=tuple(holdings), findings=findings, trials=())


def phrase(told: Mapping[str, Any], otherwise: str) -> str:
    """A defence in words: `rounding to 3 digits`."""
    for setting, (name, said) in _WORDS.items():
        if told.get("name") == name and set(told) <= {"name", "of", setting} and setting in told:
            text = said.format(told[setting])
            text = text.removesuffix("s") if told[setting] == 1 else text
            part = told.get("of", "all")
            return text if part == "all" else f"{text} of {part}"
    return otherwise


def _touched(paths: Paths, trial: Trial) -> list[Edge]:
    """The findings that go back to something that the defence stands before."""
    return [edge for edge in paths.edges if not set(paths.roots(edge)).isdisjoint(trial.guarded)]


def _key(edge: Edge, paths: Paths) -> str:
    """The attack and the ways to what it started from: names of loot are given in the order in which it was won."""
    ways = (_way(name, paths, len(paths.makers)) for name in edge.sources)
    return f"{edge.finding.provenance.attack}({', '.join(ways)})"


def _way(name: str, paths: Paths, steps: int) -> str:
    """What a thing was won by and from, back to what was held at the start."""
    maker = paths.makers.get(name)
    if maker is None or not steps:
        return repr(name)
    return f"{maker.finding.provenance.attack}({', '.join(_way(source, paths, steps - 1) for source in maker.sources)})"


def _row(before: tuple[Edge, Rating] | None, after: tuple[Edge, Rating] | None) -> Row:
    some = before or after
    assert some is not None  # a key comes from one of the two
    finding = some[0].finding
    names = [
        told[0] for one in (before, after) if one is not None and (told := severity.headline(one[0].finding)) is not None
    ]
    score = names[0] if names else ""
    return Row(
        wording.attack(finding), finding.provenance.attack, tuple(finding.provenance.inputs), score,
        _side(before, score), _side(after, score), before[0].number if before is not None else None,
    )  # fmt: skip


def _side(one: tuple[Edge, Rating] | None, name: str) -> Side:
    if one is None:
        return Side(NOT_REACHED)
    edge, rating = one
    score = edge.finding.scores.get(name)
    value, null = (None, None) if score is None else (float(score.value), float(score.null))
    level = str(rating.severity) if edge.leak else ""
    return Side(str(edge.finding.verdict), level, value, null, edge.finding.summary)


def _level(side: Side) -> float:
    return float(Severity[side.severity.upper()]) if side.severity else 0.0


def _sentence(trial: Trial, before: int, remaining: int, new: int, others: int) -> str:
    name = phrase(trial.told, trial.defence)
    if trial.partial:
        return f"Behind {name} the audit is not finished: time or queries ran out, or an attack broke off; run it again."
    reach = " that it can touch" if others else ""
    said = f"{remaining} of {f'the {before}' if others else before} leaks{reach} {'remains' if remaining == 1 else 'remain'}"
    if before < 2:
        said = (
            f"the one leak{reach} {'remains' if remaining else 'is gone'}"
            if before
            else f"there was no leak{reach or ' to stop'}"
        )
    if new:
        said += f", and {new} that {'was' if new == 1 else 'were'} none before"
    return f"Behind {name}, {said}; {_use(trial)}."


def _use(trial: Trial) -> str:
    """What users keep: how right answers are, and besides how far they change where that is much or all that is known."""
    said = [part for share in RIGHT if (part := _told(trial, share))]
    for share in CHANGED:
        lost = max((before - after for name, (before, after) in trial.kept.items() if name.startswith(share)), default=0.0)
        if (not said or lost > DEAR) and (part := _told(trial, share)):
            said.append(part)
    said = said or [NOT_MEASURED]
    if trial.kept and trial.unmeasured:
        said.append(f"what it costs users of {wording.listing(trial.unmeasured)} was not measured")
    if trial.told.get("name") == "query-limit":
        said.append("what a limit costs who needs more answers was not measured")
    return "; ".join(said)


def _told(trial: Trial, share: str) -> str:
    """One kind of measure, of everything that is guarded."""
    found = [(name, both) for name, both in trial.kept.items() if name.startswith(share)]
    if len(found) <= FEW:
        return wording.listing([_moved(name, *both) for name, both in found])
    if all(wording.number(before) == wording.number(after) for _, (before, after) in found):
        return f"all {len(found)} measures of {share} stay as they were"
    name, both = max(found, key=lambda one: one[1][0] - one[1][1])
    return f"of {len(found)} measures of {share}, the one that falls furthest: {_moved(name, *both)}"


def _moved(name: str, before: float, after: float) -> str:
    s = "" if name.startswith("answers") else "s"
    if wording.number(before) == wording.number(after):
        return f"{name} stay{s} {wording.number(after)}"
    return f"{name} {'fall' if after < before else 'rise'}{s} from {wording.number(before)} to {wording.number(after)}"
