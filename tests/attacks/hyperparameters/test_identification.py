"""Which algorithm trained the model: named where only one fits, and not where two do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, SVR, LinearSVC

from divulge import Fitted, Gradients, Hyperparameters, Parameters, Predictions, TrainingData, Verdict, audit, datasets
from divulge.arrays import Array
from divulge.attacks import AlgorithmIdentification
from divulge.attacks.hyperparameters import identification
from divulge.attacks.hyperparameters.identification import Candidate, LearnersCompared, Ranked, candidates
from divulge.contract import Finding, Truth, contradictions
from divulge.learners.catalogue import LEARNERS
from divulge.solvers.stationarity.system import System
from divulge.victims.kernels import KernelLogistic, KernelSVM


def parameters(fitted: Fitted, n: int) -> Parameters:
    dual = fitted.dual_coef
    if dual is not None and "support" in fitted.more:
        whole = np.zeros((n, len(dual)))
        whole[fitted.more["support"].astype(int)] = dual.T
        dual = whole
    return Parameters(fitted.coef, fitted.intercept, dual, fitted.kernel)


def identify(estimator: Any, data: str) -> Finding[Any]:
    loaded = datasets.load(data, standardised=True)
    fitted = Fitted.of(estimator.fit(loaded.X, loaded.y))
    return AlgorithmIdentification()(
        parameters(fitted, len(loaded.X)), TrainingData(loaded.X, loaded.y), truth={"fitted": fitted}
    )


def test_there_are_at_least_13_candidates_for_classification_and_6_for_regression() -> None:
    def titles(classifiers: bool) -> set[str]:
        kinds = ((False, False), (True, False), (True, True))
        return {one.title for dual, machines in kinds for one in candidates(dual, classifiers, machines)}

    assert len(titles(True)) >= 13
    assert len(titles(False)) >= 6


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (Ridge(0.5), "diabetes"),
        (Lasso(0.5), "diabetes"),
        (ElasticNet(0.1), "diabetes"),
        (HuberRegressor(alpha=3.0), "diabetes"),
        (PoissonRegressor(alpha=0.5), "diabetes"),
        (KernelRidge(alpha=0.5, kernel="rbf"), "diabetes"),
        (SVR(), "diabetes"),
        (RidgeClassifier(), "iris"),
        (LogisticRegression(), "iris"),
        (OneVsRestClassifier(LogisticRegression(solver="liblinear")), "iris"),
        (LogisticRegression(C=0.1), "breast-cancer"),
        (LogisticRegression(C=0.1, l1_ratio=1, solver="liblinear", random_state=0), "breast-cancer"),
        (LinearSVC(), "iris"),
        (LinearSVC(C=0.1, penalty="l1", random_state=0), "breast-cancer"),
        (LinearSVC(C=0.1, loss="hinge", random_state=0, max_iter=10**5), "breast-cancer"),
        (SVC(), "iris"),
        (KernelLogistic(alpha=1.0), "iris"),
        (KernelLogistic(alpha=1.0, penalty="l1"), "iris"),
        (KernelSVM(alpha=1.0), "iris"),
    ],
    ids=str,
)
def test_the_learner_is_named(estimator: Any, data: str) -> None:
    finding = identify(estimator, data)
    assert finding.verdict is Verdict.LEAK, finding.summary
    right = finding.scores["right"]
    assert right.value == 1
    assert right.null <= 0.5


def test_a_name_that_the_truth_denies_has_failed() -> None:
    finding = identify(Ridge(alpha=3.0), "diabetes")
    attack, X = AlgorithmIdentification(), np.zeros((3, 2))
    held = Parameters(np.ones(2)), TrainingData(X, np.arange(3.0))
    judged = attack.score(finding, held, Truth({"fitted": Fitted("lasso", coef=np.ones(2))}))
    assert judged.verdict is Verdict.FAILED
    assert judged.summary == "The truth is lasso, and ridge was claimed: this is wrong."
    assert contradictions(judged) == []


def test_two_learners_with_one_objective_are_not_told_apart() -> None:
    loaded = datasets.load("breast-cancer", standardised=True)
    estimator = LogisticRegression(C=0.1, fit_intercept=False).fit(loaded.X, loaded.y)
    finding = AlgorithmIdentification()(Parameters(estimator.coef_), TrainingData(loaded.X, loaded.y))
    assert finding.verdict is Verdict.NONE_FOUND
    assert "alike" in finding.summary


@pytest.mark.slow
def test_parameters_of_nothing_known_are_not_named() -> None:
    loaded = datasets.load("breast-cancer", standardised=True)
    rng = np.random.default_rng(0)
    for _ in range(20):
        made = Parameters(rng.normal(size=30), rng.normal(size=1))
        finding = AlgorithmIdentification()(made, TrainingData(loaded.X, loaded.y))
        assert finding.verdict is Verdict.NONE_FOUND


def test_a_fit_without_a_penalty_is_not_named_however_few_the_features() -> None:
    for seed in range(12):
        for features in (2, 3):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(100, features))
            y = X @ rng.normal(size=features) + rng.normal(size=100)
            fitted = LinearRegression().fit(X, y)
            made = Parameters(fitted.coef_, np.atleast_1d(fitted.intercept_))
            assert AlgorithmIdentification()(made, TrainingData(X, y)).loot is None


def test_without_labels_it_does_not_apply() -> None:
    finding = AlgorithmIdentification()(Parameters(np.ones(3)), TrainingData(np.eye(3)))
    assert finding.verdict is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("estimator", "data", "api"),
    [
        (Ridge(0.3), "diabetes", Predictions.of),
        (Ridge(0.3), "diabetes", Gradients.of),
        (Lasso(0.5), "diabetes", Predictions.of),
        (LogisticRegression(C=0.3), "breast-cancer", lambda model: Predictions(model.predict_proba, model.n_features_in_)),
        (LogisticRegression(C=2.0), "iris", lambda model: Predictions(model.predict_proba, model.n_features_in_)),
        (PoissonRegressor(alpha=0.5), "diabetes", lambda model: Predictions(model.predict, model.n_features_in_)),
    ],
    ids=["ridge", "ridge, gradients", "lasso", "logistic probabilities", "softmax probabilities", "poisson means"],
)
def test_a_prediction_service_and_the_data_reach_the_penalty(estimator: Any, data: str, api: Callable[[Any], Any]) -> None:
    loaded = datasets.load(data, standardised=True)
    estimator.fit(loaded.X, loaded.y)
    truth = {"hyperparameters": Hyperparameters.of(estimator), "fitted": Fitted.of(estimator)}
    chain = ("linear-extraction", "algorithm", "hyperparameters")
    done = audit([api(estimator), TrainingData(loaded.X, loaded.y)], truth=truth, attacks=chain)
    found = {finding.provenance.attack: finding for finding in done.findings if finding.provenance is not None}
    assert all(found[name].verdict is Verdict.LEAK for name in chain)
    errors = [score.value for name, score in found["hyperparameters"].scores.items() if name.startswith("relative error")]
    assert max(errors) <= 1e-9


@pytest.mark.parametrize(
    ("estimator", "standardised"),
    [(Ridge(0.37), False), (Ridge(0.37, fit_intercept=False), False), (Ridge(0.37), True), (Lasso(0.37), True)],
    ids=["ridge, raw", "ridge without intercept, raw", "ridge", "lasso"],
)
def test_answers_in_single_precision_reach_the_penalty_with_an_interval_that_holds(
    estimator: Any, standardised: bool
) -> None:
    loaded = datasets.load("diabetes", standardised=standardised)
    estimator.fit(loaded.X, loaded.y)
    held = Predictions(lambda X: estimator.predict(X).astype(np.float32), loaded.X.shape[1])
    chain = ("linear-extraction", "algorithm", "hyperparameters")
    done = audit([held, TrainingData(loaded.X, loaded.y)], attacks=chain)
    loot = next(finding.loot for finding in done.findings if finding.provenance.attack == "hyperparameters")
    assert isinstance(loot, Hyperparameters)
    low, high = loot.intervals["alpha"]
    assert low <= 0.37 <= high
    assert loot.values["alpha"] == pytest.approx(0.37, rel=1e-3)
    assert high - low <= 0.37


def test_scores_whose_exponentials_overflow_name_nobody() -> None:
    rng = np.random.default_rng(0)
    X = rng.lognormal(9, 1, (200, 4))
    y = np.round(X @ [120.0, 8e3, 1.5e4, 1.1])
    fitted = LinearRegression(fit_intercept=False).fit(X, y)
    with np.errstate(over="ignore", invalid="ignore"):
        assert AlgorithmIdentification()(Parameters(fitted.coef_), TrainingData(X, y)).loot is None


def test_an_elastic_net_by_few_digits_is_not_called_the_ridge_that_it_nearly_is() -> None:
    loaded = datasets.load("diabetes", standardised=False)
    estimator = ElasticNet(2e-4, l1_ratio=0.5, tol=1e-8, max_iter=100_000).fit(loaded.X, loaded.y)
    coef, intercept = estimator.coef_.astype(np.float32).astype(float), np.atleast_1d(estimator.intercept_)
    for precision in (1e-6, 1e-5):
        made = Parameters(coef, intercept, precision=precision)
        loot = AlgorithmIdentification()(made, TrainingData(loaded.X, loaded.y)).loot
        assert loot is None or loot.learner == "elastic_net"


# --- limits, from just inside and from just outside

DATA = TrainingData(np.eye(4), np.array([0.1, 0.2, 0.3, 0.4]))
FITTED = Fitted("ridge", coef=np.ones(4))


def ranked(title: str, residual: float, shares: tuple[float, ...] = (1.0,), p_value: float = 0.0) -> Ranked:
    pairs = [Candidate(learner, setup) for learner in LEARNERS.values() for setup in learner.setups]
    candidate = next(one for one in pairs if one.title == title)
    pretended: Any = SimpleNamespace(fitted=FITTED, hinges=["hinge" in title] if "hinge" in title else [])
    return Ranked(candidate, pretended, residual, shares, p_value)


def judged(monkeypatch: pytest.MonkeyPatch, *ranks: Ranked) -> Finding[Any]:
    monkeypatch.setattr(identification, "rank", lambda parameters, data: (list(ranks), []))
    return AlgorithmIdentification()(Parameters(np.ones(4)), DATA, truth={"fitted": FITTED})


@pytest.mark.parametrize(("residual", "named"), [(0.045, True), (0.055, False)])
def test_a_learner_that_leaves_more_than_a_twentieth_of_its_gradient_is_not_named(
    monkeypatch: pytest.MonkeyPatch, residual: float, named: bool
) -> None:
    finding = judged(monkeypatch, ranked("ridge", residual), ranked("lasso", 1.0))
    assert (finding.verdict is Verdict.LEAK) is named


@pytest.mark.parametrize(("residual", "named"), [(0.9e-3, True), (1.1e-3, False)])
def test_a_hinge_whose_margin_hides_much_has_to_leave_less(
    monkeypatch: pytest.MonkeyPatch, residual: float, named: bool
) -> None:
    finding = judged(monkeypatch, ranked("linear SVM, hinge", residual), ranked("ridge classifier", 1.0))
    assert (finding.verdict is Verdict.LEAK) is named


def test_two_features_tell_no_learner() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2))
    y = (X @ [1.0, -2.0] + rng.logistic(size=300) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    finding = AlgorithmIdentification()(Parameters(model.coef_[0], model.intercept_), TrainingData(X, y))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "too few parameters" in finding.summary


@pytest.mark.parametrize(("p_value", "named"), [(0.9e-2, True), (1.1e-2, False)])
def test_nor_is_one_that_a_hundredth_of_unrelated_gradients_would_look_like(
    monkeypatch: pytest.MonkeyPatch, p_value: float, named: bool
) -> None:
    finding = judged(monkeypatch, ranked("ridge", 0.01, p_value=p_value), ranked("lasso", 1.0))
    assert (finding.verdict is Verdict.LEAK) is named


@pytest.mark.parametrize(("second", "named"), [(1.6e-13, True), (1.4e-13, False)])
def test_residuals_of_rounding_are_equal(monkeypatch: pytest.MonkeyPatch, second: float, named: bool) -> None:
    finding = judged(monkeypatch, ranked("ridge", 1e-15), ranked("lasso", second))
    assert (finding.verdict is Verdict.LEAK) is named


@pytest.mark.parametrize(
    ("net", "shares", "plain", "named"),
    [
        (1e-3, (0.5, 0.5), 0.9e-2, "ridge"),
        (1e-3, (0.5, 0.5), 1.1e-2, "elastic net"),
        (1e-9, (0.5, 0.5), 0.9e-5, "ridge"),
        (1e-9, (0.5, 0.5), 1.1e-5, "elastic net"),
        (1e-3, (0.021, 0.979), 0.045, "elastic net"),
        (1e-3, (0.019, 0.981), 0.055, "elastic net"),
    ],
)
def test_a_learner_that_contains_another_is_named_where_the_plainer_does_not_do(
    monkeypatch: pytest.MonkeyPatch, net: float, shares: tuple[float, ...], plain: float, named: str
) -> None:
    finding = judged(monkeypatch, ranked("elastic net", net, shares), ranked("ridge", plain), ranked("lasso", 1.0))
    assert f"trained by {named}:" in finding.summary


@pytest.mark.parametrize(("plain", "said"), [(0.009, "trained by ridge:"), (0.045, "fit elastic net and ridge alike")])
def test_a_penalty_that_pulls_next_to_nothing_may_be_none_that_a_solver_left_early(
    monkeypatch: pytest.MonkeyPatch, plain: float, said: str
) -> None:
    shares = (0.019, 0.981)
    finding = judged(monkeypatch, ranked("elastic net", 1e-3, shares), ranked("ridge", plain), ranked("lasso", 1.0))
    assert said in finding.summary


def test_the_null_counts_the_learners_that_were_compared_not_those_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = judged(monkeypatch, ranked("ridge", 1e-9), ranked("lasso", 0.5), ranked("Poisson regression", 1.0))
    assert finding.scores["right"].null == pytest.approx(1 / 3)
    assert isinstance(finding.evidence, LearnersCompared)
    assert finding.evidence.relative_residuals.tolist() == [1e-9, 0.5, 1.0]
    fewer = replace(finding, figures=(), scores={}, evidence=LearnersCompared(("ridge", "lasso"), np.zeros(2)))
    truth: Any = SimpleNamespace(get=lambda kind: FITTED)
    scored = AlgorithmIdentification().score(fewer, (Parameters(np.ones(4)), DATA), truth)
    assert scored.scores["right"].null == pytest.approx(1 / 2)


@pytest.mark.parametrize(("share", "kept"), [(-0.9e-9, True), (-1.1e-9, False)])
def test_a_penalty_is_not_negative_but_for_rounding(monkeypatch: pytest.MonkeyPatch, share: float, kept: bool) -> None:
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 2)))[0]
    system = System(A, -A @ np.array([share, 1.0]), np.zeros(30), np.zeros(0))
    problem = SimpleNamespace(hinges=[], systems=[system], system=system)
    monkeypatch.setattr(identification, "build_problem", lambda fitted, data: problem)
    assert bool(identification.rank(Parameters(np.ones(4)), DATA)[0]) is kept


@pytest.mark.parametrize(("size", "zero"), [(0.9e-12, True), (1.1e-12, False)])
def test_an_extracted_zero_is_one_though_rounded(size: float, zero: bool) -> None:
    coef: Array = np.array([3.0, 3 * size])
    found = identification._without_nothing(Parameters(coef, np.array([3 * size])))
    assert found.coef is not None
    assert bool(found.coef[1] == 0) is zero
    assert (found.intercept is None) is zero


@pytest.mark.parametrize(("classes", "labels"), [(20, True), (21, False)])
def test_more_than_twenty_whole_numbers_are_counts_and_no_labels(classes: int, labels: bool) -> None:
    y = np.arange(40) % classes
    found = identification._candidates(Parameters(np.ones(3)), TrainingData(np.ones((40, 3)), y))
    assert all(one.learner.classifier is labels for one in found)


def test_hubers_loss_is_looked_for_with_scikit_learns_epsilon() -> None:
    default = inspect.signature(HuberRegressor).parameters["epsilon"].default
    loaded = datasets.load("diabetes", standardised=True)
    fitted = HuberRegressor(tol=1e-8, max_iter=1000).fit(loaded.X, loaded.y)
    assert fitted.epsilon == default
    made = Parameters(fitted.coef_, np.atleast_1d(fitted.intercept_))
    scale = identification._huber_scale(made, TrainingData(loaded.X, loaded.y))
    assert scale == pytest.approx(fitted.scale_, rel=1e-4)
