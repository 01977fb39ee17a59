"""Training recipes that make the papers' models: name -> a victim's public side and its secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from divulge.contract import (
    Access,
    Array,
    Fitted,
    Gradients,
    Hyperparameters,
    Parameters,
    Pipeline,
    Predictions,
    TrainingData,
    Weights,
)
from divulge.errors import refuse_unknown


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
        kind: type[Predictions] = {"predictions": Predictions, "gradients": Gradients}[self.served["kind"]]
        return Victim({**self.held, "api": kind.of(self.served["network"])}, self.truth)


def make(recipe: str, X: Array, y: Array, rng: np.random.Generator, **settings: Any) -> Victim:
    """Train the victim a recipe describes on the points given."""
    refuse_unknown([recipe], RECIPES, "recipe")
    return RECIPES[recipe](X, y, rng, **settings)


def _classical(
    X: Array, y: Array, rng: np.random.Generator, learner: str, width_known: bool = True, **settings: Any
) -> Victim:
    from divulge.victims import classical

    estimator = classical.train(learner, X, y, **settings)
    model = Fitted(estimator) if width_known else Fitted(estimator).without_width()
    return Victim({"model": model, "data": TrainingData(X, y)}, {"hyperparameters": Hyperparameters.of(estimator)})


def _anonymous(X: Array, y: Array, rng: np.random.Generator, learner: str, **settings: Any) -> Victim:
    """A classical model of which only the parameters are known."""
    from divulge.victims import classical

    fitted = Fitted(classical.train(learner, X, y, **settings))
    known = Parameters(fitted.coef, fitted.intercept, fitted.dual_coef, fitted.kernel)
    return Victim({"parameters": known, "data": TrainingData(X, y)}, {"fitted": fitted})


def _pipeline(X: Array, y: Array, rng: np.random.Generator, learner: str, validation: float = 0.3) -> Victim:
    """A training process and its data, a share of which is kept for validation."""
    order = rng.permutation(len(X))
    kept, rest = order[: round(validation * len(X))], order[round(validation * len(X)) :]
    return Victim({"pipeline": Pipeline(X[rest], y[rest], X[kept], y[kept], learner)}, {})


def _network(X: Array, y: Array, rng: np.random.Generator, weight_decay: float, **settings: Any) -> Victim:
    from divulge.victims import networks

    module = networks.train(X, y, rng, weight_decay=weight_decay, **settings)
    truth = {"hyperparameters": Hyperparameters({"weight_decay": weight_decay})}
    return Victim({"model": Fitted(module), "data": TrainingData(X, y)}, truth)  # type: ignore[arg-type]  # read by Fitted


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


RECIPES: dict[str, Callable[..., Victim]] = {
    "classical": _classical,
    "anonymous": _anonymous,
    "pipeline": _pipeline,
    "network": _network,
    "random-network": _random_network,
}
