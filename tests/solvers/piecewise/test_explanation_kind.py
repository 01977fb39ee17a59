"""Each kind of explanation of small ReLU networks is called by its name."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from divulge.contract import Array, Weights
from divulge.solvers.piecewise.explanation_kind import _kind, probe

SHAPES = [(3, 8, 1), (10, 32, 1), (10, 24, 24, 3), (60, 100, 4)]


def network(widths: tuple[int, ...], rng: np.random.Generator) -> Weights:
    return Weights(
        tuple(
            (rng.standard_normal((after, before)) * np.sqrt(2 / before), 0.5 * rng.standard_normal(after))
            for before, after in pairwise(widths)
        )
    )


def jacobian(model: Weights, X: Array) -> Array:
    """(n, outputs, dimension), layer by layer."""
    J: Array = np.tile(np.eye(X.shape[1]), (len(X), 1, 1))
    for number, (W, b) in enumerate(model.layers):
        if number:
            J = J * (X > 0)[:, :, None]
            X = np.maximum(X, 0)
        X, J = X @ W.T + b, W @ J
    return J


def explanation(kind: str, model: Weights, rng: np.random.Generator) -> Callable[[Array], Array]:
    def gradient(X: Array) -> Array:
        return jacobian(model, X)[:, 0]

    def smoothed(X: Array) -> Array:
        return np.asarray(np.mean([gradient(X + 0.2 * rng.standard_normal(X.shape)) for _ in range(30)], axis=0))

    def integrated(X: Array) -> Array:
        return np.asarray(X * np.mean([gradient(X * (k + 0.5) / 50) for k in range(50)], axis=0))

    def normalised(X: Array) -> Array:
        rows = gradient(X)
        return np.asarray(rows / np.abs(rows).max(axis=1, keepdims=True).clip(1e-12))

    return {
        "gradient": gradient,
        "absolute gradient": lambda X: np.abs(gradient(X)),
        "gradient times input": lambda X: X * gradient(X),
        "integrated gradients (sums to the difference of values)": integrated,
        "smoothed": smoothed,
        "unknown: normalised": normalised,
        "unknown: absolute and normalised": lambda X: np.abs(normalised(X)),
        "unknown: noise": lambda X: rng.standard_normal(X.shape),
        "unknown: nothing": lambda X: np.zeros(X.shape),
    }[kind]


KINDS = [
    "gradient",
    "absolute gradient",
    "gradient times input",
    "integrated gradients (sums to the difference of values)",
    "smoothed",
    "unknown: normalised",
    "unknown: absolute and normalised",
    "unknown: noise",
    "unknown: nothing",
]


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("widths", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_named(kind: str, widths: tuple[int, ...], precision: type[np.floating]) -> None:
    rng = np.random.default_rng(1)
    model = network(widths, rng)
    explain = explanation(kind, model, rng)

    def served(answer: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda X: answer(X.astype(precision).astype(float)).astype(precision)

    assert probe(served(model.predict), served(explain), widths[0], rng) == kind.partition(":")[0]


def test_a_full_jacobian_and_the_gradient_of_the_largest_or_of_all_outputs_are_gradients() -> None:
    rng = np.random.default_rng(2)
    model = network((10, 24, 3), rng)

    def of_the_largest(X: Array) -> Array:
        return np.asarray(jacobian(model, X)[np.arange(len(X)), model.predict(X).argmax(axis=1)])

    for explain in (lambda X: jacobian(model, X), of_the_largest, lambda X: jacobian(model, X).sum(axis=1)):
        assert probe(model.predict, explain, 10, rng) == "gradient"


def test_the_gradient_of_a_rising_function_is_not_called_absolute() -> None:
    rng = np.random.default_rng(3)
    model = Weights(tuple((np.abs(W), b) for W, b in network((6, 16, 1), rng).layers))
    assert probe(model.predict, lambda X: jacobian(model, X)[:, 0], 6, rng) == "gradient"


def test_values_of_one_column_may_come_flat() -> None:
    rng = np.random.default_rng(4)
    model = network((6, 16, 1), rng)
    assert probe(lambda X: model.predict(X)[:, 0], lambda X: jacobian(model, X)[:, 0], 6, rng) == "gradient"


def test_it_takes_a_dozen_explanations_and_about_two_hundred_values() -> None:
    rng = np.random.default_rng(5)
    model = network((20, 16, 1), rng)
    asked = {"values": 0, "explanations": 0}

    def value(X: Array) -> Array:
        asked["values"] += len(X)
        return model.predict(X)

    def gradient(X: Array) -> Array:
        asked["explanations"] += len(X)
        return jacobian(model, X)[:, 0]

    probe(value, gradient, 20, rng)
    assert asked == {"values": 204, "explanations": 12}


def described(parts: Array, partials: Array, sums: Array, values: Array) -> str:
    return _kind(parts, np.ones_like(parts), sums, values, partials, tolerance=1e-3)[1]


@pytest.mark.parametrize(("wrong", "named"), [(8, "gradient"), (14, "smoothed")])
def test_one_partial_derivative_in_ten_may_lie_across_a_kink(wrong: int, named: str) -> None:
    rng = np.random.default_rng(0)
    partials = rng.standard_normal(100)
    parts = partials + np.where(np.arange(100) < wrong, 1.0, 0.0)
    unrelated = rng.standard_normal((2, 10))
    assert described(parts.reshape(10, 10), partials.reshape(10, 10), *unrelated) == named


@pytest.mark.parametrize(("off", "named"), [(0.04, "integrated"), (0.07, "unknown")])
def test_attributions_add_up_to_a_few_per_cent(off: float, named: str) -> None:
    rng = np.random.default_rng(0)
    parts, partials = rng.standard_normal((2, 12, 8))
    values = rng.standard_normal(12)
    noise = rng.standard_normal(12)
    sums = 3 + values + off * values.std() * (noise - noise.mean()) / noise.std()
    assert described(parts, partials, sums, values).startswith(named)


@pytest.mark.parametrize(("off", "named"), [(3e-4, "gradient"), (6e-4, "unknown")])
def test_a_gradient_may_be_off_by_what_a_step_over_kinks_changes(off: float, named: str) -> None:
    kind = probe(lambda X: X.sum(axis=1), lambda X: np.full(X.shape, 1 + off), 20, np.random.default_rng(0))
    assert kind == named
