"""What a layer says of points it was trained on, and of others."""

from __future__ import annotations

import numpy as np
import pytest

from divulge import datasets
from divulge.arrays import Array, Layer
from divulge.solvers.shadow import span_scores
from divulge.solvers.shared.calibration import CalibratedClassifier
from divulge.victims import margins

RNG = np.random.default_rng
SPREAD = np.linspace(2, 0.1, 60)
"Of the 60 features: some vary far more than others, as pixels do."


def points(count: int, seed: int) -> Array:
    return RNG(seed).normal(size=(count, 60)) * SPREAD + 3


def layers(X: Array, mean: Array | float, noise: float = 0.0, seed: int = 5) -> list[Layer]:
    """A network whose first rows are mixtures of the points [x − mean, 1], as descent leaves them."""
    rng = RNG(seed)
    rows = rng.normal(size=(80, len(X))) @ np.column_stack([X - mean, np.ones(len(X))])
    rows += noise * rng.normal(size=rows.shape)
    return [(rows[:, :-1], rows[:, -1]), (np.ones((1, 80)), np.zeros(1))]


@pytest.mark.parametrize("known", [True, False])
def test_points_in_the_span_stand_out_whether_the_mean_is_known_or_not(known: bool) -> None:
    members, others = points(20, 0), points(500, 1)
    mean = members.mean(axis=0)
    deepest = span_scores.left(layers(members, mean), np.concatenate([members, others]), mean if known else None)[-1]
    if known:
        assert deepest[:20].min() > deepest[20:].max()
    else:  # the mean of 520 points is not the one that was subtracted
        assert np.mean(deepest[:20] > np.quantile(deepest[20:], 0.99)) > 0.8


def digits() -> tuple[list[Layer], Array]:
    """A network for odd and even digits, and what it was trained on first among others."""
    drawn = datasets.load("mnist-odd-even", samples=200, seed=0)
    trained = margins.train(drawn.X - drawn.X.mean(axis=0), drawn.y, RNG(0), hidden=[300], fall=0.1)
    return trained, np.concatenate([drawn.X, drawn.X_test[:1000]]).astype(float)


@pytest.mark.slow
def test_a_point_is_compared_with_points_as_unusual_as_it_is() -> None:
    """Digits without much detail leave less outside any span: they are not members for that."""
    network, X = digits()
    plain = span_scores.left(network, X, None)
    alike = span_scores.compared(plain, span_scores.detail(X), np.zeros((0, *plain.shape)), np.zeros((0, len(X)), bool))
    found = [np.mean(one[:200] > np.quantile(one[200:], 0.99)) for one in (plain[4], alike[4])]
    assert found[1] > found[0] + 0.15


def test_what_a_point_leaves_outside_other_networks_is_taken_off() -> None:
    rng = RNG(0)
    alike = np.column_stack([np.ones(400), rng.normal(size=400)])
    usual, own = rng.normal(size=400), np.zeros(400)
    own[:10] = 0.5
    trained = np.zeros((2, 400), bool)
    trained[0, 5:15] = True
    others = np.array([[usual + 3 * trained[0]], [usual]])
    found = span_scores.compared((usual + own)[None], alike, others, trained)[0]
    assert found[:10].min() > found[10:].max()


def test_the_rows_hold_a_member_as_descent_put_it_there() -> None:
    network, X = digits()
    found = span_scores.strengths(network, X, None)[2]
    assert np.mean(found[:200] > np.quantile(found[200:], 0.99)) > 0.3


def test_kinks_are_counted_where_units_have_them() -> None:
    X = points(200, 0)
    mean = X.mean(axis=0)
    W = RNG(1).normal(size=(40, 60))
    b = -W @ (X[7] - mean)  # every unit has its kink at one point
    assert span_scores.kinks([(W, b)], X, mean)[0].argmax() == 7


def test_measures_do_not_depend_on_the_size_of_the_weights() -> None:
    members, others = points(20, 0), points(200, 1)
    mean = members.mean(axis=0)
    (W, b), last = layers(members, mean, noise=0.01)
    X = np.concatenate([members, others])
    for measure in (span_scores.left, span_scores.strengths, span_scores.kinks):
        one, other = measure([(W, b), last], X, mean), measure([(1e3 * W, 1e3 * b), last], X, mean)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_the_least_left_over_multiples_of_a_nuisance_is_what_a_search_finds() -> None:
    rng = RNG(0)
    rows, X, nuisance = rng.normal(size=(30, 12)), rng.normal(size=(5, 12)), rng.normal(size=(2, 12))
    found = span_scores._left(rows, X, nuisance, [1e-2])[0]
    G = np.linalg.inv(rows.T @ rows / np.linalg.norm(rows, 2) ** 2 + 1e-2 * np.eye(12))
    for x, least in zip(X, found, strict=True):
        best = np.linalg.solve(nuisance @ G @ nuisance.T, nuisance @ G @ x)
        rest = x - best @ nuisance
        assert least == pytest.approx(rest @ G @ rest, rel=1e-9)
        assert least <= x @ G @ x


def test_equal_points_are_no_division_by_nothing() -> None:
    same = np.tile(points(1, 1), (300, 1))
    plain = span_scores.left(layers(points(5, 0), 3.0), same, None)
    none = np.zeros((0, *plain.shape)), np.zeros((0, 300), bool)
    assert np.isfinite(span_scores.compared(plain, span_scores.detail(same), *none)).all()


def test_a_judge_orders_as_it_was_taught() -> None:
    rng = RNG(0)
    measures = rng.normal(size=(400, 3))
    judge = CalibratedClassifier.fit(measures, (measures[:, 0] > 0).astype(float))
    order = judge.log_odds(measures)
    assert np.corrcoef(order, measures[:, 0])[0, 1] > 0.95
    np.testing.assert_array_equal(judge.confidence(measures) > 0.5, order > 0)


def test_the_robust_fit_is_nearly_as_precise_as_the_mean_and_hardly_moved_by_outliers() -> None:
    """Of normal numbers: neither may a point count half too soon, nor too late."""
    ones = np.ones((100, 1))
    draws = RNG(0).normal(size=(400, 100))
    places = np.array([float((one - span_scores.beyond(one, ones)).mean()) for one in draws])
    assert places.var() < 1.18 * draws.mean(axis=1).var()
    draws[:, :10] += 8
    places = np.array([float((one - span_scores.beyond(one, ones)).mean()) for one in draws])
    assert places.mean() < 0.12


@pytest.mark.parametrize(("count", "regressed"), [(59, False), (60, True)])
def test_points_are_compared_with_those_like_them_from_twenty_for_every_number_fitted(count: int, regressed: bool) -> None:
    alike = np.column_stack([np.ones(count), RNG(0).normal(size=count)])
    values = 3 * alike[:, 1] + 0.01 * RNG(1).normal(size=count)
    found = span_scores.compared(values[None], alike, np.zeros((0, 1, count)), np.zeros((0, count), bool))[0]
    assert bool(abs(np.corrcoef(found, alike[:, 1])[0, 1]) < 0.5) is regressed
