"""Arrays as every room takes them: finite, read-only, of one length; or a sentence saying why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from divulge.errors import BadInput

Array = npt.NDArray[Any]


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


def frozen(array: Array) -> Array:
    array = array.view()
    array.flags.writeable = False
    return array
