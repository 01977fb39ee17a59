"""Fit the confidence of span candidates, and print its numbers as they stand in `solvers/images/confidence.py`.

    python bench/fit_confidence.py                two networks of each kind, from seed 0; twenty minutes on one core
    python bench/fit_confidence.py --draws 1      one of each
    python bench/fit_confidence.py --keep FOLDER  networks that were searched are found again there

Every network is trained on known images and searched as `span-reconstruction` does. A candidate is right where its NCC with
a training image is above 0.9; what is fitted is a logistic regression of that on the measures, every kind with the weight of
the root of its candidates. Reliability is measured with each kind left out of the fit in turn. bench/claims.py measures it
again, on kinds and draws that played no part here. Photographs need DIVULGE_DATA.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from zoo import Kind, network

from divulge.attacks.reconstruction import claims
from divulge.solvers.images.confidence import INTERCEPT, UNBOXED, UNBOXED_INTERCEPT, WEIGHTS
from divulge.solvers.images.span import span
from divulge.solvers.images.span_search import SpanSearch
from divulge.solvers.shared import similarity

STARTS = 4  # of a search, as the attack has them
RIGHT = 0.9
LEVELS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)
MOMENTUM = {"lr": 0.1, "momentum": 0.9}
DECAYED = {**MOMENTUM, "weight_decay": 3e-3, "epochs": 3000}
MARGIN = {"how": "margin", "classes": 2}
KINDS = {
    # Trained to the margin from a small start.
    "digits": Kind(**MARGIN, train={"hidden": (300,)}),
    "digits, two hidden layers": Kind(count=50, **MARGIN, train={"hidden": (300, 300)}),
    "digits, larger start": Kind(**MARGIN, train={"hidden": (300,), "first": 1e-3}),
    "digits, L-BFGS": Kind(
        **MARGIN, train={"hidden": (300,), "method": "decay", "decay": 1e-4, "epochs": 300, "first": "standard"}
    ),
    "clothes": Kind("fashion", **MARGIN, train={"hidden": (300,)}),
    "photographs": Kind("cifar10", **MARGIN, train={"hidden": (300, 300)}),
    "photographs of two kinds": Kind("cifar10", 60, **MARGIN, train={"hidden": (300,), "first": 3e-4}),
    "leaves, larger start": Kind("leaves", 40, **MARGIN, train={"hidden": (300,), "first": 1e-3}),
    "strokes, larger start": Kind("strokes", 60, **MARGIN, train={"hidden": (200, 200), "first": 5e-4}),
    # Torch's own start, weight decay.
    "digits, decay": Kind(count=50, train={"hidden": (300, 300), **DECAYED}),
    "clothes, decay": Kind("fashion", 50, train={"hidden": (300, 300), **DECAYED}),
    "digits as they are, decay": Kind(count=40, centred=False, train={"hidden": (200,), **DECAYED}),
    "photographs, some decay": Kind(
        "cifar10", 50, train={"hidden": (300,), **MOMENTUM, "weight_decay": 6e-4, "epochs": 5000}
    ),
    "photographs, decay": Kind("cifar10", 50, train={"hidden": (300, 300), **DECAYED}),
    "digits, some decay": Kind(count=50, train={"hidden": (300, 300), **MOMENTUM, "weight_decay": 5e-4, "epochs": 6000}),
    "digits, batches": Kind(
        count=60,
        classes=2,
        train={"hidden": (200,), "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-3, "epochs": 800, "batch": 8},
    ),
    "leaves, decay": Kind("leaves", 50, train={"hidden": (300,), **DECAYED}),
    "strokes, decay": Kind("strokes", 50, train={"hidden": (300,), **DECAYED}),
    "grey photographs, decay": Kind("grey-cifar10", 80, train={"hidden": (300,), **DECAYED}),
    "inverted digits, decay": Kind("inverted-mnist", 50, train={"hidden": (300,), **DECAYED}),
    "blurred digits, decay": Kind("blurred-mnist", 50, train={"hidden": (300,), **DECAYED}),
    "200 digits, decay": Kind(count=200, train={"hidden": (500,), **DECAYED}),
    "200 clothes, decay": Kind("fashion", 200, train={"hidden": (500,), **DECAYED}),
    # The start known.
    "100 digits, start known": Kind(count=100, known=True, train={"hidden": (500,), **MOMENTUM}),
    "100 clothes, start known": Kind("fashion", 100, known=True, train={"hidden": (500,), **MOMENTUM}),
    "100 photographs, start known": Kind("cifar10", 100, known=True, train={"hidden": (500,), **MOMENTUM}),
    "200 digits, start known": Kind(count=200, known=True, train={"hidden": (500,), **MOMENTUM}),
    # Smaller starts, no decay.
    "digits, start 0.01": Kind(train={"hidden": (300,), **MOMENTUM, "start": 0.01, "epochs": 2000}),
    "100 digits, start 0.1": Kind(count=100, classes=2, train={"hidden": (200,), **MOMENTUM, "start": 0.1}),
    "100 digits, start 0.3": Kind(count=100, classes=2, train={"hidden": (200,), **MOMENTUM, "start": 0.3}),
    # Nothing to find.
    "Adam": Kind(how="adam", train={"hidden": (300,), "lr": 1e-3, "epochs": 500}),
    "Adam, small start": Kind("fashion", how="adam", train={"hidden": (300,), "start": 0.01, "lr": 1e-3, "epochs": 600}),
    "Adam, start known": Kind(how="adam", classes=2, known=True, train={"hidden": (300,), "lr": 1e-3, "epochs": 600}),
    "AdamW, photographs": Kind(
        "cifar10", 60, how="adamw", train={"hidden": (200,), "lr": 1e-3, "weight_decay": 0.1, "epochs": 300}
    ),
    "Adam, 2,000 clothes": Kind(
        "fashion", 2000, how="adam", train={"hidden": (128,), "lr": 1e-3, "epochs": 30, "batch": 64}
    ),
    "2,000 digits, decay": Kind(
        count=2000, train={"hidden": (200,), **MOMENTUM, "weight_decay": 5e-3, "epochs": 40, "batch": 64}
    ),
}


def candidates(kind, seed):
    """Measures (k, 4) of what a search of one network comes to, and which candidates are right (k,)."""
    held, data = network(kind, seed)
    W, b = held.layers[0]
    seen, rng = span(W, b), np.random.default_rng(seed)
    if seen.rank < 2:
        return np.zeros((0, len(WEIGHTS))), np.zeros(0, dtype=bool)
    search = SpanSearch(
        pictures=seen.pictures(held.mean),
        bias=seen.bias if seen.has_bias else None,
        uncertainty=seen.uncertainty,
        shape=held.shape,
        box=(0.0, 1.0),
        mean=held.mean,
        starts=STARTS,
        once=lambda name, compute: compute(rng),
        hidden=seen.hidden,
    )
    search.run(rng)
    rows = search.attempts[-1]
    shown = ~search.plain(rows)
    return search.features[shown], similarity.ncc(search.shown(rows[shown])[0], data.X).max(axis=1) > RIGHT


def kept(folder, name, kind, seed):
    """The same, kept in a folder where there is one."""
    if folder is None:
        return candidates(kind, seed)
    path = Path(folder) / f"{name} {seed}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        measures, right = candidates(kind, seed)
        np.savez(path, measures=measures, right=right)
    with np.load(path) as found:
        return found["measures"], found["right"]


def curve(confidence, right):
    """How many of the candidates between two levels of confidence are right, and how many should be."""
    print("| confidence | candidates | expected right | right |\n|---|---|---|---|")
    for low, high in pairwise(LEVELS):
        some = (confidence >= low) & (confidence < high + (high == 1))
        if some.any():
            print(f"| {low:g} to {high:g} | {some.sum()} | {confidence[some].mean():.1%} | {right[some].mean():.1%} |")


def fitted(A, right, weight, used):
    """Weights, 0 for measures that are not used, and the intercept."""
    centre, width = A.mean(axis=0), A.std(axis=0) + 1e-9
    found = LogisticRegression(max_iter=1000).fit(((A - centre) / width)[:, used], right, sample_weight=weight)
    weights = np.zeros(A.shape[1])
    weights[used] = found.coef_[0] / width[used]
    return weights, float(found.intercept_[0] - weights @ centre)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2, help="networks of each kind")
    parser.add_argument("--keep", help="a folder")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    features, right, kinds, networks = [], [], [], []
    for name in given.kinds:
        for seed in range(given.first, given.first + given.draws):
            one, good = kept(given.keep, name, KINDS[name], seed)
            features, right = [*features, one], [*right, good]
            kinds, networks = [*kinds, *[name] * len(good)], [*networks, *[f"{name} {seed}"] * len(good)]
        print(
            f"{name}: {sum(map(np.sum, right[-given.draws :]))} of {sum(map(len, right[-given.draws :]))} right", flush=True
        )
    A, y, kinds, networks = np.concatenate(features), np.concatenate(right), np.array(kinds), np.array(networks)
    weight = np.array([1 / np.sqrt(np.sum(kinds == kind)) for kind in kinds])
    weight /= weight.mean()
    print(f"\n{len(set(networks))} networks of {len(given.kinds)} kinds, {len(y)} candidates, {y.mean():.0%} right")
    for title, used, stands in (
        ("WEIGHTS, INTERCEPT", [0, 1, 2, 3], (WEIGHTS, INTERCEPT)),
        ("UNBOXED, UNBOXED_INTERCEPT", [0, 2, 3], (UNBOXED, UNBOXED_INTERCEPT)),
    ):
        blind = np.zeros(len(y))
        for kind in np.unique(kinds):
            rest = kinds != kind
            weights, shift = fitted(A[rest], y[rest], weight[rest], used)
            blind[~rest] = expit(A[~rest] @ weights + shift)
        as_it_stands = expit(A @ np.array(stands[0]) + stands[1])
        for name, confidence in (("as it stands", as_it_stands), ("kind left out", blind)):
            said = log_loss(y, confidence, sample_weight=weight), roc_auc_score(y, confidence)
            places = [np.flatnonzero(networks == one) for one in sorted(set(networks))]
            taken = np.concatenate([some[claims.chosen(confidence[some])] for some in places])
            print(
                f"\n{name}: log-loss {said[0]:.3f}, area under the curve {said[1]:.4f}; claimed {len(taken)}, of which "
                f"{y[taken].mean():.1%} right, {confidence[taken].mean():.1%} expected\n"
            )
            curve(confidence, y)
        worst = {kind: np.intersect1d(np.flatnonzero(kinds == kind), taken) for kind in given.kinds}
        print(
            "\n" + "; ".join(f"{kind} {y[one].sum()} of {len(one)} ({blind[one].sum():.0f})" for kind, one in worst.items())
        )
        weights, shift = fitted(A, y, weight, used)
        print(f"\n{title} = ({', '.join(f'{one:.2f}' for one in weights)}), {shift:.2f}")


if __name__ == "__main__":
    main()
