"""Training to the margin and KKT reconstruction, beside the published way, in one run.

    python bench/kkt_reconstruction.py                  training, residuals and one step, side by side (minutes)
    python bench/kkt_reconstruction.py --images 3       CIFAR-10, 500 images, three networks, each trained, tuned, attacked
    python bench/kkt_reconstruction.py --images 3 --count 200

CIFAR-10 comes from the folder in DIVULGE_DATA. `--first` is the first seed: those below 100 were looked at while the attack
was made. Published costs are an epoch's, or a step's, times how many there are; the rest is measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from divulge import Candidates, TrainingData, Weights, datasets
from divulge.attacks import KktReconstruction, SpanReconstruction
from divulge.baselines.haim2022 import published_kkt
from divulge.contract import Context
from divulge.solvers.images.span import span
from divulge.solvers.kkt import pool as kkt_pool
from divulge.solvers.margin import kkt_residual, max_margin, weight_decay

EPOCHS = 1_000_000
"Of the published training."
REPEATS = 5


def timed(work: Callable[[], object]) -> float:
    """Seconds, the median of a few."""
    spent = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return float(np.median(spent))


def published_epoch(layers: list, X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """One epoch as published: automatic differentiation, double precision, all coordinates."""
    module = torch.nn.Sequential(
        *[
            part
            for number, (W, _) in enumerate(layers)
            for part in (torch.nn.Linear(W.shape[1], W.shape[0], bias=number == 0, dtype=torch.float64), torch.nn.ReLU())
        ][:-1]
    )
    rows, sides = torch.tensor(X), torch.tensor(y, dtype=torch.float64)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)

    def epoch() -> None:
        optimiser.zero_grad()
        torch.autograd.backward(torch.nn.functional.softplus(-sides * module(rows)[:, 0]).mean())
        optimiser.step()

    return epoch


def training() -> None:
    """784-1000-1000-1 on 500 digits to the published loss, and the path beside that of plain descent on 50."""
    digits = datasets.load("mnist-odd-even", samples=500, seed=1000)
    X, y = digits.X - digits.X.mean(axis=0), digits.y
    start = max_margin.initial(np.random.default_rng(1), [784, 1000, 1000, 1])
    epoch = timed(published_epoch(start, X, y))
    for dtype in (np.float32, np.float64):
        began = time.perf_counter()
        run = max_margin.train(start, X, y, dtype=dtype)
        spent = time.perf_counter() - began
        print(
            f"training 784-1000-1000-1, n=500, {np.dtype(dtype).name}: loss {np.exp(run.log_loss):.1e} in {spent:.1f} s, "
            f"{run.steps} steps; published {epoch:.3f} s an epoch, {EPOCHS:,} epochs: {epoch * EPOCHS / spent:,.0f} times",
            flush=True,
        )
    digits = datasets.load("mnist-odd-even", samples=50, seed=1000)
    mean = digits.X.mean(axis=0)
    X, y = digits.X - mean, digits.y
    start = max_margin.initial(np.random.default_rng(1), [784, 300, 300, 1])
    runs = {
        "plain descent": lambda: max_margin.plain(start, X, y, target=4e-6, epochs=100_000),
        "log-loss descent": lambda: max_margin.train(start, X, y, target=4e-6),
    }
    truth = {"training_data": TrainingData(digits.X, y, shape=digits.shape)}
    for name, train in runs.items():
        began = time.perf_counter()
        run = train()
        spent = time.perf_counter() - began
        finding = SpanReconstruction()(Weights(tuple(run.layers), mean=mean, shape=digits.shape), truth=truth)
        score = finding.scores["images at NCC > 0.9"]
        print(
            f"784-300-300-1, n=50, {name}: {run.steps} steps, {spent:.1f} s, normalised margin "
            f"{max_margin.normalised_margin(run.layers, X, y):.3e}, images at NCC > 0.9: {score.value:.0f} "
            f"(null {score.null:.0f})",
            flush=True,
        )


def residuals() -> None:
    """Clarke's residual after L-BFGS with weight decay, beside that of as many other digits."""
    for seed in range(1000, 1003):
        digits = datasets.load("mnist-odd-even", samples=40, seed=seed)
        X, y = digits.X - digits.X.mean(axis=0), digits.y
        others = digits.X_test[:40] - digits.X.mean(axis=0)
        start = max_margin.initial(np.random.default_rng(seed), [784, 300, 1], first=None)
        for rounded in (False, True):
            began = time.perf_counter()
            layers = weight_decay.minimise(start, X, y, weight_decay=1e-3, rounded=rounded, iterations=5000).layers
            spent = time.perf_counter() - began
            took = timed(lambda layers=layers, X=X, y=y: kkt_residual.residual(layers, X, y))
            found, null = kkt_residual.residual(layers, X, y), kkt_residual.residual(layers, others, digits.y_test[:40])
            how = "kinks rounded off" if rounded else "L-BFGS alone"
            print(
                f"weight decay 1e-3, 784-300-1, n=40, {how}, {spent:.0f} s: residual {found.total:.4f} (without Clarke's "
                f"slopes {found.hard:.2f}, other digits {null.total:.2f}) in {1000 * took:.0f} ms",
                flush=True,
            )


def one_step() -> None:
    """A step of reconstruction, n=500, m=1000, beside the published objective differentiated twice in double precision."""
    digits = datasets.load("mnist-odd-even", samples=500, seed=1000)
    X, y = digits.X - digits.X.mean(axis=0), digits.y
    start = max_margin.initial(np.random.default_rng(1), [784, 1000, 1000, 1])
    layers = max_margin.train(start, X, y, dtype=np.float32).layers
    rng = np.random.default_rng(0)
    signs = kkt_pool.sides(1000, 1)
    pool = kkt_pool.SearchSpace.of(layers, span(*layers[0]), digits.shape)
    published = {"rate": 1e-3, "spread": 0.1, "softness": 100.0, "least": 0.01}
    ours, theirs = {}, []
    for name, setup in kkt_pool.setups(10, 10.0, 3, True).items():
        aim, state = pool.objective(name), pool.begin(name, setup, signs, rng)
        ours[name] = []
        for _ in range(3):  # interleaved
            ours[name].append(timed(lambda: pool.advance(name, aim, setup, state, 10, lambda: None)) / 10)  # noqa: B023  # at once
            began = time.perf_counter()
            published_kkt.descend(layers, signs[:, 0], rng, steps=1, **published)
            theirs.append(time.perf_counter() - began)
    slow = float(np.median(theirs))
    for name, times in ours.items():
        quick = float(np.median(times))
        print(
            f"a step, n=500, m=1000, {name}: {1000 * quick:.0f} ms, published {1000 * slow:.0f} ms: {slow / quick:.1f} times"
        )


def images(networks: int, count: int, first: int) -> None:
    """CIFAR-10, vehicles or animals, 3072-1000-1000-1: training, tuning and attack, all timed."""
    for seed in range(first, first + networks):
        pictures = datasets.load("cifar-vehicles-animals", samples=count, seed=seed)
        mean = pictures.X.mean(axis=0)
        began = time.perf_counter()
        start = max_margin.initial(np.random.default_rng(seed), [3072, 1000, 1000, 1])
        run = max_margin.train(start, pictures.X - mean, pictures.y, dtype=np.float32)
        trained = time.perf_counter() - began
        held = Weights(tuple(run.layers), mean=mean, shape=pictures.shape)
        truth = {
            "training_data": TrainingData(pictures.X, pictures.y, shape=pictures.shape),
            "candidates": Candidates(pictures.X_test, shape=pictures.shape),
        }
        finding = KktReconstruction(count=count)(held, truth=truth, context=Context(seed))
        right = np.mean(np.sign(held.predict(pictures.X_test)[:, 0]) == pictures.y_test)
        shown = ", ".join(
            f"{name} {score.value:.0f} (null {score.null:.0f})"
            for name, score in finding.scores.items()
            if name.startswith("images") or "rank" in name
        )
        print(
            f"seed {seed}, n={count}: trained in {trained:.0f} s, attack {finding.cost.seconds:.0f} s, "
            f"test accuracy {right:.2f}"
        )
        print(f"  {finding.verdict.value}: {finding.summary}\n  {shown}\n  " + "\n  ".join(finding.notes), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=1000)
    given = parser.parse_args()
    if given.images:
        images(given.images, given.count, given.first)
        return
    one_step()
    training()
    residuals()


if __name__ == "__main__":
    main()
