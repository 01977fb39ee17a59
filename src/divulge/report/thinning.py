"""Big figures made small enough for a page without changing what is seen."""

from __future__ import annotations

import numpy as np

from divulge.contract import Array

POINTS = 1000
"Points kept of one line: two for each of 500 stretches, about what a screen can tell apart."
BINS = 60
CELLS = 100
"Rows and columns kept of a heat map."


def thin(x: Array, y: Array, limit: int = POINTS) -> Array:
    """Positions to keep of a line: both ends, and the lowest and highest point of every stretch of the axis.

    A line that goes back and forth along x is cut into stretches of as many points each.
    """
    if len(y) <= limit:
        return np.arange(len(y))
    along = x if x[0] < x[-1] and (np.diff(x) >= 0).all() else np.arange(len(x))
    stretches = (limit - 2) // 2
    stretch = np.minimum((along - along[0]) / (along[-1] - along[0]) * stretches, stretches - 1).astype(int)
    parts = np.split(np.arange(len(y)), np.flatnonzero(np.diff(stretch)) + 1)
    lows = [part[np.argmin(y[part])] for part in parts]
    highs = [part[np.argmax(y[part])] for part in parts]
    return np.unique([0, len(y) - 1, *lows, *highs])


def some(count: int, limit: int) -> Array:
    """Positions to keep of points in no order: evenly many of them, the first and the last as well."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).astype(int))


def between(values: Array) -> Array:
    """Edges (n + 1,) of cells around values (n,) that grow or fall: half-way to the next, and as far outwards."""
    middles = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]])


def edges(values: Array, limit: int = BINS) -> Array:
    """Edges of equal bins over values: Freedman and Diaconis's width, within limits."""
    low, high = float(values.min()), float(values.max())
    if not low < high:
        return np.array([low - 0.5, low + 0.5])
    width = 2 * float(np.subtract(*np.percentile(values, [75, 25]))) / len(values) ** (1 / 3)
    wanted = (high - low) / width if width > 0 else limit
    return np.linspace(low, high, int(np.clip(np.ceil(wanted), 8, limit)) + 1)


def blocks(values: Array, limit: int = CELLS) -> tuple[Array, Array, Array]:
    """The mean of every block of a matrix, and the first row and column of each block. A block of NaN stays NaN."""
    rows, columns = (np.unique(np.linspace(0, side, min(side, limit), endpoint=False, dtype=int)) for side in values.shape)
    if len(rows) == values.shape[0] and len(columns) == values.shape[1]:
        return values, rows, columns
    known = np.isfinite(values)
    totals, counts = (
        np.add.reduceat(np.add.reduceat(array, rows, axis=0), columns, axis=1)
        for array in (np.where(known, values, 0.0), known.astype(float))
    )
    return np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0), rows, columns


def rounded(values: Array) -> list[float | None]:
    """Plain numbers with six digits of what varies; None for what is not finite, as JSON has no word for it."""
    values = np.asarray(values, dtype=float)
    finite = values[np.isfinite(values)]
    span = float(np.ptp(finite)) if len(finite) else 0.0
    offset = float(np.abs(finite).max()) / span if span else 1.0
    digits = min(17, 6 + max(0, int(np.log10(offset))))
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]
