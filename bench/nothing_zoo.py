"""Networks that show no training image, or few: kinds that people train, and some that nobody would."""

from itertools import pairwise

import numpy as np
from scipy.fft import idctn
from scipy.ndimage import gaussian_filter, shift
from zoo import pictures

from divulge import Weights
from divulge.victims import ordinary

GREY = (28, 28)
MOMENTUM = {"lr": 0.1, "momentum": 0.9}
COLLAPSED = {**MOMENTUM, "weight_decay": 3e-3, "epochs": 60, "batch": 64, "single": True}
"lr/(1 − momentum)·wd·steps is 6 for 2,000 images: the start has decayed, and few directions are left."
FEW = {"hidden": (300, 300), **MOMENTUM, "weight_decay": 3e-3, "epochs": 3000}
ADAM = {"lr": 1e-3, "batch": 64, "single": True}


def held(layers, mean, shape):
    return Weights(tuple((np.asarray(W, float), np.asarray(b, float)) for W, b in layers), mean=mean, shape=shape)


def trained(data, count, how="sgd", hidden=(64,), labels=None, told=True, **train):
    """A network on so many images of a set; `data` is its name, or a function of a count and a generator."""

    def make(seed):
        rng = np.random.default_rng([seed, 1])
        X, shape, y = pictures(data, count, seed) if isinstance(data, str) else data(count, rng)
        y = np.asarray(y) if labels is None else labels(X, np.asarray(y), rng)
        mean = X.mean(axis=0)
        layers = ordinary.train(X - mean, y, rng, optimiser=how, hidden=hidden, **train).layers
        return held(layers, mean if told else None, shape), X

    return make


def noise(count, rng):
    return rng.uniform(size=(count, 784)), GREY, rng.integers(10, size=count)


def fields(width):
    """Smooth random fields that fill the box."""

    def make(count, rng):
        soft = gaussian_filter(rng.standard_normal((count, *GREY)), (0, width, width)).reshape(count, -1)
        return np.clip(0.5 + 0.25 * soft / soft.std(), 0, 1), GREY, rng.integers(10, size=count)

    return make


def table(count, rng):
    """Features that depend on 20 hidden ones, in no order, and a label that depends on these."""
    hidden = rng.standard_normal((count, 20))
    X = hidden @ rng.standard_normal((20, 784)) + rng.standard_normal((count, 784))
    return 0.5 + X / 12, GREY, (hidden[:, :4] > 0) @ [1, 2, 4, 8]


def spectra(count, rng):
    """Curves of 784 samples: five peaks each, whose places tell the class."""
    y, place = rng.integers(5, size=count), np.arange(784)
    at = 100 * y[:, None] + rng.uniform(0, 300, (count, 5))
    wide, high = rng.uniform(5, 40, (count, 5)), rng.uniform(0.2, 0.6, (count, 5))
    X = (high[:, :, None] * np.exp(-0.5 * ((place - at[:, :, None]) / wide[:, :, None]) ** 2)).sum(axis=1)
    return np.clip(X + 0.01 * rng.standard_normal(X.shape), 0, 1), GREY, y


def shifted(base, count, most=3):
    """Few images, each at many places: what augmentation makes of them."""

    def make(total, rng):
        X, shape, _ = pictures(base, count, int(rng.integers(10**6)))
        chosen, moves = rng.integers(count, size=total), rng.integers(-most, most + 1, (total, 2))
        moved = [shift(X[one].reshape(shape), step, order=0).ravel() for one, step in zip(chosen, moves, strict=True)]
        return np.array(moved), shape, np.arange(count)[chosen] % 10

    return make


def jittered(base, count):
    """Few images with noise of their own every time."""

    def make(total, rng):
        X, shape, y = pictures(base, count, int(rng.integers(10**6)))
        chosen = rng.integers(count, size=total)
        return np.clip(X[chosen] + 0.1 * rng.standard_normal((total, X.shape[1])), 0, 1), shape, np.asarray(y)[chosen]

    return make


def principal(X, y, rng):
    """A number to fit that depends on the strongest components, as brightness or slant does."""
    _, _, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    parts = (X - X.mean(axis=0)) @ axes[:5].T
    return np.tanh(parts / parts.std(axis=0)) @ rng.standard_normal(5) + 1e-3


def themselves(X, y, rng):
    return X - X.mean(axis=0) + 1e-3


def odd(X, y, rng):
    return y % 2


def any_label(X, y, rng):
    return rng.integers(10, size=len(y))


def at_first(sizes, scale):
    """Nothing was trained: torch's start, or normal weights of variance scale/inputs."""

    def make(seed):
        rng = np.random.default_rng([seed, 2])
        X, shape, _ = pictures("mnist" if sizes[0] == 784 else "cifar10", 50, seed)
        if scale is None:
            return held(ordinary._start(rng, list(sizes), 1.0), X.mean(axis=0), shape), None
        layers = [
            (rng.standard_normal((b, a)) * (scale / a) ** 0.5, 0.1 * rng.standard_normal(b)) for a, b in pairwise(sizes)
        ]
        return held(layers, X.mean(axis=0), shape), None

    return make


def filters(kind, count, biased=True):
    """A first layer of filters that were designed and not trained, and any weights behind it."""

    def make(seed):
        rng = np.random.default_rng([seed, 3])
        X, shape, _ = pictures("mnist", 1000, seed)
        mean = X.mean(axis=0)
        if kind == "pca":
            W = np.linalg.svd(X - mean, full_matrices=False)[2][:count]
        elif kind == "dct":
            modes = [(i, j) for i in range(28) for j in range(28) if i + j < 10][:count]
            W = np.array([idctn(np.eye(784)[28 * i + j].reshape(GREY), norm="ortho").ravel() for i, j in modes])
        elif kind == "patches":
            W = np.zeros((count, *GREY))
            for row, (i, j) in zip(W, rng.integers(0, 22, (count, 2)), strict=True):
                row[i : i + 6, j : j + 6] = 1
            W = W.reshape(count, -1)
        else:
            W = gaussian_filter(rng.standard_normal((count, *GREY)), (0, 2, 2)).reshape(count, -1)
        W = np.concatenate([W, -W]) / np.linalg.norm(W, axis=1).mean()
        b = rng.uniform(-1, 1, len(W)) if biased else np.zeros(len(W))
        behind = [(rng.standard_normal((n, m)) / 8, 0.1 * rng.standard_normal(n)) for m, n in ((len(W), 100), (100, 10))]
        return held([(W, b), *behind], mean, shape), None

    return make


def tuned_on(count, many, data="mnist"):
    """First trained on thousands with weight decay, then on a few others without."""

    def make(seed):
        rng = np.random.default_rng([seed, 4])
        X, shape, y = pictures(data, many + count, seed)
        mean = X[:many].mean(axis=0)
        first = ordinary.train(X[:many] - mean, y[:many], rng, hidden=(200,), **COLLAPSED).layers
        again = ordinary._start
        try:
            ordinary._start = lambda *_: [(W.copy(), b.copy()) for W, b in first]
            layers = ordinary.train(X[many:] - mean, y[many:], rng, hidden=(200,), lr=0.05, momentum=0.9, epochs=300).layers
        finally:
            ordinary._start = again
        return held(layers, mean, shape), X

    return make


KINDS = {
    "untrained": at_first((784, 300, 300, 10), None),
    "normal weights": at_first((784, 200, 10), 2.0),
    "normal weights, one output": at_first((3072, 100, 100, 1), 2.0),
    "Adam, 50 digits": trained("mnist", 50, "adam", (300, 300), lr=1e-3, epochs=300),
    "Adam, 3,000 digits": trained("mnist", 3000, "adam", epochs=5, **ADAM),
    "AdamW, 3,000 clothes": trained("fashion", 3000, "adamw", weight_decay=0.01, epochs=8, **ADAM),
    "AdamW, much decay, 3,000 clothes": trained("fashion", 3000, "adamw", weight_decay=1.0, epochs=40, **ADAM),
    "Adam and L2, 2,000 digits": trained("mnist", 2000, "adam", weight_decay=1e-2, epochs=40, **ADAM),
    "Adam, 2,000 photographs": trained("cifar10", 2000, "adam", epochs=5, **ADAM),
    "no decay, 50 digits": trained("mnist", 50, hidden=(300, 300), **MOMENTUM, epochs=1000),
    "no decay, 2,000 digits": trained("mnist", 2000, **MOMENTUM, epochs=10, batch=64, single=True),
    "decay 5e-4, 5,000 digits": trained("mnist", 5000, **{**COLLAPSED, "weight_decay": 5e-4, "epochs": 15}),
    "decay 3e-3, 2,000 digits": trained("mnist", 2000, **COLLAPSED),
    "decay 3e-3, 2,000 digits, deep": trained("mnist", 2000, hidden=(100, 100), **COLLAPSED),
    "decay 3e-3, 5,000 clothes": trained("fashion", 5000, **{**COLLAPSED, "epochs": 25}),
    "decay 3e-3, 2,000 photographs": trained("cifar10", 2000, **COLLAPSED),
    "decay 1e-2, 2,000 digits": trained("mnist", 2000, hidden=(128,), **{**COLLAPSED, "weight_decay": 1e-2, "epochs": 30}),
    "decay 3e-3, odd or even, 2,000 digits": trained("mnist", 2000, labels=odd, **COLLAPSED),
    "decay 3e-3, any labels, 1,000 digits": trained("mnist", 1000, labels=any_label, **{**COLLAPSED, "epochs": 100}),
    "decay 3e-3, 20 units, 2,000 digits": trained("mnist", 2000, hidden=(20,), **COLLAPSED),
    "decay 3e-3, 20 units, mean not told": trained("mnist", 2000, hidden=(20,), told=False, **COLLAPSED),
    "decay 3e-3, 20 units, 2,000 clothes": trained("fashion", 2000, hidden=(20,), **COLLAPSED),
    "decay 3e-3, dropout, 2,000 digits": trained("mnist", 2000, dropout=0.5, **COLLAPSED),
    "decay 3e-3, 400 clothes": trained("fashion", 400, hidden=(300,), **{**COLLAPSED, "epochs": 300}),
    "noise, 50": trained(noise, 50, **FEW),
    "noise, 2,000": trained(noise, 2000, **COLLAPSED),
    "a table, 50 rows": trained(table, 50, **FEW),
    "a table, 2,000 rows": trained(table, 2000, **COLLAPSED),
    "spectra, 2,000": trained(spectra, 2000, **COLLAPSED),
    "fields, 2,000": trained(fields(3), 2000, **COLLAPSED),
    "regression, 2,000 digits": trained("mnist", 2000, labels=principal, **{**COLLAPSED, "lr": 0.02, "epochs": 100}),
    "regression, 1,000 clothes": trained("fashion", 1000, labels=principal, **{**COLLAPSED, "lr": 0.01, "epochs": 200}),
    "autoencoder, 1,000 digits": trained("mnist", 1000, labels=themselves, hidden=(64,), **{**COLLAPSED, "epochs": 60}),
    "autoencoder, 8 units, 1,000 clothes": trained(
        "fashion", 1000, labels=themselves, hidden=(32, 8, 32), **{**COLLAPSED, "weight_decay": 1e-4}
    ),
    "5 digits, shifted": trained(shifted("mnist", 5), 1000, **COLLAPSED),
    "5 clothes, shifted": trained(shifted("fashion", 5), 1000, **COLLAPSED),
    "PCA filters": filters("pca", 40),
    "PCA filters, no bias": filters("pca", 20, False),
    "DCT filters": filters("dct", 40),
    "patches": filters("patches", 30),
    "soft filters": filters("soft", 40),
    "2,000 digits, then 30 others": tuned_on(30, 2000),
    "50 digits with noise": trained(jittered("mnist", 50), 2000, **COLLAPSED),
    "50 fields": trained(fields(2), 50, **FEW),
    "50 spectra": trained(spectra, 50, **FEW),
    "200 photographs, decay": trained("cifar10", 200, **{**FEW, "hidden": (500,), "epochs": 1500, "single": True}),
    "200 digits, decay": trained("mnist", 200, **{**FEW, "hidden": (300,), "epochs": 2000, "single": True}),
    "5 digits, again and again": trained(shifted("mnist", 5, 0), 200, **{**FEW, "epochs": 1000}),
}
MAY_LEAK = {
    "2,000 digits, then 30 others",
    "50 digits with noise",
    "50 fields",
    "50 spectra",
    "200 photographs, decay",
    "200 digits, decay",
    "5 digits, again and again",
    "decay 3e-3, 400 clothes",
    "5 digits, shifted",
    "5 clothes, shifted",
}
