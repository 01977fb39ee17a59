"""Support vector machines: what the points on the margin hide, and what those at the bound of their weight show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import linprog, lsq_linear

from divulge.arrays import Array
from divulge.solvers.stationarity.system import System

NEAR = 0.05  # of a margin of 1: default tolerances leave 5e-4, and a hundred times as much no solver that is worth asking
TOUCHING = 1e-7  # of a million points spread over the margin, 0.1 come as near by chance
GAP = 3.0  # points on the margin end where the next is so many times as far: after k of them by chance in 3⁻ᵏ of cases
TRIED = 12  # numbers of points on the margin tried, from none to all: each up to 13 dimensions, a least-squares fit each
DEPENDENT = 1e-12  # of the largest eigenvalue of columns of length 1: rounding leaves 1e-16 of it, real columns more
TIE = 1e-9  # weights that differ by less are one bound: libsvm sets those to C itself, rounding moves them by 1e-15


@dataclass(frozen=True)
class Hinge:
    """The stationarity equations of a hinge loss, λw = Σ y x over points inside the margin + what those on it add."""

    w: Array
    "(D,) coefficients with the intercept, 0 where it is not penalised"
    inside: Array
    "(D,) sum of y x over the points inside the margin"
    inside_size: Array
    "(D,) the same with absolute values"
    edge: Array
    "(r, D) y x of the points on the margin, whose weights from 0 to 1 are not known"
    blur: float
    "how far from the margin those points are"
    everyone: Array
    "(D,) sum of y x over all points short of the margin, those on it included"
    nearest: Array
    "(D, D) y x of the points nearest to the margin, in that order"
    nearest_inside: Array
    "(D,) which of them are short of it"
    unseen: Array
    "(k, D) orthonormal directions across all points: no training moves along them, and no equation there says anything"


def hinge(
    X: Array,
    y: Array,
    w: Array,
    c: float,
    weight: Array,
    scaling: float | None,
    penalised: bool,
    touching: float = TOUCHING,
) -> Hinge:
    """Sort the points: targets y in {-1, 1}, X (n, d); `scaling` is None where there is no intercept.

    Points nearer to the margin than `touching` are on it.
    """
    distance = 1 - y * (X @ w + c)
    signed = (weight * y)[:, None] * X
    if scaling is not None:
        signed = np.column_stack([signed, weight * y * scaling])
        w = np.append(w, c / scaling if penalised else 0.0)
    on = _on_margin(np.abs(distance), len(w), touching)
    inside = signed[(distance > 0) & ~on]
    blur = float(np.abs(distance[on]).max(initial=0))
    order = np.argsort(np.abs(distance))[: len(w)]
    everyone = signed[distance > 0].sum(axis=0)
    size = np.abs(inside).sum(axis=0)
    unseen = _unseen(signed, w)
    return Hinge(w, inside.sum(axis=0), size, signed[on], blur, everyone, signed[order], distance[order] > 0, unseen)


def _unseen(points: Array, w: Array) -> Array:
    """(k, D) directions that no point has a part in, as of one-hot columns beside an intercept; none where w has one."""
    sizes = np.linalg.norm(points, axis=0)
    units = 1 / np.where(sizes > 0, sizes, 1.0)
    values, axes = np.linalg.eigh((points * units).T @ (points * units))
    across = np.linalg.qr(units[:, None] * axes[:, values <= DEPENDENT * values[-1]])[0].T
    return across if np.linalg.norm(across @ w) <= np.sqrt(DEPENDENT) * np.linalg.norm(w) else across[:0]


def _on_margin(distance: Array, dimension: int, touching: float) -> Array:
    """The nearest points, up to the widest gap: in general position no more of them than dimensions lie on it."""
    order = np.argsort(distance)
    near = np.maximum(distance[order][: dimension + 1], 1e-16)
    if len(near) < 2 or near[0] > NEAR:
        return distance <= touching
    ratios = near[1:] / near[:-1]
    ratios[near[:-1] > NEAR] = 0
    last = int(np.argmax(ratios))
    on = distance <= touching
    if ratios[last] >= GAP:
        on[order[: last + 1]] = True
    return on


def projected(found: Hinge) -> System | None:
    """Nᵀ(λw − Σ_inside yx) = 0, where N spans what the points do, across the r on the margin; None where that is nothing."""
    hidden = np.concatenate([found.edge, found.unseen])
    axes = null_space(hidden) if len(hidden) else np.eye(len(found.w))
    if not axes.shape[1]:
        return None
    magnitude = np.abs(axes).T @ found.inside_size
    return System((axes.T @ found.w)[:, None], -(axes.T @ found.inside), magnitude, np.zeros(0))


def relative_residual(found: Hinge) -> float:
    """min over λ ≥ 0, 0 ≤ v ≤ 1 of ‖λw − Σ_inside yx − Σ_edge v yx‖ / ‖Σ_inside yx‖, in units of its size under the null.

    Which points are on the margin is not known of a solver that stopped early: as many of the nearest as serve best. Each
    costs a degree of freedom: of a vector in a random direction of R^D, fitting 1 + r columns leaves √((D − 1 − r) / D).
    """
    D, best = len(found.w), np.inf
    if not np.any(found.w):
        return 1.0
    for count in np.unique(np.linspace(0, max(0, min(len(found.nearest), D - 2)), TRIED).astype(int)):
        edge = found.nearest[:count]
        inside = found.everyone - edge[found.nearest_inside[:count]].sum(axis=0)
        columns = np.column_stack([found.w, -edge.T])
        scale = np.linalg.norm(columns, axis=0)
        scale[scale == 0] = 1.0
        ends = np.append(np.inf, np.ones(count)) * scale
        solved = lsq_linear(columns / scale, inside, (np.zeros(count + 1), ends))
        size = float(np.linalg.norm(inside)) or 1.0
        best = min(best, float(np.sqrt(2 * solved.cost)) / size / np.sqrt((D - 1 - count) / D))
    return float(best)


def range_of_penalty(found: Hinge, slack: float = 1e-9) -> tuple[float, float] | None:
    """min λ and max λ subject to |λw − Σ_inside yx − Σ_edge v yx| ≤ slack, λ ≥ 0, 0 ≤ v ≤ 1 (a linear programme); None where
    no λ does."""
    r = len(found.edge)
    scale = float(np.abs(found.inside).max(initial=0)) or 1.0
    # Variables: λ, the r weights.
    left = np.column_stack([found.w, -found.edge.T])
    ends = []
    for sign in (1, -1):
        cost = np.zeros(r + 1)
        cost[0] = sign
        solved = linprog(
            cost,
            A_ub=np.vstack([left, -left]) / scale,
            b_ub=np.concatenate([found.inside, -found.inside]) / scale + slack,
            bounds=[(0, None)] + [(-slack, 1 + slack)] * r,
        )
        if solved.status == 3:
            ends.append(np.inf)
        elif solved.status != 0 or solved.x is None:
            return None
        else:
            ends.append(float(solved.x[0]))
    return ends[0], ends[1]


@dataclass(frozen=True)
class Machine:
    """One two-class problem of a support vector machine."""

    members: Array
    "(s,) positions among the support vectors"
    weights: Array
    "(s,) signed dual coefficients; the sign is the class"
    intercept: float


def machines(dual: Array, labels: Array, intercept: Array) -> Iterator[Machine]:
    """The one-against-one problems; dual (classes - 1, s), labels (s,) are class numbers of the support vectors."""
    classes = len(dual) + 1
    number = 0
    for first in range(classes):
        for second in range(first + 1, classes):
            members = np.flatnonzero((labels == first) | (labels == second))
            rows = np.where(labels[members] == first, second - 1, first)
            yield Machine(members, dual[rows, members], float(intercept[number]))
            number += 1


@dataclass(frozen=True)
class Bound:
    """The common bound of dual weights."""

    value: float
    reached: bool
    "whether some support vector is at it; else it may be anything from `value` on"
    violation: float
    "how far the margins are from what the weights demand"


def bound(K: Array, dual: Array, support: Array, labels: Array, intercept: Array, factor: Array, tol: float) -> Bound:
    """C = max |α| of a classifier, and how far it is from y f = 1 (0 < α < C), y f ≥ 1 (α = 0), y f ≤ 1 (α = C).

    K (n, s) of all points with the support vectors, dual (classes − 1, s), labels (n,) class numbers of all points;
    `factor` (n,) multiplies C point by point.
    """
    violation, reached = 0.0, False
    parts = list(machines(dual, labels[support], intercept))
    shares = [np.abs(part.weights) / factor[support[part.members]] for part in parts]
    top = max(float(share.max(initial=0)) for share in shares)
    pairs = [(first, second) for first in range(len(dual) + 1) for second in range(first + 1, len(dual) + 1)]
    for part, share, (first, second) in zip(parts, shares, pairs, strict=True):
        # scikit-learn turns the sign of a lone pair round.
        positive = second if len(dual) == 1 else first
        rows = np.flatnonzero((labels == first) | (labels == second))
        sign = np.where(labels[rows] == positive, 1.0, -1.0)
        weights = np.zeros(len(labels))
        weights[support[part.members]] = part.weights
        if (weights[rows] * sign < 0).any():
            return Bound(top, False, np.inf)
        margin = sign * (K[np.ix_(rows, part.members)] @ part.weights + part.intercept)
        share = np.abs(weights[rows]) / factor[rows]
        full = share >= top * (1 - TIE)
        free = (share > 0) & ~full
        reached |= bool((margin[full] < 1 - 2 * tol).any())
        violation = max(
            violation,
            float(np.abs(margin[free] - 1).max(initial=0)),
            float(np.maximum(margin[full] - 1, 0).max(initial=0)),
            float(np.maximum(1 - margin[share == 0], 0).max(initial=0)),
        )
    return Bound(top, reached, violation)


@dataclass(frozen=True)
class Tube:
    """C and ε of a support vector regression."""

    bound: Bound
    epsilon: float | None
    "None where no support vector is between the bounds"
    spread: float
    "how far the residuals that should be ε are from it"


def tube(K: Array, y: Array, dual: Array, support: Array, intercept: float, factor: Array, tol: float) -> Tube:
    """C = max |α| and ε = sign(α) (y − f) where 0 < |α| < C, of a regression f = Kα + intercept.

    K (n, s) of all points with the support vectors, y (n,) targets of all points, dual (s,).
    """
    residual = y - (K @ dual + intercept)
    share = np.abs(dual) / factor[support]
    top = float(share.max(initial=0))
    full = share >= top * (1 - TIE)
    outward = np.sign(dual) * residual[support]
    free = outward[~full]
    epsilon = float(np.median(free)) if len(free) else None
    spread = float(np.abs(free - epsilon).max()) if epsilon is not None else 0.0
    beyond = epsilon is not None and bool((outward[full] > epsilon + 2 * tol).any())
    violation = spread
    if epsilon is not None:
        others = np.delete(np.abs(residual), support)
        violation = max(
            violation,
            float(np.maximum(epsilon - outward[full], 0).max(initial=0)),
            float(np.maximum(others - epsilon, 0).max(initial=0)),
        )
    # Weights may be equal by symmetry alone; without any other weight there is nothing to compare with.
    return Tube(Bound(top, beyond or (epsilon is None and int(full.sum()) > 1), violation), epsilon, spread)
