"""What defences of a training pipeline are worth against contributed points, and against someone who knows them.

    DIVULGE_DATA=folder python bench/poisoning_defences.py [--draws 5] [--points 51] [--data mnist-0-8]

512 training and 171 validation points, logistic regression trained to the end, its penalty tuned on clean data by
cross-validation. Means over draws of all points, least and most in brackets; test points as truth. Without DIVULGE_DATA the
test points are the 400 of the embedded sample.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from divulge import Candidates, Pipeline, datasets
from divulge.contract import Truth
from divulge.graph import Step, hold
from divulge.runner import Runner
from divulge.studies import PoisoningDefences
from divulge.studies.poisoning_defences.study import ELECTIONS, NAMES, SIFTING


def drawn(name, draw, points):
    full = bool(os.environ.get("DIVULGE_DATA"))
    data = datasets.load(name, samples=683, seed=1000 + draw, full=full)
    held = Pipeline(data.X[:512], data.y[:512], data.X[512:], data.y[512:], shape=data.shape)
    attack = PoisoningDefences(points=points, clean_bounds=(-8.0, 1.0))
    truth = Truth({"candidates": Candidates(data.X_test, data.y_test)})
    return Runner(None, seed=draw).execute(Step(attack, tuple(hold(held)), choices=1, wins="poison"), truth)


def cell(values):
    shown = 100 * np.array(values)
    return f"{shown.mean():.1f} ({shown.min():.1f} to {shown.max():.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--points", type=int, default=51)
    parser.add_argument("--data", default="mnist-0-8")
    given = parser.parse_args()
    findings = []
    for draw in range(given.draws):
        findings.append(drawn(given.data, draw, given.points))
        print(f"draw {draw}: {findings[-1].verdict.value}: {findings[-1].summary}", flush=True)
    print(f"\n{given.data}, {given.points} points, % of test points wrong\n")
    columns = ("defence", "clean", "points made against none", "points made by someone who knows it")
    columns += ("contributed points left out", "the same, known", "clean points left out")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name, words in NAMES.items():
        if not any(words in score for score in findings[0].scores) and name != "none":
            continue  # a run-off between two classes is the vote
        scores = [found.scores for found in findings]
        seen = [found.evidence for found in findings]
        score = "test error" if name == "none" else f"test error, {words}"
        row = [cell([each[score].null for each in scores]), cell([each[score].value for each in scores])]
        known = f"test error, {words}, known to the attacker"
        row.append(cell([each[known].value for each in scores]) if known in scores[0] else "–")
        if name in SIFTING:
            row.append(cell([each.plain[name].lost[-1, 1] for each in seen]))
            row.append(cell([each.knowing[name].lost[-1, 1] for each in seen]))
            row.append(cell([each.plain[name].lost[-1, 0] for each in seen]))
        else:
            row += ["–"] * 3
        print(f"| {words} | {' | '.join(row)} |")
    for election in ELECTIONS:
        bound = [found.figures[1].series.get(f"{election}, certified bound") for found in findings]
        for level, count in enumerate(bound[0][0] if bound[0] is not None else []):
            print(f"{election}, certified with {int(count)} points: {cell([each[1][level] / 100 for each in bound])}")


if __name__ == "__main__":
    main()
