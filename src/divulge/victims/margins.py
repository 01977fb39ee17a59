"""Networks trained until only their margin grows, and the same with what an owner may do about it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from divulge.arrays import Layer
from divulge.contract import Array, TrainingData
from divulge.errors import BadInput, refuse_unknown
from divulge.solvers.margin import max_margin, weight_decay

METHODS = ("descent", "plain", "decay", "private")
FALL = 0.01
"""By how much the log-loss of `descent` falls in a step: so it ends where plain descent does at the same loss.

Of 40 digits at 1e-3 both leave 37 directions and 34 images, of 50 pieces of clothing at 1e-2 20 to 22 and 12 or 13. Steps
ten times as long leave 40 and 40, and 33 and 20: other networks (bench/span_reconstruction.py --paths).
"""


def train(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    *,
    hidden: Sequence[int] = (1000, 1000),
    method: Literal["descent", "plain", "decay", "private"] = "descent",
    first: float | str = 1e-4,
    biases: bool = False,
    target: float = 4e-6,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float = 0.01,
    decay: float = 1e-3,
    rounded: bool = False,
    loss: str = "auto",
    single: bool = False,
    fall: float = FALL,
    noise: float = 1.0,
    clip: float = 1.0,
) -> list[Layer]:
    """list[Layer] of a dense ReLU network, all in double precision, which reads points as they are given.

    `descent` follows the gradient of the log-loss to the mean loss `target` (Haim et al. 2022 reach 4e-6), by steps in
    which it falls by `fall`, in random batches where `batch` is given; `plain` is gradient descent as published, with
    `rate` for `epochs`; `decay` minimises loss + decay/2 ‖θ‖² by L-BFGS, nearer to a minimum where `rounded`; `private` is
    DP-SGD, with `noise` times `clip` added to every sum of gradients. `first` is the deviation of the first layer's start,
    "standard" for torch's own.
    `biases` gives one to every layer, not to the first alone. `single` trains in single precision.
    """
    refuse_unknown([method], METHODS, "method")
    rows = TrainingData(X, y).X
    if not isinstance(hidden, list | tuple) or not hidden or not all(_whole(width) for width in hidden):
        raise BadInput(f"expected a list of whole numbers from 1 as widths of hidden layers, got {hidden!r}; correct hidden")
    if first != "standard" and not _positive(first):
        raise BadInput(f'expected a positive number or "standard" for first, got {first!r}; correct it')
    for name, value in {"target": target, "rate": rate, "decay": decay, "clip": clip, "fall": fall}.items():
        if not _positive(value):
            raise BadInput(f"expected a positive number for {name}, got {value!r}; correct it")
    for name, count in {"epochs": epochs, "batch": batch}.items():
        if count is not None and not _whole(count):
            raise BadInput(f"expected a whole number from 1 for {name}, got {count!r}; correct it")
    for name, switch in {"biases": biases, "rounded": rounded, "single": single}.items():
        if not isinstance(switch, bool):
            raise BadInput(f"expected true or false for {name}, got {switch!r}; write one of the two")
    if noise != 0 and not _positive(noise):
        raise BadInput(f"expected a number from 0 for noise, got {noise!r}; correct it")
    labels, outputs = as_targets(np.asarray(y), loss)
    start = max_margin.initial(
        rng, [rows.shape[1], *hidden, outputs], first=None if isinstance(first, str) else first, biases=biases
    )
    if method == "decay":
        kind = "squared" if labels.dtype.kind == "f" else "logistic" if outputs == 1 else "cross-entropy"
        more: dict[str, Any] = {} if epochs is None else {"iterations": epochs}
        return weight_decay.minimise(
            start, rows, labels, weight_decay=decay, loss=kind, biases=biases, rounded=rounded, **more
        ).layers
    if labels.dtype.kind == "f":
        raise BadInput(f"expected classes for the method {method}, got numbers to fit; use method = 'decay'")
    if method == "private":
        from divulge.defences import dp_sgd

        return dp_sgd.train(
            start,
            rows,
            labels,
            rng,
            epochs=epochs or 50,
            batch=batch or 64,
            rate=rate,
            noise=noise,
            clip=clip,
            biases=biases,
        )
    if method == "plain":
        count = epochs or 1_000_000
        return max_margin.plain(start, rows, labels, rate=rate, epochs=count, target=target, biases=biases).layers
    limit: dict[str, Any] = {} if epochs is None else {"passes": epochs}
    return max_margin.train(
        start,
        rows,
        labels,
        target=target,
        biases=biases,
        batch=batch,
        rng=rng,
        fall=fall,
        dtype=np.float32 if single else np.float64,
        **limit,
    ).layers


def as_targets(y: Array, loss: str = "auto") -> tuple[Array, int]:
    """Labels as the solvers take them, and how many outputs they need: −1 and 1, or 0, 1, ..., or numbers to fit."""
    refuse_unknown([loss], ("auto", "squared"), "loss")
    if loss == "squared":
        if y.dtype.kind in "US":
            raise BadInput("expected numbers as targets of the loss squared, got names of classes; use loss = 'auto'")
        numbers = y.astype(float)
        return numbers, 1 if numbers.ndim == 1 else numbers.shape[1]
    if y.ndim != 1 or (y.dtype.kind == "f" and (y != np.round(y)).any()):
        raise BadInput(f"expected a class for every point, got numbers to fit of shape {y.shape}; use loss = 'squared'")
    classes, places = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(f"expected points of at least two classes, got {len(classes)}; draw more of them")
    return (2 * places - 1, 1) if len(classes) == 2 else (places, len(classes))


def products(layers: list[Layer]) -> list[Layer]:
    """The same two-layer network with weights of −1 and 1 in its last layer, as far as an extraction can tell."""
    if len(layers) != 2 or len(layers[1][0]) != 1:
        raise BadInput("expected one hidden layer and one output for products, got another network; leave products out")
    (W, b), (V, c) = layers
    size = np.abs(V[0])
    return [(W * size[:, None], b * size), (np.sign(V), c)]


def noisy(W: Array, b: Array, size: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """A layer with normal numbers of this size added, its bias left alone where there is none."""
    moved = b + size * rng.standard_normal(b.shape) if b.any() else b
    return W + size * rng.standard_normal(W.shape), moved


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


SETTINGS = tuple(inspect.signature(train).parameters)[3:]
"What `train` can be told."
