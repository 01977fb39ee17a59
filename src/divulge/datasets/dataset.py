"""What every dataset comes as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divulge.contract import Array
from divulge.errors import BadInput


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test rows with their labels, and where they come from."""

    name: str
    X: Array
    "(n, features); pictures run from 0 to 1."
    y: Array
    "Class numbers; −1 and +1 for two classes, except in scikit-learn's tables; targets for a regression."
    X_test: Array
    y_test: Array
    source: str
    "One sentence: who made it and where it is found."
    licence: str
    shape: tuple[int, ...] | None = None
    "The shape of one picture."
    classes: tuple[str, ...] = ()
    "Names of the classes in the order of their labels; empty for a regression."


def limited(whole: Dataset, only: Sequence[Any]) -> Dataset:
    """The rows of some classes, given by their labels or names; labels stay what they are."""
    if not whole.classes:
        raise BadInput(f"expected a dataset of classes for only, got {whole.name}, a regression; leave only out")
    labels = (-1, 1) if (whole.y < 0).any() else range(len(whole.classes))
    names = dict(zip(labels, whole.classes, strict=True))
    chosen = [label for label, name in names.items() if label in only or name in only]
    if not chosen or len(chosen) != len(only):
        known = ", ".join(f"{label} ({name})" if str(label) != name else name for label, name in names.items())
        raise BadInput(f"expected a list of different classes of {whole.name} for only, got {only!r}; choose from {known}")
    train, test = np.isin(whole.y, chosen), np.isin(whole.y_test, chosen)
    return replace(
        whole,
        X=whole.X[train],
        y=whole.y[train],
        X_test=whole.X_test[test],
        y_test=whole.y_test[test],
        classes=tuple(names[label] for label in chosen),
    )
