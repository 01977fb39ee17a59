"""Error against λ = 10⁻³ … 10³ for every learner, with the solver's default tolerance and a tight one, as a table and a CSV.

    python every_learner.py [--odd] [--only NAME] [--data NAME] [--csv FILE] [--trainings 63]

`--odd` multiplies every λ by a random number, so that no snapping to round values can help.

In the estimator's own units: alpha = λ, C = 1/λ. A cell is the relative error of the worst of its hyperparameters,
`-` where the attack abstained, `x` where an interval missed the truth.
"""

import argparse
import csv
import time
import warnings
from collections import Counter

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
    SGDClassifier,
    SGDRegressor,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC, SVR, LinearSVC

from divulge import Fitted, Hyperparameters, TrainingData, datasets
from divulge.attacks import HyperparameterStealing

warnings.simplefilter("ignore")
PENALTIES = np.logspace(-3, 3, 7)
TIGHT = {"tol": 1e-12, "max_iter": 100_000}


def logistic(**settings):
    return lambda lam: LogisticRegression(C=1 / lam, **settings)


def tight(make, **more):
    def made(lam):
        estimator = make(lam)
        return estimator.set_params(
            **{key: value for key, value in {**TIGHT, **more}.items() if key in estimator.get_params()}
        )

    return made


REGRESSION = {
    "Ridge": lambda lam: Ridge(lam),
    "Ridge svd": lambda lam: Ridge(lam, solver="svd"),
    "Ridge lsqr": lambda lam: Ridge(lam, solver="lsqr"),
    "Ridge sparse_cg": lambda lam: Ridge(lam, solver="sparse_cg"),
    "Ridge sag": lambda lam: Ridge(lam, solver="sag", random_state=0),
    "Ridge saga": lambda lam: Ridge(lam, solver="saga", random_state=0),
    "Ridge positive": lambda lam: Ridge(lam, positive=True),
    "KernelRidge rbf": lambda lam: KernelRidge(alpha=lam, kernel="rbf"),
    "Lasso": lambda lam: Lasso(lam),
    "Lasso tight": tight(Lasso),
    "ElasticNet": lambda lam: ElasticNet(lam, l1_ratio=0.3),
    "ElasticNet tight": tight(lambda lam: ElasticNet(lam, l1_ratio=0.3)),
    "SVR rbf": lambda lam: SVR(C=1 / lam),
    "SVR linear": lambda lam: SVR(C=1 / lam, kernel="linear"),
    "Huber": lambda lam: HuberRegressor(alpha=lam),
    "Huber tight": tight(lambda lam: HuberRegressor(alpha=lam)),
    "Poisson": lambda lam: PoissonRegressor(alpha=lam),
    "Poisson tight": tight(lambda lam: PoissonRegressor(alpha=lam)),
    "Poisson newton tight": tight(lambda lam: PoissonRegressor(alpha=lam, solver="newton-cholesky")),
    "SGDRegressor": lambda lam: SGDRegressor(alpha=lam, random_state=0),
    "MLPRegressor lbfgs": lambda lam: MLPRegressor(
        hidden_layer_sizes=(10,), alpha=lam, solver="lbfgs", random_state=0, activation="tanh"
    ),
    "MLPRegressor lbfgs tight": tight(
        lambda lam: MLPRegressor(hidden_layer_sizes=(10,), alpha=lam, solver="lbfgs", random_state=0, activation="tanh"),
        max_fun=10**6,
    ),
}
CLASSIFICATION = {
    "RidgeClassifier": lambda lam: RidgeClassifier(lam),
    "Logistic lbfgs": logistic(),
    "Logistic lbfgs tight": tight(logistic()),
    "Logistic newton-cg": logistic(solver="newton-cg"),
    "Logistic newton-cg tight": tight(logistic(solver="newton-cg")),
    "Logistic newton-cholesky": logistic(solver="newton-cholesky"),
    "Logistic newton-cholesky tight": tight(logistic(solver="newton-cholesky")),
    "Logistic sag": logistic(solver="sag", random_state=0),
    "Logistic saga": logistic(solver="saga", random_state=0),
    "Logistic saga L1": logistic(solver="saga", l1_ratio=1, random_state=0),
    "Logistic saga elastic": logistic(solver="saga", l1_ratio=0.3, random_state=0),
    "Logistic liblinear ovr": lambda lam: OneVsRestClassifier(LogisticRegression(C=1 / lam, solver="liblinear")),
    "Logistic liblinear ovr tight": lambda lam: OneVsRestClassifier(
        LogisticRegression(C=1 / lam, solver="liblinear", **TIGHT)
    ),
    "Logistic liblinear L1 tight": lambda lam: OneVsRestClassifier(
        LogisticRegression(C=1 / lam, solver="liblinear", l1_ratio=1, **TIGHT)
    ),
    "LinearSVC": lambda lam: LinearSVC(C=1 / lam),
    "LinearSVC tight": tight(lambda lam: LinearSVC(C=1 / lam)),
    "LinearSVC L1": lambda lam: LinearSVC(C=1 / lam, penalty="l1", dual=False, random_state=0),
    "LinearSVC L1 tight": tight(lambda lam: LinearSVC(C=1 / lam, penalty="l1", dual=False, random_state=0)),
    "LinearSVC hinge": lambda lam: LinearSVC(C=1 / lam, loss="hinge", random_state=0),
    "LinearSVC hinge tight": tight(lambda lam: LinearSVC(C=1 / lam, loss="hinge", random_state=0)),
    "LinearSVC hinge tight, no seed": tight(lambda lam: LinearSVC(C=1 / lam, loss="hinge")),
    "SVC rbf": lambda lam: SVC(C=1 / lam),
    "SVC linear": lambda lam: SVC(C=1 / lam, kernel="linear"),
    "SGDClassifier log": lambda lam: SGDClassifier(loss="log_loss", alpha=lam, random_state=0),
    "SGDClassifier hinge": lambda lam: SGDClassifier(alpha=lam, random_state=0),
    "MLPClassifier lbfgs": lambda lam: MLPClassifier(hidden_layer_sizes=(10,), alpha=lam, solver="lbfgs", random_state=0),
    "MLPClassifier lbfgs tight": tight(
        lambda lam: MLPClassifier(hidden_layer_sizes=(10,), alpha=lam, solver="lbfgs", random_state=0, activation="tanh"),
        max_fun=10**6,
    ),
    "MLPClassifier adam": lambda lam: MLPClassifier(hidden_layer_sizes=(10,), alpha=lam, random_state=0, max_iter=30),
}


def tables():
    for name in ("diabetes", "cars"):
        try:
            loaded = datasets.load(name, standardised=True)
        except Exception:
            continue
        yield name, "regression", loaded.X, np.asarray(loaded.y, float)
    for name in ("breast-cancer", "iris", "digits", "mnist"):
        loaded = datasets.load(name, standardised=name != "mnist")
        X, y = loaded.X, loaded.y
        if name == "digits":
            X, y = X[:, X.std(axis=0) > 0][:600], y[:600]
        if name == "mnist":
            chosen = np.flatnonzero(np.isin(y, (3, 8)))[:400]
            X, y = X[chosen], y[chosen]
        yield name, "classification", X, y


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--odd", action="store_true")
    arguments.add_argument("--data", default="")
    arguments.add_argument("--csv", default="")
    arguments.add_argument("--trainings", type=int, default=63)
    asked = arguments.parse_args()
    attack = HyperparameterStealing(trainings=asked.trainings)
    rows, held = [], Counter()
    rng = np.random.default_rng(2024)
    print("| data | estimator | " + " | ".join(f"1e{int(np.log10(p))}" for p in PENALTIES) + " | won by | seconds |")
    print("|" + "---|" * (len(PENALTIES) + 4))
    for data, task, X, y in tables():
        if asked.data and asked.data != data:
            continue
        for name, make in (REGRESSION if task == "regression" else CLASSIFICATION).items():
            if asked.only and asked.only not in name:
                continue
            cells, winners, began = [], Counter(), time.perf_counter()
            for lam in PENALTIES:
                lam = lam * rng.uniform(0.4, 2.5) if asked.odd else lam
                try:
                    estimator = make(lam).fit(X, y)
                except ValueError as error:
                    cells.append(f"? {error}"[:20])
                    continue
                truth = {"hyperparameters": (known := Hyperparameters.of(estimator))}
                finding = attack(Fitted.of(estimator), TrainingData(X, y), truth=truth)
                if finding.loot is None:
                    cells.append("-")
                    rows.append([data, name, lam, "", "", finding.verdict.value, "", finding.summary])
                    continue
                worst = max(abs(finding.loot.values[key] / known.values[key] - 1) for key in finding.loot.values)
                inside = all(low <= known.values[key] <= high for key, (low, high) in finding.loot.intervals.items())
                held[inside] += 1
                winner = finding.summary.split(": ")[-1]
                winner = "replay" if "training again" in winner else "path" if "path" in winner else "equations"
                winners[winner] += 1
                cells.append(f"{worst:.0e}{'' if inside else ' x'}")
                rows.append([data, name, lam, worst, inside, finding.verdict.value, winner, finding.summary])
            won = ", ".join(f"{key} {value}" for key, value in winners.items())
            print(f"| {data} | {name} | {' | '.join(cells)} | {won} | {time.perf_counter() - began:.1f} |", flush=True)
    print(f"\nintervals that hold the truth: {held[True]} of {held[True] + held[False]}")
    if asked.csv:
        with open(asked.csv, "w", newline="") as file:
            written = csv.writer(file)
            written.writerow(
                ["data", "estimator", "lambda", "relative error", "interval holds", "verdict", "won by", "summary"]
            )
            written.writerows(rows)


if __name__ == "__main__":
    main()
