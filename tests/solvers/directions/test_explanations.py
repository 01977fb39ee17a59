"""Rows of explanations: each a combination of the first layer's rows, whatever was explained and however."""

from __future__ import annotations

import numpy as np
import pytest

from divulge import Explanation, Gradients, Weights
from divulge.arrays import Array
from divulge.solvers.directions.explanations import NODES, Answers, Reading, linearised

RNG = np.random.default_rng(0)
MEAN = RNG.uniform(size=6)
NETWORK = Weights(  # biases in the first layer alone, so that β is exactly a combination of them
    (
        (RNG.standard_normal((12, 6)), RNG.standard_normal(12)),
        (RNG.standard_normal((9, 12)), np.zeros(9)),
        (RNG.standard_normal((4, 9)), np.zeros(4)),
    ),
    mean=MEAN,
)
X = RNG.uniform(0.2, 1, (5, 6))
SERVICE = Gradients.of(NETWORK)


def softmax(Z: Array) -> Array:
    powers = np.exp(Z - Z.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def probabilities(X: Array) -> tuple[Array, Array]:
    A, J = softmax(SERVICE.value(X)), SERVICE.gradient(X)
    return A, A[:, :, None] * (J - np.einsum("nk,nkd->nd", A, J)[:, None])


def combined(X: Array, of: int | None = None) -> Array:
    """c(x)·[W, b], computed from the layers."""
    hidden = NETWORK.centred(X) @ NETWORK.layers[0][0].T + NETWORK.layers[0][1]
    second = np.maximum(hidden, 0) @ NETWORK.layers[1][0].T
    J = NETWORK.layers[2][0][None] * (second > 0)[:, None, :]
    C = (J @ NETWORK.layers[1][0]) * (hidden > 0)[:, None, :]
    rows: Array = C @ NETWORK.rows
    return rows if of is None else rows[:, [of]]


def test_a_gradient_and_its_value_are_one_combination_of_weights_and_biases() -> None:
    rows = Reading(Explanation("gradient", "each output")).rows(X, SERVICE.value(X), SERVICE.gradient(X), MEAN)
    np.testing.assert_allclose(rows, combined(X).reshape(-1, 7), atol=1e-10)


def test_gradient_times_input_is_divided_by_it() -> None:
    said = Explanation("gradient times input", "each output")
    rows = Reading(said).rows(X, SERVICE.value(X), SERVICE.gradient(X) * X[:, None], MEAN)
    np.testing.assert_allclose(rows, combined(X).reshape(-1, 7), atol=1e-10)


@pytest.mark.parametrize("of", ["top output", "output 2", "sum of outputs"])
def test_one_explanation_a_point_goes_with_the_value_of_what_is_explained(of: str) -> None:
    A, whole = SERVICE.value(X), combined(X)
    chosen = {"top output": A.argmax(axis=1), "output 2": np.full(5, 2)}.get(of)
    J = SERVICE.gradient(X)
    E = J.sum(axis=1, keepdims=True) if chosen is None else J[np.arange(5), chosen][:, None]
    expected = whole.sum(axis=1) if chosen is None else whole[np.arange(5), chosen]
    np.testing.assert_allclose(Reading(Explanation("gradient", of)).rows(X, A, E, MEAN), expected, atol=1e-10)


def test_gradients_of_probabilities_go_with_p_times_log_p_plus_entropy() -> None:
    A, J = probabilities(X)
    rows = Reading(Explanation("gradient", "each output"), "probabilities", False).rows(X, A, J, MEAN)
    mixing = A[:, :, None] * (np.eye(4) - A[:, None, :])
    np.testing.assert_allclose(rows.reshape(5, 4, 7), mixing @ combined(X), atol=1e-10)


def test_the_gradient_of_one_probability_goes_with_its_logit() -> None:
    z, slope = SERVICE.value(X)[:, :1], SERVICE.gradient(X)[:, :1]
    p = 1 / (1 + np.exp(-z))
    rows = Reading(Explanation("gradient"), "probability", False).rows(X, p, (p * (1 - p))[:, :, None] * slope, MEAN)
    np.testing.assert_allclose(rows, ((p * (1 - p))[:, :, None] * combined(X, 0)).reshape(-1, 7), atol=1e-10)


@pytest.mark.parametrize("baseline", [0.0, 0.15])
@pytest.mark.parametrize("answers", ["scores", "probabilities"])
def test_integrated_gradients_go_with_the_mean_along_their_path(baseline: float, answers: Answers) -> None:
    """Where no kink lies on the path, the quadrature of values is exact, and so is the row."""
    near = baseline + 1e-3 * (X - baseline)  # a short path, on one piece
    steps = (np.arange(400) + 0.5) / 400

    def both(points: Array) -> tuple[Array, Array]:
        return probabilities(points) if answers == "probabilities" else (SERVICE.value(points), SERVICE.gradient(points))

    E = np.array([both(baseline + steps[:, None] * (x - baseline))[1].mean(axis=0) * (x - baseline) for x in near])
    reading = Reading(Explanation("integrated gradients", "each output", baseline), answers, answers == "scores")
    along = both(reading.nodes(near))[0].reshape(5, NODES, -1)
    rows = reading.rows(near, both(near)[0], E, MEAN, along)
    middle = np.full((1, 6), baseline) + 0.5e-3 * (X - baseline)
    A, J = both(middle)
    plain = Reading(Explanation("gradient", "each output"), answers, answers == "scores").rows(middle, A, J, MEAN)
    np.testing.assert_allclose(rows, plain, rtol=1e-3, atol=1e-3 * np.abs(plain).max())


def test_what_takes_the_place_of_a_probability_is_what_its_gradient_is_of() -> None:
    """Along logits: Σ_j ∂p_k/∂z_j z_j."""
    Z = RNG.standard_normal((3, 4))
    P = softmax(Z)
    jacobian = P[:, :, None] * (np.eye(4) - P[:, None, :])
    np.testing.assert_allclose(linearised(P), np.einsum("nkj,nj->nk", jacobian, Z), atol=1e-12)
