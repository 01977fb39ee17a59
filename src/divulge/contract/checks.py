"""Arrays as every room takes them: finite, read-only, of one length; or a sentence saying why not."""

from __future__ import annotations

from typing import Any

import numpy as np

from divulge.arrays import Array
from divulge.errors import BadInput


def numbers(value: Any, what: str, dimensions: int | None = None) -> Array:
    """A read-only floating-point array, or a sentence saying why not."""
    if hasattr(value, "toarray"):
        raise BadInput(f"expected a dense array for {what}, got a sparse one; pass it as .toarray()")
    try:
        array = np.asarray(value)
    except ValueError:
        raise BadInput(f"expected rows of one length for {what}, got rows of different ones; make them equal") from None
    if array.dtype.kind not in "biuf":
        raise BadInput(f"expected numbers for {what}, got {array.dtype}; encode text and missing values as numbers first")
    if dimensions is not None and array.ndim != dimensions:
        raise BadInput(f"expected a {dimensions}-D array for {what}, got shape {array.shape}; reshape it")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.size(array) - np.isfinite(array).sum())
        raise BadInput(f"expected finite numbers for {what}, got {bad} NaN or infinite values; remove or impute them")
    return frozen(array.astype(float) if array.dtype.kind != "f" else array)


def points(X: Any, what: str) -> Array:
    """Points as rows: a finite read-only array (n, features)."""
    shape = X.shape if hasattr(X, "shape") else numbers(X, f"the {what} points").shape
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
    rows = numbers(X, f"the {what} points", dimensions=2)
    if rows.size == 0:
        raise BadInput(f"expected at least one {what} point, got shape {rows.shape}; check which rows were selected")
    return rows


def labels(y: Any, count: int, what: str) -> Array:
    """One label or target a point: numbers, or names of classes."""
    array = np.asarray(y)
    array = frozen(array) if array.dtype.kind == "U" else numbers(array, f"the {what} labels")
    if array.shape[:1] != (count,):
        raise BadInput(
            f"expected one label for each of the {count} {what} points, got shape {array.shape}; "
            "check that X and y belong together"
        )
    return array


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


def frozen(array: Array) -> Array:
    array = array.view()
    array.flags.writeable = False
    return array
