"""Directions from values alone: those of training pictures where there are any, and reasons where there are none."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from divulge import Context, Finding, Predictions, TrainingData, Verdict, Weights
from divulge.arrays import Array
from divulge.attacks.directions.scoring import FIRST_LAYER, INSIDE, SeenDirections
from divulge.attacks.directions.values import ValueDirections
from divulge.contract import Directions
from divulge.contract.context import Budget
from divulge.solvers.shared import synthetic_images
from divulge.victims import ordinary

SHAPE, COUNT, CLASSES = (20, 20), 20, 5


@cache
def victim(outputs: int = CLASSES) -> tuple[Weights, TrainingData]:
    """An ordinarily trained network with weight decay, and its pictures."""
    rng = np.random.default_rng(0)
    X = synthetic_images.strokes(rng, COUNT, SHAPE)
    mean, y = X.mean(axis=0), np.arange(COUNT) % max(outputs, 2)
    run = ordinary.train(X - mean, y, rng, hidden=(80, 80), lr=0.1, momentum=0.9, weight_decay=3e-3, epochs=3000)
    return Weights(tuple(run.layers), mean=mean, shape=SHAPE), TrainingData(X, shape=SHAPE)


def single(model: Weights) -> Callable[[Array], Array]:
    """The same network, computed in single precision."""

    def answer(X: Array) -> Array:
        assert model.mean is not None
        A = X.astype(np.float32) - model.mean.astype(np.float32)
        for number, (W, b) in enumerate(model.layers):
            A = (np.maximum(A, 0) if number else A) @ W.T.astype(np.float32) + b.astype(np.float32)
        return A

    return answer


def softmax(Z: Array) -> Array:
    powers = np.exp(Z - Z.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def attack(
    answer: Callable[[Array], Array], model: Weights, data: TrainingData | None = None, queries: int | None = None
) -> Finding[Directions]:
    held = Predictions(answer, model.dimension, mean=model.mean, shape=model.shape)
    truth = {"weights": model} | ({} if data is None else {"training_data": data})
    return ValueDirections()(held, truth=truth, context=Context(0, budget=Budget(queries=queries)))


def rank(finding: Finding[Directions]) -> int:
    return finding.evidence.rank if isinstance(finding.evidence, SeenDirections) else 0


def seen(finding: Finding[Directions]) -> SeenDirections:
    assert isinstance(finding.evidence, SeenDirections)
    return finding.evidence


def refused(answer: Callable[[Array], Array], reason: str) -> None:
    finding = ValueDirections()(Predictions(answer, 64), context=Context(0))
    assert finding.verdict is Verdict.NOT_APPLICABLE, finding.summary
    assert reason in finding.summary


@pytest.mark.parametrize(
    ("precise", "probabilities", "least", "values"),
    [(True, False, 0.94, 2600), (True, True, 0.94, 3100), (False, False, 0.9, 8000), (False, True, 0.9, 8000)],
)
def test_directions_are_of_the_training_pictures(precise: bool, probabilities: bool, least: float, values: int) -> None:
    model, data = victim()
    logits = model.predict if precise else single(model)
    finding = attack((lambda X: softmax(logits(X))) if probabilities else logits, model, data)
    assert finding.onward, finding.summary
    inside = finding.scores[INSIDE]
    assert inside.value > least
    assert inside.null < 0.5
    assert rank(finding) >= 0.85 * COUNT
    assert finding.cost.points < values
    assert not finding.partial


def test_rows_are_combinations_of_the_first_layer() -> None:
    model, _ = victim()
    finding = attack(model.predict, model)
    assert finding.scores[FIRST_LAYER].value > 0.999
    assert finding.loot is not None
    assert finding.loot.precision is not None
    assert finding.loot.precision < 1e-9


def test_one_output_shows_them_too_as_a_logit() -> None:
    model, data = victim(1)
    finding = attack(lambda X: 1 / (1 + np.exp(-model.predict(X))), model, data)
    assert finding.onward, finding.summary
    assert finding.scores[INSIDE].value > 0.95


def test_a_budget_leaves_what_was_won_before_it() -> None:
    model, data = victim()
    finding = attack(model.predict, model, data, queries=1000)
    assert finding.onward, finding.summary
    assert finding.partial
    assert finding.cost.points <= 1000
    assert finding.loot is not None
    assert seen(finding).points == 2
    assert finding.loot.answers == finding.cost.points
    assert any("Another point would take" in note for note in finding.notes)


def test_a_budget_below_one_point_fails() -> None:
    model, _ = victim()
    finding = attack(model.predict, model, queries=100)
    assert finding.verdict is Verdict.FAILED
    assert finding.partial


def test_labels_alone_are_refused() -> None:
    model, _ = victim()
    finding = attack(lambda X: model.predict(X).argmax(axis=1), model)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "class labels" in finding.summary


def test_a_constant_and_a_linear_model_are_refused() -> None:
    W = np.random.default_rng(0).standard_normal((64, 3))
    refused(lambda X: np.ones((len(X), 3)), "the same everywhere")
    refused(lambda X: X @ W + 1, "linear")
    refused(lambda X: softmax(X @ W / 8), "linear")
    refused(lambda X: (X.astype(np.float32) @ W.astype(np.float32)).astype(float), "linear")


def test_curves_and_trees_are_refused() -> None:
    rng = np.random.default_rng(0)
    W, out = rng.standard_normal((64, 30)) / 4, rng.standard_normal((30, 3))
    refused(lambda X: np.tanh(X @ W) @ out, "curved")
    refused(lambda X: (np.tanh(X @ W) @ out).astype(np.float32), "curved")
    refused(lambda X: np.where(X[:, :3] > 0.5, 0.3, 0.9) + (X[:, 3:4] > 0.4), "as trees do")


def test_rounded_answers_show_less_and_say_so() -> None:
    model, data = victim()
    rounded = attack(lambda X: np.round(softmax(model.predict(X)), 2), model, data)
    exact = attack(lambda X: softmax(model.predict(X)), model, data)
    assert rank(rounded) < rank(exact)
    assert rounded.verdict is not Verdict.FAILED
