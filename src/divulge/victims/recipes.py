"""What each recipe trains: a victim as an attacker sees it, and what only its owner knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from divulge.contract import (
    Access,
    Array,
    Candidates,
    Fitted,
    Gradients,
    Hyperparameters,
    Parameters,
    Pipeline,
    Predictions,
    TrainingData,
    Weights,
)
from divulge.errors import BadInput, refuse_unknown


@dataclass(frozen=True, eq=False)
class Victim:
    """A trained model: what an attacker is given of it, and what only its owner knows."""

    held: Mapping[str, Access]
    truth: Mapping[str, Access]
    served: Mapping[str, Any] = field(default_factory=dict)
    """A model that answers queries, as numbers that can be stored: `kind` says what it answers, `network` what it is."""

    def opened(self) -> Victim:
        """The same victim with its model running, held as `api`."""
        if not self.served:
            return self
        kind, network = self.served["kind"], self.served["network"]
        refuse_unknown([kind], ("predictions", "gradients", "smoothgrad"), "kind of a served model")
        api: Predictions = Predictions.of(network) if kind == "predictions" else Gradients.of(network)
        if kind == "smoothgrad" and isinstance(api, Gradients):
            from divulge.victims.classifiers import smoothed

            api = smoothed(api, self.served["noise"])
        return Victim({"api": api, **self.held}, self.truth)


def make(
    recipe: str,
    X: Array,
    y: Array,
    rng: np.random.Generator,
    *,
    test: Candidates | None = None,
    shape: tuple[int, ...] | None = None,
    **settings: Any,
) -> Victim:
    """Train the victim a recipe describes on the points given, which are pictures where they have a shape."""
    refuse_unknown([recipe], RECIPES, "recipe")
    if recipe in PICTURED:
        settings = {**settings, "test": test, "shape": shape}
    return RECIPES[recipe](X, y, rng, **settings)


def _classical(
    X: Array, y: Array, rng: np.random.Generator, learner: str, gamma_known: bool = True, **settings: Any
) -> Victim:
    from divulge.victims import classical

    estimator = classical.train(learner, X, y, **settings)
    model = Fitted.of(estimator) if gamma_known else Fitted.of(estimator).without_gamma()
    return Victim({"model": model, "data": TrainingData(X, y)}, {"hyperparameters": Hyperparameters.of(estimator)})


def _anonymous(X: Array, y: Array, rng: np.random.Generator, learner: str, **settings: Any) -> Victim:
    """A classical model of which only the parameters are known."""
    from divulge.victims import classical

    fitted = Fitted.of(classical.train(learner, X, y, **settings))
    known = Parameters(fitted.coef, fitted.intercept, fitted.dual_coef, fitted.kernel)
    return Victim({"parameters": known, "data": TrainingData(X, y)}, {"fitted": fitted})


def _pipeline(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    learner: str,
    test: Candidates | None,
    shape: tuple[int, ...] | None,
    validation: float = 0.3,
    low: float | None = None,
    high: float | None = None,
) -> Victim:
    """A training process and its data, a share of which is kept for validation; test points are the truth.

    `low` and `high` limit what a contributed point may have in every feature.
    """
    order = rng.permutation(len(X))
    if len(np.unique(y)) < len(y) / 10:  # of every class its share
        order = order[np.argsort(_turns(y[order]), kind="stable")]
    kept, rest = order[: round(validation * len(X))], order[round(validation * len(X)) :]
    pipeline = Pipeline(X[rest], y[rest], X[kept], y[kept], learner, shape, low, high)
    return Victim({"pipeline": pipeline}, {} if test is None else {"candidates": Candidates(test.X, test.y, shape)})


def _turns(y: Array) -> Array:
    """How much of its class comes before each point: 0 for the first of a class, nearly 1 for the last."""
    turns = np.empty(len(y))
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        turns[members] = np.arange(len(members)) / len(members)
    return turns


def _data(X: Array, y: Array, rng: np.random.Generator) -> Victim:
    """No model: the data alone, for what trains models of its own."""
    return Victim({"data": TrainingData(X, y)}, {})


def _network(X: Array, y: Array, rng: np.random.Generator, weight_decay: float, **settings: Any) -> Victim:
    from divulge.victims import networks

    module = networks.train(X, y, rng, weight_decay=weight_decay, **settings)
    truth = {"hyperparameters": Hyperparameters({"weight_decay": weight_decay})}
    return Victim({"model": Fitted.of(module), "data": TrainingData(X, y)}, truth)


def _random_network(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    units: int,
    outputs: int = 1,
    biases: bool = True,
    kind: str = "gradients",
    dimension: int | None = None,
) -> Victim:
    """A two-layer ReLU network that was never trained, with the inputs of the data or as many as are named."""
    width = dimension or X.shape[1]
    hidden = rng.standard_normal((units, width)) / np.sqrt(width)
    out = rng.standard_normal((outputs, units)) / np.sqrt(units)
    shifts = (rng.standard_normal(units), rng.standard_normal(outputs)) if biases else (np.zeros(units), np.zeros(outputs))
    network = Weights(((hidden, shifts[0]), (out, shifts[1])))
    return Victim({}, {"weights": network}, {"kind": kind, "network": network})


def _classifier(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    architecture: str,
    test: Candidates | None,
    shape: tuple[int, ...] | None,
    kind: str = "gradients",
    noise: float = 1.0,
    pool: float = 1 / 6,
    repeat: int = 0,
    double: bool = False,
    **settings: Any,
) -> Victim:
    """A classifier behind an API, and a share of the points, without labels, for whoever copies it; none for 0.

    `noise` of SmoothGrad is in standard deviations of the data. `repeat` tells victims apart that differ in their random
    numbers only. `double` serves a dense network in double precision.
    """
    from divulge.victims import classifiers

    order = rng.permutation(len(X))
    theirs, ours = order[: round(pool * len(X))], order[round(pool * len(X)) :]
    network = classifiers.train(X[ours], y[ours], rng, architecture=architecture, shape=shape, **settings)
    held = {"pool": Candidates(X[theirs].astype(np.float32), shape=shape)} if len(theirs) else {}
    truth: dict[str, Access] = {"copy": network}
    if test is not None:
        truth["candidates"] = Candidates(test.X.astype(np.float32), test.y, shape)
    if double:
        weights = Weights(tuple((W.astype(float), b.astype(float)) for W, b in network.weights().layers))
        return Victim(held, {**truth, "weights": weights}, {"kind": kind, "network": weights})
    return Victim(held, truth, {"kind": kind, "network": network, "noise": noise * float(X.std())})


def _margin(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    test: Candidates | None,
    shape: tuple[int, ...] | None,
    centred: bool = True,
    mean_known: bool = True,
    products: bool = False,
    digits: int = 0,
    noise_on_weights: float = 0.0,
    kind: str = "weights",
    non_members: int = 0,
    repeat: int = 0,
    **settings: Any,
) -> Victim:
    """A network that fits its points, read in full, or answering `kind` = "gradients"; the points are the truth.

    `non_members` gives whoever asks about membership the training points and so many test points, in one random order.

    `centred` subtracts the mean point in training, which whoever reads the network knows, unless not `mean_known`.
    `products` gives each unit's input weights times its output weight, as an extraction does, in two-layer networks.
    `digits` rounds the weights to so many, `noise_on_weights` adds normal numbers to every layer, in shares of its largest
    weight; a bias that is nowhere used stays 0.
    """
    from divulge.solvers.shared.rounding import significant
    from divulge.victims import margins

    refuse_unknown([kind], ("weights", "predictions", "gradients"), "kind")
    refuse_unknown(settings, margins.SETTINGS, "recipe margin")
    if isinstance(digits, bool) or not isinstance(digits, int) or digits < 0:
        raise BadInput(f"expected a whole number from 0 for digits, got {digits!r}; 0 keeps all of them")
    if isinstance(noise_on_weights, bool) or not isinstance(noise_on_weights, int | float) or not noise_on_weights >= 0:
        raise BadInput(f"expected a number from 0 for noise_on_weights, got {noise_on_weights!r}; 0 adds none")
    mean = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    layers = margins.train(X - mean, y, rng, **settings)
    if products:
        layers = margins.products(layers)
    if noise_on_weights:
        layers = [margins.noisy(W, b, noise_on_weights * float(np.abs(W).max()), rng) for W, b in layers]
    if digits:
        layers = [(significant(W, digits), significant(b, digits)) for W, b in layers]
    network = Weights(tuple(layers), mean=mean if centred and mean_known else None, shape=shape)
    truth: dict[str, Access] = {"training_data": TrainingData(X, y, shape=shape)}
    if test is not None:
        truth["candidates"] = Candidates(test.X, test.y, shape)
    held: dict[str, Access] = _asked_about(X, test, non_members, shape, rng) if non_members else {}
    if kind == "weights":
        return Victim({"network": network, **held}, truth)
    return Victim(held, {**truth, "weights": network}, {"kind": kind, "network": network})


def _asked_about(
    X: Array, test: Candidates | None, non_members: int, shape: tuple[int, ...] | None, rng: np.random.Generator
) -> dict[str, Access]:
    """Training points and test points as candidates, in one random order."""
    if isinstance(non_members, bool) or not isinstance(non_members, int) or non_members < 0:
        raise BadInput(f"expected a whole number from 0 for non_members, got {non_members!r}; correct it")
    if test is None or len(test.X) < non_members:
        raise BadInput(
            f"expected at least {non_members} test points as non-members, got {0 if test is None else len(test.X)}; "
            "ask for fewer, or for another dataset"
        )
    everyone = np.concatenate([X, test.X[:non_members]])
    return {"candidates": Candidates(everyone[rng.permutation(len(everyone))], shape=shape)}


def _univariate(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    points: int,
    labels: str = "alternating",
    kind: str = "weights",
    repeat: int = 0,
    **settings: Any,
) -> Victim:
    """A two-layer network with one input, for points that it draws itself: the data given are not used.

    `repeat` tells victims apart that differ in their random numbers only.
    """
    from divulge.victims import univariate

    refuse_unknown([kind], ("weights", "predictions"), "kind")
    refuse_unknown(settings, ("method", "units", "margin", "decay"), "recipe univariate")
    x, sides = univariate.draw(rng, points, labels)
    network = Weights(univariate.train(x, sides, rng, **settings))
    truth: dict[str, Access] = {"training_data": TrainingData(x[:, None], sides)}
    if kind == "weights":
        return Victim({"network": network}, truth)
    return Victim({}, {**truth, "weights": network}, {"kind": kind, "network": network})


RECIPES: dict[str, Callable[..., Victim]] = {
    "classical": _classical,
    "anonymous": _anonymous,
    "data": _data,
    "pipeline": _pipeline,
    "network": _network,
    "random-network": _random_network,
    "classifier": _classifier,
    "margin": _margin,
    "univariate": _univariate,
}
PICTURED = ("classifier", "margin", "pipeline")
"Recipes that want to know the shape of pictures, and points to test on."
