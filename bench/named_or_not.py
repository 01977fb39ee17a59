"""Is a learner ever named wrongly? Learners in and out of the list, on tables of two to thirty columns.

`python bench/named_or_not.py --first 5000` is the run that is reported; nothing is tuned on those draws. A Bayesian ridge
regression is a ridge regression with a penalty of its own, and least angles end where a lasso does: those names are right.
"""

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_blobs, make_classification, make_friedman1
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    HuberRegressor,
    Lars,
    Lasso,
    LinearRegression,
    LogisticRegression,
    OrthogonalMatchingPursuit,
    Perceptron,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from divulge import Fitted, Parameters, TrainingData
from divulge.attacks import AlgorithmIdentification
from divulge.attacks.hyperparameters.identification import same_learner

warnings.simplefilter("ignore")
KNOWN_CLASSIFIERS = {
    "logistic": lambda lam: LogisticRegression(C=1 / lam),
    "logistic, converged": lambda lam: LogisticRegression(C=1 / lam, tol=1e-8, max_iter=10_000),
    "liblinear": lambda lam: LogisticRegression(C=1 / lam, solver="liblinear"),
    "svm": lambda lam: LinearSVC(C=1 / lam),
    "svm hinge": lambda lam: LinearSVC(C=1 / lam, loss="hinge", max_iter=20_000),
    "ridge classifier": lambda lam: RidgeClassifier(lam),
    "logistic L1": lambda lam: LogisticRegression(C=1 / lam, l1_ratio=1, solver="saga", max_iter=3000),
    "svm L1": lambda lam: LinearSVC(C=1 / lam, penalty="l1", dual=False, max_iter=10_000),
}
OTHER_CLASSIFIERS = {
    "discriminant": lambda lam: LinearDiscriminantAnalysis(),
    "shrunken discriminant": lambda lam: LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3),
    "unpenalised": lambda lam: LogisticRegression(C=np.inf, max_iter=500),
    "perceptron": lambda lam: Perceptron(),
    "balanced": lambda lam: LogisticRegression(C=1 / lam, class_weight="balanced"),
    "sgd logistic": lambda lam: SGDClassifier(loss="log_loss", alpha=lam / 100),
    "sgd modified huber": lambda lam: SGDClassifier(loss="modified_huber", alpha=lam / 100),
    "passive aggressive": lambda lam: SGDClassifier(loss="hinge", learning_rate="pa1", eta0=1.0),
}
KNOWN_REGRESSORS = {
    "ridge": lambda lam: Ridge(lam),
    "lasso": lambda lam: Lasso(lam / 100),
    "elastic net": lambda lam: ElasticNet(lam / 100),
    "huber": lambda lam: HuberRegressor(alpha=lam, max_iter=1000),
}
OTHER_REGRESSORS = {
    "least squares": lambda lam: LinearRegression(),
    "bayesian ridge": lambda lam: BayesianRidge(),
    "theil-sen": lambda lam: TheilSenRegressor(random_state=0),
    "matching pursuit": lambda lam: OrthogonalMatchingPursuit(),
    "least angles": lambda lam: Lars(n_nonzero_coefs=4),
    "relevance": lambda lam: ARDRegression(),
    "quantile": lambda lam: QuantileRegressor(alpha=lam / 100),
    "sgd": lambda lam: SGDRegressor(alpha=lam / 100),
}
SAME = {"bayesian ridge": "ridge", "least angles": "lasso"}


def table(rng, classes):
    n, seed = int(rng.integers(150, 800)), int(rng.integers(1_000_000))
    kind = rng.choice(["two columns", "hastie", "cancer", "blobs", "wine"] if classes else ["diabetes", "friedman", "two"])
    if kind == "two columns":
        return kind, *make_classification(n, 2, n_informative=2, n_redundant=0, random_state=seed)
    if kind == "hastie":
        X = rng.normal(size=(n, 10))
        return kind, X, ((X**2).sum(axis=1) > 9.34).astype(int)
    if kind == "blobs":
        return kind, *make_blobs(n, 6, centers=2, cluster_std=4, random_state=seed)
    if kind == "friedman":
        return kind, *make_friedman1(n, noise=1, random_state=seed)
    if kind == "two":
        X = rng.normal(size=(n, 2))
        return kind, X, X @ [1, -2] + rng.normal(size=n)
    loaded = {"cancer": load_breast_cancer, "wine": load_wine, "diabetes": load_diabetes}[kind](return_X_y=True)
    rows = rng.permutation(len(loaded[0]))[: 3 * len(loaded[0]) // 4]
    y = loaded[1][rows]
    return kind, StandardScaler().fit_transform(loaded[0][rows]), (y == 1).astype(int) if kind == "wine" else y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    counts = {known: dict.fromkeys(("right", "wrong", "abstained"), 0) for known in ("in the list", "out of it")}
    for seed in range(options.first, options.first + options.count):
        rng = np.random.default_rng(seed)
        classes, known = bool(rng.random() < 0.6), bool(rng.random() < 0.55)
        if classes:
            learners = KNOWN_CLASSIFIERS if known else OTHER_CLASSIFIERS
        else:
            learners = KNOWN_REGRESSORS if known else OTHER_REGRESSORS
        name = str(rng.choice(list(learners)))
        kind, X, y = table(rng, classes)
        model = learners[name](float(10 ** rng.uniform(-1.5, 1.5))).fit(X, y)
        coef = model.coef_[0] if np.ndim(model.coef_) == 2 else model.coef_
        finding = AlgorithmIdentification()(Parameters(coef, np.atleast_1d(model.intercept_)), TrainingData(X, y))
        if finding.loot is None:
            said = "abstained"
        elif known:
            said = "right" if same_learner(finding.loot, Fitted.of(model)) else "wrong"
        else:
            said = "right" if finding.loot.learner == SAME.get(name) else "wrong"
        counts["in the list" if known else "out of it"][said] += 1
        print(f"{seed} {name}, {kind} {X.shape}: {said}: {finding.summary[:120]}", flush=True)
    print(counts)


if __name__ == "__main__":
    main()
