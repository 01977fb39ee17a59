"""What every dataset comes as."""

from __future__ import annotations

from dataclasses import dataclass

from divulge.contract import Array


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
