"""Which algorithm trained the model: named where only one fits, and not where two do."""

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
from divulge.attacks import AlgorithmIdentification
from divulge.attacks.hyperparameters.identification import candidates
from divulge.victims.kernels import KernelLogistic, KernelSVM


def parameters(fitted, n):
    dual = fitted.dual_coef
    if dual is not None and "support" in fitted.more:
        whole = np.zeros((n, len(dual)))
        whole[fitted.more["support"].astype(int)] = dual.T
        dual = whole
    return Parameters(fitted.coef, fitted.intercept, dual, fitted.kernel)


def identify(estimator, data):
    loaded = datasets.load(data, standardised=True)
    fitted = Fitted.of(estimator.fit(loaded.X, loaded.y))
    return AlgorithmIdentification()(
        parameters(fitted, len(loaded.X)), TrainingData(loaded.X, loaded.y), truth={"fitted": fitted}
    )


def test_there_are_at_least_13_candidates_for_classification_and_6_for_regression():
    def titles(classifiers):
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
def test_the_learner_is_named(estimator, data):
    finding = identify(estimator, data)
    assert finding.verdict is Verdict.LEAK, finding.summary
    right = finding.scores["right"]
    assert right.value == 1
    assert right.null <= 0.5


def test_two_learners_with_one_objective_are_not_told_apart():
    loaded = datasets.load("breast-cancer", standardised=True)
    estimator = LogisticRegression(C=0.1, fit_intercept=False).fit(loaded.X, loaded.y)
    finding = AlgorithmIdentification()(Parameters(estimator.coef_), TrainingData(loaded.X, loaded.y))
    assert finding.verdict is Verdict.NONE_FOUND
    assert "alike" in finding.summary


def test_parameters_of_nothing_known_are_not_named():
    loaded = datasets.load("breast-cancer", standardised=True)
    rng = np.random.default_rng(0)
    for _ in range(20):
        made = Parameters(rng.normal(size=30), rng.normal(size=1))
        finding = AlgorithmIdentification()(made, TrainingData(loaded.X, loaded.y))
        assert finding.verdict is Verdict.NONE_FOUND


def test_a_fit_without_a_penalty_is_not_named_however_few_the_features():
    for seed in range(12):
        for features in (2, 3):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(100, features))
            y = X @ rng.normal(size=features) + rng.normal(size=100)
            fitted = LinearRegression().fit(X, y)
            made = Parameters(fitted.coef_, np.atleast_1d(fitted.intercept_))
            assert AlgorithmIdentification()(made, TrainingData(X, y)).loot is None


def test_without_labels_it_does_not_apply():
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
def test_a_prediction_service_and_the_data_reach_the_penalty(estimator, data, api):
    loaded = datasets.load(data, standardised=True)
    estimator.fit(loaded.X, loaded.y)
    truth = {"hyperparameters": Hyperparameters.of(estimator), "fitted": Fitted.of(estimator)}
    chain = ("linear-extraction", "algorithm", "hyperparameters")
    done = audit([api(estimator), TrainingData(loaded.X, loaded.y)], truth=truth, attacks=chain)
    found = {finding.provenance.attack: finding for finding in done.findings}
    assert all(found[name].verdict is Verdict.LEAK for name in chain)
    errors = [score.value for name, score in found["hyperparameters"].scores.items() if name.startswith("relative error")]
    assert max(errors) <= 1e-9
