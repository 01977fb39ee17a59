"""Columns out of csv and parquet files."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.contract import Array
from divulge.errors import BadInput
from divulge.targets.opening import opened

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TABLES = (".csv", ".parquet")


def table(path: Path, blob: bytes) -> DataFrame:
    """A table whose first line or schema names its columns."""
    with opened(path, "a table"):
        import pandas

        frame = pandas.read_parquet(io.BytesIO(blob)) if path.suffix.lower() == ".parquet" else _csv(path, blob)
        frame.columns = frame.columns.map(str)
        return frame


def column(frame: DataFrame, name: str, path: Path) -> Array:
    """One column of numbers."""
    series = _column(frame, name, path)
    if not _is_numeric(series):
        raise BadInput(f"expected numbers in column {name!r} of {path.name}, got {_example(series)}; encode or drop it")
    return np.asarray(series.to_numpy(dtype=float))


def cells(frame: DataFrame, names: Sequence[str], path: Path) -> DataFrame:
    """Columns as they are, with text and gaps."""
    for name in names:
        _column(frame, name, path)
    if not len(frame):
        raise BadInput(f"expected at least one row in {path.name}, got none; save the table again")
    return frame[list(names)]


def labels(frame: DataFrame, name: str, path: Path) -> Array:
    """One column of labels: numbers, or names of classes."""
    series = _column(frame, name, path)
    if _is_numeric(series):
        return column(frame, name, path)
    if series.isna().any():
        raise BadInput(
            f"expected a label in every row of {path.name}, got {int(series.isna().sum())} rows without; drop those rows"
        )
    return np.array([str(label) for label in series])


def records(frame: DataFrame, name: str, path: Path) -> Array:
    """One column of what records are called: whole numbers, or text."""
    series = _column(frame, name, path)
    if series.isna().any():
        raise BadInput(f"expected a record in every row of {path.name}, got {int(series.isna().sum())} rows without; add it")
    return np.asarray(series.to_numpy()) if _is_numeric(series) else np.array([str(record) for record in series])


def flags(frame: DataFrame, name: str, path: Path) -> Array:
    """One column of 0 and 1, or of true and false."""
    series = _column(frame, name, path)
    if series.isna().any():
        raise BadInput(
            f"expected true or false in every row of column {name!r} of {path.name}, got {int(series.isna().sum())} rows "
            "without; complete or drop those rows"
        )
    return column(frame, name, path)


def _csv(path: Path, blob: bytes) -> DataFrame:
    import pandas

    names = blob.split(b"\n", 1)[0].decode(errors="replace").lstrip("\ufeff").strip().split(",")
    if all(map(_is_number, names)) and names != [str(number) for number in range(len(names))]:
        raise BadInput(
            f"expected names of columns in the first line of {path.name}, got numbers; add a line of names above them"
        )
    # Before 3.1 pandas could miss a number's last digit unless asked not to; since then it warns when asked.
    old = tuple(int(part) for part in pandas.__version__.split(".")[:2]) < (3, 1)
    exact: dict[str, Any] = {"float_precision": "round_trip"} if old else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame: DataFrame = pandas.read_csv(io.BytesIO(blob), index_col=False, low_memory=False, **exact)
    except pandas.errors.ParserWarning:
        raise BadInput(f"expected one name for every column of {path.name}, got fewer; complete its first line") from None
    return frame


def _column(frame: DataFrame, name: str, path: Path) -> Series[Any]:
    if name not in frame.columns:
        raise BadInput(f"expected a column named {name!r} in {path.name}, got {', '.join(frame.columns)}; correct the name")
    return frame[name]


def _is_numeric(series: Series[Any]) -> bool:
    from pandas.api.types import is_numeric_dtype

    return bool(is_numeric_dtype(series))


def _example(series: Series[Any]) -> str:
    filled = series.dropna()
    return repr(filled.iloc[0]) if len(filled) else "nothing"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
