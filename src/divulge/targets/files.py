"""What an attacker holds, read from a file: points, labels, fitted models, networks, hyperparameters, membership scores."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from divulge.arrays import Layer
from divulge.contract import (
    Access,
    Array,
    Candidates,
    Fitted,
    Gradients,
    Hyperparameters,
    Kernel,
    Membership,
    Parameters,
    Pipeline,
    Poison,
    Predictions,
    Scores,
    TrainingData,
    Weights,
)
from divulge.errors import BadInput, refuse_unknown
from divulge.targets import local
from divulge.targets.arrays import npy, npz, rows, text, whole_numbers
from divulge.targets.learners import unfolded
from divulge.targets.models import ESTIMATOR_FILES, NETWORK_FILES, estimator, network
from divulge.targets.opening import contents, opened
from divulge.targets.tables import TABLES, column, flags, records, table

Options = Mapping[str, Any]
Reader = Callable[[Path, Options, bool], Access]


def read(kind: str, path: Path, options: Options, *, allow_pickle: bool = False) -> Access:
    """Something held, of a kind such as "training_data" or "weights", with options such as target = "label"."""
    if kind not in _READERS:
        raise BadInput(f"expected a kind that files can hold ({', '.join(_READERS)}), got {kind!r}; correct the kind")
    reader, known = _READERS[kind]
    path = Path(path)
    refuse_unknown(options, known, f"{kind} in {path.name}")
    try:
        return reader(path, options, allow_pickle)
    except BadInput as error:
        # Names in a stranger's file may hold anything, even orders to the terminal that shows them.
        raise BadInput("".join(sign if sign.isprintable() else "?" for sign in str(error))) from None


def _training_data(path: Path, options: Options, allow_pickle: bool) -> TrainingData:
    found = rows(path, options, "training points", raw=True)
    return TrainingData(found.X, found.y, found.sample_weight, found.shape)


def _candidates(path: Path, options: Options, allow_pickle: bool) -> Candidates:
    found = rows(path, options, "candidate points")
    return Candidates(found.X, found.y, found.shape)


def _poison(path: Path, options: Options, allow_pickle: bool) -> Poison:
    found = rows(path, options, "poison points")
    return Poison(found.X, _labels(found.y, path), found.shape)


def _pipeline(path: Path, options: Options, allow_pickle: bool) -> Pipeline:
    """Validation points come from the file named by `validation`, or from the arrays X_val and y_val of an npz.

    `low` and `high` are numbers; an npz may hold them as arrays of these names, and `groups`. `learner` is a name, or the
    file of an estimator, fitted or not.
    """
    found = rows(path, options, "training points")
    same = {name: options[name] for name in ("features", "target", "shape", "scale") if name in options}
    if "validation" in options:
        other = path.parent / text(options, "validation", "")
    elif path.suffix.lower() == ".npz":
        other = path
        same["features"] = options.get("validation_features", "X_val")
        same["target"] = options.get("validation_target", "y_val")
    else:
        raise BadInput(f"expected validation points beside {path.name}, got none; name their file with validation")
    held_out = rows(other, same, "validation points")
    learner: Any = text(options, "learner", "logistic")
    if Path(learner).suffix.lower() in ESTIMATOR_FILES:
        named = path.parent / learner
        learner = estimator(named, contents(named, ESTIMATOR_FILES, "an estimator"), allow_pickle)
    y, y_val = _labels(found.y, path), _labels(held_out.y, other)
    return Pipeline(found.X, y, held_out.X, y_val, learner, found.shape, **_limits(path, options))


def _limits(path: Path, options: Options) -> dict[str, Any]:
    """What a pipeline says of its features, pictures flat as its points are; options go before arrays."""
    found: dict[str, Any] = {}
    if path.suffix.lower() == ".npz":
        arrays = npz(path, contents(path, (".npz",), "a pipeline"), ("low", "high", "groups"))
        found = {name: array.reshape(-1) if array.ndim else array for name, array in arrays.items()}
    for name in ("low", "high"):
        if name in options:
            found[name] = options[name]
            if type(found[name]) not in (int, float):
                raise BadInput(
                    f"expected a number for {name}, got {found[name]!r}; for one a feature, save an array {name} in an npz"
                )
    return found


def _membership(path: Path, options: Options, allow_pickle: bool) -> Membership:
    """Who is a member, as an auditor knows it; with scores where `score` names some."""
    found = _recorded(path, options, "membership", ("member", *(["score"] if "score" in options else [])))
    called = found["member"]
    if not np.isin(called, (0, 1)).all():
        raise BadInput(
            f"expected 1 for members and 0 for others in {path.name}, got other values; correct them, or name the right "
            "ones with member"
        )
    return Membership(found.get("score", called), called, found.get("record"))


def _scores(path: Path, options: Options, allow_pickle: bool) -> Scores:
    found = _recorded(path, options, "membership scores", ("score",))
    return Scores(found["score"], found.get("record"), text(options, "source", path.name))


def _recorded(path: Path, options: Options, what: str, needed: Collection[str]) -> dict[str, Array]:
    """Arrays of an npz or columns of a table with one value a record, called as the options say.

    Rows of a table must say which record they are, unless `record` is empty: two tables rarely have one order.
    """
    blob = contents(path, (".npz", *TABLES), what)
    archive = path.suffix.lower() == ".npz"
    names = {option: text(options, option, _RECORDED[option][not archive]) for option in ("record", *needed)}
    if names["record"] == "":
        names.pop("record")
    if archive:
        arrays = npz(path, blob)
        if "record" not in options and names.get("record") not in arrays:
            names.pop("record", None)
        there, kind = list(arrays), "an array"
    else:
        frame = table(path, blob)
        there, kind = list(frame.columns), "a column"
    for option, name in names.items():
        if name not in there:
            order = ', or write record = "" where rows count in their order' if option == "record" else ""
            raise BadInput(
                f"expected {kind} named {name!r} in {path.name}, got {', '.join(there) or 'none'}; name the right one with "
                f"{option}{order}"
            )
    if archive:
        return {option: arrays[name] for option, name in names.items()}
    readers = {"record": records, "score": column, "member": flags}
    return {option: readers[option](frame, name, path) for option, name in names.items()}


def _fitted(path: Path, options: Options, allow_pickle: bool) -> Fitted:
    endings = (*ESTIMATOR_FILES, *(ending for ending in NETWORK_FILES if ending != ".npz"), ".npz")
    blob = contents(path, endings, "a fitted model")
    if path.suffix.lower() in ESTIMATOR_FILES:
        return _estimator(path, blob, options, allow_pickle)
    if path.suffix.lower() != ".npz":
        return Fitted("network", layers=unfolded(network(path, blob)))
    if not isinstance(options.get("learner"), str):
        raise BadInput(f'expected the learner of the arrays in {path.name}, got none; name it as in learner = "ridge"')
    settings = options.get("settings", {})
    if not isinstance(settings, Mapping):
        raise BadInput(f"expected named values for settings, got {settings!r}; write it as a table")
    return Fitted(options["learner"], *_arrays(path, blob, options), settings=dict(settings))


def _parameters(path: Path, options: Options, allow_pickle: bool) -> Parameters:
    blob = contents(path, (*ESTIMATOR_FILES, ".npz"), "parameters")
    if path.suffix.lower() == ".npz":
        return Parameters(*_arrays(path, blob, options))
    found = _estimator(path, blob, options, allow_pickle)
    if found.prepare or found.steps:
        raise BadInput(
            f"expected a single model in {path.name}, got a pipeline, whose coefficients are not in the units of its input; "
            "save the arrays as .npz"
        )
    return Parameters(found.coef, found.intercept, found.dual_coef, found.kernel)


def _estimator(path: Path, blob: bytes, options: Options, allow_pickle: bool) -> Fitted:
    if options:
        raise BadInput(f"expected no options for {path.name}, which says what it is, got {', '.join(options)}; remove them")
    model = estimator(path, blob, allow_pickle)
    with opened(path, "a fitted model"):
        return Fitted.of(model)


def _arrays(path: Path, blob: bytes, options: Options) -> tuple[Array | None, Array | None, Array | None, Kernel | None]:
    arrays = npz(path, blob, ("coef", "intercept", "dual_coef"))
    kernel = None
    if "kernel" in options:
        with opened(path, "a kernel"):
            settings = {name: float(options[name]) for name in _KERNEL[1:] if name in options}
            kernel = Kernel(text(options, "kernel", ""), **settings)
    return arrays.get("coef"), arrays.get("intercept"), arrays.get("dual_coef"), kernel


def _weights(path: Path, options: Options, allow_pickle: bool) -> Weights:
    """`shape` of a picture that goes in, `mean`: the file of what is subtracted from it before the first layer, and `start`:
    that of the network this one was trained from."""
    found = _network(path, allow_pickle)
    mean = found.mean
    if "mean" in options:
        told = mean_of(Path(text(options, "mean", "")), found.dimension)
        mean = told if mean is None else told + mean
    return replace(found, mean=mean, shape=whole_numbers(options, "shape", least=1), start=started_from(options))


def _network(path: Path, allow_pickle: bool) -> Weights:
    blob = contents(path, (*NETWORK_FILES, *ESTIMATOR_FILES), "a network")
    if path.suffix.lower() in NETWORK_FILES:
        return network(path, blob)
    model = estimator(path, blob, allow_pickle)
    with opened(path, "a fitted network"):
        return Weights.of(model)


def started_from(options: Options) -> tuple[Layer, ...] | None:
    """The layers of the network that an option names."""
    if "start" not in options:
        return None
    path = Path(text(options, "start", ""))
    return network(path, contents(path, NETWORK_FILES, "a start")).layers


def mean_of(path: Path, dimension: int) -> Array:
    blob = contents(path, (".npy", ".npz"), "the mean of the inputs")
    found = [npy(path, blob)] if path.suffix.lower() == ".npy" else list(npz(path, blob).values())
    if len(found) != 1:
        raise BadInput(f"expected one array in {path.name}, the mean of the inputs, got {len(found)}; save it alone")
    if found[0].size != dimension:
        raise BadInput(
            f"expected a mean of {dimension} numbers in {path.name}, as many as the network has inputs, got shape "
            f"{found[0].shape}; save the mean of all training inputs, each flat as the network takes it"
        )
    return found[0].reshape(-1)


def _queries(cls: type[Predictions]) -> Reader:
    """A model in a file asked as if it stood behind an API. It is the same model as long as the file is the same."""

    def reader(path: Path, options: Options, allow_pickle: bool) -> Predictions:
        blob = contents(path, (*NETWORK_FILES, *ESTIMATOR_FILES), "a model")
        model: object
        mean = None
        if path.suffix.lower() in NETWORK_FILES:
            model = read = network(path, blob)
            if "mean" in options:
                mean = mean_of(Path(text(options, "mean", "")), read.dimension)
                model = replace(read, mean=mean)
        elif given := [name for name in ("mean", "start") if name in options]:
            raise BadInput(f"option {given[0]!r} is for networks, got it for {path.name}; put the step into its pipeline")
        else:
            model = estimator(path, blob, allow_pickle)
        with opened(path, "a fitted model"):
            asked, identity = local.queries(cls, model), hashlib.sha256(blob).hexdigest()[:32]
            shape, start = whole_numbers(options, "shape", least=1), started_from(options)
            return replace(asked, identity=identity, mean=mean, shape=shape, start=start)

    return reader


def _hyperparameters(path: Path, options: Options, allow_pickle: bool) -> Hyperparameters:
    blob = contents(path, (".json", ".toml", *ESTIMATOR_FILES), "hyperparameters")
    ending = path.suffix.lower()
    if ending in ESTIMATOR_FILES:
        model = estimator(path, blob, allow_pickle)
        with opened(path, "a fitted model"):
            return Hyperparameters.of(model)
    with opened(path, "hyperparameters"):
        values = json.loads(blob) if ending == ".json" else tomllib.loads(blob.decode())
        if not isinstance(values, dict):
            raise BadInput(f'expected named numbers in {path.name}, got {type(values).__name__}; write {{"alpha": 0.1}}')
        return Hyperparameters(values)


def _labels(y: Array | None, path: Path) -> Array:
    if y is None:
        raise BadInput(f"expected a label for every point of {path.name}, got none; name them with target")
    return y


_ROWS = ("features", "target", "shape", "scale", "rows")
_PIPELINE = (*_ROWS, "learner", "validation", "validation_features", "validation_target", "low", "high")
_RECORDED = {"record": ("records", "record"), "score": ("scores", "score"), "member": ("decisions", "member")}
"Option -> what an array of an npz is called unless it says otherwise, and a column of a table."
_KERNEL = ("kernel", "gamma", "degree", "coef0")
_READERS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "training_data": (_training_data, (*_ROWS, "weights")),
    "candidates": (_candidates, _ROWS),
    "poison": (_poison, _ROWS),
    "pipeline": (_pipeline, _PIPELINE),
    "membership": (_membership, ("record", "member", "score")),
    "scores": (_scores, ("record", "score", "source")),
    "fitted": (_fitted, ("learner", *_KERNEL, "settings")),
    "parameters": (_parameters, _KERNEL),
    "weights": (_weights, ("mean", "shape", "start")),
    "predictions": (_queries(Predictions), ("mean", "shape", "start")),
    "gradients": (_queries(Gradients), ("mean", "shape", "start")),
    "hyperparameters": (_hyperparameters, ()),
}
"Kind -> who reads it, and the options it takes."
