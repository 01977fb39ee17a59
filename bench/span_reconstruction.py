"""Training images from the span of first-layer weights: how many come back, beside nulls, over fresh draws.

    python bench/span_reconstruction.py                    every case, five draws from seed 1000
    python bench/span_reconstruction.py --quick            the small cases, one draw
    python bench/span_reconstruction.py --case mnist-50    one case
    python bench/span_reconstruction.py --paths            the same loss reached by four ways of training

CIFAR-10 and more than the pictures in the package need DIVULGE_DATA. Every draw has images and starting weights of its own.
Loot is matched with training images one to one; a null is the best of the mean image, random points of the span, first-layer
weights and as many images that were not trained on. bench/claims.py has networks that hold no image to be found.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np

from divulge import Candidates, Context, TrainingData, Weights, datasets
from divulge.attacks import SpanReconstruction
from divulge.solvers.images.span import span
from divulge.victims import margins, ordinary

FIRST_SEED = 1000
COUNTS = ("images at NCC > 0.9", "images at NCC > 0.8", "pixel-exact images", "images at SSIM > 0.4")
DECAY, ITERATIONS = 1e-4, 300  # of L-BFGS; a minimum to all digits keeps a few directions only
LOSS = 1e-3  # at which ways of training are compared: plain descent takes 13,000 epochs to it
SLOW_DECAY, RATE, EPOCHS = 1e-2, 0.1, 8000  # of gradient descent


@dataclass(frozen=True)
class Case:
    """How a network was trained, and what is known of it."""

    data: str
    count: int
    hidden: tuple[int, ...]
    first: float | None = 1e-4
    decay: str = ""
    centred: bool = True
    mean_known: bool = True
    scale_known: bool = True
    noise: float = 0.0
    quick: bool = True


DIGITS, PHOTOS, CLOTHES = "mnist-odd-even", "cifar-vehicles-animals", "fashion-mnist"
CASES = {
    "mnist-50": Case(DIGITS, 50, (300, 300)),
    "cifar-50": Case(PHOTOS, 50, (300, 300)),
    "mnist-40-decay": Case(DIGITS, 40, (300,), decay="lbfgs"),
    "mnist-40-descent-1e-4": Case(DIGITS, 40, (300,)),
    "mnist-40-descent-1e-3": Case(DIGITS, 40, (300,), 1e-3),
    "mnist-40-rows-unscaled": Case(DIGITS, 40, (300,), scale_known=False),
    "mnist-40-rows-unscaled-1e-3": Case(DIGITS, 40, (300,), 1e-3, scale_known=False),
    "mnist-40-decay-noise-1e-5": Case(DIGITS, 40, (300,), decay="lbfgs", noise=1e-5),
    "mnist-40-decay-descent": Case(DIGITS, 40, (300,), decay="descent"),
    "mnist-40-decay-descent-noise-1e-5": Case(DIGITS, 40, (300,), decay="descent", noise=1e-5),
    "mnist-40-decay-descent-noise-1e-4": Case(DIGITS, 40, (300,), decay="descent", noise=1e-4),
    "mnist-40-descent-noise-1e-4": Case(DIGITS, 40, (300,), noise=1e-4),
    "mnist-40-raw": Case(DIGITS, 40, (300,), centred=False),
    "mnist-40-raw-decay": Case(DIGITS, 40, (300,), decay="lbfgs", centred=False),
    "mnist-40-mean-unknown": Case(DIGITS, 40, (300,), mean_known=False),
    "mnist-40-mean-unknown-decay": Case(DIGITS, 40, (300,), decay="lbfgs", mean_known=False),
    "fashion-40-decay": Case(CLOTHES, 40, (300,), decay="lbfgs"),
    "fashion-40-descent-1e-4": Case(CLOTHES, 40, (300,)),
    "cifar-40-decay": Case(PHOTOS, 40, (300,), decay="lbfgs"),
    "mnist-100": Case(DIGITS, 100, (1000, 1000), quick=False),
    "cifar-100": Case(PHOTOS, 100, (1000, 1000), quick=False),
    "cifar-200": Case(PHOTOS, 200, (1000, 1000), quick=False),
}


def victim(case, seed):
    data = datasets.load(case.data, samples=case.count, seed=seed, full=True)
    rng = np.random.default_rng(seed)
    X, y = data.X, np.where(data.y % 2, 1, -1) if case.data == CLOTHES else data.y
    mean = X.mean(axis=0) if case.centred else np.zeros(X.shape[1])
    if case.decay:
        layers = decayed(X - mean, y, case.hidden, case.decay, rng)
    else:
        layers = margins.train(X - mean, y, rng, hidden=case.hidden, first=case.first)
    (W, b), *rest = layers
    noise = case.noise * np.abs(W).max()
    W, b = W + noise * rng.standard_normal(W.shape), b + noise * rng.standard_normal(b.shape)
    if not case.scale_known:  # each unit known up to a factor, as v_j [w_j, b_j]
        out = np.linalg.norm(rest[0][0], axis=0)
        W, b, rest[0] = W * out[:, None], b * out, (rest[0][0] / out, rest[0][1])
    known = mean if case.centred and case.mean_known else None
    held = Weights(((W, b), *rest), mean=known, shape=data.shape)
    return held, {"training_data": TrainingData(X, y, shape=data.shape), "candidates": Candidates(data.X_test)}


def decayed(X, y, hidden, how, rng):
    """Trained in coordinates of the span; outside of it weights only decay, which is added afterwards."""
    from divulge.victims.networks import train

    _, sizes, axes = np.linalg.svd(X, full_matrices=False)
    axes = axes[sizes > 1e-10 * sizes[0]]
    options = {"weight_decay": DECAY, "epochs": ITERATIONS}
    left = 0.0
    if how == "descent":
        options = {"weight_decay": SLOW_DECAY, "epochs": EPOCHS, "optimiser": "sgd", "lr": RATE}
        left = (1 - RATE * SLOW_DECAY) ** EPOCHS
    (W, b), *rest = plain(train(X @ axes.T, y, rng, hidden=hidden, **options))
    start = left * rng.uniform(-1, 1, (len(W), X.shape[1])) / np.sqrt(X.shape[1])
    return [(W @ axes + start - start @ axes.T @ axes, b), *rest]


def plain(network):
    return [(part.weight.detach().numpy(), part.bias.detach().numpy()) for part in network if hasattr(part, "weight")]


def attacked(held, truth, seed):
    start = time.perf_counter()
    finding = SpanReconstruction()(held, truth=truth, context=Context(seed))
    return finding, finding.cost.seconds or time.perf_counter() - start


def row(name, case, seeds):
    counts, nulls, seconds, shares, verdicts = [], [], [], [], []
    for seed in seeds:
        held, truth = victim(case, seed)
        finding, took = attacked(held, truth, seed)
        scores = finding.scores
        counts.append([scores[key].value if key in scores else 0 for key in COUNTS])
        nulls.append([scores[key].null if key in scores else 0 for key in COUNTS])
        X = truth["training_data"].X
        shares.append(claims(finding, X))
        seconds.append(took)
        verdicts.append(finding.verdict.value)
    middle, most = np.mean(counts, axis=0), np.max(nulls, axis=0)
    claimed, right, sure, sure_right, sure_exact = np.sum(shares, axis=0)
    cells = " | ".join(f"{value:.1f} ({null:.0f})" for value, null in zip(middle, most, strict=True))
    said = ", ".join(sorted(set(verdicts)))
    each = " ".join(f"{line[0]:.0f}" for line in counts)
    print(
        f"| {name} | {case.count} | {cells} | {each} | {right:.0f} of {claimed:.0f} | "
        f"{sure_right:.0f}, {sure_exact:.0f} of {sure:.0f} | {np.median(seconds):.1f} | {said} |",
        flush=True,
    )


def claims(finding, X):
    """Claimed, of those at NCC > 0.9 with any training image; certified, of those at NCC > 0.9, and off by 5 % at most."""
    if finding.loot is None:
        return 0, 0, 0, 0, 0
    loot = finding.loot.X
    alike = np.corrcoef(loot, X)[: len(loot), len(loot) :].max(axis=1)
    off = np.array([(np.linalg.norm(X - one, axis=1) / np.linalg.norm(X, axis=1)).min() for one in loot])
    sure = finding.evidence.certified
    return len(loot), np.sum(alike > 0.9), np.sum(sure), np.sum(alike[sure] > 0.9), np.sum(off[sure] <= 0.05)


def table(cases, seeds):
    print("| case | n | NCC > 0.9 (null) | > 0.8 | exact | SSIM > 0.4 | each | claims right | certified, exact | s | said |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, case in cases.items():
        row(name, case, seeds)


def paths(draws):
    """Directions of the first layer, and images claimed rightly, at one loss that four ways of training reach."""
    start = {"first": 1e-4, "target": LOSS}
    ways = {
        "log-loss, long steps": lambda X, y, rng, hidden: margins.train(X, y, rng, hidden=hidden, fall=0.1, **start),
        "log-loss, short steps": lambda X, y, rng, hidden: margins.train(X, y, rng, hidden=hidden, **start),
        "plain descent, rate 0.05": lambda X, y, rng, hidden: margins.train(
            X, y, rng, hidden=hidden, method="plain", rate=0.05, epochs=100_000, **start
        ),
        "SGD, batches of 10, momentum": lambda X, y, rng, hidden: (
            ordinary.train(
                X, y, rng, hidden=hidden, lr=0.01, momentum=0.9, batch=10, epochs=1000, start=1e-4 * np.sqrt(3 * X.shape[1])
            ).layers
        ),
    }
    print(f"| images | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}")
    for name, count, hidden in (
        (DIGITS, 40, (300,)),
        (DIGITS, 50, (300, 300)),
        (CLOTHES, 50, (300,)),
        (PHOTOS, 50, (300, 300)),
    ):
        cells = []
        for way in ways.values():
            seen = []
            for seed in draws:
                data = datasets.load(name, samples=count, seed=seed, full=True)
                mean, y = data.X.mean(axis=0), np.where(data.y % 2, 1, -1) if name == CLOTHES else data.y
                layers = way(data.X - mean, y, np.random.default_rng(seed), hidden)
                held = Weights(tuple(layers), mean=mean, shape=data.shape)
                found = claims(SpanReconstruction()(held, context=Context(seed)), data.X)
                seen.append((span(*layers[0]).rank, found[1], found[0]))
            rank, right, claimed = np.mean(seen, axis=0)
            cells.append(f"{rank:.1f} directions, {right:.1f} of {claimed:.1f} claims right")
        print(f"| {name}, {count}, {'-'.join(map(str, hidden))} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--paths", action="store_true")
    options = parser.parse_args()
    draws = range(FIRST_SEED, FIRST_SEED + (1 if options.quick else options.draws))
    if options.paths:
        paths(draws)
    else:
        wanted = options.case or [name for name, case in CASES.items() if case.quick or not options.quick]
        table({name: CASES[name] for name in wanted}, draws)
