"""Which contributed training points look wrong, and how points are moved that must not look so.

Two checks by an owner: a point's neighbours carry its label, or it is no further from the mean of its class than trusted
points are. For each, what someone does who knows the check: move points no further than it takes to pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from divulge.arrays import Array

Labelled = tuple[Array, Array]

CELLS = 1 << 20
"Distances held at once: 8 MB. Results do not depend on it."
TIE = 1e-12
"Of the squares that a squared distance is the difference of, a guard: distances within rounding of each other are equal."
ROUNDING = 1e-9
"A share of neighbours, or a distance that sets a radius, is what it is but for this, a guard."
INSIDE = 1e-6
"Share of the radius by which a moved point stays clear of the sphere, so that it passes in single precision as well."
ROUNDS = 60
"Of a search that halves an interval at worst, a guard: by then it is smaller than rounding. Most end within five."
FRACTIONS = np.arange(1, 9) / 8
"Of the way to an anchor, where staying is not enough: a point goes at most an eighth of it too far."
CLASSES = 100
"Numbers with a decimal point that take more values than this are no classes, however often each comes."


class Sphere(NamedTuple):
    """Where the trusted points of one class are: all but a few are within `radius` of their mean."""

    label: Any
    centre: Array
    "(d,)"
    radius: float


def by_neighbours(
    X: Array, y: Array, *, neighbours: int = 10, agreement: float = 0.5, among: Labelled | None = None
) -> Array:
    """(n,): whether to keep each of X (n, d): at least a share `agreement` of its nearest neighbours carry its label.

    Neighbours are the other points of X or, where given, the points `among` (trusted (t, d), labels (t,)), by Euclidean
    distance; all there are where there are fewer. Points equally far share the last places evenly, so the order of points
    does not matter. A point that is also `among` the trusted ones counts as its own neighbour.
    """
    X, y = _labelled(X, y)
    others, theirs = (X, y) if among is None else _labelled(*among)
    codes, known = _codes(y, theirs)
    count = _count(neighbours, agreement, len(others) - (among is None))
    centre = np.median(others, axis=0)  # unlike a mean, no outlier moves it and so costs the other distances their digits
    points, others = X - centre, others - centre
    kept = np.empty(len(X), dtype=bool)
    for rows in _blocks(len(points), len(others)):
        away = _squares(points[rows], others)
        if among is None:
            away[np.arange(len(away)), np.arange(rows.start, rows.stop)] = np.inf
        kept[rows] = _agree(away, points[rows], codes[rows], known, count, agreement)
    return kept


def by_distance(X: Array, y: Array, *, trusted: Labelled, share: float = 0.95) -> Array:
    """(n,): whether to keep each of X (n, d): it lies in the sphere of its class, which `spheres` has from trusted points.

    A point of a class that no trusted point has is not kept.
    """
    X, y = _labelled(X, y)
    known, theirs = _labelled(*trusted)
    _check_classes(y, theirs)
    kept = np.zeros(len(X), dtype=bool)
    for label, centre, radius in spheres(known, theirs, share):
        mine = y == label
        kept[mine] = np.linalg.norm(X[mine] - centre, axis=1) <= radius * (1 + ROUNDING)
    return kept


def spheres(X: Array, y: Array, share: float = 0.95) -> tuple[Sphere, ...]:
    """For each class of trusted points X (n, d), in the order of labels: the mean, and what a `share` of them lie within."""
    X, y = _labelled(X, y)
    _check_classes(y)
    if not 0 <= share <= 1:
        raise ValueError(f"expected a share of the trusted points between 0 and 1, got {share}")
    found = []
    for label in np.unique(y):
        mine = X[y == label]
        centre = mine.mean(axis=0)
        far = np.linalg.norm(mine - centre, axis=1)
        found.append(Sphere(label, centre, float(np.quantile(far, share, method="inverted_cdf"))))
    return tuple(found)


def into_spheres(P: Array, labels: Array, spheres: Sequence[Sphere], low: Array | float, high: Array | float) -> Array:
    """The nearest to each of P (..., d) that lies in the box [low, high] and in the sphere of its label (...).

    The nearest point of both is clip(centre + s (p − centre)) for the largest s ≤ 1 that is within the radius, so one number
    is searched for each point. Points that lie in both are returned as they are.
    """
    P = _proposed(P, low, high)
    centres, radii = np.stack([one.centre for one in spheres]), np.array([one.radius for one in spheres])
    empty = np.linalg.norm(np.clip(centres, low, high) - centres, axis=1) > radii
    if empty.any():
        label = spheres[int(empty.argmax())].label
        raise ValueError(f"no point of the box is in the sphere of class {label}; widen one of them")
    own = _positions(np.broadcast_to(labels, P.shape[:-1]).ravel(), np.array([one.label for one in spheres]))
    moved = P.reshape(-1, P.shape[-1]).copy()
    outside = ~(_in_box(moved, low, high) & (np.linalg.norm(moved - centres[own], axis=1) <= radii[own]))
    centre, reach = centres[own[outside]], (1 - INSIDE) * radii[own[outside]]
    inner = _nearest(moved[outside] - centre, low - centre, high - centre, reach)
    moved[outside] = np.clip(centre + inner, low, high)
    return moved.reshape(P.shape)


def past_neighbours(
    P: Array,
    labels: Array,
    X: Array,
    y: Array,
    *,
    low: Array | float,
    high: Array | float,
    neighbours: int = 10,
    agreement: float = 0.5,
    anchors: Array | None = None,
) -> Array:
    """Points P (..., d) with labels (...), moved within the box [low, high] until `by_neighbours` among (X, y) keeps them.

    Each that is not kept moves straight towards its anchor, the nearest of X (n, d) in the box that has its label and is
    kept itself, by the first of eight even fractions of the way that is enough; all of it always is. `anchors` (n,) says
    which of X are kept, where that is known.
    """
    X, y = _labelled(X, y)
    P = _proposed(P, low, high)
    labels = np.broadcast_to(labels, P.shape[:-1]).ravel()
    codes, known = _codes(labels, y)
    count = _count(neighbours, agreement, len(X))
    if anchors is None:
        anchors = by_neighbours(X, y, neighbours=neighbours, agreement=agreement)
    anchors = anchors & _in_box(X, low, high)
    centre = np.median(X, axis=0)
    others = X - centre
    moved = np.clip(P.reshape(-1, X.shape[1]), low, high)
    for rows in _blocks(len(moved), len(X)):
        away = _squares(moved[rows] - centre, others)
        waiting = ~_agree(away, moved[rows] - centre, codes[rows], known, count, agreement)
        away, left = away[waiting], rows.start + np.flatnonzero(waiting)
        fitting = anchors & (codes[left, None] == known)
        if not fitting.any(axis=1).all():
            label = labels[left[~fitting.any(axis=1)][0]]
            raise ValueError(f"the check keeps no point of class {label} in the box, so none can be moved there")
        goal = np.where(fitting, away, np.inf).argmin(axis=1)
        gap = np.take_along_axis(away, goal[:, None], axis=1)
        there, start = _squares(others[goal], others), moved[left]
        for fraction in FRACTIONS:
            if not len(left):
                break
            moved[left] = np.clip((1 - fraction) * start + fraction * X[goal], low, high)
            # On a straight line a squared distance is a parabola, known from its ends and their distance.
            between = (1 - fraction) * away + fraction * there - fraction * (1 - fraction) * gap
            waiting = ~_agree(between, moved[left] - centre, codes[left], known, count, agreement)
            left, goal, gap, start = left[waiting], goal[waiting], gap[waiting], start[waiting]
            away, there = away[waiting], there[waiting]
    return moved.reshape(P.shape)


def _labelled(X: Array, y: Array) -> Labelled:
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"expected points (n, d) and a label for each, got shapes {X.shape} and {y.shape}")
    if not np.isfinite(X).all():
        raise ValueError("expected points of finite numbers; leave out those that are not, or fill them in")
    return X, y


def _check_classes(y: Array, known: Array | tuple[()] = ()) -> None:
    """Refuse the numbers of a regression: with a decimal point and mostly different, but for those known as classes."""
    values = np.setdiff1d(y, known)
    if y.dtype.kind == "f" and (len(values) > CLASSES or ((values % 1 != 0).any() and 2 * len(values) > len(y))):
        raise ValueError(
            f"expected the labels of classes, got {len(values)} different numbers for {len(y)} points; "
            "the checks are not for regression"
        )


def _codes(y: Array, known: Array) -> Labelled:
    """Both lists of labels as numbers from 0."""
    _check_classes(known)
    _check_classes(y, known)
    codes = np.unique(np.concatenate([y, known]), return_inverse=True)[1]
    return codes[: len(y)], codes[len(y) :]


def _count(neighbours: int, agreement: float, available: int) -> int:
    if neighbours < 1 or not 0 <= agreement <= 1:
        raise ValueError(f"expected a neighbour or more and a share from 0 to 1, got {neighbours} and {agreement}")
    if available < 1:
        raise ValueError("expected at least one other point to compare with")
    return min(neighbours, available)


def _proposed(P: Array, low: Array | float, high: Array | float) -> Array:
    P = np.asarray(P, dtype=float)
    if not np.isfinite(P).all():
        raise ValueError("expected points of finite numbers to be moved")
    if not np.all(np.less_equal(low, high)):
        raise ValueError("expected a box whose lower ends are not above its upper ends")
    return P


def _in_box(X: Array, low: Array | float, high: Array | float) -> Array:
    return np.asarray((np.greater_equal(X, low) & np.less_equal(X, high)).all(axis=1))


def _positions(labels: Array, known: Array) -> Array:
    same = labels[:, None] == known
    unknown = ~same.any(axis=1)
    if unknown.any():
        raise ValueError(f"expected points of the classes {known.tolist()}, got one of class {labels[unknown][0]}")
    return np.asarray(same.argmax(axis=1))


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    step = max(1, CELLS // max(columns, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _squares(A: Array, B: Array) -> Array:
    """Squared distances (m, n) of A (m, d) and B (n, d), both near 0."""
    found: Array = A @ B.T
    found *= -2
    found += np.einsum("ij,ij->i", A, A)[:, None]
    found += np.einsum("ij,ij->i", B, B)
    return found


def _agree(away: Array, points: Array, codes: Array, known: Array, count: int, agreement: float) -> Array:
    """(m,): whether a share `agreement` of the `count` nearest have the same code, by squared distances away (m, n)."""
    last = np.partition(away, count - 1, axis=1)[:, count - 1]
    slack = TIE * (np.einsum("ij,ij->i", points, points) + np.abs(last))
    nearer = away < (last - slack)[:, None]
    tied = (away <= (last + slack)[:, None]) & ~nearer
    same = codes[:, None] == known
    places = count - np.count_nonzero(nearer, axis=1)
    share = np.count_nonzero(tied & same, axis=1) / np.count_nonzero(tied, axis=1)
    enough: Array = np.count_nonzero(nearer & same, axis=1) + places * share >= agreement * count - ROUNDING
    return enough


def _nearest(points: Array, low: Array, high: Array, reach: Array) -> Array:
    """The nearest to each of points (m, d) in its box (m, d) and no further than reach (m,) from 0, which the box can be.

    With the coordinates fixed that the box holds, the scale that reaches the sphere is a square root. Where 0 is in the box
    that is never too far and grows from there; elsewhere it is tried as long as it lies in an interval known to hold it.
    """
    found: Array = np.clip(np.zeros_like(points), low, high)
    left = np.arange(len(points))
    scale, least, most = np.ones(len(points)), np.zeros(len(points)), np.ones(len(points))
    for _ in range(ROUNDS):
        stretched = scale[:, None] * points
        held = np.clip(stretched, low, high)
        free, squares, limit = held == stretched, held**2, reach**2
        fits = squares.sum(axis=1) <= limit * (1 + ROUNDING)
        found[left[fits]] = held[fits]
        least, most = np.where(fits, scale, least), np.where(fits, most, scale)
        slope = np.einsum("ij,ij,ij->i", points, points, free)
        room = np.maximum(limit - np.einsum("ij,ij->i", squares, ~free), 0)
        root = np.sqrt(np.divide(room, slope, out=np.zeros_like(room), where=slope > 0))
        on = ~(fits & ((scale == 1) | (root <= scale * (1 + ROUNDING)))) & (most > least)
        if not on.any():
            break
        scale = np.where((least < root) & (root < most), root, (least + most) / 2)
        left, points, low, high, reach = left[on], points[on], low[on], high[on], reach[on]
        scale, least, most = scale[on], least[on], most[on]
    return found
