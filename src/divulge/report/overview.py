"""What leaked, worst first, and how much of it by asset: what the first screen, thresholds and other tools read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from divulge.contract import ASSETS, Copy, Fitted, Record, Remedy, Verdict, Weights
from divulge.report import severity
from divulge.report.paths import Edge, Paths
from divulge.report.severity import Rating


@dataclass(frozen=True, eq=False)
class Leak:
    """One finding that is a leak, with what it is about and how bad it is."""

    edge: Edge
    asset: str
    rating: Rating


@dataclass(frozen=True, eq=False)
class Group:
    """One leak, of one thing or of many: what one attack won wherever it was tried, worst first."""

    leaks: tuple[Leak, ...]

    @property
    def worst(self) -> Leak:
        return self.leaks[0]


@dataclass(frozen=True, eq=False)
class Asset:
    """What became of one of the things that a model can give away."""

    name: str
    groups: tuple[Group, ...]
    "Leaks of it, worst first."
    tried: Counter[Verdict]
    "How the attempts on it ended."
    steps: int = 0
    "Things that were won on the way to it, and are no leak by themselves."

    @property
    def leaks(self) -> int:
        return self.tried[Verdict.LEAK]

    @property
    def state(self) -> str:
        """In a word: the worst that is known of it."""
        found = (verdict for verdict in (Verdict.NONE_FOUND, Verdict.FAILED, Verdict.NOT_APPLICABLE) if self.tried[verdict])
        return next(map(str, found), "not tested")


def assets(record: Record) -> list[Asset]:
    """Every asset, whether anything was tried on it or not; what a plug-in does not name stands last."""
    found, paths = leaks(record), Paths(record)
    of = {edge.number: severity.asset_of(edge.finding) for edge in paths.edges}
    names = [*ASSETS, *sorted(set(of.values()) - set(ASSETS))]
    told = [
        Asset(
            name,
            groups([leak for leak in found if leak.asset == name]),
            Counter(edge.finding.verdict for edge in paths.edges if of[edge.number] == name and not edge.finding.onward),
            sum(of[edge.number] == name and edge.finding.onward for edge in paths.edges),
        )
        for name in names
    ]
    return [asset for asset in told if asset.name in ASSETS or asset.tried or asset.steps]


def groups(found: Sequence[Leak]) -> tuple[Group, ...]:
    """Leaks of the same attack together, in the order of the worst of each."""
    gathered: dict[str, list[Leak]] = {}
    for leak in found:
        origin = leak.edge.finding.provenance
        gathered.setdefault(f"{origin.role} {origin.attack or leak.edge.number}", []).append(leak)
    return tuple(Group(tuple(together)) for together in gathered.values())


def remedy(found: Sequence[Leak]) -> tuple[Leak, Remedy] | None:
    """What helps most against the worst leak that anything was measured to help against; else what is told of the worst."""
    told = [(leak, one) for leak in found for one in leak.edge.finding.remedy[:1]]
    worst = [pair for pair in told if pair[0].rating.severity == found[0].rating.severity]
    return next((pair for pair in worst if pair[1].measured), next(iter(told), None))


def leaks(record: Record) -> list[Leak]:
    """Worst first; of equals the dearer asset, then what an attack rather than a study shows, then the thing itself rather
    than a copy or a name of it, then the cheaper one."""
    paths = Paths(record)
    found = [Leak(edge, severity.asset_of(edge.finding), severity.rate(edge, paths)) for edge in paths.leaks]
    return sorted(found, key=_rank)


def counts(record: Record) -> Counter[str]:
    """How many leaks there are in all, of each severity and of each asset: under `leaks`, `critical`, `membership` ..."""
    tally: Counter[str] = Counter(dict.fromkeys(("leaks", *map(str, severity.Severity), *ASSETS), 0))
    for leak in leaks(record):
        tally.update(["leaks", str(leak.rating.severity), leak.asset])
    return tally


def by_severity(record: Record) -> dict[severity.Severity, int]:
    """How many leaks are as bad as that, the worst first; none of what there is none of."""
    tally = Counter(leak.rating.severity for leak in leaks(record))
    return {level: tally[level] for level in sorted(tally, reverse=True)}


def _rank(leak: Leak) -> tuple[int, int, bool, bool, int, int]:
    place = ASSETS.index(leak.asset) if leak.asset in ASSETS else len(ASSETS)
    studied, won = leak.edge.finding.provenance.role != "attack", leak.edge.finding.loot
    lesser = isinstance(won, Copy | Fitted) or (isinstance(won, Weights) and not won.exact)
    return -leak.rating.severity, place, studied, lesser, leak.rating.points, leak.edge.number
