"""The small tables that scikit-learn carries along."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divulge.datasets.dataset import Dataset

UCI = "CC BY 4.0 (UCI Machine Learning Repository)"


@dataclass(frozen=True)
class Table:
    line: str
    loader: str
    "Name of the function in sklearn.datasets."
    source: str
    licence: str = UCI


TABLES = {
    "breast-cancer": Table(
        "569 tumours, 30 measurements, malignant or benign",
        "load_breast_cancer",
        "Breast Cancer Wisconsin (Diagnostic) by Wolberg, Mangasarian, Street and Street, 1995.",
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


def load(name: str) -> Dataset:
    """All rows of a table as training rows, in the units they were measured in."""
    from sklearn import datasets

    table = TABLES[name]
    found = datasets.load_diabetes(scaled=False) if name == "diabetes" else getattr(datasets, table.loader)()
    X = np.asarray(found.data, dtype=float)
    picture = name == "digits"
    return Dataset(
        name=name,
        X=X / BRIGHTEST if picture else X,
        y=np.asarray(found.target),
        X_test=np.empty((0, X.shape[1])),
        y_test=np.asarray(found.target)[:0],
        source=table.source,
        licence=table.licence,
        shape=(8, 8) if picture else None,
        classes=tuple(str(label) for label in getattr(found, "target_names", ())),
    )
