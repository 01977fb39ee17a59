"""Train, steal, retrain against tuning on everything: seconds and accuracy on MNIST 3 against 8, interleaved in one run.

    python bench/retraining.py [--learners logistic linear_svc] [--fractions 0.05 0.1] [--draws 10] [--samples 600]

One process and one thread. Every draw times its own rival, next to its own steps. The middle draw, with the range of the
draws in brackets; accuracy with Student's 95 % interval.
"""

import argparse
import time

import numpy as np
from scipy import stats

from divulge import datasets
from divulge.learners.catalogue import LEARNERS
from divulge.studies.train_steal_retrain import POWERS, saving, train_steal_retrain


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--learners", nargs="+", default=["ridge_classifier", "logistic", "linear_svc", "svc"])
    arguments.add_argument("--fractions", nargs="+", type=float, default=[0.05, 0.1, 0.2, 0.3, 0.5])
    arguments.add_argument("--draws", type=int, default=10)
    arguments.add_argument("--samples", type=int)
    arguments.add_argument("--folds", type=int, default=5)
    asked = arguments.parse_args()
    data = datasets.load("mnist")
    train, test = (np.flatnonzero(np.isin(y, (3, 8))) for y in (data.y, data.y_test))
    train = train[: asked.samples]
    X, y, X_val, y_val = data.X[train], data.y[train], data.X_test[test], data.y_test[test]
    print(f"{len(X)} rows to train on, {len(X_val)} to test; {len(POWERS)} penalties, {asked.folds} folds")
    print(f"{asked.draws} draws\n")
    print("| learner | fraction | stolen | worst error | speed-up, seconds | speed-up, rows | accuracy | lost | at random |")
    print("|" + "---|" * 9)
    for learner in asked.learners:
        for fraction in asked.fractions:
            rng = np.random.default_rng(0)
            options = {"fraction": fraction, "draws": asked.draws, "folds": asked.folds, "clock": time.perf_counter}
            draws = train_steal_retrain(X, y, X_val, y_val, learner, rng=rng, **options)
            print(line(learner, fraction, draws, len(X), asked.folds), flush=True)


def line(learner, fraction, draws, n, folds):
    found = [draw for draw in draws if draw.stolen is not None]
    off = max((abs(draw.stolen / draw.tuned_on_sample - 1) for draw in found), default=np.nan)
    faster = [seconds_saved(draw) for draw in draws]
    rows = [saving(draw, n, folds=folds, grid=len(POWERS)) for draw in draws]
    lost = [draw.accuracy_tuned - draw.accuracy_retrained for draw in found]
    tuned = np.mean([draw.accuracy_tuned for draw in draws])
    random = np.mean([draw.accuracy_tuned - draw.accuracy_random for draw in draws])
    cells = [f"{learner}, {LEARNERS[learner].unit}", f"{fraction:g}", f"{len(found)} of {len(draws)}", f"{off:.0e}"]
    cells += [middle(faster), middle(rows), f"{tuned:.4f}", interval(lost), f"{random:.4f}"]
    return f"| {' | '.join(cells)} |"


def seconds_saved(draw):
    """Who fails to steal has to tune on everything after all."""
    seconds = draw.seconds
    last = seconds["retraining"] if draw.stolen is not None else seconds["tuning"]
    return seconds["tuning"] / (seconds["service"] + seconds["stealing"] + last)


def middle(values):
    return f"{np.median(values):.1f} [{min(values):.1f}, {max(values):.1f}]"


def interval(values):
    if len(values) < 2:
        return "–"
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.4f} ± {half:.4f}"


if __name__ == "__main__":
    main()
