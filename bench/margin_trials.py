"""Many two-layer networks trained to their margin: the sweep over dimensions, and the time against plain descent.

    python bench/margin_trials.py                                   the ratio to plain gradient descent, interleaved
    python bench/margin_trials.py --sweep                           the sweep of section 5 on the sphere, 50 trials each
    python bench/margin_trials.py --sweep --data normal gaussian-mixture --dimensions 20 100 1000

The sweep draws data, labels, starts and fresh points from seed 1000 on, and uses `--workers` processes of one thread.
Shares are over the networks that got all their points right.

The ratio: both train on the same points from starts of the same kind, in one process and one thread, taking turns; seconds
are of the processor, so that others on the machine count little. Plain descent is torch's, in float32 on the whole first
layer with one rate, the largest of a few that does not diverge on a draw of its own, which is kind to it. It is run to the
mean loss `--loss`; nothing is extrapolated. It cannot be run to margin 1000, a loss of exp(-1000): its epochs grow as one
over the loss.
"""

import argparse
import resource
import time

import numpy as np
from joblib.externals.loky import get_reusable_executor

from divulge import TrainingData, datasets, graph
from divulge.contract import Truth
from divulge.graph import Step
from divulge.runner import Runner
from divulge.solvers.margin import batched
from divulge.studies import MarginSimulation

FIRST_SEED = 1000
DIMENSIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
RATES = (1.0, 0.3, 0.1, 0.03, 0.01)
POINTS, FRESH = 20, 5000


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--sweep", action="store_true")
    arguments.add_argument("--data", nargs="+", default=["sphere"])
    arguments.add_argument("--dimensions", nargs="+", type=int)
    arguments.add_argument("--trials", type=int, default=50)
    arguments.add_argument("--hidden", type=int, default=10_000)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--seed", type=int, default=FIRST_SEED)
    arguments.add_argument("--draws", type=int, default=4)
    arguments.add_argument("--loss", type=float, default=1e-4)
    arguments.add_argument("--epochs", type=int, default=20_000)
    asked = arguments.parse_args()
    if asked.sweep:
        sweep(asked)
    else:
        for dimension in asked.dimensions or (100, 1000):
            ratio(asked, dimension)


def sweep(asked):
    print(f"{asked.trials} trials of {POINTS} points, width {asked.hidden}, {FRESH} fresh points, {asked.workers} workers\n")
    print("| data | d | with a margin | on the margin | fresh ≥ q, one side | either side | from one member | s |")
    print("|" + "---|" * 8)
    start = time.perf_counter()
    for name in asked.data:
        for dimension in asked.dimensions or DIMENSIONS:
            begin = time.perf_counter()
            rows = asked.trials * POINTS + FRESH
            made = datasets.load(name, dimension=dimension, samples=rows, seed=asked.seed, test=1)
            attack = MarginSimulation(trials=asked.trials, hidden=asked.hidden, points=POINTS, fresh=FRESH)
            step = Step(attack, tuple(graph.hold({"data": TrainingData(made.X, made.y)})), choices=1, wins="membership")
            finding = Runner(seed=asked.seed, workers=asked.workers).execute(step, Truth())
            print(f"| {name} | {dimension} | {line(finding)} | {time.perf_counter() - begin:.0f} |", flush=True)
    get_reusable_executor().shutdown(wait=True)  # workers' time counts once they have ended
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    used = sum(one.ru_utime + one.ru_stime for one in spent)
    print(f"\n{time.perf_counter() - start:.0f} s in all, {used:.0f} s of processor time")


def line(finding):
    if not finding.scores:
        return f"0 | – | – | – | {finding.verdict.value}"
    names = (
        "training points on the margin",
        "fresh points at or above the margin, one side",
        "fresh points at or above the margin",
        "advantage from one known member",
    )
    trials = len(finding.loot.scores) // (POINTS + FRESH)
    return f"{trials} | " + " | ".join(f"{finding.scores[name].value:.4f}" for name in names)


def ratio(asked, dimension):
    rate = steady(asked, dimension)
    print(f"\nd = {dimension}, width {asked.hidden}, {POINTS} points; plain descent at rate {rate:g}\n")
    print(
        "| draw | plain: epochs | loss | on the margin | s | batched: s to that | ratio | s to margin 1000 | on the margin |"
    )
    print("|" + "---|" * 9)
    ratios = []
    for draw in range(asked.draws):
        seed = asked.seed + draw
        # As many networks in a batch as in the attack; the plain one has the points of the first.
        count = max(1, batched.CACHED // asked.hidden)
        X, y = drawn(dimension, seed, count)
        begin = time.process_time()
        epochs, loss, margins = plain(X[0], y[0], seed, asked, rate, asked.epochs)
        theirs = time.process_time() - begin
        seconds = []
        for depth in (-np.log(loss), 1000.0):
            begin = time.process_time()
            trained = batched.train(X, y, np.random.default_rng(seed), hidden=asked.hidden, depth=depth)
            seconds.append((time.process_time() - begin) / count)
        ratios.append(theirs / seconds[0])
        cells = [f"{epochs}", f"{loss:.1e}", f"{share(margins[None]):.3f}", f"{theirs:.1f}", f"{seconds[0]:.2f}"]
        cells += [f"{ratios[-1]:.0f}", f"{seconds[1]:.2f}", f"{share(trained.margins):.3f}"]
        print(f"| {seed} | {' | '.join(cells)} |", flush=True)
    print(f"\n{np.median(ratios):.0f} times faster to the same loss in the middle ({min(ratios):.0f} to {max(ratios):.0f})")


def share(margins):
    """Of points within 1 % of their network's margin."""
    return (margins <= 1.01 * margins.min(axis=1, keepdims=True)).mean()


def drawn(dimension, seed, count):
    made = datasets.load("sphere", dimension=dimension, samples=count * POINTS, seed=seed, test=1)
    return made.X.reshape(count, POINTS, dimension), made.y.reshape(count, POINTS)


def steady(asked, dimension):
    """The largest rate at which the loss is lower after 300 epochs than after 150, on a draw that is not timed."""
    X, y = drawn(dimension, asked.seed - 1, 1)
    for rate in RATES:
        losses = [plain(X[0], y[0], asked.seed - 1, asked, rate, epochs)[1] for epochs in (150, 300)]
        if losses[1] < losses[0] < np.log(2):
            return rate
    raise SystemExit("no rate is steady")


def plain(X, y, seed, asked, rate, epochs):
    """Gradient descent on the mean logistic loss, of all weights, by torch's automatic derivatives."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    first, last = torch.nn.Linear(X.shape[1], asked.hidden), torch.nn.Linear(asked.hidden, 1, bias=False)
    torch.nn.init.normal_(first.weight, std=1e-4)
    torch.nn.init.normal_(first.bias, std=1e-4)
    model = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    descent = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(epochs):  # noqa: B007  # returned
        margins = y * model(X)[:, 0]
        loss = torch.nn.functional.softplus(-margins).mean()
        if loss.item() <= asked.loss:
            break
        descent.zero_grad()
        loss.backward()
        descent.step()
    return epoch, loss.item(), margins.detach().numpy()


if __name__ == "__main__":
    main()
