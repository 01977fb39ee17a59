"""Features come back from a head that descent trained on them, and nothing is claimed of what has no zeros."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from divulge import Candidates, TrainingData, Weights
from divulge.arrays import Array
from divulge.attacks import FeatureReconstruction
from divulge.attacks.reconstruction.features import HEADLINE, Zeros
from divulge.contract import Context, Directions, Verdict
from divulge.victims import ordinary

POINTS, UNITS, INPUTS = 10, 20, 150


def features(count: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((20, INPUTS)) / 5
    return np.asarray(np.maximum(np.random.default_rng(seed).standard_normal((count, 20)) @ mix, 0))


def head(X: Array) -> Directions:
    trained = ordinary.train(
        X, np.arange(len(X)) % 2, np.random.default_rng(1), hidden=(UNITS,), lr=0.1, momentum=0.9, epochs=200
    )
    (W, b), (start, shift) = trained.layers[0], trained.start[0]
    return Directions(np.column_stack([W - start, b - shift]))


def test_features_of_a_head_come_back_beside_a_null_of_nothing() -> None:
    X = features(POINTS)
    truth = {"training_data": TrainingData(X), "candidates": Candidates(np.concatenate([X, features(200, 1)]))}
    found = FeatureReconstruction()(head(X), truth=truth, context=Context(0))
    assert found.verdict is Verdict.LEAK
    score = found.scores[HEADLINE]
    assert score.value >= POINTS - 1
    assert score.null == 0
    assert found.loot is not None
    assert len(found.loot.X) == score.value
    assert isinstance(found.evidence, Zeros)
    assert found.evidence.directions == POINTS
    assert found.evidence.zeros.min() >= 2 * POINTS


def test_of_points_without_zeros_nothing_is_claimed() -> None:
    X = np.random.default_rng(0).standard_normal((POINTS, INPUTS))
    found = FeatureReconstruction()(head(X), truth={"training_data": TrainingData(X)}, context=Context(0))
    assert found.verdict is Verdict.NONE_FOUND
    assert "starts" in found.power


def test_a_truth_of_other_points_contradicts_the_claim() -> None:
    truth = {"training_data": TrainingData(features(POINTS, 7))}
    found = FeatureReconstruction()(head(features(POINTS)), truth=truth, context=Context(0))
    assert found.verdict is Verdict.FAILED
    assert found.scores[HEADLINE].value == 0


@pytest.mark.parametrize(
    ("rows", "shape", "reason"),
    [(3, (10, 15), "pictures"), (80, None, "mixtures of so many")],
)
def test_pictures_and_crowded_spans_are_not_applicable(rows: int, shape: tuple[int, ...] | None, reason: str) -> None:
    held = Directions(np.random.default_rng(0).standard_normal((rows, INPUTS + 1)), shape=shape, precision=1e-9)
    found = FeatureReconstruction()(held, context=Context(0))
    assert found.verdict is Verdict.NOT_APPLICABLE
    assert reason in found.summary


def test_a_head_whose_start_is_public_gives_its_features_back() -> None:
    X = features(POINTS)
    trained = ordinary.train(
        X,
        np.arange(POINTS) % 2,
        np.random.default_rng(1),
        hidden=(UNITS,),
        lr=0.1,
        momentum=0.9,
        weight_decay=1e-3,
        epochs=200,
    )
    held = Weights(tuple(trained.layers), start=tuple(trained.start))
    found = FeatureReconstruction()(held, truth={"training_data": TrainingData(X)}, context=Context(0))
    assert found.verdict is Verdict.LEAK
    assert found.scores[HEADLINE].value >= POINTS - 1
    body = (trained.start[0], *trained.layers[1:])
    left = FeatureReconstruction()(replace(held, layers=body), context=Context(0))
    assert left.verdict is Verdict.NOT_APPLICABLE
