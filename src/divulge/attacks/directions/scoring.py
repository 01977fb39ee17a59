"""What attacks on a model's answers share: how directions are drawn, and how much of them is of the training points."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from divulge.contract import (
    Array,
    Candidates,
    Curve,
    Directions,
    Evidence,
    Finding,
    Score,
    TrainingData,
    Truth,
    Weights,
)

REMEDY = (
    "Train with differential privacy, or on more points than the first layer has inputs; then audit again.",
    "Weight decay times learning rate times steps is what makes a first layer forget its start, and shows what it was "
    "trained on: use less of it, or start from larger weights.",
)
INSIDE, FIRST_LAYER = "share of directions in the span of training points", "share of directions in the first layer"
SPANNED = 1e-10  # of the largest singular value: below, points are combinations of others


@dataclass(frozen=True, eq=False)
class SeenDirections(Evidence):
    """How many directions stood out when an attack ended."""

    rank: int
    points: int
    "At which the model was asked for them."


def spectrum(sizes: Array, rank: int) -> Curve:
    """Singular values of rows, and how many of their directions stand out."""
    numbers, sizes = np.arange(1.0, len(sizes) + 1), np.maximum(sizes, 1e-16 * sizes[0])
    series = {"answers": (numbers, sizes)}
    marks = {"directions that stand out": float(rank)}
    return Curve("Directions of the answers", "direction", "singular value", series, log_y=True, marks=marks)


def scored(finding: Finding[Directions], truth: Truth) -> Finding[Directions]:
    """The finding with how much of its directions is in the span of training points [x − mean, 1], or of a first layer's.

    Beside it: in that of as many candidates which are no training points, or of random points where there are none.
    """
    loot, seen = finding.loot, finding.evidence
    if loot is None or not isinstance(seen, SeenDirections):
        return finding
    known, layer, scores = truth.get(TrainingData), truth.get(Weights), dict(finding.scores)
    axes = np.linalg.svd(loot.rows, full_matrices=False)[2][: seen.rank]
    if known is not None and known.X.shape[1] == loot.dimension:
        others, words = _others(known.X, truth.get(Candidates))
        scores[INSIDE] = Score(_inside(axes, _points(known.X, loot)), _inside(axes, _points(others, loot)), words)
    if layer is not None and layer.dimension == loot.dimension:
        slopes = np.linalg.svd(loot.rows[:, :-1], full_matrices=False)[2][: seen.rank]  # later biases are in the last column
        noise = np.random.default_rng(0).standard_normal(layer.layers[0][0].shape)
        scores[FIRST_LAYER] = Score(_inside(slopes, layer.layers[0][0]), _inside(slopes, noise), "random rows, as many")
    return replace(finding, scores=scores)


def _points(X: Array, loot: Directions) -> Array:
    return np.column_stack([X if loot.mean is None else X - loot.mean, np.ones(len(X))])


def _inside(axes: Array, rows: Array) -> float:
    """Mean share of the orthonormal axes (k, d + 1) that lies in the span of rows."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return float(np.sum((axes @ basis[sizes > SPANNED * sizes[0]].T) ** 2) / len(axes))


def _others(X: Array, candidates: Candidates | None) -> tuple[Array, str]:
    if candidates is not None and candidates.X.shape[1] == X.shape[1]:
        members = {row.tobytes() for row in np.asarray(X, dtype=float)}
        others = [row for row in np.asarray(candidates.X, dtype=float) if row.tobytes() not in members]
        if others:
            return np.array(others[: len(X)]), f"of {min(len(others), len(X))} candidates that are no training points"
    rng = np.random.default_rng(0)
    return X.mean(axis=0) + X.std(axis=0) * rng.standard_normal(X.shape), "of random points of the same mean and deviation"
