"""Pictures seen through fixed random filters, for what is published on the features of a large network.

A network that was trained on a million pictures cannot be shipped. Random filters, a threshold and a mean over each quarter
of the picture go a good part of the way (Coates, Lee and Ng 2011, An Analysis of Single-Layer Networks).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from divulge.contract import Array
from divulge.datasets.dataset import Dataset
from divulge.datasets.pictures import as_floats

PICTURES = {"cifar-dog-ship-features": "cifar-dog-ship"}
"Name -> the pictures that are looked at."
NAMES = {
    "cifar-dog-ship-features": "photographs of dogs (−1) or ships (+1) as 2,048 fixed random features, which stand in "
    "for those of a large network (not in the package)",
}
STANDS_IN = (
    "Seen by divulge through fixed random filters, which stand in for the Inception features of ImageNet's dogs and fish."
)

FILTERS = 256
"With two signs and four quarters of the picture each, 2,048 features."
SIDE = 5
"Pixels. Sides from 3 to 6 tell dogs from ships equally well, and the 28 x 28 places of this one have equal quarters."
THRESHOLD = 1.5
"What a filter has to answer to count. Patches have unit variance, and so have a random filter's answers."
FAINT = 10 / 255**2
"Added to the variance of a patch, so that the noise of an even one is not blown up."
SEED = 2048
CLIPPED = 3.0
"Standard deviations from the mean beyond which a feature is cut off."
BLOCK = 64
"Pictures at a time, whose answers take 50 MB."


def seen(loaded: Dataset, name: str) -> Dataset:
    """The same rows as features from −½ to ½: standardised by the training rows, cut off and divided by the width."""
    shape = (-1, *loaded.shape)  # type: ignore[misc]  # pictures have one
    X, X_test = (filtered(as_floats(part).reshape(shape)) for part in (loaded.X, loaded.X_test))
    X, X_test = bounded(X, X_test)
    return replace(loaded, name=name, X=X, X_test=X_test, shape=None, source=f"{loaded.source} {STANDS_IN}")


def bounded(X: Array, X_test: Array) -> tuple[Array, Array]:
    """Both standardised by the first, cut off and divided by the width."""
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread[spread == 0] = 1
    first, second = (np.clip((part - mean) / spread, -CLIPPED, CLIPPED) / (2 * CLIPPED) for part in (X, X_test))
    return first, second


def filtered(pictures: Array) -> Array:
    """Features (n, 8 · filters) of pictures (n, height, width, colours), each of its own picture alone.

    Every patch is brought to mean 0 and variance 1 first. Of a filter's answer z come (z − threshold)₊ and
    (−z − threshold)₊, averaged over each quarter.
    """
    kernels = filters(SIDE * SIDE * pictures.shape[-1])
    blocks = [_pooled(patches @ kernels.T) for patches in _patches(pictures.astype(np.float32))]
    return np.concatenate([np.zeros((0, 8 * FILTERS)), *blocks])


def filters(inputs: int) -> Array:
    """Random directions (filters, inputs) of mean 0 and length 1, always the same."""
    kernels = np.random.default_rng(SEED).standard_normal((FILTERS, inputs))
    kernels -= kernels.mean(axis=1, keepdims=True)
    kernels /= np.linalg.norm(kernels, axis=1, keepdims=True)
    return kernels.astype(np.float32)


def _patches(pictures: Array) -> Iterator[Array]:
    """All patches of a block of pictures: (n, down, across, SIDE · SIDE · colours)."""
    for first in range(0, len(pictures), BLOCK):
        windows = sliding_window_view(pictures[first : first + BLOCK], (SIDE, SIDE), axis=(1, 2))
        patches = windows.reshape(*windows.shape[:3], -1)
        patches = patches - patches.mean(axis=-1, keepdims=True)
        yield patches / np.sqrt(np.square(patches).mean(axis=-1, keepdims=True) + FAINT)


def _pooled(answers: Array) -> Array:
    """Means over quarters (n, 8 · filters) of answers (n, down, across, filters); a middle row or column goes to none."""
    down, across = (side // 2 for side in answers.shape[1:3])
    quarters = product((slice(down), slice(-down, None)), (slice(across), slice(-across, None)))
    parts = [
        np.maximum(sign * answers[:, rows, columns] - THRESHOLD, 0).mean(axis=(1, 2))
        for (rows, columns), sign in product(quarters, (1, -1))
    ]
    return np.concatenate(parts, axis=1).astype(float)
