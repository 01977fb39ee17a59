"""Windows of a function that is only near one whose breakpoints training points have made, and how near it is.

Training that ends before a KKT point leaves several breakpoints beside a training point instead of one on it. Taken together
they are one, up to a tolerance, and the function through them differs from the network by an amount that can be measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divulge.arrays import Array
from divulge.solvers.univariate.polyline import SLACK, Piecewise, Reading, Window, coarse, read

TOLERANCES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
"Tried from the finest on, in shares of the breakpoints' spread; the last is as near as two of 20 training points come."
SEVERAL = 3
"Breakpoints on the margin, at least: two may have the same value by symmetry."
MOST = 0.75
"""Of the breakpoints, that have to be on the margin. Of 293 networks (23 by SQP, 120 by the three methods, 150 disturbed;
seeds 0 to 59) no window was wrong with 0.67 or more, and 9 with 0.6 or 0.5; 19 of those by SQP certify something with
0.67, 16 with 0.75 and 10 with 0.9."""
FARTHEST = 0.05
"Of the margin: what the function through the breakpoints may differ by, twice. Beyond, values on the margin mean little."


@dataclass(frozen=True, eq=False)
class NearReading:
    """What a function says of its margin once breakpoints near each other are taken together."""

    reading: Reading
    tolerance: float
    "Breakpoints nearer than this, in shares of their spread, were taken together."
    slack: float
    "How far from the margin a value counts as on it, in shares of the margin: twice what that changed."
    on: Array
    "Breakpoints on the margin."
    knots: int
    "How many there are in all."

    @property
    def windows(self) -> list[Window]:
        """Those with a breakpoint on the margin, but for theorem 3.3, which needs a local minimum.

        A function may cross the margin by chance, and hardly turn round on it: of 152 windows of networks with another
        margin for one unit 6 were wrong, of the 146 with such a breakpoint none.
        """
        held = [one for one in (*self.reading.windows, *self.reading.further) if one.theorem != "3.3"]
        return [one for one in held if np.isin(self.reading.points[one.members], self.on).any()]


def read_nearly(function: Piecewise, margin: float | None = None) -> NearReading | None:
    """The reading at the finest tolerance at which most breakpoints are on one margin and no window is empty; or none."""
    for tolerance in TOLERANCES:
        simple, off = coarse(function, tolerance)
        typical = float(np.median(np.abs(simple.values))) if len(simple.knots) >= SEVERAL else 0.0
        slack = max(SLACK, 2 * off / typical) if typical > 0 else np.inf
        if slack > FARTHEST:
            continue
        votes, value = _shared(np.abs(simple.values), slack)
        if votes < max(SEVERAL, MOST * len(simple.knots)) or (margin and abs(value - margin) > slack * margin):
            continue
        on = simple.knots[np.abs(np.abs(simple.values) - value) <= slack * value]
        found = NearReading(read(simple, value, slack), tolerance, slack, on, len(simple.knots))
        if found.windows and not found.reading.empty:
            return found
    return None


def _shared(values: Array, slack: float) -> tuple[int, float]:
    """How many values are within a share of each other, at most, and their mean."""
    values = np.sort(values[values > 0])
    counts = np.searchsorted(values, values * (1 + slack), side="right") - np.arange(len(values))
    if not len(counts):
        return 0, 0.0
    first = int(counts.argmax())
    return int(counts[first]), float(values[first : first + counts[first]].mean())
