"""What an attack found: a verdict, the loot, scores beside their nulls, figures as data, the cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from divulge.contract.access import Access
from divulge.contract.display import Shown
from divulge.contract.evidence import Evidence
from divulge.contract.figures import Figure
from divulge.errors import BadInput

Won = TypeVar("Won", bound=Access)
Role = Literal["attack", "baseline", "study"]


class Verdict(StrEnum):
    """How an attack ended. The four are never mixed up."""

    LEAK = "leak"
    NONE_FOUND = "none found"
    NOT_APPLICABLE = "not applicable"
    FAILED = "failed"


@dataclass(frozen=True)
class Score:
    """A measurement beside what a useless attack would have scored."""

    value: float
    null: float
    null_of: str
    "What the useless attack does, in words."
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"
    "Which direction means that the attack is stronger."
    interval: tuple[float, float] | None = None
    published: float | None = None
    "The paper's figure for the same quantity."
    most: float | None = None
    "The largest that it can be, where there is such a thing: everything was won then."
    speaks: bool = True
    "Whether it says how much was won. What that cost, and what the model is like, are worth knowing and say nothing of it."


@dataclass(frozen=True)
class Cost:
    """What the attack spent. Of a model in memory only points are counted: nothing is sent to it."""

    points: int = 0
    "Points at which the attack asked; value and gradient of one are one, and so is a point that was answered before."
    seconds: float = 0.0
    rows: int = 0
    "Rows that were sent to a server for it, in this run and in earlier ones that were interrupted."
    requests: int = 0
    "Requests in which they were sent, whatever came back."


@dataclass(frozen=True)
class Remedy:
    """What the owner can do about a leak, and what that did where it was measured."""

    action: str
    measured: str = ""
    "What it did to this leak, in numbers, and where that is written down; empty where nobody measured it."

    def __str__(self) -> str:
        return self.action


@dataclass(frozen=True)
class TaxonomyId:
    """Where a finding stands in a public taxonomy; ids are renumbered, so the version goes along."""

    taxonomy: str
    version: str
    id: str
    title: str = ""
    "What it is called there."


@dataclass(frozen=True)
class Provenance:
    """Where a finding comes from: enough to know whether another one is the same."""

    attack: str
    "The attack's name in the registry, or the baseline's or study's."
    title: str = ""
    paper: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    "Name of each thing held -> hash of its contents."
    claimed: bool = True
    "Whether the attack itself, before the truth was looked at, called its loot a leak or a means: others go on from it."
    won: str = ""
    "Name under which the loot is held afterwards."
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    role: Role = "attack"
    "Only an attack is an edge of the graph."
    asset: str = ""
    "What of the owner's it is after, one of `ASSETS`; empty where a plug-in does not say."


@dataclass(frozen=True, eq=False)
class Finding(Shown, Generic[Won]):
    """The result of one attack on one target."""

    verdict: Verdict
    summary: str
    "One sentence: what was found, or why not."
    loot: Won | None = None
    evidence: Evidence | None = None
    "What `run` knew that `score` and readers need, as a typed value; notes are for people alone."
    power: str = ""
    "For *none found*: what this attempt would have found."
    scores: Mapping[str, Score] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    remedy: tuple[Remedy, ...] = ()
    "What helps most first; plain sentences become remedies that nobody measured."
    taxonomy: tuple[TaxonomyId, ...] = ()
    cost: Cost = field(default_factory=Cost)
    partial: bool = False
    "True when a budget or a silent target ended the attempt: a later run tries again."
    provenance: Provenance = field(default_factory=lambda: Provenance(attack=""))
    onward: bool = False
    "True where the loot is no leak by itself, and other attacks go on from it as they do from a leak."
    measured: tuple[str, ...] = ()
    "Names of the scores that the truth gave; the others are the attack's own."

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", Verdict(self.verdict))
        object.__setattr__(self, "remedy", remedies(self.remedy))
        if not self.summary:
            raise BadInput("a finding needs a summary: one sentence saying what was found, or why not")
        if self.verdict is Verdict.LEAK and self.loot is None and self.evidence is None:
            raise BadInput(
                "a finding with the verdict 'leak' needs its loot, or the evidence of a study; use 'none found' when "
                "nothing was won"
            )
        if self.verdict is Verdict.NONE_FOUND and not self.power:
            raise BadInput("a finding with the verdict 'none found' needs its power: what this attempt would have found")

    def __repr__(self) -> str:
        return f"Finding({self.verdict}: {self.summary})"

    def corrected(self, verdict: Verdict, summary: str) -> Finding[Won]:
        """The same finding where the truth shows more, or less, than the attack said; a note keeps what it said."""
        said = f"Before the truth was looked at, the attack said: {self.summary}"
        return replace(self, verdict=verdict, summary=summary, power="", notes=(*self.notes, said))

    @classmethod
    def leak(cls, loot: Won, summary: str, **rest: Any) -> Finding[Won]:
        return cls(Verdict.LEAK, summary, loot, **rest)

    @classmethod
    def shown(cls, evidence: Evidence, summary: str, **rest: Any) -> Finding[Won]:
        """A leak that a study shows without winning anything."""
        return cls(Verdict.LEAK, summary, evidence=evidence, **rest)

    @classmethod
    def means(cls, loot: Won, summary: str, **rest: Any) -> Finding[Won]:
        """Loot that gives nothing away by itself, for others to go on from."""
        power = "By itself this is no leak: what it shows of the training data is for other attacks to say."
        return cls(Verdict.NONE_FOUND, summary, loot, power=power, onward=True, **rest)

    @classmethod
    def none_found(cls, summary: str, *, power: str, **rest: Any) -> Finding[Won]:
        return cls(Verdict.NONE_FOUND, summary, power=power, **rest)

    @classmethod
    def not_applicable(cls, reason: str, **rest: Any) -> Finding[Won]:
        return cls(Verdict.NOT_APPLICABLE, reason, **rest)

    @classmethod
    def failed(cls, reason: str, **rest: Any) -> Finding[Won]:
        return cls(Verdict.FAILED, reason, **rest)


def remedies(told: Iterable[Remedy | str]) -> tuple[Remedy, ...]:
    return tuple(one if isinstance(one, Remedy) else Remedy(one) for one in told)


@dataclass(frozen=True)
class Holding:
    """Something held during an audit: handed in by the auditor, or won by an attack."""

    name: str
    kind: str
    source: str
    "Where it came from, in words: a file, an address, or the attack that won it."
    fingerprint: str
    won_by: str = ""
    "The registry name of the attack that won it; empty for what was held from the start."


@dataclass(frozen=True, eq=False)
class Trial:
    """The same audit once more, with a defence before what answers."""

    defence: str
    "In words: `rounding, digits = 2`."
    guarded: tuple[str, ...]
    "Names of what it stands before."
    findings: tuple[Finding[Any], ...]
    kept: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    "What it costs the users, by name: without it and with it, as in accuracy 0.95 and 0.94."
    told: Mapping[str, Any] = field(default_factory=dict)
    "The defence's name and settings, as an audit file has them."
    partial: bool = False
    "True when a budget, a silent server or whoever stopped the audit ended it early: a later run goes on."
    unmeasured: tuple[str, ...] = ()
    "Of what it stands before, things whose users may lose what nobody measured."


@dataclass(frozen=True, eq=False)
class Record(Shown):
    """Everything an audit leaves behind. A report is a pure function of it."""

    title: str
    holdings: tuple[Holding, ...]
    findings: tuple[Finding[Any], ...]
    unmet: Mapping[str, str] = field(default_factory=dict)
    "Attacks that could not start -> what they need and nobody holds."
    broken: Mapping[str, str] = field(default_factory=dict)
    "Plug-ins that could not be loaded -> why."
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    "False when the audit was interrupted or ran out of budget."
    sent: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    "What servers were sent besides, as rows and requests: to look at a model before the attacks and after, to score."
    trials: tuple[Trial, ...] = ()
    "The audit again, behind one defence after another."

    def __repr__(self) -> str:
        leaks = sum(finding.verdict is Verdict.LEAK for finding in self.findings)
        return f"Record({self.title}: {leaks} of {len(self.findings)} findings are leaks)"
