"""Slopes from values: as many digits as values have, and the same beside kinks."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.directions.answers import Unreadable, read
from divulge.solvers.directions.finite_differences import LONG, SHORT, central, loud, one_sided
from divulge.solvers.directions.made_points import MadePoints
from divulge.solvers.shared.affine import IDENTITY, LOGISTIC, SOFTMAX


class Network:
    """Two layers of 40 units, and its Jacobian."""

    def __init__(self, outputs: int = 3, single: bool = False, dimension: int = 64) -> None:
        rng = np.random.default_rng(0)
        self.into = rng.standard_normal((40, dimension)) / np.sqrt(dimension)
        self.bias, self.out = rng.standard_normal(40), rng.standard_normal((outputs, 40)) / np.sqrt(40)
        self.kind = np.float32 if single else np.float64

    def __call__(self, X: Array) -> Array:
        hidden = np.maximum(X.astype(self.kind) @ self.into.T.astype(self.kind) + self.bias.astype(self.kind), 0)
        found: Array = (hidden @ self.out.T.astype(self.kind)).astype(float)
        return found

    def jacobian(self, x: Array) -> Array:
        found: Array = (self.out * (self.into @ x + self.bias > 0)) @ self.into
        return found


def point(seed: int = 1, dimension: int = 64) -> Array:
    found: Array = MadePoints(dimension, (0.0, 1.0), (8, 8), lambda X: X).draw(np.random.default_rng(seed), 1)[0]
    return found


def test_points_of_few_inputs_may_coincide() -> None:
    """Two draws in a corner of the box are no direction; nothing that is asked is no number."""
    made = MadePoints(2, (-3.0, 3.0), None, lambda X: X)

    def scores(X: Array) -> Array:
        assert np.isfinite(X).all()
        return np.asarray(X @ np.ones((2, 1)))

    for seed in range(20):
        made.far_from_kinks(np.random.default_rng(seed), 24, 0.1, scores, np.full(1, 1e-12))


def test_slopes_of_double_precision_have_nine_digits() -> None:
    network, x = Network(), point()
    found = one_sided(network, x, SHORT, np.full(3, 1e-16), np.random.default_rng(0))
    assert found is not None
    assert np.abs(found.slopes - network.jacobian(x)).max() < 1e-9 * np.abs(network.jacobian(x)).max()


def test_a_row_is_what_the_piece_says_at_the_mean() -> None:
    network, x, mean = Network(), point(), np.full(64, 0.3)
    found = one_sided(network, x, SHORT, np.full(3, 1e-16), np.random.default_rng(0))
    assert found is not None
    expected = network.out @ np.where(network.into @ x + network.bias > 0, network.into @ mean + network.bias, 0)
    assert np.allclose(found.rows(mean)[:, -1], expected, rtol=0, atol=1e-8)


def test_slopes_of_single_precision_have_four_digits_at_points_that_are_not_on_a_kink() -> None:
    network = Network(single=True)
    found = [central(network, point(seed), LONG, np.arange(64), np.full(3, 1e-7)) for seed in range(8)]
    read = [one for one in found if one is not None]
    assert len(read) > 4
    assert sum(one.bent for one in read) > 10
    for one in read:
        J = network.jacobian(one.x)
        assert np.sqrt(np.mean((one.slopes - J) ** 2)) < 1e-4 * np.sqrt(np.mean(J**2))


def test_a_kink_within_a_step_is_crossed_by_plain_differences_and_avoided_here() -> None:
    network = Network(single=True)
    x = point()
    unit = network.into[0]
    network.bias[0] = -unit @ x + 0.5 * LONG * np.abs(unit).max()  # off half a step away, in a few inputs
    plain = np.stack([(network(x[None] + e) - network(x[None] - e))[0] / (2 * LONG) for e in LONG * np.eye(64)], axis=1)
    found = central(network, x, LONG, np.arange(64), np.full(3, 1e-7))
    assert found is not None
    assert 5 < found.bent < 32
    J = network.jacobian(x)
    assert np.abs(found.slopes - J).max() < 0.02 * np.abs(plain - J).max()


def test_exact_slopes_are_refused_where_a_kink_is_within_a_step() -> None:
    network, x = Network(), point()
    network.bias[0] = -network.into[0] @ x + 1e-7
    assert one_sided(network, x, SHORT, np.full(3, 1e-16), np.random.default_rng(0)) is None


def test_inputs_that_do_nothing_are_quiet_and_heard_once_they_do_something() -> None:
    network, x, rng = Network(single=True), point(), np.random.default_rng(0)
    network.into[:, 10:40] = 0
    found = central(network, x, LONG, np.arange(64), np.full(3, 1e-7))
    assert found is not None
    quiet = np.flatnonzero(found.quiet)
    assert set(quiet) == set(range(10, 40))
    assert len(loud(network, found, LONG, quiet, rng)) == 0
    network.into[:, 17] = 0.1
    assert 17 in loud(network, found, LONG, quiet, rng)


def softmax(Z: Array) -> Array:
    return np.asarray(np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True))


def test_probabilities_are_read_as_logits_and_numbers_between_0_and_1_as_they_are() -> None:
    made, rng = MadePoints(64, (0.0, 1.0), (8, 8), lambda X: X), np.random.default_rng(0)
    X, several, one = made.draw(rng, 8), Network(), Network(outputs=1)
    assert read(several, X, 1.0, rng).link is IDENTITY
    assert read(lambda Y: softmax(several(Y)), X, 1.0, rng).link is SOFTMAX
    assert read(lambda Y: 1 / (1 + np.exp(-one(Y))), X, 1.0, rng).link is LOGISTIC
    assert read(lambda Y: 0.5 + 0.1 * one(Y), X, 1.0, rng).link is IDENTITY


def test_precision_is_seen() -> None:
    made, rng = MadePoints(64, (0.0, 1.0), (8, 8), lambda X: X), np.random.default_rng(0)
    X, network = made.draw(rng, 8), Network()
    assert read(network, X, 1.0, rng).relative < 1e-14
    assert 1e-8 < read(Network(single=True), X, 1.0, rng).relative < 1e-5
    assert 1e-4 < read(lambda Y: np.round(network(Y), 3), X, 1.0, rng).relative < 0.1


def test_labels_constants_and_saturated_probabilities_are_refused() -> None:
    made, rng = MadePoints(64, (0.0, 1.0), (8, 8), lambda X: X), np.random.default_rng(0)
    X, network = made.draw(rng, 8), Network()
    with pytest.raises(Unreadable, match="class labels"):
        read(lambda Y: network(Y - 1).argmax(axis=1, keepdims=True) + Y[:, :1].round(), X, 1.0, rng)
    with pytest.raises(Unreadable, match="the same everywhere"):
        read(lambda Y: np.ones((len(Y), 2)), X, 1.0, rng)
    with pytest.raises(Unreadable, match="0 or 1"):
        read(lambda Y: np.where(Y[:, :1] > 0.5, [[1.0 - 1e-9, 1e-9, 0.0]], [[1.0, 0.0, 0.0]]), X, 1.0, rng)
