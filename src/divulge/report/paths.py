"""Who won what from what: the findings of a record as edges between the things that were held."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from divulge.contract import Finding, Record, Verdict


@dataclass(frozen=True, eq=False)
class Edge:
    """A finding between holdings: what it started from, and what it won."""

    number: int
    "The finding's number on the page, from 1."
    finding: Finding[Any]
    sources: tuple[str, ...]
    won: str = ""
    "Name of the loot; empty when nothing was won."

    @property
    def leak(self) -> bool:
        return self.finding.verdict is Verdict.LEAK

    @property
    def denied(self) -> bool:
        """Whether it was claimed, and the truth says otherwise."""
        return self.finding.verdict is Verdict.FAILED and bool(self.won)


class Paths:
    """The attack graph of a record, and the ways through it."""

    def __init__(self, record: Record) -> None:
        self.kinds = {holding.name: holding.kind for holding in record.holdings}
        self.edges = [self._edge(number, finding) for number, finding in enumerate(record.findings, 1)]
        for edge in self.edges:
            for name in edge.sources:
                self.kinds.setdefault(name, "held")
        self.leaks = [edge for edge in self.edges if edge.leak]

    @cached_property
    def makers(self) -> dict[str, Edge]:
        """Name of each thing won -> the edge that won it first."""
        makers: dict[str, Edge] = {}
        for edge in self.edges:
            if edge.won:
                makers.setdefault(edge.won, edge)
        return makers

    @cached_property
    def depths(self) -> dict[str, int]:
        """How many steps each thing is away from what was held at the start."""
        depths = dict.fromkeys(self.kinds, 0)
        for _ in self.makers:  # the longest way has no more steps; a circular record ends here as well
            for name, edge in self.makers.items():
                depths[name] = min(len(self.makers), 1 + max((depths[source] for source in edge.sources), default=0))
        return depths

    @property
    def ends(self) -> list[Edge]:
        """Leaks whose loot served no further leak: where the ways end. What is no attack leads nowhere."""
        used = {name for edge in self.leaks if edge.won for name in edge.sources}
        return [edge for edge in self.leaks if edge.won and edge.won not in used]

    @property
    def leading(self) -> list[Edge]:
        """Leaks but those that the truth alone shows, and what they rest on, in the order of the record."""
        led = (edge for edge in self.leaks if edge.won or edge.finding.provenance.role != "attack")
        needed = {behind.number for edge in led for behind in self.behind(edge)}
        return [edge for edge in self.edges if edge.number in needed]

    def way(self, edge: Edge) -> list[str]:
        """The longest way to a leak's loot: names from what was held at the start to what was won."""
        names = [edge.won]
        while edge.sources and len(names) <= len(self.makers):
            nearest = max(edge.sources, key=lambda name: self.depths[name])
            names.append(nearest)
            if nearest not in self.makers:
                break
            edge = self.makers[nearest]
        return names[::-1]

    def roots(self, edge: Edge) -> list[str]:
        """Everything held at the start that a leak rests on, in the order of the record."""
        found, waiting = {edge.won}, [edge]
        while waiting:
            for name in waiting.pop().sources:
                if name not in found:
                    found.add(name)
                    waiting += [self.makers[name]] if name in self.makers else []
        return [name for name in self.kinds if name in found and name not in self.makers]

    def behind(self, edge: Edge) -> list[Edge]:
        """Every finding that a finding rests on, and itself: what its way cost."""
        found, waiting = [edge], [edge]
        while waiting:
            for name in waiting.pop().sources:
                maker = self.makers.get(name)
                if maker is not None and maker not in found:
                    found.append(maker)
                    waiting.append(maker)
        return found[::-1]

    def _edge(self, number: int, finding: Finding[Any]) -> Edge:
        won = finding.provenance.won
        origin = finding.provenance
        if origin.role == "attack" and origin.claimed and finding.verdict is Verdict.LEAK and finding.loot is not None:
            won = won or f"{finding.loot.kind} {number}"  # an attack called on its own names no loot
            self.kinds.setdefault(won, finding.loot.kind)
        return Edge(number, finding, tuple(finding.provenance.inputs), won if won in self.kinds else "")
