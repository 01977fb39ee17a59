"""Whether membership attacks claim members where there are none to be told, on ordinary models. Nothing is tuned on it.

    python bench/false_members.py                     every kind, seeds 5000 to 5002
    python bench/false_members.py --seed 7000 --draws 1 --only adam
    python bench/false_members.py --kept              networks that do tell: of the members called, how many are claimed

Each model is trained as people do, and asked about twice: about candidates of which half are members, and about as many of
which none is. A leak is false where those called are not members more often than the others are (Fisher's exact test,
p < 0.01), and always where nobody is one. Models with weights are asked by both attacks, others by their answers alone.
Needs the full sets in the folder that DIVULGE_DATA names.
"""

import argparse
import time
from collections import Counter
from itertools import pairwise

import numpy as np
import torch
from scipy.stats import fisher_exact
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC, LinearSVC

from divulge import Candidates, Predictions, Weights, datasets, victims
from divulge.attacks import MarginMembership, SpanMembership
from divulge.contract import Context

FIRST_SEED = 5000
SURE = 0.01


def network(X, y, seed, hidden=(128,), *, epochs=60, adam=True, rate=None, start=1.0, dropout=0.0, decay=0.0, real=False):
    """A ReLU network as torch makes it, for classes or, with `real`, for numbers; `start` times torch's first layer."""
    torch.manual_seed(seed)
    outputs = 1 if real or len(np.unique(y)) == 2 else int(y.max()) + 1
    sizes, layers = [X.shape[1], *hidden, outputs], []
    for into, out in pairwise(sizes):
        layers += [torch.nn.Linear(into, out), torch.nn.ReLU(), torch.nn.Dropout(dropout)]
    model = torch.nn.Sequential(*layers[:-2])
    with torch.no_grad():
        model[0].weight *= start
        model[0].bias *= start
    rate = rate or (1e-3 if adam else 0.05)
    steps = (
        torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)
        if adam
        else torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=decay)
    )
    inputs = torch.tensor(X, dtype=torch.float32)
    wanted = torch.tensor(y, dtype=torch.float32 if outputs == 1 else torch.long)
    if real:
        wanted = (wanted - wanted.mean()) / wanted.std()
    loss = torch.nn.CrossEntropyLoss()
    if outputs == 1:
        loss = torch.nn.MSELoss() if real else torch.nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        for some in torch.randperm(len(inputs)).split(128):
            steps.zero_grad()
            answers = model(inputs[some])
            loss(answers[:, 0] if outputs == 1 else answers, wanted[some]).backward()
            steps.step()
    return Weights.of(model.eval().double())


def fitted(model, X, y, seed):
    """A scikit-learn model by what it answers, and its weights where it is a network."""
    model.fit(X, y)
    if isinstance(model, MLPClassifier | MLPRegressor):
        return Weights(tuple((W.T, b) for W, b in zip(model.coefs_, model.intercepts_, strict=True)))
    answer = getattr(model, "decision_function", None) or model.predict_proba
    return Predictions(lambda X: np.asarray(answer(X)).reshape(len(X), -1), X.shape[1])


def pictures(name, members):
    def drawn(seed):
        data = datasets.load(name, samples=members, seed=seed, full=True)
        order = np.random.default_rng(seed).permutation(len(data.X_test))
        return data.X, data.y, data.X_test[order[: 2 * members]], data.shape

    return drawn


def table(name, share=0.5):
    def drawn(seed):
        size = len(datasets.load(name).X)
        data = datasets.load(name, samples=int(share * size), seed=seed, standardised=True)
        return data.X, data.y, data.X_test, None

    return drawn


def blobs(classes, members, dimension):
    """Normal crowds, one a class, that overlap a little."""

    def drawn(seed):
        rng = np.random.default_rng(seed)
        centres, y = rng.normal(size=(classes, dimension)), rng.integers(classes, size=3 * members)
        y[:classes] = np.arange(classes)
        X = centres[y] + rng.normal(size=(3 * members, dimension))
        return X[:members], y[:members], X[members:], None

    return drawn


def noisy(drawn, share):
    def other(seed):
        X, y, others, shape = drawn(seed)
        rng = np.random.default_rng(seed)
        wrong = rng.random(len(y)) < share
        return X, np.where(wrong, rng.permutation(y), y), others, shape

    return other


def net(**settings):
    return lambda X, y, seed: network(X, y, seed, **settings)


def sk(make, **settings):
    return lambda X, y, seed: fitted(make(**settings), X, y, seed)


fashion, digits, photographs = (pictures(name, 2000) for name in ("fashion-mnist", "mnist", "cifar10"))
KINDS = {
    "adam, clothes": (fashion, net(epochs=100)),
    "adam, digits": (digits, net(epochs=40)),
    "adam, photographs": (pictures("cifar10", 1000), net(epochs=60)),
    "adam, odd and even": (pictures("mnist-odd-even", 1000), net(epochs=40)),
    "adam, two hidden layers": (fashion, net(hidden=(128, 64), epochs=60)),
    "adam, 500 digits, wide": (pictures("mnist", 500), net(hidden=(512,), epochs=60)),
    "dropout": (digits, net(hidden=(256,), epochs=40, dropout=0.5)),
    "weight decay 1e-4": (fashion, net(epochs=60, decay=1e-4)),
    "early stopping": (fashion, net(epochs=5)),
    "momentum": (digits, net(epochs=40, adam=False)),
    "label noise": (noisy(digits, 0.2), net(epochs=80)),
    "start 0.3 of torch's": (fashion, net(epochs=60, start=0.3)),
    "start 0.1 of torch's": (digits, net(epochs=60, start=0.1)),
    "never trained": (digits, net(epochs=0)),
    "100 classes": (blobs(100, 2000, 60), net(epochs=60)),
    "regression, table": (table("diabetes"), net(epochs=200, real=True)),
    "adam, table": (table("breast-cancer"), net(epochs=100)),
    "MLPClassifier, digits": (table("digits"), sk(MLPClassifier, max_iter=100)),
    "MLPRegressor": (table("diabetes"), sk(MLPRegressor, max_iter=500)),
    "SVC, ten classes": (table("digits"), sk(SVC)),
    "SVC, ten classes, one against one": (table("digits"), sk(SVC, decision_function_shape="ovo")),
    "SVC, two classes": (table("breast-cancer"), sk(SVC)),
    "SVC, clothes": (pictures("fashion-mnist", 500), sk(SVC)),
    "LinearSVC": (table("digits"), sk(LinearSVC, dual="auto")),
    "LogisticRegression": (table("digits"), sk(LogisticRegression, max_iter=300)),
    "RandomForest": (table("digits"), sk(RandomForestClassifier)),
    "GradientBoosting": (table("breast-cancer"), sk(GradientBoostingClassifier)),
    "nearest neighbours": (table("digits"), sk(KNeighborsClassifier)),
}


KEPT = {
    "50 digits": ("mnist-odd-even", 50, {"hidden": [300, 300]}),
    "100 digits": ("mnist-odd-even", 100, {"hidden": [300]}),
    "100 digits, biases everywhere": ("mnist-odd-even", 100, {"hidden": [300, 300], "biases": True}),
    "100 digits, batches": ("mnist-odd-even", 100, {"hidden": [300], "batch": 16}),
    "100 digits, weight decay": ("mnist-odd-even", 100, {"hidden": [300], "method": "decay"}),
    "200 digits": ("mnist-odd-even", 200, {"hidden": [500]}),
    "500 digits": ("mnist-odd-even", 500, {"hidden": [1000]}),
    "100 clothes, ten classes": ("fashion-mnist", 100, {"hidden": [300]}),
    "50 photographs": ("cifar-vehicles-animals", 50, {"hidden": [300]}),
    "50 normal points": ("normal", 50, {"hidden": [100], "centred": False}),
}
"Trained to the margin: data, members and the rest."
AMONG = {"2,000 others": 2000, "as many others": None}


def kept(seeds, only):
    """Claims that members called are part of: calls are what they were, so a claim not made is all that can be lost."""
    total = Counter()
    for name, (source, members, settings) in KEPT.items():
        for seed in seeds if only in name else ():
            sizes = {"dimension": 200, "test": 2000} if source == "normal" else {"full": True}
            data = datasets.load(source, samples=members, seed=seed, **sizes)
            y = data.y if data.classes else np.resize([-1, 1], members)
            made = victims.make(
                "margin", data.X, y, np.random.default_rng(seed), shape=data.shape, **{"mean_known": False, **settings}
            )
            for among, others in AMONG.items():
                X = np.concatenate([data.X, data.X_test[: others or members]])
                finding = SpanMembership()(made.held["network"], Candidates(X, shape=data.shape), context=Context(seed))
                called, claim = finding.loot.decisions, finding.evidence
                inside, outside = int(called[:members].sum()), int(called[members:].sum())
                leak = finding.verdict == "leak"
                total["called"] += inside
                total["claimed"] += inside * leak
                print(
                    f"{name:30} among {among:14} {seed} {finding.verdict.value:11} called {inside:3d} members {outside:2d} "
                    f"others; false at most {claim.expected_false_calls:.2g}, members at least {claim.precision:.0%}, "
                    f"p = {claim.p_value:.1g}",
                    flush=True,
                )
    print(f"{total['claimed']} of {total['called']} members called are in a finding that claims a leak")


def asked(drawn, half):
    """Candidates and which of them are members: half of them, or none."""
    X, _, others, shape = drawn
    if half:
        count = min(len(X), len(others))
        return Candidates(np.concatenate([X[:count], others[:count]]), shape=shape), np.arange(2 * count) < count
    return Candidates(others, shape=shape), np.zeros(len(others), dtype=bool)


def judged(finding, member):
    """Those called: members, others; and whether a leak that is claimed is false."""
    called = np.zeros(len(member), dtype=bool) if finding.loot is None else finding.loot.decisions
    table = [[int(np.sum(called & member)), int(np.sum(called & ~member))], None]
    table[1] = [int(np.sum(~called & member)), int(np.sum(~called & ~member))]
    false = finding.verdict == "leak" and fisher_exact(table, alternative="greater")[1] >= SURE
    return (*table[0], false)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--kept", action="store_true")
    chosen = parser.parse_args()
    if chosen.kept:
        kept(range(chosen.seed, chosen.seed + chosen.draws), chosen.only)
        return
    total, models = Counter(), 0
    for name, (data, train) in KINDS.items():
        for seed in range(chosen.seed, chosen.seed + chosen.draws) if chosen.only in name else ():
            drawn = data(seed)
            model = train(*drawn[:2], seed)
            models += 1
            answers = Predictions.of(model) if isinstance(model, Weights) else model
            for half in (True, False):
                candidates, member = asked(drawn, half)
                attacks = {"margin": (MarginMembership(), answers)}
                if isinstance(model, Weights):
                    attacks["span"] = (SpanMembership(), model)
                for attack, (audit, held) in attacks.items():
                    start = time.perf_counter()
                    finding = audit(held, candidates, context=Context(seed))
                    inside, outside, false = judged(finding, member)
                    total[attack, "asked"] += 1
                    total[attack, "leaks"] += finding.verdict == "leak"
                    total[attack, "false"] += false
                    print(
                        f"{name:34} {seed} {attack:6} {'half' if half else 'none'} {finding.verdict.value:14} "
                        f"called {inside:4d} members {outside:4d} others of {len(member):5d}{'  FALSE' if false else ''}"
                        f"  {time.perf_counter() - start:5.1f} s",
                        flush=True,
                    )
    for attack in ("margin", "span"):
        numbers = ", ".join(f"{total[attack, what]} {what}" for what in ("asked", "leaks", "false"))
        print(f"{attack}-membership on {models} models: {numbers}")


if __name__ == "__main__":
    main()
