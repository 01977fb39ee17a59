"""What stands around a scikit-learn learner: pipelines, searches, transformed targets, wrappers of several learners."""

from __future__ import annotations

import uuid
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from divulge.contract import Array, Preparation, Table
from divulge.contract.tables import is_sparse
from divulge.errors import BadInput
from divulge.targets.opening import reason

COMPUTED = ("MaxAbsScaler", "MinMaxScaler", "PCA", "RobustScaler", "StandardScaler")
"Steps that are sums and products, written down as such."
VECTORIZERS = ("CountVectorizer", "HashingVectorizer", "TfidfVectorizer")
"Steps that take one column of text."
UNLIKE = {
    "TargetEncoder": "encodes the data it is fitted on by cross-fitting, with numbers that it does not keep",
    "StackingClassifier": "is fitted on predictions that it does not keep",
    "StackingRegressor": "is fitted on predictions that it does not keep",
}
"Steps that did to the training data what they no longer do to any."
SEVERAL = {
    "ClassifierChain": "its estimators_[0] with y[:, order_[0]]",
    "MultiOutputClassifier": "its estimators_[0] with y[:, 0], and so on for each output",
    "MultiOutputRegressor": "its estimators_[0] with y[:, 0], and so on for each output",
    "OneVsOneClassifier": "its estimators_[0] with the rows of its first two classes, labelled 0 and 1, and so on",
    "RegressorChain": "its estimators_[0] with y[:, order_[0]]",
    "CalibratedClassifierCV": "calibrated_classifiers_[0].estimator with the rows of its fold, all but the first of its cv",
    "BaggingClassifier": "its estimators_[0] with the rows estimators_samples_[0]",
    "BaggingRegressor": "its estimators_[0] with the rows estimators_samples_[0]",
    "VotingClassifier": "its estimators_[0] with the same data",
    "VotingRegressor": "its estimators_[0] with the same data",
    "FrozenEstimator": "its estimator with the data that one was fitted on",
}
"Class -> what to audit instead: each of these holds several learners, or one that learned from other data."

Steps = tuple[tuple[str, Array], ...]


@dataclass(frozen=True, eq=False)
class Unwrapped:
    """A learner, and what is done to points and targets before it sees them."""

    estimator: Any
    prepare: Steps = ()
    steps: Preparation | None = None
    targets: Preparation | None = None


def unwrapped(model: Any) -> Unwrapped:
    """The learner inside pipelines and wrappers; of a search, the winner."""
    return _described(*parts(model))


def parts(model: Any) -> tuple[Any, list[Any], Preparation | None]:
    """The learner inside, the fitted steps before it, and what is done to targets."""
    steps: list[Any] = []
    targets: Preparation | None = None
    while True:
        name = type(model).__name__
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif name == "Pipeline" and hasattr(model, "steps"):
            steps += [_checked(step) for _, step in model.steps[:-1] if step is not None and step != "passthrough"]
            model = model.steps[-1][1]
        elif name == "TransformedTargetRegressor":
            if targets is not None or not hasattr(model, "regressor_"):
                got = "one in another" if targets is not None else "one that has learned nothing"
                raise BadInput(f"expected one fitted TransformedTargetRegressor, got {got}; pass its regressor_ instead")
            targets = _preparation([model.transformer_], _transformed_targets)
            model = model.regressor_
        elif name == "CalibratedClassifierCV" and model.ensemble is False and hasattr(model, "calibrated_classifiers_"):
            model = model.calibrated_classifiers_[0].estimator  # which was fitted on all rows
        elif name in SEVERAL:
            raise BadInput(f"expected one learner, got a {name}, which is no minimum of its own; audit {SEVERAL[name]}")
        else:
            return model, steps, targets


def _described(model: Any, steps: list[Any], targets: Preparation | None) -> Unwrapped:
    if all(type(step).__name__ in COMPUTED and not getattr(step, "clip", False) for step in steps):
        return Unwrapped(model, tuple(part for step in steps for part in _computed(step)), None, targets)
    return Unwrapped(model, (), _preparation(steps, _transformed), targets)


def _checked(step: Any) -> Any:
    """A fitted step that does to data what it did when the model was fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    name = type(step).__name__
    if hasattr(step, "fit_resample"):
        raise BadInput(
            f"expected steps that keep every row, got {name}, which draws others; pass the last step with the rows it drew"
        )
    if name in UNLIKE or not hasattr(step, "transform"):
        why = UNLIKE.get(name, "has no transform")
        raise BadInput(
            f"expected steps that prepare data, got {name}, which {why}; fit on the data as prepared and pass the last step "
            "with that data"
        )
    try:
        check_is_fitted(step)
    except (NotFittedError, TypeError):
        raise BadInput(f"expected a fitted pipeline, got a {name} that has learned nothing; call fit first") from None
    return step


def _computed(step: Any) -> list[tuple[str, Array]]:
    name = type(step).__name__
    if name == "StandardScaler":
        return _present(("subtract", step.mean_ if step.with_mean else None), ("divide", step.scale_))
    if name == "RobustScaler":
        return _present(
            ("subtract", step.center_ if step.with_centering else None),
            ("divide", step.scale_ if step.with_scaling else None),
        )
    if name == "MinMaxScaler":
        return [("multiply", step.scale_), ("add", step.min_)]
    if name == "MaxAbsScaler":
        return [("divide", step.scale_)]
    scale = np.sqrt(step.explained_variance_) if step.whiten else np.ones(len(step.components_))
    return [("subtract", step.mean_), ("matmul", step.components_.T / scale)]


def _present(*steps: tuple[str, Array | None]) -> list[tuple[str, Array]]:
    return [(kind, array) for kind, array in steps if array is not None]


def _preparation(steps: list[Any], how: Any) -> Preparation:
    return Preparation(
        ", ".join(type(step).__name__ for step in steps), identity(steps) or uuid.uuid4().hex, partial(how, steps)
    )


def identity(estimator: Any) -> str | None:
    """What two fitted estimators share only where they are the same."""
    import pickle

    import joblib

    try:
        return str(joblib.hash(estimator, hash_name="sha1"))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None  # it holds a function without a name, and no two of those can be told to be the same


def _transformed(steps: list[Any], X: Any) -> Any:
    """Points as they leave the last of the steps."""
    rows, count = _entering(steps[0], X), X.shape[0]
    for step in steps:
        name = type(step).__name__
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = step.transform(rows)
        except Exception as error:  # a step may be anybody's code
            raise BadInput(
                f"the step {name} before the model cannot take this data: {reason(error)}; pass the data as it entered the "
                "pipeline"
            ) from None
    if is_sparse(rows):
        found = rows
    else:
        try:
            found = np.asarray(rows) if np.asarray(rows).dtype.kind in "biuf" else np.asarray(rows, float)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"expected numbers from the step {name} before the model, got other values ({reason(error)}); "
                "pass the last step with the data it was fitted on"
            ) from None
    if found.shape[0] != count:
        raise BadInput(
            f"expected {count} rows from the step {name} before the model, got {found.shape[0]}; pass the last step with "
            "the rows it was fitted on"
        )
    return found


def _entering(first: Any, X: Any) -> Any:
    """Data in the form in which the first step was fitted: a frame by its names, an array, or a list of texts."""
    import pandas

    names = getattr(first, "feature_names_in_", None)
    if type(first).__name__ in VECTORIZERS:
        if not isinstance(X, Table) or X.shape[1] != 1:
            raise BadInput(
                f"expected one column of text for the step {type(first).__name__} before the model, got shape {X.shape}; "
                "pass a table of that column alone, or the last step with the matrix that the step made"
            )
        return list(X.values[0])
    if is_sparse(X):
        return X
    if not isinstance(X, Table):
        return X if names is None or len(names) != X.shape[1] else pandas.DataFrame(X, columns=names)
    columns = X.columns or (None if names is None else tuple(names))
    if names is None or columns is None:
        if all(isinstance(column, np.ndarray) for column in X.values):
            return np.column_stack(X.values)
        made = np.empty(X.shape, dtype=object)
        for k, column in enumerate(X.values):
            made[:, k] = column
        return made
    missing = [name for name in names if name not in columns]
    if missing or len(columns) != X.shape[1]:
        raise BadInput(
            f"expected the column {missing[0] if missing else names[0]!r}, which the model was fitted on, got "
            f"{', '.join(columns[:20])}; name the columns as they were"
        )
    found = {
        name: pandas.Series(list(column), dtype=object) if isinstance(column, tuple) else np.asarray(column)
        for name, column in zip(columns, X.values, strict=True)
    }
    return pandas.DataFrame({name: found[name] for name in names})


def _transformed_targets(steps: list[Any], y: Array) -> Array:
    """Targets as a TransformedTargetRegressor gives them to its regressor."""
    columns = y.reshape(-1, 1) if y.ndim == 1 else y
    found = _transformed(steps, columns)
    return np.asarray(found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found)
