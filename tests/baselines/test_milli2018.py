"""The published algorithm as an attack: what it wins, what it costs, and why it does not get there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from divulge import Finding, Gradients, Weights
from divulge.baselines import PublishedExtraction
from divulge.contract import Context

LUCKY = 2
"A seed whose line meets every unit: one line in about 17 misses one of ten, as theorem 2 allows."


def network(units: int = 10, dimension: int = 20, outputs: int = 1, biases: bool = False, seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    shift = rng.normal(size=units) if biases else np.zeros(units)
    return Weights(((rng.normal(size=(units, dimension)), shift), (rng.normal(size=(outputs, units)), np.zeros(outputs))))


def attacked(model: Weights, access: Gradients | None = None, **options: Any) -> Finding[Weights]:
    return PublishedExtraction(**options)(access or Gradients.of(model), truth={"weights": model}, context=Context(LUCKY))


def test_a_network_is_copied_exactly_for_the_published_price() -> None:
    finding = attacked(network())
    assert finding.verdict == "leak"
    assert finding.loot is not None
    assert finding.loot.exact
    assert finding.loot.agreement == 1
    assert finding.scores["relative error at fresh points"].value < 1e-12
    price = finding.scores["queries per unit"]
    assert price.value == pytest.approx(24, abs=1)
    assert price.null == 21
    assert finding.cost.points == 10 * price.value + 40


def test_values_alone_cost_a_dimension_more_and_leave_fewer_digits() -> None:
    finding = attacked(network(5), units=5, membership=True)
    assert finding.verdict == "leak"
    assert 1e-12 < finding.scores["relative error at fresh points"].value < 1e-4
    assert finding.scores["queries per unit"].value > 10 * finding.scores["queries per unit"].null


@pytest.mark.parametrize(
    ("model", "options", "verdict", "reason"),
    [
        (network(biases=True), {}, "not applicable", "has biases"),
        (network(outputs=3), {}, "not applicable", "3 outputs"),
        (network(30), {"units": 30}, "not applicable", "30 units in 20 dimensions"),
        (network(12), {}, "failed", "there are more"),
        (network(8), {}, "failed", "changes 8 times on a line of 10 units"),
        (network(100, 100), {"units": 100, "membership": True}, "failed", "step of the finite differences"),
    ],
)
def test_what_stopped_it_is_said(model: Weights, options: dict[str, Any], verdict: str, reason: str) -> None:
    finding = attacked(model, **options)
    assert finding.verdict == verdict
    assert reason in finding.summary


def test_explanations_that_are_no_gradients_are_named() -> None:
    model = network()
    raw = Gradients.of(model)
    access = Gradients(raw.value, 20, gradient=lambda X: np.abs(raw.gradient(X)))
    finding = attacked(model, access)
    assert finding.verdict == "not applicable"
    assert "absolute gradient" in finding.summary


def test_a_constant_model_holds_nothing() -> None:
    flat = Gradients(lambda X: np.zeros(len(X)), 20, gradient=np.zeros_like)
    assert "same answer" in PublishedExtraction()(flat).summary


def test_the_truth_of_another_model_is_noticed() -> None:
    model = network()
    finding = PublishedExtraction()(Gradients.of(model), truth={"weights": network(seed=9)}, context=Context(LUCKY))
    assert finding.verdict == "failed"
    assert "this is wrong" in finding.summary
