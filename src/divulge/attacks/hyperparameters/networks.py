"""The equations of a dense network trained with weight decay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from divulge.attacks.hyperparameters.problem import StationarityProblem
from divulge.contract import Array, Fitted
from divulge.errors import BadInput, NotApplicable
from divulge.learners.catalogue import learner_named
from divulge.solvers.shared import rounding
from divulge.solvers.stationarity import backprop, system as stationarity
from divulge.solvers.stationarity.losses import LOSSES, Loss
from divulge.solvers.stationarity.refit import Trainer
from divulge.solvers.stationarity.system import System


def build_network_problem(fitted: Fitted, X: Array, y: Array, weight: Array, trainer: Trainer) -> StationarityProblem:
    layers, settings = fitted.layers, fitted.settings
    if not layers:
        raise BadInput(f"expected the layers of the {fitted.learner} model, got none; pass layers=((W, b), ...)")
    if layers[0][0].shape[1] != X.shape[1]:
        raise BadInput(
            f"expected data with {layers[0][0].shape[1]} features, as the first layer takes, got {X.shape[1]}; "
            "pass the data the model was fitted on"
        )
    activation = str(settings.get("activation", "relu"))
    outputs = len(layers[-1][1])
    # A ReLU network's minima lie on kinks, where its inner layers have no gradient; the last layer always has one.
    options = [
        _network_system(fitted, X, weight, activation, loss, Y, inner)
        for loss, Y in _network_losses(fitted, y, outputs)
        for inner in (True, False)
    ]
    system, start = min(options, key=lambda one: stationarity.solve(one[0]).relative_residual)
    epsilon = max(float(np.finfo(W.dtype).eps) for W, _ in layers)
    observed = np.concatenate([np.ravel(part) for layer in layers for part in layer]).astype(float)
    tol = settings.get("tol", 0.0) if settings.get("solver") == "lbfgs" else 0.0
    return StationarityProblem(
        fitted=fitted,
        penalties=("l2",),
        systems=[replace(system, epsilon=epsilon)],
        trainer=trainer,
        observed=observed,
        weight=weight,
        total=float(weight.sum()) if learner_named(fitted.learner).averaged else 1.0,
        start_size=start,
        stopped=float(tol * weight.sum()),
        decimals=rounding.rounded_to(observed),
    )


def _network_losses(fitted: Fitted, y: Array, outputs: int) -> list[tuple[Loss, Array]]:
    """The losses that fit the outputs and the targets; which one it was, the equations tell."""
    learner = learner_named(fitted.learner)
    labelled = learner.classifier or y.dtype.kind == "U"
    if learner.regression:
        usual = next(iter(learner.losses))
        told = fitted.settings.get("loss", usual)
        if told not in learner.losses:
            raise NotApplicable(f"a network trained with the loss {told!r} is not attacked; {usual} is")
        return [(LOSSES[learner.losses[told]], _columns(y, outputs))]
    classes = np.unique(y)
    if outputs > 1 and y.ndim == 1 and len(classes) == outputs:
        return [(LOSSES["softmax"], (y[:, None] == classes).astype(float))]
    if outputs == 1 and len(classes) == 2:
        binary = (LOSSES["logistic"], np.where(y.reshape(-1, 1) == classes[1], 1.0, -1.0))
        if labelled:
            return [binary]
        return [binary, (LOSSES["mean_squared"], _columns(y, 1))]
    if labelled:
        raise BadInput(
            f"expected labels of {max(2, outputs)} classes, as the network has outputs, got {len(classes)}; "
            "pass the y it was fitted on"
        )
    return [(LOSSES["mean_squared"], _columns(y, outputs))]


def _network_system(
    fitted: Fitted, X: Array, weight: Array, activation: str, loss: Loss, Y: Array, inner: bool
) -> tuple[System, float]:
    found = backprop.gradient(fitted.layers, X, lambda f: weight[:, None] * loss.first_derivative(f, Y), activation)
    biased = learner_named(fitted.learner).decays_biases
    values, sizes, parameters, free = [], [], [], []
    first = 0 if inner else len(found) - 1
    for (dW, db, size_W, size_b), (W, b) in list(zip(found, fitted.layers, strict=True))[first:]:
        values.append(dW.ravel())
        sizes.append(size_W.ravel())
        parameters.append(W.ravel())
        if biased:
            values.append(db)
            sizes.append(size_b)
            parameters.append(b)
        else:
            free.append(db)
    start = backprop.gradient(
        [(np.zeros_like(W), np.zeros_like(b)) for W, b in fitted.layers],
        X, lambda f: weight[:, None] * loss.first_derivative(f, Y), activation,
    )[-1][1]  # fmt: skip
    check = np.concatenate(free) if free else np.zeros(0)
    A = np.concatenate(parameters).astype(float)[:, None]
    return System(A, np.concatenate(values), np.concatenate(sizes), check), float(np.linalg.norm(start))


def _columns(y: Array, outputs: int) -> Array:
    targets = np.asarray(y, float).reshape(len(y), -1)
    if targets.shape[1] != outputs:
        raise BadInput(
            f"expected targets with {outputs} columns, one for each output of the model, got {targets.shape[1]}; "
            "pass the y it was fitted on"
        )
    return targets
