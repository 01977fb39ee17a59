"""What an owner can do against membership tests, beside what it costs in accuracy.

    python bench/membership_defences.py                       every defence, three draws
    python bench/membership_defences.py --only decay DP-SGD   those whose name holds one of the words
    python bench/membership_defences.py --draws 5

Answers: margin-membership, the margin not known, asks two-layer networks with 1,000 units about the 20 points of a sphere in
1,000 dimensions that they were trained on, and 4,000 others; labels are coins, so accuracy is that on the training points.
Weights: span-membership, the mean digit not known, reads networks 784-300-1 for odd or even digits of the embedded MNIST
sample, trained on 100; accuracy is on the 2,000 test digits, which are the others. Every draw has points and starting
weights of its own. Claimed: in how many draws the attack called a leak before the truth was looked at.
"""

import argparse
import time

import numpy as np
from scipy.special import expit

from divulge import Candidates, Predictions, TrainingData, datasets, victims
from divulge.attacks import MarginMembership, SpanMembership
from divulge.contract import Context
from divulge.defences import defended

FIRST_SEED = 3000
PRIVATE = {"method": "private", "batch": 64, "rate": 0.2, "clip": 1.0, "epochs": 100}


def trainings():
    """Name -> settings of the recipe, for both attacks."""
    yield "none", {}
    for target in (0.3, 0.1, 1e-2, 1e-3):
        yield f"stop at loss {target:g}", {"target": target}
    for decay in (1e-3, 1e-2, 1e-1):
        yield f"weight decay {decay:g}", {"method": "decay", "decay": decay}
    for noise in (0.1, 1.0, 4.0):
        yield f"DP-SGD noise {noise:g}", {**PRIVATE, "noise": noise}
    yield "torch's own start", {"first": "standard"}


def answering():
    """Name -> what the API answers instead of the output."""
    yield "probabilities", lambda api: chances(api)
    for decimals in (2, 1, 0):
        yield (
            f"outputs to {decimals} decimals",
            lambda api, decimals=decimals: defended(api, "rounding", decimals=decimals),
        )
    for decimals in (6, 3, 2):
        yield (
            f"probabilities to {decimals} decimals",
            lambda api, decimals=decimals: defended(chances(api), "rounding", decimals=decimals),
        )
    yield "class alone", lambda api: defended(api, "label-only")


def chances(api):
    return Predictions(lambda X: expit(api.value(X)), api.dimension, f"{api.identity} as probabilities")


def by_answers(seed, settings, defence):
    data = datasets.load("sphere", samples=20, dimension=1000, test=4000, seed=seed)
    settings = {"hidden": [1000], "centred": False, "target": 1e-20, **settings}
    made = victims.make("margin", data.X, data.y, np.random.default_rng(seed), test=None, shape=None, **settings)
    network = made.held["network"]
    right = np.mean(np.sign(network.predict(data.X)[:, 0]) == data.y)
    asked = Candidates(np.concatenate([data.X, data.X_test]))
    truth = {"training_data": TrainingData(data.X, data.y), "weights": network}
    return right, MarginMembership()(defence(Predictions.of(network)), asked, truth=truth, context=Context(seed))


def by_weights(seed, settings, defence):
    data = datasets.load("mnist-odd-even", samples=100, seed=seed)
    settings = {"hidden": [300], "mean_known": False, **settings}
    made = victims.make("margin", data.X, data.y, np.random.default_rng(seed), test=None, shape=data.shape, **settings)
    network = made.held["network"]
    right = np.mean(np.sign(network.predict(data.X_test - data.X.mean(axis=0))[:, 0]) == data.y_test)
    asked = Candidates(np.concatenate([data.X, data.X_test]), shape=data.shape)
    return right, SpanMembership()(network, asked, truth={"training_data": TrainingData(data.X)}, context=Context(seed))


def shown(score):
    return "    –" if score is None else f"{score:5.3f}"


def table(title, attacked, cases, draws, only):
    print(f"\n{title}\n{'defence':30} accuracy  TPR@1%  TPR@0.1%   AUC    claimed  s")
    for name, settings, defence in cases:
        if only and not any(word in name for word in only):
            continue
        rows, claims, start = [], 0, time.perf_counter()
        for seed in range(FIRST_SEED, FIRST_SEED + draws):
            right, finding = attacked(seed, settings, defence)
            claims += finding.provenance.claimed
            scores = [finding.scores.get(name) for name in ("TPR at 1 % FPR", "TPR at 0.1 % FPR", "AUC")]
            rows.append([right, *(np.nan if score is None else score.value for score in scores)])
        means = [None if np.isnan(value) else value for value in np.mean(rows, axis=0)]
        seconds = (time.perf_counter() - start) / draws
        print(
            f"{name:30} {shown(means[0]):>8} {shown(means[1]):>7} {shown(means[2]):>8} {shown(means[3]):>7} "
            f"{claims:5d}/{draws} {seconds:6.1f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", nargs="+")
    chosen = parser.parse_args()
    plain = [(name, settings, lambda api: api) for name, settings in trainings()]
    answers = [(name, {}, defence) for name, defence in answering()]
    table("Answers: margin-membership", by_answers, [*plain, *answers], chosen.draws, chosen.only)
    table("Weights: span-membership", by_weights, plain, chosen.draws, chosen.only)


if __name__ == "__main__":
    main()
