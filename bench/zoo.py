"""Networks of many kinds, trained as people train them, for scripts that calibrate claims and for those that test them."""

from dataclasses import dataclass, field

import numpy as np
from scipy.ndimage import gaussian_filter

from divulge import TrainingData, Weights, datasets
from divulge.solvers.shared import synthetic_images
from divulge.victims import margins, ordinary

COLOUR, GREY = (32, 32, 3), (28, 28)


@dataclass(frozen=True)
class Kind:
    """How a network was trained, and on what."""

    data: str = "mnist"
    count: int = 40
    how: str = "sgd"
    "`margin` follows the log-loss from a small start, others are torch's optimisers."
    classes: int = 10
    known: bool = False
    "Whether the start is public, so that only what training added is looked at."
    centred: bool = True
    told: bool = True
    "Whether whoever attacks knows the mean that was subtracted."
    train: dict = field(default_factory=dict)


def pictures(name, count, seed):
    """Points (count, pixels) from 0 to 1, labels and the shape of one; `grey-`, `inverted-` ... change a set."""
    how, _, base = name.rpartition("-") if name.split("-")[0] in CHANGES else ("", "", name)
    if base in ("leaves", "strokes"):
        shape = COLOUR if base == "leaves" else GREY
        X, y = getattr(synthetic_images, base)(np.random.default_rng(seed), count, shape), np.arange(count) % 10
    else:
        full = base == "cifar10" or count > 300
        drawn = datasets.load({"fashion": "fashion-mnist"}.get(base, base), samples=count, seed=seed, full=full)
        X, y, shape = drawn.X.astype(float), drawn.y, drawn.shape
    return (*CHANGES[how](X, shape), y) if how else (X, shape, y)


def _grey(X, shape):
    return X.reshape(len(X), *shape).mean(axis=-1).reshape(len(X), -1), shape[:2]


def _blurred(X, shape):
    return gaussian_filter(X.reshape(len(X), *shape), (0, 1, 1)).reshape(len(X), -1), shape


def _small(X, shape):
    height, width = shape[0] // 2, shape[1] // 2
    return X.reshape(len(X), height, 2, width, 2).mean(axis=(2, 4)).reshape(len(X), -1), (height, width)


def _faint(X, shape):
    return 0.25 + 0.5 * X, shape


CHANGES = {
    "grey": _grey,
    "blurred": _blurred,
    "small": _small,
    "faint": _faint,
    "inverted": lambda X, shape: (1 - X, shape),
    "two_tone": lambda X, shape: (np.round(X), shape),
}


def network(kind, seed):
    """What an attacker holds of one network of this kind, and what it was trained on."""
    X, shape, y = pictures(kind.data, kind.count, seed)
    y = np.asarray(y) % kind.classes
    rng = np.random.default_rng(seed)
    mean = X.mean(axis=0) if kind.centred else np.zeros(X.shape[1])
    if kind.how == "margin":
        layers = margins.train(X - mean, y, rng, **kind.train)
    else:
        trained = ordinary.train(X - mean, y, rng, optimiser=kind.how, **kind.train)
        layers = trained.layers
        if kind.known:
            (W, b), (start, shift) = layers[0], trained.start[0]
            layers = [(W - start, b - shift), *layers[1:]]
    held = Weights(tuple(layers), mean=mean if kind.told and kind.centred else None, shape=shape)
    return held, TrainingData(X, y, shape=shape)
