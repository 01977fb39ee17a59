"""How long is one attack beside one fit of the learner it attacks? Interleaved, in one run; no replay of the solver."""

import time
from statistics import median

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, Lasso, Ridge

from divulge import Fitted, TrainingData
from divulge.attacks import HyperparameterStealing

CASES = {
    "ridge, n=100,000, d=1,000": (Ridge(1.0), 100_000, 1_000),
    "lasso, n=20,000, d=500": (Lasso(0.1), 20_000, 500),
    "elastic net, n=20,000, d=500": (ElasticNet(0.1), 20_000, 500),
    "kernel ridge, n=3,000, d=50": (KernelRidge(alpha=1.0, kernel="rbf"), 3_000, 50),
}
ROUNDS = 3


def timed(work, *arguments):
    start = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - start, result


def main():
    print("| learner | fit, s | attack, s | attack / fit |")
    print("|---|---|---|---|")
    for name, (estimator, n, d) in CASES.items():
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d))
        y = X @ rng.standard_normal(d) + rng.standard_normal(n)
        data = TrainingData(X, y)
        fits, attacks = [], []
        for _ in range(ROUNDS):
            seconds, fitted = timed(estimator.fit, X, y)
            fits.append(seconds)
            seconds, finding = timed(HyperparameterStealing(), Fitted(fitted), data)
            attacks.append(seconds)
            assert finding.verdict.value == "leak", finding.summary
        ratio = median(attack / fit for attack, fit in zip(attacks, fits, strict=True))
        print(f"| {name} | {median(fits):.3f} | {median(attacks):.3f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
