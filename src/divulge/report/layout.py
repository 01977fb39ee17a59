"""A layered drawing: boxes in columns, lines from left to right, few crossings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SWEEPS = 12
"Passes over the columns; drawings of this size settle in fewer."


@dataclass(frozen=True)
class Layout:
    """The middle of every box from the top, the ways of the lines between them, and the height of it all."""

    middles: Mapping[str, float]
    bends: Sequence[Sequence[tuple[int, float]]]
    "For each line, (column, height) where it passes between the boxes of a column that it skips."
    height: float


def place(columns: Mapping[str, int], lines: Sequence[tuple[str, str]], *, box: float, gap: float) -> Layout:
    """Heights for boxes that stand in given columns; a line leads from a column to one further right.

    A line that skips columns holds a place in each of them, so that it runs between boxes and not through them.
    """
    stacks: list[list[str]] = [[] for _ in range(1 + max(columns.values(), default=0))]
    for name, column in columns.items():
        stacks[column].append(name)
    neighbours: dict[str, list[str]] = {name: [] for name in columns}
    passes: list[list[tuple[int, str]]] = []
    for number, (start, end) in enumerate(lines):
        skipped = [(column, f"line {number} column {column}") for column in range(columns[start] + 1, columns[end])]
        for column, name in skipped:
            stacks[column].append(name)
            neighbours[name] = []
        for left, right in zip([start, *(name for _, name in skipped)], [*(name for _, name in skipped), end], strict=True):
            neighbours[left].append(right)
            neighbours[right].append(left)
        passes.append(skipped)

    middles = {name: place * (box + gap) for stack in stacks for place, name in enumerate(stack)}
    for sweep in range(SWEEPS):
        for stack in stacks if sweep % 2 == 0 else stacks[::-1]:
            wanted = {name: _mean([middles[other] for other in neighbours[name]], middles[name]) for name in stack}
            stack.sort(key=lambda name, wanted=wanted: wanted[name])  # type: ignore[misc]  # bound for this pass
            spread = _apart([wanted[name] for name in stack], box + gap)
            middles.update(zip(stack, spread, strict=True))
    top = min(middles.values(), default=0.0) - box / 2
    middles = {name: round(middle - top, 1) for name, middle in middles.items()}
    return Layout(
        middles={name: middles[name] for name in columns},
        bends=[[(column, middles[name]) for column, name in skipped] for skipped in passes],
        height=max(middles.values(), default=0.0) + box / 2,
    )


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _apart(wanted: Sequence[float], pitch: float) -> list[float]:
    """Rising heights at least a pitch apart, as near to the wanted ones as a group can stay."""
    groups: list[tuple[float, int]] = []  # the first height of a run of touching boxes, and how many
    for height in wanted:
        start, size = height, 1
        while groups and groups[-1][0] + groups[-1][1] * pitch > start:
            above, above_size = groups.pop()
            start = (above * above_size + (start - above_size * pitch) * size) / (above_size + size)
            size += above_size
        groups.append((start, size))
    return [start + place * pitch for start, size in groups for place in range(size)]
