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
from divulge.targets.tables import TABLES, column, labels, table

ROW_FILES = (".npz", ".npy", *TABLES)
NAMED_BY = {"X": "features", "y": "target", "sample_weight": "weights"}
"Which option names which part. An npz usually calls its arrays by the names of the parts."


@dataclass(frozen=True, eq=False)
class Rows:
    """What a file says about its points; contract types check it."""

    X: Array
    y: Array | None = None
    sample_weight: Array | None = None
    shape: tuple[int, ...] | None = None


def rows(path: Path, options: Mapping[str, Any], what: str) -> Rows:
    """Points as rows. `features`, `target` and `weights` name arrays of an npz, columns of a table, files beside an npy."""
    blob = contents(path, ROW_FILES, what)
    ending = path.suffix.lower()
    if ending == ".npz":
        found = _from_npz(path, blob, options)
    elif ending == ".npy":
        found = _from_npy(path, blob, options)
    else:
        found = _from_table(path, blob, options)
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
    beside = {}
    for field, option in NAMED_BY.items():
        if option in options:
            other = path.parent / text(options, option, "")
            beside[field] = npy(other, contents(other, (".npy",), f"the {option} of {path.name}"))
    return Rows(npy(path, blob), beside.get("y"), beside.get("sample_weight"))


def _from_table(path: Path, blob: bytes, options: Mapping[str, Any]) -> Rows:
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
        np.column_stack([column(frame, name, path) for name in features]),
        labels(frame, target, path) if target else None,
        column(frame, weights, path) if weights else None,
    )


def _prepared(found: Rows, options: Mapping[str, Any]) -> Rows:
    """Pictures flattened, scaled and cut to the rows asked for."""
    X, y, weight = found.X, found.y, found.sample_weight
    if X.ndim < 2:
        return found  # not points at all, which TrainingData and its kin know how to say
    shape = whole_numbers(options, "shape", least=1)
    if X.ndim > 2:
        shape = shape or tuple(side for side in X.shape[1:] if side > 1) or None
        X = X.reshape(len(X), int(np.prod(X.shape[1:])))
    if y is not None and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if _switch(options, "scale"):
        if not (X.size and X.dtype.kind in "biuf" and X.min() >= 0 and 1 < X.max() <= 255):
            raise BadInput("expected pixels from 0 to 255 for scale = true, got other numbers; remove scale")
        X = X / 255
    if "rows" in options:
        bounds = whole_numbers(options, "rows")
        if bounds is None or len(bounds) != 2 or not 0 <= bounds[0] < bounds[1] <= len(X):
            raise BadInput(
                f"expected rows = [first, end] within the {len(X)} rows there are, got {options['rows']!r}; correct it"
            )
        for part, name in ((y, "labels"), (weight, "sample weights")):
            if part is not None and part.shape[:1] != (len(X),):  # which the cut would hide
                raise BadInput(
                    f"expected one of the {name} for each of the {len(X)} points, got shape {part.shape}; correct them"
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
