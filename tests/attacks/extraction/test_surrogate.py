"""Copies of classifiers: one gradient gives a linear one away, and a copy that is none is not called a leak."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from divulge import Candidates, Context, Copy, Finding, Gradients, Predictions, Weights, cli
from divulge.arrays import Array
from divulge.attacks import Surrogate
from divulge.attacks.extraction.surrogate import _share
from divulge.baselines import BlindSurrogate
from divulge.contract import Budget
from divulge.errors import BadInput
from divulge.storage import load, save

Victim = tuple[Weights, Candidates, dict[str, Candidates]]


def network(*sizes: int, seed: int = 0) -> Weights:
    """Random layers; the last bias makes no class more common than others."""
    rng = np.random.default_rng(seed)
    layers = [(2 * rng.normal(size=(units, inputs)) / np.sqrt(inputs), np.zeros(units)) for inputs, units in pairwise(sizes)]
    middle = np.median(Weights(tuple(layers)).predict(cloud(sizes[0])), axis=0)
    return Weights((*layers[:-1], (layers[-1][0], -middle)))


def cloud(dimension: int, n: int = 300, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=(n, dimension))


def labelled(model: Weights, dimension: int) -> dict[str, Candidates]:
    X = cloud(dimension, seed=2)
    return {"candidates": Candidates(X, model.predict(X).argmax(1))}


@pytest.fixture(scope="module")
def two_layer() -> Victim:
    model = network(6, 12, 3)
    return model, Candidates(cloud(6)), labelled(model, 6)


def loot(finding: Finding[Copy]) -> Copy:
    assert finding.loot is not None, finding.summary
    return finding.loot


def test_one_gradient_query_copies_a_linear_classifier_exactly() -> None:
    model = network(20, 5)
    attack = Surrogate(queries=1, architecture="one-layer")
    finding = attack(Gradients.of(model), Candidates(cloud(20)), truth=labelled(model, 20))
    assert finding.verdict.value == "leak"
    assert loot(finding).agreement == 1
    assert finding.scores["accuracy of the copy"].value == 1
    assert finding.cost.points == 1 + 150


@pytest.mark.slow
def test_gradients_teach_more_than_values_from_the_same_queries(two_layer: Victim) -> None:
    model, candidates, truth = two_layer
    share = {}
    for use in ("gradients", "values"):
        attack = Surrogate(queries=8, use=use, steps=500)
        share[use] = attack(Gradients.of(model), candidates, truth=truth).scores["accuracy of the copy"].value
    assert share["gradients"] > share["values"] + 0.05


@pytest.mark.parametrize("gradients", [True, False])
def test_auto_keeps_what_agrees_better_of_gradients_and_values(two_layer: Victim, gradients: bool) -> None:
    model, candidates, _ = two_layer
    right = Gradients.of(model)
    wrong = Gradients(right.value, 6, "misled", gradient=lambda X: -right.gradient(X))
    finding = Surrogate(queries=8, use="auto", steps=200)(right if gradients else wrong, candidates)
    kept = "values and gradients" if gradients else "values"
    assert f"copy trained on the {kept} at" in finding.summary
    tried = "two-layer by values and gradients, two-layer by values"
    assert finding.notes[1] == f"Tried: {tried}; half of the held-out queries chose."


def test_auto_learns_from_values_where_no_gradients_are_answered(two_layer: Victim) -> None:
    model, candidates, _ = two_layer
    finding = Surrogate(use="auto", steps=50)(Predictions(model.predict, 6, "values"), candidates)
    assert "copy trained on the values at" in finding.summary
    assert not any("Tried" in note for note in finding.notes)


def test_auto_runs_from_an_audit_file(
    two_layer: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model, candidates, _ = two_layer
    monkeypatch.chdir(tmp_path)
    layers = {
        f"{2 * i}.{part}": one
        for i, layer in enumerate(model.layers)
        for part, one in zip(("weight", "bias"), layer, strict=True)
    }
    save_file({name: np.ascontiguousarray(one) for name, one in layers.items()}, tmp_path / "network.safetensors")
    np.savez(tmp_path / "pool.npz", X=candidates.X)
    (tmp_path / "audit.toml").write_text(
        'attacks = ["surrogate"]\n[held.api]\nkind = "gradients"\nfile = "network.safetensors"\n'
        '[held.pool]\nkind = "candidates"\nfile = "pool.npz"\n[options.surrogate]\nuse = "auto"\nqueries = 8\nsteps = 100\n'
    )
    assert cli.main(["audit", "audit.toml", "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)["findings"]
    assert found["verdict"] == "leak"
    assert "copy trained on the values and gradients at 8 queries" in found["summary"]
    report = (tmp_path / "runs" / "audit" / "report.html").read_text()
    assert "Tried: two-layer by values and gradients, two-layer by values" in report


def test_only_labels_are_enough_for_a_copy_that_is_better_than_guessing(two_layer: Victim) -> None:
    model, candidates, _ = two_layer
    target = Predictions(lambda X: model.predict(X).argmax(1), 6, "labels")
    finding = Surrogate(queries=150, holdout=150, steps=300)(target, candidates)
    assert finding.verdict.value == "leak"


@pytest.mark.slow
def test_a_score_of_two_classes_is_copied_by_its_sign() -> None:
    model = network(4, 8, 1)
    finding = Surrogate(queries=50, steps=300)(Gradients.of(model), Candidates(cloud(4)))
    assert finding.verdict.value == "leak"
    assert loot(finding).classes == 1


def test_a_coin_that_is_tossed_at_every_point_is_not_copied() -> None:
    def tossed(X: Array) -> Array:
        return np.asarray(np.abs(np.sin(1e6 * X.sum(1))) > 0.5, dtype=float)

    finding = Surrogate(queries=100, steps=200)(Predictions(tossed, 3, "coin"), Candidates(cloud(3)))
    assert finding.verdict.value == "none found"
    assert finding.loot is None
    assert "fresh queries" in finding.power


def test_a_regression_is_not_applicable() -> None:
    target = Predictions(lambda X: 5 + np.abs(X).sum(1), 3, "positive")
    finding = Surrogate()(target, Candidates(cloud(3)))
    assert finding.verdict.value == "not applicable"
    assert "one number that never changes sides" in finding.summary


@pytest.mark.parametrize(
    ("options", "points", "reason"),
    [
        ({"architecture": "convolutional"}, cloud(6), "needs pictures"),
        ({}, cloud(5), "5 features and the target takes 6"),
        ({}, cloud(6, n=12), "too few"),
    ],
)
def test_what_cannot_be_copied_is_not_applicable(
    two_layer: Victim, options: dict[str, Any], points: Array, reason: str
) -> None:
    finding = Surrogate(**options)(Gradients.of(two_layer[0]), Candidates(points))
    assert finding.verdict.value == "not applicable"
    assert reason in finding.summary


def test_the_architecture_is_chosen_by_queries_that_do_not_measure_the_copy() -> None:
    finding = Surrogate(queries=5, architecture="auto", steps=100)(Gradients.of(network(20, 5)), Candidates(cloud(20)))
    assert loot(finding).architecture == "one-layer"
    assert "half of the held-out queries chose" in finding.notes[1]
    assert "of 75 fresh queries" in finding.summary


def test_twenty_candidates_are_enough_to_train_on_some_and_measure_on_others() -> None:
    attack = Surrogate(queries=5, holdout=10, architecture="one-layer")
    finding = attack(Gradients.of(network(6, 3)), Candidates(cloud(6, n=20)))
    assert finding.verdict.value == "leak"
    assert "of 10 fresh queries" in finding.summary


def test_the_interval_of_a_share_is_wilson_s() -> None:
    """Eight of ten: 0.490 to 0.943 (Wilson 1927, at 95 %); none of ten: up to 0.278."""
    assert _share(np.arange(10) < 8, 0.5, "chance").interval == pytest.approx((0.49016, 0.94332), abs=1e-5)
    assert _share(np.zeros(10, dtype=bool), 0.5, "chance").interval == pytest.approx((0, 0.27754), abs=1e-5)


@pytest.mark.slow
def test_random_points_are_enough_where_the_data_are_not_known(two_layer: Victim) -> None:
    model, _, truth = two_layer
    finding = BlindSurrogate(queries=40, steps=400)(Gradients.of(model), truth=truth)
    assert finding.verdict.value == "leak"
    assert finding.scores["accuracy of the copy"].value > 0.8
    assert finding.cost.points == 240


def test_the_shape_of_random_pictures_has_to_fit() -> None:
    finding = BlindSurrogate(shape=(3, 3))(Gradients.of(network(6, 3)))
    assert finding.verdict.value == "not applicable"


def test_training_stops_when_the_time_is_up(two_layer: Victim) -> None:
    model, candidates, _ = two_layer
    finding = Surrogate()(Gradients.of(model), candidates, context=Context(budget=Budget(seconds=1e-9)))
    assert finding.verdict.value == "failed"
    assert finding.partial


def test_a_dense_copy_has_weights_that_say_they_are_a_copy(two_layer: Victim, tmp_path: Path) -> None:
    model, candidates, _ = two_layer
    copy = loot(Surrogate(queries=20, steps=50)(Gradients.of(model), candidates))
    weights = copy.weights()
    X = cloud(6, n=5)
    assert np.allclose(weights.predict(X), copy.predict(X), atol=1e-4)
    assert not weights.exact
    assert weights.agreement == copy.agreement < 1
    save(copy, tmp_path / "copy.json")
    assert np.array_equal(load(tmp_path / "copy.json").predict(X), copy.predict(X))


def test_a_convolutional_copy_has_no_such_weights() -> None:
    from divulge.solvers.shared import architectures

    shape = (16, 16)
    module = architectures.build("convolutional", shape, 2, 0, width=2)
    copy = Copy("convolutional", architectures.state(module), shape, 2)
    assert copy.predict(np.zeros((3, math.prod(shape)))).shape == (3, 2)
    assert Gradients.of(copy).gradient(np.zeros((3, 256))).shape == (3, 2, 256)
    with pytest.raises(BadInput, match="dense layers only, got a convolutional one"):
        copy.weights()
