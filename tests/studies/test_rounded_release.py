"""Rounding as a defence: what it costs the owner, and what the attacker still finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC, SVR

from divulge import Context, Fitted, Hyperparameters, TrainingData, Verdict
from divulge.arrays import Array
from divulge.attacks import HyperparameterStealing
from divulge.attacks.hyperparameters.problem import Answer
from divulge.contract import Curve, Finding
from divulge.errors import BadInput
from divulge.studies import RoundedRelease
from divulge.studies.rounded_release import Rounded, StolenAfterRounding, _found, _says, cost_of_rounding, rounded_to


def standardised(load: Callable[..., Any]) -> tuple[Array, Array]:
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


NUMBERS, LABELS, SPECIES = standardised(load_diabetes), standardised(load_breast_cancer), standardised(load_iris)


def release(
    estimator: Any, data: tuple[Array, Array], truth: Any = None, context: Context | None = None, **options: Any
) -> Finding[Any]:
    estimator.fit(*data)
    truth = truth or {"hyperparameters": Hyperparameters.of(estimator)}
    return RoundedRelease(**options)(Fitted.of(estimator), TrainingData(*data), truth=truth, context=context)


def stolen(finding: Finding[Any]) -> StolenAfterRounding:
    assert isinstance(finding.evidence, StolenAfterRounding)
    return finding.evidence


def curves(finding: Finding[Any]) -> tuple[Curve, Curve]:
    error, cost = finding.figures
    assert isinstance(error, Curve)
    assert isinstance(cost, Curve)
    return error, cost


def few_digits(alpha: float = 0.7) -> tuple[Ridge, tuple[Array, Array]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    return Ridge(alpha), (X, X @ rng.normal(size=4) + rng.normal(size=50))


def test_rounding_a_ridge_to_whole_numbers_does_not_hide_its_penalty() -> None:
    finding = release(Ridge(1.37), NUMBERS, decimals=(0, 3))
    assert finding.verdict is Verdict.LEAK
    assert finding.summary.startswith("Rounding to 0 decimals, which adds ")
    assert "does not hide alpha: " in finding.summary
    assert "still finds 1.361, 0.6" in finding.summary
    assert finding.scores["error after rounding"].value < 0.01
    assert finding.scores["relative error of alpha at 0 decimals"].value < 0.01
    assert stolen(finding).values["alpha"] == pytest.approx(1.37, rel=0.01)


def test_training_again_finds_what_the_equations_lose_to_rounding() -> None:
    finding = release(Ridge(1.37), NUMBERS, decimals=(1,), acceptable=1)
    assert finding.scores["error of stationarity after rounding"].value > 0.3
    assert finding.scores["error of replay after rounding"].value < 1e-3
    assert finding.scores["error of path matching after rounding"].value < 1e-3


def test_at_the_same_penalty_rounding_hides_l1_better_than_l2_from_the_equations() -> None:
    """The paper's λ is alpha of ridge, and 2n alpha of the lasso."""
    for penalty in (1, 10, 100):
        l2 = release(Ridge(penalty), NUMBERS, decimals=(1,), trainings=0)
        l1 = release(Lasso(penalty / 884, tol=1e-12, max_iter=10**6), NUMBERS, decimals=(1,), trainings=0)
        name = "error of stationarity after rounding"
        assert l1.scores[name].value > 10 * l2.scores[name].value


@pytest.mark.slow
def test_a_classifier_is_judged_at_the_coarsest_rounding_that_keeps_its_labels() -> None:
    X, y = LABELS
    finding = release(LogisticRegression(C=0.37), (X[:150, :10], y[:150]), decimals=(0, 1, 3), trainings=10)
    error, cost = curves(finding)
    kept, changed = cost.series["training data"]
    assert kept.tolist() == [0, 1, 3]
    assert changed[0] >= 0.01 > changed[1]
    assert error.marks == cost.marks == {"coarsest acceptable": 1.0}
    assert finding.verdict is Verdict.LEAK
    assert "Rounding to 1 decimal, which changes" in finding.summary
    assert finding.scores["error after rounding"].value < 0.05


@pytest.mark.slow
def test_the_curve_has_every_estimator_and_the_guess() -> None:
    finding = release(Ridge(1.37), NUMBERS, decimals=(2, 0, 4, 2))
    curve, _ = curves(finding)
    assert set(curve.series) == {"stationarity", "replay", "path matching", "guess"}
    kept, errors = curve.series["stationarity"]
    assert kept.tolist() == [0, 2, 4]
    assert errors[0] > errors[1] > errors[2]
    assert curve.series["guess"][1] == pytest.approx(finding.scores["error after rounding"].null)


def test_too_few_digits_hide_the_penalty_and_the_finding_says_how_well_it_would_have_been_found() -> None:
    estimator, data = few_digits()
    finding = release(estimator, data)
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.evidence is None
    assert finding.summary.startswith("Rounding to 1 decimal")
    assert "hides alpha: the nearest answer is 0.12 off" in finding.summary
    assert finding.power == "an error up to 10 % would have counted; a guess is 1 off"
    assert finding.remedy[0].action.startswith("Release the parameters rounded to 1 decimal")


def test_what_is_near_but_not_claimed_counts_for_the_attacker() -> None:
    estimator, data = few_digits()
    finding = release(estimator, data, decimals=(2,), trainings=0)
    assert finding.verdict is Verdict.LEAK
    assert "stationarity is not sure, but has 0.716, 2.3 % off" in finding.summary


def test_a_round_number_that_any_digits_would_give_back_is_no_leak() -> None:
    """At 0 decimals the coefficients hold nothing, and the first round number tried is the truth by luck."""
    finding = release(RidgeClassifier(1.0), LABELS, decimals=(0,), acceptable=1)
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.scores["error of replay after rounding"].value >= finding.scores["error of replay after rounding"].null


@pytest.mark.parametrize(
    ("verdict", "interval", "tells"),
    [
        (Verdict.LEAK, (0.8, 1.8), True),
        (Verdict.LEAK, (1.2, 1.4), False),
        (Verdict.LEAK, (-0.1, 2.7), False),
        (Verdict.NOT_APPLICABLE, (0.8, 1.8), False),
    ],
    ids=["claimed", "claimed and wrong", "an upper bound", "not claimed"],
)
def test_an_answer_that_is_30_per_cent_off_tells_only_what_its_interval_does(
    verdict: Verdict, interval: tuple[float, float], tells: bool
) -> None:
    answer = Answer("stationarity", verdict, "", {"alpha": 1.3}, {"alpha": interval})
    assert (_found(Rounded(2, 0.0, [answer]), "alpha", 1.0) is answer) == tells


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_stochastic_solver_that_can_be_replayed_is_not_driven_to_its_minimum() -> None:
    X, y = LABELS
    estimator = LogisticRegression(C=0.1, l1_ratio=1, solver="saga", random_state=0)
    finding = release(estimator, (X[:80, :5], y[:80]), decimals=(3,), trainings=12)
    assert set(curves(finding)[0].series) == {"stationarity", "replay", "guess"}


def test_where_every_rounding_ruins_the_model_it_is_no_defence() -> None:
    X, y = NUMBERS
    finding = release(Ridge(2.5e12), (1e6 * X, y), decimals=(0, 1))
    assert finding.verdict is Verdict.LEAK
    assert finding.summary.startswith("Rounding is no defence: to 1 decimal it already adds ")
    assert stolen(finding).values["alpha"] == pytest.approx(2.5e12)


def test_all_coefficients_rounded_away_leave_no_answer() -> None:
    finding = release(PoissonRegressor(), NUMBERS, decimals=(0,), acceptable=1)
    assert finding.verdict is Verdict.NONE_FOUND
    assert "no estimator has an answer" in finding.summary
    assert "too few equations" in finding.notes[0]


def test_a_model_that_gives_up_nothing_has_nothing_to_defend() -> None:
    X, y = NUMBERS
    estimator = Ridge(1.0).fit(X, y)
    finding = RoundedRelease()(Fitted.of(estimator), TrainingData(X + 1e-3 * np.roll(X, 1), y))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "nothing to defend" in finding.summary


def test_a_leak_that_the_truth_contradicts_is_called_failed() -> None:
    finding = release(Ridge(1.37), NUMBERS, {"hyperparameters": Hyperparameters({"alpha": 9.0})}, decimals=(2,))
    assert finding.verdict is Verdict.FAILED
    assert "The truth is alpha = 9: this is wrong." in finding.summary


def test_an_interrupted_run_finds_its_pieces_again() -> None:
    kept: dict[str, Any] = {}

    class Memory:
        def recall(self, name: str) -> Any:
            return kept[name]

        def keep(self, name: str, value: Any) -> None:
            kept[name] = value

    first = release(Ridge(1.37), NUMBERS, context=Context(memory=Memory()), decimals=(0, 1))
    assert set(kept) == {"decimals-0", "decimals-1"}
    kept["decimals-0"]["value"]["cost"] = 0.5  # as a second run would only see it there
    second = release(Ridge(1.37), NUMBERS, context=Context(memory=Memory()), decimals=(0, 1))
    assert "Rounding to 0 decimals" in first.summary
    assert "Rounding to 1 decimal," in second.summary


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (LogisticRegression(), SPECIES),
        (SVC(), LABELS),
        (SVC(gamma=0.3), SPECIES),
        (SVC(kernel="linear"), SPECIES),
        (MLPClassifier([3], random_state=0, max_iter=50), SPECIES),
    ],
    ids=str,
)
def test_the_cost_is_the_share_of_labels_that_scikit_learn_would_change(estimator: Any, data: tuple[Array, Array]) -> None:
    X, y = data
    estimator.fit(X, y)
    fitted = Fitted.of(estimator)
    before = estimator.predict(X)
    for name in ("dual_coef_", "_dual_coef_", "intercept_", "_intercept_"):
        if name in vars(estimator):
            setattr(estimator, name, np.round(getattr(estimator, name)))
    if "coef_" in vars(estimator):
        estimator.coef_ = np.round(estimator.coef_)
    if hasattr(estimator, "coefs_"):
        estimator.coefs_ = [np.round(W) for W in estimator.coefs_]
        estimator.intercepts_ = [np.round(b) for b in estimator.intercepts_]
    changed = np.mean(estimator.predict(X) != before)
    assert changed > 0
    assert cost_of_rounding(fitted, rounded_to(fitted, 0), TrainingData(X, y)) == pytest.approx(changed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        Ridge(),
        PoissonRegressor(),
        SVR(C=10),
        KernelRidge(kernel="rbf", gamma=0.01),
        MLPRegressor(hidden_layer_sizes=[3], random_state=0, max_iter=50),
    ],
    ids=str,
)
def test_the_cost_of_a_regression_is_the_rise_of_its_error(estimator: Any) -> None:
    X, y = NUMBERS
    y = y / 10
    fitted = Fitted.of(estimator.fit(X, y))
    before = estimator.predict(X)
    for name in ("coef_", "dual_coef_", "_dual_coef_", "intercept_", "_intercept_"):
        if name in vars(estimator):
            setattr(estimator, name, np.round(getattr(estimator, name), 1))
    if hasattr(estimator, "coefs_"):
        estimator.coefs_ = [np.round(W, 1) for W in estimator.coefs_]
        estimator.intercepts_ = [np.round(b, 1) for b in estimator.intercepts_]
    rise = np.sqrt(np.mean((estimator.predict(X) - y) ** 2)) - np.sqrt(np.mean((before - y) ** 2))
    cost = cost_of_rounding(fitted, rounded_to(fitted, 1), TrainingData(X, y))
    assert cost == pytest.approx(max(0, rise) / y.std(), abs=1e-12)


def test_the_bandwidth_that_was_stolen_along_predicts_for_a_kernel_whose_bandwidth_is_unknown() -> None:
    X, y = NUMBERS
    estimator = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.02).fit(X, y)
    known, data = Fitted.of(estimator), TrainingData(X, y)
    blind = known.without_gamma()
    assert cost_of_rounding(blind, rounded_to(blind, 0), data, 0.02) == cost_of_rounding(known, rounded_to(known, 0), data)


def test_rounded_numbers_are_read_in_full_precision() -> None:
    fitted = Fitted("ridge", coef=np.array([0.12345, -2.0], np.float32), intercept=np.array([7.891], np.float32))
    rounded = rounded_to(fitted, 2)
    assert rounded.coef is not None
    assert rounded.intercept is not None
    assert rounded.coef.dtype == float
    assert rounded.coef.tolist() == [0.12, -2.0]
    assert rounded.intercept.tolist() == [7.89]
    network = replace(fitted, layers=((np.full((1, 2), 0.126), np.array([0.004])),))
    assert [part.tolist() for part in rounded_to(network, 2).layers[0]] == [[[0.13, 0.13]], [0.0]]


def test_options_without_sense_are_refused() -> None:
    with pytest.raises(BadInput, match="decimals"):
        RoundedRelease(decimals=())
    with pytest.raises(BadInput, match="acceptable"):
        RoundedRelease(acceptable=0)


def test_it_cites_the_paper_whose_defence_it_is() -> None:
    assert RoundedRelease.paper == HyperparameterStealing.paper
    assert RoundedRelease.taxonomy == HyperparameterStealing.taxonomy


# --- evidence, and limits from just inside and from just outside


def test_the_score_is_named_after_the_decimals_of_the_evidence_and_nothing_else() -> None:
    finding = release(Ridge(1.37), NUMBERS, decimals=(3, 4), trainings=0)
    assert stolen(finding).decimals == 3
    assert "relative error of alpha at 3 decimals" in finding.scores
    held = Fitted.of(Ridge(1.37).fit(*NUMBERS)), TrainingData(*NUMBERS)
    truth: Any = SimpleNamespace(get=lambda kind: Hyperparameters({"alpha": 1.37}))
    for decimals, name in ((4, " at 4 decimals"), (1, " at 1 decimal"), (None, "")):
        other = replace(finding, scores={}, figures=(), evidence=replace(stolen(finding), decimals=decimals))
        assert set(RoundedRelease().score(other, held, truth).scores) == {f"relative error of alpha{name}"}


def test_parameters_released_in_full_are_judged_without_decimals() -> None:
    X, y = NUMBERS
    finding = release(Ridge(2.5e12), (1e6 * X, y), decimals=(0, 1), trainings=0)
    assert stolen(finding).decimals is None
    assert "relative error of alpha" in finding.scores


@pytest.mark.parametrize(("value", "tells"), [(1.09, True), (1.11, False)])
def test_an_answer_a_tenth_off_is_near_whatever_the_estimator_makes_of_it(value: float, tells: bool) -> None:
    answer = Answer("stationarity", Verdict.NOT_APPLICABLE, "", {"alpha": value}, {"alpha": (0.0, 9.0)})
    assert (_found(Rounded(2, 0.0, [answer]), "alpha", 1.0) is answer) is tells


@pytest.mark.parametrize(("half", "tells"), [(0.95, True), (1.05, False)])
def test_an_interval_as_wide_as_its_value_is_an_upper_bound(half: float, tells: bool) -> None:
    interval = (1.3 * (1 - half), 1.3 * (1 + half))
    answer = Answer("stationarity", Verdict.LEAK, "", {"alpha": 1.3}, {"alpha": interval})
    assert (_found(Rounded(2, 0.0, [answer]), "alpha", 1.0) is answer) is tells


@pytest.mark.parametrize(("off", "words"), [(0.9e-9, "exactly"), (1.1e-9, "less than 0.01 % off")])
def test_nine_digits_are_exact_in_a_sentence(off: float, words: str) -> None:
    answer = Answer("replay", Verdict.LEAK, "", {"alpha": 1.0}, {"alpha": (1.0, 1.0)})
    assert _says(answer, "alpha", off) == f"replay still finds 1, {words}"
