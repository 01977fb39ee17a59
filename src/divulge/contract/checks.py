"""Arrays as every room takes them: finite, read-only, of one length; or a sentence saying why not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from divulge.arrays import Array, Layer, Layers
from divulge.errors import BadInput

REAL = (bool, int, float, np.number, np.bool_)


def numbers(value: Any, what: str, dimensions: int | None = None, or_else: str = "") -> Array:
    """A read-only floating-point array, or a sentence saying why not, and what else to do."""
    if hasattr(value, "toarray"):
        raise BadInput(f"expected a dense array for {what}, got a sparse one; pass it as .toarray()")
    try:
        array = np.asarray(value)
    except ValueError:
        raise BadInput(f"expected rows of one length for {what}, got rows of different ones; make them equal") from None
    if array.dtype.kind not in "biuf":
        raise BadInput(
            f"expected numbers for {what}, got {array.dtype}; encode text and missing values as numbers first{or_else}"
        )
    if dimensions is not None and array.ndim != dimensions:
        raise BadInput(f"expected a {dimensions}-D array for {what}, got shape {array.shape}; reshape it")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.size(array) - np.isfinite(array).sum())
        raise BadInput(
            f"expected finite numbers for {what}, got {bad} NaN or infinite values; remove or impute them{or_else}"
        )
    return frozen(array.astype(float) if array.dtype.kind != "f" else array)


def points(X: Any, what: str, or_else: str = "") -> Array:
    """Points as rows: a finite read-only array (n, features)."""
    shape = X.shape if hasattr(X, "shape") else numbers(X, f"the {what} points", or_else=or_else).shape
    if len(shape) == 1:
        raise BadInput(
            f"expected a 2-D array of {what} points, got shape {shape}; reshape one point with X.reshape(1, -1), "
            "one feature with X.reshape(-1, 1)"
        )
    if len(shape) > 2:
        raise BadInput(
            f"expected a 2-D array of {what} points, got shape {shape}; flatten pictures with X.reshape(len(X), -1) "
            "and pass their shape"
        )
    rows = numbers(X, f"the {what} points", dimensions=2, or_else=or_else)
    if rows.size == 0:
        raise BadInput(f"expected at least one {what} point, got shape {rows.shape}; check which rows were selected")
    return rows


def labels(y: Any, count: int, what: str) -> Array:
    """One label or target a point: numbers, or names of classes; a column (n, 1) is taken as n of them."""
    array = _plain(np.asarray(y), what)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    array = frozen(array) if array.dtype.kind == "U" else numbers(array, f"the {what} labels")
    if array.shape[:1] != (count,):
        raise BadInput(
            f"expected one label for each of the {count} {what} points, got shape {array.shape}; "
            "check that X and y belong together"
        )
    return array


def _plain(array: Array, what: str) -> Array:
    """Objects, as pandas keeps labels, as text or numbers where they are all of one kind."""
    if array.dtype.kind != "O" or not array.ndim:
        return array
    kinds = {str if isinstance(one, str) else float if isinstance(one, REAL) else type(one) for one in array.flat}
    gaps = [one for one in array.flat if one is None or one != one or type(one).__name__ in ("NAType", "NaTType")]
    if gaps:
        raise BadInput(f"expected a label for each of the {what} points, got {len(gaps)} without; drop those rows")
    if len(kinds) > 1:
        listed = " and ".join(sorted({type(one).__name__ for one in array.flat}))
        raise BadInput(f"expected labels of one kind for the {what} points, got {listed}; make them all text or all numbers")
    return array.astype(str) if kinds == {str} else array.astype(float) if kinds == {float} else array


def names(value: Any, count: int, what: str) -> Array:
    """What records are called, each once: whole numbers or text."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.round(array)).all():
        array = array.astype(np.int64)  # as tables read numbers where a row has none
    if array.dtype.kind not in "iuU":
        raise BadInput(f"expected whole numbers or text as records of the {what}, got {array.dtype}; name every record")
    if array.shape != (count,):
        raise BadInput(f"expected one record for each of the {count} {what}, got shape {array.shape}; name every one")
    distinct, often = np.unique(array, return_counts=True)
    if len(distinct) < count:
        twice = f"{str(distinct[often.argmax()])!r} {often.max()} times"
        raise BadInput(f"expected every record of the {what} once, got {twice}; remove what is there again")
    return frozen(array)


def bound(value: Any, features: int, what: str) -> Array:
    """A limit for every feature (features,), given as one number for all or one for each."""
    limit = numbers(value, what)
    if limit.shape not in ((), (features,)):
        raise BadInput(
            f"expected one number for {what}, or one for each of the {features} features, got shape {limit.shape}; "
            "give one of the two"
        )
    return frozen(np.broadcast_to(limit, (features,)).astype(float))


def refuse_outside(X: Array, low: Array | None, high: Array | None) -> None:
    """Refuse limits that are the wrong way round, or that leave out points of X (n, features)."""
    if low is not None and high is not None and (low > high).any():
        reversed_in = np.flatnonzero(low > high)
        first = reversed_in[0]
        raise BadInput(
            f"expected low ≤ high in every feature, got {low[first]:g} and {high[first]:g} in feature {first}, one of "
            f"{len(reversed_in)} the wrong way round; exchange or correct them"
        )
    beyond = np.zeros_like(X)
    # Limits are rounded as the points were; one that their precision cannot hold limits nothing.
    with np.errstate(over="ignore"):
        if low is not None:
            beyond = np.maximum(beyond, low.astype(X.dtype) - X)
        if high is not None:
            beyond = np.maximum(beyond, X - high.astype(X.dtype))
    outside = (beyond > 0).any(axis=1)
    if outside.any():
        worst = int(beyond.max(axis=0).argmax())
        raise BadInput(
            f"expected every training and validation point within low and high, got {int(outside.sum())} of {len(X)} "
            f"outside, the furthest by {beyond[:, worst].max():g} in feature {worst}; widen the box or correct the data"
        )


def numbered(value: Any, features: int, what: str) -> Array:
    """A whole number from 0 for every feature."""
    array = numbers(value, what)
    if array.shape != (features,):
        raise BadInput(
            f"expected a whole number for each of the {features} features as {what}, got shape {array.shape}; "
            "give one a feature"
        )
    wrong = array[(array < 0) | (array != np.round(array))]
    if len(wrong):
        raise BadInput(f"expected whole numbers from 0 as {what}, got {wrong[0]:g}; number them 0, 1, 2, ...")
    return frozen(array.astype(np.int64))


def check_points(access: Any, what: str, *, labelled: bool = False) -> None:
    """Check and freeze what kinds made of points have in common; with `labelled`, labels have to be there."""
    object.__setattr__(access, "X", points(access.X, what))
    check_labels(access, what, labelled=labelled)


def check_labels(access: Any, what: str, *, labelled: bool = False) -> None:
    """Check and freeze what belongs to points that have been checked: labels, sample weights, the shape of one."""
    count = access.X.shape[0]
    if labelled or access.y is not None:
        object.__setattr__(access, "y", labels(access.y, count, what))
    weight = getattr(access, "sample_weight", None)
    if weight is not None:
        weight = numbers(weight, "sample weights", dimensions=1)
        if len(weight) != count or weight.min() < 0 or weight.max() == 0:
            raise BadInput(
                f"expected one sample weight for each of the {count} {what} points, none negative and not all 0, "
                f"got {len(weight)} from {weight.min():g} to {weight.max():g}; correct sample_weight"
            )
        object.__setattr__(access, "sample_weight", weight)
    check_shape(access, access.X.shape[1])


def check_input(access: Any, features: int) -> None:
    """Check and freeze what is known of a model's inputs."""
    if access.mean is not None:
        mean = numbers(access.mean, "what is subtracted from an input", dimensions=1)
        if len(mean) != features:
            raise BadInput(
                f"expected {features} numbers to subtract from an input, got {len(mean)}; give the mean of one flat input"
            )
        object.__setattr__(access, "mean", mean)
    check_shape(access, features)


def dense_layers(layers: Any, what: str) -> tuple[Layer, ...]:
    """Layers (W (units, inputs), b (units,)) of a network, each taking what the one before it gives."""
    if not layers:
        raise BadInput(f"expected at least one layer (W, b) of {what}, got none; pass layers=[(W1, b1), ...]")
    checked: list[Layer] = []
    for number, (W, b) in enumerate(layers, 1):
        W = numbers(W, f"layer {number}'s weights", dimensions=2)
        b = numbers(b, f"layer {number}'s bias", dimensions=1)
        width = len(checked[-1][1]) if checked else None
        if len(b) != len(W) or (width is not None and W.shape[1] != width):
            raise BadInput(
                f"layer {number} has weights {W.shape} and bias {b.shape} after a layer of width {width}; "
                "expected W of shape (units, previous units) and b of shape (units,)"
            )
        checked.append((W, b))
    return tuple(checked)


def start_of(layers: Layers, start: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The part of a start that a network of these layers was trained from: all of it, or all but a head that is new."""
    ours, theirs = ((some[0][0].shape[1], *(len(b) for _, b in some)) for some in (layers, start))
    shared = len(start) - (len(start) == len(layers) and ours[:-1] == theirs[:-1] and ours != theirs)
    if not shared or ours[: shared + 1] != theirs[: shared + 1]:
        raise BadInput(
            f"expected a start of the network's own widths {_chain(ours)}, but for its head, got {_chain(theirs)}; give the "
            "network that this one was trained from"
        )
    if shared == len(layers) and all(map(_same, layers, start)):
        raise BadInput("expected a start that training moved, got the network itself; give what it was before training")
    return start[:shared]


def _same(one: Layer, other: Layer) -> bool:
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def _chain(widths: Sequence[int]) -> str:
    return "-".join(map(str, widths))


def check_shape(access: Any, features: int) -> None:
    shape = getattr(access, "shape", None)
    if shape is None:
        return
    sides = tuple(shape) if isinstance(shape, Sequence) else ()
    whole = all(isinstance(side, int | np.integer) and side > 0 for side in sides)
    if not sides or not whole or math.prod(sides) != features:
        raise BadInput(f"a picture of shape {shape} does not fill {features} features; correct shape")
    object.__setattr__(access, "shape", tuple(int(side) for side in sides))


def frozen(array: Array) -> Array:
    array = array.view()
    array.flags.writeable = False
    return array
