"""Through which link a model's answers were read: what an extraction hands from `run` to `score`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from divulge.arrays import Layer
from divulge.contract import Evidence, Explanation, Finding

CLAIM = 0.05  # of space: a copy that may be wrong in more is not called exact


@dataclass(frozen=True)
class DifferenceBound(Evidence):
    """In how much of space a copy may differ from the original, at most: all points drawn from there agreed."""

    share: float
    "Of the points in the region."
    confidence: float
    points: int
    "Drawn from the region, all of which agree."
    chosen: int
    "Further points that agree: beside kinks, and where a copy that lacks something is likely to be wrong."
    region: str
    "In words, after *of points*."
    sizes: tuple[tuple[float, float], ...] = ()
    "Of an unbounded region: standard deviations of the coordinates, and which share of the points has each."

    def __str__(self) -> str:
        return (
            f"At most {self.share:.1%} of points{self.region} may still be wrong, at {self.confidence:.0%} confidence: "
            f"{self.points} drawn there agree, and {self.chosen} chosen to refute the copy."
        )


@dataclass(frozen=True)
class Readout(Evidence):
    """How answers were read, and so up to what the outputs of a copy are known."""

    link: str
    "From the model's own outputs z to its answers: identity, logistic, softmax or exponential."
    centred: bool
    "Whether answers stay the same when all outputs grow alike, z + c·1, so that a copy's are given with Σ z = 0."
    bound: DifferenceBound | None = None
    "How far a copy that agreed is known to be right."
    explanation: Explanation | None = None
    "What kind of explanations it was read off, where that was told or found."


def outputs_are_centred(finding: Finding[Any]) -> bool:
    return isinstance(finding.evidence, Readout) and finding.evidence.centred


def centred(layer: Layer) -> Layer:
    """The affine layer (W (o, h), b (o,)) whose outputs are those of this one less their mean."""
    W, b = layer
    return W - W.mean(0), b - b.mean()
