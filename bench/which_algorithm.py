"""How often the learner is named, from parameters and data alone: every candidate, on several sets and penalties.

python which_algorithm.py [--tight]
"""

import argparse
import warnings
from collections import Counter

import numpy as np
from every_learner import TIGHT
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, SVR, LinearSVC

from divulge import Fitted, Parameters, TrainingData, datasets
from divulge.attacks import AlgorithmIdentification
from divulge.attacks.hyperparameters.identification import same_learner
from divulge.victims.kernels import KernelLogistic, KernelSVM

warnings.simplefilter("ignore")
REGRESSION = {
    "ridge": lambda lam: Ridge(lam),
    "lasso": lambda lam: Lasso(lam / 100),
    "elastic net": lambda lam: ElasticNet(lam / 100, l1_ratio=0.5),
    "poisson": lambda lam: PoissonRegressor(alpha=lam / 100),
    "huber": lambda lam: HuberRegressor(alpha=lam, max_iter=1000),
    "kernel ridge": lambda lam: KernelRidge(alpha=lam, kernel="rbf"),
    "svr": lambda lam: SVR(C=1 / lam),
}
CLASSIFICATION = {
    "ridge classifier": lambda lam: RidgeClassifier(lam),
    "logistic": lambda lam: LogisticRegression(C=1 / lam, max_iter=1000),
    "logistic L1": lambda lam: LogisticRegression(C=1 / lam, l1_ratio=1, solver="saga", max_iter=3000),
    "logistic elastic": lambda lam: LogisticRegression(C=1 / lam, l1_ratio=0.5, solver="saga", max_iter=3000),
    "liblinear": lambda lam: OneVsRestClassifier(LogisticRegression(C=1 / lam, solver="liblinear")),
    "liblinear L1": lambda lam: OneVsRestClassifier(LogisticRegression(C=1 / lam, l1_ratio=1, solver="liblinear")),
    "svm": lambda lam: LinearSVC(C=1 / lam, max_iter=10_000),
    "svm L1": lambda lam: LinearSVC(C=1 / lam, penalty="l1", max_iter=10_000),
    "svm hinge": lambda lam: LinearSVC(C=1 / lam, loss="hinge", max_iter=100_000),
    "svc linear": lambda lam: SVC(C=1 / lam, kernel="linear"),
    "svc": lambda lam: SVC(C=1 / lam),
    "kernel logistic": lambda lam: KernelLogistic(alpha=lam),
    "kernel logistic L1": lambda lam: KernelLogistic(alpha=lam, penalty="l1"),
    "kernel svm": lambda lam: KernelSVM(alpha=lam),
}


def blind(fitted, n):
    """The parameters alone."""
    dual = fitted.dual_coef
    if dual is not None and "support" in fitted.more:
        whole = np.zeros((n, len(np.atleast_2d(dual))))
        whole[fitted.more["support"].astype(int)] = np.atleast_2d(dual).T
        dual = whole
    return Parameters(coef=fitted.coef, intercept=fitted.intercept, dual_coef=dual, kernel=fitted.kernel)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--tight", action="store_true")
    arguments.add_argument("--data", default="")
    asked = arguments.parse_args()
    counts: dict[str, Counter] = {}
    sets = [("diabetes", REGRESSION), ("cars", REGRESSION), ("breast-cancer", CLASSIFICATION), ("iris", CLASSIFICATION),
            ("digits", CLASSIFICATION)]  # fmt: skip
    attack = AlgorithmIdentification()
    for data, learners in sets:
        if asked.data and data != asked.data:
            continue
        loaded = datasets.load(data, standardised=True, samples=300 if data == "digits" else None)
        X, y = loaded.X[:, loaded.X.std(axis=0) > 0], loaded.y
        y = np.asarray(y, float) if learners is REGRESSION else y
        for name, make in learners.items():
            for lam in (0.1, 1.0, 10.0):
                estimator = make(lam)
                if asked.tight:
                    fitting = {key: value for key, value in TIGHT.items() if key in estimator.get_params()}
                    estimator.set_params(**fitting)
                if name == "svc linear":
                    estimator.fit(X, y)
                    true = Fitted("svc", coef=estimator.coef_, intercept=estimator.intercept_)
                    if len(np.unique(y)) > 2:
                        continue
                else:
                    true = Fitted.of(estimator.fit(X, y))
                finding = attack(blind(true, len(X)), TrainingData(X, y))
                if finding.loot is None:
                    outcome = "abstained"
                else:
                    outcome = "right" if same_learner(finding.loot, true) else "wrong"
                if outcome != "right":
                    print(data, name, lam, outcome, finding.summary, flush=True)
                counts.setdefault(name, Counter())[outcome] += 1
    print("\n| learner | right | wrong | abstained |\n|---|---|---|---|")
    whole = Counter()
    for name, counted in counts.items():
        whole += counted
        print(f"| {name} | {counted['right']} | {counted['wrong']} | {counted['abstained']} |")
    answered = whole["right"] + whole["wrong"]
    print(f"| all | {whole['right']} | {whole['wrong']} | {whole['abstained']} |")
    print(f"right of those answered: {whole['right'] / answered:.1%}; abstained: {whole['abstained'] / whole.total():.1%}")


if __name__ == "__main__":
    main()
