"""A network that was trained on from public weights: what training moved shows who and what it was trained on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from divulge import Candidates, Gradients, Predictions, TrainingData, Weights, datasets
from divulge.arrays import Array, Layer
from divulge.attacks import GradientExtraction, SpanMembership, SpanReconstruction, ValueExtraction
from divulge.contract import Finding
from divulge.victims import ordinary

RNG = np.random.default_rng
SHAPE = (28, 28)
MOMENTUM: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "epochs": 300}


@cache
def tuned(count: int = 20, hidden: tuple[int, ...] = (100,), **settings: Any) -> tuple[Weights, Array, Array]:
    """A network of torch's own start that was trained on digits; those, and others."""
    drawn = datasets.load("mnist", samples=count, seed=3)
    mean = drawn.X.mean(axis=0)
    made = ordinary.train(drawn.X - mean, drawn.y, RNG(3), hidden=hidden, **{**MOMENTUM, **settings})
    held = Weights(tuple(made.layers), mean=mean, shape=SHAPE, start=tuple(made.start))
    return held, drawn.X, drawn.X_test[:1000]


def right(finding: Finding[TrainingData], X: Array) -> int:
    assert finding.loot is not None
    loot = finding.loot.X
    return int((np.corrcoef(loot, X)[: len(loot), len(loot) :].max(axis=1) > 0.9).sum())


@pytest.mark.parametrize("decay", [0.0, 1e-3])
def test_images_come_back_from_torchs_own_start_where_that_is_known(decay: float) -> None:
    held, X, _ = tuned(weight_decay=decay)
    finding = SpanReconstruction()(held)
    assert finding.verdict == "leak"
    assert right(finding, X) >= 19
    assert any("public start was taken off" in note for note in finding.notes)
    assert SpanReconstruction()(replace(held, start=None)).verdict == "none found"


def test_members_lie_inside_of_what_training_moved_and_others_do_not() -> None:
    held, X, others = tuned()
    finding = SpanMembership()(held, Candidates(np.concatenate([X, others]), shape=SHAPE))
    assert finding.verdict == "leak"
    assert finding.loot is not None
    assert finding.loot.decisions[:20].all()
    assert not finding.loot.decisions[20:].any()
    assert SpanMembership()(held, Candidates(others, shape=SHAPE)).verdict == "none found"


def test_adaptive_steps_leave_the_span_and_what_is_claimed_of_them_is_mostly_right() -> None:
    held, X, others = tuned(30, optimiser="adam", lr=1e-3, momentum=0.0, epochs=100)
    known = {"training_data": TrainingData(X, shape=SHAPE), "candidates": Candidates(others)}
    finding = SpanReconstruction()(held, truth=known)
    images = finding.scores["images at NCC > 0.9"]  # of all that is handed over
    assert images.value >= images.null + 4
    claimed = 0 if finding.loot is None else len(finding.loot.X)
    assert claimed == 0 or right(finding, X) >= 0.6 * claimed
    asked = SpanMembership()(held, Candidates(others, shape=SHAPE))
    assert asked.verdict == "none found"


def test_an_update_of_low_rank_that_is_no_picture_is_not_called_one() -> None:
    held, _, _ = tuned()
    assert held.start is not None
    rng = RNG(0)
    (W, b), *rest = held.start
    update = rng.standard_normal((len(W), 8)) @ rng.standard_normal((8, W.shape[1])) / 100  # as adapters of rank 8 leave it
    finding = SpanReconstruction()(replace(held, layers=((W + update, b), *rest)))
    assert finding.loot is None
    assert finding.verdict in ("none found", "not applicable")


@cache
def head() -> tuple[Weights, Array, Array]:
    """A head that was trained on what a layer of fixed random weights leaves of digits."""
    drawn = datasets.load("mnist", samples=20, seed=3)
    mean = drawn.X.mean(axis=0)
    rng = RNG(0)
    body: Layer = rng.standard_normal((300, 784)) / 10, rng.standard_normal(300) / 10
    features = np.maximum((drawn.X - mean) @ body[0].T + body[1], 0)
    made = ordinary.train(features, drawn.y, RNG(3), hidden=(60,), **MOMENTUM | {"lr": 0.01})
    held = Weights((body, *made.layers), mean=mean, shape=SHAPE, start=(body, *made.start))
    return held, drawn.X, drawn.X_test[:1000]


def test_behind_a_frozen_layer_members_are_found_and_images_are_not_looked_for() -> None:
    held, X, others = head()
    finding = SpanReconstruction()(held)
    assert finding.verdict == "not applicable"
    assert "first layer as it started" in finding.summary
    members = SpanMembership()(held, Candidates(np.concatenate([X, others]), shape=SHAPE))
    assert members.verdict == "leak"
    assert members.loot is not None
    assert members.loot.decisions[:20].mean() > 0.9
    assert members.loot.decisions[20:].mean() <= 0.002
    assert any("layer" in note and "alone" in note for note in members.notes)


def test_a_body_that_was_left_alone_under_a_new_head_is_said_to_show_nothing() -> None:
    held, X, _ = head()
    assert held.start is not None
    fresh = (*held.layers[:1], (RNG(1).standard_normal((7, 300)), np.zeros(7)))
    finding = SpanMembership()(replace(held, layers=fresh, start=held.start[:1]), Candidates(X))
    assert finding.verdict == "not applicable"
    assert "new head" in finding.summary


def test_a_new_head_on_a_public_body_hides_nothing() -> None:
    held, X, _ = tuned()
    assert held.start is not None
    *body, (W, _) = held.start
    other_task = (*body, (np.zeros((3, W.shape[1])), np.zeros(3)))
    same = replace(held, start=other_task)
    assert same.start is not None
    assert len(same.start) == 1
    assert right(SpanReconstruction()(same), X) >= 19


@pytest.mark.parametrize("attack", [GradientExtraction, ValueExtraction])
def test_answers_of_a_network_whose_start_is_public_lead_to_its_images(attack: Any) -> None:
    held, X, _ = tuned(weight_decay=1e-3)
    kind = Gradients if attack is GradientExtraction else Predictions
    api = replace(kind.of(replace(held, start=None)), mean=held.mean, start=held.start)
    won = attack()(api)
    assert won.verdict == "leak"
    assert won.loot is not None
    assert won.loot.start is not None
    assert won.loot.shape == SHAPE
    assert np.abs(won.loot.predict(X) - held.predict(X)).max() < 1e-5
    finding = SpanReconstruction()(won.loot)
    assert finding.verdict == "leak"
    assert right(finding, X) >= 18


def test_a_start_of_another_network_is_no_help_to_a_copy_and_that_is_said() -> None:
    held, _, _ = tuned()
    other = tuple((RNG(9).standard_normal(W.shape), b) for W, b in held.layers)
    won = GradientExtraction()(replace(Gradients.of(replace(held, start=None)), start=other))
    assert won.loot is not None
    assert won.loot.start is None
    assert any("unlike those of the start" in note for note in won.notes)


def features(count: int, seed: int) -> Array:
    """Non-negative with many zeros, as an encoder's are."""
    mix = RNG(0).standard_normal((40, 300)) / 6
    return np.maximum(RNG(seed).standard_normal((count, 40)) @ mix, 0)


@pytest.mark.slow
def test_members_of_a_head_that_adam_trained_are_told_by_shadows_from_its_start_and_nobody_else() -> None:
    X, others = features(60, 1), features(1500, 7)
    made = ordinary.train(X, np.arange(60) % 3, RNG(2), hidden=(100,), optimiser="adam", lr=1e-3, epochs=100, batch=32)
    held = Weights(tuple(made.layers), start=tuple(made.start))
    finding = SpanMembership()(held, Candidates(np.concatenate([X, others])))
    assert finding.verdict == "leak"
    assert finding.loot is not None
    assert finding.loot.decisions[:60].mean() > 0.8
    assert finding.loot.decisions[60:].mean() <= 0.005
    assert any("On shadows" in note for note in finding.notes)
    assert SpanMembership()(held, Candidates(others)).verdict == "none found"
