"""Two-layer networks behind values alone: copied where they can be, refused or failed with the reason where they cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier

from divulge import Candidates, Context, Finding, Predictions, Verdict, Weights
from divulge.arrays import Array
from divulge.attacks import ValueExtraction
from divulge.attacks.extraction.readout import Readout
from divulge.contract.context import Budget


def network(dimension: int, units: int, outputs: int = 1, seed: int = 0) -> list[Array]:
    """Layers as arrays that a test may change."""
    rng = np.random.default_rng(seed)
    into = rng.standard_normal((units, dimension)) / np.sqrt(dimension)
    out = rng.standard_normal((outputs, units)) / np.sqrt(units)
    return [into, rng.standard_normal(units), out, rng.standard_normal(outputs)]


def weights(into: Array, bias: Array, out: Array, constant: Array) -> Weights:
    return Weights(((into, bias), (out, constant)))


def extract(
    model: Weights,
    answers: Callable[[Array], Array] = lambda values: values,
    *,
    seed: int = 1,
    budget: Budget | None = None,
    **options: Any,
) -> Finding[Weights]:
    """The finding for a network whose values are answered through `answers`, scored against its weights."""
    held = Predictions(lambda X: answers(model.predict(X)), model.dimension, "network")
    return ValueExtraction(**options)(held, truth={"weights": model}, context=Context(seed, budget=budget))


def loot(finding: Finding[Weights]) -> Weights:
    assert finding.loot is not None, finding.summary
    return finding.loot


def error(finding: Finding[Weights], score: str = "largest weight error") -> float:
    assert finding.verdict is Verdict.LEAK, finding.summary
    return finding.scores[score].value


def refused(value: Callable[[Array], Array], dimension: int, reason: str, **options: Any) -> None:
    finding = ValueExtraction(**options)(Predictions(value, dimension, "other"), context=Context(1))
    assert finding.verdict is Verdict.NOT_APPLICABLE, finding.summary
    assert reason in finding.summary


def far_off(finding: Finding[Weights], model: Weights, sizes: Sequence[float] = (0.1, 1, 100)) -> float:
    """The largest error at points the attack has not seen, relative to how values vary."""
    X = np.random.default_rng(99).standard_normal((500, model.dimension))
    spread = max(float(model.predict(s * X).std()) / s for s in (1, 10, 100))  # the units may all be off near the origin
    return max(float(np.abs(loot(finding).predict(s * X) - model.predict(s * X)).max()) / (s * spread) for s in sizes)


def test_a_copy_that_the_truth_shows_to_be_another_network_has_failed() -> None:
    (W, b), (V, c) = weights(*network(12, 8, 2)).layers
    other = Weights(((W, b), (V, c + np.array([0.0, 3.0]))))
    finding = ValueExtraction()(Predictions.of(Weights(((W, b), (V, c)))), truth={"weights": other}, context=Context(1))
    assert finding.provenance.claimed
    assert finding.verdict is Verdict.FAILED
    assert finding.summary.startswith("The truth shows that the copy is off by ")


@pytest.mark.parametrize(
    ("dimension", "units", "outputs"), [(1, 1, 1), (2, 1, 1), (3, 1, 3), (20, 10, 1), (60, 30, 1), (20, 10, 10), (30, 60, 2)]
)
def test_weights_are_recovered_to_seven_digits(dimension: int, units: int, outputs: int) -> None:
    finding = extract(weights(*network(dimension, units, outputs)))
    assert error(finding) < 1e-7
    assert error(finding, "relative error at fresh points") < 1e-7
    assert loot(finding).exact
    assert len(loot(finding).layers[0][1]) == units


@pytest.mark.parametrize(("dimension", "units"), [(1, 5), (2, 9), (3, 40)])
def test_more_units_than_inputs_can_orient_are_copied_as_a_function(dimension: int, units: int) -> None:
    model = weights(*network(dimension, units))
    finding = extract(model)
    assert finding.verdict is Verdict.LEAK, finding.summary
    assert far_off(finding, model) < 1e-7


def test_one_output_takes_about_a_query_a_parameter() -> None:
    assert error(extract(weights(*network(300, 20))), "queries per parameter") < 1.12


def test_ten_outputs_take_less_than_a_third() -> None:
    assert error(extract(weights(*network(300, 60, 10))), "queries per parameter") < 0.3


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 12), st.integers(1, 12), st.integers(1, 3), st.floats(-3, 3), st.integers(0, 999))
def test_what_is_called_a_leak_is_one_whatever_the_scale_of_a_layer(
    dimension: int, units: int, outputs: int, power: float, seed: int
) -> None:
    """Hidden weights may be large or small beside their biases; what is called a leak is one."""
    into, bias, out, constant = network(dimension, units, outputs, seed=seed)
    model = weights(10**power * into, bias, out, constant)
    finding = extract(model)
    assert finding.verdict is not Verdict.NOT_APPLICABLE, finding.summary
    if finding.verdict is Verdict.LEAK:
        assert far_off(finding, model, sizes=(1, 10, 100)) < 1e-5


def changed(name: str) -> Weights:
    into, bias, out, constant = network(20, 10)
    if name == "doubled":
        into[1], bias[1] = into[0], bias[0]
    elif name == "collinear":
        into[1], into[2] = into[0], -3 * into[0]
    elif name == "opposite":
        into[1], bias[1] = -2 * into[0], -2 * bias[0]
    elif name == "dead":
        into[1], bias[1] = 0, -1
        out[:, 2] = 0
    elif name == "far":
        bias[3] *= 1e4
    elif name == "no bias":
        bias, constant = 0 * bias, 0 * constant
    elif name == "nearly invisible":
        out[:, 3] *= 1e-8
    elif name == "invisible":
        out[:, 3] *= 1e-14
    return weights(into, bias, out, constant)


@pytest.mark.parametrize(
    "name", ["doubled", "collinear", "opposite", "dead", "far", "no bias", "nearly invisible", "invisible"]
)
def test_degenerate_units_are_no_obstacle(name: str) -> None:
    model = changed(name)
    finding = extract(model)
    assert finding.verdict is Verdict.LEAK, finding.summary
    assert far_off(finding, model) < 1e-6
    assert finding.cost.points < 1000


def test_units_that_cannot_be_told_apart_count_as_one_in_the_score() -> None:
    assert error(extract(changed("doubled"))) < 1e-7
    assert error(extract(changed("dead"))) < 1e-7


def test_a_single_precision_model_is_copied_as_well_as_it_answers() -> None:
    layers = network(10, 5, 4)
    single = Weights(
        tuple((W.astype(np.float32), b.astype(np.float32)) for W, b in zip(layers[::2], layers[1::2], strict=True))
    )
    held = Predictions(lambda X: single.predict(X.astype(np.float32)), 10, "single")
    finding = ValueExtraction()(held, truth={"weights": weights(*layers)}, context=Context(1))
    assert error(finding) < 1e-6
    assert not loot(finding).exact


@pytest.mark.parametrize(("dimension", "units", "outputs"), [(5, 40, 1), (20, 30, 1), (40, 20, 1), (30, 40, 10)])
def test_a_single_precision_network_is_copied_to_seven_digits_however_many_units(
    dimension: int, units: int, outputs: int
) -> None:
    single = Weights(
        tuple(
            (W.astype(np.float32), b.astype(np.float32))
            for W, b in zip(*[iter(network(dimension, units, outputs))] * 2, strict=True)
        )
    )
    held = Predictions(lambda X: single.predict(X.astype(np.float32)), dimension, "single")
    finding = ValueExtraction()(held, context=Context(1))
    assert finding.verdict is Verdict.LEAK, finding.summary
    assert not loot(finding).exact
    X = np.random.default_rng(5).standard_normal((500, dimension)).astype(np.float32)
    for size in (1, 100, 10_000):
        Z = single.predict(np.float32(size) * X)
        assert np.abs(loot(finding).predict((np.float32(size) * X).astype(float)) - Z).max() < 1e-5 * Z.std()


def test_a_sigmoid_in_single_precision_is_read_where_it_has_digits() -> None:
    into, bias, out, constant = (one.astype(np.float32) for one in network(20, 8))

    def logit(X: Array) -> Array:
        return np.asarray(np.maximum(X.astype(np.float32) @ into.T + bias, 0) @ out.T + constant)

    finding = ValueExtraction()(Predictions(lambda X: expit(logit(X)), 20, "single"), context=Context(1))
    assert finding.verdict is Verdict.LEAK, finding.summary
    X = np.random.default_rng(5).standard_normal((500, 20)).astype(np.float32)
    assert np.abs(loot(finding).predict(X.astype(float)) - logit(X)).max() < 1e-4 * logit(X).std()


@pytest.mark.parametrize("activation", [np.tanh, lambda Z: Z * expit(Z)], ids=["tanh", "silu"])
def test_a_curve_in_single_precision_is_said_to_be_one(activation: Callable[[Array], Array]) -> None:
    into, bias, out, _ = (one.astype(np.float32) for one in network(20, 30))
    finding = ValueExtraction()(
        Predictions(lambda X: activation(X.astype(np.float32) @ into.T + bias) @ out.T, 20, "curved"), context=Context(1)
    )
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "not piecewise linear" in finding.summary


@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_of_classes_are_read_as_logits_that_are_compared_but_for_their_shift(classes: int) -> None:
    model = weights(*network(20, 10, classes))
    assert np.abs(model.layers[1][0].mean(0)).max() > 0.1  # the true logits do not add up to 0
    finding = extract(model, lambda Z: softmax(Z, axis=1))
    assert error(finding) < 1e-6
    assert any("sum 0" in note for note in finding.notes)


def test_a_copy_of_probabilities_that_was_not_checked_is_measured_but_for_the_shift_of_its_logits() -> None:
    into, bias, out, constant = network(10, 20, 4)
    model, same = weights(into, bias, out, constant), weights(into, bias, out + 2, constant + 5)
    held = Predictions(lambda X: softmax(model.predict(X), axis=1).astype(np.float32), 10, "single precision")
    scores = []
    for known in (model, same):
        finding = ValueExtraction()(held, truth={"weights": known}, context=Context(1, budget=Budget(queries=5100)))
        assert finding.verdict is Verdict.FAILED, finding.summary
        scores.append(finding.scores["largest weight error"].value)
    assert scores[0] == pytest.approx(scores[1], abs=1e-12)


def test_a_single_probability_is_read_as_a_logit() -> None:
    assert error(extract(weights(*network(20, 10)), expit)) < 1e-6


@pytest.mark.parametrize("steep", [1.0, 10.0])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_sigmoid_beside_its_complement_is_read_where_it_has_digits(steep: float, swapped: bool) -> None:
    into, bias, out, constant = network(20, 10)
    finding = extract(
        weights(into, bias, steep * out, constant), lambda Z: np.hstack([1 - expit(Z), expit(Z)])[:, :: -1 if swapped else 1]
    )
    copy = loot(finding)
    assert copy.exact
    X = np.random.default_rng(5).standard_normal((500, 20))
    true = np.maximum(X @ into.T + bias, 0) @ (steep * out).T + constant
    logit = (copy.predict(X) @ [[-1.0], [1.0]]) * (-1 if swapped else 1)
    assert np.abs(logit - true).max() < 1e-6 * true.std()


def test_binary_probabilities_of_an_mlp_are_copied() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    model = MLPClassifier((12,), max_iter=60, random_state=0, tol=0.1).fit(X, y)
    finding = ValueExtraction()(Predictions.of(model), context=Context(1))
    assert loot(finding).exact, finding.summary
    (W, V), (b, c) = model.coefs_, model.intercepts_
    true = np.maximum(X @ W + b, 0) @ V + c
    assert np.abs(loot(finding).predict(X) @ [[-1.0], [1.0]] - true).max() < 1e-6


def test_few_decimals_are_refused_and_many_are_enough() -> None:
    model = weights(*network(20, 10))
    coarse = extract(model, lambda Z: np.round(Z, 3))
    assert coarse.verdict is Verdict.NOT_APPLICABLE
    assert "rounded" in coarse.summary
    assert error(extract(model, lambda Z: np.round(Z, 12))) < 1e-6


@pytest.mark.parametrize(("decimals", "exact"), [(9, True), (8, False)])
def test_a_copy_that_answers_confirm_to_a_hundred_thousandth_is_called_exact(decimals: int, exact: bool) -> None:
    finding = extract(weights(*network(10, 2)), lambda Z: np.round(Z, decimals))
    assert error(finding) < 1e-4
    assert loot(finding).exact == exact


def test_a_copy_that_can_only_be_checked_nearby_is_not_called_exact() -> None:
    """Logits a hundred times as large cannot be read beyond the usual size, and a unit may switch farther out."""
    into, bias, out, constant = network(10, 4, 3)
    for size, exact in ((1.0, True), (130.0, False)):
        finding = extract(weights(into, bias, size * out, constant), lambda Z: softmax(Z, axis=1))
        assert finding.verdict is Verdict.LEAK
        assert "with 4 units that show" in finding.summary
        assert loot(finding).exact == exact


def test_answers_that_are_coarse_are_given_up_after_four_lines() -> None:
    """Two hidden layers, which answers of single precision do not tell from one: no copy agrees."""
    into, bias, out, _ = (one.astype(np.float32) for one in network(6, 30, 1))
    deep = np.random.default_rng(1).standard_normal((30, 30)).astype(np.float32)

    def value(X: Array) -> Array:
        return np.asarray(np.maximum(np.maximum(X.astype(np.float32) @ into.T + bias, 0) @ deep.T, 0) @ out.T)

    finding = ValueExtraction()(Predictions(value, 6, "deeper"), context=Context(1))
    assert finding.verdict is Verdict.FAILED, finding.summary
    assert "found on 4 lines" in finding.summary


def test_noise_is_refused_and_said_to_be_noise() -> None:
    rng = np.random.default_rng(0)
    finding = extract(weights(*network(20, 10)), lambda Z: Z + 1e-3 * rng.standard_normal(Z.shape))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "two values" in finding.summary


def test_what_is_no_two_layer_network_is_refused_with_the_measurement() -> None:
    into, bias, out, _ = network(12, 10, 2)
    deep = np.random.default_rng(1).standard_normal((10, 10))
    refused(lambda X: np.ones((len(X), 2)), 12, "same answer")
    refused(lambda X: X @ into[:2].T + 1, 12, "linear-extraction")
    refused(lambda X: np.where(X @ out[:1].repeat(6, 1)[:, :12].T > 0, 1, 0), 12, "labels")
    refused(lambda X: np.tanh(X @ into.T + bias) @ out.T, 12, "not piecewise linear")
    refused(lambda X: np.tanh(np.maximum(X @ into.T + bias, 0) @ out.T), 12, "not piecewise linear")
    refused(lambda X: np.maximum(np.maximum(3 * X @ into.T + bias, 0) @ deep.T, 0) @ out.T, 12, "more than one hidden layer")
    refused(lambda X: X @ into[:2].T + (bias < X @ into.T) @ out.T, 12, "jump")
    refused(lambda X: np.full((len(X), 1), np.nan), 12, "NaN")
    refused(lambda X: softmax(1e9 * X[:, :2], axis=1) + 0 * X[:, :2], 12, "labels")


def test_a_budget_that_runs_out_leaves_a_partial_finding() -> None:
    model = weights(*network(20, 10))
    for queries in (10, 60, 120, 300):
        finding = extract(model, budget=Budget(queries=queries))
        assert finding.verdict is Verdict.FAILED
        assert finding.partial
        assert finding.cost.points <= queries


def test_a_copy_that_does_not_agree_is_no_leak() -> None:
    """One line is too few for kinks beyond its end; the copy so far is handed over with its agreement."""
    into, bias, out, constant = network(20, 8)
    bias[3:] = [1.2e5, -1.2e5, 1.2e5, -1.2e5, 1.2e5]
    finding = extract(weights(into, bias, out, constant), lines=1)
    assert finding.verdict is Verdict.FAILED
    assert "check points" in finding.summary
    assert not loot(finding).exact
    assert loot(finding).agreement < 1


def test_candidates_measure_the_copy_where_it_matters() -> None:
    X = np.random.default_rng(5).standard_normal((100, 20))
    classes, value = weights(*network(20, 10, 4)), weights(*network(20, 10))
    found = ValueExtraction()(
        Predictions.of(classes), truth={"candidates": Candidates(X), "weights": classes}, context=Context(1)
    )
    assert found.scores["agreement at the candidates"].value == 1
    assert found.scores["agreement at the candidates"].null < 1
    found = ValueExtraction()(
        Predictions.of(value), truth={"candidates": Candidates(X), "weights": value}, context=Context(1)
    )
    assert found.scores["relative error at the candidates"].value < 1e-7


def test_a_copy_is_exact_in_all_but_a_twentieth_of_space_and_says_so() -> None:
    finding = extract(weights(*network(20, 10)))
    assert isinstance(finding.evidence, Readout)
    bound = finding.evidence.bound
    assert bound is not None
    assert (bound.points, bound.confidence) == (100, 0.99)
    assert bound.share < 0.05
    assert bound.chosen >= 20
    assert str(bound) in finding.notes
    assert "at most 4.6% of points may differ" in finding.summary


@pytest.mark.parametrize("bias", [0.0, 0.5, 1.0, 2.0])
def test_a_deeper_unit_that_rarely_switches_is_seen_or_within_the_bound(bias: float) -> None:
    into, first, out, constant = network(8, 12)
    deeper = np.concatenate([np.eye(12), np.random.default_rng(4).standard_normal((1, 12)) - 1])
    layers = ((into, first), (deeper, np.append(np.zeros(12), -bias)), (np.append(out, [[1.0]], axis=1), constant))
    finding = ValueExtraction()(Predictions.of(Weights(layers)), context=Context(1))
    if finding.verdict is Verdict.LEAK and loot(finding).exact:
        assert isinstance(finding.evidence, Readout)
        assert finding.evidence.bound is not None
        rng, wrong = np.random.default_rng(7), 0.0
        for size, share in finding.evidence.bound.sizes:
            X = size * rng.standard_normal((20_000, 8))
            off = np.abs(loot(finding).predict(X) - Weights(layers).predict(X)).max(1)
            wrong += share * float(np.mean(off > 1e-5 * max(size, 1)))
        assert wrong <= finding.evidence.bound.share


@pytest.mark.parametrize("decimals", [5, 6, 7, 8])
def test_rounded_probabilities_are_said_to_be_rounded(decimals: int) -> None:
    finding = extract(weights(*network(20, 10, 4)), lambda Z: np.round(softmax(Z, axis=1), decimals))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "rounded" in finding.summary


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.0, 1.0)], ids=["relu6", "hardtanh"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_units_that_saturate_are_copied_as_pairs_that_stay_parallel(low: float, high: float, outputs: int) -> None:
    into, bias, out, constant = network(12, 9, outputs)

    def value(X: Array) -> Array:
        return np.asarray(np.clip(X @ (4 * into).T + bias, low, high) @ out.T + constant)

    finding = ValueExtraction()(Predictions(value, 12, "saturating"), context=Context(1))
    copy = loot(finding)
    assert copy.exact
    assert len(copy.layers[0][1]) == 18
    assert any("9 pairs" in note for note in finding.notes)
    X = np.random.default_rng(5).standard_normal((500, 12))
    for size in (0.1, 1, 100, 1e5):
        assert np.abs(copy.predict(size * X) - value(size * X)).max() < 1e-6
