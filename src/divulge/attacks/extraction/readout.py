"""Through which link a model's answers were read: what an extraction hands from `run` to `score`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from divulge.arrays import Layer
from divulge.contract import Evidence, Finding


@dataclass(frozen=True)
class Readout(Evidence):
    """How answers were read, and so up to what the outputs of a copy are known."""

    link: str
    "From the model's own outputs z to its answers: identity, logistic, softmax or exponential."
    centred: bool
    "Whether answers stay the same when all outputs grow alike, z + c·1, so that a copy's are given with Σ z = 0."


def outputs_are_centred(finding: Finding[Any]) -> bool:
    return isinstance(finding.evidence, Readout) and finding.evidence.centred


def centred(layer: Layer) -> Layer:
    """The affine layer (W (o, h), b (o,)) whose outputs are those of this one less their mean."""
    W, b = layer
    return W - W.mean(0), b - b.mean()
