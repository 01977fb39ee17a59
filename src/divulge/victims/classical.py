"""Classical learners, trained as people train them."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from divulge.contract import Array
from divulge.errors import refuse_unknown

CLASSES = {
    "ridge": "sklearn.linear_model.Ridge",
    "ridge_classifier": "sklearn.linear_model.RidgeClassifier",
    "lasso": "sklearn.linear_model.Lasso",
    "elastic_net": "sklearn.linear_model.ElasticNet",
    "kernel_ridge": "sklearn.kernel_ridge.KernelRidge",
    "logistic": "sklearn.linear_model.LogisticRegression",
    "linear_svc": "sklearn.svm.LinearSVC",
    "svc": "sklearn.svm.SVC",
    "svr": "sklearn.svm.SVR",
    "sgd_classifier": "sklearn.linear_model.SGDClassifier",
    "sgd_regressor": "sklearn.linear_model.SGDRegressor",
    "poisson": "sklearn.linear_model.PoissonRegressor",
    "huber": "sklearn.linear_model.HuberRegressor",
    "mlp_classifier": "sklearn.neural_network.MLPClassifier",
    "mlp_regressor": "sklearn.neural_network.MLPRegressor",
    "kernel_logistic": "divulge.victims.kernels.KernelLogistic",
    "kernel_svm": "divulge.victims.kernels.KernelSVM",
}


def train(learner: str, X: Array, y: Array, **settings: Any) -> Any:
    """A fitted estimator; `settings` go to its constructor, but for `lam` (C = 1 / lam) and `one_vs_rest`."""
    refuse_unknown([learner], CLASSES, "learner")
    module, _, name = CLASSES[learner].rpartition(".")
    make = getattr(import_module(module), name)
    one_vs_rest = settings.pop("one_vs_rest", False)
    if "lam" in settings:
        settings["C"] = 1 / settings.pop("lam")
    refuse_unknown(settings, make().get_params(), f"settings of {learner}")
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    estimator = make(**settings)
    if one_vs_rest:
        from sklearn.multiclass import OneVsRestClassifier

        estimator = OneVsRestClassifier(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that stops early is a victim like another
        return estimator.fit(X, y)
