"""Points that stand for many: the nearest ones to the centres of clusters."""

from __future__ import annotations

import numpy as np

from divulge.arrays import Array

ROWS = 3000
"As many points are clustered, unless more are wanted; others make no better centres."
SAMPLE = 1000
"Points that the axes are taken from."
AXES = 20
"Principal axes along which points are compared."
TRIES, ROUNDS = 3, 15
"Starts, and rounds of each."


def spread(X: Array, count: int, rng: np.random.Generator) -> Array:
    """Points (count, d) of X that are as different as can be: each is the nearest to the centre of one cluster."""
    rows = X[rng.permutation(len(X))[: max(ROWS, 2 * count)]]
    if count >= len(rows):
        return rows
    centred = rows - rows.mean(0)
    axes = np.linalg.svd(centred[:SAMPLE], full_matrices=False)[2][:AXES]
    places = centred @ axes.T
    tries = [_centres(places, count, rng) for _ in range(TRIES)]
    away = min((_away(places, centres) for centres in tries), key=lambda one: float(one.min(1).sum()))
    nearest = np.unique(away.argmin(0))
    others = np.setdiff1d(np.arange(len(rows)), nearest)
    return np.asarray(rows[np.concatenate([nearest, others[: count - len(nearest)]])])


def _centres(places: Array, count: int, rng: np.random.Generator) -> Array:
    """Lloyd's centres, from a start of points drawn far apart."""
    chosen = [int(rng.integers(len(places)))]
    away = np.full(len(places), np.inf)
    while len(chosen) < count:
        away = np.minimum(away, np.square(places - places[chosen[-1]]).sum(1))
        reach = np.cumsum(away) if away.any() else np.arange(1, len(away) + 1)
        chosen.append(int(np.searchsorted(reach, rng.random() * reach[-1])))
    centres = places[chosen]
    for _ in range(ROUNDS):
        owner = _away(places, centres).argmin(1)
        members = np.bincount(owner, minlength=count)[:, None]
        sums = np.stack([np.bincount(owner, column, minlength=count) for column in places.T], 1)
        centres = np.where(members > 0, sums / np.maximum(members, 1), centres)
    return np.asarray(centres)


def _away(places: Array, centres: Array) -> Array:
    """Squared distances (places, centres)."""
    return np.asarray(np.square(places).sum(1)[:, None] - 2 * places @ centres.T + np.square(centres).sum(1))
