"""White-box membership, at sizes and seeds that had no part in its design, beside what useless scores would find.

    python bench/span_membership.py                    digits, 50, 100 and 500 members among 4,000 others, five draws each
    python bench/span_membership.py --members 500 --draws 3
    python bench/span_membership.py --data cifar-vehicles-animals
    python bench/span_membership.py --false-claims     candidates of which none is a member, of networks trained in many ways

Networks d-1000-1000-1, trained to a mean loss of 4e-6 on pictures whose mean is subtracted and not told to the attacker.
Needs the full sets in the folder that DIVULGE_DATA names. |f| is how far the network decides a candidate, the score of the
paper's rule; `kinks` and `span` are the plain scores at one level each, `both` is the attack as it is.
"""

import argparse
import time

import numpy as np

from divulge import Candidates, TrainingData, datasets, victims
from divulge.attacks import SpanMembership
from divulge.contract import Context
from divulge.solvers.shadow import span_scores
from divulge.solvers.statistics import roc

FIRST_SEED = 1000
LEVEL = 0.001
STRANGERS = 4000
TRAININGS = {
    "descent, 2 hidden layers": {"hidden": [300, 300]},
    "descent, 1 hidden layer": {"hidden": [300]},
    "weight decay": {"hidden": [300], "method": "decay"},
    "torch's own start": {"hidden": [300], "first": "standard"},
    "batches": {"hidden": [300], "batch": 16},
    "biases in all layers": {"hidden": [300, 300], "biases": True},
    "not centred": {"hidden": [300], "centred": False},
    "noise on the weights": {"hidden": [300], "noise_on_weights": 0.01},
    "three digits": {"hidden": [300], "digits": 3},
}


def victim(name, members, seed, **settings):
    data = datasets.load(name, samples=members, seed=seed, full=True)
    settings = {"hidden": [1000, 1000], "mean_known": False, "single": members >= 500, **settings}
    made = victims.make("margin", data.X, data.y, np.random.default_rng(seed), shape=data.shape, **settings)
    return made.held["network"], data


def found(scores, members):
    at = roc.tpr_at(scores[:members], scores[members:], LEVEL)
    return at.tpr if at else float("nan")


def table(name, sizes, draws):
    print(
        f"{'members':>8} {'seed':>5} {'|f|':>6} {'kinks':>6} {'span':>6} {'both':>6}  interval        called right/wrong  s"
    )
    for members in sizes:
        rows = []
        for seed in range(FIRST_SEED, FIRST_SEED + draws):
            network, data = victim(name, members, seed)
            X = np.concatenate([data.X, data.X_test[:STRANGERS]])
            kinks = span_scores.kinks(network.layers, X.astype(float), X.mean(axis=0))[0]
            plain = span_scores.left(network.layers, X.astype(float), None, [1e-7])[0]
            far = np.abs(network.predict(X - X.mean(axis=0))[:, 0])
            start = time.perf_counter()
            finding = SpanMembership()(
                network,
                Candidates(X, shape=data.shape),
                truth={"training_data": TrainingData(data.X)},
                context=Context(seed),
            )
            seconds = time.perf_counter() - start
            score = finding.scores["TPR at 0.1 % FPR"]
            rows.append((found(far, members), found(kinks, members), found(plain, members), score.value))
            called = finding.loot.decisions
            low, high = score.interval
            print(
                f"{members:8d} {seed:5d} " + " ".join(f"{value:6.3f}" for value in rows[-1]) + f"  {low:.3f} to {high:.3f}"
                f"  {called[:members].mean():7.3f} {called[members:].mean():7.4f}  {seconds:5.1f}",
                flush=True,
            )
        print(f"{members:8d}  mean " + " ".join(f"{value:6.3f}" for value in np.mean(rows, axis=0)))


def false_claims(draws):
    print(f"{'training':28} {'claims':>7}  called, of {STRANGERS} candidates that are no members")
    for name, settings in TRAININGS.items():
        called, claims = [], 0
        for seed in range(FIRST_SEED, FIRST_SEED + draws):
            network, data = victim("mnist-odd-even", 100, seed, **settings)
            asked = Candidates(data.X_test[:STRANGERS], shape=data.shape)
            finding = SpanMembership()(network, asked, context=Context(seed))
            claims += finding.verdict.value == "leak"
            called.append(0 if finding.loot is None else int(finding.loot.decisions.sum()))
        print(f"{name:28} {claims:3d}/{draws:<3d}  {called}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist-odd-even")
    parser.add_argument("--members", type=int, nargs="+", default=[50, 100, 500])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--false-claims", action="store_true")
    chosen = parser.parse_args()
    if chosen.false_claims:
        false_claims(chosen.draws)
    else:
        table(chosen.data, chosen.members, chosen.draws)


if __name__ == "__main__":
    main()
