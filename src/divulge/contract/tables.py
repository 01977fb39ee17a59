"""Training data as people have it: sparse, or tables with text and gaps, and the fitted steps that make numbers of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from divulge.arrays import Array
from divulge.contract.checks import frozen
from divulge.errors import BadInput


@dataclass(frozen=True, eq=False)
class Table:
    """Columns as they came, with text and gaps, for a model whose pipeline makes numbers of them."""

    values: tuple[Array | tuple[Any, ...], ...]
    "A column each: numbers, or text and whatever else stood there."
    columns: tuple[str, ...] | None = None
    "Their names, where they have some."

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values[0]), len(self.values)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Table:
        return Table(tuple(_selected(column, rows) for column in self.values), self.columns)

    @property
    def unfit(self) -> str:
        """What in it is no number: the first column of text, else the first with gaps."""
        names = self.columns or tuple(map(str, range(len(self.values))))
        for name, column in zip(names, self.values, strict=True):
            if isinstance(column, tuple):
                text = next((one for one in column if isinstance(one, str)), None)
                return f"{'gaps' if text is None else repr(text[:40])} in column {name!r}"
        gaps = (name for name, column in zip(names, self.values, strict=True) if not np.isfinite(column).all())
        return f"gaps in column {next(gaps, names[0])!r}"


@dataclass(frozen=True, eq=False)
class Preparation:
    """What a fitted model does to data before it learns from it, where that is more than sums and products."""

    title: str
    "Which steps these are, by their classes."
    identity: str
    "Which fitted steps these are: others have another."
    apply: Callable[[Any], Any] = field(repr=False, metadata={"stored": False}, default=lambda X: _lost())
    "Takes data as it enters the model, returns what its learner was given."


def is_sparse(X: object) -> bool:
    """Whether these are points as a matrix of scipy.sparse."""
    return hasattr(X, "tocsr")


def is_raw(X: object) -> bool:
    """Whether these points are something other than a dense array of numbers."""
    return is_sparse(X) or isinstance(X, Table)


def sparse_points(X: Any, what: str) -> Any:
    """A matrix of scipy.sparse by rows, finite; never made dense."""
    if X.ndim != 2 or 0 in X.shape:
        raise BadInput(f"expected a sparse matrix with {what} points as rows, got shape {X.shape}; correct X")
    rows = X.tocsr()
    if rows.dtype.kind not in "biuf":
        raise BadInput(f"expected numbers for the {what} points, got a sparse matrix of {rows.dtype}; convert it")
    if rows.dtype.kind != "f":
        rows = rows.astype(float)
    if not np.isfinite(rows.data).all():
        bad = int(rows.nnz - np.isfinite(rows.data).sum())
        raise BadInput(f"expected finite numbers for the {what} points, got {bad} NaN or infinite values; correct them")
    return rows


def is_frame(X: object) -> bool:
    """Whether this is a table of pandas."""
    return all(hasattr(X, name) for name in ("iloc", "columns", "dtypes"))


def frame_points(frame: Any, what: str) -> tuple[Array | Table, tuple[str, ...] | None]:
    """A pandas table as points, an array where every cell is a finite number; and the names of its columns, if any."""
    if 0 in frame.shape:
        raise BadInput(f"expected at least one {what} point, got shape {frame.shape}; check which rows were selected")
    columns = [_column(frame.iloc[:, k], str(frame.columns[k]), what) for k in range(frame.shape[1])]
    names = tuple(frame.columns) if all(isinstance(name, str) for name in frame.columns) else None
    numeric = [column for column in columns if not isinstance(column, tuple) and np.isfinite(column).all()]
    if len(numeric) < len(columns):
        return Table(tuple(columns), names), names
    kinds = {column.dtype for column in numeric}
    dtype = kinds.pop() if len(kinds) == 1 and next(iter(kinds)).kind == "f" else float
    return frozen(np.column_stack(numeric).astype(dtype, copy=False)), names


def _column(series: Any, name: str, what: str) -> Array | tuple[Any, ...]:
    """Numbers where all or all but gaps are; else text and what stands beside it."""
    array = np.asarray(series.to_numpy(dtype=object) if series.dtype.kind not in "biuf" else series)
    if array.dtype.kind in "biuf":
        return frozen(array)
    gaps = np.asarray(series.isna())
    filled = array[~gaps]
    if all(isinstance(one, bool | int | float | np.number | np.bool_) for one in filled):
        if not gaps.any() and all(isinstance(one, bool | np.bool_) for one in filled):
            return frozen(array.astype(bool))
        return frozen(np.where(gaps, np.nan, np.where(gaps, 0.0, array)).astype(float))
    odd = next((one for one in filled if not isinstance(one, str | bool | int | float | np.number | np.bool_)), None)
    if odd is not None:
        raise BadInput(
            f"expected numbers or text in column {name!r} of the {what} points, got {type(odd).__name__}; "
            "turn it into one of them"
        )
    plain = [one.item() if isinstance(one, np.generic) else one for one in array.tolist()]
    return tuple(None if one is None else float("nan") if gap else one for one, gap in zip(plain, gaps, strict=True))


def _selected(column: Array | tuple[Any, ...], rows: Any) -> Array | tuple[Any, ...]:
    if not isinstance(column, tuple):
        return np.asarray(column[rows])
    return tuple(column[k] for k in np.arange(len(column))[rows])


def _lost() -> Any:
    raise BadInput("the steps before this model were not kept with it; read the model again")
