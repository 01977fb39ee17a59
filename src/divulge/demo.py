"""The demonstration: real learners on data that comes with the package, audited as an owner would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from divulge import datasets, registry
from divulge.auditing import Audit, audit
from divulge.contract import (
    Access,
    Candidates,
    Fitted,
    Gradients,
    Hyperparameters,
    Pipeline,
    Predictions,
    TrainingData,
    Weights,
)
from divulge.defences import defended
from divulge.errors import BadInput
from divulge.runner import Observer, one_blas_thread
from divulge.serving import on_mlserver, served
from divulge.victims import classical, classifiers, ordinary

LEARNERS: dict[str, dict[str, Any]] = {
    "ridge": {},
    "lasso": {"tol": 1e-10, "max_iter": 100_000},
    "elastic_net": {"tol": 1e-10, "max_iter": 100_000},
    "kernel_ridge": {"kernel": "rbf", "gamma": 0.005},
}


Serve = Callable[[Weights], AbstractContextManager[str]]
UNITS = 24
"Hidden units of the network that explains itself."
LEFT_OUT = ("value-extraction", "surrogate", "univariate-from-values", "univariate-reconstruction")
"Explanations give the same away in a hundredth of the queries, no model here has one input, and it should not take long."
ASKED = 400
"Pictures that the network has not seen, among which it is asked for those that it has."
SERVICE = "digit service"
"Explains a network that remembers its pictures; it is asked over HTTP, as anybody could ask it."
VALUES = "its values alone"
"The same network where it explains nothing."
WIDE, SEEN = 300, 50
"Hidden units in each of two layers of the network that remembers, and the pictures it was trained on."
RECIPE: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 6e-3, "epochs": 1500}
"Torch's own start and SGD: lr / (1 − momentum) · weight decay · steps is 9, so that the start has decayed."
POISONED = {"points": 20, "batch": 10, "iterations": 30, "starts": 2}
"Of an attack on a pipeline that others contribute to: enough to see."
OPEN = 200
"Digits that pipeline trains on; it has half as many for validation."


def run(
    out: Path, seed: int, observer: Observer | None = None, server: Literal["own", "mlserver"] = "own",
    defend: Sequence[str] = (),
) -> Audit:  # fmt: skip
    """Train learners with secret penalties and networks that explain themselves; steal from all, and poison a pipeline."""
    if seed < 0:
        raise BadInput(f"expected a seed from 0, got {seed}; correct it")
    with one_blas_thread(), ExitStack() as running:
        return _audited(out, seed, observer, running, on_mlserver if server == "mlserver" else served, defend)


def _audited(
    out: Path, seed: int, observer: Observer | None, running: ExitStack, serve: Serve, defend: Sequence[str]
) -> Audit:
    rng = np.random.default_rng(seed)
    table = datasets.load("diabetes", standardised=True)
    here, elsewhere = np.split(rng.permutation(len(table.X)), [300])
    data = TrainingData(table.X[here], table.y[here])
    held: dict[str, Access] = {}
    truth: dict[str, dict[str, Access]] = {}
    memory, photographed, asked = _memoriser(rng)
    address = running.enter_context(serve(memory))
    held[SERVICE] = Gradients.at(address, output="value", explanation="output:gradient")
    truth[SERVICE] = {"weights": memory, **photographed}
    held[VALUES], truth[VALUES] = replace(Predictions.of(memory), shape=asked.shape), truth[SERVICE]
    for learner, settings in LEARNERS.items():
        secrets = {"alpha": float(10 ** rng.uniform(-2, 0.5))}
        if learner == "elastic_net":
            secrets["l1_ratio"] = float(rng.uniform(0.2, 0.8))
        name = learner.replace("_", " ")
        estimator = classical.train(learner, table.X[here], table.y[here], **settings, **secrets)
        held[name], truth[name] = Fitted.of(estimator), {"hyperparameters": Hyperparameters.of(estimator)}
    stranger = classical.train("ridge", table.X[elsewhere], table.y[elsewhere], alpha=1.0)
    held["ridge of other patients"] = Fitted.of(stranger)
    truth["ridge of other patients"] = {"hyperparameters": Hyperparameters.of(stranger)}
    network, read = _classifier(rng)
    held["explanations"], truth["explanations"] = Gradients.of(network), {"weights": network, "training_data": read}
    rounded = defended(Gradients.of(network), "rounding", digits=3)
    held["rounded explanations"], truth["rounded explanations"] = rounded, {"weights": network}
    held["digits in question"] = asked
    held["pipeline"], truth["pipeline"] = _pipeline(rng)
    held["data"] = data
    sources = dict.fromkeys(held, "trained by this demonstration") | {"data": table.source, SERVICE: address}
    attacks = [name for name in registry.attacks() if name not in LEFT_OUT]
    options = {"poisoning": POISONED}
    return audit(
        held, truth, out=out, title="Demonstration", attacks=attacks, options=options, seed=seed, sources=sources,
        observer=observer, defend=defend,
    )  # fmt: skip


def _pipeline(rng: np.random.Generator) -> tuple[Pipeline, dict[str, Access]]:
    """A logistic regression that tells 0 from 8 and takes contributed digits; digits to test it on."""
    digits = datasets.load("mnist-0-8", samples=OPEN + OPEN // 2, seed=int(rng.integers(2**31)))
    (X, X_val), (y, y_val) = np.split(digits.X, [OPEN]), np.split(digits.y, [OPEN])
    truth: dict[str, Access] = {"candidates": Candidates(digits.X_test, digits.y_test)}
    return Pipeline(X, y, X_val, y_val, shape=digits.shape), truth


def _memoriser(rng: np.random.Generator) -> tuple[Weights, dict[str, Access], Candidates]:
    """A network as people train them, on few digits; those and others that it has not seen; some of both, mixed."""
    digits = datasets.load("mnist", samples=SEEN, seed=int(rng.integers(2**31)))
    trained = ordinary.train(digits.X, digits.y, rng, hidden=(WIDE, WIDE), **RECIPE)
    seen = TrainingData(digits.X, digits.y, shape=digits.shape)
    both = rng.permutation(np.concatenate([digits.X, digits.X_test[:ASKED]]))
    truth = {"training_data": seen, "candidates": Candidates(digits.X_test, digits.y_test)}
    return Weights(tuple(trained.layers)), truth, Candidates(both, shape=digits.shape)


def _classifier(rng: np.random.Generator) -> tuple[Weights, TrainingData]:
    """A two-layer network that reads digits, in double precision; and the digits it was trained on."""
    digits = datasets.load("mnist")
    made = classifiers.train(digits.X, digits.y, rng, architecture="two-layer", shape=digits.shape, width=UNITS)
    layers = tuple((W.astype(float), b.astype(float)) for W, b in made.weights().layers)
    return Weights(layers), TrainingData(digits.X, digits.y, shape=digits.shape)
