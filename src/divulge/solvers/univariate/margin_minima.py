"""Two-layer ReLU networks with one input and the smallest weights that keep every training point at margin 1.

½‖θ‖² subject to y_i N(x_i) ≥ 1 is not convex. Say which points every unit is on for, and it is: with c = |v| (w, b) the
cost is Σ‖c‖ and N is linear in c. So units are bound to cells, the gaps between neighbouring points that their breakpoints
lie in; a linear program chooses among directions in these cells, and its multipliers tell in closed form which direction
of a cell is missing. A unit that ends on a point, between two cells, is given the other one too, until nothing changes.
What comes out is a local minimum: units that move a little stay in cells among which nothing is better.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import linprog

from divulge.arrays import Array
from divulge.solvers.univariate.margin_points import AT, PRECISION, on_points

Cell = tuple[int, int, int]
"""Side, gap, sign: units that are on to the right (1) or left (−1) of gap g, between points g−1 and g, or everywhere (0);
and the sign of their output weight."""

ROUNDS = 60
"Of the linear program and what is missing in it."
PRICE = 1e-13
"By how much the best direction of a cell may exceed 1 where nothing is missing."
NEGLIGIBLE = 1e-9
"Share of the largest unit below which one is none."
NEWTON = 12
"Steps at most, after which columns of the linear program are forgotten."
FLAT = 1e-9
"Share of the largest singular value below which a direction costs nothing: minima need not be single."
LOOSE = 1e-6
"Share by which a cost may exceed the smallest one around and be called the same."


@dataclass(frozen=True)
class Minimum:
    """A network w (m,), b (m,), v (m,) with margin 1, and what proves it to be a local minimum."""

    w: Array
    b: Array
    v: Array
    multipliers: Array
    "(n,): λ, above 0 only where y N(x) = 1."
    cost: float
    "½‖θ‖²"
    cells: int
    "How many cells were open to its units."
    whole: bool
    "Whether all of them were: it is the global minimum then."


def smallest(x: Array, y: Array, units: Iterable[Cell] | None = None) -> Minimum | None:
    """The minimum for points x (n,), all different and in order, with labels y of −1 and 1, or none that can be reached.

    `units` says in which cells to begin; by default everywhere, which gives the global minimum.
    """
    every = set(cells(len(x)))
    opened = every if units is None else set(units) & every
    while True:
        found = _within(x, y, opened)
        if found is None:
            return None
        directions, sizes, where, multipliers = found
        wider = opened | {other for u, one in zip(directions, where, strict=True) for other in _beyond(x, u, one)} & every
        if wider == opened:
            break
        opened = wider
    root = np.sqrt(sizes)
    w, b = root * directions[:, 0], root * directions[:, 1]
    v = root * np.array([sign for _, _, sign in where], dtype=float)
    return Minimum(w, b, v, multipliers, float(sizes.sum()), len(opened), opened == every)


def cells(points: int) -> list[Cell]:
    """Every cell there is among so many points."""
    gaps = [(side, gap) for side, gap in product((1, -1), range(1, points))]
    return [(side, gap, sign) for side, gap in [(0, 0), *gaps] for sign in (1, -1)]


def random_cells(rng: np.random.Generator, x: Array, units: int) -> list[Cell]:
    """Cells of units with breakpoints drawn evenly over the points' range and a fifth beyond, and random sides and signs."""
    reach = 0.1 * (x[-1] - x[0]) or 1.0
    places = np.searchsorted(x, rng.uniform(x[0] - reach, x[-1] + reach, units))
    found = []
    for gap, side, sign in zip(places.tolist(), rng.choice([1, -1], units), rng.choice([1, -1], units), strict=True):
        within = 0 < gap < len(x)
        found.append((int(side) if within else 0, gap if within else 0, int(sign)))
    return found


def is_local_minimum(w: Array, b: Array, v: Array, x: Array, y: Array) -> bool:
    """Whether nothing is smaller in the cells that units lie in or next to: this proves a local minimum.

    x must be in order and the network's margin 1. False leaves open whether it is one.
    """
    order = np.argsort(x)
    x, y = x[order], y[order]
    opened: set[Cell] = set()
    for one in range(len(w)):
        size = np.hypot(w[one], b[one])
        if size > 0 and v[one] != 0:
            u = np.array([w[one], b[one]]) / size
            cell = _cell(x, u, int(np.sign(v[one])))
            opened |= {cell, *_beyond(x, u, cell)}
    found = _within(x, y, opened & set(cells(len(x))))
    cost = (w @ w + b @ b + v @ v) / 2
    return found is not None and bool(cost <= (1 + LOOSE) * found[1].sum())


def _within(x: Array, y: Array, opened: set[Cell]) -> tuple[Array, Array, list[Cell], Array] | None:
    """The best units (m, 2) of length 1, their sizes, cells and the multipliers, among the cells open to them."""
    points = np.column_stack([x, np.ones_like(x)])
    order = sorted(opened)
    columns = [(u, cell) for cell in order for u in _edges(x, cell)]
    for _ in range(ROUNDS):
        solved = _chosen(points, y, columns)
        if solved is None:
            return None
        sizes, multipliers = solved
        pulls = {cell: pull for cell in order if (pull := _pull(points, y, multipliers, cell)) is not None}
        known = {(cell, tuple(u)) for u, cell in columns}
        missing = [(pull / length, cell) for cell, pull in pulls.items() if (length := np.linalg.norm(pull)) > 1 + PRICE]
        missing = [(u, cell) for u, cell in missing if (cell, tuple(u)) not in known]
        if not missing:
            break
        columns += missing
    sums: dict[Cell, Array] = {}
    for (u, cell), size in zip(columns[: len(sizes)], sizes, strict=True):
        if size > 0:
            sums[cell] = sums.get(cell, np.zeros(2)) + size * u  # two units in one cell are better one
    lengths = {cell: float(np.linalg.norm(c)) for cell, c in sums.items()}
    merged = [(c / lengths[cell], cell) for cell, c in sums.items() if lengths[cell] > NEGLIGIBLE * max(lengths.values())]
    sizes = np.array([lengths[cell] for _, cell in merged])
    directions = np.array([u for u, _ in merged])
    directions, sizes, multipliers = _polished(points, y, directions, sizes, [cell for _, cell in merged], multipliers)
    return directions, sizes, [cell for _, cell in merged], multipliers


def _polished(
    points: Array, y: Array, directions: Array, sizes: Array, where: list[Cell], multipliers: Array
) -> tuple[Array, Array, Array]:
    """Newton's steps to the minimum among these units: those on a point keep their direction, the others turn."""
    active = np.flatnonzero(multipliers > NEGLIGIBLE * multipliers.max())
    signs = np.zeros((len(where), len(y)))
    for unit, cell in enumerate(where):
        signs[unit, _on(len(y), cell)] = cell[2]
    pulls = (signs * y)[:, active, None] * points[active]  # (units, active, 2): gradients of the margins
    fixed: Array = np.any(on_points(directions[:, 0], directions[:, 1], points[:, 0]), axis=0)
    bases = [u[:, None] if still else np.eye(2) for u, still in zip(directions, fixed, strict=True)]
    ends = np.cumsum([basis.shape[1] for basis in bases])
    J = np.hstack([pull @ basis for pull, basis in zip(pulls, bases, strict=True)])
    free, k = int(ends[-1]), len(active)
    c, lam = directions * sizes[:, None], multipliers[active]
    best, least = (c, lam), np.inf
    for _ in range(NEWTON):
        lengths = np.linalg.norm(c, axis=1)
        if not (lengths > 0).all():
            break
        units = c / lengths[:, None]
        down = np.concatenate([basis.T @ u for basis, u in zip(bases, units, strict=True)]) - J.T @ lam
        short = 1 - np.einsum("uak,uk->a", pulls, c)
        wrong = max(np.abs(down).max(), np.abs(short).max())
        if wrong < least:
            best, least = (c, lam), wrong
        hessian = np.zeros((free + k, free + k))
        for unit, (end, basis) in enumerate(zip(ends, bases, strict=True)):
            place = slice(end - basis.shape[1], end)
            across = np.eye(2) - np.outer(units[unit], units[unit])
            hessian[place, place] = basis.T @ across @ basis / lengths[unit]
        hessian[:free, free:], hessian[free:, :free] = -J.T, -J
        step = np.linalg.lstsq(hessian, -np.concatenate([down, -short]), rcond=FLAT)[0]
        moved = [basis @ part for basis, part in zip(bases, np.split(step[:free], ends[:-1]), strict=True)]
        c, lam = c + np.array(moved), lam + step[free:]
    c, lam = best
    lengths = np.linalg.norm(c, axis=1)
    polished = np.zeros(len(y))
    polished[active] = lam
    return c / lengths[:, None], lengths, polished


def _chosen(points: Array, y: Array, columns: list[tuple[Array, Cell]]) -> tuple[Array, Array] | None:
    """Sizes of units in these directions, smallest in sum, and the multipliers; none where no sizes reach the margin."""
    features = np.array([_feature(points, y, u, cell) for u, cell in columns]).reshape(len(columns), len(y))
    scale = float(np.abs(features).max(initial=0.0))
    if scale == 0:
        return None
    solved = linprog(np.ones(len(columns)), A_ub=-features.T / scale, b_ub=-np.ones(len(y)), options=PRECISION)
    if solved.status != 0 or solved.x is None:
        return None
    return np.asarray(solved.x) / scale, -np.asarray(solved.ineqlin.marginals) / scale


def _on(points: int, cell: Cell) -> slice:
    """Which points a unit of this cell is on for."""
    side, gap, _ = cell
    return slice(gap, points) if side == 1 else slice(0, gap) if side == -1 else slice(0, points)


def _feature(points: Array, y: Array, u: Array, cell: Cell) -> Array:
    on, found = _on(len(y), cell), np.zeros(len(y))
    found[on] = cell[2] * y[on] * np.maximum(points[on] @ u, 0)
    return found


def _edges(x: Array, cell: Cell) -> list[Array]:
    """Directions to begin with: breakpoints on the points around the gap, and a constant where a unit is on for all."""
    side, gap, _ = cell
    if side == 0:
        return [_facing(1, x[0]), _facing(-1, x[-1]), np.array([0.0, 1.0])]
    return [_facing(side, x[gap - 1]), _facing(side, x[gap])]


def _facing(side: int, t: float) -> Array:
    """The direction (w, b), of length 1, that is on to one side of t."""
    return np.asarray(np.array([side, -side * t]) / np.hypot(1, t))


def _pull(points: Array, y: Array, multipliers: Array, cell: Cell) -> Array | None:
    """What the multipliers pull units of a cell to, where it lies inside: longer than 1, it is worth more than it costs."""
    on = _on(len(y), cell)
    pull: Array = cell[2] * (multipliers[on] * y[on]) @ points[on]
    side, gap, _ = cell
    around = points[[0, -1]] if side == 0 else side * np.array([-points[gap - 1], points[gap]])
    return pull if (around @ pull > 0).all() else None


def _cell(x: Array, u: Array, sign: int) -> Cell:
    """The cell of a direction; on a point, one of the two."""
    z = u[0] * x + u[1]
    spread = float(np.ptp(x)) or 1.0
    on = z > AT * spread * abs(u[0])
    if on.all() or not on.any():
        return 0, 0, sign
    return (1, int(np.argmax(on)), sign) if on[-1] else (-1, int(on.sum()), sign)


def _beyond(x: Array, u: Array, cell: Cell) -> list[Cell]:
    """Cells that a unit would enter on a small move, where its breakpoint is on a point."""
    if u[0] == 0:
        return []
    side, everywhere = (1, 0) if u[0] > 0 else (-1, len(x))
    spread = float(np.ptp(x)) or 1.0
    (near,) = np.nonzero(np.abs(x + u[1] / u[0]) <= AT * spread)
    gaps = {gap for point in near.tolist() for gap in (point, point + 1)}
    found = [(0, 0, cell[2]) if gap == everywhere else (side, gap, cell[2]) for gap in sorted(gaps)]
    return [one for one in found if one != cell]
