"""The same questions as interval_coverage.py and false_claims.py, on data that played no part in choosing any threshold.

Nothing may be tuned on this file: whoever changes a threshold because of it writes a new one.
"""

import warnings
from collections import Counter

import numpy as np
from false_claims import handed
from interval_coverage import LEARNERS
from sklearn.datasets import load_iris, load_wine, make_friedman1
from sklearn.linear_model import ElasticNet, Lasso, Ridge

from divulge import Fitted, Hyperparameters, TrainingData
from divulge.attacks import HyperparameterStealing

ATTACK = HyperparameterStealing()
TRIALS, SEED = 150, 5151


def correlated(rng, n, d, strength):
    """Features of which neighbours resemble each other."""
    apart = np.abs(np.subtract.outer(range(d), range(d)))
    return rng.normal(size=(n, d)) @ np.linalg.cholesky(strength**apart).T


def tables():
    for load in (load_wine, load_iris):
        X, y = load(return_X_y=True)
        yield (X - X.mean(axis=0)) / X.std(axis=0), y.astype(float)
    yield make_friedman1(300, 20, noise=1, random_state=7)
    rng = np.random.default_rng(77)
    X = correlated(rng, 400, 50, 0.9)
    yield X, X @ rng.normal(size=50) + rng.normal(size=400)
    X = rng.standard_t(2.5, size=(250, 12))
    yield X, X @ rng.normal(size=12) + rng.standard_t(3, size=250)


def coverage():
    print("| learner, solver | intercept | leak | none found | not applicable | failed | interval holds the truth |")
    print("|---|---|---|---|---|---|---|")
    for name, make in LEARNERS.items():
        for free in (True, False):
            if name.startswith("kernel") and free:
                continue
            verdicts, held = Counter(), []
            for X, y in tables():
                for alpha in np.logspace(-3, 3, 7):
                    estimator = make(alpha)
                    if not name.startswith("kernel"):
                        estimator.set_params(fit_intercept=free)
                    known = Hyperparameters.of(estimator.fit(X, y))
                    finding = ATTACK(Fitted.of(estimator), TrainingData(X, y), truth={"hyperparameters": known})
                    verdicts[finding.verdict.value] += 1
                    if finding.loot is not None:
                        ends = finding.loot.intervals
                        held.append(all(ends[key][0] <= known.values[key] <= ends[key][1] for key in ends))
            counts = " | ".join(str(verdicts[key]) for key in ("leak", "none found", "not applicable", "failed"))
            print(f"| {name} | {'yes' if free else 'no'} | {counts} | {sum(held)} of {len(held)} |", flush=True)


def claims():
    print("| intercept | learner | data handed in | leak | leak, interval misses the truth | tries |")
    print("|---|---|---|---|---|---|")
    rng = np.random.default_rng(SEED)
    for free in (True, False):
        counts: dict[tuple[str, str], Counter[str]] = {}
        for d in (2, 3, 5, 10):
            for trial in range(TRIALS):
                n = int(rng.choice([60, 500, 2000]))
                X = correlated(rng, 2 * n, d, 0.7) + rng.normal(size=d)
                y = X @ rng.normal(size=d) + rng.normal(size=2 * n)
                tight = {"tol": 1e-10, "fit_intercept": free}
                ridge = Ridge(10 ** rng.uniform(-2, 4), fit_intercept=free)
                model = (ridge, Lasso(0.05, **tight), ElasticNet(0.05, **tight))[trial % 3].fit(X[:n], y[:n])
                for case, data in handed(X, y, rng).items():
                    finding = ATTACK(Fitted.of(model), TrainingData(*data))
                    counted = counts.setdefault((type(model).__name__, case), Counter())
                    counted["tries"] += 1
                    if finding.loot is not None:
                        low, high = finding.loot.intervals["alpha"]
                        counted["leak"] += 1
                        counted["missed"] += not low <= model.alpha <= high
        for (learner, case), counted in sorted(counts.items()):
            figures = " | ".join(str(counted[key]) for key in ("leak", "missed", "tries"))
            print(f"| {'yes' if free else 'no'} | {learner} | {case} | {figures} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    coverage()
    print()
    claims()
