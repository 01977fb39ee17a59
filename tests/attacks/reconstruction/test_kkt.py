"""What stationarity gives away, on networks whose training points are known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from divulge import Candidates, TrainingData, Weights, datasets
from divulge.arrays import Array, Layer
from divulge.attacks import KktReconstruction
from divulge.attacks.reconstruction import kkt
from divulge.attacks.reconstruction.claims import Claims
from divulge.contract import Budget, Context, Finding, Verdict
from divulge.errors import BadInput
from divulge.solvers.images.layouts import Layout
from divulge.solvers.images.span import Span
from divulge.victims import margins

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"steps": 150, "count": 12, "fewest": 1}


def points(n: int = 12, d: int = 60, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, d))


def network(X: Array, y: Array, **settings: Any) -> list[Layer]:
    return list(margins.train(X, y, np.random.default_rng(1), **{"hidden": (100,), **settings}))


def claims_of(finding: Finding[TrainingData]) -> Claims:
    assert isinstance(finding.evidence, Claims)
    return finding.evidence


def attacked(
    layers: Sequence[Layer], X: Array | None = None, y: Array | None = None, options: dict[str, Any] = QUICK, **known: Any
) -> Finding[TrainingData]:
    truth = {} if X is None else {"training_data": TrainingData(X, y, shape=known.get("shape"))}
    return KktReconstruction(**options)(Weights(tuple(layers), **known), truth=truth)


@pytest.mark.parametrize(("classes", "hidden"), [(2, (100, 100)), (3, (100,))])
def test_points_come_back_from_networks_of_two_and_more_classes(classes: int, hidden: tuple[int, ...]) -> None:
    X, y = points(), np.arange(12) % classes
    finding = attacked(network(X, y, hidden=hidden), X, y, {"steps": 400, "count": 12})
    score = finding.scores["images at NCC > 0.9"]
    assert score.value >= 3
    assert score.value > score.null
    assert not finding.provenance.claimed
    assert "what the attack could not claim" in finding.summary or "not beyond doubt" in finding.summary


def test_of_points_that_are_no_pictures_none_is_claimed_and_all_are_handed_over() -> None:
    """Several searches agree on mistakes as well: of those on which they do, one in five was right."""
    X, y = points(), np.arange(12) % 2
    finding = attacked(network(X, y), options={"steps": 200, "count": 12})
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.loot is None
    assert "nothing tells which are training points" in finding.summary
    assert claims_of(finding).candidates.shape == (72, 60)
    assert not len(claims_of(finding).confidence)


def test_a_regression_with_weight_decay_gives_points_away() -> None:
    X, y = points(8), np.random.default_rng(2).standard_normal(8)
    layers = network(X, y, method="decay", loss="squared", first=1e-2, decay=1e-3)
    finding = attacked(layers, X, y, {"steps": 300, "count": 8})
    assert finding.scores["KKT residual"].value < 0.1
    assert finding.scores["best NCC of a pair"].value > finding.scores["best NCC of a pair"].null


def test_digits_come_back_in_their_own_units_and_the_finding_says_where_from() -> None:
    digits = datasets.load("mnist-odd-even", samples=12, seed=3)
    mean = digits.X.mean(axis=0)
    layers = network(digits.X - mean, digits.y, hidden=(60, 60))
    others = Candidates(digits.X_test[:500])
    truth = {"training_data": TrainingData(digits.X, digits.y, shape=digits.shape), "candidates": others}
    finding = KktReconstruction(**QUICK)(Weights(tuple(layers), mean=mean, shape=digits.shape), truth=truth)
    assert finding.verdict is Verdict.LEAK
    claimed = claims_of(finding).claimed
    assert finding.scores["claims that are right"].value >= 0.8 * claimed
    assert finding.scores["claims that are right"].null <= 0.3 * claimed
    assert finding.scores["KKT residual"].value < finding.scores["KKT residual"].null
    assert finding.loot is not None
    assert finding.loot.shape == (28, 28)
    assert 3 <= len(finding.loot.X) <= 12
    assert len(claims_of(finding).confidence) == len(finding.loot.X)
    assert len(claims_of(finding).candidates) == 72


def test_nothing_is_claimed_where_nobody_told_the_mean_or_any_picture_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    digits = datasets.load("mnist-odd-even", samples=12, seed=3)
    mean = digits.X.mean(axis=0)
    layers = tuple(network(digits.X - mean, digits.y, hidden=(60, 60)))
    untold = KktReconstruction(**QUICK)(Weights(layers, shape=digits.shape))
    assert untold.verdict is Verdict.NONE_FOUND
    monkeypatch.setattr(Span, "crowded", True)
    crowded = KktReconstruction(**QUICK)(Weights(layers, mean=mean, shape=digits.shape))
    assert crowded.verdict is Verdict.NONE_FOUND


def test_after_torchs_own_start_pictures_are_more_like_training_images_than_like_others() -> None:
    digits = datasets.load("mnist-odd-even", samples=8, seed=3)
    mean = digits.X.mean(axis=0)
    layers = network(digits.X - mean, digits.y, hidden=(200, 200), first="standard", single=True)
    truth = {
        "training_data": TrainingData(digits.X, digits.y, shape=digits.shape),
        "candidates": Candidates(digits.X_test[:500]),
    }
    held = Weights(tuple(layers), mean=mean, shape=digits.shape)
    finding = KktReconstruction(count=8, fewest=1, span=False, steps=300)(held, truth=truth)
    assert not finding.provenance.claimed
    rank = finding.scores["median rank among non-members"]
    assert rank.null is not None
    assert rank.value < rank.null / 3


def test_few_pictures_are_left_to_the_span_search() -> None:
    digits = datasets.load("mnist-odd-even", samples=12, seed=3)
    mean = digits.X.mean(axis=0)
    held = Weights(tuple(network(digits.X - mean, digits.y, hidden=(60,))), mean=mean, shape=digits.shape)
    for attack in (KktReconstruction(), KktReconstruction(count=199)):
        finding = attack(held)
        assert finding.verdict is Verdict.NOT_APPLICABLE
        assert "span-reconstruction" in finding.summary


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


@pytest.mark.parametrize(
    ("least", "on_shadow", "pictured", "why"),
    [
        (0.31, 0.1, False, "near no KKT point"),
        (0.31, 0.11, False, "no pictures"),
        (0.29, 0.05, False, "no pictures"),
        (0.29, 0.05, True, "in the span"),
    ],
)
def test_why_nothing_is_claimed_is_said(least: float, on_shadow: float, pictured: bool, why: str) -> None:
    assert why in kkt._why_nothing(Layout((6, 6)) if pictured else None, least, on_shadow)


@pytest.mark.parametrize(("ncc", "confidence"), [(0.92, 0.97), (0.88, 0.0)])
def test_gradients_confirm_what_the_span_search_found_from_an_ncc_of_09(ncc: float, confidence: float) -> None:
    basis = np.linalg.qr(np.column_stack([np.ones(60), points(3).T]))[0].T[1:]
    separated = np.stack([ncc * basis[0] + np.sqrt(1 - ncc**2) * basis[1], basis[2]])
    assert kkt._confirmed(basis[:1], separated, np.array([0.97, 0.99])).tolist() == [confidence, 0]


def test_a_network_with_fewer_units_than_points_says_nothing() -> None:
    digits = datasets.load("mnist", samples=300, seed=0)
    network = margins.train(digits.X, digits.y, np.random.default_rng(0), hidden=(16,), target=0.5, first="standard")
    assert attacked(network).verdict is Verdict.NONE_FOUND


def test_as_many_candidates_are_handed_over_as_the_usual_searches_make() -> None:
    """Six for each point looked for, however many candidates a search was given: the surest."""
    X, y = points(4), np.array([1, -1, 1, -1])
    finding = attacked(network(X, y, hidden=(30,)), options={"steps": 5, "count": 2, "candidates": 10})
    assert len(claims_of(finding).candidates) == 12


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
