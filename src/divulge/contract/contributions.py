"""A training process that takes points from others, and points that someone could give it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from divulge.arrays import Array, Layer
from divulge.contract.access import Access
from divulge.contract.checks import bound, check_points, labels, numbered, points, refuse_outside
from divulge.contract.reading import reader
from divulge.errors import BadInput


@dataclass(frozen=True, eq=False)
class OwnLearner:
    """A learner of the user's own as it was read: what points climb against, and how it is trained again.

    Points climb against a learner that is differentiated here, behind steps held as they are on clean data; what they do is
    measured by training the user's own again.
    """

    title: str
    "Its classes in their order, as in `StandardScaler, LogisticRegression`."
    identity: str
    "Which settings it has: others have another."
    learner: str = ""
    "The one of the catalogue that points climb against."
    strength: float = 0.0
    "Its own penalty λ, the logarithm of the weight."
    l1_ratio: float = 0.0
    "0 for L2, 1 for L1, an elastic net between."
    averaged: bool = False
    "Whether its penalty stands beside the mean of the losses."
    entering: tuple[Array, Array] | None = None
    "A (features, entering) and c (entering,): its steps, as on clean data, make XA + c of points; None for no steps."
    rescaled: bool = False
    "Whether these are a scaling to variance 1 alone, whose scales points climb against too."
    start: tuple[Layer, ...] = ()
    "Layers of a network as trained on clean data, from what enters it."
    activation: str = "relu"
    apart: tuple[str, ...] = ()
    "In what it is other than what points climb against."
    unfit: str = ""
    "Why points cannot be made for it; empty where they can."
    opaque: bool = False
    "Whether it has no layers to read, so that only its predictions tell what points made for another learner do."
    layers: Callable[[Array, Array, float | None], tuple[Layer, ...]] = field(repr=False, default=lambda X, y, strength: ())
    "Trains it on points and labels, with another penalty λ or its own, and reads its layers from raw points on."
    predictions: Callable[[Array, Array, Array], Array] = field(repr=False, default=lambda X, y, asked: y)
    "Trains it on points and labels, with its own penalty, and asks it about other points."


@dataclass(frozen=True, eq=False)
class Pipeline(Access):
    """A training process that accepts contributed points: its clean data, its validation data and its learner.

    `learner` is a name such as "logistic", or a scikit-learn estimator or pipeline, fitted or not: it is cloned and trained
    anew. `Pipeline.of(module, ...)` trains a torch module that takes flat points, from the weights it has.
    """

    X: Array
    y: Array
    X_val: Array
    y_val: Array
    learner: Any = "logistic"
    "A name; of an estimator or a module, what says which it is."
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

    own: OwnLearner | None = field(default=None, repr=False, metadata={"stored": False})
    "What a scikit-learn estimator given as `learner` was read as. It is not stored: `learner` then says which it is."

    def __post_init__(self) -> None:
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
        if not isinstance(self.learner, str):
            own = reader().trained(self.learner, np.asarray(self.X, float), self.y, *self.box)
            object.__setattr__(self, "own", own)
            object.__setattr__(self, "learner", f"{own.title} {own.identity[:12]}")

    @property
    def box(self) -> tuple[Array, Array]:
        """Where contributed points may be: as `low` and `high` say, or what the data span."""
        everything = np.concatenate([self.X, self.X_val])
        ends = everything.min(axis=0), everything.max(axis=0)
        if self.shape is not None:  # of pictures all pixels together
            ends = np.full(len(ends[0]), ends[0].min()), np.full(len(ends[1]), ends[1].max())
        low = ends[0] if self.low is None else np.asarray(self.low)
        high = ends[1] if self.high is None else np.asarray(self.high)
        return low.astype(float), high.astype(float)

    @classmethod
    def of(cls, module: object, X: Array, y: Array, X_val: Array, y_val: Array, **rest: Any) -> Self:
        """A pipeline that trains this torch module, or this estimator."""
        if hasattr(module, "get_params"):
            return cls(X, y, X_val, y_val, learner=module, **rest)
        return cls(X, y, X_val, y_val, learner=reader().described(module), module=module, **rest)


@dataclass(frozen=True, eq=False)
class Poison(Access):
    """Points that an attacker would contribute to a training set."""

    asset: ClassVar[str] = "integrity"

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
