"""Coefficients of real scikit-learn models behind an API: recovered where they can be, and refused where they cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from divulge import Context, Finding, Gradients, Parameters, Predictions, Verdict
from divulge.arrays import Array
from divulge.attacks import LinearExtraction
from divulge.contract import contradictions
from divulge.contract.context import Budget

Value = Callable[[Array], Array]


def standardised(load: Callable[..., tuple[Array, Array]]) -> tuple[Array, Array]:
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


DIABETES, CANCER, WINE = (standardised(load) for load in (load_diabetes, load_breast_cancer, load_wine))
RIDGE = Ridge(1.0).fit(*DIABETES)
BINARY = LogisticRegression().fit(*CANCER)
CLASSES = LogisticRegression().fit(*WINE)
COUNTS = PoissonRegressor().fit(*DIABETES)


def positive(X: Array) -> Array:
    return np.asarray(BINARY.predict_proba(X)[:, 1])


def extract(
    value: Value,
    model: Any,
    *,
    gradient: Value | None = None,
    seed: int = 0,
    budget: Budget | None = None,
    **options: Any,
) -> Finding[Parameters]:
    """The finding, scored against what the model learned."""
    width, truth = model.n_features_in_, None
    held = Predictions(value, width) if gradient is None else Gradients(value=value, gradient=gradient, dimension=width)
    if hasattr(model, "coef_"):
        truth = {"parameters": Parameters(model.coef_, model.intercept_)}
    return LinearExtraction(**options)(held, truth=truth, context=Context(seed, budget=budget))


def coefficients(finding: Finding[Parameters]) -> Array:
    assert finding.loot is not None, finding.summary
    assert finding.loot.coef is not None
    return finding.loot.coef


def intercept(finding: Finding[Parameters]) -> Array:
    assert finding.loot is not None, finding.summary
    return np.asarray(finding.loot.intercept)


def error(finding: Finding[Parameters]) -> float:
    assert finding.verdict is Verdict.LEAK, finding.summary
    return finding.scores["relative error of the coefficients"].value


def announced(finding: Finding[Parameters]) -> float:
    return float(finding.notes[0].split("known to ")[1].split(";")[0])


def refused(finding: Finding[Parameters], reason: str) -> None:
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert reason in finding.summary


@pytest.mark.parametrize(
    ("value", "model", "link", "parameters"),
    [
        (RIDGE.predict, RIDGE, "linear:", 11),
        (BINARY.decision_function, BINARY, "linear:", 31),
        (positive, BINARY, "linear with a logistic link:", 31),
        (BINARY.predict_proba, BINARY, "linear with a logistic link:", 31),
        (CLASSES.decision_function, CLASSES, "linear:", 42),
        (CLASSES.predict_proba, CLASSES, "linear with a softmax link:", 42),
        (COUNTS.predict, COUNTS, "linear with an exponential link:", 11),
    ],
    ids=["ridge", "scores", "probability", "both probabilities", "scores of 3", "probabilities of 3", "poisson"],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_link_is_found_and_coefficients_come_to_fourteen_digits(
    value: Value, model: Any, link: str, parameters: int, seed: int
) -> None:
    finding = extract(value, model, seed=seed)
    assert error(finding) <= 1e-14
    assert f"{link} its {parameters} parameters follow from {model.n_features_in_ + 1} answers" in finding.summary
    score = finding.scores["disagreement at fresh points"]
    assert score.value <= 1e-13
    assert score.null >= 1
    assert score.better == "lower"
    assert coefficients(finding).shape == (np.shape(model.coef_) if len(np.shape(model.coef_)) > 1 and len(model.coef_) > 1
                                       else (model.n_features_in_,))  # fmt: skip
    if "softmax" not in link:
        assert intercept(finding) == pytest.approx(np.reshape(model.intercept_, -1), rel=1e-12, abs=1e-13)


def test_labels_that_may_go_together_have_a_logistic_link_each() -> None:
    model = OneVsRestClassifier(LogisticRegression()).fit(WINE[0], np.eye(3, dtype=int)[WINE[1]])
    truth = {"parameters": Parameters(np.concatenate([one.coef_ for one in model.estimators_]))}
    finding = LinearExtraction()(Predictions(model.predict_proba, 13), truth=truth)
    assert error(finding) <= 1e-14
    assert "logistic link: its 42 parameters" in finding.summary


def test_a_linear_model_takes_one_query_a_parameter_and_the_checks() -> None:
    assert extract(RIDGE.predict, RIDGE).cost.points == 11 + 16
    assert extract(RIDGE.predict, RIDGE, checks=5).cost.points == 11 + 5


def test_softmax_parameters_are_centred_and_say_so() -> None:
    finding = extract(CLASSES.predict_proba, CLASSES)
    assert coefficients(finding).sum(axis=0) == pytest.approx(0, abs=1e-12)
    assert intercept(finding) == pytest.approx(CLASSES.intercept_ - CLASSES.intercept_.mean(), abs=1e-12)
    assert any("sum 0 over classes" in note for note in finding.notes)
    assert not any("sum 0" in note for note in extract(CLASSES.decision_function, CLASSES).notes)


@pytest.mark.parametrize("dimension", [1, 2, 300])
@pytest.mark.parametrize("learner", [Ridge, LogisticRegression, PoissonRegressor])
def test_any_number_of_features_will_do(learner: Any, dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    X = rng.normal(size=(600, dimension))
    rate = X @ rng.normal(size=dimension) / np.sqrt(dimension) + 0.3 * rng.normal(size=600)
    y = {Ridge: rate, LogisticRegression: rate > 0, PoissonRegressor: rng.poisson(np.exp(rate))}[learner]
    model = learner(max_iter=1000).fit(X, y)
    finding = extract(getattr(model, "predict_proba", model.predict), model)
    assert error(finding) <= 1e-13


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 999),
    dimension=st.integers(1, 12),
    slope=st.floats(-3, 3),
    level=st.floats(-8, 8),
    link=st.sampled_from(["identity", "logistic", "exponential"]),
)
def test_units_of_inputs_and_the_base_rate_do_not_matter(
    seed: int, dimension: int, slope: float, level: float, link: str
) -> None:
    rng = np.random.default_rng(seed)
    w = 10**slope * rng.normal(size=dimension)
    links: dict[str, Value] = {"identity": lambda z: z, "logistic": lambda z: 1 / (1 + np.exp(-z)), "exponential": np.exp}
    undo = links[link]
    size = 10.0**-slope if link == "exponential" else 1.0

    def value(X: Array) -> Array:
        with np.errstate(over="ignore"):
            return undo(X @ w + level)

    truth = {"parameters": Parameters(w)}
    finding = LinearExtraction(scale=size)(Predictions(value, dimension), truth=truth, context=Context(seed))
    assert error(finding) <= 1e-9


# --- coarse answers


@pytest.mark.parametrize(("model", "value"), [(BINARY, positive), (CLASSES, CLASSES.predict_proba), (RIDGE, RIDGE.predict)])
def test_single_precision_leaves_seven_digits(model: Any, value: Value) -> None:
    assert error(extract(lambda X: value(X).astype(np.float32), model)) <= 1e-6


@pytest.mark.parametrize(("decimals", "most"), [(6, 1e-5), (4, 1e-3), (3, 1e-2), (2, 5e-2)])
def test_rounded_probabilities_leak_with_an_honest_error(decimals: int, most: float) -> None:
    finding = extract(lambda X: np.round(positive(X), decimals), BINARY)
    assert error(finding) <= most
    assert error(finding) <= 2 * announced(finding) <= 4 * most


def test_one_decimal_is_too_coarse() -> None:
    refused(extract(lambda X: np.round(positive(X), 1), BINARY), "The answers take only")


@pytest.mark.parametrize("decimals", [2, 3, 5])
@pytest.mark.parametrize("load", [load_digits, load_wine])
def test_coarse_probabilities_of_many_classes_leak_honestly_or_are_not_called_curved(
    load: Callable[..., tuple[Array, Array]], decimals: int
) -> None:
    X, y = load(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X[::4] / X.std(), y[::4])
    verdicts = set()
    for seed in range(3):
        finding = extract(lambda X: np.round(model.predict_proba(X), decimals), model, seed=seed)
        verdicts.add(finding.verdict)
        if finding.verdict is Verdict.LEAK:
            assert error(finding) <= 2 * announced(finding)
        else:
            assert "not linear" not in finding.summary
    assert decimals < 5 or verdicts == {Verdict.LEAK}


def test_links_that_look_alike_nearby_are_told_apart_further_out() -> None:
    for seed in range(5):
        w = 0.01 * np.random.default_rng(seed).normal(size=10)
        for curved, link in ((True, "logistic"), (False, "linear:")):

            def value(X: Array, w: Array = w, curved: bool = curved) -> Array:
                z = X @ w + 0.5
                return np.asarray(np.round(1 / (1 + np.exp(-z)) if curved else z, 4))

            held = Predictions(value, 10)
            finding = LinearExtraction()(held, truth={"parameters": Parameters(w)}, context=Context(seed))
            assert error(finding) <= 0.05
            assert link in finding.summary


def test_half_precision_is_too_coarse_for_probabilities() -> None:
    refused(extract(lambda X: positive(X).astype(np.float16), BINARY), "too coarse: a linear model with the link")


def test_two_decimals_are_too_coarse_for_three_classes() -> None:
    finding = extract(lambda X: np.round(CLASSES.predict_proba(X), 2), CLASSES)
    refused(finding, "too coarse: a linear model with the link softmax")


def test_predictions_rounded_to_tens_are_asked_further_out() -> None:
    assert error(extract(lambda X: np.round(RIDGE.predict(X), -1), RIDGE)) <= 0.05


def test_rounded_counts_that_vanish_are_not_called_curved() -> None:
    finding = extract(lambda X: np.round(COUNTS.predict(5 * X) / 1e3, 2), COUNTS)
    refused(finding, "too coarse")


# --- saturated answers


@pytest.mark.parametrize("scale", [100.0, 1e4])
@pytest.mark.parametrize("model", [BINARY, CLASSES])
def test_saturated_probabilities_are_asked_again_nearer(model: Any, scale: float) -> None:
    assert error(extract(model.predict_proba, model, scale=scale)) <= 1e-13


def test_small_inputs_are_made_larger_where_rounding_hides_them() -> None:
    assert error(extract(lambda X: np.round(positive(X), 3), BINARY, scale=1e-4)) <= 0.05


@pytest.mark.parametrize(
    ("rounded", "most"),
    [(lambda A: A, 1e-13), (lambda A: A.astype(np.float32), 1e-5), (lambda A: np.round(A, 3), 0.02)],
    ids=["double", "single", "3 decimals"],
)
@pytest.mark.parametrize("strength", [1e-3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_data_far_from_zero_are_found(rounded: Value, most: float, strength: float, seed: int) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = LogisticRegression(C=strength, solver="newton-cholesky").fit(X, y)
    assert model.predict_proba(np.zeros((1, 30)))[0, 1] > 1 - 1e-7  # near 0 all answers are as good as certain
    assert error(extract(lambda X: rounded(model.predict_proba(X)), model, seed=seed)) <= most


@pytest.mark.parametrize(("load", "shift"), [(load_wine, 0), (load_breast_cancer, 0), (load_breast_cancer, 2000)])
def test_a_pipeline_is_linear_in_its_inputs_wherever_those_are(
    load: Callable[..., tuple[Array, Array]], shift: float
) -> None:
    X, y = load(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X + shift, y)
    finding = extract(model.predict_proba, model)
    own = model[-1].coef_ / model[0].scale_
    if len(own) > 1:
        own = own - own.mean(axis=0)
    assert np.linalg.norm(np.atleast_2d(coefficients(finding)) - own) <= 1e-9 * np.linalg.norm(own)


def test_a_large_level_costs_a_second_round_and_no_digits() -> None:
    X, y = DIABETES
    model = LinearRegression().fit(X, y + 1e9)
    finding = extract(model.predict, model)
    assert error(finding) <= 1e-13
    assert finding.cost.points == 2 * (11 + 16)


# --- gradients


def slope_of_positive(X: Array) -> Array:
    p = positive(X)[:, None]
    return np.asarray(p * (1 - p) * BINARY.coef_)


def slopes_of_classes(X: Array) -> Array:
    P = CLASSES.predict_proba(X)
    return np.asarray(P[:, :, None] * (CLASSES.coef_ - (P @ CLASSES.coef_)[:, None]))


def repeated(coef: Array) -> Value:
    return lambda X: np.repeat(coef[None], len(X), axis=0)


GRADIENTS: dict[str, tuple[Value, Value, Any]] = {
    "ridge": (RIDGE.predict, repeated(RIDGE.coef_), RIDGE),
    "scores of 3": (CLASSES.decision_function, repeated(CLASSES.coef_), CLASSES),
    "probability": (positive, slope_of_positive, BINARY),
    "both probabilities": (
        BINARY.predict_proba,
        lambda X: np.stack([-slope_of_positive(X), slope_of_positive(X)], 1),
        BINARY,
    ),
    "the likelier class": (
        BINARY.predict_proba,
        lambda X: np.where(positive(X) > 0.5, 1, -1)[:, None] * slope_of_positive(X),
        BINARY,
    ),
    "probabilities of 3": (CLASSES.predict_proba, slopes_of_classes, CLASSES),
    "poisson": (COUNTS.predict, lambda X: COUNTS.predict(X)[:, None] * COUNTS.coef_, COUNTS),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("seed", range(3))
def test_one_answer_and_its_gradient_give_everything(name: str, seed: int) -> None:
    value, gradient, model = GRADIENTS[name]
    asked: list[int] = []

    def counted(X: Array) -> Array:
        asked.append(len(X))
        return gradient(X)

    finding = extract(value, model, gradient=counted, seed=seed)
    assert error(finding) <= 1e-13
    assert asked == [1]
    assert "follow from one answer and its gradient" in finding.summary
    assert finding.cost.points <= 2 + 2 * 16


@pytest.mark.parametrize(
    "gradient",
    [
        lambda X: np.abs(slope_of_positive(X)),
        repeated(BINARY.coef_[0]),
        lambda X: slope_of_positive(X)[:, None].repeat(2, 1),
    ],
    ids=["absolute", "of the scores", "of more outputs"],
)
def test_gradients_of_something_else_are_set_aside(gradient: Value) -> None:
    finding = extract(positive, BINARY, gradient=gradient)
    assert error(finding) <= 1e-14
    assert "from 31 answers" in finding.summary
    assert any("the answers alone were used" in note for note in finding.notes)


# --- what is not linear


NETWORK = MLPClassifier((20,), max_iter=1000, random_state=0).fit(WINE[0], WINE[1] == 1)
RBF = SVC().fit(WINE[0], WINE[1] == 1)


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (RBF, RBF.decision_function),
        (RBF, lambda X: np.round(RBF.decision_function(X), 3)),
        (RBF, lambda X: RBF.decision_function(X).astype(np.float32)),
        (NETWORK, NETWORK.predict_proba),
        (RIDGE, DecisionTreeRegressor(random_state=0).fit(*DIABETES).predict),
        (CLASSES, OneVsRestClassifier(LogisticRegression()).fit(*WINE).predict_proba),
    ],
    ids=["rbf", "rbf, rounded", "rbf, single", "network", "regression tree", "one versus rest"],
)
@pytest.mark.parametrize("seed", range(3))
def test_curved_models_are_not_called_linear(model: Any, value: Value, seed: int) -> None:
    finding = extract(value, model, seed=seed)
    refused(finding, "The model is not linear in its inputs")
    assert finding.loot is None


@pytest.mark.parametrize("scale", [1e-4, 100.0])
def test_a_network_that_is_linear_nearby_is_not_called_linear(scale: float) -> None:
    refused(extract(NETWORK.predict_proba, NETWORK, scale=scale), "not linear")


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (BINARY, BINARY.predict),
        (CLASSES, CLASSES.predict),
        (CLASSES, lambda X: np.eye(3)[CLASSES.predict(X)]),
        (CLASSES, DecisionTreeClassifier(random_state=0).fit(*WINE).predict_proba),
        (CLASSES, DecisionTreeClassifier(random_state=0, max_leaf_nodes=3).fit(*WINE).predict_proba),
    ],
    ids=["two labels", "three labels", "one hot", "tree", "small tree"],
)
def test_labels_and_leaves_do_not_give_up_coefficients(model: Any, value: Value) -> None:
    refused(extract(value, model), "labels, leaves of a tree")


def test_labels_are_recognised_without_many_queries() -> None:
    assert extract(BINARY.predict, BINARY).cost.points <= 65


@pytest.mark.parametrize(
    "model",
    [Ridge().fit(DIABETES[0], np.full(442, 3.0)), DummyClassifier().fit(*WINE), DummyClassifier().fit(WINE[0], WINE[1] * 0)],
    ids=["no slope", "prior", "one class"],
)
def test_a_constant_has_no_coefficients(model: Any) -> None:
    refused(extract(getattr(model, "predict_proba", model.predict), model), "there are no coefficients to find")


# --- budget and truth


def test_a_budget_below_the_number_of_features_protects() -> None:
    finding = extract(RIDGE.predict, RIDGE, budget=Budget(queries=20))
    assert finding.verdict is Verdict.FAILED
    assert finding.partial
    assert finding.cost.points == 16
    assert error(extract(RIDGE.predict, RIDGE, gradient=repeated(RIDGE.coef_), budget=Budget(queries=20))) <= 1e-14


def test_a_truth_with_another_shift_of_its_classes_is_the_same() -> None:
    held = Predictions(CLASSES.predict_proba, 13)
    finding = LinearExtraction()(held, truth={"parameters": Parameters(CLASSES.coef_ + np.arange(13))})
    assert error(finding) <= 1e-14


@pytest.mark.parametrize(("factor", "same"), [(1.07, True), (1.15, False)])
def test_a_truth_a_tenth_away_is_of_another_model(factor: float, same: bool) -> None:
    finding = LinearExtraction()(Predictions(RIDGE.predict, 10), truth={"parameters": Parameters(factor * RIDGE.coef_)})
    assert ("another model" in finding.summary) != same
    assert finding.verdict is (Verdict.LEAK if same else Verdict.FAILED)
    assert contradictions(finding) == []


def test_a_truth_that_does_not_belong_is_named() -> None:
    held = Predictions(RIDGE.predict, 10)
    other = LinearExtraction()(held, truth={"parameters": Parameters(RIDGE.coef_[::-1])})
    assert "another model" in other.summary
    narrow = LinearExtraction()(held, truth={"parameters": Parameters(RIDGE.coef_[:3])})
    assert "cannot be compared" in narrow.notes[-1]
    assert "relative error of the coefficients" not in narrow.scores
    dual = LinearExtraction()(held, truth={"parameters": Parameters(dual_coef=np.ones(3))})
    assert dual.verdict is Verdict.LEAK
