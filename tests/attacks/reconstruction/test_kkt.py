"""What stationarity gives away, on networks whose training points are known."""

import numpy as np
import pytest

from divulge import Candidates, TrainingData, Weights, datasets
from divulge.attacks import KktReconstruction
from divulge.contract import Budget, Context, Verdict
from divulge.errors import BadInput
from divulge.victims import margins

QUICK = {"steps": 150, "count": 12}


def points(n=12, d=60, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def network(X, y, **settings):
    return margins.train(X, y, np.random.default_rng(1), **{"hidden": (100,), **settings})


def attacked(layers, X=None, y=None, options=QUICK, **known):
    truth = {} if X is None else {"training_data": TrainingData(X, y, shape=known.get("shape"))}
    return KktReconstruction(**options)(Weights(tuple(layers), **known), truth=truth)


@pytest.mark.parametrize(("classes", "hidden"), [(2, (100, 100)), (3, (100,))])
def test_points_come_back_from_networks_of_two_and_more_classes(classes, hidden):
    X, y = points(), np.arange(12) % classes
    finding = attacked(network(X, y, hidden=hidden), X, y, {"steps": 400, "count": 12})
    assert finding.verdict is Verdict.LEAK
    score = finding.scores["images at NCC > 0.9"]
    assert score.value >= 3
    assert score.value > score.null
    assert "Where the claimed points came from" in " ".join(finding.notes)


def test_a_regression_with_weight_decay_gives_points_away():
    X, y = points(8), np.random.default_rng(2).standard_normal(8)
    layers = network(X, y, method="decay", loss="squared", first=1e-2, decay=1e-3)
    finding = attacked(layers, X, y, {"steps": 300, "count": 8})
    assert finding.scores["KKT residual"].value < 0.1
    assert finding.scores["best NCC of a pair"].value > finding.scores["best NCC of a pair"].null
    assert finding.loot is not None


def test_digits_come_back_in_their_own_units_and_the_finding_says_where_from():
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
    assert finding.loot.shape == (28, 28)
    assert "planted" in finding.power


def test_the_number_of_points_is_estimated_where_it_is_not_given():
    X, y = points(), np.where(np.arange(12) % 2, 1, -1)
    finding = attacked(network(X, y), options={"steps": 20})
    assert "Estimated on shadows: 12 training points." in finding.notes


def test_weights_that_were_never_trained_show_nothing():
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((80, 60)), np.zeros(80)), (rng.standard_normal((1, 80)), np.zeros(1))]
    finding = attacked(layers)
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.loot is None
    assert "no trace" in finding.summary


def test_a_network_near_no_kkt_point_is_told_by_what_no_candidates_explain():
    X, y = points(), np.where(np.arange(12) % 2, 1, -1)
    (W, b), (V, c) = network(X, y)
    shuffled = [(W, b), (np.abs(V)[:, np.random.default_rng(3).permutation(V.shape[1])], c)]
    finding = attacked(shuffled, X, y)
    assert finding.verdict is Verdict.NONE_FOUND
    assert "near no KKT point" in finding.summary
    assert finding.scores["KKT residual"].value > 0.5


def test_a_network_with_fewer_units_than_points_says_nothing():
    digits = datasets.load("mnist", samples=300, seed=0)
    network = margins.train(digits.X, digits.y, np.random.default_rng(0), hidden=(16,), target=0.5, first="standard")
    finding = attacked(network)
    assert finding.verdict is Verdict.NONE_FOUND


def test_images_of_the_span_stand_where_the_network_is_near_no_kkt_point():
    digits = datasets.load("mnist-odd-even", samples=12, seed=3)
    (W, b), (V, c) = network(digits.X, digits.y, method="decay", first="standard", epochs=200)
    shuffled = [(W, b), (np.abs(V)[:, np.random.default_rng(3).permutation(V.shape[1])], c)]
    finding = attacked(shuffled, digits.X, digits.y, shape=digits.shape)
    assert finding.verdict is Verdict.LEAK
    assert "the span" in finding.summary
    assert any("near no KKT point" in note for note in finding.notes)


def test_a_linear_model_is_not_what_this_attack_is_for():
    finding = attacked([(np.ones((1, 60)), np.zeros(1))])
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "no hidden layer" in finding.summary


def test_a_shape_that_contradicts_the_weights_is_refused():
    X, y = points(d=64), np.where(np.arange(12) % 2, 1, -1)
    with pytest.raises(BadInput, match="the weights say that images have shape"):
        attacked(network(X, y), options={"shape": (4, 16)}, shape=(8, 8))


def test_a_budget_that_runs_out_ends_the_search():
    X, y = points(), np.where(np.arange(12) % 2, 1, -1)
    layers = network(X, y)
    finding = KktReconstruction(steps=100_000, count=12)(
        Weights(tuple(layers)), context=Context(0, budget=Budget(seconds=1.0))
    )
    assert finding.verdict is Verdict.FAILED
    assert finding.partial
