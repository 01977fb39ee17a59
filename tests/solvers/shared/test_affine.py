"""Affine maps behind links: the design, the links against finite differences, and what precision answers show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from divulge.arrays import Array
from divulge.solvers.shared import affine


@given(dimension=st.integers(1, 40), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_corners_of_the_simplex_magnify_no_error(dimension: int, seed: int) -> None:
    corners = affine.simplex(dimension, np.random.default_rng(seed))
    design = np.column_stack([np.ones(dimension + 1), corners])
    assert design.T @ design == pytest.approx((dimension + 1) * np.eye(dimension + 1), abs=1e-10)
    assert np.linalg.norm(corners, axis=1) == pytest.approx(np.sqrt(dimension))


@pytest.mark.parametrize("link", affine.LINKS, ids=lambda link: link.name)
def test_links_undo_their_inverses_and_know_their_derivatives(link: affine.Link) -> None:
    Z = np.random.default_rng(0).normal(size=(5, 3))
    A = link.answers(Z)
    assert link.suits(A)
    scores = Z - Z.mean(1, keepdims=True) if link is affine.SOFTMAX else Z
    assert link.scores(A) == pytest.approx(scores, abs=1e-12)
    if link is not affine.SOFTMAX:  # whose derivative is that of a logarithm
        step = 1e-6
        assert link.derivative(A) == pytest.approx((link.answers(Z + step) - link.answers(Z - step)) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("link", affine.LINKS, ids=lambda link: link.name)
def test_answers_and_one_jacobian_both_give_the_map(link: affine.Link) -> None:
    rng = np.random.default_rng(1)
    W, b, x, centre = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=4), rng.normal(size=4)
    if link is affine.SOFTMAX:
        W, b = W - W.mean(0), b - b.mean()
    corners = affine.simplex(4, rng)

    def answers(X: Array) -> Array:
        return link.answers(np.atleast_2d(X) @ W.T + b)

    A, precision = answers(centre + 0.5 * corners), affine.Resolution(1e-15)
    step = 1e-6
    J = np.stack([(answers(x + step * e) - answers(x - step * e))[0] / (2 * step) for e in np.eye(4)], axis=1)
    for found, tolerance in (
        (affine.from_answers(link, corners, centre, 0.5, A, precision), 1e-13),
        (affine.from_gradient(link, x, 0.5, answers(x), J, precision), 1e-8),
    ):
        assert found.coef == pytest.approx(W, abs=tolerance)
        assert found.intercept == pytest.approx(b, abs=tolerance)


@pytest.mark.parametrize("link", affine.LINKS, ids=lambda link: link.name)
def test_at_a_balanced_place_scores_are_small(link: affine.Link) -> None:
    rng = np.random.default_rng(2)
    model = affine.Affine(link, 1e-3 * rng.normal(size=(2, 5)), np.array([30.0, -4.0]), np.zeros(2), np.zeros(5), 1.0)
    centre, size = model.balanced()
    assert centre @ model.coef.T + model.intercept == pytest.approx(0, abs=1e-10)
    spread = np.std((centre + size * affine.simplex(5, rng)) @ model.coef.T + model.intercept, axis=0).max()
    assert spread == pytest.approx(30 if link is affine.IDENTITY else 1)


VALUES = np.random.default_rng(3).uniform(0.01, 1, size=40)


HALF, SINGLE, DOUBLE = (affine.ROUNDING * 2.0**-bits for bits in (10, 23, 52))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (VALUES, affine.Resolution(DOUBLE)),
        (VALUES.astype(np.float32), affine.Resolution(SINGLE)),
        (VALUES.astype(np.float16), affine.Resolution(HALF)),
        (4 + VALUES.astype(np.float16), affine.Resolution(HALF)),
        (np.round(VALUES, 3), affine.Resolution(SINGLE, 5e-4, 3)),
        (np.arange(11) / 10, affine.Resolution(SINGLE, 0.05, 1)),
        (np.round(1000 * VALUES), affine.Resolution(SINGLE, 0.5, 3)),
        (np.round(VALUES, 12), affine.Resolution(DOUBLE, 5e-13, 12)),
        ([float(f"{value:.4g}") for value in VALUES], affine.Resolution(SINGLE, 5e-6, 4)),
        ([float(str(value)) for value in VALUES.astype(np.float32)], affine.Resolution(SINGLE, 5e-10, 8)),
        ([float(f"{value:.9g}") for value in VALUES], affine.Resolution(SINGLE, 5e-11, 9)),
        ([float(f"{value:.10g}") for value in VALUES], affine.Resolution(DOUBLE, 5e-12, 10)),
        ([float(f"{value:.15g}") for value in VALUES], affine.Resolution(DOUBLE, 5e-17, 15)),
        ([float(f"{value:.16g}") for value in VALUES], affine.Resolution(DOUBLE)),
        (np.array([0.125, 0.25, 1.5]), affine.Resolution(SINGLE, 5e-4, 3)),
        (np.array([0.0625, 0.25, 1.5]), affine.Resolution(HALF)),
    ],
    ids=[
        "double",
        "single",
        "half",
        "half above 4",
        "3 decimals",
        "1 decimal",
        "whole",
        "12 decimals",
        "4 digits",
        "JSON",
        "9 digits",
        "10 digits",
        "15 digits",
        "16 digits",
        "eighths",
        "sixteenths",
    ],
)
def test_the_precision_of_answers_shows(answers: Array | list[float], expected: affine.Resolution) -> None:
    found = affine.resolution(np.asarray(answers, float)[:, None])
    assert found.relative == expected.relative
    assert found.step == pytest.approx(expected.step, rel=1e-9, abs=0)
    assert found.digits == expected.digits


@pytest.mark.parametrize("cut", [lambda A: np.round(A, 3), lambda A: np.array([float(f"{a:.3g}") for a in A])])
def test_no_answer_is_further_from_its_value_than_the_resolution(cut: Callable[[Array], Array]) -> None:
    values = 10 ** np.random.default_rng(5).uniform(-2, 2, size=200)
    rounded = cut(values)
    allowed = affine.resolution(rounded).of(rounded, rounded)
    assert (np.abs(rounded - values) <= allowed * (1 + 1e-9)).all()
    assert np.median(np.abs(rounded - values) / allowed) > 0.3


@pytest.mark.parametrize("decimals", [2, 3, 4])
@pytest.mark.parametrize("way", ["answers", "gradient"])
def test_the_error_that_rounding_leaves_is_the_one_that_is_announced(way: str, decimals: int) -> None:
    rng, precision = np.random.default_rng(4), affine.Resolution(1e-15, 0.5 * 10.0**-decimals)
    link, shares = affine.LOGISTIC, []
    for _ in range(50):
        W, b = rng.normal(size=(1, 8)) / np.sqrt(8), rng.normal(size=1)
        if way == "answers":
            corners = affine.simplex(8, rng)
            A = np.round(link.answers(corners @ W.T + b), decimals)
            found = affine.from_answers(link, corners, np.zeros(8), 1.0, A, precision)
        else:
            x = rng.normal(size=8)
            A = link.answers((W @ x + b)[None])
            found = affine.from_gradient(link, x, 20.0, np.round(A, decimals), link.derivative(A).T * W, precision)
        shares.append(np.linalg.norm(found.coef - W) / np.linalg.norm(W) / found.error)
    assert 0.01 < np.median(shares) < 1
    assert max(shares) < 2


def test_a_copy_is_refused_for_one_large_error_or_many_middling_ones() -> None:
    model = affine.Affine(affine.IDENTITY, np.ones((1, 2)), np.zeros(1), np.zeros(1), np.zeros(2), 1.0)
    X = np.random.default_rng(6).normal(size=(30, 2))
    A, precision = model.answers(X), affine.Resolution(0.0, 1.0)
    assert model.misfit(X, A + 1, precision) < 1 < model.misfit(X, A + 3, precision)
    one = np.zeros((30, 1))
    one[7] = 3
    assert model.misfit(X, A + one, precision) < 1 < model.misfit(X, A + 2 * one, precision)


def test_far_from_where_it_was_found_a_copy_may_be_further_off() -> None:
    model = affine.Affine(affine.LOGISTIC, np.ones((1, 1)), np.zeros(1), np.full(1, 0.1), np.zeros(1), 0.1)
    precision, near, far = affine.Resolution(1e-15), np.array([[0.1]]), np.array([[9.0]])
    assert model.misfit(near, affine.LOGISTIC.answers(near + 0.2), precision) < 1
    assert model.misfit(near, affine.LOGISTIC.answers(near - 5), precision) > 1
    assert model.misfit(far, affine.LOGISTIC.answers(far - 5), precision) < 1  # where the logistic function was flat
