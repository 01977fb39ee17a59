"""A scikit-learn estimator as the learner of a pipeline: what points climb against, and how it is trained again."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divulge.contract import Array, OwnLearner
from divulge.contract.tables import is_sparse
from divulge.errors import BadInput
from divulge.learners.catalogue import ESTIMATORS
from divulge.targets.folding import Layer
from divulge.targets.learners import secrets
from divulge.targets.networks import is_module
from divulge.targets.opening import reason
from divulge.targets.wrappers import identity, parts

PROBES = 100
"Points anywhere in the box that a step is tried on: one that is not affine somewhere is not affine at most of them."
AFFINE = 1e-6
"Relative difference up to which a step is what its probes say: affine ones of scikit-learn differ by 1e-12, others by 1e-2."
WEAKEST = -8.0
"The penalty λ that points climb against where the estimator has none: the weakest that poisoning tries."
SGD = {"log_loss": "logistic", "hinge": "linear_svc", "squared_hinge": "linear_svc"}
"Losses of an SGDClassifier that are of a learner here."
APART = {
    "positive": "its weights may not be negative",
    "class_weight": "it weighs classes",
}
"Settings that what points climb against does not have."


def trained(model: Any, X: Array, y: Array, low: Array, high: Array) -> OwnLearner:
    """An estimator, trained on clean points and read; points may come from anywhere in the box."""
    title = model.__name__ if isinstance(model, type) else _titled(model)
    if is_module(model):
        raise BadInput(f"expected the name of a learner or an estimator, got {title}; give a torch module to Pipeline.of")
    if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "predict")):
        raise BadInput(
            f"expected the name of a learner or a scikit-learn estimator, got {title}; give one such as LogisticRegression()"
        )
    model = _repeatable(model)
    try:
        fitted = _fit(model, X, y)
    except Exception as error:  # an estimator may be anybody's code
        raise BadInput(
            f"expected {title} to train on these points, but it said: {reason(error)}; give points as it takes them"
        ) from None
    own = _Own(model, _plain(fitted))
    found = OwnLearner(title, identity(model) or title, layers=own.layers, predictions=own.predictions)
    try:
        last, steps, targets = parts(fitted)
    except BadInput:  # several learners, or one that learned from other data
        return _asked(found, fitted, X)
    read = None if targets is not None else _read(last)
    if read is None:
        return _asked(found, fitted, X)
    try:
        entering = _affine(steps, X, np.concatenate([X, np.random.default_rng(0).uniform(low, high, (PROBES, len(low)))]))
    except _NotAffine as step:
        name = type(last).__name__
        why = (
            f"the step {step} before the {name} is no sum of multiples of the features, so points cannot be moved through "
            f"it; attack the {name} with the data that the step makes"
        )
        return replace(found, unfit=why)
    alone = [type(step).__name__ for step in steps] == ["StandardScaler"] and steps[0].with_std
    rescaled = alone and read.get("l1_ratio") in (0.0, 1.0)  # of a mixed penalty, scales are no penalty of a feature
    return replace(found, entering=entering, rescaled=rescaled, **read)


def _asked(found: OwnLearner, fitted: Any, X: Array) -> OwnLearner:
    """One that is not read: points climb against another learner, behind a scaling to equal variances."""
    from sklearn.base import is_regressor

    deviations = X.std(axis=0)
    scale = 1 / np.where(deviations > 0, deviations, 1.0)
    entering = np.diag(scale), -X.mean(axis=0) * scale
    return replace(found, learner="ridge" if is_regressor(fitted) else "logistic", entering=entering, opaque=True)


def _read(last: Any) -> dict[str, Any] | None:
    """What a fitted estimator without steps is to the solvers; None where it is nothing to them."""
    name = type(last).__name__
    record, _ = ESTIMATORS.get(name, (None, None))
    if record is None:
        return None
    learner, apart = record.name, []
    if learner == "mlp_classifier":
        apart.append(
            f"it is trained by {last.solver} from a start of its own, and points climb against plain descent from the "
            "weights that it has on clean data"
        )
    elif learner == "sgd_classifier" and last.loss in SGD:
        learner = SGD[last.loss]
        apart.append("it is trained by stochastic steps, and points climb against the minimum")
    elif learner == "svc" and last.kernel == "linear":
        learner = "linear_svc"
    elif not record.differentiated:
        return None
    strength = WEAKEST
    if _penalised(last):
        known = secrets(last)
        strength = -math.log(known["C"]) if "C" in known else math.log(known["alpha"])
    else:
        apart.append(f"it has no penalty, and points climb against one of λ = {WEAKEST:g}")
    if name == "SVC" or getattr(last, "loss", "") == "hinge":
        apart.append("its loss is the hinge, and points climb against its square")
    if not getattr(last, "fit_intercept", True):
        apart.append("it has no intercept")
    elif name == "LinearSVC" or getattr(last, "solver", "") == "liblinear":
        apart.append("it has a penalty on its intercept")
    apart += [what for setting, what in APART.items() if getattr(last, setting, None)]
    read = {"learner": learner, "strength": strength, "averaged": record.averaged, "apart": tuple(apart)}
    if hasattr(last, "coefs_"):
        layers = tuple((W.T, b) for W, b in zip(last.coefs_, last.intercepts_, strict=True))
        return read | {"start": layers, "activation": last.activation}
    return read | {"l1_ratio": 1.0 if record.penalty == "l1" else _l1_ratio(last)}


def _penalised(last: Any) -> bool:
    weight = np.asarray(getattr(last, "C", getattr(last, "alpha", 1.0)))
    return bool((weight > 0).all() and np.isfinite(weight).all()) and getattr(last, "penalty", "") is not None


def _l1_ratio(last: Any) -> float:
    named = {"l1": 1.0, "l2": 0.0}.get(str(getattr(last, "penalty", "")))
    if named is not None:
        return named
    told: Any = getattr(last, "l1_ratio_", getattr(last, "l1_ratio", None))
    first = np.ravel(told)[0]
    return 0.0 if first is None else float(first)


def _repeatable(model: Any) -> Any:
    """A copy that draws the same random numbers whenever it is trained."""
    from sklearn.base import clone

    copy = clone(model)
    loose = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**dict.fromkeys(loose, 0))


def _fit(model: Any, X: Array, y: Array) -> Any:
    from sklearn.base import clone

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its user sees them too
        return clone(model).fit(X, y)


@dataclass(frozen=True)
class _Own:
    """Trains copies of an estimator, and reads or asks them."""

    model: Any
    plain: Any
    "With what its searches chose on clean data in their place."

    def layers(self, X: Array, y: Array, strength: float | None) -> tuple[Layer, ...]:
        """From raw points to scores, trained with its steps as its user trains it, or with another penalty λ."""
        last, steps, _ = parts(_fit(self.model if strength is None else _with_penalty(self.plain, strength), X, y))
        if hasattr(last, "coefs_"):
            layers = [(W.T, b) for W, b in zip(last.coefs_, last.intercepts_, strict=True)]
        else:
            W = np.atleast_2d(last.coef_.toarray() if is_sparse(last.coef_) else last.coef_)
            layers = [(W, np.broadcast_to(np.atleast_1d(last.intercept_), (len(W),)))]
        entering = _affine(steps, X)
        if entering is not None:
            (W, b), (A, c) = layers[0], entering
            layers[0] = W @ A.T, b + W @ c
        return tuple((np.array(W, float), np.array(b, float)) for W, b in layers)

    def predictions(self, X: Array, y: Array, asked: Array) -> Array:
        return np.asarray(_fit(self.model, X, y).predict(asked))


class _NotAffine(ValueError):
    """The name of a step that is not affine."""


def _affine(steps: list[Any], X: Array, tried: Array | None = None) -> tuple[Array, Array] | None:
    """A and c so that the steps make XA + c of points X; None where there are no steps.

    Every step is asked about a mean point and that moved along one feature after the other, and where points are `tried`
    refused unless it does to them what it did to these.
    """
    if not steps:
        return None
    A, c = np.eye(X.shape[1]), np.zeros(X.shape[1])
    for step in steps:
        entering = X @ A + c
        base = entering.mean(axis=0)
        size = entering.max(axis=0) - base  # never outside of what the step was fitted on
        size = np.where(size > 0, size, 1.0)
        asked = _through(step, np.concatenate([base[None], base + np.diag(size)]))
        slope = (asked[1:] - asked[0]) / size[:, None]
        offset = asked[0] - base @ slope
        if tried is not None:
            points = tried @ A + c
            known = _through(step, points)
            if np.abs(points @ slope + offset - known).max() > AFFINE * max(np.abs(known).max(), 1e-300):
                raise _NotAffine(type(step).__name__)
        A, c = A @ slope, c @ slope + offset
    return A, c


def _through(step: Any, X: Array) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = step.transform(X)
            return np.asarray(made.toarray() if is_sparse(made) else made, float)
        except Exception:  # it takes nothing but what it was fitted on
            raise _NotAffine(type(step).__name__) from None


def _plain(fitted: Any) -> Any:
    """The same, unfitted, with what its searches chose in their place."""
    from sklearn.base import clone

    if hasattr(fitted, "best_estimator_"):
        return _plain(fitted.best_estimator_)
    if type(fitted).__name__ == "Pipeline":
        kept = [(name, step if step is None or isinstance(step, str) else clone(step)) for name, step in fitted.steps[:-1]]
        name, last = fitted.steps[-1]
        return type(fitted)([*kept, (name, _plain(last))])
    return clone(fitted)


def _with_penalty(plain: Any, strength: float) -> Any:
    """A copy with the penalty λ."""
    from sklearn.base import clone

    model = last = clone(plain)
    while type(last).__name__ == "Pipeline":
        last = last.steps[-1][1]
    known = last.get_params()
    one = "C" if {"C", "Cs"} & known.keys() else "alpha"
    weight = math.exp(-strength if one == "C" else strength)
    last.set_params(**({one: weight} if one in known else {f"{one}s": [weight]}))
    return model


def _titled(model: Any) -> str:
    """Its classes, in their order."""
    if type(model).__name__ == "Pipeline" and hasattr(model, "steps"):
        steps = [step for _, step in model.steps if step is not None and not isinstance(step, str)]
        return ", ".join(_titled(step) for step in steps)
    inside = model.get_params(deep=False).get("estimator") if hasattr(model, "get_params") else None
    if inside is not None:
        return f"{type(model).__name__}({_titled(inside)})"
    return type(model).__name__
