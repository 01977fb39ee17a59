"""Do the intervals hold the truth? Every learner and solver, four data sets, seven penalties."""

import warnings
from collections import Counter

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_regression
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, Lasso, Ridge

from divulge import Fitted, Hyperparameters, TrainingData
from divulge.attacks import HyperparameterStealing

TIGHT = {"tol": 1e-12, "max_iter": 100_000}
LEARNERS = {
    "ridge, direct": lambda a: Ridge(a),
    "ridge, svd": lambda a: Ridge(a, solver="svd"),
    "ridge, lsqr": lambda a: Ridge(a, solver="lsqr"),
    "ridge, sag": lambda a: Ridge(a, solver="sag", random_state=0),
    "lasso, default": lambda a: Lasso(a),
    "lasso, tight": lambda a: Lasso(a, **TIGHT),
    "elastic net, default": lambda a: ElasticNet(a, l1_ratio=0.3),
    "elastic net, tight": lambda a: ElasticNet(a, l1_ratio=0.3, **TIGHT),
    "kernel ridge, rbf": lambda a: KernelRidge(alpha=a, kernel="rbf"),
    "kernel ridge, linear": lambda a: KernelRidge(alpha=a),
}


def tables():
    for load in (load_diabetes, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        X = X[:, X.std(axis=0) > 0]
        yield (X - X.mean(axis=0)) / X.std(axis=0), y.astype(float)
    yield make_regression(200, 30, noise=5, random_state=1)


def main():
    warnings.simplefilter("ignore")
    print("| learner, solver | leak | none found | not applicable | failed | largest error | interval holds the truth |")
    print("|---|---|---|---|---|---|---|")
    for name, make in LEARNERS.items():
        verdicts, worst, covered = Counter(), 0.0, []
        for X, y in tables():
            for alpha in np.logspace(-3, 3, 7):
                estimator = make(alpha).fit(X, y)
                known = Hyperparameters.of(estimator)
                finding = HyperparameterStealing()(
                    Fitted.of(estimator), TrainingData(X, y), truth={"hyperparameters": known}
                )
                verdicts[finding.verdict.value] += 1
                if finding.verdict.value == "leak":
                    errors = [score.value for key, score in finding.scores.items() if key.startswith("relative error")]
                    worst = max(worst, *errors)
                    intervals = finding.loot.intervals
                    covered.append(all(intervals[key][0] <= known.values[key] <= intervals[key][1] for key in intervals))
        counts = " | ".join(str(verdicts[key]) for key in ("leak", "none found", "not applicable", "failed"))
        print(f"| {name} | {counts} | {worst:.1e} | {sum(covered)} of {len(covered)} |", flush=True)


if __name__ == "__main__":
    main()
