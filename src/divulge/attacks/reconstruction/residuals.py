"""How near a network is to what the theorem assumes: a KKT point of the margin, with its training points."""

from __future__ import annotations

import numpy as np

from divulge.contract import Array, Score, TrainingData, Weights
from divulge.solvers.margin import kkt_residual

NAME = "KKT residual"
MOST = 2000
"Multipliers for which it is computed: that takes seconds, and more of them minutes."


def residual(held: Weights, known: TrainingData, non_members: Array | None) -> tuple[Score, str] | None:
    """Clarke's residual of the first and the last layer at the training points, beside that at as many non-members.

    None where it cannot be had: points of another width, a network without hidden layers, too many points.
    """
    layers, outputs = list(held.layers), len(held.layers[-1][1])
    if known.X.shape[1] != held.dimension or len(layers) < 2 or len(known.X) * outputs > MOST:
        return None
    y = _sides(known.y, held, known.X)
    ends = (0, len(layers) - 1)
    mine = kkt_residual.residual(layers, held.centred(known.X), y, free=y is None, only=ends)
    null, null_of = 1.0, "the zero multipliers"
    if non_members is not None and len(non_members) >= len(known.X):
        others = non_members[: len(known.X)]
        theirs = None if y is None else _sides(None, held, others)
        null = kkt_residual.residual(layers, held.centred(others), theirs, free=y is None, only=ends).total
        null_of = "as many non-members, with the sides the network puts them on"
    each = ", ".join(f"{value:.3f}" for value in mine.layers)
    note = (
        f"KKT residual by layer: {each}; with the slopes a program takes at kinks {mine.hard:.3f} in all "
        f"({mine.kinks:.1%} of units and points are at one). Layers between the first and the last are not counted: most "
        "training hardly moves them."
    )
    return Score(mine.total, null, null_of, better="lower", speaks=False), note


def _sides(y: Array | None, held: Weights, X: Array) -> Array | None:
    """Labels as multipliers need them; None where targets are numbers, which leave their signs free."""
    outputs = held.predict(X)
    if outputs.shape[1] == 1:
        if y is None:
            return np.where(outputs[:, 0] > 0, 1, -1)
        classes = np.unique(y)
        return np.where(y == classes[-1], 1, -1) if len(classes) == 2 else None
    if y is None:
        return np.asarray(outputs.argmax(axis=1))
    classes, places = np.unique(y, return_inverse=True)
    return places if y.ndim == 1 and len(classes) == outputs.shape[1] else None
