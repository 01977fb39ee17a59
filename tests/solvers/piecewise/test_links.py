"""Links of values and Jacobians: pieces are those of the function behind, and noise is measured as it is."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.piecewise import links
from divulge.solvers.piecewise.two_layer import TwoLayer


def function(outputs: int) -> TwoLayer:
    rng = np.random.default_rng(outputs)
    return TwoLayer(
        rng.standard_normal((12, 5)) / np.sqrt(5),
        rng.standard_normal(12),
        rng.standard_normal((outputs, 12)) / np.sqrt(12),
        np.zeros((outputs, 5)),
        rng.standard_normal(outputs),
    )


def logits(true: TwoLayer, X: Array) -> tuple[Array, Array]:
    return true.values(X), true.pieces(X)[:, :, :-1]


def softmax(true: TwoLayer, X: Array) -> tuple[Array, Array]:
    Z, J = logits(true, X)
    powers = np.exp(Z - Z.max(1, keepdims=True))
    p = powers / powers.sum(1, keepdims=True)
    return p, p[:, :, None] * (J - np.einsum("no,nod->nd", p, J)[:, None])


def logistic(true: TwoLayer, X: Array) -> tuple[Array, Array]:
    Z, J = logits(true, X)
    p = 1 / (1 + np.exp(-Z))
    return p, (p * (1 - p))[:, :, None] * J


POINTS = np.random.default_rng(0).standard_normal((20, 5))


def test_pieces_behind_a_softmax_are_those_of_the_logits_less_their_mean() -> None:
    true = function(4)
    found = links.pieces(links.SOFTMAX, POINTS, *softmax(true, POINTS))
    expected = true.pieces(POINTS)
    np.testing.assert_allclose(found, expected - expected.mean(1, keepdims=True), atol=1e-12)


def test_of_two_classes_the_difference_of_their_logits_decides() -> None:
    true = function(2)
    found = links.pieces(links.SOFTMAX, POINTS, *softmax(true, POINTS))
    expected = true.pieces(POINTS)
    np.testing.assert_allclose(found, expected[:, 1:] - expected[:, :1], atol=1e-12)


def test_pieces_behind_a_logistic_link_and_behind_none_are_the_function_s() -> None:
    true = function(1)
    for link, answers in ((links.LOGISTIC, logistic), (links.IDENTITY, logits)):
        np.testing.assert_allclose(links.pieces(link, POINTS, *answers(true, POINTS)), true.pieces(POINTS), atol=1e-12)


def test_a_link_suits_only_answers_that_can_have_come_through_it() -> None:
    p = np.array([[0.2, 0.3, 0.5]])
    assert links.SOFTMAX.suits(p)
    assert not links.SOFTMAX.suits(np.array([[0.2000123456789, 0.31, 0.53]]))
    assert not links.SOFTMAX.suits(np.array([[0.0, 0.5, 0.5]]))
    assert not links.SOFTMAX.suits(np.array([[1e-300, 0.5, 0.5]]))  # where digits are lost
    assert not links.LOGISTIC.suits(p)
    assert not links.LOGISTIC.suits(np.array([[1.0]]))
    assert links.IDENTITY.suits(-p)


def looked_at(link: links.JacobianLink, answers: object, true: TwoLayer, rounding: int | None = None) -> links.Local:
    assert callable(answers)
    X = links.around(POINTS[0], np.random.default_rng(1))
    A, J = answers(true, X)
    return links.looked_at(link, X, *((A, J) if rounding is None else (np.round(A, rounding), np.round(J, rounding))))


@pytest.mark.parametrize(("right", "answers"), [(links.SOFTMAX, softmax), (links.IDENTITY, logits)])
def test_only_through_the_right_link_the_function_is_flat_between_kinks(right: links.JacobianLink, answers: object) -> None:
    true = function(3)
    look = looked_at(right, answers, true)
    assert look.flat
    assert look.matches
    assert look.noise < 1e-12
    if right is links.SOFTMAX:
        assert not looked_at(links.IDENTITY, answers, true).flat


@pytest.mark.parametrize("decimals", [4, 7, 10])
def test_rounding_is_seen_in_the_noise(decimals: int) -> None:
    """Of numbers of size 0.1 to 1, relative to slopes of about 1."""
    noise = looked_at(links.IDENTITY, logits, function(3), decimals).noise
    assert 10.0**-decimals < noise < 10.0 ** (1 - decimals)


@pytest.mark.parametrize(("factor", "matches"), [(1.015, True), (1.03, False)])
def test_gradients_a_fiftieth_too_steep_are_not_those_of_the_values(factor: float, matches: bool) -> None:
    true, X = function(3), links.around(POINTS[0], np.random.default_rng(1))
    A, J = logits(true, X)
    look = links.looked_at(links.IDENTITY, X, A, factor * J)
    assert look.mismatch == pytest.approx(1 - 1 / factor, rel=0.01)
    assert look.matches == matches


def test_single_precision_is_told_by_all_numbers() -> None:
    A, J = logits(function(2), POINTS)
    single = A.astype(np.float32).astype(float), J.astype(np.float32).astype(float)
    assert links.single(*single)
    assert not links.single(A, J)
    assert not links.single(single[0], J)


@pytest.mark.parametrize("noise", [1e-13, 1e-11, 1e-9, 1e-7])
def test_noise_is_measured_and_not_taken_for_a_curve(noise: float) -> None:
    rng = np.random.default_rng(3)
    true, X = function(3), links.around(POINTS[0], np.random.default_rng(1))
    A, J = (answers + noise * rng.standard_normal(answers.shape) for answers in logits(true, X))
    look = links.looked_at(links.IDENTITY, X, A, J)
    assert look.flat
    assert look.noisy
    assert look.matches
    assert noise < look.noise < 100 * noise


def test_a_curve_bends_more_the_farther_and_is_no_noise() -> None:
    X = links.around(POINTS[0], np.random.default_rng(1))
    look = links.looked_at(links.IDENTITY, X, (X**2).sum(1, keepdims=True), 2 * X[:, None, :])
    assert not look.noisy
    assert not look.flat


def test_two_answers_at_one_point_show_the_noise() -> None:
    true, X = function(3), links.around(POINTS[0], np.random.default_rng(1))
    A, J = logits(true, X)
    look = links.looked_at(links.IDENTITY, X, A, J)
    again = links.repeated(look, X[:1], (A[:1], J[:1]), (A[:1], (1 + 1e-9) * J[:1]))
    assert again.noise == pytest.approx(8e-9, rel=1)
    assert links.repeated(look, X[:1], (A[:1], J[:1]), (A[:1], J[:1])).noise == look.noise


@pytest.mark.parametrize("digits", [6, 9, 12])
def test_digits_cut_by_dividing_and_multiplying_are_seen_too(digits: int) -> None:
    """The last bit of such numbers is not that of the decimal they stand for."""
    true, X = function(3), links.around(POINTS[0], np.random.default_rng(1))

    def cut(numbers: Array) -> Array:
        unit = 10.0 ** (np.floor(np.log10(np.abs(numbers))) + 1 - digits)
        return np.asarray(np.round(numbers / unit) * unit)

    noise = links.looked_at(links.IDENTITY, X, *(cut(answers) for answers in logits(true, X))).noise
    assert 10.0**-digits < noise < 100 * 10.0**-digits
