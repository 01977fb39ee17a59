"""Penalties of real scikit-learn fits: recovered where they can be, and said not to be where they cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, Lasso, LassoCV, LogisticRegression, Ridge, RidgeCV

from divulge import Fitted, Hyperparameters, TrainingData, Verdict
from divulge.arrays import Array
from divulge.attacks import HyperparameterStealing
from divulge.attacks.hyperparameters.stealing import error as guess_error
from divulge.contract import Finding, Kernel
from divulge.errors import BadInput
from divulge.solvers.stationarity.refit import Trainer

PENALTIES = [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3]
TIGHT: dict[str, Any] = {"tol": 1e-12, "max_iter": 200_000}


def standardised(load: Callable[..., Any]) -> tuple[Array, Array]:
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y.astype(float)


DATA = {"diabetes": standardised(load_diabetes), "breast cancer": standardised(load_breast_cancer)}


def steal(estimator: Any, X: Array, y: Array, weight: Array | None = None, **options: Any) -> Finding[Any]:
    truth = {"hyperparameters": Hyperparameters.of(estimator)}
    return HyperparameterStealing(**options)(Fitted.of(estimator), TrainingData(X, y, weight), truth=truth)


def stolen(finding: Finding[Any]) -> Hyperparameters:
    assert isinstance(finding.loot, Hyperparameters)
    return finding.loot


def error(finding: Finding[Any], name: str = "alpha") -> float:
    return finding.scores[f"relative error of {name}"].value


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("alpha", PENALTIES)
@pytest.mark.parametrize(
    "make",
    [Ridge, lambda alpha: Ridge(alpha, fit_intercept=False), lambda alpha: Ridge(alpha, solver="svd"),
     lambda alpha: KernelRidge(alpha=alpha), lambda alpha: KernelRidge(alpha=alpha, kernel="rbf", gamma=0.005)],
    ids=["ridge", "no intercept", "svd", "kernel linear", "kernel rbf"],
)  # fmt: skip
def test_direct_solvers_give_up_alpha_to_nine_digits(make: Callable[[float], Any], alpha: float, data: str) -> None:
    X, y = DATA[data]
    finding = steal(make(alpha).fit(X, y), X, y)
    assert finding.verdict is Verdict.LEAK
    assert error(finding) <= 1e-9
    low, high = stolen(finding).intervals["alpha"]
    assert low <= alpha <= high


@pytest.mark.parametrize("alpha", [1e-2, 1e-1, 1.0, 10.0])
def test_a_converged_lasso_gives_up_alpha(alpha: float) -> None:
    X, y = DATA["diabetes"]
    finding = steal(Lasso(alpha, **TIGHT).fit(X, y), X, y)
    assert finding.verdict is Verdict.LEAK
    assert error(finding) <= 1e-6


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_a_converged_elastic_net_gives_up_both_penalties(ratio: float) -> None:
    X, y = DATA["diabetes"]
    finding = steal(ElasticNet(0.3, l1_ratio=ratio, **TIGHT).fit(X, y), X, y)
    assert finding.verdict is Verdict.LEAK
    assert max(error(finding), error(finding, "l1_ratio")) <= 1e-6


@pytest.mark.parametrize("learner", [Lasso, ElasticNet])
@pytest.mark.parametrize("data", DATA)
def test_at_the_default_tolerance_the_interval_holds_the_truth_or_nothing_is_claimed(learner: Any, data: str) -> None:
    X, y = DATA[data]
    claims = 0
    for alpha in PENALTIES:
        finding = steal(learner(alpha).fit(X, y), X, y)
        if finding.verdict is Verdict.LEAK:
            claims += 1
            for name, (low, high) in stolen(finding).intervals.items():
                assert low <= {"alpha": alpha, "l1_ratio": 0.5}[name] <= high
    assert claims >= 2


def test_models_tuned_by_cross_validation_are_read_too() -> None:
    X, y = DATA["diabetes"]
    assert error(steal(RidgeCV(PENALTIES).fit(X, y), X, y)) <= 1e-9
    assert steal(LassoCV(cv=3, **TIGHT).fit(X, y), X, y).verdict is Verdict.LEAK


def test_sample_weights_and_several_outputs_are_handled() -> None:
    X, y = DATA["diabetes"]
    weight = np.random.default_rng(0).uniform(0.5, 3, size=len(X))
    for estimator in (Ridge(0.3), Lasso(0.3, **TIGHT), KernelRidge(alpha=0.3, kernel="rbf", gamma=0.01)):
        assert error(steal(estimator.fit(X, y, sample_weight=weight), X, y, weight)) <= 1e-6
    both = np.column_stack([y, y**2 / 100])
    assert error(steal(Ridge(0.3).fit(X, both), X, both)) <= 1e-9
    assert error(steal(KernelRidge(alpha=0.3).fit(X, both), X, both)) <= 1e-9


def test_coefficients_held_at_zero_by_a_constraint_are_left_out() -> None:
    X, y = DATA["diabetes"]
    finding = steal(Ridge(0.3, positive=True, tol=1e-12).fit(X, y), X, y)
    assert finding.verdict is Verdict.LEAK
    assert error(finding) <= 1e-4


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 10))
def test_the_order_of_features_and_rows_does_not_matter(seed: int, alpha: float) -> None:
    X, y = DATA["diabetes"]
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    estimator = Ridge(alpha).fit(X, y)
    shuffled = Fitted("ridge", coef=estimator.coef_[columns], intercept=estimator.intercept_)
    finding = HyperparameterStealing()(shuffled, TrainingData(X[rows][:, columns], y[rows]))
    assert stolen(finding).values["alpha"] == pytest.approx(alpha, rel=1e-8)


def test_plain_arrays_are_enough() -> None:
    X, y = DATA["diabetes"]
    dual = KernelRidge(alpha=0.7, kernel="rbf", gamma=0.01).fit(X, y).dual_coef_
    fitted = Fitted("kernel_ridge", dual_coef=dual, kernel=Kernel("rbf", gamma=0.01))
    finding = HyperparameterStealing()(fitted, TrainingData(X, y))
    assert stolen(finding).values["alpha"] == pytest.approx(0.7, rel=1e-9)
    assert "relative error of alpha" not in finding.scores


def test_every_score_stands_beside_a_null_that_is_worse() -> None:
    X, y = DATA["diabetes"]
    for score in steal(Ridge(0.3).fit(X, y), X, y).scores.values():
        assert score.value < 1e-6 < 0.1 < score.null
        assert score.null_of


def test_an_all_zero_lasso_is_not_applicable() -> None:
    X, y = DATA["diabetes"]
    finding = steal(Lasso(1e3).fit(X, y), X, y)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "0 non-zero coefficients" in finding.summary


def test_a_model_of_other_data_is_not_given_a_number() -> None:
    X, y = DATA["diabetes"]
    for estimator in (Ridge(1.0), Lasso(1.0, **TIGHT), ElasticNet(0.1, **TIGHT), KernelRidge(alpha=1.0, kernel="rbf")):
        estimator.fit(X[:221], y[:221])
        finding = steal(estimator, X[221:], y[221:])
        assert finding.verdict is Verdict.NOT_APPLICABLE
        assert "trained on other data" in finding.summary
        assert finding.loot is None


@pytest.mark.slow
@pytest.mark.parametrize("features", [1, 2, 3, 8])
def test_no_number_is_claimed_for_other_data_however_few_the_features(features: int) -> None:
    rng = np.random.default_rng(features)
    for trial in range(15):
        X = rng.normal(size=(200, features))
        y = X @ rng.normal(size=features) + rng.normal(size=200)
        estimator = [Ridge(10 ** rng.uniform(-2, 2)), Lasso(0.05, **TIGHT), ElasticNet(0.05, **TIGHT)][trial % 3]
        fitted = Fitted.of(estimator.fit(X[:100], y[:100]))
        shuffled = rng.permutation(y[:100])
        others = (X[100:], y[100:]), (X, y), (X[:80], y[:80]), (X[:99], y[:99])
        altered = (X[:100], shuffled), (X[:100], 1.1 * y[:100]), (1.1 * X[:100], y[:100])
        for data in (*others, *altered):
            assert HyperparameterStealing(trainings=6)(fitted, TrainingData(*data)).verdict is not Verdict.LEAK


@pytest.mark.slow
def test_luck_is_not_a_leak_where_no_intercept_confirms_the_data() -> None:
    rng = np.random.default_rng(5)
    for _ in range(1500):
        X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
        fitted = Fitted("lasso", coef=rng.normal(size=2))
        assert HyperparameterStealing()(fitted, TrainingData(X, y)).verdict is not Verdict.LEAK


@pytest.mark.parametrize("scaled", ["labels", "features"])
def test_a_direct_solver_leaves_only_rounding_so_nearly_right_data_is_not_right(scaled: str) -> None:
    rng = np.random.default_rng(6)
    for _ in range(40):
        X = rng.normal(size=(2000, 5))
        y = X @ rng.normal(size=5) + rng.normal(size=2000)
        estimator = Ridge(10 ** rng.uniform(2, 4), fit_intercept=False).fit(X, y)
        data = (X, 1.1 * y) if scaled == "labels" else (1.1 * X, y)
        assert HyperparameterStealing()(Fitted.of(estimator), TrainingData(*data)).verdict is not Verdict.LEAK
        assert steal(estimator, X, y).verdict is Verdict.LEAK


def test_one_equation_for_one_unknown_claims_nothing() -> None:
    X, y = DATA["diabetes"]
    finding = steal(Ridge(1.2345678).fit(X[:, :1], y), X[:, :1], y)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "1 equation for 1 unknown" in finding.summary


def test_a_round_number_that_trains_to_the_same_bits_is_an_answer_even_then() -> None:
    X, y = DATA["diabetes"]
    finding = steal(Ridge(1.0).fit(X[:, :1], y), X[:, :1], y)
    assert finding.verdict is Verdict.LEAK
    assert error(finding) == 0


def test_penalties_that_cannot_be_told_apart_are_not_told_apart() -> None:
    fitted = Fitted("elastic_net", coef=np.array([0.5, -0.5, 0.5]))
    assert HyperparameterStealing()(fitted, TrainingData(np.eye(3), np.ones(3))).verdict is Verdict.NOT_APPLICABLE


def test_a_strongly_penalised_model_of_a_split_is_not_taken_for_one_of_everything() -> None:
    X, y = DATA["diabetes"]
    assert steal(Ridge(1000).fit(X[:353], y[:353]), X, y).verdict is Verdict.NOT_APPLICABLE


@pytest.mark.slow
@pytest.mark.parametrize("features", [3, 8])
@pytest.mark.parametrize("solver", ["cholesky", "svd", "lsqr"])
def test_intervals_of_models_computed_in_single_precision_hold_the_truth(features: int, solver: str) -> None:
    rng = np.random.default_rng(features)
    missed = leaks = 0
    for _ in range(60):
        X = rng.normal(size=(200, features)).astype(np.float32)
        y = (X @ rng.normal(size=features) + rng.normal(size=200)).astype(np.float32)
        estimator = Ridge(10 ** rng.uniform(-1, 2), solver=solver).fit(X, y)
        finding = steal(estimator, X, y)
        if finding.loot is not None:
            leaks += 1
            low, high = stolen(finding).intervals["alpha"]
            missed += not low <= estimator.alpha <= high
    assert leaks >= 40
    assert missed <= 2


def test_an_elastic_net_without_its_first_penalty_still_gives_up_the_second() -> None:
    X, y = DATA["diabetes"]
    fitted = Fitted("elastic_net", coef=(ridge := Ridge(0.5 * len(X)).fit(X, y)).coef_, intercept=ridge.intercept_)
    finding = HyperparameterStealing()(fitted, TrainingData(X, y))
    assert finding.verdict is Verdict.LEAK
    assert stolen(finding).values["alpha"] == pytest.approx(0.5)
    assert stolen(finding).values["l1_ratio"] == pytest.approx(0, abs=1e-9)


def test_outputs_with_different_penalties_are_not_averaged() -> None:
    X, y = DATA["diabetes"]
    both = np.column_stack([y, y**2 / 100])
    fitted = Fitted.of(KernelRidge(alpha=[1.0, 1.2]).fit(X, both))
    finding = HyperparameterStealing()(fitted, TrainingData(X, both))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "1, 1.2" in finding.summary


def test_every_null_is_what_luck_would_leave_even_for_coefficients_of_one_sign() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    estimator = Lasso(0.1, **TIGHT).fit(X, X @ np.ones(5) + rng.normal(size=100))
    score = steal(estimator, X, X @ np.ones(5)).scores
    right = steal(estimator.fit(X, X @ np.ones(5)), X, X @ np.ones(5)).scores["gradient left unexplained"]
    assert not score
    assert right.value < 1e-6 < 0.5 < right.null


def test_a_solver_stopped_early_is_told_from_a_leak() -> None:
    X, y = DATA["breast cancer"]
    with pytest.warns(ConvergenceWarning):
        estimator = Lasso(1e-3, max_iter=2).fit(X, y)
    assert steal(estimator, X, y, trainings=0).verdict is not Verdict.LEAK
    replayed = steal(estimator, X, y)
    assert error(replayed) == 0
    assert "gives the same parameters bit for bit" in replayed.summary


def test_next_to_no_penalty_is_none_found_with_a_bound_that_holds() -> None:
    X, y = DATA["breast cancer"]
    finding = steal(Ridge(1e-3, solver="lsqr").fit(X, y), X, y, trainings=0)
    assert finding.verdict is Verdict.NONE_FOUND
    bound = float(finding.power.split("alpha below ")[1].split()[0])
    assert 1e-3 <= bound < 10


def test_a_wrong_claim_is_corrected_by_the_truth_and_keeps_its_loot() -> None:
    X, y = DATA["diabetes"]
    truth = {"hyperparameters": Hyperparameters({"alpha": 30.0})}
    finding = HyperparameterStealing()(Fitted.of(Ridge(0.3).fit(X, y)), TrainingData(X, y), truth=truth)
    assert finding.verdict is Verdict.FAILED
    assert stolen(finding).values["alpha"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ((Fitted("ridge", coef=np.ones(3)), TrainingData(np.eye(4), np.ones(4))), "each of the 4 features, got 3"),
        ((Fitted("kernel_ridge", dual_coef=np.ones(3), kernel=Kernel("rbf")), TrainingData(np.eye(4), np.ones(4))), "got 3"),
        ((Fitted("forest", coef=np.ones(4)), TrainingData(np.eye(4), np.ones(4))), "out of ridge, lasso, elastic_net"),
        ((Fitted("ridge", coef=np.ones(4)), TrainingData(np.eye(4), np.array(list("abab")))), "expected numbers as targets"),
        ((Fitted("ridge", coef=np.ones((2, 4))), TrainingData(np.eye(4), np.ones(4))), "targets with 2 columns"),
        ((Fitted("kernel_ridge", dual_coef=np.ones(4)), TrainingData(np.eye(4), np.ones(4))), "expected a kernel out of"),
        ((Fitted("ridge", dual_coef=np.ones(4)), TrainingData(np.eye(4), np.ones(4))), "expected coef of the ridge"),
        ((Fitted("ridge", coef=np.ones(4), intercept=np.ones(3)), TrainingData(np.eye(4), np.ones(4))), "one intercept"),
        ((Fitted("ridge", coef=np.array(1.0)), TrainingData(np.eye(4), np.ones(4))), "each of the 4 features, got 1"),
    ],
)  # fmt: skip
def test_bad_input_is_named(held: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        HyperparameterStealing()(*held)


def test_without_labels_it_does_not_apply() -> None:
    finding = HyperparameterStealing()(Fitted("ridge", coef=np.ones(4)), TrainingData(np.eye(4)))
    assert finding.verdict is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(("off", "verdict"), [(0.009, Verdict.LEAK), (0.011, Verdict.FAILED)])
def test_a_claim_whose_interval_misses_by_less_than_a_hundredth_is_noted_and_no_failure(
    off: float, verdict: Verdict
) -> None:
    X, y = DATA["diabetes"]
    truth = {"hyperparameters": Hyperparameters({"alpha": 0.3 / (1 + off)})}
    finding = HyperparameterStealing()(Fitted.of(Ridge(0.3).fit(X, y)), TrainingData(X, y), truth=truth)
    assert finding.verdict is verdict
    assert any("does not hold the truth" in note for note in finding.notes)


@pytest.mark.parametrize("true", [0.02, 1.0, 50.0])
def test_the_guess_is_drawn_from_the_six_decades_that_the_paper_studies(true: float) -> None:
    guesses = 10.0 ** np.random.default_rng(0).uniform(-3, 3, size=200_000)
    assert guess_error("alpha", true, true).null == pytest.approx(np.median(np.abs(guesses - true)) / true, rel=0.03)


@pytest.mark.parametrize("true", [0.2, 0.5])
def test_the_guess_of_a_ratio_is_drawn_evenly(true: float) -> None:
    guesses = np.random.default_rng(0).uniform(size=200_000)
    assert guess_error("l1_ratio", true, true).null == pytest.approx(np.median(np.abs(guesses - true)) / true, rel=0.02)


def prices(rng: np.random.Generator) -> tuple[Array, Array]:
    """A table with columns from 1 to 10⁵."""
    X = rng.normal([2e3, 3, 2e4, 1970, 0.5, 5e4], [500, 1, 1e4, 30, 0.3, 2e4], (300, 6))
    return X, X @ np.array([120.0, 8e3, 1.1, 300, 4e4, 1.3]) + rng.normal(0, 3e4, 300)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kept", [3, 6, 8, "float32"])
@pytest.mark.parametrize("make", [lambda **more: Ridge(3.7, **more), lambda **more: RidgeCV([3.7], **more)])
def test_alpha_shows_in_a_copy_of_the_table_with_fewer_digits(make: Any, kept: int | str, fit_intercept: bool) -> None:
    X, y = prices(np.random.default_rng(5))
    model = make(fit_intercept=fit_intercept).fit(X, y)
    if isinstance(kept, str):
        X, y = X.astype(np.float32).astype(float), y.astype(np.float32).astype(float)
    else:
        X, y = np.round(X, kept), np.round(y, kept)
    finding = HyperparameterStealing()(Fitted.of(model), TrainingData(X, y))
    assert finding.verdict is Verdict.LEAK
    assert finding.loot is not None
    low, high = finding.loot.intervals["alpha"]
    assert low <= 3.7 <= high
    assert 1e-12 < high - low < 0.2


def test_a_table_with_fewer_digits_confirms_no_other_model() -> None:
    rng = np.random.default_rng(6)
    X, y = prices(rng)
    model = Ridge(3.7).fit(X, y)
    for rows in (np.arange(299), np.arange(150), rng.integers(0, 300, 300)):
        finding = HyperparameterStealing()(Fitted.of(model), TrainingData(np.round(X[rows], 4), np.round(y[rows], 4)))
        assert finding.verdict is Verdict.NOT_APPLICABLE


def test_coefficients_in_single_precision_still_tell_alpha_in_double() -> None:
    X, y = prices(np.random.default_rng(7))
    model = Ridge(370.0).fit(X, y)
    coef = model.coef_.astype(np.float32).astype(float)
    finding = HyperparameterStealing()(
        Fitted("ridge", coef=coef, intercept=np.array([model.intercept_]), settings={"solver": "cholesky"}),
        TrainingData(X, y),
    )
    assert finding.loot is not None
    low, high = finding.loot.intervals["alpha"]
    assert low <= 370 <= high
    assert high - low < 37


@pytest.mark.parametrize("most", [3, 7, 20])
@pytest.mark.parametrize("decimals", [None, 3])
def test_no_more_trainings_than_that_are_done_all_ways_together(
    monkeypatch: pytest.MonkeyPatch, most: int, decimals: int | None
) -> None:
    X, y = DATA["breast cancer"]
    with pytest.warns(ConvergenceWarning):
        model = LogisticRegression(C=0.3777, max_iter=7).fit(X, y)
    fitted = Fitted.of(model)
    if decimals is not None:
        coef, intercept = np.round(model.coef_, decimals), np.round(model.intercept_, decimals)
        fitted = replace(fitted, coef=coef, intercept=intercept)
    trained = [0]
    plain = Trainer.__call__

    def counting(self: Trainer, values: Mapping[str, float], tight: bool = False) -> Array:
        trained[0] += 1
        return plain(self, values, tight)

    monkeypatch.setattr(Trainer, "__call__", counting)
    HyperparameterStealing(trainings=most)(fitted, TrainingData(X, y))
    assert 0 < trained[0] <= most
