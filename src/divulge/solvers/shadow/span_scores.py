"""How much points look like those that a network with a dense first layer was trained on.

Descent moves the rows of [W, b] inside the span of the training points [x, 1]: a training point x has little left outside
of what the rows show, xᵀ(RᵀR + level)⁻¹x is small. What it added to each row is proportional to how much the output depends
on that unit at x. And many units have their kink at a training point. Points without much detail leave little outside any
span, which is why a point is compared with what points of its kind leave, and with what it leaves outside other networks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divulge.arrays import Array, Layers
from divulge.solvers.margin.max_margin import forward

LEVELS = tuple(10.0**-power for power in (4, 5, 6, 7, 8, 10, 12, 14))
"Of noise in the rows, as shares of their largest squared singular value; which is right depends on the training."
STRENGTHS = LEVELS[1:5]
KINKS = (1e-4, 1e-3)
"Cosines of a point with the plane of a unit below which it lies on its kink."
DETAIL = tuple(10.0**-power for power in range(7))
"Levels for the points themselves, in shares of their largest variance: how unusual a point is at several depths."
ENOUGH = 20
"Points for every number fitted, from which points tell what others like them leave."
ROUNDS = 20
"Of reweighting: the fit has settled to 1e-6 by then. A guard, not a choice."
OUTLYING = 2.0
"""Deviations from the rest at which a point counts half: it may be a training point. On 100 normal numbers these weights are
93 % as precise as the mean, and ten outliers move them by 0.11; with 1 it is 77 % and 0.05, with 4 it is 99 % and 0.26."""


def left(layers: Layers, X: Array, mean: Array | None, levels: Sequence[float] = LEVELS) -> Array:
    """(levels, n): logarithm of how much larger each point (n, d) is than what it leaves outside the first layer's rows.

    An unknown mean is the points' own, and what it and the bias contribute is left out of what counts.
    """
    rows, points, nuisance = _seen(layers, X, mean)
    return np.asarray(_sizes(X - X.mean(axis=0)) - np.log(_left(rows, points, nuisance, levels)))


def strengths(layers: Layers, X: Array, mean: Array | None) -> Array:
    """(levels, n): by how much the rows hold a point as descent would have put it there, relative to chance.

    The share of each row that a point accounts for, along with what the gap between the two largest outputs depends on.
    """
    rows, points, _ = _seen(layers, X, mean)
    U, s, axes = np.linalg.svd(rows, full_matrices=False)
    share, inside = (s / max(s[0], 1e-300)) ** 2, points @ axes.T
    beyond = ((points - inside @ axes) ** 2).sum(axis=1)
    along = _dependence(list(layers), points[:, :-1])
    along = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-300) @ U
    found = []
    for level in STRENGTHS:
        weight = 1 / (share + level)
        whole = inside**2 @ weight + beyond / level
        found.append((inside * along) @ (np.sqrt(share) * weight) / np.maximum(whole, 1e-300))
    return np.array(found)


def kinks(layers: Layers, X: Array, mean: Array) -> Array:
    """(2, n): at how many units' kinks a point lies, as roots of the count, which are spread evenly."""
    rows, points, _ = _seen(layers, X, mean)
    cosines = np.abs(points @ rows.T)
    cosines /= np.maximum(np.linalg.norm(rows, axis=1) * np.linalg.norm(points, axis=1, keepdims=True), 1e-300)
    return np.array([np.sqrt(np.sum(cosines < near, axis=1) + 0.4) for near in KINKS])


def detail(X: Array) -> Array:
    """How unusual each point is among the others, at several depths: (n, k) with a column of ones, to be regressed on."""
    centred = X - X.mean(axis=0)
    found, most = [_sizes(centred)], float(np.linalg.norm(centred, 2)) ** 2
    for one in _left(centred, centred, np.zeros((0, X.shape[1])), DETAIL):
        own = one / max(most, 1e-300)  # what a point explains of itself is left out
        found.append(np.log(np.maximum(own, 1e-300)) - np.log(np.maximum(1 - own, 1e-6)))
    features = np.array([one for one in found if one.std() > 1e-9]).reshape(-1, len(X))
    features = (features - features.mean(axis=1, keepdims=True)) / features.std(axis=1, keepdims=True)
    return np.column_stack([np.ones(len(X)), *features])


def compared(measures: Array, alike: Array, others: Array, trained: Array) -> Array:
    """(measures, n) beyond what points as unusual have, and beyond what other networks have of a point: in deviations.

    `alike` is `detail` of the points, `others` (networks, measures, n) the same measures of other networks, and `trained`
    (networks, n) says which points those were trained on. Of too few points nothing is known but how far most are apart.
    """
    if len(alike) < ENOUGH * (alike.shape[1] + 1):
        return np.array([standard(one) for one in measures])
    found = []
    for number, one in enumerate(measures):
        features = alike
        if len(others):
            seen = np.where(trained, 0.0, others[:, number])
            times = np.sum(~trained, axis=0)
            usual = seen.sum(axis=0) / np.maximum(times, 1)
            usual[times == 0] = np.median(usual[times > 0]) if (times > 0).any() else 0.0
            rest = np.where(times > 0, beyond(usual, alike), 0.0)
            features = np.column_stack([alike, rest / (rest.std() or 1.0)])
        found.append(standard(beyond(one, features)))
    return np.array(found)


def beyond(values: Array, features: Array) -> Array:
    """What the features do not explain of the values of most points."""
    weight = np.ones(len(values))
    for _ in range(ROUNDS):
        fit = np.linalg.lstsq(features * weight[:, None], values * weight, rcond=None)[0]
        rest = values - features @ fit
        weight = 1 / np.sqrt(1 + (rest / (OUTLYING * _spread(rest - np.median(rest)))) ** 2)
    return np.asarray(rest)


def standard(values: Array) -> Array:
    """In deviations from most of the values."""
    around = values - np.median(values)
    return np.asarray(around / _spread(around))


def _spread(around: Array) -> float:
    """1.4826 times the median size: the deviation of normal numbers. Where most are equal, that of all."""
    return float(1.4826 * np.median(np.abs(around))) or float(around.std()) or 1.0


def _seen(layers: Layers, X: Array, mean: Array | None) -> tuple[Array, Array, Array]:
    """Rows [W, b], points [x, 1] as the layer sees them, and the directions that do not count."""
    W, b = layers[0]
    centre = X.mean(axis=0) if mean is None else mean
    nuisance = np.zeros((0, W.shape[1] + 1)) if mean is not None else _directions(centre)
    return np.column_stack([W, b]), np.column_stack([X - centre, np.ones(len(X))]), nuisance


def _directions(mean: Array) -> Array:
    """The bias alone, and a mean that nobody knows exactly."""
    bias, size = np.eye(len(mean) + 1)[-1:], float(np.linalg.norm(mean))
    return bias if size == 0 else np.vstack([bias, np.append(mean, 0) / size])


def _left(rows: Array, points: Array, nuisance: Array, levels: Sequence[float]) -> Array:
    """(levels, n): xᵀ(RᵀR/s² + level)⁻¹x of points (n, d), least over multiples of the nuisance (k, d) taken off."""
    if len(rows) > rows.shape[1]:  # the same products, of as few rows as there are columns
        rows = np.asarray(np.linalg.qr(rows, mode="r"))
    _, s, axes = np.linalg.svd(rows, full_matrices=False)
    share = (s / max(s[0], 1e-300)) ** 2
    inside, within = points @ axes.T, nuisance @ axes.T
    outside, without = points - inside @ axes, nuisance - within @ axes
    rest, crossed, alone = (outside**2).sum(axis=1), without @ outside.T, without @ without.T
    found = []
    for level in levels:
        weight = 1 / (share + level)
        whole = inside**2 @ weight + rest / level
        if len(nuisance):
            across = (within * weight) @ inside.T + crossed / level
            own = (within * weight) @ within.T + alone / level
            whole = whole - (across * np.linalg.lstsq(own, across, rcond=None)[0]).sum(axis=0)
        found.append(np.maximum(whole, 1e-300))
    return np.array(found)


def _dependence(layers: list[tuple[Array, Array]], X: Array) -> Array:
    """(n, units): derivative of how far a point is decided in what enters each unit of the first layer."""
    values = forward(layers, X)
    outputs, rows = values[-1], np.arange(len(X))
    if outputs.shape[1] == 1:
        back = np.sign(outputs)
    else:
        order = np.argsort(outputs, axis=1)
        back = np.zeros_like(outputs)
        back[rows, order[:, -1]], back[rows, order[:, -2]] = 1.0, -1.0
    for number in range(len(layers) - 1, 0, -1):
        back = (back @ layers[number][0]) * (values[number] > 0)
    return np.asarray(back)


def _sizes(X: Array) -> Array:
    return np.asarray(np.log(np.maximum((X**2).sum(axis=1), 1e-300)))
