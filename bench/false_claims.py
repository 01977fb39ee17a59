"""Is a number ever claimed for data the model was not fitted on? Few features and many trials, where luck is likeliest."""

import warnings
from collections import Counter

import numpy as np
from sklearn.linear_model import ElasticNet, Lasso, Ridge

from divulge import Fitted, TrainingData
from divulge.attacks import HyperparameterStealing

TRIALS = 200


def handed(case, X, y, rng):
    """The data an auditor hands in, when the model was fitted on the first half of the rows."""
    half = len(X) // 2
    return {
        "the right data": (X[:half], y[:half]),
        "the other half": (X[half:], y[half:]),
        "both halves": (X, y),
        "labels shuffled": (X[:half], rng.permutation(y[:half])),
        "features rescaled": (1.1 * X[:half], y[:half]),
    }[case]


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    attack = HyperparameterStealing()
    print("| features | data handed in | leak | none found | not applicable | leak, interval misses the truth |")
    print("|---|---|---|---|---|---|")
    for d in (1, 2, 3, 5, 10, 30):
        for case in ("the right data", "the other half", "both halves", "labels shuffled", "features rescaled"):
            counts, missed = Counter(), 0
            for trial in range(TRIALS):
                X = rng.normal(size=(200, d))
                y = X @ rng.normal(size=d) + rng.normal(size=200)
                learners = Ridge(10 ** rng.uniform(-2, 2)), Lasso(0.05, tol=1e-10), ElasticNet(0.05, tol=1e-10)
                model = learners[trial % 3].fit(X[:100], y[:100])
                finding = attack(Fitted(model), TrainingData(*handed(case, X, y, rng)))
                counts[finding.verdict.value] += 1
                if finding.loot is not None:
                    low, high = finding.loot.intervals["alpha"]
                    missed += not low <= model.alpha <= high
            verdicts = " | ".join(str(counts[key]) for key in ("leak", "none found", "not applicable"))
            print(f"| {d} | {case} | {verdicts} | {missed} |", flush=True)


if __name__ == "__main__":
    main()
