"""Are images claimed where there are none, and are those right that are claimed? On kinds of networks that chose nothing.

    python bench/claims.py                  both questions, from seed 7000; an hour on one core
    python bench/claims.py --only nothing   networks with nothing to find: a leak is false where half of its claims are wrong
    python bench/claims.py --only found     networks that show their images
    python bench/claims.py --only kkt       the same by kkt-reconstruction, where it runs unasked and where it does not

Nothing may be tuned on this file: whoever changes a threshold because of it writes new kinds. bench/fit_confidence.py has
the kinds that chose the confidence. Photographs need DIVULGE_DATA.
"""

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_friedman1
from sklearn.neural_network import MLPClassifier, MLPRegressor
from zoo import Kind, network

from divulge import Context, TrainingData, Weights
from divulge.attacks import KktReconstruction, SpanReconstruction
from divulge.solvers.margin import max_margin
from divulge.solvers.shared import similarity
from divulge.victims import ordinary

FIRST_SEED = 7000
RIGHT = 0.9
MOMENTUM = {"lr": 0.1, "momentum": 0.9}
DECAYED = {**MOMENTUM, "weight_decay": 3e-3, "epochs": 3000}
ADAM = {"lr": 1e-3}


def by_sklearn(estimator, load, divide):
    """A network of scikit-learn's on three quarters of a table of its own."""

    def make(seed):
        X, y = load(return_X_y=True)
        X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9) if divide is None else X / divide
        order = np.random.default_rng(seed).permutation(len(X))[: 3 * len(X) // 4]
        fitted = estimator(seed).fit(X[order], y[order])
        layers = tuple((W.T.copy(), b) for W, b in zip(fitted.coefs_, fitted.intercepts_, strict=True))
        return Weights(layers, shape=(8, 8) if load is load_digits else None), TrainingData(X[order])

    return make


def odd(estimator):
    def make(seed):
        built = estimator(seed)
        fit = built.fit
        built.fit = lambda X, y: fit(X, y % 2)
        return built

    return make


def untrained(first, sizes):
    def make(seed):
        layers = max_margin.initial(np.random.default_rng(seed), sizes, first=first, biases=True)
        return Weights(tuple(layers), shape=(28, 28)), None

    return make


def regression(seed):
    X, y = make_friedman1(400, 20, noise=1, random_state=seed)
    rng = np.random.default_rng(seed)
    trained = ordinary.train(X, (y - y.mean()) / y.std(), rng, hidden=(64, 64), optimiser="adam", lr=1e-3, epochs=300)
    return Weights(tuple(trained.layers)), TrainingData(X)


NOTHING = {
    "Adam, 1,000 digits, 256-128": Kind(
        count=1000, how="adam", train={"hidden": (256, 128), **ADAM, "epochs": 20, "batch": 64}
    ),
    "SGD and dropout, 3,000 clothes": Kind(
        "fashion", 3000, train={"hidden": (256,), **MOMENTUM, "epochs": 15, "batch": 128, "dropout": 0.5}
    ),
    "AdamW, 2,000 photographs": Kind(
        "cifar10", 2000, how="adamw", train={"hidden": (256,), **ADAM, "weight_decay": 0.01, "epochs": 15, "batch": 64}
    ),
    "weight decay 1e-3, 5,000 digits": Kind(
        count=5000, train={"hidden": (128,), **MOMENTUM, "weight_decay": 1e-3, "epochs": 10, "batch": 128}
    ),
    "RMSprop, 50 digits": Kind(count=50, how="rmsprop", train={"hidden": (200,), **ADAM, "epochs": 300}),
    "Adam from 0.03, 100 digits": Kind(
        count=100, how="adam", train={"hidden": (200,), **ADAM, "start": 0.03, "epochs": 400}
    ),
    "Adam, start known, 80 clothes": Kind(
        "fashion", 80, "adam", known=True, train={"hidden": (300,), **ADAM, "epochs": 300}
    ),
    "Adam, start known, 50 photographs": Kind(
        "cifar10", 50, "adam", known=True, train={"hidden": (150,), **ADAM, "epochs": 200}
    ),
    "start 1, 60 digits": Kind(count=60, train={"hidden": (300,), **MOMENTUM, "epochs": 1000}),
    "start 0.4, 80 clothes": Kind("fashion", 80, train={"hidden": (250,), **MOMENTUM, "start": 0.4, "epochs": 800}),
    "start 0.7, 40 digits": Kind(classes=2, train={"hidden": (200,), **MOMENTUM, "start": 0.7, "epochs": 1500}),
    "start 0.3, 100 digits": Kind(count=100, classes=2, train={"hidden": (200,), **MOMENTUM, "start": 0.3, "epochs": 500}),
    "start 0.1, 300 clothes": Kind("fashion", 300, train={"hidden": (100,), **MOMENTUM, "start": 0.1, "epochs": 300}),
    "untrained": untrained(None, [784, 200, 10]),
    "untrained, small": untrained(1e-3, [784, 100, 100, 1]),
    "MLPClassifier, digits 8 x 8": by_sklearn(lambda seed: MLPClassifier((100,), random_state=seed), load_digits, 16),
    "MLPClassifier, alpha 1e-2, odd or even": by_sklearn(
        odd(lambda seed: MLPClassifier((200,), alpha=1e-2, random_state=seed, max_iter=400)), load_digits, 16
    ),
    "MLPClassifier, L-BFGS, a table": by_sklearn(
        lambda seed: MLPClassifier((50,), alpha=1e-3, solver="lbfgs", random_state=seed, max_iter=500),
        load_breast_cancer,
        None,
    ),
    "MLPRegressor, a table": by_sklearn(
        lambda seed: MLPRegressor(hidden_layer_sizes=(100,), random_state=seed, max_iter=500), load_diabetes, None
    ),
    "regression, a table": regression,
    "Adam, start 0.003, 40 digits": Kind(
        classes=2, how="adam", train={"hidden": (300,), **ADAM, "start": 0.003, "epochs": 1000}
    ),
}
FOUND = {
    "two-tone digits, margin, 200-200": Kind("two_tone-mnist", 30, "margin", 2, train={"hidden": (200, 200)}),
    "80 clothes, decay, batches": Kind(
        "fashion",
        80,
        train={"hidden": (250,), "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-3, "epochs": 1000, "batch": 20},
    ),
    "120 photographs, start known": Kind("cifar10", 120, known=True, train={"hidden": (400,), **MOMENTUM, "epochs": 600}),
    "small digits 14 x 14, decay": Kind("small-mnist", 25, train={"hidden": (200,), **DECAYED}),
    "faint clothes, decay": Kind("faint-fashion", 40, train={"hidden": (200, 100), **DECAYED}),
    "150 digits, start known": Kind(count=150, known=True, train={"hidden": (400,), "lr": 0.3, "epochs": 2000}),
    "grey leaves, margin": Kind("grey-leaves", 60, "margin", 2, train={"hidden": (250,), "first": 2e-4}),
    "photographs, margin": Kind("cifar10", 70, "margin", 2, train={"hidden": (400,)}),
    "digits as they are, decay": Kind(count=60, centred=False, train={"hidden": (300,), **DECAYED}),
    "mean not told, margin": Kind(count=30, how="margin", classes=2, told=False, train={"hidden": (300,)}),
    "mean not told, clothes, decay": Kind("fashion", 45, told=False, train={"hidden": (200,), **DECAYED}),
    "plain descent from 0.01": Kind(count=50, train={"hidden": (300,), "lr": 0.2, "start": 0.01, "epochs": 4000}),
    "single precision, decay": Kind(count=50, train={"hidden": (300, 300), **DECAYED, "single": True}),
    "grey photographs, margin, three layers": Kind("grey-cifar10", 40, "margin", 2, train={"hidden": (200, 200, 100)}),
    "clothes, less decay": Kind("fashion", 40, train={"hidden": (200,), **MOMENTUM, "weight_decay": 1e-3, "epochs": 4000}),
}
LARGE = {
    "250 digits, margin": Kind(count=250, how="margin", classes=2, train={"hidden": (600, 600), "single": True}),
    "250 clothes, decay": Kind("fashion", 250, train={"hidden": (600,), **MOMENTUM, "weight_decay": 3e-3, "epochs": 2000}),
}


def drawn(kind, seed):
    return network(kind, seed) if isinstance(kind, Kind) else kind(seed)


def claimed(attack, held, data, seed):
    """Verdict, and of what is claimed: how many, how many right, how many expected to be."""
    finding = attack(held, context=Context(seed))
    if finding.verdict.value != "leak":
        return finding, 0, 0, 0.0
    X = finding.loot.X
    right = 0 if data is None else int(np.sum(similarity.ncc(X, data.X.astype(X.dtype)).max(axis=1) > RIGHT))
    return finding, len(X), right, float(getattr(finding.evidence, "expected", np.nan))


def table(kinds, attack, draws, first, rows):
    print("| kind | verdicts | claimed | right | expected |\n|---|---|---|---|---|")
    for name, kind in kinds.items():
        found = [claimed(attack, *drawn(kind, seed), seed) for seed in range(first, first + draws)]
        verdicts = ", ".join(one[0].verdict.value for one in found)
        sums = [sum(one[place] for one in found) for place in (1, 2, 3)]
        print(f"| {name} | {verdicts} | {sums[0]} | {sums[1]} | {sums[2]:.1f} |", flush=True)
        rows += found


def report(name, rows):
    leaks = [row for row in rows if row[0].verdict.value == "leak"]
    false = sum(2 * row[2] < row[1] for row in leaks)
    many, right, expected = (sum(row[place] for row in leaks) for place in (1, 2, 3))
    print(
        f"\n{name}: {len(rows)} networks, {len(leaks)} leaks, {false} of them false; {right} of {many} claims right", end=""
    )
    print(f" ({right / many:.1%}), {expected / many:.1%} expected.\n" if many else ".\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("nothing", "found", "kkt"))
    parser.add_argument("--draws", type=int, help="networks of each kind: 3 with nothing to find, 4 of the others")
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.only in (None, "nothing"):
        for attack in (SpanReconstruction(), KktReconstruction()):
            rows: list = []
            table(NOTHING, attack, given.draws or 3, given.first, rows)
            report(f"{attack.name}, nothing to find", rows)
    if given.only in (None, "found"):
        rows = []
        table(FOUND, SpanReconstruction(), given.draws or 4, given.first, rows)
        report("span-reconstruction, images to find", rows)
    if given.only in (None, "kkt"):
        rows = []
        few = {name: kind for name, kind in FOUND.items() if kind.count <= 80}
        table(few, KktReconstruction(fewest=1), given.draws or 2, given.first, rows)
        table(LARGE, KktReconstruction(), given.draws or 2, given.first, rows)
        report("kkt-reconstruction, images to find", rows)


if __name__ == "__main__":
    main()
