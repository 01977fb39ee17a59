"""A rectangle of places in the plane, and the straight boundaries that cross it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divulge.contract import Array
from divulge.errors import NotApplicable


@dataclass(frozen=True, eq=False)
class Plane:
    """The places that are tried: every combination of columns and rows, the ends of the box included."""

    columns: Array
    rows: Array

    @classmethod
    def over(cls, low: Array, high: Array, cells: int) -> Plane:
        """Of the box between two corners (2,)."""
        flat = np.flatnonzero(low >= high)
        if len(flat):
            raise NotApplicable(
                f"feature {flat[0] + 1} may have one value only, so there is no plane to draw; give low and high of the "
                "pipeline"
            )
        return cls(*(np.linspace(*ends, cells) for ends in zip(low, high, strict=True)))

    @property
    def positions(self) -> Array:
        """(cells², 2), row by row."""
        return np.stack(np.meshgrid(self.columns, self.rows), axis=-1).reshape(-1, 2)

    def drawn(self, values: Array) -> Array:
        """Values of positions, (rows, columns)."""
        return values.reshape(len(self.rows), len(self.columns))

    def boundary(self, W: Array, b: Array) -> tuple[Array, Array]:
        """Where the line W·x + b = 0, W (1, 2) and b (1,), enters and leaves the box, x and y; empty where it passes by."""
        ends, sides = [], (self.columns[[0, -1]], self.rows[[0, -1]])
        for axis, other in ((0, 1), (1, 0)):
            for end in sides[axis]:
                met = -(W[0, axis] * end + b[0]) / W[0, other] if W[0, other] else np.inf
                if sides[other][0] <= met <= sides[other][1]:
                    ends.append((end, met) if axis == 0 else (met, end))
        crossed = np.array([min(ends), max(ends)] if ends else []).reshape(-1, 2)
        return crossed[:, 0], crossed[:, 1]
