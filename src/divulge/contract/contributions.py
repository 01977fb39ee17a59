"""A training process that takes points from others, and points that someone could give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from divulge.arrays import Array
from divulge.contract.access import Access
from divulge.contract.checks import bound, check_points, labels, numbered, points, refuse_outside
from divulge.contract.reading import reader
from divulge.errors import BadInput


@dataclass(frozen=True, eq=False)
class Pipeline(Access):
    """A training process that accepts contributed points: its clean data, its validation data and its learner.

    `learner` is a name such as "logistic"; `Pipeline.of(module, ...)` trains a torch module that takes flat points, from the
    weights it has.
    """

    X: Array
    y: Array
    X_val: Array
    y_val: Array
    learner: str = "logistic"
    shape: tuple[int, ...] | None = None
    "Of one point when it is a picture."
    low: Array | float | None = None
    "The least that a contributed point may have in each feature; None where the pipeline takes what its own data spans."
    high: Array | float | None = None
    "The most, likewise."
    groups: Array | None = None
    "One whole number a feature: features with the same number share a penalty; None for one penalty on all."

    module: Any = field(default=None, repr=False, metadata={"stored": False})
    "The torch module that is trained, or None. It is not stored: `learner` then says which it is."

    def __post_init__(self) -> None:
        if not isinstance(self.learner, str):
            raise BadInput(
                f"expected the name of a learner, got {type(self.learner).__name__}; give a torch module to Pipeline.of"
            )
        check_points(self, "training", labelled=True)
        object.__setattr__(self, "X_val", points(self.X_val, "validation"))
        object.__setattr__(self, "y_val", labels(self.y_val, len(self.X_val), "validation"))
        if self.X.shape[1] != self.X_val.shape[1]:
            raise BadInput(
                f"training points have {self.X.shape[1]} features and validation points {self.X_val.shape[1]}; "
                "prepare both the same way"
            )
        features = self.X.shape[1]
        low, high = (
            None if side is None else bound(side, features, name) for name, side in (("low", self.low), ("high", self.high))
        )
        refuse_outside(np.concatenate([self.X, self.X_val]), low, high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if self.groups is not None:
            object.__setattr__(self, "groups", numbered(self.groups, features, "groups"))

    @classmethod
    def of(cls, module: object, X: Array, y: Array, X_val: Array, y_val: Array, **rest: Any) -> Self:
        """A pipeline that trains this torch module."""
        return cls(X, y, X_val, y_val, learner=reader().described(module), module=module, **rest)


@dataclass(frozen=True, eq=False)
class Poison(Access):
    """Points that an attacker would contribute to a training set."""

    X: Array
    y: Array
    shape: tuple[int, ...] | None = None
    start: Array | None = None
    "The clean points that these were made of, row by row."

    def __post_init__(self) -> None:
        check_points(self, "poison", labelled=True)
        if self.start is not None:
            start = points(self.start, "clean")
            if start.shape != self.X.shape:
                raise BadInput(
                    f"expected one clean point for each poison point, of shape {self.X.shape} together, got {start.shape}; "
                    "give in each row of start what that row of X was made of"
                )
            object.__setattr__(self, "start", start)
