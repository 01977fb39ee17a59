"""Images claimed of exact spans of 200, and of small ones beside them, on draws that chose nothing.

    python bench/large_spans.py                     200 digits and 200 photographs, three draws from seed 9400
    python bench/large_spans.py --case small        40 digits, 50 photographs, 50 clothes
    python bench/large_spans.py --case "200 digits" --draws 5

Every network has torch's own start and one or two hidden layers, and is trained by SGD with momentum until weight decay has
left e^-9 of its start. What is claimed is matched with training images one to one; the null is as many images that were not
trained on, or the best of three other useless attacks. DIVULGE_DATA has to be set.
"""

import argparse
import time

import numpy as np
from zoo import Kind, network, pictures

from divulge import Candidates, Context
from divulge.attacks import SpanReconstruction
from divulge.solvers.shared import similarity

FIRST_SEED = 9400
DECAYED = {"lr": 0.1, "momentum": 0.9, "weight_decay": 3e-3, "epochs": 3000}
LARGE = {
    "200 digits": Kind(count=200, train={"hidden": (500,), **DECAYED}),
    "200 photographs": Kind("cifar10", 200, train={"hidden": (500,), **DECAYED}),
}
SMALL = {
    "40 digits": Kind(count=40, train={"hidden": (300,), **DECAYED}),
    "50 photographs": Kind("cifar10", 50, train={"hidden": (300,), **DECAYED}),
    "50 clothes": Kind("fashion", 50, train={"hidden": (300,), **DECAYED}),
}
OTHER = {
    "200 digits, two layers": Kind(count=200, train={"hidden": (500, 500), **DECAYED}),
    "200 photographs, two layers": Kind("cifar10", 200, train={"hidden": (500, 500), **DECAYED}),
    "200 clothes": Kind("fashion", 200, train={"hidden": (500,), **DECAYED}),
    "200 digits, Adam": Kind(count=200, how="adam", train={"hidden": (500,), "lr": 1e-3, "epochs": 500}),
}
RIGHT = 0.9


def row(name, kind, seed):
    held, data = network(kind, seed)
    others = pictures(kind.data, kind.count, seed + 100_000)[0]
    trained = data.X.astype(float)
    fresh = others[(similarity.ncc(others, trained).max(axis=1) < 0.9999)]
    began = time.time(), time.process_time()
    truth = {"training_data": data, "candidates": Candidates(fresh)}
    finding = SpanReconstruction()(held, context=Context(seed), truth=truth)
    took = time.time() - began[0], time.process_time() - began[1]
    claimed = finding.loot.X if finding.loot else np.zeros((0, held.dimension))
    right = int(np.sum(similarity.ncc(claimed, trained).max(axis=1) > RIGHT)) if len(claimed) else 0
    score = finding.scores.get("images at NCC > 0.9")
    back = f"{score.value:.0f} | {score.null:.0f}" if score else "0 | –"
    certified = int(np.sum(getattr(finding.evidence, "certified", 0)))
    cells = f"{finding.verdict.value} | {back} | {right} of {len(claimed)} | {certified} | {took[0]:.0f} ({took[1]:.0f})"
    print(f"| {name} | {seed} | {cells} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="large", help="large, small, other, or one of their names")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    given = parser.parse_args()
    groups = {"large": LARGE, "small": SMALL, "other": OTHER}
    everything = {**LARGE, **SMALL, **OTHER}
    kinds = groups.get(given.case) or {given.case: everything[given.case]}
    print("| network | seed | said | images back | null | claims right | certified | seconds (of a core) |")
    print("|---|---|---|---|---|---|---|---|")
    for seed in range(given.first, given.first + given.draws):
        for name, kind in kinds.items():
            row(name, kind, seed)


if __name__ == "__main__":
    main()
