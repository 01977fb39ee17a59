"""scikit-learn's networks, alone or as the last step of a pipeline whose preparation is sums and products."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from divulge.contract import Array, Weights
from divulge.errors import BadInput
from divulge.targets.folding import Link, Step, stack, with_relus
from divulge.targets.networks import POINTS, agree
from divulge.targets.wrappers import Steps, parts, unwrapped

NETWORKS = ("MLPClassifier", "MLPRegressor")
_LINKS = {"identity": "", "logistic": "sigmoid", "softmax": "softmax"}
"scikit-learn's name of what comes last -> the link's."


def is_estimator(model: object) -> bool:
    return all(hasattr(model, name) for name in ("fit", "get_params"))


def perceptron(model: Any) -> Weights:
    """The network that an estimator is, in the units of what enters it.

    A preparation that moves and scales all features alike is carried as the mean, and the scale goes into the first layer;
    any other is folded into the first layer as a whole.
    """
    found, done = unwrapped(model), [type(step).__name__ for step in parts(model)[1]]
    told, called = found.estimator, type(found.estimator).__name__
    if called not in NETWORKS:
        raise BadInput(
            f"expected {' or '.join(NETWORKS)}, alone or last in a pipeline, got {called}; hold it as fitted, with its data"
        )
    if not hasattr(told, "coefs_"):
        raise BadInput(f"expected a fitted {called}, got one that has learned nothing; call fit first")
    if told.activation != "relu" and len(told.coefs_) > 1:
        raise BadInput(
            f"expected activation='relu' of a {called} with hidden layers, got {told.activation!r}; only ReLU networks can "
            "be read, so hold it as predictions or fitted instead"
        )
    if told.out_activation_ not in _LINKS:
        raise BadInput(
            f"expected a {called} that ends in {', '.join(_LINKS)}, got {told.out_activation_!r}; hold it as predictions"
        )
    if found.steps is not None:
        raise BadInput(
            f"expected steps before the {called} that are sums and products, got {', '.join(done)}; pass the last step "
            "with data as prepared, or hold the pipeline as predictions"
        )
    if found.targets is not None:
        raise BadInput(
            f"expected a {called} that answers in its own units, got a TransformedTargetRegressor around it; pass its "
            "regressor_ with transformed targets"
        )
    layers = enumerate(zip(told.coefs_, told.intercepts_, strict=True), 1)
    linear: list[Step] = [(f"layer {k} of {called}", (np.array(W.T, float), np.array(b, float))) for k, (W, b) in layers]
    inner = stack([*with_relus(linear), (told.out_activation_, Link(_LINKS[told.out_activation_]))])
    network = _behind(found.prepare, inner, tuple(done))
    _check(model, network, found.prepare)
    return network


def _behind(prepare: Steps, network: Weights, done: tuple[str, ...]) -> Weights:
    """The network with what is done to a point before it."""
    if not prepare:
        return network
    A, c = _affine(prepare, network.dimension)
    (W, b), *others = network.layers
    factor = A[0, 0] if len(A) == A.shape[1] and A[0, 0] and np.array_equal(A, A[0, 0] * np.eye(len(A))) else None
    if factor is not None:  # what training moved is then multiples of inputs less the mean
        return replace(network, layers=((W * factor, b), *others), mean=-c / factor if c.any() else None)
    return replace(network, layers=((W @ A, b + W @ c), *others), folded=done)


def _affine(prepare: Steps, width: int) -> tuple[Array, Array]:
    """The preparation as x -> A x + c, of points of this width unless it says otherwise."""
    last = next((value.shape[1] for kind, value in reversed(prepare) if kind == "matmul"), width)
    first = next((len(value) for kind, value in prepare if kind == "matmul"), last)
    A: Array = np.eye(first)
    c: Array = np.zeros(first)
    for kind, value in prepare:
        if kind == "matmul":
            A, c = value.T @ A, c @ value
        elif kind in ("multiply", "divide"):
            factor = value if kind == "multiply" else 1 / value
            A, c = factor[:, None] * A, factor * c
        else:
            c = c + value if kind == "add" else c - value
    return A, c


def _check(model: Any, network: Weights, prepare: Steps) -> None:
    """Whether it answers as the estimator does, at points that its preparation brings near 0."""
    A, c = _affine(prepare, network.dimension)
    inside = np.random.default_rng(0).standard_normal((POINTS, len(A)))
    X = np.linalg.lstsq(A, (inside - c).T, rcond=None)[0].T
    rows: Any = X
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        import pandas

        rows = pandas.DataFrame(X, columns=names)
    theirs = np.asarray(model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows))
    theirs = theirs.reshape(len(X), -1)
    if theirs.shape[1] == 2 and len(network.layers[-1][1]) == 1:  # of two classes, the second's probability
        theirs = theirs[:, 1:]
    if not agree(network, network.link, X, theirs):
        raise BadInput(
            f"expected a {type(model).__name__} that answers as its layers say, got one that answers otherwise; pass its "
            "network alone"
        )
