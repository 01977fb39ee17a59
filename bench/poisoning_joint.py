"""All contributed points refined at every level, beside batches after which earlier points stay, and one batch of all.

    DIVULGE_DATA=folder python bench/poisoning_joint.py [--seeds 2000 2001 2002] [--pairs "MNIST 0 or 8"] [--points 85]
    DIVULGE_DATA=folder python bench/poisoning_joint.py --ways jointly "jointly, validation" "one batch"
    DIVULGE_DATA=folder python bench/poisoning_joint.py --retuned      what re-tuning the penalty leaves, by pair

512 training and 171 validation points, each seed another draw of all of them; logistic regression trained to the end. The
penalty is tuned on clean data by cross-validation (λ from −8 to 1), or set by --strength. Batches
maximise the validation loss, as published; jointly, the loss on all clean points, unless a way says otherwise. None sees
test points. Processor seconds, one thread. The pairs and seeds here tuned nothing.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from divulge import Candidates, Context, Pipeline, datasets
from divulge.attacks import Poisoning
from divulge.contract import Truth

PAIRS = {
    "MNIST 0 or 8": ("mnist", [0, 8]),
    "MNIST 3 or 5": ("mnist", [3, 5]),
    "MNIST 4 or 9": ("mnist", [4, 9]),
    "Fashion sandal or boot": ("fashion-mnist", [5, 9]),
    "Fashion pullover or coat": ("fashion-mnist", [2, 4]),
}
WAYS = {
    "batches of 17": {"joint": False, "aim": "validation"},
    "jointly": {},
    "batches of 17, all clean points": {"joint": False},
    "jointly, validation": {"aim": "validation"},
    "one batch": {"joint": False, "aim": "validation", "batch": 0},
}


def drawn(pair, seed):
    name, only = PAIRS[pair]
    data = datasets.load(name, samples=683, seed=seed, full=bool(os.environ.get("DIVULGE_DATA")), only=only)
    held = Pipeline(data.X[:512], data.y[:512], data.X[512:], data.y[512:], shape=data.shape, low=0.0, high=1.0)
    return held, Truth({"candidates": Candidates(data.X_test, data.y_test)})


def poisoning(given, **more):
    tuned = {"hyperparameter": "cross-validated"}
    if given.strength is not None:
        tuned = {"hyperparameter": "fixed", "strength": given.strength}
    more["batch"] = more.get("batch", 17) or given.points
    return Poisoning(**{"points": given.points, "clean_bounds": (-8.0, 1.0), **tuned, **more})


def loss(held, models):
    """Of the model with all points, on the validation points."""
    scores = held.X_val @ models.W[0, -1, 0] + models.b[0, -1, 0]
    return np.logaddexp(0, np.where(held.y_val == held.y.max(), -scores, scores)).mean()


def compared(given):
    columns = ("pair", "seed", "λ", "way", "validation loss", "test error, %", "wrong labels only, %", "seconds", "share")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    together = {}
    for pair in given.pairs:
        for seed in given.seeds:
            held, truth = drawn(pair, seed)
            reached = {}
            for way in given.ways:
                attack = poisoning(given, alone=True, **WAYS[way])
                start = time.process_time()
                blind = attack(held, context=Context(seed))
                seconds = time.process_time() - start
                error = attack.score(blind, held, truth).scores["test error"]
                models = next(iter(blind.evidence.settings.values())).poisoned
                reached[way] = loss(held, models), error.value, seconds
                share = seconds / reached["batches of 17"][2]
                row = [pair, seed, f"{models.strengths[0, -1, 0]:.1f}", way, f"{reached[way][0]:.3f}"]
                row += [f"{100 * error.value:.1f}", f"{100 * error.null:.1f}", f"{seconds:.1f}", f"{share:.2f}"]
                print(f"| {' | '.join(map(str, row))} |", flush=True)
            before = np.array(reached.pop("batches of 17"))
            for way, values in reached.items():
                together.setdefault(way, []).append([values[0] / before[0], values[1] - before[1], values[2] / before[2]])
    for way, rows in together.items():
        losses, errors, shares = np.transpose(rows)
        print(f"\n{way}, in batches of 17: seconds {min(shares):.2f} to {max(shares):.2f}, median {np.median(shares):.2f}")
        print(f"validation loss {min(losses):.3f} to {max(losses):.3f}, higher in {sum(losses > 1)} of {len(losses)}")
        print(f"test error {100 * min(errors):+.1f} to {100 * max(errors):+.1f} points, higher in {sum(errors > 0)}")


def retuned(given):
    """Test error with the penalty tuned on clean data and re-tuned, and their ratio; in brackets wrong labels only."""
    settings = ("cross-validated", "learned")
    print("| pair | clean, % | tuned on clean data, % | re-tuned, % | ratio | by draw |\n|---|---|---|---|---|---|")
    for pair in given.pairs:
        rows = []
        for seed in given.seeds:
            (held, truth), row = drawn(pair, seed), []
            for setting in settings:
                attack = poisoning(given, alone=True, hyperparameter=setting)
                scored = attack.score(attack(held, context=Context(seed)), held, truth)
                curve = next(iter(scored.figures[0].series.values()))[1]
                row += [curve[0], curve[-1], 100 * scored.scores["test error"].null]
            rows.append(row)
        clean, tuned, plain, _, answered, plain_answered = np.mean(rows, axis=0)
        each = ", ".join(f"{row[4] / row[1]:.2f}" for row in rows)
        errors = f"{clean:.1f} | {tuned:.1f} ({plain:.1f}) | {answered:.1f} ({plain_answered:.1f})"
        print(f"| {pair} | {errors} | {answered / tuned:.2f} | {each} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2000, 2001, 2002])
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS), choices=list(PAIRS), metavar="PAIR")
    parser.add_argument("--points", type=int, default=85)
    parser.add_argument("--strength", type=float, help="a fixed λ in place of the one tuned on clean data")
    parser.add_argument(
        "--ways", nargs="+", default=list(WAYS)[:2], choices=list(WAYS), metavar="WAY", help="the first always"
    )
    parser.add_argument("--retuned", action="store_true")
    given = parser.parse_args()
    given.ways = [way for way in WAYS if way in (*list(WAYS)[:1], *given.ways)]
    (retuned if given.retuned else compared)(given)


if __name__ == "__main__":
    main()
