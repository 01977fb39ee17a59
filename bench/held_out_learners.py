"""Every learner on data that played no part in choosing any threshold, with odd penalties: errors, intervals, wrong data.

Nothing may be tuned on this file: whoever changes a threshold because of it writes a new one.

    python held_out_learners.py
"""

import warnings
from collections import Counter, defaultdict

import numpy as np
from every_learner import CLASSIFICATION, REGRESSION
from sklearn.datasets import load_wine, make_classification, make_friedman1
from which_algorithm import CLASSIFICATION as NAMED_CLASSIFIERS, REGRESSION as NAMED_REGRESSORS, blind

from divulge import Fitted, Hyperparameters, TrainingData
from divulge.attacks import AlgorithmIdentification, HyperparameterStealing
from divulge.attacks.hyperparameters.identification import same_learner

warnings.simplefilter("ignore")
SLOW = ("MLP", "tight", "Poisson", "Huber")
SEED = 90210


def tables():
    rng = np.random.default_rng(SEED)
    X, y = load_wine(return_X_y=True)
    yield "wine", CLASSIFICATION, (X - X.mean(axis=0)) / X.std(axis=0), y
    X, y = make_classification(250, 15, n_informative=6, flip_y=0.1, random_state=SEED)
    yield "informative 6 of 15", CLASSIFICATION, X + rng.normal(size=15), y
    X, y = make_friedman1(200, 8, noise=1, random_state=SEED)
    yield "friedman", REGRESSION, (X - X.mean(axis=0)) / X.std(axis=0), y
    X = rng.standard_t(3, size=(150, 5))
    yield "heavy tails", REGRESSION, X, np.exp(0.2 * X @ rng.normal(size=5)) + rng.exponential(size=150)


def wrong(X, y, rng):
    """The data without a tenth of its rows, with shuffled labels, and with other features."""
    few = rng.permutation(len(X))[: 9 * len(X) // 10]
    yield "a tenth missing", X[np.sort(few)], y[np.sort(few)]
    yield "shuffled labels", X, rng.permutation(y)
    yield "rescaled", X * 1.3, y


def main():
    rng = np.random.default_rng(SEED)
    attack, cells, wrongs = HyperparameterStealing(), defaultdict(Counter), defaultdict(Counter)
    errors = defaultdict(list)
    for _, learners, X, y in tables():
        for name, make in learners.items():
            if any(word in name for word in SLOW) and "newton" not in name:
                continue
            for power in (-2, 0, 2):
                estimator = make(10.0**power * rng.uniform(0.4, 2.5)).fit(X, y)
                known = Hyperparameters.of(estimator).values
                finding = attack(Fitted.of(estimator), TrainingData(X, y))
                cells[name][finding.verdict.value] += 1
                if finding.loot is not None:
                    ends = finding.loot.intervals
                    cells[name]["held"] += all(low <= known[key] <= high for key, (low, high) in ends.items())
                    errors[name].append(max(abs(finding.loot.values[key] / known[key] - 1) for key in ends))
                if power == 0:
                    for case, *data in wrong(X, y, rng):
                        try:
                            claim = HyperparameterStealing(trainings=9)(Fitted.of(estimator), TrainingData(*data)).loot
                        except ValueError:
                            claim = None
                        wrongs[case]["tries"] += 1
                        if claim is not None:
                            wrongs[case]["claims"] += 1
                            inside = all(low <= known[key] <= high for key, (low, high) in claim.intervals.items())
                            wrongs[case]["missed"] += not inside
    print("| learner | leak | none found | not applicable | failed | interval holds the truth | largest error |")
    print("|---|---|---|---|---|---|---|")
    whole = Counter()
    for name, counted in cells.items():
        whole += counted
        counts = " | ".join(str(counted[key]) for key in ("leak", "none found", "not applicable", "failed"))
        print(f"| {name} | {counts} | {counted['held']} of {counted['leak']} | {max(errors[name], default=np.nan):.0e} |")
    print(f"\nintervals that hold the truth: {whole['held']} of {whole['leak']}")
    print("\n| data handed in | claims | of which miss the truth | tries |\n|---|---|---|---|")
    for case, counted in wrongs.items():
        print(f"| {case} | {counted['claims']} | {counted['missed']} | {counted['tries']} |")
    named = Counter()
    for _, learners, X, y in tables():
        for name, make in (NAMED_CLASSIFIERS if learners is CLASSIFICATION else NAMED_REGRESSORS).items():
            if name == "svc linear":
                continue
            for lam in (0.2, 2.0, 20.0):
                true = Fitted.of(make(lam).fit(X, y))
                finding = AlgorithmIdentification()(blind(true, len(X)), TrainingData(X, y))
                right = finding.loot is not None and same_learner(finding.loot, true)
                named["abstained" if finding.loot is None else "right" if right else "wrong"] += 1
                if finding.loot is not None and not right:
                    print("wrong:", name, lam, finding.summary)
    print(f"\nwhich algorithm: {dict(named)}")


if __name__ == "__main__":
    main()
