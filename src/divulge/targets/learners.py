"""What a fitted scikit-learn estimator gives away, apart from the hyperparameters it was told."""

from __future__ import annotations

from typing import Any

import numpy as np

from divulge.contract import Kernel
from divulge.contract.access import numbers
from divulge.errors import BadInput

LEARNERS: dict[str, tuple[str, dict[str, str]]] = {
    "Ridge": ("ridge", {"alpha": "alpha"}),
    "RidgeCV": ("ridge", {"alpha": "alpha_"}),
    "Lasso": ("lasso", {"alpha": "alpha"}),
    "LassoCV": ("lasso", {"alpha": "alpha_"}),
    "ElasticNet": ("elastic_net", {"alpha": "alpha", "l1_ratio": "l1_ratio"}),
    "ElasticNetCV": ("elastic_net", {"alpha": "alpha_", "l1_ratio": "l1_ratio_"}),
    "KernelRidge": ("kernel_ridge", {"alpha": "alpha"}),
}
"Class in scikit-learn -> our name for the learner, and where each of its hyperparameters is kept."

SETTINGS = ("fit_intercept", "max_iter", "positive", "selection", "solver", "tol")
"What is commonly known of a training. A hyperparameter must never be listed here: an attack reads these."


def learned(estimator: object) -> dict[str, Any]:
    """The fields of `Fitted`: what a fitted estimator gives away, without its hyperparameters."""
    learner, _ = _known(estimator)
    told: Any = estimator
    arrays = {
        "coef": getattr(told, "coef_", None),
        "intercept": told.intercept_ if getattr(told, "fit_intercept", False) else None,
        "dual_coef": getattr(told, "dual_coef_", None),
    }
    settings = {name: getattr(told, name) for name in SETTINGS if hasattr(told, name)}
    if hasattr(told, "solver_"):  # which one "auto" chose
        settings["solver"] = told.solver_
    return {
        "learner": learner,
        "kernel": _kernel(told) if hasattr(told, "kernel") else None,
        "settings": settings,
        **{name: None if array is None else np.array(array) for name, array in arrays.items()},
    }


def secrets(estimator: object) -> dict[str, float]:
    """The hyperparameters an estimator was fitted with, in its own units."""
    _, places = _known(estimator)
    found = {}
    for name, place in places.items():
        values = np.unique(numbers(getattr(estimator, place), f"the hyperparameter {name}"))
        if len(values) != 1:
            raise BadInput(
                f"expected one {name} for the whole model, got {len(values)} different ones, one a target; "
                "audit the targets one at a time"
            )
        found[name] = float(values[0])
    return found


def _known(estimator: object) -> tuple[str, dict[str, str]]:
    name = type(estimator).__name__
    if name not in LEARNERS:
        raise BadInput(f"expected a scikit-learn {', '.join(LEARNERS)}, got {name}; pass one of these or plain arrays")
    if not hasattr(estimator, "coef_") and not hasattr(estimator, "dual_coef_"):
        raise BadInput(f"expected a fitted {name}, got one that has learned nothing; call fit first")
    return LEARNERS[name]


def _kernel(estimator: Any) -> Kernel:
    name = estimator.kernel
    if callable(name):
        raise BadInput("expected a kernel by name, got a function, which cannot be written down; use one scikit-learn names")
    if name == "precomputed":
        raise BadInput(
            "expected a kernel by name, got 'precomputed', which says nothing about new points; "
            "fit with a kernel scikit-learn names"
        )
    gamma = estimator.gamma
    if gamma is None and name in ("rbf", "laplacian", "poly", "polynomial", "sigmoid"):
        gamma = 1 / estimator.n_features_in_  # scikit-learn's own default
    return Kernel(name, None if gamma is None else float(gamma), float(estimator.degree), float(estimator.coef0))
