"""Small tables: those that scikit-learn carries along, and one inside the package."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from divulge.contract import Array
from divulge.datasets.dataset import Dataset, limited

UCI = "CC BY 4.0 (UCI Machine Learning Repository)"


@dataclass(frozen=True)
class Table:
    line: str
    origin: str
    "Name of a function in sklearn.datasets, or of a file among the samples."
    source: str
    licence: str = UCI


TABLES = {
    "breast-cancer": Table(
        "569 tumours, 30 measurements, malignant or benign",
        "load_breast_cancer",
        "Breast Cancer Wisconsin (Diagnostic) by Wolberg, Mangasarian, Street and Street, 1995.",
    ),
    "cars": Table(
        "392 cars, 6 measurements, miles per gallon: a regression",
        "cars.csv",
        "Auto MPG by Ernesto Ramos and David Donoho, 1983, donated to UCI by Ross Quinlan, 1993.",
    ),
    "diabetes": Table(
        "442 patients, 10 measurements, progress of the disease: a regression",
        "load_diabetes",
        "Diabetes data of Efron, Hastie, Johnstone and Tibshirani, Least Angle Regression, 2004.",
        "none stated; distributed with scikit-learn",
    ),
    "digits": Table(
        "1797 handwritten digits of 8 x 8 pixels",
        "load_digits",
        "Optical Recognition of Handwritten Digits by Alpaydin and Kaynak, 1998.",
    ),
    "iris": Table(
        "150 flowers, 4 measurements, three kinds",
        "load_iris",
        "Iris by R. A. Fisher, 1936.",
    ),
    "wine": Table(
        "178 wines, 13 measurements, three growers",
        "load_wine",
        "Wine by Aeberhard and Forina, 1992.",
    ),
}  # fmt: skip
NAMES = {name: table.line for name, table in TABLES.items()}

BRIGHTEST = 16
"The digits count dark pixels in blocks of 4 x 4."


def load(name: str, only: Sequence[Any] | None = None) -> Dataset:
    """All rows of a table as training rows, in the units they were measured in."""
    table = TABLES[name]
    X, y, classes = _read(table.origin) if table.origin.endswith(".csv") else _fetch(table.origin)
    picture = name == "digits"
    found = Dataset(
        name=name,
        X=X / BRIGHTEST if picture else X,
        y=y,
        X_test=X[:0],
        y_test=y[:0],
        source=table.source,
        licence=table.licence,
        shape=(8, 8) if picture else None,
        classes=classes,
    )
    return found if only is None else limited(found, only)


def _fetch(loader: str) -> tuple[Array, Array, tuple[str, ...]]:
    from sklearn import datasets

    found = getattr(datasets, loader)(**({"scaled": False} if loader == "load_diabetes" else {}))
    classes = tuple(str(label) for label in getattr(found, "target_names", ()))
    return np.asarray(found.data, dtype=float), np.asarray(found.target), classes


def _read(file: str) -> tuple[Array, Array, tuple[str, ...]]:
    """A regression whose last column is the target."""
    text = (files("divulge.datasets") / "samples" / file).read_text(encoding="utf-8")
    numbers = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1)
    return numbers[:, :-1], numbers[:, -1], ()
