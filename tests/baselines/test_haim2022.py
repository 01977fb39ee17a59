"""What the paper compares with makes no claim of its own, and wins only what the truth bears out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from divulge import Candidates, TrainingData, Weights
from divulge.arrays import Array
from divulge.baselines import FirstLayerImages, ModelInversion
from divulge.baselines.haim2022.inversion import _slopes
from divulge.contract import Context, Finding, ImagePairs, Verdict

RNG = np.random.default_rng(0)
DEEP = Weights(
    tuple((RNG.normal(size=(after, before)) / 3, RNG.normal(size=after)) for before, after in ((9, 20), (20, 15), (15, 3))),
    mean=(MEAN := RNG.uniform(size=9)),
)


def loot_of(finding: Finding[TrainingData]) -> TrainingData:
    assert finding.loot is not None
    return finding.loot


def aims_of(finding: Finding[TrainingData]) -> Array:
    y = loot_of(finding).y
    assert y is not None
    return y


def one_output(network: Weights) -> Weights:
    W, b = network.layers[-1]
    return replace(network, layers=(*network.layers[:-1], (W[:1], b[:1])))


def test_the_slope_of_an_output_agrees_with_finite_differences() -> None:
    rng = np.random.default_rng(1)
    x, weights, step = rng.normal(size=(6, 9)), rng.normal(size=(6, 3)), 1e-6
    slopes, outputs = _slopes(DEEP, x, weights)
    assert outputs == pytest.approx(DEEP.predict(x + MEAN))
    for place in range(9):
        moved = step * np.eye(9)[place]
        ahead, behind = (_slopes(DEEP, x + sign * moved, weights)[1] for sign in (1, -1))
        assert slopes[:, place] == pytest.approx(((ahead - behind) * weights).sum(axis=1) / (2 * step), abs=1e-6)


def test_climbs_go_up_or_down_and_stay_within_the_pixels() -> None:
    network = one_output(DEEP)
    finding = ModelInversion(count=31, settings=4, step_size=0.1, start=0.3)(network, context=Context(3))
    outputs = network.predict(loot_of(finding).X)[:, 0]
    assert loot_of(finding).X.shape == (31, 9)
    assert loot_of(finding).X.min() >= 0
    assert loot_of(finding).X.max() <= 1
    assert (np.diff(outputs * aims_of(finding)) <= 1e-9).all()  # the most excited first
    random = network.predict(np.random.default_rng(1).uniform(size=(1000, 9)))[:, 0]
    up = aims_of(finding) == 1
    assert sorted([up.sum(), (~up).sum()]) == [15, 16]
    assert outputs[up].max() > random.max()
    assert outputs[~up].min() < random.min()


def test_every_one_of_several_outputs_is_made_large() -> None:
    finding = ModelInversion(count=30, settings=3, step_size=0.1, start=0.3)(DEEP)
    assert np.bincount(aims_of(finding).astype(int)).tolist() == [10, 10, 10]
    random = DEEP.predict(np.random.default_rng(1).uniform(size=(1000, 9)))
    for output in range(3):
        made = DEEP.predict(loot_of(finding).X[aims_of(finding) == output])[:, output]
        assert made.max() > random[:, output].max()


def test_a_network_of_one_layer_is_climbed_as_well() -> None:
    linear = Weights(((np.array([[1.0, -2.0, 0.0]]), np.zeros(1)),))
    finding = ModelInversion(count=2, settings=1, step_size=1.0, start=0.0)(linear)
    assert loot_of(finding).X[:, :2].tolist() == [[0, 1], [1, 0]]
    assert aims_of(finding).tolist() == [-1, 1]


def test_settings_are_drawn_unless_given() -> None:
    drawn = loot_of(ModelInversion(count=40, settings=20, steps=1)(DEEP)).X
    away = np.abs(drawn - np.clip(MEAN, 0, 1)).max(axis=1)
    assert away.max() > 100 * away.min()


@pytest.mark.parametrize("attack", [ModelInversion(count=4, settings=2, steps=3), FirstLayerImages()])
def test_without_the_truth_nothing_is_claimed_and_the_images_are_there(attack: ModelInversion | FirstLayerImages) -> None:
    finding = attack(DEEP)
    assert finding.verdict is Verdict.NONE_FOUND
    assert "no claim of its own" in finding.power
    assert finding.loot is not None
    assert not finding.scores


def test_the_largest_weights_come_first_and_run_from_0_to_1() -> None:
    W = DEEP.layers[0][0]
    finding = FirstLayerImages(count=5, inverted=False)(DEEP)
    largest = W[np.argsort(-np.linalg.norm(W, axis=1))[:5]]
    assert (loot_of(finding).X.argmax(axis=1) == largest.argmax(axis=1)).all()
    assert loot_of(finding).X.min(axis=1).tolist() == [0] * 5
    assert loot_of(finding).X.max(axis=1).tolist() == [1] * 5
    both = loot_of(FirstLayerImages(count=5)(DEEP)).X
    assert both == pytest.approx(np.concatenate([loot_of(finding).X, 1 - loot_of(finding).X]))


def stored(count: int = 6, wide: int = 8) -> tuple[Weights, TrainingData, Candidates]:
    """A network whose units are its training images, and those images."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(count, wide * wide))
    W = X - X.mean(axis=1, keepdims=True)
    held = Weights(((W, np.zeros(count)), (np.ones((1, count)), np.zeros(1))), shape=(wide, wide))
    return held, TrainingData(X), Candidates(rng.uniform(size=(100, wide * wide)))


def test_images_stored_as_weights_are_a_leak_once_the_truth_is_known() -> None:
    held, data, non_members = stored()
    finding = FirstLayerImages()(held, truth={"training_data": data, "candidates": non_members})
    assert finding.verdict is Verdict.LEAK
    assert finding.summary == (
        "Training images are among the weights of the first layer: 6 of 6 are there at NCC > 0.99, and of 100 non-members 0."
    )
    assert not finding.power
    assert "first-layer" not in finding.scores["images at NCC > 0.9"].null_of
    assert any(isinstance(figure, ImagePairs) for figure in finding.figures)


def test_without_non_members_nothing_is_beyond_doubt() -> None:
    held, data, _ = stored()
    finding = FirstLayerImages()(held, truth={"training_data": data})
    assert finding.verdict is Verdict.NONE_FOUND
    assert "more than a useless attack has, and not beyond doubt: 6 images at NCC > 0.9 (null 0)" in finding.summary


def test_weights_that_show_no_image_stay_without_a_claim() -> None:
    held, _, non_members = stored()
    other = TrainingData(non_members.X[:6])
    finding = FirstLayerImages()(held, truth={"training_data": other})
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.scores["images at NCC > 0.9"].value == 0
    assert finding.power
