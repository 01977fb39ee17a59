"""Gradient cancelling (Lu, Kamath and Yu 2023) beside poisoning and wrong labels alone, with as many points.

    DIVULGE_DATA=folder python bench/poisoning_targets.py [--seeds 3000 3001 3002] [--points 51] [--strength 0]

Five pairs of classes, 512 training and 171 validation points, each seed another draw of all of them; logistic regression
trained to the end at λ = 0 (C = 1), pixels from 0 to 1. Test errors in %; `needed` are the fewest points in the box with
which training ends at a target, or at the model that poisoning led to, and `bound` is the published bound on them; `left` is
the gradient that the points leave at the target, in that without them. The pairs and seeds here tuned nothing.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from poisoning_joint import PAIRS, drawn

from divulge import Context
from divulge.attacks import Poisoning
from divulge.baselines import GradientCancelling
from divulge.solvers.bilevel import cancelling


def reached(held, models, strength):
    """The fewest points with which training ends at these models, and the published bound."""
    features = held.X.shape[1]
    problem = cancelling.Objective.at(
        "logistic", models.W[0, -1, 0], float(models.b[0, -1, 0]), held.X, (held.y == held.y.max()) * 1.0,
        np.full(features, np.exp(strength)), low=np.zeros(features), high=np.ones(features),
    )  # fmt: skip
    return cancelling.reach(problem).needed, cancelling.published_bound(problem)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3000, 3001, 3002])
    parser.add_argument("--points", type=int, default=51)
    parser.add_argument("--strength", type=float, default=0.0)
    given = parser.parse_args()
    columns = ("pair", "seed", "clean", "wrong labels", "cancelling", "its target", "needed", "bound", "left", "seconds")
    columns += ("poisoning", "seconds", "needed for its model", "bound")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for pair in PAIRS:
        for seed in given.seeds:
            held, truth = drawn(pair, seed)
            start = time.process_time()
            rival = GradientCancelling(points=given.points, strength=given.strength)
            found = rival(held, truth=truth, context=Context(seed))
            middle = time.process_time()
            options = {"hyperparameter": "fixed", "strength": given.strength, "alone": True}
            ours = Poisoning(points=given.points, **options)
            blind = ours(held, context=Context(seed))
            end = time.process_time()
            scored = ours.score(blind, held, truth).scores["test error"]
            needed, bound = reached(held, next(iter(blind.evidence.settings.values())).poisoned, given.strength)
            error, target = found.scores["test error"], found.scores["test error of the target"]
            cells = [pair, seed, *(f"{100 * each:.1f}" for each in (target.null, scored.null, error.value, target.value))]
            cells += [f"{found.evidence.needed:.1f}", f"{found.evidence.bound:.1f}", f"{found.evidence.left:.0e}"]
            cells += [f"{middle - start:.1f}", f"{100 * scored.value:.1f}", f"{end - middle:.1f}"]
            print(f"| {' | '.join(map(str, [*cells, f'{needed:.1f}', f'{bound:.1f}']))} |", flush=True)


if __name__ == "__main__":
    main()
