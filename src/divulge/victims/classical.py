"""Classical learners of scikit-learn, trained as people train them."""

from __future__ import annotations

from typing import Any

from divulge.contract import Array
from divulge.errors import refuse_unknown


def train(learner: str, X: Array, y: Array, **settings: Any) -> Any:
    """A fitted scikit-learn estimator; `settings` go to its constructor."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import ElasticNet, Lasso, Ridge

    classes = {"ridge": Ridge, "lasso": Lasso, "elastic_net": ElasticNet, "kernel_ridge": KernelRidge}
    refuse_unknown([learner], classes, "learner")
    refuse_unknown(settings, classes[learner]().get_params(), f"settings of {learner}")
    return classes[learner](**settings).fit(X, y)
