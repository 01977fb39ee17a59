"""A torch module or a scikit-learn estimator in memory: what it answers. What it learned is read next door."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from divulge.contract import Array, Copy, Gradients, Predictions, Weights
from divulge.errors import BadInput
from divulge.targets.folding import LINKS, bent
from divulge.targets.learners import learned, secrets
from divulge.targets.networks import is_module, jacobian, layers, read
from divulge.targets.perceptrons import is_estimator, perceptron
from divulge.targets.training import trained
from divulge.targets.wrappers import identity as estimator_identity

__all__ = ["connect", "described", "layers", "learned", "queries", "secrets", "trained", "weights"]

Q = TypeVar("Q", bound=Predictions)
Ask = Callable[[Array], Array]

BATCH = 1024
"Rows sent through a module at once: enough to keep it busy, few enough for a Jacobian to fit in memory."


def queries(cls: type[Q], model: object, shape: tuple[int, ...] | None = None) -> Q:
    """Ask a model in memory. It is copied first, so that it stays the model its identity names if training goes on."""
    if isinstance(model, Weights):
        value, slopes = partial(_answers, model), partial(_slopes, model)
        found = _target(cls, value, slopes, model.dimension, _weights_identity(model))
        return replace(found, shape=model.shape)
    if isinstance(model, Copy):
        from divulge.solvers.shared.architectures import restore

        module = restore(model.architecture, model.shape, model.classes, model.arrays)
        return _module_queries(cls, module, math.prod(model.shape))
    if is_module(model):
        width = _input_width(model)
        if shape is None or math.prod(shape) == width:  # pictures go into a dense layer flat
            return replace(_module_queries(cls, model, width), shape=_picture(shape))
        return _module_queries(cls, model, math.prod(shape), shape)
    if is_estimator(model):
        return _estimator_queries(cls, model)
    raise BadInput(
        f"expected a torch module or a fitted scikit-learn estimator, got {type(model).__name__}; {_by_hand(cls)}"
    )


def weights(model: object) -> dict[str, Any]:
    """The fields of `Weights`: the network of a torch module, of a state dict, or of a scikit-learn estimator."""
    network = perceptron(model) if is_estimator(model) else read(model)
    return {"layers": network.layers, "mean": network.mean, "link": network.link, "folded": network.folded}


def _answers(network: Weights, X: Array) -> Array:
    """What the model answers that a network was read from, its link included."""
    scores = network.predict(X)
    return LINKS[network.link](scores) if network.link else scores


def _slopes(network: Weights, X: Array) -> Array:
    slopes = jacobian(network, X)
    if not network.link:
        return slopes
    scores = network.predict(X)
    found = bent(network.link, scores, slopes.reshape(*scores.shape, -1))
    return found.reshape(slopes.shape)


def connect(cls: type[Q], url: str, options: Mapping[str, Any]) -> Q:
    """Ask a model on a server."""
    from divulge.targets import remote

    return cast(Q, remote.connect(cls.kind, url, options))


def described(model: object) -> str:
    """Which torch module this is: its structure and its weights."""
    if not is_module(model):
        raise BadInput(f"expected the name of a learner or a torch module, got {type(model).__name__}; name one")
    return f"module {_module_identity(model)}"


def _module_queries(cls: type[Q], module: Any, dimension: int | None, shape: tuple[int, ...] | None = None) -> Q:
    import torch

    kind = type(module).__name__
    if dimension is None:
        raise BadInput(
            f"expected a module that starts with a Linear layer, got {kind}; give the shape of one input, as in "
            f"{cls.__name__}.of(module, shape=(3, 32, 32)), or {_by_hand(cls)}"
        )
    identity = _module_identity(module)
    try:
        module = deepcopy(module).eval().requires_grad_(False)
    except RuntimeError as error:
        raise BadInput(f"expected a module that can be copied, got {kind} ({_line(error)}); {_by_hand(cls)}") from None
    like = next(one for one in module.parameters() if one.is_floating_point())

    def batches(X: Array) -> Any:
        return torch.split(torch.as_tensor(np.array(X), dtype=like.dtype, device=like.device), BATCH)

    def answer(rows: Any) -> Any:
        out = module(rows if shape is None else rows.reshape(len(rows), *shape))
        if not isinstance(out, torch.Tensor) or len(out) != len(rows):
            raise BadInput(f"expected one row of values a point from {kind}, got {type(out).__name__}; {_by_hand(cls)}")
        return out.flatten(1) if out.ndim > 1 else out

    def slopes(rows: Any) -> Any:
        rows = rows.detach().requires_grad_()
        with torch.enable_grad():
            out = answer(rows.clone())  # a module may write into what it is given
            if not out.requires_grad:
                raise BadInput(
                    f"expected values that can be differentiated, got a {kind} that returns constants; ask for values"
                )
            # Rows do not mix in eval mode, so the gradient of a sum over rows holds every row's own.
            columns = out.reshape(len(rows), -1).sum(0)
            found = [
                torch.autograd.grad(one, rows, retain_graph=True, materialize_grads=True)[0] for one in columns.unbind()
            ]
        return found[0] if len(found) == 1 else torch.stack(found, 1)

    def ask(how: Callable[[Any], Any], X: Array) -> Array:
        with torch.no_grad():
            return np.concatenate([how(rows).detach().cpu().double().numpy() for rows in batches(X)])

    try:
        ask(answer, np.zeros((2, dimension)))
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"expected {kind} to take points as rows of {dimension} numbers, but it said: {_line(error)}; {_by_hand(cls)}"
        ) from None
    found = _target(cls, partial(ask, answer), partial(ask, slopes), dimension, identity)
    return replace(found, shape=_picture(shape), first_layer=_not_dense(module))


def _picture(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The shape of a picture, where that is what goes in; one channel alone is none."""
    if shape is None or len(shape) not in (2, 3):
        return None
    return tuple(shape[1:]) if len(shape) == 3 and shape[0] == 1 else tuple(shape)


def _not_dense(module: Any) -> str:
    """The first layer that has weights, where it is not dense."""
    for name, part in module.named_modules():
        if next(part.parameters(recurse=False), None) is not None:
            dense = isinstance(getattr(part, "in_features", None), int)
            return "" if dense else f"{name or 'the whole'} ({type(part).__name__})"
    return ""


def _input_width(module: Any) -> int | None:
    """The width of the first layer that has weights, if that layer is dense; BatchNorm before it is as wide."""
    for part in (module, *module.modules()):
        if type(part).__name__ == "BatchNorm1d":
            continue
        width = getattr(part, "in_features", None)
        if isinstance(width, int):
            return width or None
        if next(part.parameters(recurse=False), None) is not None:
            return None
    return None


def _module_identity(module: Any) -> str:
    """Two modules share it only if their weights, their layers and the code of their forwards are the same."""
    import torch

    digest = hashlib.sha256(repr(module).encode())
    for part in module.modules():
        code = getattr(type(part).forward, "__code__", None)
        constants = [one for one in getattr(code, "co_consts", ()) if isinstance(one, int | float | str)]
        text = (type(part).__module__, type(part).__qualname__, getattr(code, "co_code", b""), getattr(code, "co_names", ()))
        digest.update(repr((text, constants)).encode())
    for name, value in module.state_dict().items():
        digest.update(f"{name} ".encode())
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:32]


def _weights_identity(network: Weights) -> str:
    digest = hashlib.sha256()
    arrays = [array for layer in network.layers for array in layer]
    digest.update(network.link.encode())
    for array in arrays if network.mean is None else [*arrays, network.mean]:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def _estimator_queries(cls: type[Q], estimator: Any) -> Q:
    kind = type(estimator).__name__
    dimension = getattr(estimator, "n_features_in_", None)
    if dimension is None:
        raise BadInput(f"expected a fitted {kind}, got one that has learned nothing; call fit first")
    identity = estimator_identity(estimator)
    estimator = deepcopy(estimator)
    method = next((name for name in ("decision_function", "predict_proba", "predict") if hasattr(estimator, name)), None)
    if method is None:
        raise BadInput(f"expected an estimator that predicts, got {kind}; pass the model, not a step that prepares its data")
    columns = getattr(estimator, "feature_names_in_", None)

    def value(X: Array) -> Array:
        rows: Any = X
        if columns is not None:  # fitted on a table, and looks its columns up by name
            import pandas

            rows = pandas.DataFrame(X, columns=columns)
        answer = np.asarray(getattr(estimator, method)(rows))
        if answer.dtype.kind not in "biuf":
            raise BadInput(f"expected {kind} to answer numbers, got {answer.dtype}; fit it with classes named by numbers")
        return answer.astype(float)

    if issubclass(cls, Gradients):
        coef = _coefficients(estimator, value, dimension)

        def gradient(X: Array) -> Array:
            return np.repeat(coef if len(coef) == 1 else coef[None], len(X), axis=0)

        return _target(cls, value, gradient, dimension, identity)
    return _target(cls, value, None, dimension, identity)


def _coefficients(estimator: Any, value: Ask, dimension: int) -> Array:
    """The gradient (outputs, dimension) of a linear estimator; believed only after its answers were seen to follow it."""
    coef = getattr(estimator, "coef_", None)
    if coef is not None:
        coef = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef).astype(float)
        X = np.random.default_rng(0).standard_normal((8, dimension))
        rise = (value(X) - value(np.zeros_like(X))).reshape(len(X), -1)
        if coef.shape == (rise.shape[1], dimension) and np.allclose(
            rise, X @ coef.T, rtol=1e-6, atol=1e-6 * np.abs(rise).max()
        ):
            return coef
    raise BadInput(
        f"expected a linear estimator or a torch module for gradients, got {type(estimator).__name__}; "
        f"{_by_hand(Gradients)}, or hold Predictions of it"
    )


def _target(cls: type[Q], value: Ask, gradient: Ask | None, dimension: int, identity: str | None) -> Q:
    made: Any = cls if identity is None else partial(cls, identity=identity)
    if issubclass(cls, Gradients):
        return cast(Q, made(value=value, gradient=gradient, dimension=int(dimension)))
    return cast(Q, made(value=value, dimension=int(dimension)))


def _by_hand(cls: type[Predictions]) -> str:
    gradient = "gradient=..., " if issubclass(cls, Gradients) else ""
    return f"build {cls.__name__}(value=..., {gradient}dimension=...) by hand"


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
