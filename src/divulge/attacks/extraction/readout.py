"""Through which link a model's answers were read, which `run` hands to `score`; and a copy's units beside the true ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divulge.arrays import Layer, TwoLayers
from divulge.contract import Array, Evidence, Explanation, Finding, Score, Verdict, Weights
from divulge.solvers.piecewise.two_layer import TwoLayer, match_units

CLAIM = 0.05  # of space: a copy that may be wrong in more is not called exact
WRONG = 1e-2  # of the spread of answers: a copy that the truth shows to be further off is none


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
    oriented: bool = True
    "Whether it is known which way round units are; where not, pairs of them add what is linear."


def outputs_are_centred(finding: Finding[Any]) -> bool:
    return isinstance(finding.evidence, Readout) and finding.evidence.centred


def centred(layer: Layer) -> Layer:
    """The affine layer (W (o, h), b (o,)) whose outputs are those of this one less their mean."""
    W, b = layer
    return W - W.mean(0), b - b.mean()


def beside_the_true_answers(finding: Finding[Weights], known: Weights, X: Array) -> Finding[Weights]:
    """The finding with the largest error of its copy at points (n, d); failed where it is no copy."""
    loot = finding.loot
    if loot is None or known.dimension != loot.dimension or len(known.layers[-1][1]) != len(loot.layers[-1][1]):
        return finding
    Y, copied = known.predict(X), loot.predict(X)
    if outputs_are_centred(finding):
        Y = Y - Y.mean(1, keepdims=True)
    error = float(np.abs(copied - Y).max() / (np.abs(Y - Y.mean(0)).max() or 1.0))
    score = Score(error, 1.0, "always answering the mean", better="lower")
    finding = replace(finding, scores={**finding.scores, "largest error at points": score})
    if finding.verdict is Verdict.LEAK and error > WRONG:
        said = f"The truth shows that the copy is off by {error:.1g} of the spread of answers."
        return finding.corrected(Verdict.FAILED, said)
    return finding


def beside_the_true_units(finding: Finding[Weights], known: Weights) -> tuple[dict[str, Score], tuple[str, ...]]:
    """How many units of the true two-layer network the loot has and how far off they are; and what to say of the others."""
    if finding.loot is None or len(finding.loot.layers) != 2:
        return {}, ()
    copy = _plain(finding.loot)
    oriented = not isinstance(finding.evidence, Readout) or finding.evidence.oriented
    true = visible(known, shifted=outputs_are_centred(finding))
    match = match_units(copy, true, oriented=oriented)
    scores = {"largest weight error": Score(match.error, 1.0, "weights of 0", better="lower")}
    notes = []
    if match.found < match.units:
        null, null_of = match_units(_shuffled(copy), true, oriented=oriented).found, "a copy with its numbers shuffled"
        found = Score(match.found, null, null_of, f"of {match.units}", most=match.units, speaks=False)
        scores = {"hidden units found": found, **(scores if match.found else {})}
        notes.append(
            f"{match.units - match.found} of the {match.units} hidden units that the truth has are none of the copy's; "
            "the error of weights is that of the others."
        )
    return scores, tuple(notes)


def _shuffled(layers: TwoLayers) -> TwoLayers:
    """A network with the same numbers in other places."""
    rng = np.random.default_rng(0)
    (W, b), (V, c) = layers
    return (rng.permuted(W, axis=None), rng.permuted(b)), (rng.permuted(V, axis=None), c)


def visible(known: Weights, *, shifted: bool) -> TwoLayers:
    """The true layers as far as answers can tell: units on one hyperplane are one, and logits behind a softmax sum to 0."""
    (into, bias), (out, constant) = _plain(known)
    if shifted:
        out, constant = centred((out, constant))
    alive = into.any(1)
    constant = constant + out[:, ~alive] @ np.maximum(bias[~alive], 0)
    into, bias, out = into[alive], bias[alive], out[:, alive]
    layers, plain = TwoLayer(into, bias, out, np.zeros((len(out), known.dimension)), constant).merged(0).layers()
    return layers if plain else ((into, bias), (out, constant))


def _plain(network: Weights) -> TwoLayers:
    """Its two layers, with what is subtracted from inputs in the bias: answers do not tell the one from the other."""
    (W, b), last = network.layers
    return (W, b if network.mean is None else b - W @ network.mean), last
