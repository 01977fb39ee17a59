"""How like the originals some reconstructions are, and pictures of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from divulge.contract import Array, Directions, Figure, ImagePairs, Scatter, TrainingData, Weights
from divulge.solvers.shared import similarity

SHOWN = 45
"Pairs in the gallery, as in the paper."


@dataclass(frozen=True, eq=False)
class Measure:
    """How like the originals some reconstructions are; −1, or ∞ for the error, where an original has none of its own."""

    found: Array
    pairs: tuple[Array, Array]
    "Places of reconstructions, and of the originals that each belongs to; one to one."
    ncc: Array
    error: Array
    ssim: Array
    "Of the vote, as published; NaN where the points are no pictures."
    affine: Array


@dataclass(frozen=True, eq=False)
class Scale:
    """The truth as pictures are measured against it."""

    originals: Array
    unit: Array
    "The originals from 0 to 1."
    mean: Array
    mean_ssim: Array
    "Of the mean image, stretched as reconstructions are, with each original."
    shape: tuple[int, ...] | None
    low: float = 0.0
    high: float = 1.0

    def as_unit(self, X: Array) -> Array:
        return np.asarray((X - self.low) / ((self.high - self.low) or 1.0))

    @classmethod
    def of(cls, known: TrainingData, held: Directions) -> Scale:
        shape = known.shape or (held.shape if held.dimension == known.X.shape[1] else None)
        shape = shape if similarity.pictured(shape) else None
        X = np.asarray(known.X, dtype=float if shape is None else np.float32)  # pixels have no more digits
        low, high = (0.0, 1.0) if X.min() >= 0 and X.max() <= 1 else (float(X.min()), float(X.max()))
        unit = (X - low) / ((high - low) or 1.0)
        fits = held.mean is not None and len(held.mean) == X.shape[1] and np.ptp(held.mean) > 0
        mean: Array = np.asarray(held.mean if fits else X.mean(axis=0), dtype=X.dtype)
        nothing = np.full(len(X), np.nan)
        alone = nothing if shape is None else similarity.ssim(similarity.scaled(mean[None]), unit, shape)
        return cls(X, unit, mean, alone, shape, low, high)

    def measure(self, found: Array, pairs: tuple[Array, Array] | None = None) -> Measure:
        """Reconstructions beside the originals; `pairs` says which belong together where that is no question."""
        found = found.astype(self.originals.dtype)
        alike = similarity.ncc(found, self.originals)
        rows, columns = similarity.matched(alike) if pairs is None else pairs
        count = len(self.originals)
        ncc, error, affine = np.full(count, -1.0), np.full(count, np.inf), np.full(count, -1.0)
        ncc[columns] = alike[rows, columns]
        size = np.linalg.norm(self.originals[columns], axis=1)
        error[columns] = np.linalg.norm(found[rows] - self.originals[columns], axis=1) / np.where(size > 0, size, 1)
        ssim = np.full(count, np.nan)
        if self.shape is not None:
            ssim = similarity.ssim(similarity.voted(found, self.originals, alike), self.unit, self.shape)
            fitted = similarity.affine_ssim(found[rows], self.unit[columns], self.mean, self.shape)
            affine[columns] = fitted
        return Measure(found, (rows, columns), ncc, error, ssim, affine)


def figures(mine: Measure, scale: Scale, network: Weights | None, labels: Array | None) -> Iterator[Figure]:
    if scale.shape is not None:
        yield _gallery(mine, scale, scale.shape)
    if network is not None and network.dimension == scale.originals.shape[1]:
        yield _against_output(mine, scale, network, labels)


def _gallery(mine: Measure, scale: Scale, shape: tuple[int, ...]) -> ImagePairs:
    """The most alike pairs, best first; reconstructions stretched to run from 0 to 1."""
    best = np.argsort(-mine.ncc[mine.pairs[1]], kind="stable")[:SHOWN]
    rows, columns = (side[best] for side in mine.pairs)
    shown = similarity.scaled(mine.found[rows])
    alike = similarity.ssim(shown, scale.unit[columns], shape)
    sides = shape[:2] if shape[2:] == (1,) else shape
    return ImagePairs(
        "Training images and what was made of them",
        scale.unit[columns].reshape(-1, *sides),
        shown.reshape(-1, *sides),
        "training image",
        "reconstruction",
        tuple(f"NCC {ncc:.2f}, SSIM {ssim:.2f}" for ncc, ssim in zip(mine.ncc[columns], alike, strict=True)),
    )


def _against_output(mine: Measure, scale: Scale, held: Weights, labels: Array | None) -> Scatter:
    """Which images come out, by what the network says of them (Figure 4 of the paper)."""
    outputs = held.predict(scale.originals)
    if outputs.shape[1] == 1:
        along, what = outputs[:, 0], "output of the network"
    else:
        classes, what = _classes(labels, outputs)
        own = outputs[np.arange(len(outputs)), classes]
        outputs[np.arange(len(outputs)), classes] = -np.inf
        along = own - outputs.max(axis=1)
    if scale.shape is None:
        heights, mean, measure = mine.ncc, similarity.ncc(scale.mean[None], scale.originals)[0], "NCC"
    else:
        heights, mean, measure = mine.ssim, scale.mean_ssim, "SSIM"
    whole = heights > -1  # not where an image has no reconstruction
    return Scatter(
        "Which training images come out",
        what,
        f"{measure} of the training image",
        {"with its reconstruction": (along[whole], heights[whole]), "with the mean image": (along, mean)},
        marks={"decision boundary": 0.0},
    )


def _classes(labels: Array | None, outputs: Array) -> tuple[Array, str]:
    """The output that should be the largest: the label's where labels number the outputs, else the one that is."""
    if labels is not None and labels.ndim == 1 and np.isin(labels, np.arange(outputs.shape[1])).all():
        return labels.astype(int), "margin of the true class"
    return outputs.argmax(axis=1), "margin of the class named"
