"""How bad a leak is, by a rule that a reader can check: what is won, how sure it is, what it costs the attacker."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from divulge.contract import Access, Finding, Parameters, Score, Verdict, Weights, above, surpasses
from divulge.report import wording
from divulge.report.paths import Edge, Paths


class Severity(IntEnum):
    """Four levels, so that they can be compared: `Severity.HIGH > Severity.LOW`."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    def __str__(self) -> str:
        return self.name.lower()


WORTH = {
    "training_data": Severity.CRITICAL,
    "membership": Severity.HIGH,
    "parameters": Severity.HIGH,
    "integrity": Severity.HIGH,
    "hyperparameters": Severity.LOW,
}
"""Where a leak starts. Records are somebody's and cannot be called back; who was in the data says something of persons too;
the parameters are the model, and its integrity what it is for; a penalty is a setting."""
UNKNOWN = Severity.MEDIUM
"Of an asset that a plug-in does not name."
FREE, DEAR = 1_000, 100_000
"""Queries, over the whole way from what was held: so few go unnoticed among a day's customers and cost cents; above the
second number a bill, a rate limit or a log shows them."""
HOUR, DAY = 3600.0, 86400.0
"The same of seconds that the attacks computed."
PART = 0.1
"Of what could be won at most: a leak of less is a lower one. Not of records, each of which is somebody's."
PRECISE = 1e-6
"Of parameters: to so many digits they are exact for every purpose, and single precision allows no more."
RULE = (
    "Training data start at critical; membership, parameters and integrity at high; hyperparameters at low. A level lower "
    "where neither the truth nor an exact check confirms it, or where the truth alone shows it; a level lower where less "
    "than a tenth of what could be won was won (of records each counts); "
    f"a level lower above {FREE:,} queries or an hour, and one more above {DEAR:,} queries or a day."
)
"As the report prints it."


@dataclass(frozen=True)
class Rating:
    """A leak's severity, and the three answers that it follows from."""

    severity: Severity
    worth: str
    sure: str
    price: str
    points: int
    "Queries over the whole way from what was held."
    seconds: float


def rate(edge: Edge, paths: Paths) -> Rating:
    """The severity of one leak, at the price of the whole way to it."""
    finding = edge.finding
    way = paths.behind(edge)
    points, seconds = sum(one.finding.cost.points for one in way), sum(one.finding.cost.seconds for one in way)
    asset = asset_of(finding)
    level = WORTH.get(asset, UNKNOWN)
    confirmed, sure = certainty(finding)
    share = won_share(finding)
    part = asset != "training_data" and share is not None and share < PART
    lower = (not confirmed) + part + (points > FREE or seconds > HOUR) + (points > DEAR or seconds > DAY)
    return Rating(
        severity=Severity(max(Severity.LOW, level - lower)),
        worth=wording.kind(asset or "something") + (", in part" if part else ""),
        sure=sure,
        price=f"{wording.count(points, 'query', 'queries')}, {wording.duration(seconds)}",
        points=points,
        seconds=seconds,
    )


def asset_of(finding: Finding[Any]) -> str:
    """What of the owner's a finding is about."""
    return finding.provenance.asset or (finding.loot.asset if finding.loot is not None else "")


def certainty(finding: Finding[Any]) -> tuple[bool, str]:
    """Whether something beyond the attack's own word confirms a leak, and what."""
    if finding.verdict is Verdict.LEAK and not finding.provenance.claimed:
        return False, "shown by the truth; the attack itself could not claim it"
    first = headline(finding)
    if first is not None and first[0] in finding.measured:
        if surpasses(first[1]):
            return True, "confirmed by the truth"
        return False, "the truth agrees, by no more than chance may" if above(first[1]) else "the truth does not confirm it"
    if exact(finding.loot):
        return True, "exact, checked at fresh points"
    return False, "claimed by the attack beside its own controls"


def exact(loot: Access | None) -> bool:
    """Whether parameters are those of the model for every purpose, as the attack itself checked."""
    if isinstance(loot, Weights):
        return loot.exact
    return isinstance(loot, Parameters) and loot.precision <= PRECISE


def headline(finding: Finding[Any]) -> tuple[str, Score] | None:
    """The score that speaks for a finding: the first that the truth gave, or another whose interval is better than its null
    where that one is not; the attack's own first where the truth gave none."""
    said = [(name, score) for name, score in finding.scores.items() if score.speaks]
    told = [one for one in said if one[0] in finding.measured]
    if told and not surpasses(told[0][1]):
        told = [one for one in told if one[1].interval is not None and surpasses(one[1])] or told
    return next(iter(told or said), None)


def won_share(finding: Finding[Any]) -> float | None:
    """How much of the way from the null to the most that can be scored an attack went; None where there is no such most."""
    first = headline(finding)
    if first is None:
        return None
    score = first[1]
    if score.better == "lower" and score.value >= 0 and score.null > 0:
        return (score.null - score.value) / score.null
    if score.better == "higher" and score.most is not None and score.null < score.most:
        return (score.value - score.null) / (score.most - score.null)
    return None
