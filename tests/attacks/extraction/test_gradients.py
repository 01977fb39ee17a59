"""Weights from explanations: exact, or refused with a measurement, and never wrong and called a leak."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

from divulge import Candidates, Finding, Gradients, Verdict, Weights
from divulge.arrays import Array
from divulge.attacks import GradientExtraction
from divulge.attacks.extraction.readout import Readout
from divulge.contract import Budget, Context, Explanation
from divulge.errors import BadInput, TargetFailed
from divulge.storage import load, save


def network(units: int, inputs: int, outputs: int, seed: int = 0, biases: float = 1.0) -> Weights:
    rng = np.random.default_rng(seed)
    return Weights(
        (
            (rng.standard_normal((units, inputs)) / np.sqrt(inputs), biases * rng.standard_normal(units)),
            (rng.standard_normal((outputs, units)) / np.sqrt(units), biases * rng.standard_normal(outputs)),
        )
    )


def steal(target: Gradients, truth: Weights | None = None, **options: Any) -> Finding[Weights]:
    known = {"weights": truth} if truth is not None else None
    return GradientExtraction(**options)(target, truth=known, context=Context(1))


def loot(finding: Finding[Weights]) -> Weights:
    assert finding.loot is not None, finding.summary
    return finding.loot


SCALAR, SEVERAL = network(40, 30, 1), network(40, 30, 4)
API = Gradients.of(SCALAR)
CHECKING = 160
"Queries to see that there is one hidden layer, fresh points, and points chosen to refute the copy, whatever its width."


def explained(
    gradient: Callable[[Array], Array], value: Callable[[Array], Array] = API.value, dimension: int = 30
) -> Gradients:
    return Gradients(value, dimension, gradient=gradient)


@pytest.mark.parametrize(
    ("units", "inputs", "outputs", "most"),
    [(1, 3, 1, 40), (10, 5, 1, 8), (40, 30, 1, 4), (40, 30, 4, 2), (120, 200, 1, 2.9), (60, 200, 10, 1.4), (90, 20, 1, 4)],
)
def test_a_network_follows_from_few_queries_to_the_last_digits(units: int, inputs: int, outputs: int, most: float) -> None:
    true = network(units, inputs, outputs)
    finding = steal(Gradients.of(true), true)
    assert finding.verdict is Verdict.LEAK
    assert loot(finding).exact
    assert finding.scores["largest error at points"].value < 1e-10
    assert finding.cost.points <= most * units + CHECKING
    assert finding.scores["queries per unit"].value == finding.cost.points / units


def test_the_loot_is_the_plain_network_balanced() -> None:
    finding = steal(Gradients.of(SEVERAL), SEVERAL)
    (W, b), (V, _) = loot(finding).layers
    assert len(b) == 40
    assert finding.scores["largest weight error"].value < 1e-10
    np.testing.assert_allclose((W**2).sum(1) + b**2, (V**2).sum(0))


def test_weights_of_a_copy_that_adds_what_is_linear_by_pairs_of_units_are_compared_all_the_same() -> None:
    true = network(60, 5, 2)  # which way round so many units are cannot be told
    finding = steal(Gradients.of(true), true)
    assert len(loot(finding).layers[0][1]) > 60
    assert loot(finding).exact
    assert finding.scores["largest weight error"].value < 1e-8
    assert "hidden units found" not in finding.scores


def test_a_mean_that_is_subtracted_first_is_a_bias_to_who_asks() -> None:
    (W, b), last = SEVERAL.layers
    mean = np.linspace(0, 3, 30)
    true = Weights(((W, b), last), mean=mean)
    finding = steal(Gradients.of(true), true)
    assert "hidden units found" not in finding.scores
    assert finding.scores["largest weight error"].value < 1e-8


def test_units_that_the_copy_lacks_are_counted_and_are_no_error_of_the_others() -> None:
    (W, b), last = SEVERAL.layers
    far = replace(SEVERAL, layers=((W, np.where(np.arange(40) < 1, -1e9, b)), last))  # never on where anybody asks
    finding = steal(Gradients.of(far), far)
    assert finding.verdict is Verdict.LEAK
    found = finding.scores["hidden units found"]
    assert (found.value, found.null, found.unit) == (39, 0, "of 40")
    assert finding.scores["largest weight error"].value < 1e-8
    assert finding.notes[-1].startswith("1 of the 40 hidden units that the truth has are none of the copy's")


def test_a_network_without_biases_and_one_with_large_ones() -> None:
    for biases in (0.0, 30.0):
        true = network(30, 25, 1, biases=biases)
        finding = steal(Gradients.of(true), true)
        assert finding.verdict is Verdict.LEAK
        assert finding.scores["largest error at points"].value < 1e-9


def test_inputs_of_another_size_need_only_their_scale() -> None:
    (W, b), out = network(30, 25, 2).layers
    true = Weights(((W / 1e3, b), out))
    finding = steal(Gradients.of(true), true, scale=1e3)
    assert finding.verdict is Verdict.LEAK
    assert finding.cost.points < 4 * 30 + CHECKING


def odd(kind: str, outputs: int) -> Weights:
    """A network with something wrong with it."""
    (W, b), (V, c) = (tuple(part.copy() for part in layer) for layer in network(24, 18, outputs, seed=3).layers)
    if kind == "duplicated":
        W[:6], b[:6] = W[6:12], b[6:12]
    elif kind == "parallel":
        W[:6] = W[6:12] * np.array([1, -1, 2, -2, 0.5, 1])[:, None]
    elif kind == "dead":
        b[:6] = -1e3
    elif kind == "cancelling":
        W[:6], b[:6], V[:, :6] = W[6:12], b[6:12], -V[:, 6:12]
    elif kind == "tiny":
        W[:6], b[:6] = W[:6] * 1e-9, b[:6] * 1e-9
    elif kind == "small":
        V[:, :6] *= 1e-5
    elif kind == "signs":
        V = np.sign(V)
    elif kind == "unused":
        W[:6], V[:, 6:9] = 0, 0
    return Weights(((W, b), (V, c)))


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("kind", ["duplicated", "parallel", "dead", "cancelling", "tiny", "small", "signs", "unused"])
def test_a_copy_of_an_odd_network_is_right_or_is_not_called_a_leak(kind: str, outputs: int) -> None:
    true = odd(kind, outputs)
    finding = steal(Gradients.of(true))
    X = np.random.default_rng(9).standard_normal((2000, 18)) * 10 ** np.random.default_rng(8).uniform(-1, 2, (2000, 1))
    error = np.abs(loot(finding).predict(X) - true.predict(X)).max() / np.abs(true.predict(X)).max()
    assert finding.verdict is Verdict.LEAK or kind in ("tiny", "small")
    assert error < 1e-6


@pytest.mark.parametrize("outputs", [1, 4])
def test_a_server_of_single_precision_is_told_by_its_answers(outputs: int) -> None:
    true = network(40, 50, outputs)
    module = torch.nn.Sequential(torch.nn.Linear(50, 40), torch.nn.ReLU(), torch.nn.Linear(40, outputs))
    for layer, (W, b) in zip((module[0], module[2]), true.layers, strict=True):
        layer.weight.data, layer.bias.data = torch.tensor(W).float(), torch.tensor(b).float()
    finding = steal(Gradients.of(module), Weights.of(module))
    assert finding.verdict is Verdict.LEAK
    assert finding.scores["largest weight error"].value < 1e-5
    assert finding.cost.points < 8 * 40 + CHECKING


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def behind_a_softmax(model: Weights) -> Gradients:
    api = Gradients.of(model)

    def gradient(X: Array) -> Array:
        p, J = softmax(api.value(X))[:, :, None], api.gradient(X)
        return np.asarray(p * (J - (p * J).sum(1, keepdims=True)))

    return explained(gradient, lambda X: softmax(api.value(X)), model.dimension)


@pytest.mark.parametrize("classes", [2, 5])
def test_probabilities_give_up_their_logits(classes: int) -> None:
    true = network(30, 20, classes)
    finding = steal(behind_a_softmax(true))
    assert finding.verdict is Verdict.LEAK
    X = np.random.default_rng(5).standard_normal((500, 20))
    np.testing.assert_allclose(softmax(loot(finding).predict(X)), softmax(true.predict(X)), atol=1e-9)


@pytest.mark.parametrize("classes", [2, 5])
def test_an_exact_copy_behind_a_softmax_stays_a_leak_where_the_true_logits_are_shifted(classes: int) -> None:
    true = network(30, 20, classes)
    (V, c) = true.layers[1]
    assert min(np.abs(V.mean(0)).max(), abs(c.mean())) > 0.1  # the true logits do not add up to 0
    finding = steal(behind_a_softmax(true), true)
    assert finding.verdict is Verdict.LEAK
    assert finding.scores["largest error at points"].value < 1e-8
    assert finding.scores["largest weight error"].value < 1e-8


def shifted(model: Weights) -> Weights:
    """The same probabilities behind a softmax, from logits that are all larger by one function."""
    hidden, (V, c) = model.layers
    return Weights((hidden, (V + np.linspace(1, 3, V.shape[1]), c + 5)))


def test_half_a_copy_behind_a_softmax_is_measured_but_for_the_shift_of_its_logits() -> None:
    true = network(30, 20, 5)
    scores = [
        GradientExtraction()(
            behind_a_softmax(true), truth={"weights": same}, context=Context(1, budget=Budget(queries=100))
        ).scores["largest error at points"]
        for same in (true, shifted(true))
    ]
    assert scores[0].value == pytest.approx(scores[1].value, rel=1e-9)


def test_one_probability_gives_up_its_logit() -> None:
    def value(X: Array) -> Array:
        return 1 / (1 + np.exp(-API.value(X)))

    finding = steal(explained(lambda X: value(X) * (1 - value(X)) * API.gradient(X), value))
    assert finding.verdict is Verdict.LEAK
    X = np.random.default_rng(5).standard_normal((500, 30))
    np.testing.assert_allclose(loot(finding).predict(X), SCALAR.predict(X), atol=1e-8)


def test_queries_stay_in_the_box_that_is_named() -> None:
    true, seen = network(20, 36, 3, biases=0.2), []

    def value(X: Array) -> Array:
        seen.append(X)
        return true.predict(X)

    finding = GradientExtraction(low=0.0, high=1.0)(
        explained(Gradients.of(true).gradient, value, 36),
        truth={"weights": true, "candidates": Candidates(np.random.default_rng(0).random((500, 36)))},
    )
    assert finding.verdict is Verdict.LEAK
    assert finding.scores["largest error at points"].value < 1e-8
    assert "in the box from 0 to 1" in finding.summary
    asked = np.concatenate(seen)
    assert asked.min() >= 0
    assert asked.max() <= 1


def test_a_linear_model_needs_no_lines() -> None:
    finding = steal(Gradients.of(torch.nn.Linear(30, 3).double()))
    assert finding.verdict is Verdict.LEAK
    assert "one query" in finding.summary
    assert len(loot(finding).layers) == 1


NOISE = np.random.default_rng(0)
REFUSED = {
    "absolute": (
        explained(lambda X: np.abs(API.gradient(X))),
        "instead: absolute gradient of the only output; signs are missing",
    ),
    "noisy": (explained(lambda X: API.gradient(X) + 0.01 * NOISE.standard_normal((len(X), 30))), "gradients are noisy"),
    "rounded": (explained(lambda X: np.round(API.gradient(X), 3)), "answers are precise to"),
    "rounded values": (explained(API.gradient, lambda X: np.round(API.value(X), 2)), "answers are precise to"),
    "too steep": (explained(lambda X: 2 * API.gradient(X)), "not those of the values"),
    "another model's": (explained(Gradients.of(network(40, 30, 1, 7)).gradient), "not those of the values"),
    "constant": (explained(lambda X: np.zeros((len(X), 30)), lambda X: np.ones((len(X), 1))), "nothing to find"),
    "NaN": (explained(API.gradient, lambda X: np.nan * API.value(X)), "NaN"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_raw_gradient_is_refused_with_the_measurement(kind: str) -> None:
    target, reason = REFUSED[kind]
    finding = steal(target)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert reason in finding.summary.replace("Answers", "answers").replace("The gradients", "the gradients")


def rounded(model: Weights, decimals: int) -> Gradients:
    api = Gradients.of(model)
    return explained(lambda X: np.round(api.gradient(X), decimals), lambda X: np.round(api.value(X), decimals))


@pytest.mark.parametrize("outputs", [1, 4])
def test_six_decimals_are_enough_for_a_copy_and_five_are_refused(outputs: int) -> None:
    true = network(10, 30, outputs)
    finding = steal(rounded(true, 6), true)
    assert finding.verdict is Verdict.LEAK
    assert finding.scores["largest weight error"].value < 1e-4
    coarse = steal(rounded(true, 5))
    assert coarse.verdict is Verdict.NOT_APPLICABLE
    assert re.search("precise to (5e-05|1e-04) of the slopes", coarse.summary)


def test_a_copy_is_called_exact_where_it_agrees_to_a_millionth_of_the_slopes() -> None:
    true = network(10, 30, 4)
    for decimals, exact in ((6, False), (7, True)):
        finding = steal(rounded(true, decimals))
        assert finding.verdict is Verdict.LEAK
        assert loot(finding).exact == exact
        assert (finding.scores["disagreement at fresh points"].value < 1e-6) == exact


@pytest.mark.parametrize(("off", "verdict"), [(0.006, Verdict.LEAK), (0.015, Verdict.FAILED)])
def test_a_copy_that_the_truth_shows_to_be_a_hundredth_off_is_no_leak(off: float, verdict: Verdict) -> None:
    hidden, (V, _) = network(10, 30, 1).layers
    true, other = (Weights((hidden, (factor * V, np.zeros(1)))) for factor in (1, 1 / (1 + off)))
    finding = steal(Gradients.of(true), other)
    assert finding.scores["largest error at points"].value == pytest.approx(off, rel=0.3)
    assert finding.verdict is verdict


def test_in_a_box_so_many_points_agree_that_hardly_a_twentieth_of_it_can_be_wrong() -> None:
    true = network(20, 36, 3, biases=0.2)
    finding = steal(Gradients.of(true), low=0.0, high=1.0)
    assert finding.verdict is Verdict.LEAK
    (share,) = (float(note.split("At most ")[1].split("%")[0]) for note in finding.notes if "may still be wrong" in note)
    assert 2.5 < share <= 5
    assert not loot(finding).exact


def jacobians(model: Weights) -> Callable[[Array], Array]:
    api = Gradients.of(model)
    return lambda X: api.gradient(X).reshape(len(X), -1, model.dimension)


def single(answer: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda X: answer(X.astype(np.float32).astype(float)).astype(np.float32)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("model", [SCALAR, SEVERAL], ids=["one output", "several"])
def test_gradient_times_input_is_undone_exactly(model: Weights, told: bool) -> None:
    J, of = jacobians(model), "only output" if model is SCALAR else "each output"
    said = Explanation("gradient times input", of) if told else None
    target = Gradients(model.predict, model.dimension, gradient=lambda X: X[:, None] * J(X), explanation=said)
    finding = steal(target, model)
    assert finding.verdict is Verdict.LEAK
    assert loot(finding).exact
    assert finding.scores["largest weight error"].value < 1e-9
    assert any(
        f"gradient × input of {'the ' * (model is SCALAR)}{of}: divided by the input" in note for note in finding.notes
    )


def test_gradient_times_input_is_undone_in_single_precision_and_in_a_box_that_begins_at_0() -> None:
    J = jacobians(SCALAR)
    coarse = Gradients(single(SCALAR.predict), 30, gradient=single(lambda X: X[:, None] * J(X)))
    assert steal(coarse, SCALAR).scores["largest weight error"].value < 1e-5
    boxed = steal(Gradients(SCALAR.predict, 30, gradient=lambda X: X[:, None] * J(X)), SCALAR, low=0.0, high=1.0)
    assert boxed.verdict is Verdict.LEAK


@pytest.mark.parametrize("of", ["output 2", "sum of outputs"])
def test_one_explained_output_of_several_is_copied_as_one(of: str) -> None:
    J = jacobians(SEVERAL)
    rows = (lambda X: J(X)[:, 2]) if of == "output 2" else (lambda X: J(X).sum(axis=1))
    finding = steal(Gradients(SEVERAL.predict, SEVERAL.dimension, gradient=rows), SEVERAL)
    assert finding.verdict is Verdict.LEAK
    assert len(loot(finding).layers[-1][0]) == 1
    assert finding.scores["largest weight error"].value < 1e-9
    assert isinstance(finding.evidence, Readout)
    assert finding.evidence.explanation is not None
    assert finding.evidence.explanation.of == of


def others(name: str) -> Gradients:
    """A service of another kind of explanations, of all outputs but for the top one's."""
    J, noise = jacobians(SEVERAL), np.random.default_rng(0).standard_normal((20, SEVERAL.dimension))

    def top(X: Array) -> Array:
        return np.asarray(J(X)[np.arange(len(X)), SEVERAL.predict(X).argmax(axis=1)])

    kinds: dict[str, Callable[[Array], Array]] = {
        "gradient of the top output": top,
        "gradient × input of the top output": lambda X: X * top(X),
        "smoothed gradient of each output": lambda X: np.mean([J(X + 0.1 * one) for one in noise], axis=0),
        "gradient of each output, each scaled to length 1": lambda X: J(X) / np.linalg.norm(J(X), axis=2, keepdims=True),
        "absolute gradient of each output, each divided by its largest entry": (
            lambda X: np.abs(J(X)) / np.abs(J(X)).max(axis=2, keepdims=True)
        ),
        "integrated gradients of each output from the baseline 0": (
            lambda X: X[:, None] * np.mean([J(X * (k + 0.5) / 50) for k in range(50)], axis=0)
        ),
    }
    return Gradients(SEVERAL.predict, SEVERAL.dimension, gradient=kinds[name])


@pytest.mark.parametrize(
    "name",
    [
        "gradient of the top output",
        "gradient × input of the top output",
        "smoothed gradient of each output",
        "gradient of each output, each scaled to length 1",
        "absolute gradient of each output, each divided by its largest entry",
        "integrated gradients of each output from the baseline 0",
    ],
)
def test_explanations_that_cannot_be_undone_are_refused_by_their_name(name: str) -> None:
    finding = steal(others(name))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert f"the service gives this instead: {name};" in finding.summary
    assert "value-extraction needs no explanations" in finding.summary


def test_what_was_told_of_explanations_and_is_not_so_is_named() -> None:
    J = jacobians(SEVERAL)
    target = Gradients(
        SEVERAL.predict,
        SEVERAL.dimension,
        gradient=lambda X: np.abs(J(X)),
        explanation=Explanation("gradient", "each output"),
    )
    finding = steal(target)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "said to be gradient of each output, but look like absolute gradient of each output" in finding.summary


@pytest.mark.parametrize("activation", [torch.nn.Tanh, torch.nn.GELU])
def test_a_smooth_network_is_not_piecewise_linear(activation: type[torch.nn.Module]) -> None:
    torch.manual_seed(0)
    finding = steal(
        Gradients.of(torch.nn.Sequential(torch.nn.Linear(30, 20), activation(), torch.nn.Linear(20, 1)).double())
    )
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "keeps changing between kinks" in finding.summary


@pytest.mark.parametrize("outputs", [1, 5])
def test_a_deep_network_is_told_by_kinks_that_are_no_hyperplanes(outputs: int) -> None:
    torch.manual_seed(0)
    layers = [
        torch.nn.Linear(30, 20),
        torch.nn.ReLU(),
        torch.nn.Linear(20, 20),
        torch.nn.ReLU(),
        torch.nn.Linear(20, outputs),
    ]
    finding = steal(Gradients.of(torch.nn.Sequential(*layers).double()))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "no set of hyperplanes" in finding.summary


@pytest.mark.parametrize("queries", [1, 3, 7, 30, 60, 90])
def test_a_budget_that_runs_out_leaves_what_was_found(queries: int) -> None:
    context = Context(1, budget=Budget(queries=queries))
    finding = GradientExtraction()(API, truth={"weights": SCALAR}, context=context)
    assert finding.verdict is Verdict.FAILED
    assert finding.partial
    assert finding.cost.points <= queries
    if queries >= 60:
        assert not loot(finding).exact
        assert "units were found" in finding.summary


def test_a_service_that_stops_answering_leaves_what_was_found() -> None:
    asked = 0

    def gradient(X: Array) -> Array:
        nonlocal asked
        asked += len(X)
        if asked > 50:
            raise TargetFailed("the service answers no more; try again later")
        return API.gradient(X)

    finding = steal(explained(gradient))
    assert finding.verdict is Verdict.FAILED
    assert finding.partial
    assert "answers no more" in finding.summary


def test_half_a_box_is_refused() -> None:
    with pytest.raises(BadInput, match="expected low below high"):
        steal(API, low=0.0)
    with pytest.raises(BadInput, match="expected low below high"):
        steal(API, low=1.0, high=0.0)


@pytest.mark.parametrize("seed", range(24))
def test_no_wrong_copy_is_accepted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units, inputs, outputs = int(rng.integers(1, 120)), int(rng.integers(2, 12)), int(rng.choice([1, 3]))
    true = network(units, inputs, outputs, seed=seed + 100, biases=float(rng.choice([0, 0.1, 1, 10])))
    finding = steal(Gradients.of(true), true)
    X = 10 ** rng.uniform(-1, 3, (1000, 1)) * rng.standard_normal((1000, inputs))
    error = np.abs(loot(finding).predict(X) - true.predict(X)).max(1) / np.linalg.norm(X, axis=1).clip(1)
    assert finding.verdict is Verdict.LEAK
    assert error.max() < 1e-7


def with_a_deeper_unit(bias: float) -> Weights:
    """Two layers but for one unit of a third, which is on where a sum of the others is larger than its bias."""
    (W, b), (V, c) = network(12, 8, 1).layers
    deeper = np.concatenate([np.eye(12), np.random.default_rng(4).standard_normal((1, 12)) - 1])
    out = np.concatenate([V, np.ones((1, 1))], axis=1)
    return Weights(((W, b), (deeper, np.append(np.zeros(12), -bias)), (out, c)))


@pytest.mark.parametrize("bias", [0.0, 0.3, 0.6, 1.0, 1.5, 2.0])
def test_what_is_called_exact_is_wrong_in_no_more_of_space_than_it_says(bias: float) -> None:
    true = with_a_deeper_unit(bias)
    finding = steal(Gradients.of(true))
    if finding.loot is None or not finding.loot.exact:
        return
    assert isinstance(finding.evidence, Readout)
    bound = finding.evidence.bound
    assert bound is not None
    rng, wrong = np.random.default_rng(7), 0.0
    for size, share in bound.sizes:
        X = size * rng.standard_normal((20_000, 8))
        wrong += share * float(np.mean(np.abs(finding.loot.predict(X) - true.predict(X)).max(1) > 1e-6 * size))
    assert wrong <= bound.share


def test_the_bound_is_a_value_that_is_stored_and_said_in_words(tmp_path: Path) -> None:
    finding = steal(API)
    assert isinstance(finding.evidence, Readout)
    bound = finding.evidence.bound
    assert bound is not None
    assert (bound.points, bound.confidence) == (100, 0.99)
    assert 0.03 < bound.share < 0.05
    assert bound.chosen >= 30
    assert dict(bound.sizes)[1.0] == 0.5
    assert finding.scores["share that may differ"].value == bound.share
    assert str(bound) in finding.notes
    assert "at most 4.6% of points may differ, at 99%" in finding.summary
    save(finding, tmp_path / "finding")
    assert load(tmp_path / "finding").evidence == finding.evidence


@pytest.mark.parametrize(("checks", "exact"), [(90, False), (93, True)])
def test_a_copy_is_called_exact_if_it_can_be_wrong_in_a_twentieth_of_space_at_most(checks: int, exact: bool) -> None:
    finding = steal(API, checks=checks)
    assert finding.verdict is Verdict.LEAK
    assert loot(finding).exact == exact
    assert any("ask for more checks" in note for note in finding.notes) != exact


def test_a_budget_that_ends_while_points_are_checked_leaves_a_copy_that_is_not_called_exact() -> None:
    whole = steal(API).cost.points
    context = Context(1, budget=Budget(queries=whole - 30))
    finding = GradientExtraction()(API, context=context)
    assert finding.verdict is Verdict.LEAK
    assert finding.partial
    assert not loot(finding).exact
    assert isinstance(finding.evidence, Readout)
    assert finding.evidence.bound is not None
    assert 0.05 < finding.evidence.bound.share < 0.3


@pytest.mark.parametrize("kind", ["added", "times"])
@pytest.mark.parametrize("noise", [1e-13, 1e-11, 1e-8])
def test_a_little_noise_is_measured_and_the_network_found(kind: str, noise: float) -> None:
    rng = np.random.default_rng(0)

    def noisy(answers: Array) -> Array:
        blur = noise * rng.standard_normal(answers.shape)
        return np.asarray(answers + blur if kind == "added" else answers * (1 + blur))

    finding = steal(explained(lambda X: noisy(API.gradient(X)), lambda X: noisy(API.value(X))), SCALAR)
    assert finding.verdict is Verdict.LEAK
    assert finding.scores["largest error at points"].value < max(1e-7, 1e3 * noise)
    assert "answers are precise to" in finding.notes[0]


@pytest.mark.parametrize(("digits", "exact"), [(12, True), (8, True), (6, False), (5, None)])
def test_significant_digits_are_enough_or_said_to_be_too_few(digits: int, exact: bool | None) -> None:
    def cut(answers: Array) -> Array:
        unit = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(answers), 1e-300))) + 1 - digits)
        return np.asarray(np.round(answers / unit) * unit)

    true = network(10, 30, 1)
    api = Gradients.of(true)
    finding = steal(explained(lambda X: cut(api.gradient(X)), lambda X: cut(api.value(X))), true)
    if exact is None:
        assert finding.verdict is Verdict.NOT_APPLICABLE
        assert "Answers are precise to 5e-05 of the slopes" in finding.summary
        return
    assert finding.verdict is Verdict.LEAK
    assert loot(finding).exact == exact
    assert finding.scores["largest error at points"].value < 1e3 * 10.0**-digits


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("hidden", [(20, 20), (64, 32, 32)])
def test_several_hidden_layers_are_named_within_sixty_queries(hidden: tuple[int, ...], soft: bool) -> None:
    torch.manual_seed(0)
    widths = (30, *hidden, 3)
    layers = [part for a, b in pairwise(widths) for part in (torch.nn.Linear(a, b), torch.nn.ReLU())][:-1]
    module = torch.nn.Sequential(*layers, *([torch.nn.Softmax(1)] if soft else [])).double()
    finding = steal(Gradients.of(module))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "several hidden layers" in finding.summary
    assert finding.cost.points <= 60


@pytest.mark.parametrize("pooled", [False, True])
def test_a_convolution_is_named_within_sixty_queries(pooled: bool) -> None:
    torch.manual_seed(0)
    nn = torch.nn
    middle = [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 6 * 6, 20)] if pooled else [nn.Flatten(), nn.Linear(4 * 144, 20)]
    module = nn.Sequential(nn.Unflatten(1, (1, 14, 14)), nn.Conv2d(1, 4, 3), nn.ReLU(), *middle, nn.ReLU(), nn.Linear(20, 3))
    module.double()

    def answer(X: Array) -> torch.Tensor:
        out: torch.Tensor = module(torch.tensor(X))
        return out

    def gradient(X: Array) -> Array:
        rows = torch.tensor(X, requires_grad=True)
        return np.stack([torch.autograd.grad(module(rows)[:, k].sum(), rows)[0].numpy() for k in range(3)], 1)

    finding = steal(explained(gradient, lambda X: answer(X).detach().numpy(), 196))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "convolutional layer" in finding.summary
    assert finding.cost.points <= 60


def test_one_convolution_and_a_linear_layer_are_a_two_layer_network() -> None:
    torch.manual_seed(0)
    nn = torch.nn
    conv = nn.Conv2d(1, 2, 3).double()
    rows = torch.eye(64).double().reshape(64, 1, 8, 8)
    bias = conv(torch.zeros(1, 1, 8, 8).double()).flatten().detach().numpy()
    W = conv(rows).flatten(1).detach().numpy().T - bias[:, None]
    true = Weights(((W, bias), (np.random.default_rng(0).standard_normal((1, len(bias))), np.zeros(1))))
    finding = steal(Gradients.of(true), true)
    assert finding.verdict is Verdict.LEAK
    assert loot(finding).exact


@pytest.mark.parametrize("sharpness", [1e3, 1e4, 1e5, 1e6])
def test_a_curve_that_looks_like_pieces_at_first_is_given_up_within_sixty_queries(sharpness: float) -> None:
    (W, b), (V, _) = network(20, 30, 1).layers

    def value(X: Array) -> Array:
        return np.asarray(np.logaddexp(sharpness * (X @ W.T + b), 0) / sharpness @ V.T)

    def gradient(X: Array) -> Array:
        return np.asarray((V * expit(sharpness * (X @ W.T + b))) @ W)

    finding = steal(explained(gradient, value))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "curved, as no ReLU network is" in finding.summary
    assert finding.cost.points <= 60
