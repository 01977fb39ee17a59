"""Training points of networks with one input: what is certified is right, and what cannot be is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from divulge import Predictions, TrainingData, Truth, Weights, storage, victims
from divulge.arrays import Array
from divulge.attacks import UnivariateFromValues, UnivariateReconstruction
from divulge.attacks.univariate.findings import CertifiedPoints
from divulge.contract import Finding, Scatter
from divulge.errors import BadInput


def made(seed: int, points: int, **settings: Any) -> tuple[Weights, dict[str, Any]]:
    victim = victims.make(
        "univariate", np.empty((0, 1)), np.empty(0), np.random.default_rng(seed), points=points, **settings
    )
    (network,) = victim.held.values()
    assert isinstance(network, Weights)
    return network, dict(victim.truth)


def precision(finding: Finding[Any]) -> float:
    return finding.scores["certified precision"].value


def won(finding: Finding[TrainingData]) -> TrainingData:
    assert finding.loot is not None
    return finding.loot


@pytest.mark.parametrize("points", [1, 2, 6, 9, 14, 20])
def test_every_training_point_of_a_kkt_network_is_certified(points: int) -> None:
    network, truth = made(points, points)
    finding = UnivariateReconstruction()(network, truth=truth)
    assert finding.verdict.value == "leak"
    assert precision(finding) == 1.0 > 0.2 > finding.scores["certified precision"].null
    assert finding.scores["margin points certified"].value == 1.0
    assert np.sort(won(finding).X[:, 0]) == pytest.approx(truth["training_data"].X[:, 0], abs=1e-6)
    order = np.argsort(won(finding).X[:, 0])
    assert np.asarray(won(finding).y)[order].tolist() == truth["training_data"].y.tolist()


@pytest.mark.parametrize("labels", ["alternating", "random"])
@pytest.mark.parametrize("seed", range(4))
def test_other_local_minima_keep_the_guarantee_where_the_margin_is_known(seed: int, labels: str) -> None:
    network, truth = made(seed, 8 + seed, units=60, labels=labels, margin=2.5)
    finding = UnivariateReconstruction(margin=2.5)(network, truth=truth)
    assert finding.verdict.value == "leak"
    assert precision(finding) >= 0.25
    assert finding.scores["windows with a training point"].value == 1.0
    assert finding.scores["precision of those certain each"].value == 1.0
    assert finding.scores["margin points found"].value >= 0.9
    assert finding.scores["KKT residual at the margin points"].value < 1e-6


def test_the_truth_that_is_another_networks_refutes_the_certificates() -> None:
    network, _ = made(0, 8)
    other = TrainingData(np.linspace(-0.97, 0.93, 8)[:, None], np.resize([1, -1], 8))
    finding = UnivariateReconstruction()(network, truth={"training_data": other})
    assert finding.verdict.value == "failed"
    assert "contradicts" in finding.summary
    assert finding.loot is not None


def test_what_the_network_subtracts_is_added_again() -> None:
    network, truth = made(3, 7)
    moved = replace(network, mean=np.array([100.0]))
    x = truth["training_data"].X + 100
    finding = UnivariateReconstruction()(moved, truth={"training_data": TrainingData(x, truth["training_data"].y)})
    assert precision(finding) == 1.0
    assert np.sort(won(finding).X, axis=0) == pytest.approx(x)


def test_single_precision_is_enough() -> None:
    network, truth = made(4, 10)
    rough = Weights(tuple((W.astype(np.float32), b.astype(np.float32)) for W, b in network.layers))
    finding = UnivariateReconstruction()(rough, truth=truth)
    assert finding.verdict.value == "leak"
    assert precision(finding) == 1.0


def test_weights_near_a_kkt_point_certify_groups_at_a_tolerance_that_the_finding_states() -> None:
    network, truth = made(5, 8)
    (W, b), (V, c) = network.layers
    moved = Weights(((W * (1 + 1e-3 * np.random.default_rng(0).normal(size=W.shape)), b), (V, c)))
    finding = UnivariateReconstruction()(moved, truth=truth)
    assert finding.verdict.value == "leak"
    assert "of the breakpoints' spread" in finding.summary
    points = finding.evidence
    assert isinstance(points, CertifiedPoints)
    assert 0 < points.tolerance <= 0.01
    assert points.certain_each == 0
    assert points.listed == len(won(finding).X)
    assert finding.scores["windows with a training point"].value == 1


@pytest.mark.parametrize("size", [0.03, 0.1])
def test_weights_that_are_no_kkt_point_certify_nothing(size: float) -> None:
    network, truth = made(5, 8)
    rng = np.random.default_rng(0)
    (W, b), (V, c) = network.layers
    moved = Weights(((W * (1 + size * rng.normal(size=W.shape)), b), (V, c)))
    finding = UnivariateReconstruction()(moved, truth=truth)
    assert finding.verdict.value == "none found"
    assert "certified" not in "".join(finding.scores.keys() - {"margin points certified"})
    assert "planted" in finding.power
    assert finding.loot is not None


def test_trained_networks_are_told_from_kkt_points_and_candidates_are_offered() -> None:
    network, truth = made(6, 6, method="decay")
    assert UnivariateReconstruction()(network).verdict.value == "none found"
    finding = UnivariateReconstruction()(network, truth=truth)
    assert not finding.provenance.claimed
    assert finding.verdict.value == "leak"
    assert finding.summary.startswith("The truth shows more than the attack could certify: of ")
    assert finding.scores["precision of all candidates"].value > 10 * finding.scores["precision of all candidates"].null
    assert finding.scores["KKT residual at the margin points"].value > 1e-3


def test_a_copy_is_never_certified() -> None:
    network, truth = made(7, 8)
    copied = replace(network, exact=False, agreement=0.99)
    assert "copy" in UnivariateReconstruction()(copied).summary
    finding = UnivariateReconstruction()(copied, truth=truth)
    assert not finding.provenance.claimed
    assert "margin points certified" in finding.scores
    assert finding.scores["margin points certified"].value == 0
    assert finding.scores["margin points found"].value == 1.0


def test_other_shapes_are_not_applicable_and_crossings_are_offered_all_the_same() -> None:
    network, truth = made(8, 8)
    (W, b), (V, c) = network.layers
    biased = UnivariateReconstruction()(Weights(((W, b), (V, c + 0.5))), truth=truth)
    deeper = UnivariateReconstruction()(
        Weights(((W, b), (np.vstack([V, -V]), np.zeros(2)), (np.array([[1.0, -1.0]]), np.zeros(1)))), truth=truth
    )
    for finding, word in ((biased, "bias"), (deeper, "hidden layer")):
        assert finding.verdict.value == "not applicable"
        assert word in finding.summary
        assert finding.loot is not None
        assert "certified precision" not in finding.scores
    assert deeper.scores["margin points found"].value == 1.0  # the same function, by another network


def test_several_inputs_or_outputs_or_no_hidden_layer_are_not_applicable() -> None:
    rng = np.random.default_rng(0)
    two = Weights(((rng.normal(size=(4, 2)), np.zeros(4)), (rng.normal(size=(1, 4)), np.zeros(1))))
    outputs = Weights(((rng.normal(size=(4, 1)), np.zeros(4)), (rng.normal(size=(3, 4)), np.zeros(3))))
    line = Weights(((np.ones((1, 1)), np.zeros(1)),))
    truth = {"training_data": TrainingData(np.zeros((2, 1)), np.array([0, 1]))}
    for network, word in ((two, "2 inputs"), (outputs, "3 outputs"), (line, "no hidden layer")):
        finding = UnivariateReconstruction()(network, truth=truth)
        assert finding.verdict.value == "not applicable"
        assert word in finding.summary
    assert UnivariateFromValues()(Predictions(lambda X: X[:, 0], 2)).verdict.value == "not applicable"


def test_a_margin_that_cannot_be_is_answered_clearly() -> None:
    for margin in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(BadInput, match="margin"):
            UnivariateReconstruction(margin=margin)
    hat = Weights(((np.ones((3, 1)), np.array([0.0, -1, -2])), (np.array([[1.0, -2, 1]]), np.zeros(1))))
    finding = UnivariateReconstruction(margin=5.0)(hat)
    assert finding.verdict.value == "failed"
    assert "never reaches" in finding.summary


def test_a_margin_that_breakpoints_contradict_certifies_nothing() -> None:
    network, _ = made(9, 8)
    finding = UnivariateReconstruction(margin=0.7)(network)
    assert finding.verdict.value == "none found"
    assert "another margin, 1" in finding.summary


@pytest.mark.parametrize("margin", [None, 3.0])
@pytest.mark.parametrize("slope", [0.0, 1e-17, 1e-21])
def test_networks_without_breakpoints_have_nothing_to_find(slope: float, margin: float | None) -> None:
    network = Weights(((np.full((3, 1), slope), np.ones(3)), (np.ones((1, 3)), np.zeros(1))))
    finding = UnivariateReconstruction(margin=margin)(network)
    assert finding.verdict.value == "none found"
    assert finding.loot is None


def test_a_network_that_is_zero_has_nothing_to_find() -> None:
    finding = UnivariateReconstruction()(Weights(((np.zeros((3, 1)), np.zeros(3)), (np.ones((1, 3)), np.zeros(1)))))
    assert finding.verdict.value == "none found"
    assert finding.loot is None


def test_the_figure_shows_the_function_its_margin_and_the_truth() -> None:
    network, truth = made(10, 6)
    (figure,) = UnivariateReconstruction()(network, truth=truth).figures
    assert isinstance(figure, Scatter)
    assert set(figure.groups) == {"breakpoints", "certified", "training points"}
    for x, y in (*figure.groups.values(), figure.lines["network"]):
        assert y == pytest.approx(network.predict(x[:, None])[:, 0], abs=1e-9)
    assert len(figure.groups["training points"][0]) == 6
    assert figure.lines["margin"][1] == pytest.approx(1.0)
    assert figure.lines["margin, other side"][1] == pytest.approx(-1.0)


@pytest.mark.parametrize("given", [True, False])
def test_values_alone_find_the_same_points(given: bool) -> None:
    network, truth = made(11, 9)
    (W, b), _ = network.layers
    breakpoints = tuple((-b / W[:, 0]).tolist()) if given else None
    finding = UnivariateFromValues(breakpoints=breakpoints)(Predictions.of(network), truth=truth)
    assert finding.verdict.value == "leak"
    assert precision(finding) == 1.0
    assert finding.scores["margin points found"].value == 1.0
    assert finding.cost.points < (12 if given else 200)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (lambda X: np.tanh(3 * X[:, 0]), "curved"),
        (lambda X: np.full(len(X), 2.0), "same value"),
        (lambda X: np.round(np.abs(X[:, 0]), 2), "noise|curved|jump"),
        (lambda X: np.column_stack([X, X]), "2 values"),
    ],
)
def test_answers_that_are_no_networks_values_are_refused(value: Callable[[Array], Array], word: str) -> None:
    finding = UnivariateFromValues()(Predictions(value, 1))
    assert finding.verdict.value == "not applicable"
    assert any(one in finding.summary for one in word.split("|"))


def test_breakpoints_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match="finite"):
        UnivariateFromValues(breakpoints=(0.0, float("nan")))(Predictions(lambda X: X[:, 0], 1))


@pytest.mark.parametrize(
    "settings", [{"points": 0}, {"points": 21}, {"method": "magic"}, {"units": 0}, {"margin": -1.0}, {"labels": "x"}]
)
def test_recipes_refuse_what_they_do_not_know(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        made(0, **{"points": 5, **settings})


def test_what_values_showed_is_scored_the_same_once_it_was_stored() -> None:
    network, truth = made(11, 9)
    attack, model = UnivariateFromValues(), Predictions.of(network)
    kept = storage.unpack(*storage.pack(attack(model)))
    again, whole = attack.score(kept, model, Truth(truth)), attack(model, truth=truth)
    assert again.scores == whole.scores
    assert again.notes == whole.notes
