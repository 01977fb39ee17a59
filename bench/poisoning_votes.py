"""What a vote of learners on parts certifies beside a run-off of the same learners, ten digits.

    DIVULGE_DATA=folder python bench/poisoning_votes.py [--seeds 3000 3001 3002] [--samples 10000] [--parts 50 200]

Multinomial logistic regression at C = 1 on each part of as many training points, pixels from 0 to 1. Of test points, the
share that is right, and that no so many points put in or taken out can make wrong; means over draws of the training points,
least and most in brackets. Nothing here was tuned.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.linear_model import LogisticRegression

from divulge import datasets
from divulge.defences import partition, run_off


def train(X, y):
    model = LogisticRegression(C=1.0, max_iter=2000).fit(X, y)
    if len(model.classes_) > 2:
        return model.decision_function
    return lambda points: np.stack([-model.decision_function(points), model.decision_function(points)], axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3000, 3001, 3002])
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--parts", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--points", type=int, nargs="+", default=[0, 2, 5, 10, 15, 20, 30, 50])
    given = parser.parse_args()
    print(f"| parts | election | {' | '.join(map(str, given.points))} |\n|{'---|' * (2 + len(given.points))}")
    for parts in given.parts:
        certified = {"vote": [], "run-off": []}
        for seed in given.seeds:
            full = bool(os.environ.get("DIVULGE_DATA"))
            data = datasets.load(given.data, samples=given.samples, seed=seed, full=full)
            classes = np.unique(data.y)
            ranked = run_off.elect(train, data.X, data.y, data.X_test, parts, classes)
            truth = np.searchsorted(classes, data.y_test)
            for name, votes in (("vote", partition.Votes(ranked.counts)), ("run-off", ranked)):
                certified[name].append([1 - partition.certified_error(votes, truth, count) for count in given.points])
        for name, rows in certified.items():
            shares = 100 * np.array(rows).T
            cells = [f"{each.mean():.1f} ({each.min():.1f} to {each.max():.1f})" for each in shares]
            print(f"| {parts} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
