"""Training dense ReLU networks until the margin, not the loss, is what still grows.

On separable data gradient descent on the mean loss L(θ) = Σ ℓ(y_i f_θ(x_i))/n slows down with L itself. Following
∇ log L = ∇L/L by short steps is the same path at a speed that does not; long ones, as long as the loss falls, end in
another place at the same loss, with more directions in the first layer. The rows of the first layer move only inside the
span of the data, so training happens in coordinates of that span, and what lies outside keeps its start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.special import log_expit, logsumexp

from divulge.arrays import Array, Layer

FALL = 0.1
"By how much the logarithm of the loss may fall in one step, unless told otherwise: quick, and not plain descent's path."
ARMIJO = 0.1
"Share of the predicted fall that a step has to deliver."
GROW, SHRINK = 1.5, 0.5
SHORTEST = 1e-3
"A fall of log L: a step that predicts less is taken as it is, unless it climbs by more: only so does a path leave a kink."
PATIENCE = 500
"Steps without a lower loss after which the path has ended."


@dataclass(frozen=True)
class Run:
    """A network as training left it."""

    layers: list[Layer]
    log_loss: float
    "Logarithm of the mean loss."
    steps: int
    history: Array
    "(recorded, 2): passes over the data, log-loss."


def initial(
    rng: np.random.Generator, sizes: Sequence[int], *, first: float | None = 1e-4, biases: bool = False
) -> list[Layer]:
    """Layers as torch begins them, uniform within 1/√inputs, the first normal with deviation `first` where that is given.

    Without `biases` only the first layer has one, so that the network is homogeneous in its parameters.
    """
    layers: list[Layer] = []
    for number, (inputs, units) in enumerate(pairwise(sizes)):
        edge = 1 / np.sqrt(inputs)
        W, b = rng.uniform(-edge, edge, (units, inputs)), rng.uniform(-edge, edge, units)
        if number == 0 and first is not None:
            W, b = first * rng.standard_normal(W.shape), first * rng.standard_normal(b.shape)
        layers.append((W, b if biases or number == 0 else np.zeros(units)))
    return layers


def train(
    layers: list[Layer],
    X: Array,
    y: Array,
    *,
    target: float = 4e-6,
    passes: int = 20_000,
    biases: bool = False,
    batch: int | None = None,
    rng: np.random.Generator | None = None,
    dtype: type = np.float64,
    fall: float = FALL,
    enough: Callable[[list[Layer]], bool] | None = None,
    report: Callable[[int, float], None] | None = None,
) -> Run:
    """Follow the gradient of the log-loss until the mean loss is `target`, or for `passes` over the data.

    X (n, d); y (n,) of −1 and 1 for one output (logistic loss), or whole numbers from 0 for several (cross-entropy).
    `fall` is by how much the log-loss may fall in a step: the shorter, the nearer to gradient flow. `batch` takes so many
    random points a step. `enough` may stop training by looking at the layers, in coordinates of the
    span: norms are as they are outside of it.
    """
    inside = Span.of(X, layers[0][0])
    task = _Task(inside.points.astype(dtype), y, biases)
    theta: list[Layer] = [(W.astype(dtype), b.astype(dtype)) for W, b in [(inside.rows, layers[0][1]), *layers[1:]]]
    state = task.look(theta)
    rate, step, done = 1.0, 0, 0.0
    history: list[tuple[float, float]] = []
    least, last = np.inf, 0
    while done < passes and state.log_loss > np.log(target) and step - last < PATIENCE:
        if enough and step % 20 == 0 and enough(theta):
            break
        slopes = state.slopes
        if batch is not None and rng is not None:
            chosen = rng.choice(len(X), min(batch, len(X)), replace=False)
            slopes = replace(task, X=task.X[chosen], y=y[chosen]).look(theta, state.log_loss).slopes
        rate = min(rate * GROW, fall / max(state.predicted, 1e-300))
        while True:
            trial = task.look(_moved(theta, slopes, -rate))
            fell, predicted = state.log_loss - trial.log_loss, rate * state.predicted
            if fell >= ARMIJO * predicted or (predicted <= SHORTEST and fell > -SHORTEST) or not predicted > 0:
                break
            if batch is not None and fell > -fall:  # in batches single steps may climb
                break
            rate *= SHRINK
        theta, state = trial.layers, trial
        step, done = step + 1, done + (1 if batch is None else min(1.0, batch / len(X)))
        if state.log_loss < least - SHORTEST:
            least, last = state.log_loss, step
        if step % 10 == 1 or state.log_loss <= np.log(target):
            history.append((done, state.log_loss))
            if report:
                report(step, state.log_loss)
    return Run(inside.outside(theta), state.log_loss, step, np.array(history).reshape(-1, 2))


def plain(
    layers: list[Layer],
    X: Array,
    y: Array,
    *,
    rate: float = 0.01,
    epochs: int = 1_000_000,
    target: float = 0.0,
    biases: bool = False,
    rotate: bool = True,
) -> Run:
    """Gradient descent on the loss itself with one rate, as published; `rotate` works in the span of the data."""
    inside = Span.of(X, layers[0][0]) if rotate else Span(X, layers[0][0], np.eye(X.shape[1]), 0 * layers[0][0])
    task = _Task(inside.points, y, biases)
    theta = [(inside.rows, layers[0][1]), *layers[1:]]
    history: list[tuple[float, float]] = []
    for epoch in range(epochs):
        state = task.look(theta, 0.0)
        if state.log_loss <= np.log(max(target, 1e-300)):
            break
        if epoch % 100 == 0:
            history.append((epoch, state.log_loss))
        theta = _moved(theta, state.slopes, -rate)
    return Run(inside.outside(theta), task.look(theta).log_loss, epoch, np.array(history).reshape(-1, 2))


def margins(outputs: Array, y: Array) -> Array:
    """By how much each point is right: y f(x), or the right output less the best other."""
    if outputs.shape[1] == 1:
        found: Array = np.asarray(y) * outputs[:, 0]
        return found
    rows = np.arange(len(outputs))
    others = outputs.copy()
    others[rows, y] = -np.inf
    gaps: Array = outputs[rows, y] - others.max(axis=1)
    return gaps


def signed_labels(y: Array | None, outputs: Array) -> Array:
    """(n,): labels of two classes as −1 and 1, the last in order positive; otherwise the signs of the outputs (n,) there."""
    classes = np.unique(y) if y is not None and y.ndim == 1 else np.empty(0)
    positive = y == classes[-1] if len(classes) == 2 else outputs > 0
    return np.where(positive, 1.0, -1.0)


def forward(layers: list[Layer], X: Array) -> list[Array]:
    """What enters each layer, and the outputs (n, outputs) last."""
    values = [X]
    for number, (W, b) in enumerate(layers):
        z = values[-1] @ W.T
        z += b
        values.append(np.maximum(z, 0, out=z) if number < len(layers) - 1 else z)
    return values


@dataclass(frozen=True)
class Span:
    """Points and rows in coordinates of the points' span, and what the rows have outside of it."""

    points: Array
    rows: Array
    axes: Array
    "(rank, d)"
    rest: Array

    @classmethod
    def of(cls, X: Array, W: Array) -> Span:
        _, s, axes = np.linalg.svd(X, full_matrices=False)
        axes = axes[s > 1e-10 * s[0]]
        inside = W @ axes.T
        return cls(X @ axes.T, inside, axes, W - inside @ axes)

    def outside(self, layers: list[Layer]) -> list[Layer]:
        (rows, b), *rest = layers
        # In double precision: what is outside the span may be far smaller than what is in it.
        found = [(rows.astype(float) @ self.axes + self.rest, b), *rest]
        return [(W.astype(float), b.astype(float)) for W, b in found]


@dataclass(frozen=True)
class _State:
    layers: list[Layer]
    values: list[Array]
    back: Array
    log_loss: float
    biases: bool

    @cached_property
    def predicted(self) -> float:
        """How fast the log-loss falls along the negative gradient."""
        return sum(float(np.vdot(dW, dW)) + float(np.vdot(db, db)) for dW, db in self.slopes)

    @cached_property
    def slopes(self) -> list[Layer]:
        return backward(self.layers, self.values, self.back, self.biases)


@dataclass(frozen=True)
class _Task:
    X: Array
    y: Array
    biases: bool

    def look(self, layers: list[Layer], log_loss: float | None = None) -> _State:
        """The log-loss and its derivative in the outputs; with `log_loss` given, the loss's derivative over its exponent."""
        values = forward(layers, self.X)
        outputs = values[-1].astype(float)
        if outputs.shape[1] == 1:
            signed = self.y * outputs[:, 0]
            # log(log(1 + exp(-m))), which is -m where the loss is too small for a number
            each = np.where(signed < 30, np.log(np.maximum(-log_expit(signed), 1e-300)), -signed)
            largest = each.max()
            logs = float(largest + np.log(np.exp(each - largest).mean()))
            scale = logs if log_loss is None else log_loss
            back = (-self.y * np.exp(log_expit(-signed) - scale) / len(each))[:, None]
        else:
            rows = np.arange(len(outputs))
            shifted = outputs - logsumexp(outputs, axis=1)[:, None]
            gaps = shifted - shifted[rows, self.y][:, None]
            gaps[rows, self.y] = -np.inf
            over = logsumexp(gaps, axis=1)
            each = np.where(over > -30, np.log(np.maximum(np.logaddexp(0, over), 1e-300)), over)
            logs = float(logsumexp(each) - np.log(len(each)))
            scale = logs if log_loss is None else log_loss
            back = np.exp(shifted - scale)
            back[rows, self.y] = -np.exp(over - np.logaddexp(0, over) - scale)
            back /= len(each)
        return _State(layers, values, back.astype(self.X.dtype), logs, self.biases)


def backward(layers: list[Layer], values: list[Array], back: Array, biases: bool) -> list[Layer]:
    found: list[Layer] = []
    for number in range(len(layers) - 1, -1, -1):
        shift = back.sum(axis=0) if biases or number == 0 else np.zeros_like(layers[number][1])
        found.append((back.T @ values[number], shift))
        if number:
            back = back @ layers[number][0]
            back *= values[number] > 0
    return found[::-1]


def _moved(layers: list[Layer], slopes: list[Layer], by: float) -> list[Layer]:
    kind = layers[0][0].dtype.type(by)
    return [(W + kind * dW, b + kind * db) for (W, b), (dW, db) in zip(layers, slopes, strict=True)]


def normalised_margin(layers: list[Layer], X: Array, y: Array) -> float:
    """The least margin over ‖θ‖^depth, which gradient flow on a homogeneous network drives up."""
    size = np.sqrt(sum(float(np.vdot(W, W)) + float(np.vdot(b, b)) for W, b in layers))
    return float(margins(forward(layers, X)[-1], y).min() / size ** len(layers))
