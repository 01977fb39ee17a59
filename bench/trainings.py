"""How often the default attack trains again: logistic regressions on large tables, and every kind of learner on small ones.

`python bench/trainings.py --first 7000` is the run that is reported; nothing is tuned on those draws. Half of the penalties
are round, as people type them; the table has 100,000 rows of 1,000 features, half of the time of very different sizes behind
a scaler. `--rows 20000 --features 200` is the quick one.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from divulge import Fitted, TrainingData
from divulge.attacks import HyperparameterStealing
from divulge.solvers.stationarity.refit import Trainer

warnings.simplefilter("ignore")
SMALL = {
    "logistic": lambda c: LogisticRegression(C=c),
    "logistic, newton": lambda c: LogisticRegression(C=c, solver="newton-cg"),
    "logistic, liblinear": lambda c: LogisticRegression(C=c, solver="liblinear"),
    "logistic, saga": lambda c: LogisticRegression(C=c, solver="saga", random_state=0),
    "linear svm": lambda c: LinearSVC(C=c, random_state=0),
    "linear svm, hinge": lambda c: LinearSVC(C=c, loss="hinge", random_state=0),
    "stochastic descent": lambda c: SGDClassifier(alpha=c / 100, loss="log_loss", random_state=3),
    "ridge, lsqr": lambda c: Ridge(c, solver="lsqr"),
    "ridge, sag": lambda c: Ridge(c, solver="sag", random_state=1),
    "lasso": lambda c: Lasso(c / 100),
    "elastic net": lambda c: ElasticNet(c / 100, l1_ratio=0.37),
    "huber": lambda c: HuberRegressor(alpha=c),
    "poisson": lambda c: PoissonRegressor(alpha=c),
}
REGRESSORS = ("ridge", "lasso", "elastic", "huber", "poisson")


def table(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Points with a few common factors, and scores that follow them."""
    X = rng.normal(size=(n, d)) + rng.normal(size=(n, 5)) @ rng.normal(size=(5, d)) / 2
    if rng.integers(2):
        X = StandardScaler().fit_transform(X * 10.0 ** rng.uniform(-2, 3, d) + rng.normal(size=d))
    return X, X @ rng.normal(size=d) / np.sqrt(d)


def penalty(rng: np.random.Generator) -> float:
    value = float(10 ** rng.uniform(-2, 2))
    return float(f"{value:.1g}") if rng.integers(2) else value


def audited(model, X, y) -> tuple[str, int, float, float]:
    """What comes out, trainings, relative error of the penalty, and seconds in units of one fit."""
    start = time.perf_counter()
    model.fit(X, y)
    once = time.perf_counter() - start
    trained, plain = [0], Trainer.__call__

    def counting(self, values, tight=False):
        trained[0] += 1
        return plain(self, values, tight)

    Trainer.__call__ = counting
    start = time.perf_counter()
    try:
        finding = HyperparameterStealing()(Fitted.of(model), TrainingData(X, y))
    finally:
        Trainer.__call__ = plain
    seconds = time.perf_counter() - start
    if finding.loot is None:
        return finding.verdict.value, trained[0], np.nan, seconds / once
    unit, value = next(iter(finding.loot.values.items()))
    low, high = finding.loot.intervals[unit]
    true = getattr(model, unit)
    said = "leak" if low <= true <= high else "leak, MISSES"
    return said, trained[0], abs(value / true - 1), seconds / once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=7000)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=1_000)
    parser.add_argument("--small", type=int, default=8, help="draws of every learner on small tables")
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.count):
        rng = np.random.default_rng(seed)
        X, scores = table(rng, given.rows, given.features)
        y, C = (scores + rng.logistic(size=len(X)) > 0).astype(int), penalty(rng)
        said, fits, error, times = audited(LogisticRegression(C=C, max_iter=1000), X, y)
        print(
            f"{seed} {X.shape} logistic, C = {C:.6g}: {said}, {fits} fits, error {error:.1e}, {times:.1f} fits of time",
            flush=True,
        )
    for name, make in SMALL.items():
        found = []
        for seed in range(given.first, given.first + given.small):
            rng = np.random.default_rng([seed, 1])
            X, scores = table(rng, int(rng.integers(200, 3000)), int(rng.integers(5, 60)))
            y = (scores + rng.logistic(size=len(X)) > 0).astype(int)
            if name.startswith(REGRESSORS):
                y = scores + 0.5 * rng.normal(size=len(X))
            if name == "poisson":
                y = rng.poisson(np.exp(y / np.abs(y).max()))
            found.append(audited(make(penalty(rng)), X, y))
        if not found:
            continue
        leaks = [one for one in found if one[0].startswith("leak")]
        fits = sorted(one[1] for one in found)
        print(
            f"{name}: {len(leaks)} leaks of {len(found)}, {sum('MISSES' in one[0] for one in found)} miss; fits median "
            f"{fits[len(fits) // 2]}, most {fits[-1]}; largest error {max((one[2] for one in leaks), default=np.nan):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
