"""Training points that are features after a ReLU, from the span of what training moved in a head on top of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from divulge.contract import (
    Array,
    Attack,
    Candidates,
    Context,
    Directions,
    Evidence,
    Finding,
    Histogram,
    Score,
    TrainingData,
    Truth,
    Verdict,
    Weights,
    option_class,
    taxonomies,
)
from divulge.errors import NotApplicable
from divulge.solvers.directions import known_start
from divulge.solvers.images import zeros
from divulge.solvers.images.span import span, span_of_combinations, span_of_moved
from divulge.solvers.statistics.roc import clopper_pearson

RIGHT = 0.99
"Cosine with a training point, the mean taken off, above which features are right: of other photographs' none has 0.99."
HEADLINE = f"features at a cosine > {RIGHT:g}"
SEVERAL = 3
"Points that have to come out for a leak: so many that no single accident claims one."
MIXED = 1000
"Random mixtures of what came out that stand for a useless attack."


@dataclass(frozen=True, eq=False)
class Zeros(Evidence):
    """By what each point in the loot is certified."""

    directions: int
    zeros: Array
    "Inputs that are 0 in the point and not in all; a mixture of training points can be 0 in one fewer than directions."


@option_class
class FeatureReconstruction(Attack[Directions, TrainingData]):
    """Find points of the span that are 0 in many inputs and below 0 in none, as features after a ReLU are.

    A dense head on frozen features moves only inside the span of its training points, and a point of r directions is fixed
    by r − 1 of its zeros. Whoever knows the encoder then looks up the pictures or sentences with the nearest features.
    """

    name: ClassVar[str] = "feature-reconstruction"
    paper: ClassVar[str] = "beyond Oz et al. 2024, Reconstructing Training Data From Real World Models, arXiv:2407.15845"
    taxonomy = taxonomies.RECONSTRUCTION
    remedy: ClassVar[tuple[str, ...]] = (
        "Train heads by Adam, with more points than the head has units, or with differential privacy; then audit again.",
        "Do not publish the weights of a head, nor start it from weights that are public.",
    )

    starts: PositiveInt = 2000
    "How often a point is looked for, at most."

    def run(self, held: Directions, context: Context) -> Finding[TrainingData]:
        if held.shape is not None:
            raise NotApplicable("the inputs are pictures; span-reconstruction looks for those")
        rows = _moved(held)
        if len(rows) < 2:
            raise NotApplicable("no two directions stand out: training has hardly moved the first layer")
        if zeros.SURPLUS * len(rows) > held.dimension:
            raise NotApplicable(
                f"there are {len(rows)} directions of {held.dimension} inputs: mixtures of so many have as many zeros"
            )

        def look(rng: np.random.Generator) -> dict[str, object]:
            return vars(zeros.search(rows, rng, mean=held.mean, starts=self.starts, progress=context.progress))

        found = zeros.Found(**context.once("points", look))  # type: ignore[arg-type]  # what was kept is what it holds
        context.log(f"{len(found.X)} points of {len(rows)} directions after {found.starts} starts.")
        if len(found.X) < SEVERAL:
            return Finding.none_found(
                f"No combinations of {len(rows)} directions are 0 in as many inputs as features after a ReLU.",
                power=f"It tried {found.starts} starts; features that are 0 in {zeros.SURPLUS * len(rows):.0f} inputs "
                "come back where descent trained a head on fewer of them than it has units.",
            )
        return Finding.leak(
            TrainingData(found.X),
            f"{len(found.X)} training points of {len(rows)} directions come out, each certified by "
            f"{int(found.zeros.min())} inputs or more that are 0.",
            evidence=Zeros(len(rows), found.zeros),
            figures=(Histogram("Inputs that are 0 in what came out", "inputs", {"points": found.zeros.astype(float)}),),
            notes=(f"A mixture can be 0 in {len(rows) - 1} inputs of its choice, so one point in all has many more.",),
        )

    def score(self, finding: Finding[TrainingData], held: Directions, truth: Truth) -> Finding[TrainingData]:
        known, loot = truth.get(TrainingData), finding.loot
        if known is None or loot is None or known.X.shape[1] != loot.X.shape[1]:
            return finding
        mean = known.X.mean(axis=0)
        hits = _hits(loot.X, known.X, mean)
        others = truth.get(Candidates)
        null_of, useless = "random mixtures of what came out", _mixtures(loot.X)
        if others is not None and others.X.shape[1] == known.X.shape[1]:
            rows = {row.tobytes() for row in known.X}
            kept = np.array([row.tobytes() not in rows for row in others.X])
            if kept.any():
                null_of, useless = "non-members in place of what came out", others.X[kept]
        null = _hits(useless, known.X, mean)
        low, high = clopper_pearson(hits, len(known.X))
        count = len(known.X)
        score = Score(hits, null, null_of, interval=(low * count, high * count), most=float(count))
        finding = replace(finding, scores={**finding.scores, HEADLINE: score})
        if finding.verdict is Verdict.LEAK and hits <= null:
            return finding.corrected(
                Verdict.FAILED, f"The truth contradicts it: {hits} {HEADLINE}, a useless attack has {null}."
            )
        return finding


def _moved(held: Directions) -> Array:
    """What stands out of noise, or was added to a public start, each direction as strong as it is."""
    rows = held.rows
    if isinstance(held, Weights) and held.start is not None:
        if known_start.frozen(held.layers[0], held.start[0]):
            raise NotApplicable(
                "training left the first layer as it started; give the layers behind it as a network of their own, whose "
                "inputs are its outputs"
            )
        rows = known_start.moved(held.layers[0], held.start[0]).rows
        seen = span_of_moved(rows, None)
        return np.asarray(seen.sizes[: seen.rank, None] * seen.axes)
    seen = span(rows[:, :-1], rows[:, -1]) if held.precision is None else span_of_combinations(rows, held.precision)
    return np.asarray(seen.sizes[: seen.rank, None] * seen.axes)


def _mixtures(X: Array) -> Array:
    shares = np.random.default_rng(0).dirichlet(np.ones(len(X)), MIXED)
    return np.asarray(shares @ X)


def _hits(X: Array, known: Array, mean: Array) -> int:
    """How many of the known points something in X is as near to as counts."""
    first, second = (
        (one - mean) / np.maximum(np.linalg.norm(one - mean, axis=1, keepdims=True), 1e-300) for one in (X, known)
    )
    return int(np.sum((first @ second.T).max(axis=0) > RIGHT))
