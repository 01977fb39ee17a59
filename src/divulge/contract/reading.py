"""The door to models in memory: whoever can read them registers in the entry-point group `divulge.readers`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

from divulge.arrays import Array, Layer
from divulge.errors import BadInput

GROUP, NAME = "divulge.readers", "memory"


class Reader(Protocol):
    """Turns an object, such as a torch module or a fitted estimator, into the parts of an `Access`."""

    def queries(self, cls: Any, model: object, shape: tuple[int, ...] | None = None) -> Any:
        """An access of this class that asks the model, points of a shape where it takes no rows of numbers."""

    def connect(self, cls: Any, url: str, options: Mapping[str, Any]) -> Any:
        """An access of this class that asks a model on a server."""

    def layers(self, model: object) -> tuple[Layer, ...]:
        """Its dense layers."""

    def weights(self, model: object) -> Mapping[str, Any]:
        """The fields of `Weights`."""

    def learned(self, model: object) -> Mapping[str, Any]:
        """The fields of `Fitted`."""

    def secrets(self, model: object) -> Mapping[str, float]:
        """The hyperparameters that it was fitted with."""

    def described(self, model: object) -> str:
        """Which module this is."""

    def trained(self, model: object, X: Array, y: Array, low: Array, high: Array) -> Any:
        """An estimator as the learner of a pipeline (`OwnLearner`) that trains on these points and takes others in a box."""


@cache
def reader() -> Reader:
    """What reads models in memory; it is imported when the first one is read."""
    for point in entry_points(group=GROUP, name=NAME):
        found: Reader = point.load()
        return found
    raise BadInput(f"expected a reader of models in memory in {GROUP}, found none; install divulge as a package")
