"""Points, labels and sample weights out of npz, npy, csv and parquet files. Nothing in them is ever unpickled."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from divulge.contract import Array
from divulge.errors import BadInput
from divulge.targets.opening import contents, opened
from divulge.targets.tables import TABLES, cells, column, labels, table

ROW_FILES = (".npz", ".npy", *TABLES)
NAMED_BY = {"X": "features", "y": "target", "sample_weight": "weights"}
"Which option names which part. An npz usually calls its arrays by the names of the parts."


@dataclass(frozen=True, eq=False)
class Rows:
    """What a file says about its points; contract types check it."""

    X: Any
    "An array; where it was asked for, a matrix of scipy.sparse or a pandas table."
    y: Array | None = None
    sample_weight: Array | None = None
    shape: tuple[int, ...] | None = None


def rows(path: Path, options: Mapping[str, Any], what: str, *, raw: bool = False) -> Rows:
    """Points as rows. `features`, `target` and `weights` name arrays of an npz, columns of a table, files beside an npy.

    With `raw`, a sparse matrix stays one, and a table may have text and gaps, for a model whose pipeline takes them.
    """
    blob = contents(path, ROW_FILES, what)
    ending = path.suffix.lower()
    if ending == ".npz":
        matrix = sparse_matrix(path, blob) if raw else None
        found = _from_npz(path, blob, options) if matrix is None else _from_sparse(path, blob, matrix, options)
    elif ending == ".npy":
        found = _from_npy(path, blob, options)
    else:
        found = _from_table(path, blob, options, raw)
    with opened(path, what):
        return _prepared(found, options)


def npz(path: Path, blob: bytes, wanted: Collection[str] | None = None) -> dict[str, Array]:
    """The arrays of an npz file, or those of them that are wanted."""
    with opened(path, "an npz archive"):
        archive = np.load(io.BytesIO(blob), allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise BadInput(f"expected an npz archive in {path.name}, got a single array; rename it to end in .npy")
        return {name: archive[name] for name in archive.files if wanted is None or name in wanted}


def npy(path: Path, blob: bytes) -> Array:
    """The array of an npy file."""
    with opened(path, "an npy array"):
        array = np.load(io.BytesIO(blob), allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise BadInput(f"expected a single array in {path.name}, got an archive; rename it to end in .npz")
        return array


def text(options: Mapping[str, Any], option: str, default: str) -> str:
    """An option that is one name."""
    given = options.get(option, default)
    if not isinstance(given, str):
        raise BadInput(f"expected one name for {option}, got {given!r}; write it as text")
    return given


def _from_npz(path: Path, blob: bytes, options: Mapping[str, Any]) -> Rows:
    names = {field: text(options, option, field) for field, option in NAMED_BY.items()}
    arrays = npz(path, blob, names.values())
    for field, option in NAMED_BY.items():
        if names[field] not in arrays and (field == "X" or option in options):
            raise BadInput(
                f"expected an array named {names[field]!r} in {path.name}, got {', '.join(_names(blob)) or 'none'}; "
                f"name the right one with {option}"
            )
    return Rows(**{field: arrays.get(name) for field, name in names.items()})  # type: ignore[arg-type]  # X is there


def _from_npy(path: Path, blob: bytes, options: Mapping[str, Any]) -> Rows:
    if "features" in options:
        raise BadInput(f"expected no option features for {path.name}, which holds the points and nothing else; remove it")
    return Rows(npy(path, blob), _beside(path, options, "target"), _beside(path, options, "weights"))


def _beside(path: Path, options: Mapping[str, Any], option: str) -> Array | None:
    """The array of a second file, where an option names it."""
    if option not in options:
        return None
    other = path.parent / text(options, option, "")
    return npy(other, contents(other, (".npy",), f"the {option} of {path.name}"))


def sparse_matrix(path: Path, blob: bytes) -> Any | None:
    """A matrix as scipy.sparse.save_npz writes it, its indices checked; None where the file holds something else."""
    with opened(path, "a sparse matrix"):
        if not {"data", "indices", "indptr", "shape"} <= set(_names(blob)):
            return None
        from scipy import sparse

        parts = npz(path, blob, ("data", "indices", "indptr", "shape", "format"))
        name = parts["format"].item() if "format" in parts else "csr"
        name = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        kinds = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix}
        if name not in kinds:
            raise BadInput(f"expected a sparse matrix by rows in {path.name}, got format {name!r}; save X.tocsr()")
        if parts["data"].dtype.kind not in "biuf":
            raise BadInput(f"expected numbers in {path.name}, got {parts['data'].dtype}; save a matrix of numbers")
        shape = whole_numbers({"shape": parts["shape"].tolist()}, "shape") or ()
        found = kinds[name]((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
        found.check_format(full_check=True)  # indices of a stranger's file are followed without looking
        return found.tocsr()


def _from_sparse(path: Path, blob: bytes, matrix: Any, options: Mapping[str, Any]) -> Rows:
    """Labels and weights lie in files beside it, or in the same archive where they were added to it."""
    for option in ("features", "shape", "scale"):
        if option in options:
            raise BadInput(f"expected no option {option} for {path.name}, which holds a sparse matrix; remove it")
    names = {option: text(options, option, field) for field, option in NAMED_BY.items() if field != "X"}
    inside = npz(path, blob, names.values())
    parts = {option: inside[name] if name in inside else _beside(path, options, option) for option, name in names.items()}
    return Rows(matrix, parts["target"], parts["weights"])


def _from_table(path: Path, blob: bytes, options: Mapping[str, Any], raw: bool) -> Rows:
    frame = table(path, blob)
    target, weights = (text(options, option, "") for option in ("target", "weights"))
    others = [name for name in frame.columns if name not in (target, weights)]
    if "features" not in options and any(name.startswith("Unnamed: ") for name in others):
        raise BadInput(
            f"expected a name for every column of {path.name}, got one without, as row numbers have; "
            "name the columns to use with features"
        )
    features = options.get("features", others)
    features = [features] if isinstance(features, str) else features
    if not isinstance(features, list | tuple) or not features or not all(isinstance(name, str) for name in features):
        raise BadInput(f"expected names of columns of {path.name} as features, got {features!r}; give a list of names")
    return Rows(
        cells(frame, features, path) if raw else np.column_stack([column(frame, name, path) for name in features]),
        labels(frame, target, path) if target else None,
        column(frame, weights, path) if weights else None,
    )


def _prepared(found: Rows, options: Mapping[str, Any]) -> Rows:
    """Pictures flattened, scaled and cut to the rows asked for."""
    X, y, weight, count = found.X, found.y, found.sample_weight, found.X.shape[0] if found.X.ndim else 0
    if X.ndim < 2:
        return found  # not points at all, which TrainingData and its kin know how to say
    shape = whole_numbers(options, "shape", least=1)
    if X.ndim > 2:
        shape = shape or tuple(side for side in X.shape[1:] if side > 1) or None
        X = X.reshape(len(X), int(np.prod(X.shape[1:])))
    if y is not None and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if _switch(options, "scale"):
        X = X.to_numpy() if hasattr(X, "to_numpy") else X
        if not (X.size and X.dtype.kind in "biuf" and X.min() >= 0 and 1 < X.max() <= 255):
            raise BadInput("expected pixels from 0 to 255 for scale = true, got other numbers; remove scale")
        X = X / 255
    if "rows" in options:
        bounds = whole_numbers(options, "rows")
        if bounds is None or len(bounds) != 2 or not 0 <= bounds[0] < bounds[1] <= count:
            raise BadInput(
                f"expected rows = [first, end] within the {count} rows there are, got {options['rows']!r}; correct it"
            )
        for part, name in ((y, "labels"), (weight, "sample weights")):
            if part is not None and part.shape[:1] != (count,):  # which the cut would hide
                raise BadInput(
                    f"expected one of the {name} for each of the {count} points, got shape {part.shape}; correct them"
                )
        kept = slice(*bounds)
        X, y, weight = X[kept], None if y is None else y[kept], None if weight is None else weight[kept]
    return Rows(X, y, weight, shape)


def whole_numbers(options: Mapping[str, Any], option: str, least: int = 0) -> tuple[int, ...] | None:
    """An option that is a list of them, where it is given."""
    given = options.get(option)
    if given is None:
        return None
    if not isinstance(given, list | tuple) or not given or any(type(n) is not int or n < least for n in given):
        raise BadInput(
            f"expected a list of whole numbers from {least} for {option}, got {given!r}; write it as in {option} = [28, 28]"
        )
    return tuple(given)


def _switch(options: Mapping[str, Any], option: str) -> bool:
    given = options.get(option, False)
    if not isinstance(given, bool):
        raise BadInput(f"expected true or false for {option}, got {given!r}; write one of the two")
    return given


def _names(blob: bytes) -> list[str]:
    return list(np.load(io.BytesIO(blob), allow_pickle=False).files)
