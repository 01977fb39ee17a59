"""Is a number ever claimed for data the model was not fitted on? Few features and many trials, where luck is likeliest."""

import warnings
from collections import Counter

import numpy as np
from sklearn.linear_model import ElasticNet, Lasso, Ridge

from divulge import Fitted, TrainingData
from divulge.attacks import HyperparameterStealing

TRIALS = 200


def handed(X, y, rng):
    """The data an auditor may hand in, when the model was fitted on the first half of the rows."""
    half = len(X) // 2
    return {
        "the right data": (X[:half], y[:half]),
        "the other half": (X[half:], y[half:]),
        "both halves": (X, y),
        "four fifths of it": (X[: 4 * half // 5], y[: 4 * half // 5]),
        "one row missing": (X[: half - 1], y[: half - 1]),
        "labels shuffled": (X[:half], rng.permutation(y[:half])),
        "labels rescaled": (X[:half], 1.1 * y[:half]),
        "features rescaled": (1.1 * X[:half], y[:half]),
    }


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    attack = HyperparameterStealing()
    print("| features | data handed in | leak | none found | not applicable | leak, interval misses the truth |")
    print("|---|---|---|---|---|---|")
    for d in (1, 2, 3, 5, 10, 30):
        counts: dict[str, Counter[str]] = {}
        for trial in range(TRIALS):
            n = int(rng.choice([100, 1000, 4000]))
            X = rng.normal(size=(2 * n, d))
            y = X @ rng.normal(size=d) + rng.normal(size=2 * n)
            learners = Ridge(10 ** rng.uniform(-2, 4)), Lasso(0.05, tol=1e-10), ElasticNet(0.05, tol=1e-10)
            model = learners[trial % 3].fit(X[:n], y[:n])
            for case, data in handed(X, y, rng).items():
                finding = attack(Fitted.of(model), TrainingData(*data))
                counted = counts.setdefault(case, Counter())
                counted[finding.verdict.value] += 1
                if finding.loot is not None:
                    low, high = finding.loot.intervals["alpha"]
                    counted["missed"] += not low <= model.alpha <= high
        for case, counted in counts.items():
            verdicts = " | ".join(str(counted[key]) for key in ("leak", "none found", "not applicable", "missed"))
            print(f"| {d} | {case} | {verdicts} |", flush=True)


if __name__ == "__main__":
    main()
