"""Losses of linear learners against finite differences, and what labels become for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from divulge.arrays import Array
from divulge.solvers.bilevel.inner import RISKS, Shared, named, targets

STEP = 1e-6
NAMES = sorted(RISKS)


def drawn(risk: str, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> tuple[Array, Array]:
    """Scores (..., outputs, points) of some size, and targets."""
    if risk == "softmax":
        return 2 * rng.standard_normal((*batch, 3, 9)), targets(risk, rng.permutation(9) % 3, np.arange(3))
    scores = 2 * rng.standard_normal((*batch, 1, 9))
    return scores, targets(risk, rng.permutation(9) % 2, None if risk == "squared" else np.arange(2))


@pytest.mark.parametrize("name", NAMES)
def test_first_derivatives_are_finite_differences_of_values(name: str) -> None:
    risk, rng = RISKS[name], np.random.default_rng(0)
    f, y = drawn(name, rng)
    for output in range(len(f)):
        move = STEP * (np.arange(len(f)) == output)[:, None]
        known = (risk.value(f + move, y) - risk.value(f - move, y)) / (2 * STEP)
        np.testing.assert_allclose(risk.first_derivative(f, y)[output], known, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_hessian_products_are_finite_differences_of_first_derivatives(name: str) -> None:
    risk, rng = RISKS[name], np.random.default_rng(1)
    f, y = drawn(name, rng)
    u = rng.standard_normal(f.shape)
    known = (risk.first_derivative(f + STEP * u, y) - risk.first_derivative(f - STEP * u, y)) / (2 * STEP)
    np.testing.assert_allclose(risk.hessian_product(risk.first_derivative(f, y), y, u), known, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_written_into_an_array_are_the_same_and_leave_the_scores(
    name: str, dtype: type[np.floating[Any]]
) -> None:
    risk, rng = RISKS[name], np.random.default_rng(2)
    scores, labels = drawn(name, rng, (4,))
    f, y = scores.astype(dtype), labels.astype(dtype)
    before, out = f.copy(), np.full_like(f, np.nan)
    assert risk.first_derivative(f, y, out=out) is out
    np.testing.assert_array_equal(out, risk.first_derivative(f, y))
    np.testing.assert_array_equal(f, before)
    assert risk.hessian_product(out, y, f).dtype == risk.value(f, y).dtype == dtype


def test_the_logistic_derivative_is_the_probability_less_the_label_far_out_too() -> None:
    f, risk = np.linspace(-800, 800, 41)[None], RISKS["logistic"]
    for label in (0.0, 1.0):
        first = risk.first_derivative(f, np.full_like(f, label))
        np.testing.assert_allclose(first, expit(f) - label, atol=2e-16)
        assert (risk.hessian_product(first, np.full_like(f, label), np.ones_like(f)) >= 0).all()


def test_labels_become_targets_and_scores_name_them_again() -> None:
    y, classes = np.array(["b", "a", "b", "c"]), np.array(["a", "b", "c"])
    assert targets("softmax", y, classes).tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    assert targets("logistic", y[:3], classes[:2]).tolist() == [[1, 0, 1]]
    assert targets("squared_hinge", y[:3], classes[:2]).tolist() == [[1, -1, 1]]
    assert targets("squared", np.array([3, 4]), None).tolist() == [[3.0, 4.0]]
    assert named(targets("softmax", y, classes), "softmax", classes).tolist() == y.tolist()
    assert named(targets("squared", y[:3], classes[:2]), "squared", classes[:2]).tolist() == y[:3].tolist()


def test_penalties_are_spread_over_features_and_gathered_by_group() -> None:
    arrays = np.zeros((2, 4)), np.zeros((1, 2)), np.zeros((2, 4)), np.zeros((1, 2))
    grouped = Shared(*arrays, RISKS["squared"], groups=np.array([0, 2, 1, 2]))
    assert grouped.penalties == 3
    assert grouped.spread(np.array([[1.0, 2, 3]])).tolist() == [[1, 3, 2, 3]]
    assert grouped.gathered(np.array([[1.0, 10, 100, 1000]])).tolist() == [[1, 100, 1010]]
    assert Shared(*arrays, RISKS["squared"]).gathered(np.ones((3, 4))).tolist() == [[4], [4], [4]]


@pytest.mark.parametrize("name", NAMES)
def test_the_validation_loss_has_the_gradient_it_is_said_to_have(name: str) -> None:
    rng = np.random.default_rng(3)
    _, y = drawn(name, rng)
    X, k = rng.standard_normal((y.shape[1], 4)), len(y)
    shared = Shared(X, y, X, y, RISKS[name])
    W, b = rng.standard_normal((2, k, 4)), rng.standard_normal((2, k))
    _, g, g_b = shared.validation_loss(W, b)
    move, move_b = rng.standard_normal(W.shape), rng.standard_normal(b.shape)
    ends = [shared.validation_loss(W + sign * STEP * move, b + sign * STEP * move_b)[0] for sign in (1, -1)]
    known = (move * g).sum(axis=(1, 2)) + (move_b * g_b).sum(axis=1)
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * STEP), known, rtol=1e-7)


@pytest.mark.parametrize("name", sorted(RISKS))
def test_a_validation_point_that_is_wrong_enough_counts_no_more(name: str) -> None:
    rng = np.random.default_rng(0)
    outputs = 3 if name == "softmax" else 1
    X = rng.normal(size=(20, 2))
    y = targets(name, rng.integers(0, max(outputs, 2), 20), None if name == "squared" else np.arange(max(outputs, 2)))
    free = Shared(X, y, X, y, RISKS[name])
    W, b = 2 * rng.normal(size=(1, outputs, 2)), rng.normal(size=(1, outputs))
    losses = free.risk.value(W @ X.T + b[..., None], y)[0]
    most = float(np.median(losses))
    capped, under = replace(free, most=most), losses <= most
    left = replace(free, X_val=X[under], Y_val=y[:, under])
    value, by_W, by_b = capped.validation_loss(W, b)
    known, known_W, known_b = left.validation_loss(W, b)
    share = under.mean()
    assert value[0] == pytest.approx(share * known[0] + (1 - share) * most)
    np.testing.assert_allclose(by_W, share * known_W, atol=1e-12)
    np.testing.assert_allclose(by_b, share * known_b, atol=1e-12)
