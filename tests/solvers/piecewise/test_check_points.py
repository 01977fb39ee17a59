"""Check points: answers are read through the right link, at every size, and a copy agrees as far as it should."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit, softmax

from divulge.arrays import Array
from divulge.solvers.piecewise.check_points import CheckPoints, Illegible, Unsuitable
from divulge.solvers.shared import affine

WEIGHTS = np.random.default_rng(7).standard_normal((3, 6)) / np.sqrt(6)


def outputs(X: Array) -> Array:
    return np.asarray(np.maximum(X @ WEIGHTS.T, 0) + 0.1 * X[:, :3])


def checks(ask: Callable[[Array], Array], count: int = 48, usual: float = 1.0, dimension: int = 6) -> CheckPoints:
    return CheckPoints(ask, dimension, usual, count, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("ask", "link"),
    [
        (outputs, affine.IDENTITY),
        (lambda X: softmax(outputs(X), axis=1), affine.SOFTMAX),
        (lambda X: expit(10 * outputs(X)[:, :1]), affine.LOGISTIC),
        (lambda X: 0.5 + 1e-7 * outputs(X)[:, :1], affine.IDENTITY),
    ],
    ids=["values", "probabilities", "one probability", "small values"],
)
def test_the_link_is_told_by_the_answers(ask: Callable[[Array], Array], link: affine.Link) -> None:
    assert checks(ask).link is link


def test_probabilities_are_read_as_logits_where_they_can_be() -> None:
    read = checks(lambda X: softmax(outputs(X), axis=1))
    logits = outputs(read.X)
    np.testing.assert_allclose(read.A, logits - logits.mean(1, keepdims=True), atol=1e-12 * np.abs(logits).max())
    assert 10 <= read.largest < 1e5  # far out some probabilities are 0


@pytest.mark.parametrize("count", [24, 32])
def test_points_are_drawn_nearer_until_eight_can_be_read(count: int) -> None:
    """Of these only the two smaller sizes of eight can, six points of 24 and eight of 32."""

    def ask(X: Array) -> Array:
        size = np.sqrt(np.mean(X**2, axis=1, keepdims=True))
        return np.asarray(expit(np.where(size > 4, 800 * np.sign(X[:, :1]), X[:, :1] / size)))

    read = checks(ask, count, dimension=50)
    assert len(read.X) >= 8
    assert (read.usual == 1) == (count == 32)


@pytest.mark.parametrize(("probability", "readable"), [(1 - 2e-4, True), (1 - 5e-5, False), (2e-4, True), (5e-300, True)])
def test_one_probability_within_a_ten_thousandth_of_1_is_not_read(probability: float, readable: bool) -> None:
    read = checks(lambda X: expit(outputs(X)[:, :1]))
    read.ask = lambda X: np.full((len(X), 1), probability)
    if readable:
        assert read.value(np.zeros((1, 6))) == pytest.approx(np.log(probability / (1 - probability)))
    else:
        with pytest.raises(Illegible):
            read.value(np.zeros((1, 6)))


def test_certain_probabilities_are_refused() -> None:
    with pytest.raises(Unsuitable, match="0 or 1 wherever one looks"):
        checks(lambda X: np.clip(1e15 * outputs(X)[:, :1] + 1e-9 * X[:, :1], 1e-9, 1 - 1e-9) + 1e-12 * expit(X[:, :1]))


@pytest.mark.parametrize("different", [3, 4])
def test_labels_are_refused_unless_more_than_a_sixteenth_of_the_answers_are_one_of_a_kind(different: int) -> None:
    def ask(X: Array) -> Array:
        labels = np.sign(X[:, :1])
        labels[:different] += 0.1 * X[:different, :1]
        return labels

    if different > 48 // 16:
        assert len(checks(ask).X) == 48
    else:
        with pytest.raises(Unsuitable, match="labels"):
            checks(ask)


def test_a_constant_is_refused() -> None:
    with pytest.raises(Unsuitable, match="at all 48 points"):
        checks(lambda X: np.ones((len(X), 2)))


def test_a_constant_wherever_it_can_be_read_is_refused() -> None:
    def ask(X: Array) -> Array:
        far = np.sqrt(np.mean(X**2, axis=1, keepdims=True)) > 4
        return np.asarray(expit(np.where(far, 15 + np.tanh(X[:, :1]), 0)))

    with pytest.raises(Unsuitable, match="at all points of one size"):
        checks(ask, dimension=50)


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5])
def test_what_happens_in_one_decade_only_shows(size: float) -> None:
    def plain(X: Array) -> Array:
        return X[:, :2]

    def bumped(X: Array) -> Array:
        near = np.abs(np.log(np.sqrt(np.mean(X**2, axis=1)) / size)) < 0.4
        return plain(X) + np.where(near, size, 0)[:, None]

    read = checks(bumped, dimension=200)
    assert (read.off(plain(read.X)) > 1).any()
    assert (read.off(bumped(read.X)) <= 1).all()


@pytest.mark.parametrize(("coarseness", "inside", "outside"), [(0.0, 5e-8, 2e-7), (1e-9, 2e-6, 5e-6)])
def test_a_copy_agrees_up_to_a_share_of_the_spread_or_of_the_noise(coarseness: float, inside: float, outside: float) -> None:
    read = checks(outputs)
    read.coarseness = coarseness
    spread = np.array([max(read.spread_at(size), read.spread_at(1.0)) for size in read.sizes])[:, None]
    assert (read.off(read.A + inside * spread) <= 1).all()
    assert (read.off(read.A + outside * spread) > 1).all()


def test_the_error_is_the_largest_of_any_size() -> None:
    read = checks(outputs)
    wrong = read.A.copy()
    wrong[read.sizes == 1e3] += 0.01 * read.spread_at(1e3)
    assert read.error(read.A) == 0
    assert read.error(wrong) == pytest.approx(0.01)


def test_noise_is_told_from_rounding() -> None:
    rng = np.random.default_rng(0)
    assert not checks(outputs).noisy
    noisy = checks(lambda X: outputs(X) + 1e-3 * rng.standard_normal((len(X), 3)))
    assert noisy.noisy
    assert noisy.least_noise() >= noisy.repeats > 1e-5


def test_points_are_added_with_the_nearest_size_unless_they_are_farther_out_or_unreadable() -> None:
    read = checks(outputs)
    X = np.ones((3, 6)) * np.array([[0.9], [900.0], [1e6]])
    assert read.add(X) == 2
    np.testing.assert_array_equal(read.sizes[-2:], [1.0, 1e3])
    np.testing.assert_array_equal(read.A[-2:], outputs(X[:2]))
    soft = checks(lambda X: softmax(1e3 * outputs(X), axis=1))
    assert soft.add(np.eye(1, 6) * soft.largest * 1e3) == 0


def test_fresh_points_have_the_sizes_that_can_be_read() -> None:
    read = checks(outputs, dimension=6)
    X = read.draw(4000, np.random.default_rng(1))
    sizes = np.sqrt(np.mean(X**2, axis=1))
    assert np.mean(sizes > 3e4) == pytest.approx(1 / 7, abs=0.04)
    assert sizes.max() < 4 * read.largest
