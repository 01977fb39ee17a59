"""Classical learners, trained as people train them."""

from __future__ import annotations

import warnings
from typing import Any

from divulge.contract import Array
from divulge.errors import refuse_unknown
from divulge.learners.catalogue import LEARNERS

TRAINED = {name: learner.estimator for name, learner in LEARNERS.items() if learner.estimator is not None}


def train(learner: str, X: Array, y: Array, **settings: Any) -> Any:
    """A fitted estimator; `settings` go to its constructor, but for `lam` (C = 1 / lam) and `one_vs_rest`."""
    refuse_unknown([learner], TRAINED, "learner")
    make = TRAINED[learner].load()
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
