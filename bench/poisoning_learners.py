"""Learners of scikit-learn's, poisoned: test error clean, with wrong labels only and with the points, each checked.

    DIVULGE_DATA=folder python bench/poisoning_learners.py [--seeds 4000 4001 4002] [--data "MNIST 3 or 5"] [--learners L1]

A tenth of the training set is contributed in two batches, against the estimator's own penalty. Every error is measured
again here, by cloning the estimator and fitting it on the clean points and the loot with scikit-learn alone; `differing`
counts the errors that were not the same, of three a draw, and two of a forest. Networks stop early, after 100 steps at a
rate of 0.3 from the weights that they have on clean data. No constant was chosen by these seeds. Processor seconds are those
of the attack and its refits, one thread.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from divulge import Candidates, Context, Pipeline, datasets
from divulge.attacks import Poisoning

LEARNERS = {
    "logistic, L2": lambda: LogisticRegression(C=0.5, max_iter=1000),
    "logistic, L1": lambda: LogisticRegression(C=0.5, l1_ratio=1.0, solver="liblinear", random_state=0),
    "logistic, elastic net": lambda: LogisticRegression(
        C=0.5, l1_ratio=0.5, solver="saga", max_iter=2000, tol=1e-3, random_state=0
    ),
    "scaler, logistic, L2": lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.5, max_iter=1000)),
    "scaler, logistic, L1": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(C=0.5, l1_ratio=1.0, solver="liblinear", random_state=0)
    ),
    "scaler, logistic, tuned by itself": lambda: make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(Cs=5, max_iter=1000, l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=False),
    ),
    "scaler, linear SVM": lambda: make_pipeline(StandardScaler(), LinearSVC(C=0.1, random_state=0)),
    "scaler, ridge classifier": lambda: make_pipeline(StandardScaler(), RidgeClassifier(alpha=10.0)),
    "scaler, network of 16": lambda: make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=300, random_state=0)),
    "forest, by transfer": lambda: RandomForestClassifier(100, random_state=0),
}
PAIRS = {"MNIST 3 or 5": ("mnist", [3, 5]), "MNIST 0 or 8": ("mnist", [0, 8])}
DATA = ("breast cancer", *PAIRS)


def drawn(data, seed):
    """Training, validation and test points, and what a pipeline says of them."""
    if data in PAIRS:
        name, only = PAIRS[data]
        found = datasets.load(name, samples=450, seed=seed, full=bool(os.environ.get("DIVULGE_DATA")), only=only)
        parts = found.X[:300], found.y[:300], found.X[300:], found.y[300:], found.X_test, found.y_test
        return *parts, {"shape": found.shape, "low": 0.0, "high": 1.0}
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(X))
    train, val, test = rows[:250], rows[250:370], rows[370:]
    return X[train], y[train], X[val], y[val], X[test], y[test], {}


def measured(learner, X, y, X_test, y_test):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float((clone(learner).fit(X, y).predict(X_test) != y_test).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[4000, 4001, 4002])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA, metavar="DATA")
    parser.add_argument("--learners", nargs="+", default=[""], help="parts of their names")
    given = parser.parse_args()
    print(
        "| data | learner | clean, % | wrong labels only, % | poisoned, % | by draw | seconds | differing |\n"
        + "|---" * 8
        + "|"
    )
    for data in given.data:
        for name, make in LEARNERS.items():
            if not any(part in name for part in given.learners):
                continue
            rows, seconds, differing = [], 0.0, 0
            for seed in given.seeds:
                X, y, X_val, y_val, X_test, y_test, rest = drawn(data, seed)
                learner, count = make(), len(X) // 10
                options = {"regime": "early-stopped", "epochs": 100, "rate": 0.3} if "network" in name else {}
                start = time.process_time()
                attack = Poisoning(points=count, batch=-(-count // 2), alone=True, **options)
                truth = {"candidates": Candidates(X_test, y_test)}
                held = Pipeline(X, y, X_val, y_val, learner=learner, **rest)
                finding = attack(held, truth=truth, context=Context(seed))
                seconds += time.process_time() - start
                if finding.loot is None or "test error" not in finding.scores:
                    print(f"{data}, {name}, {seed}: {finding.verdict.value}: {finding.summary}", flush=True)
                    continue
                loot, score = finding.loot, finding.scores["test error"]
                known = [
                    measured(learner, X, y, X_test, y_test),
                    *(
                        measured(learner, np.concatenate([X, more]), np.append(y, loot.y), X_test, y_test)
                        for more in (loot.start, loot.X)
                    ),
                ]
                curve = next(iter(finding.figures[0].series.values()))[1]
                reported = [] if held.own.opaque else [curve[0] / 100]  # a finding has no clean score of what is only asked
                reported += [score.null, score.value]
                differing += sum(abs(a - b) > 1e-9 for a, b in zip(reported, known[-len(reported) :], strict=True))
                rows.append([100 * each for each in known])
            clean, plain, poisoned = np.mean(rows, axis=0)
            each = ", ".join(f"{row[2]:.1f}" for row in rows)
            figures = f"{clean:.1f} | {plain:.1f} | {poisoned:.1f} | {each} | {seconds / len(rows):.1f} | {differing}"
            print(f"| {data} | {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
