"""Model files from strangers: weights read as plain numbers, estimators from types we trust, pickles only on request."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from divulge.contract import Array, Weights
from divulge.errors import BadInput
from divulge.targets.arrays import npz
from divulge.targets.folding import EPSILON, Layer, Link, Scale, Step, stack
from divulge.targets.networks import read
from divulge.targets.opening import opened

NETWORK_FILES = (".safetensors", ".pt", ".pth", ".onnx", ".npz")
PICKLES = (".joblib", ".pkl", ".pickle")
ESTIMATOR_FILES = (".skops", *PICKLES)

TRUSTED = (
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
)
"""Types that hold only numbers and settings, and functions that score features when a model is fitted, which none is here;
allowed beside scikit-learn's estimators and numpy's types, which skops knows.
Not here: trees, which follow the indices of a file without checking them."""


def network(path: Path, blob: bytes) -> Weights:
    """A ReLU network. A state dict does not say which activation it was trained with: ReLU is taken for granted."""
    with opened(path, "a network"):
        ending = path.suffix.lower()
        if ending == ".npz":
            return stack(_numbered(npz(path, blob), path))
        if ending == ".onnx":
            return stack(_onnx_steps(path, blob))
        return read(_safetensors(path, blob) if ending == ".safetensors" else _state_dict(path, blob))


def estimator(path: Path, blob: bytes, allow_pickle: bool) -> Any:
    """A fitted scikit-learn estimator."""
    if path.suffix.lower() in PICKLES:
        return _unpickled(path, blob, allow_pickle)
    with opened(path, "a skops file"):
        from skops import io as skops

        unknown = sorted(set(skops.get_untrusted_types(data=blob)) - set(TRUSTED))
        if unknown:
            raise BadInput(
                f"expected only types of scikit-learn and numpy in {path.name}, got {', '.join(unknown)}; "
                "these could run code or crash, so save the model without them"
            )
        return skops.loads(blob, trusted=list(TRUSTED))


def _unpickled(path: Path, blob: bytes, allow_pickle: bool) -> Any:
    if not allow_pickle:
        raise BadInput(
            f"{path.name} is a pickle, and reading one runs whatever code its author put in; save it again with skops, "
            "or, if you trust its author, set allow_pickle = true in the audit file or pass --allow-pickle"
        )
    with opened(path, "a pickled model"):
        import joblib

        return joblib.load(io.BytesIO(blob))


def _safetensors(path: Path, blob: bytes) -> Mapping[str, Array]:
    from safetensors.numpy import load

    try:
        found: Mapping[str, Array] = load(blob)
    except KeyError as error:
        raise BadInput(f"expected common numbers in {path.name}, got {error}; save it in float32 or float64") from None
    return found


def _state_dict(path: Path, blob: bytes) -> Mapping[str, Any]:
    import torch

    try:
        found = torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise BadInput(
            f"expected a state dict in {path.name}, got other Python objects, which could run code, or damage; "
            "save model.state_dict(), best as safetensors"
        ) from None
    for name in ("state_dict", "model_state_dict"):  # where a training checkpoint keeps it
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping):
        raise BadInput(f"expected a state dict in {path.name}, got {type(found).__name__}; save model.state_dict()")
    return found


def _numbered(arrays: Mapping[str, Array], path: Path) -> Iterator[Step]:
    for name in arrays:
        if not re.fullmatch(r"[Wb]\d+", name):
            raise BadInput(f"expected arrays W1, b1, W2, b2, ... in {path.name}, got {name!r}; save only these")
    count = sum(name.startswith("W") for name in arrays)
    for number in range(1, count + 1):
        if f"W{number}" not in arrays:
            raise BadInput(
                f"expected arrays W1 to W{count} in {path.name}, got {', '.join(arrays)}; number the layers from 1"
            )
        W = _matrix(arrays[f"W{number}"], f"W{number}")
        if number > 1:
            yield "a ReLU", None
        yield f"W{number}", (W, arrays.get(f"b{number}", np.zeros(len(W))))


def _onnx_steps(path: Path, blob: bytes) -> Iterator[Step]:
    """Gemm, or MatMul and Add, with BatchNormalization and Relu between them; the graph has to be a chain."""
    import onnx

    graph = onnx.load_model_from_string(blob).graph
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in graph.initializer):
        raise BadInput(f"expected weights inside {path.name}, got a reference to another file; save the model in one file")
    known = {tensor.name: onnx.numpy_helper.to_array(tensor).astype(float) for tensor in graph.initializer}
    inputs = [one.name for one in graph.input if one.name not in known]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise BadInput(
            f"expected one input and one output in {path.name}, got {len(inputs)} and {len(graph.output)}; "
            "export the network on its own"
        )
    flow, pending = inputs[0], None
    for node in graph.node:
        op = node.op_type
        settings = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        if op == "Constant" and "value" in settings:
            known[node.output[0]] = onnx.numpy_helper.to_array(settings["value"]).astype(float)
            continue
        if op == "Identity" and node.input[0] in known:  # how exporters share a constant
            known[node.output[0]] = known[node.input[0]]
            continue
        constants = [known[name] for name in node.input if name in known]
        data = [name for name in node.input if name and name not in known]
        title = f"{op} ({node.name})"
        if op == "LayerNormalization":
            raise BadInput(
                f"expected layers that scale every point alike in {path.name}, got {op} ({node.name}), and no ReLU "
                "network does otherwise; hold the model as predictions or gradients from where it is served"
            )
        if op not in ("Gemm", "MatMul", "Add", "Relu", "BatchNormalization", *_LINKS, *_NOTHING):
            raise BadInput(
                f"expected only Gemm, MatMul, Add, BatchNormalization, Relu and Flatten in {path.name}, with Sigmoid or "
                f"Softmax last, got {op}; export a plain ReLU network"
            )
        if data != [flow]:
            raise BadInput(
                f"expected a chain of layers in {path.name}, got a branch at {op} ({node.name}); export a plain ReLU network"
            )
        flow = node.output[0]
        if op == "Add" and pending is not None:
            W, b = pending[1]
            pending = (pending[0], (W, b + _bias(constants[0], len(W))))
            continue
        if op in _NOTHING:
            if op == "Dropout" and len(constants) == 2 and constants[1].any():
                raise BadInput(f"expected {path.name} as it answers, got {title} as in training; export it in eval mode")
            continue
        if pending is not None:
            yield pending
            pending = None
        if op == "Relu":
            yield title, None
        elif op in _LINKS:
            if settings.get("axis", -1) not in (1, -1):
                raise BadInput(f"expected {title} over a point's outputs, got axis {settings['axis']}; give it axis 1")
            yield title, Link(_LINKS[op])
        elif op == "BatchNormalization":
            if settings.get("training_mode", 0) or len(constants) != 4 or node.input[0] != data[0]:
                raise BadInput(
                    f"expected {title} with the statistics of training, got it without; export the network in eval mode"
                )
            weight, bias, mean, variance = (array.reshape(-1) for array in constants)
            yield title, Scale.of(mean, variance, weight, bias, float(settings.get("epsilon", EPSILON)))
        elif op == "Add":
            raise BadInput(f"expected Add after a MatMul in {path.name}, got it elsewhere; export a plain ReLU network")
        else:
            pending = (title, _affine(op, node.input[0] == data[0], constants, settings))
    if pending is not None:
        yield pending
    if flow != graph.output[0].name:
        raise BadInput(
            f"expected the last layer of {path.name} as its output, got {graph.output[0].name!r}; export it again"
        )


_NOTHING = ("Flatten", "Identity", "Dropout")
"What leaves a row of numbers as it is once training is over."
_LINKS = {"Sigmoid": "sigmoid", "Softmax": "softmax", "LogSoftmax": "log-softmax"}
"ONNX's name -> the link's."


def _affine(op: str, data_first: bool, constants: list[Array], settings: Mapping[str, Any]) -> Layer:
    if not data_first or not constants or settings.get("transA", 0):
        raise BadInput(
            f"expected {op} of the points with a matrix of weights, got another order; export a plain ReLU network"
        )
    W = _matrix(constants[0], f"the weights of {op}")
    W = (W if settings.get("transB", 0) else W.T) * float(settings.get("alpha", 1.0))
    if len(constants) == 1:
        return W, np.zeros(len(W))
    return W, _bias(constants[1], len(W)) * float(settings.get("beta", 1.0))


def _bias(array: Array, width: int) -> Array:
    return np.array(np.broadcast_to(array.reshape(-1), (width,)))


def _matrix(array: Array, name: str) -> Array:
    if array.ndim != 2:
        raise BadInput(f"expected a matrix for {name}, got shape {array.shape}; save it as (units, previous units)")
    return array.astype(float)
