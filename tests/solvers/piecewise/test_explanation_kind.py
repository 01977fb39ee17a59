"""Each kind of explanation of small networks is called by its name, and raw gradients by no other."""

from collections.abc import Callable
from itertools import pairwise, permutations

import numpy as np
import pytest

from divulge.contract import Array, Explanation, Weights
from divulge.solvers.piecewise.explanation_kind import probe

Rows = Callable[[Array], Array]
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


def mean(gradient: Rows, width: float, samples: int, rng: np.random.Generator) -> Rows:
    return lambda X: np.mean([gradient(X + width * rng.standard_normal(X.shape)) for _ in range(samples)], axis=0)


def integrated(gradient: Rows, steps: int = 50, start: float | Array = 0.0) -> Rows:
    shares = (np.arange(steps) + 0.5) / steps
    return lambda X: (X - start) * np.mean([gradient(start + share * (X - start)) for share in shares], axis=0)


def shapley(value: Rows, background: Array, orders: list[tuple[int, ...]]) -> Rows:
    """Means over orders in which the background's coordinates are replaced by the point's, one after the other."""

    def rows(X: Array) -> Array:
        found = np.zeros(X.shape)
        for begin in background:
            for order in orders:
                mixed = np.tile(begin, (len(X), 1))
                before = value(mixed)
                for i in order:
                    mixed[:, i] = X[:, i]
                    after = value(mixed)
                    found[:, i] += after - before
                    before = after
        return found / (len(background) * len(orders))

    return rows


def scaled(rows: Rows, norm: str) -> Rows:
    norms: dict[str, Rows] = {
        "maximum": lambda E: np.abs(E).max(1, keepdims=True),
        "length": lambda E: np.linalg.norm(E, axis=1, keepdims=True),
        "sum": lambda E: np.abs(E).sum(1, keepdims=True),
    }
    return lambda X: rows(X) / norms[norm](rows(X)).clip(1e-12)


def explanations(model: Weights, rng: np.random.Generator) -> dict[str, Rows]:
    def gradient(X: Array) -> Array:
        return np.asarray(jacobian(model, X)[:, 0])

    def absolute(X: Array) -> Array:
        return np.abs(gradient(X))

    def stretched(X: Array) -> Array:
        rows = absolute(X)
        least = rows.min(1, keepdims=True)
        return np.asarray((rows - least) / (rows.max(1, keepdims=True) - least).clip(1e-12))

    return {
        "gradient": gradient,
        "gradient times input": lambda X: X * gradient(X),
        "absolute gradient": absolute,
        "absolute gradient times input": lambda X: np.abs(X * gradient(X)),
        "gradient / maximum": scaled(gradient, "maximum"),
        "gradient / length": scaled(gradient, "length"),
        "absolute gradient / sum": scaled(absolute, "sum"),
        "absolute gradient / maximum": scaled(absolute, "maximum"),
        "absolute gradient / range": stretched,
        "smoothed gradient": mean(gradient, 0.2, 30, rng),
        "integrated gradients": integrated(gradient),
        "SHAP-like": shapley(
            lambda X: model.predict(X)[:, 0],
            rng.standard_normal((3, model.dimension)),
            [tuple(rng.permutation(model.dimension)) for _ in range(3)],
        ),
        "unknown: noise": lambda X: rng.standard_normal(X.shape),
        "unknown: nothing": lambda X: np.zeros(X.shape),
        "unknown: twice": lambda X: 2 * gradient(X),
        "unknown: squares": lambda X: mean(gradient, 0.2, 30, rng)(X) ** 2,
    }


KINDS = list(explanations(network((2, 1), np.random.default_rng(0)), np.random.default_rng(0)))


def served(answer: Rows, precision: type[np.floating]) -> Rows:
    return lambda X: answer(X.astype(precision).astype(float)).astype(precision)


def called(said: Explanation) -> str:
    sign = "absolute " if said.absolute and said.kind != "absolute gradient" else ""
    return f"{sign}{said.kind}" + (f" / {said.normalised}" if said.normalised else "")


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("widths", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_named(kind: str, widths: tuple[int, ...], precision: type[np.floating]) -> None:
    rng = np.random.default_rng(1)
    model = network(widths, rng)
    explain = explanations(model, rng)[kind]
    found = probe(served(model.predict, precision), served(explain, precision), widths[0], rng)
    assert called(found) == kind.partition(":")[0]
    if found.kind != "unknown":
        assert found.of == ("output 0" if widths[-1] > 1 else "only output")
        assert found.agreement > 0.8


@pytest.mark.parametrize("kind", ["gradient", "gradient times input", "absolute gradient", "integrated gradients"])
def test_what_is_explained_is_named(kind: str) -> None:
    rng = np.random.default_rng(2)
    model = network((10, 24, 3), rng)

    def weighted(weights: Rows) -> Rows:
        """Explanations of the outputs' sum with weights that depend on the point."""

        def rows(X: Array) -> Array:
            W = weights(X)

            def gradient(Z: Array) -> Array:
                return np.asarray(np.einsum("nod,no->nd", jacobian(model, Z), W))

            ways: dict[str, Rows] = {
                "gradient": gradient,
                "gradient times input": lambda Z: Z * gradient(Z),
                "absolute gradient": lambda Z: np.abs(gradient(Z)),
                "integrated gradients": integrated(gradient),
            }
            return ways[kind](X)

        return rows

    outputs: dict[str, Rows] = {
        "top output": lambda X: np.eye(3)[model.predict(X).argmax(1)],
        "sum of outputs": lambda X: np.ones((len(X), 3)),
        "output 2": lambda X: np.tile(np.eye(3)[2], (len(X), 1)),
    }
    for of, weights in outputs.items():
        found = probe(model.predict, weighted(weights), 10, rng)
        assert (found.kind, found.of) == (kind, of)
    each = [weighted(lambda X, one=one: np.tile(one, (len(X), 1))) for one in np.eye(3)]  # type: ignore[misc]
    found = probe(model.predict, lambda X: np.stack([rows(X) for rows in each], axis=1), 10, rng)
    assert (found.kind, found.of) == (kind, "each output")


def probabilities(model: Weights, X: Array) -> tuple[Array, Array]:
    """Softmax values (n, outputs) and their Jacobian."""
    powers = np.exp(model.predict(X))
    P = powers / powers.sum(1, keepdims=True)
    J = jacobian(model, X)
    return P, P[:, :, None] * (J - np.einsum("no,nod->nd", P, J)[:, None])


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("widths", [(10, 4), (10, 30, 4), (60, 40, 20, 3)], ids=str)
def test_gradients_of_probabilities_are_gradients_and_those_of_their_logits_are_not(
    widths: tuple[int, ...], precision: type[np.floating]
) -> None:
    rng = np.random.default_rng(3)
    model = network(widths, rng)
    value = served(lambda X: probabilities(model, X)[0], precision)
    for rows, raw in ((lambda X: probabilities(model, X)[1], True), (lambda X: jacobian(model, X), False)):
        assert probe(value, served(rows, precision), widths[0], rng).raw == raw


@pytest.mark.parametrize("width", [1e-3, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_smoothing_of_a_thousandth_of_the_inputs_scale_shows_beside_kinks(width: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = network((6, 8, 1), rng)
    noise = width * rng.standard_normal((30, 6))

    def same_noise(X: Array) -> Array:
        return np.asarray(np.mean([jacobian(model, X + one)[:, 0] for one in noise], axis=0))

    for rows in (mean(lambda X: jacobian(model, X)[:, 0], width, 30, rng), same_noise):
        assert probe(model.predict, rows, 6, rng).kind == "smoothed gradient"


@pytest.mark.parametrize("start", [0.0, 0.4, -0.7, "point"])
def test_the_baseline_of_integrated_gradients_is_found(start: float | str) -> None:
    rng = np.random.default_rng(6)
    model = network((8, 16, 1), rng)
    true = 0.5 * rng.standard_normal(8) if isinstance(start, str) else np.full(8, start)
    found = probe(model.predict, integrated(lambda X: jacobian(model, X)[:, 0], 100, true), 8, rng)
    assert found.kind == "integrated gradients"
    assert found.baseline is not None
    np.testing.assert_allclose(found.baseline, true, atol=1e-3)


def test_exact_shapley_values_are_not_called_integrated_gradients_and_tell_their_base_value() -> None:
    rng = np.random.default_rng(6)
    model, background = network((4, 16, 16, 1), rng), rng.standard_normal((5, 4))
    rows = shapley(lambda X: model.predict(X)[:, 0], background, list(permutations(range(4))))
    found = probe(model.predict, rows, 4, rng)
    assert found.kind == "SHAP-like"
    assert found.baseline == pytest.approx(model.predict(background).mean(), abs=1e-9)


def test_the_gradient_of_a_rising_function_is_not_called_absolute() -> None:
    rng = np.random.default_rng(3)
    model = Weights(tuple((np.abs(W), b) for W, b in network((6, 16, 1), rng).layers))
    assert probe(model.predict, lambda X: jacobian(model, X)[:, 0], 6, rng).raw


def test_values_of_one_column_may_come_flat() -> None:
    rng = np.random.default_rng(4)
    model = network((6, 16, 1), rng)
    assert probe(lambda X: model.predict(X)[:, 0], lambda X: jacobian(model, X)[:, 0], 6, rng).raw


def test_probes_stay_in_the_box() -> None:
    rng = np.random.default_rng(7)
    model, seen = network((6, 16, 3), rng), []

    def looked(answer: Rows) -> Rows:
        def rows(X: Array) -> Array:
            seen.append(X)
            return answer(X)

        return rows

    def gradient(X: Array) -> Array:
        return np.asarray(jacobian(model, X)[:, 0])

    for rows, kind in ((gradient, "gradient"), (integrated(gradient, start=0.5), "integrated gradients")):
        assert probe(looked(model.predict), looked(rows), 6, rng, low=0.0, high=1.0).kind == kind
    asked = np.concatenate(seen)
    assert asked.min() >= 0
    assert asked.max() <= 1


@pytest.mark.parametrize(
    ("kind", "precision", "values", "asked"),
    [
        ("gradient", np.float64, 336, 20),
        ("gradient", np.float32, 496, 20),
        ("absolute gradient", np.float64, 192, 16),
        ("smoothed gradient", np.float64, 192, 12),
        ("integrated gradients", np.float64, 697, 16),
    ],
)
def test_it_takes_a_few_hundred_values_and_a_dozen_explanations_or_two(
    kind: str, precision: type[np.floating], values: int, asked: int
) -> None:
    rng = np.random.default_rng(5)
    model, counted = network((20, 16, 1), rng), {"values": 0, "explanations": 0}
    explain = served(explanations(model, rng)[kind], precision)

    def value(X: Array) -> Array:
        counted["values"] += len(X)
        return served(model.predict, precision)(X)

    def gradient(X: Array) -> Array:
        counted["explanations"] += len(X)
        return explain(X)

    found = probe(value, gradient, 20, rng)
    assert called(found) == kind
    assert counted == {"values": values, "explanations": asked}
    assert found.points == asked


@pytest.mark.parametrize(("off", "raw"), [(1e-9, True), (1e-5, False)])
def test_a_gradient_may_be_off_by_what_rounding_leaves(off: float, raw: bool) -> None:
    found = probe(lambda X: np.sin(X).sum(axis=1), lambda X: (1 + off) * np.cos(X), 20, np.random.default_rng(0))
    assert found.raw == raw


@pytest.mark.parametrize("decimals", [3, 6])
def test_rounded_gradients_are_gradients(decimals: int) -> None:
    rng = np.random.default_rng(8)
    model = network((10, 32, 1), rng)
    assert probe(model.predict, lambda X: np.round(jacobian(model, X)[:, 0], decimals), 10, rng).raw
