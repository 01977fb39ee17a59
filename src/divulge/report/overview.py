"""What leaked, worst first, and how much of it by asset: what the first screen, thresholds and other tools read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from divulge.contract import ASSETS, Record
from divulge.report import severity
from divulge.report.paths import Edge, Paths
from divulge.report.severity import Rating


@dataclass(frozen=True, eq=False)
class Leak:
    """One finding that is a leak, with what it is about and how bad it is."""

    edge: Edge
    asset: str
    rating: Rating


def leaks(record: Record) -> list[Leak]:
    """Worst first; of equals the dearer asset, then what an attack rather than a study shows, then the cheaper one."""
    paths = Paths(record)
    found = [Leak(edge, severity.asset_of(edge.finding), severity.rate(edge, paths)) for edge in paths.leaks]
    return sorted(found, key=_rank)


def counts(record: Record) -> Counter[str]:
    """How many leaks there are in all, of each severity and of each asset: under `leaks`, `critical`, `membership` ..."""
    tally: Counter[str] = Counter(dict.fromkeys(("leaks", *map(str, severity.Severity), *ASSETS), 0))
    for leak in leaks(record):
        tally.update(["leaks", str(leak.rating.severity), leak.asset])
    return tally


def _rank(leak: Leak) -> tuple[int, int, bool, int, int]:
    place = ASSETS.index(leak.asset) if leak.asset in ASSETS else len(ASSETS)
    studied = leak.edge.finding.provenance.role != "attack"
    return -leak.rating.severity, place, studied, leak.rating.points, leak.edge.number
