"""How long is one attack beside one fit of the learner it attacks? Interleaved, in one run; no replay of the solver."""

import time
from statistics import median

import numpy as np
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
from sklearn.svm import SVC, SVR, LinearSVC

from divulge import Fitted, TrainingData
from divulge.attacks import HyperparameterStealing

LARGE = (100_000, 1_000)
CASES = {
    "ridge": (Ridge(1.0), "numbers", LARGE),
    "lasso": (Lasso(0.1), "numbers", LARGE),
    "elastic net": (ElasticNet(0.1), "numbers", LARGE),
    "Huber": (HuberRegressor(alpha=100.0), "numbers", LARGE),
    "Poisson": (PoissonRegressor(alpha=0.01), "counts", LARGE),
    "ridge classifier": (RidgeClassifier(1.0), "labels", LARGE),
    "logistic, lbfgs": (LogisticRegression(C=1e-4), "labels", LARGE),
    "logistic, newton-cholesky": (LogisticRegression(C=1e-4, solver="newton-cholesky"), "labels", LARGE),
    "linear SVM, squared hinge": (LinearSVC(C=1e-4), "labels", LARGE),
    "kernel ridge": (KernelRidge(alpha=1.0, kernel="rbf"), "numbers", (3_000, 50)),
    "SVC": (SVC(C=1.0), "labels", (3_000, 50)),
    "SVR": (SVR(C=1.0), "numbers", (3_000, 50)),
}
ROUNDS = 3


def timed(work, *arguments):
    start = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - start, result


def made(kind, n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    signal = X @ rng.standard_normal(d) / np.sqrt(d)
    if kind == "numbers":
        return X, np.sqrt(d) * signal + rng.standard_normal(n)
    if kind == "counts":
        return X, rng.poisson(np.exp(0.5 * signal)).astype(float)
    return X, (signal + rng.standard_normal(n) > 0).astype(int)


def main():
    print("| learner | n | d | fit, s | attack, s | attack / fit | verdict |")
    print("|---|---|---|---|---|---|---|")
    attack = HyperparameterStealing(trainings=0)
    for name, (estimator, kind, (n, d)) in CASES.items():
        X, y = made(kind, n, d)
        data = TrainingData(X, y)
        fits, attacks = [], []
        for _ in range(ROUNDS):
            seconds, fitted = timed(estimator.fit, X, y)
            fits.append(seconds)
            seconds, finding = timed(attack, Fitted.of(fitted), data)
            attacks.append(seconds)
        ratio = median(attack / fit for attack, fit in zip(attacks, fits, strict=True))
        figures = f"{median(fits):.3f} | {median(attacks):.3f} | {ratio:.2f}"
        print(f"| {name} | {n:,} | {d:,} | {figures} | {finding.verdict} |", flush=True)


if __name__ == "__main__":
    main()
