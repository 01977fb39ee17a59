"""What a fitted scikit-learn estimator gives away, apart from the hyperparameters it was told."""

from __future__ import annotations

from typing import Any

import numpy as np

from divulge.contract import Array, Kernel, Weights
from divulge.contract.checks import numbers
from divulge.contract.tables import is_sparse
from divulge.errors import BadInput
from divulge.learners.catalogue import ESTIMATORS
from divulge.learners.records import Estimator, Learner
from divulge.targets.folding import Layer
from divulge.targets.networks import is_module, read as read_network
from divulge.targets.wrappers import unwrapped

WRAPPED = [title for title, (learner, estimator) in ESTIMATORS.items() if learner.wrapped and estimator.replayed]
"Classes that a OneVsRestClassifier may hold."


def learned(model: object) -> dict[str, Any]:
    """The fields of `Fitted`: what a fitted model gives away, without its hyperparameters."""
    if is_module(model):
        return {"learner": "network", "layers": unfolded(read_network(model)), "settings": {}}
    found = unwrapped(model)
    inner = _inner(found.estimator)
    learner, read = _known(inner[0])
    told: Any = inner[0]
    settings = {name: getattr(told, name) for name in read.settings if hasattr(told, name)} | dict(read.fixed)
    if hasattr(told, "solver_"):  # which one "auto" chose
        settings["solver"] = told.solver_
    if not isinstance(settings.get("random_state", 0), int | np.integer):
        settings["random_state"] = None
    if isinstance(settings.get("precompute"), np.ndarray):
        settings["precompute"] = True
    if learner.penalty_is_ratio:
        settings["penalty"] = _penalty(_secret(told, read.secrets["l1_ratio"]))
    if len(inner) > 1:
        settings["multi_class"] = "ovr"
    if not read.replayed:
        settings["replayed"] = False
    fields = {
        "learner": learner.name,
        "kernel": _kernel(told) if hasattr(told, "kernel") else None,
        "settings": settings,
        "prepare": found.prepare,
        "steps": found.steps,
        "targets": found.targets,
        "more": {name: _stacked(inner, f"{name}_") for name in _learns(told, read)},
    }
    if hasattr(told, "coefs_"):
        return fields | {"layers": tuple((W.T, b) for W, b in zip(told.coefs_, told.intercepts_, strict=True))}
    free = getattr(told, "fit_intercept", hasattr(told, "intercept_"))
    arrays = {
        "coef": _stacked(inner, "coef_") if not hasattr(told, "support_") else None,
        "intercept": _stacked(inner, "intercept_", optional=False) if free else None,
        "dual_coef": _stacked(inner, "dual_coef_"),
    }
    return fields | arrays


def unfolded(network: Weights) -> tuple[Layer, ...]:
    """The layers of a network as training left them, which those are not that something was folded into."""
    if network.folded:
        raise BadInput(
            f"expected a network whose layers are what was trained, got {network.folded[0]} folded into them, which a "
            "penalty does not see; hold it as weights"
        )
    return network.layers


def secrets(model: object) -> dict[str, float]:
    """The hyperparameters a model was fitted with, in its own units."""
    told: Any = _inner(unwrapped(model).estimator)[0]
    learner, read = _known(told)
    found = {name: _secret(told, place, name) for name, place in read.secrets.items()}
    penalty = _penalty(found["l1_ratio"]) if learner.penalty_is_ratio else getattr(told, "penalty", "elasticnet")
    if penalty != "elasticnet":
        found.pop("l1_ratio", None)
    if "gamma" in found:
        gamma = _kernel(told).gamma
        if gamma is None or told.kernel == "linear":
            del found["gamma"]
        else:
            found["gamma"] = gamma
    return found


def _penalty(l1_ratio: float) -> str:
    return {0.0: "l2", 1.0: "l1"}.get(l1_ratio, "elasticnet")


def _secret(told: Any, place: str, name: str = "") -> float:
    value = getattr(told, place)
    blank = np.ndim(value) and all(one is None for one in np.ravel(value))
    if value is None or blank or isinstance(value, str):  # no grid of ratios; a gamma that is worked out
        return 0.0
    values = np.unique(numbers(value, f"the hyperparameter {name}"))
    if len(values) != 1:
        raise BadInput(
            f"expected one {name} for the whole model, got {len(values)} different ones, one a target; "
            "audit the targets one at a time"
        )
    return float(values[0])


def _learns(told: Any, read: Estimator) -> list[str]:
    """What it learned besides coefficients, but no sparse support vectors: dense, they would fill the memory."""
    there = [name for name in read.learns if hasattr(told, f"{name}_")]
    return [name for name in there if name != "support_vectors" or not is_sparse(told.support_vectors_)]


def _inner(estimator: Any) -> list[Any]:
    """The estimator, or the binary ones that a one-vs-rest wrapper fitted."""
    if type(estimator).__name__ == "OneVsRestClassifier":
        if not hasattr(estimator, "estimators_"):
            raise BadInput("expected a fitted OneVsRestClassifier, got one that has learned nothing; call fit first")
        if estimator.multilabel_:
            raise BadInput(
                "expected one label a point in a OneVsRestClassifier, got several; audit its estimators_[0] with y[:, 0], "
                "and so on for each label"
            )
        inside = type(estimator.estimators_[0]).__name__
        if inside not in WRAPPED:
            raise BadInput(
                f"expected {' or '.join(WRAPPED)} in a OneVsRestClassifier, got {inside}; "
                "audit its estimators_ one at a time, with labels 0 and 1"
            )
        return list(estimator.estimators_)
    return [estimator]


def _stacked(estimators: list[Any], name: str, optional: bool = True) -> Array | None:
    if optional and getattr(estimators[0], name, None) is None:
        return None
    found = [getattr(estimator, name) for estimator in estimators]
    arrays = [np.array(array.toarray() if hasattr(array, "toarray") else array) for array in found]
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.atleast_1d(array) for array in arrays])


def _known(estimator: object) -> tuple[Learner, Estimator]:
    name = type(estimator).__name__
    if name not in ESTIMATORS:
        raise BadInput(
            f"expected a scikit-learn {', '.join(ESTIMATORS)}, a pipeline or search around one, or a torch module, "
            f"got {name}; pass one of these or plain arrays"
        )
    if not any(hasattr(estimator, learned) for learned in ("coef_", "dual_coef_", "coefs_")):
        raise BadInput(f"expected a fitted {name}, got one that has learned nothing; call fit first")
    return ESTIMATORS[name]


def _kernel(estimator: Any) -> Kernel:
    name = estimator.kernel
    if callable(name):
        raise BadInput("expected a kernel by name, got a function, which cannot be written down; use one scikit-learn names")
    if name == "precomputed":
        raise BadInput(
            "expected a kernel by name, got 'precomputed', which says nothing about new points; "
            "fit with a kernel scikit-learn names"
        )
    gamma = getattr(estimator, "_gamma", estimator.gamma)  # as a support vector machine worked it out
    if gamma is None and name in ("rbf", "laplacian", "poly", "polynomial", "sigmoid"):
        gamma = 1 / estimator.n_features_in_  # scikit-learn's own default
    return Kernel(name, None if gamma is None else float(gamma), float(estimator.degree), float(estimator.coef0))
