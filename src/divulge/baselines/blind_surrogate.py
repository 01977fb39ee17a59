"""A copy trained on answers at random points, with no idea of the data (Milli et al. 2018, arXiv:1807.05185, section 5)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, PositiveInt

from divulge.attacks.extraction.surrogate import LEAST, PAPER, REMEDY, Architecture, Use, copied, scored, shared_out
from divulge.contract import (
    Array,
    Baseline,
    Context,
    Copy,
    Finding,
    Predictions,
    Remedy,
    Truth,
    option_class,
    taxonomies,
)
from divulge.errors import NotApplicable


@option_class
class BlindSurrogate(Baseline[Predictions, Copy]):
    """Train a network to answer like the target at random points, with no idea of its data."""

    name: ClassVar[str] = "blind-surrogate"
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.EXTRACTION
    remedy: ClassVar[tuple[str | Remedy, ...]] = REMEDY

    queries: PositiveInt = 100
    "How many random points to ask about for training."
    holdout: Annotated[int, Field(ge=LEAST)] = 200
    "How many more to ask about for measuring the copy; no copy is trained on them."
    mean: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    "The mean of every coordinate of a random point."
    spread: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    "Its standard deviation."
    shape: tuple[PositiveInt, ...] = ()
    "Of one point, where it is a picture: height and width, and 3 for colours."
    architecture: Architecture = "two-layer"
    "What the copy is; auto trains several and keeps the one that agrees best on half of the holdout."
    width: PositiveInt | None = None
    "Hidden units of the copy, or channels of its first convolution."
    use: Use = "gradients"
    "Learn from values and gradients, where those are answered, or values alone; auto: the better on half of the holdout."
    steps: PositiveInt = 1000
    "Steps of training."

    def run(self, held: Predictions, context: Context) -> Finding[Copy]:
        if self.shape and math.prod(self.shape) != held.dimension:
            raise NotApplicable(f"a picture of shape {self.shape} does not fill the {held.dimension} inputs of the target")

        def drawn(rng: np.random.Generator) -> tuple[Array, Array]:
            X = self.mean + self.spread * rng.standard_normal((self.queries + self.holdout, held.dimension))
            return X[: self.queries], X[self.queries :]

        return copied(self, held, self.shape, drawn, context)

    def score(self, finding: Finding[Copy], held: Predictions, truth: Truth) -> Finding[Copy]:
        return scored(finding, truth)

    def within(self, points: int) -> Self:
        return replace(self, **shared_out(self.queries, self.holdout, points))
