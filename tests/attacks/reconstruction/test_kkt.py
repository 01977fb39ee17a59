"""What stationarity gives away, on networks whose training points are known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from divulge import Candidates, TrainingData, Weights, datasets
from divulge.arrays import Array, Layer, Layers
from divulge.attacks import KktReconstruction
from divulge.attacks.reconstruction import kkt
from divulge.contract import Budget, Context, Finding, Verdict
from divulge.errors import BadInput
from divulge.solvers.shared.calibration import CalibratedClassifier
from divulge.victims import margins

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"steps": 150, "count": 12}


def points(n: int = 12, d: int = 60, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, d))


def network(X: Array, y: Array, **settings: Any) -> list[Layer]:
    return list(margins.train(X, y, np.random.default_rng(1), **{"hidden": (100,), **settings}))


def attacked(
    layers: Sequence[Layer], X: Array | None = None, y: Array | None = None, options: dict[str, Any] = QUICK, **known: Any
) -> Finding[TrainingData]:
    truth = {} if X is None else {"training_data": TrainingData(X, y, shape=known.get("shape"))}
    return KktReconstruction(**options)(Weights(tuple(layers), **known), truth=truth)


@pytest.mark.parametrize(("classes", "hidden"), [(2, (100, 100)), (3, (100,))])
def test_points_come_back_from_networks_of_two_and_more_classes(classes: int, hidden: tuple[int, ...]) -> None:
    X, y = points(), np.arange(12) % classes
    finding = attacked(network(X, y, hidden=hidden), X, y, {"steps": 400, "count": 12})
    assert finding.verdict is Verdict.LEAK
    score = finding.scores["images at NCC > 0.9"]
    assert score.value >= 3
    assert score.value > score.null
    assert "Where the claimed points came from" in " ".join(finding.notes)


def test_a_regression_with_weight_decay_gives_points_away() -> None:
    X, y = points(8), np.random.default_rng(2).standard_normal(8)
    layers = network(X, y, method="decay", loss="squared", first=1e-2, decay=1e-3)
    finding = attacked(layers, X, y, {"steps": 300, "count": 8})
    assert finding.scores["KKT residual"].value < 0.1
    assert finding.scores["best NCC of a pair"].value > finding.scores["best NCC of a pair"].null
    assert finding.loot is not None


def test_digits_come_back_in_their_own_units_and_the_finding_says_where_from() -> None:
    digits = datasets.load("mnist-odd-even", samples=12, seed=3)
    mean = digits.X.mean(axis=0)
    layers = network(digits.X - mean, digits.y, hidden=(60, 60))
    others = Candidates(digits.X_test[:500])
    truth = {"training_data": TrainingData(digits.X, digits.y, shape=digits.shape), "candidates": others}
    finding = KktReconstruction(**QUICK)(Weights(tuple(layers), mean=mean, shape=digits.shape), truth=truth)
    assert finding.verdict is Verdict.LEAK
    assert finding.scores["images at NCC > 0.9"].value >= 9
    assert finding.scores["images at NCC > 0.9"].null <= 3
    assert finding.scores["KKT residual"].value < finding.scores["KKT residual"].null
    assert any("the span" in note for note in finding.notes)
    assert finding.loot is not None
    assert finding.loot.shape == (28, 28)
    assert "was trained on" in finding.power


def test_the_number_of_points_is_estimated_where_it_is_not_given() -> None:
    X, y = points(), np.where(np.arange(12) % 2, 1, -1)
    finding = attacked(network(X, y), options={"steps": 20})
    assert "Estimated on shadows: 12 training points." in finding.notes


def test_weights_that_were_never_trained_show_nothing() -> None:
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((80, 60)), np.zeros(80)), (rng.standard_normal((1, 80)), np.zeros(1))]
    finding = attacked(layers)
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.loot is None
    assert "no trace" in finding.summary


def test_a_network_near_no_kkt_point_is_told_by_what_no_candidates_explain() -> None:
    X, y = points(), np.where(np.arange(12) % 2, 1, -1)
    (W, b), (V, c) = network(X, y)
    shuffled = [(W, b), (np.abs(V)[:, np.random.default_rng(3).permutation(V.shape[1])], c)]
    finding = attacked(shuffled, X, y)
    assert finding.verdict is Verdict.NONE_FOUND
    assert "near no KKT point" in finding.summary
    assert finding.scores["KKT residual"].value > 0.5


def never_trained(units: int = 100, d: int = 60, directions: int = 12) -> Layers:
    """Rows that are mixtures of a few random directions, and outputs all of one sign: no points made them."""
    rng = np.random.default_rng(2)
    rows = np.abs(rng.standard_normal((units, directions))) @ rng.standard_normal((directions, d + 1))
    rows += 1e-4 * rng.standard_normal(rows.shape)
    outputs = rng.uniform(0.5, 1.5, units)
    rows, outputs = 5 * rows / np.linalg.norm(rows), 5 * outputs / np.linalg.norm(outputs)
    return [(rows[:, :-1], rows[:, -1]), (outputs[None], np.zeros(1))]


def test_weights_that_any_order_of_units_explains_as_well_are_claimed_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates explain weights that nothing was trained into, and the classifier is sure of some: the control is not."""
    options = {"steps": 300, "count": 12}
    finding = attacked(never_trained(), options=options)
    assert finding.verdict is Verdict.NONE_FOUND
    assert "with the units of its first layer mixed up" in finding.summary
    monkeypatch.setattr(kkt, "_refusal", lambda *measured: "")
    assert attacked(never_trained(), options=options).verdict is Verdict.LEAK


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({}, ""),
        ({"first": 0.26}, "mixed up"),
        ({"permuted": 0.47}, "mixed up"),
        ({"least": 0.31}, "near no KKT point"),
        ({"least": 0.31, "on_shadow": 0.11}, ""),
        ({"least": 0.31, "on_shadow": 0.1}, "near no KKT point"),
        ({"rank": 51}, "averages of many points"),
    ],
)
def test_searches_claim_only_what_is_far_better_explained_than_chance(what: dict[str, Any], why: str) -> None:
    """Each limit from either side: what is left is 0.29 of the weights, half of it where units are permuted."""
    usual: dict[str, Any] = {"least": 0.29, "on_shadow": 0.05, "first": 0.24, "permuted": 0.49, "rank": 50, "units": 100}
    refusal = kkt._refusal(**{**usual, **what})
    assert (why in refusal) if why else not refusal


def test_a_network_with_fewer_units_than_points_says_nothing() -> None:
    digits = datasets.load("mnist", samples=300, seed=0)
    network = margins.train(digits.X, digits.y, np.random.default_rng(0), hidden=(16,), target=0.5, first="standard")
    finding = attacked(network)
    assert finding.verdict is Verdict.NONE_FOUND


def test_images_of_the_span_stand_where_the_network_is_near_no_kkt_point() -> None:
    digits = datasets.load("mnist-odd-even", samples=12, seed=3)
    (W, b), (V, c) = network(digits.X, digits.y, method="decay", first="standard", epochs=200)
    shuffled = [(W, b), (np.abs(V)[:, np.random.default_rng(3).permutation(V.shape[1])], c)]
    finding = attacked(shuffled, digits.X, digits.y, shape=digits.shape)
    assert finding.verdict is Verdict.LEAK
    assert "the span" in finding.summary
    assert any("near no KKT point" in note for note in finding.notes)


@pytest.mark.parametrize(("confidence", "claimed"), [((0.71, 0.69), 1), ((0.71, 0.71), 2), ((0.69, 0.69), 0)])
def test_candidates_are_claimed_from_a_confidence_of_07(
    monkeypatch: pytest.MonkeyPatch, confidence: tuple[float, float], claimed: int
) -> None:
    def surely(self: CalibratedClassifier, measures: Array) -> Array:
        return np.append(confidence, np.zeros(len(measures) - 2))

    monkeypatch.setattr(CalibratedClassifier, "confidence", surely)
    monkeypatch.setattr(kkt, "_refusal", lambda *measured: "")
    X, y = points(4), np.array([1, -1, 1, -1])
    finding = attacked(network(X, y, hidden=(30,)), options={"steps": 5, "count": 4})
    assert finding.verdict is (Verdict.LEAK if claimed else Verdict.NONE_FOUND)
    assert not claimed or finding.summary.startswith(f"{claimed} candidates are claimed")


def test_the_loot_is_as_long_as_what_the_usual_searches_make() -> None:
    """Six for each point looked for, however many candidates a search was given: the surest."""
    X, y = points(4), np.array([1, -1, 1, -1])
    finding = attacked(network(X, y, hidden=(30,)), options={"steps": 5, "count": 2, "candidates": 10})
    assert finding.loot is not None
    assert len(finding.loot.X) == 12


def test_a_linear_model_is_not_what_this_attack_is_for() -> None:
    finding = attacked([(np.ones((1, 60)), np.zeros(1))])
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "no hidden layer" in finding.summary


def test_a_shape_that_contradicts_the_weights_is_refused() -> None:
    X, y = points(d=64), np.where(np.arange(12) % 2, 1, -1)
    with pytest.raises(BadInput, match="the weights say that images have shape"):
        attacked(network(X, y), options={"shape": (4, 16)}, shape=(8, 8))


def test_a_budget_that_runs_out_ends_the_search() -> None:
    X, y = points(), np.where(np.arange(12) % 2, 1, -1)
    layers = network(X, y)
    finding = KktReconstruction(steps=100_000, count=12)(
        Weights(tuple(layers)), context=Context(0, budget=Budget(seconds=1.0))
    )
    assert finding.verdict is Verdict.FAILED
    assert finding.partial


@pytest.mark.parametrize(
    "module",
    [
        "divulge.attacks.reconstruction.kkt",
        "divulge.attacks.reconstruction.span",
        "divulge.baselines.haim2022.inversion",
        "divulge.baselines.haim2022.first_layer",
    ],
)
def test_torch_is_loaded_when_an_attack_runs_and_not_before(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}, sys; assert 'torch' not in sys.modules"], check=True)
