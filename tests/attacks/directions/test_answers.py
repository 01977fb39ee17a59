"""A handful of explanations: the directions of training pictures, the pictures, who was trained on, and reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from divulge import Candidates, Context, Explanation, Finding, Gradients, Predictions, TrainingData, Verdict, Weights
from divulge.attacks import SpanMembership, SpanReconstruction
from divulge.attacks.directions.answers import AnswerDirections
from divulge.attacks.directions.scoring import INSIDE, SeenDirections
from divulge.attacks.directions.values import ValueDirections
from divulge.contract import Directions
from divulge.contract.context import Budget
from divulge.solvers.shared import similarity, synthetic_images

from .victims import CLASSES, COUNT, SHAPE, explaining, victim

KINDS: dict[str, dict[str, Any]] = {
    "gradient of each output": {},
    "gradient of each output, single precision": {"single": True},
    "gradient × input of each output": {"kind": "times input"},
    "smoothed": {"kind": "smoothed"},
    "integrated gradients of each output from the baseline 0": {"kind": "integrated"},
    "gradient of each output, each scaled to length 1": {"kind": "length 1"},
    "probabilities": {"probabilities": True},
    "probabilities, single precision": {"probabilities": True, "single": True},
    "integrated, of probabilities": {"kind": "integrated", "probabilities": True},
    "gradient of the top output": {"of": "top"},
    "gradient of output 3": {"of": "3"},
    "gradient of the sum of outputs": {"of": "sum"},
    "top probability": {"of": "top", "probabilities": True},
}


def directions(held: Gradients, data: TrainingData | None = None, **options: Any) -> Finding[Directions]:
    truth = {} if data is None else {"training_data": data}
    return AnswerDirections(**options)(held, truth=truth, context=Context(0))


def won(finding: Finding[Directions]) -> Directions:
    assert finding.loot is not None, finding.summary
    return finding.loot


def seen(finding: Finding[Directions]) -> SeenDirections:
    assert isinstance(finding.evidence, SeenDirections)
    return finding.evidence


def images(held: Directions, data: TrainingData) -> tuple[int, int]:
    """How many training pictures come back, and how many are claimed."""
    found = SpanReconstruction()(held, context=Context(0))
    if found.loot is None:
        return 0, 0
    return int(np.sum(similarity.ncc(found.loot.X, data.X).max(axis=0) > 0.9)), len(found.loot.X)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_gradient_shows_the_directions_of_the_training_pictures(name: str) -> None:
    model, data = victim()
    finding = directions(explaining(model, **KINDS[name]), data)
    assert finding.onward, finding.summary
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.scores[INSIDE].value > 0.97
    assert finding.scores[INSIDE].null < 0.5
    rows = 1 if "of" in KINDS[name] else CLASSES
    assert seen(finding).points <= 2 * COUNT / rows + 3
    assert COUNT - 2 <= seen(finding).rank <= COUNT + 1
    if name.startswith(("gradient", "integrated gradients")) and "single" not in name:
        assert name in finding.notes[0]


def test_pictures_come_back_from_a_handful_of_answers() -> None:
    model, data = victim()
    finding = directions(explaining(model))
    assert finding.cost.points <= 9
    right, claimed = images(won(finding), data)
    assert right >= COUNT - 2
    assert claimed <= right + 1


def test_raw_pixels_and_biases_in_every_layer_show_them_too() -> None:
    """What later layers add to a value hides the scale of a picture, and the box tells it."""
    model, data = victim(centred=False)
    right, claimed = images(won(directions(explaining(model, knows_mean=False))), data)
    assert right >= COUNT - 4
    assert claimed <= right + 2


def test_more_answers_show_no_less() -> None:
    model, data = victim()
    inside = []
    for points in (6, 12, 30):
        finding = directions(explaining(model), data, least=points, most=points)
        inside.append(finding.scores[INSIDE].value * seen(finding).rank)
    assert inside[0] - 0.1 < inside[1] < inside[2] + 0.1


def test_members_are_told_from_answers_alone() -> None:
    model, data = victim()
    others = synthetic_images.strokes(np.random.default_rng(9), 300, SHAPE)
    asked = Candidates(np.concatenate([data.X, others]), shape=SHAPE)
    found = SpanMembership()(won(directions(explaining(model))), asked, context=Context(0))
    assert found.verdict is Verdict.LEAK, found.summary
    assert found.loot is not None
    assert found.loot.decisions[:COUNT].sum() >= COUNT - 2
    assert found.loot.decisions[COUNT:].sum() <= 1
    alone = SpanMembership()(won(directions(explaining(model))), Candidates(others, shape=SHAPE), context=Context(0))
    assert alone.verdict is Verdict.NONE_FOUND
    assert "moved into the span" in alone.power


def test_features_that_are_no_pictures_show_members_and_no_images() -> None:
    """A head on features that somebody else computed: membership runs, and reconstruction says why it does not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((320, 130))
    from divulge.victims import ordinary

    run = ordinary.train(X[:20], np.arange(20) % 4, rng, hidden=(40,), lr=0.1, momentum=0.9, weight_decay=3e-3, epochs=3000)
    held = won(directions(Gradients.of(Weights(tuple(run.layers)))))
    found = SpanMembership()(held, Candidates(X), context=Context(0))
    assert found.verdict is Verdict.LEAK, found.summary
    assert found.loot is not None
    assert found.loot.decisions[:20].sum() >= 18
    assert found.loot.decisions[20:].sum() <= 1
    refused = SpanReconstruction()(held)
    assert refused.verdict is Verdict.NOT_APPLICABLE
    assert "no pictures" in refused.summary


def test_a_budget_leaves_what_was_won_and_says_how_many_answers_would_do() -> None:
    model, _ = victim()
    finding = AnswerDirections()(explaining(model), context=Context(0, budget=Budget(queries=4)))
    assert finding.partial
    assert finding.onward
    assert finding.cost.points == 4
    assert "the budget of 4 queries ran out" in finding.summary
    assert "more answers at least would show all of them" in finding.summary
    nothing = AnswerDirections()(explaining(model, told=Explanation("gradient", "each output")),
                                 context=Context(0, budget=Budget(queries=1)))  # fmt: skip
    assert nothing.partial
    assert won(nothing).answers == 1


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Explanation("absolute gradient", absolute=True), "absolute gradient"),
        (Explanation("SHAP-like"), "SHAP-like"),
        (Explanation("gradient", "each output", normalised="range"), "stretched from 0 to 1"),
        (Explanation("unknown"), "unknown"),
    ],
)
def test_explanations_that_cannot_serve_are_refused_by_their_kind(kind: Explanation, reason: str) -> None:
    model, _ = victim()
    finding = directions(explaining(model, told=kind))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert reason in finding.summary


def test_absolute_values_are_seen_at_the_first_answer() -> None:
    model, _ = victim()
    finding = directions(explaining(model, "absolute"))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "absolute gradient" in finding.summary
    assert finding.cost.points <= 4


def test_a_convolution_is_named() -> None:
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 18 * 18, 3)).double()
    held = Gradients.of(module, shape=(1, *SHAPE))
    assert held.shape == SHAPE
    with torch.no_grad():
        X = torch.rand(2, 1, *SHAPE, dtype=torch.float64)
        np.testing.assert_allclose(held.value(X.reshape(2, -1).numpy()), module(X).numpy(), atol=1e-12)
    finding = directions(held)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "first layer, 0 (Conv2d), is not dense" in finding.summary
    assert finding.cost.points == 0


def test_a_module_without_a_width_says_how_to_give_one() -> None:
    with pytest.raises(ValueError, match=r"Gradients.of\(module, shape="):
        Gradients.of(nn.Sequential(nn.Conv2d(1, 4, 3)))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Weights(((np.eye(3, 400), np.zeros(3)),), shape=SHAPE), "the model is linear"),
        (
            Weights(((np.random.default_rng(0).normal(size=(50, 400)), np.zeros(50)), (np.ones((2, 50)), np.zeros(2))),
                    shape=SHAPE),
            "No two directions",
        ),
    ],
    ids=["linear", "untrained"],
)  # fmt: skip
def test_models_with_nothing_to_find_say_so_after_a_few_answers(model: Weights, reason: str) -> None:
    finding = directions(Gradients.of(model))
    assert finding.loot is None
    assert reason in finding.summary
    assert finding.cost.points <= 20


def test_values_are_not_asked_for_where_explanations_show_the_same() -> None:
    model, _ = victim()
    finding = ValueDirections()(explaining(model), context=Context(0))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "answer-directions" in finding.summary
    hidden = ValueDirections(points=1)(explaining(model, "absolute"), context=Context(0))
    assert hidden.loot is not None
    assert hidden.loot.answers > model.dimension


def test_what_an_image_cost_is_said() -> None:
    model, _ = victim()
    found = SpanReconstruction()(won(directions(explaining(model))), context=Context(0))
    assert "answers come out" in found.summary
    assert any("answers of the model an image" in note for note in found.notes)


def test_the_first_layer_is_a_kind_of_directions() -> None:
    model, _ = victim()
    assert isinstance(model, Directions)
    np.testing.assert_array_equal(model.rows, np.column_stack(model.layers[0]))
    assert not isinstance(Predictions.of(model), Directions)


def test_one_output_is_a_probability_only_where_it_always_is() -> None:
    """A score that happens to lie between 0 and 1 at the first points is read as a score once it does not."""
    model, data = victim(1)
    plain = Gradients.of(model)
    held = Gradients(value=plain.value, gradient=plain.gradient, dimension=400, mean=model.mean, shape=SHAPE)
    finding = directions(held, data)
    assert finding.scores[INSIDE].value > 0.95
    logistic = Gradients(
        value=lambda X: 1 / (1 + np.exp(-plain.value(X))),
        gradient=lambda X: plain.gradient(X) * np.exp(-plain.value(X)) / (1 + np.exp(-plain.value(X))) ** 2,
        dimension=400,
        mean=model.mean,
        shape=SHAPE,
    )
    assert directions(logistic, data).scores[INSIDE].value > 0.95
