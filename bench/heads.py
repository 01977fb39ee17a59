"""Membership in heads on frozen features whose start is known, on draws that had no part in the attack's design.

    python bench/heads.py                              200 photographs, 1280-256-1 and 1280-256-10, five trainings of each
    python bench/heads.py --members 50 500 --how momentum adam --seeds 1000 1001
    python bench/heads.py --nobody                     candidates of which none is a member
    python bench/heads.py --reconstruct --members 50   training features themselves, from the span by their zeros
    python bench/heads.py --start-hidden               the same heads by `span-membership`, which does not know the start

Features are EfficientNet-Lite0's of CIFAR-10 (the extra `encoders`, and the set in the folder that DIVULGE_DATA names); one
output tells vehicles from animals, ten tell all classes. Heads are trained in torch's single precision from torch's start.
Members are among 4,000 others of the same draw. Beside the attack stand |f|, how far the head decides a candidate, and what
a candidate leaves outside the moved rows at one level, both without shadows.

Reconstructed features are right at a cosine above 0.99 with a training point, means of the others taken off; the null is how
many training points any of the 4,000 others is as near to. Each is matched to the nearest of 2,000 public pictures, half the
members among them: how often that is the very picture where it is public, and of the same class where it is not, beside
how often the public picture that most others are nearest to is.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

from divulge import Candidates, Weights, datasets
from divulge.attacks import SpanMembership
from divulge.contract import Context
from divulge.solvers.directions import known_start
from divulge.solvers.images import zeros
from divulge.solvers.shadow import span_scores
from divulge.solvers.statistics import roc

LEVEL = 0.001
OTHERS, MOST = 4000, 500
VEHICLES = (0, 1, 8, 9)
UNITS = 256
RIGHT = 0.99
PUBLIC = 2000
TRAININGS = {
    "momentum": {"lr": 0.01, "momentum": 0.9, "epochs": 300},
    "batches": {"lr": 0.01, "batch": 32, "epochs": 300},
    "decay": {"lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4, "batch": 32, "epochs": 300},
    "adam": {"kind": torch.optim.Adam, "lr": 1e-3, "batch": 32, "epochs": 100},
    "adamw": {"kind": torch.optim.AdamW, "lr": 1e-3, "weight_decay": 1e-2, "batch": 32, "epochs": 100},
}


def drawn(members, outputs, seed):
    """Members, their labels, and others, all of one draw."""
    found = datasets.load("cifar10-efficientnet", samples=MOST + OTHERS, seed=seed, full=True)
    y = np.where(np.isin(found.y, VEHICLES), 0, 1) if outputs == 1 else found.y
    return found.X[:members], y[:members], found.X[MOST:]


def head(X, y, outputs, seed, *, kind=torch.optim.SGD, epochs, batch=None, **options):
    """Layers after training and before it."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(X.shape[1], UNITS), nn.ReLU(), nn.Linear(UNITS, outputs))
    before = layers(network)
    points = torch.tensor(X, dtype=torch.float32)
    targets = torch.tensor(y[:, None], dtype=torch.float32) if outputs == 1 else torch.tensor(y)
    loss = nn.BCEWithLogitsLoss() if outputs == 1 else nn.CrossEntropyLoss()
    steps = kind(network.parameters(), **options)
    for _ in range(epochs):
        for some in torch.randperm(len(X)).split(batch or len(X)):
            steps.zero_grad()
            loss(network(points[some]), targets[some]).backward()
            steps.step()
    return layers(network), before


def layers(network):
    parts = [part for part in network if isinstance(part, nn.Linear)]
    return [(part.weight.detach().double().numpy().copy(), part.bias.detach().double().numpy().copy()) for part in parts]


def moved(now, before):
    return known_start.moved(now[0], before[0]).rows


def rate(scores, members):
    return roc.tpr_at(scores[:members], scores[members:], LEVEL)


def decided(now, X):
    outputs = np.sort(np.maximum(X @ now[0][0].T + now[0][1], 0) @ now[1][0].T + now[1][1], axis=1)
    return np.abs(outputs[:, 0]) if outputs.shape[1] == 1 else outputs[:, -1] - outputs[:, -2]


def known(now, before, X, seed):
    """Scores and who is called, by the attack that knows the start."""
    held = Weights(tuple(now), start=tuple(before))
    finding = SpanMembership()(held, Candidates(X), context=Context(seed))
    none = np.zeros(len(X))
    if finding.loot is None:
        return none, none > 0, "none"
    way = "shadows" if "On shadows" in " ".join(finding.notes) else "span"
    return finding.loot.scores, finding.loot.decisions, way


def hidden(now, before, X, seed):
    """The same by the attack that does not."""
    finding = SpanMembership()(Weights(tuple(now)), Candidates(X), truth={}, context=Context(seed))
    none = np.zeros(len(X))
    return (none, none > 0, "none") if finding.loot is None else (finding.loot.scores, finding.loot.decisions, "hidden")


def reconstructed(members, outputs, how, seed):
    X, y, others = drawn(members, 10, seed)
    labels = np.where(np.isin(y, VEHICLES), 0, 1) if outputs == 1 else y
    now, before = head(X, labels, outputs, seed, **TRAININGS[how])
    start = time.perf_counter()
    found = zeros.search(moved(now, before), np.random.default_rng(seed))
    seconds = time.perf_counter() - start
    mean = others.mean(axis=0)
    near = directed(found.X, mean) @ directed(X, mean).T
    null = int(np.sum((directed(others, mean) @ directed(X, mean).T).max(axis=0) > RIGHT))
    whole = datasets.load("cifar10-efficientnet", samples=MOST + OTHERS, seed=seed, full=True)
    half = members // 2
    public = np.concatenate([whole.X[:half], whole.X[MOST : MOST + PUBLIC - half]])
    classes = np.concatenate([whole.y[:half], whole.y[MOST : MOST + PUBLIC - half]])
    match = (directed(found.X, mean) @ directed(public, mean).T).argmax(axis=1)
    of = near.argmax(axis=1)
    known, new = of < half, of >= half
    usual = classes[np.bincount((directed(others, mean) @ directed(public, mean).T).argmax(axis=1)).argmax()]
    right = len(set(of[near.max(axis=1) > RIGHT]))
    print(
        f"{members:7d} {outputs:7d} {how:9} {seed:4d} {len(found.X):4d} {right:4d} {null:4d}"
        f"  {np.sum(match[known] == of[known])} of {known.sum()}"
        f"  {np.sum(classes[match[new]] == y[of[new]])} of {new.sum()} ({np.sum(usual == y[of[new]])})"
        f"  {found.starts} starts {seconds:4.0f} s",
        flush=True,
    )


def directed(X, mean):
    return (X - mean) / np.linalg.norm(X - mean, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[200])
    parser.add_argument("--outputs", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--how", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1000, 1005)))
    parser.add_argument("--nobody", action="store_true")
    parser.add_argument("--start-hidden", action="store_true")
    parser.add_argument("--reconstruct", action="store_true")
    chosen = parser.parse_args()
    if chosen.reconstruct:
        print("members outputs how       seed  found right null  the picture itself  its class (null)")
        for members, outputs, how in ((m, o, h) for m in chosen.members for o in chosen.outputs for h in chosen.how):
            for seed in chosen.seeds:
                reconstructed(members, outputs, how, seed)
        return
    attack = hidden if chosen.start_hidden else known
    print("members outputs how       seed |f|   rows  attack  interval        called right, wrong  by       s")
    for members, outputs, how in ((m, o, h) for m in chosen.members for o in chosen.outputs for h in chosen.how):
        rates = []
        for seed in chosen.seeds:
            X, y, others = drawn(members, outputs, seed)
            now, before = head(X, y, outputs, seed, **TRAININGS[how])
            asked, inside = (others, 0) if chosen.nobody else (np.concatenate([X, others]), members)
            start = time.perf_counter()
            scores, called, way = attack(now, before, asked, seed)
            seconds = time.perf_counter() - start
            line = f"{members:7d} {outputs:7d} {how:9} {seed:4d}"
            if inside:
                rows = moved(now, before)
                plain = span_scores.left([(rows[:, :-1], rows[:, -1])], asked, np.zeros(asked.shape[1]), [1e-7])[0]
                at = rate(scores, members)
                rates.append((rate(decided(now, asked), members).tpr, rate(plain, members).tpr, at.tpr))
                line += " {:.3f} {:.3f} {:.3f}".format(*rates[-1]) + f"   {at.interval[0]:.3f} to {at.interval[1]:.3f}"
            right, wrong = int(called[:inside].sum()), int(called[inside:].sum())
            print(f"{line}  {right:6d} of {inside}, {wrong} of {len(asked) - inside}  {way:8} {seconds:3.0f}", flush=True)
        if rates:
            print(f"{members:7d} {outputs:7d} {how:9} mean {' '.join(f'{value:.3f}' for value in np.mean(rates, axis=0))}")


if __name__ == "__main__":
    main()
