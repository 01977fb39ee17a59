"""Networks trained on from public weights: what comes back, who is found, and whether anything is claimed that is not there.

    python bench/known_start.py                 every kind, five draws from seed 9100; 40 minutes on one core
    python bench/known_start.py --kind adam     one kind
    python bench/known_start.py --draws 1

Training is torch's own, in single precision unless said, over the pixels. Of each draw: images claimed and right (NCC > 0.9,
one to one), those with the candidates that are merely handed over, and as many of these as are like others that were not
trained on (null); TPR at 0.1 % FPR among the members and 3,000 others, and members and others called. Nothing may be tuned
on this file. Photographs need DIVULGE_DATA.
"""

import argparse
import copy
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from divulge import Candidates, Context, Gradients, TrainingData, Weights, datasets
from divulge.attacks import GradientExtraction, SpanMembership, SpanReconstruction

FIRST_SEED = 9100
OTHERS = 3000
SHAPES = {"mnist": (28, 28), "fashion-mnist": (28, 28), "cifar10": (32, 32, 3)}


@dataclass(frozen=True)
class Kind:
    """How a network was trained further."""

    data: str = "mnist"
    count: int = 40
    hidden: tuple[int, ...] = (300, 300)
    optimiser: type = torch.optim.SGD
    options: dict = field(default_factory=lambda: {"lr": 0.02, "momentum": 0.9})
    epochs: int = 400
    batch: int | None = None
    double: bool = False
    known_task: bool = False
    "Whether the public weights learned 3,000 other pictures of the same classes before."
    new_head: bool = False
    adapter: int = 0
    "Rank of the adapters B A that are trained in place of the weights, B from 0; 0 where there are none."
    answers: bool = False
    "Whether only explanations of the network are held."


PLAIN = {"lr": 0.02, "momentum": 0.9}
KINDS = {
    "digits": Kind(double=True),
    "photographs": Kind("cifar10", 50, double=True),
    "clothes": Kind("fashion-mnist", 50, double=True),
    "digits, single": Kind(),
    "photographs, single": Kind("cifar10", 50),
    "clothes, single": Kind("fashion-mnist", 50),
    "photographs, one layer of 300, batches of 10": Kind("cifar10", 50, (300,), batch=10, epochs=100),
    "digits, decay 5e-4, batches of 8": Kind(options={**PLAIN, "lr": 0.01, "weight_decay": 5e-4}, batch=8, epochs=100),
    "photographs, decay 5e-4": Kind("cifar10", 50, options={**PLAIN, "weight_decay": 5e-4}),
    "plain SGD, clothes": Kind("fashion-mnist", 50, options={"lr": 0.1}),
    "one epoch of batches of 1, digits": Kind(options={"lr": 0.01}, batch=1, epochs=1),
    "task known before, digits": Kind(known_task=True, batch=8, epochs=50, options={**PLAIN, "lr": 0.01}),
    "task known before, new head, photographs": Kind("cifar10", 50, known_task=True, new_head=True, options=PLAIN),
    "task known before, new head, clothes": Kind("fashion-mnist", 50, known_task=True, new_head=True, batch=10, epochs=60),
    "explanations, digits": Kind(hidden=(300,), double=True, answers=True),
    "explanations, decay, digits": Kind(
        hidden=(300,), double=True, answers=True, options={**PLAIN, "weight_decay": 5e-4}, batch=10, epochs=100
    ),
    "explanations in single precision, digits": Kind(hidden=(200,), answers=True),
    "500 digits": Kind(count=500, batch=32, epochs=40),
    "adam": Kind(optimiser=torch.optim.Adam, options={"lr": 1e-3}, epochs=150),
    "adam, photographs": Kind("cifar10", 50, optimiser=torch.optim.Adam, options={"lr": 3e-4}, epochs=100),
    "adamw, task known before, batches, clothes": Kind(
        "fashion-mnist", 50, optimiser=torch.optim.AdamW, options={"lr": 1e-4}, batch=10, epochs=20, known_task=True
    ),
    "rmsprop": Kind(optimiser=torch.optim.RMSprop, options={"lr": 1e-3}, epochs=60),
    "adapters of rank 8": Kind(adapter=8, known_task=True, epochs=300, options=PLAIN),
    "adapters of rank 4, photographs": Kind("cifar10", 50, adapter=4, known_task=True, epochs=300, options=PLAIN),
}


class Adapted(nn.Module):
    """A dense layer with a trained update of low rank beside its fixed weights."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features, dtype=layer.weight.dtype) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank, dtype=layer.weight.dtype))

    def forward(self, X):
        return self.layer(X) + X @ self.down.T @ self.up.T

    def merged(self):
        made = copy.deepcopy(self.layer)
        made.weight.data += self.up.data @ self.down.data
        return made


def fitted(module, X, y, optimiser, options, epochs, batch):
    kind = next(module.parameters()).dtype
    X, y = torch.tensor(X, dtype=kind), torch.tensor(y)
    descent = optimiser([one for one in module.parameters() if one.requires_grad], **options)
    for _ in range(epochs):
        for some in [slice(None)] if batch is None else torch.split(torch.randperm(len(X)), batch):
            descent.zero_grad()
            nn.functional.cross_entropy(module(X[some]), y[some]).backward()
            descent.step()


def network(kind, seed):
    """What is held of one network of a kind, the data it was trained on, and other pictures."""
    torch.manual_seed(seed)
    drawn = datasets.load(kind.data, samples=kind.count, seed=seed, full=True)
    public = datasets.load(kind.data, samples=3000, seed=seed + 50_000, full=True)
    X, mean = drawn.X.astype(float), public.X.astype(float).mean(axis=0)
    sizes = [X.shape[1], *kind.hidden, 10]
    parts = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())][:-1]
    module = nn.Sequential(*parts).to(torch.float64 if kind.double else torch.float32)
    if kind.known_task:
        fitted(module, public.X - mean, public.y, torch.optim.Adam, {"lr": 1e-3}, 10, 64)
    start = copy.deepcopy(module)
    if kind.new_head:
        module[-1] = nn.Linear(sizes[-2], 10).to(module[0].weight.dtype)
    if kind.adapter:
        module = nn.Sequential(*(Adapted(part, kind.adapter) if isinstance(part, nn.Linear) else part for part in module))
    fitted(module, X - mean, drawn.y, kind.optimiser, kind.options, kind.epochs, kind.batch)
    if kind.adapter:
        module = nn.Sequential(*(part.merged() if isinstance(part, Adapted) else part for part in module))
    with torch.no_grad():
        said = module(torch.tensor(X - mean, dtype=module[0].weight.dtype)).argmax(1).numpy()
    held = replace(Weights.of(module, start=start), mean=mean, shape=SHAPES[kind.data])
    if kind.answers:
        api = replace(Gradients.of(module, start=start), shape=SHAPES[kind.data])
        won = GradientExtraction()(api, context=Context(seed))
        held = None if won.loot is None else replace(won.loot, mean=mean)  # the module takes what is left of the mean
    return held, drawn, float(np.mean(said == drawn.y))


def one_to_one(loot, X):
    """How many of X (n, d) are resembled at NCC > 0.9, each by another row of the loot."""
    if not len(loot):
        return 0
    alike = np.corrcoef(loot, X)[: len(loot), len(loot) :]
    found = 0
    while alike.max() > 0.9:
        row, column = np.unravel_index(alike.argmax(), alike.shape)
        alike[row], alike[:, column] = -1, -1
        found += 1
    return found


def draw(kind, seed):
    held, drawn, accuracy = network(kind, seed)
    if held is None:
        return None
    X, others = drawn.X.astype(float), drawn.X_test[:OTHERS].astype(float)
    begun = time.perf_counter()
    finding = SpanReconstruction()(held, context=Context(seed))
    took = time.perf_counter() - begun
    loot = finding.loot.X if finding.verdict == "leak" else np.zeros((0, X.shape[1]))
    handed = getattr(finding.evidence, "candidates", loot[:0])
    everything = np.concatenate([loot, handed])
    null = one_to_one(everything, others[: len(X)])
    asked = Candidates(np.concatenate([X, others]), shape=held.shape)
    members = SpanMembership()(held, asked, truth={"training_data": TrainingData(X)}, context=Context(seed))
    rate, called, false = np.nan, 0, 0
    if members.loot is not None:
        scores = members.loot.scores
        rate = float(np.mean(scores[: len(X)] > np.sort(scores[len(X) :])[-1 - len(others) // 1000]))
        called, false = members.loot.decisions[: len(X)].sum(), members.loot.decisions[len(X) :].sum()
    nobody = SpanMembership()(held, Candidates(others[:1000], shape=held.shape), context=Context(seed))
    return (
        one_to_one(loot, X),
        one_to_one(everything, X),
        len(loot),
        null,
        rate,
        called,
        false,
        nobody.verdict == "leak",
        took,
        accuracy,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    given = parser.parse_args()
    torch.set_num_threads(1)
    heads = ("kind", "n", "claimed and back", "each", "with candidates", "claims right", "null", "TPR at 0.1 % FPR")
    print(f"| {' | '.join((*heads, 'called, of others', 'nobody: leaks', 's'))} |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in given.kind or KINDS:
        rows = [draw(KINDS[name], seed) for seed in range(given.first, given.first + given.draws)]
        done = [row for row in rows if row is not None]
        if not done:
            print(f"| {name} | {KINDS[name].count} | no copy |", flush=True)
            continue
        back, handed, claimed, null, rate, called, false, nobody, took, accuracy = np.array(done, dtype=float).T
        each = " ".join("–" if row is None else f"{row[0]:.0f}" for row in rows)
        cells = (
            name,
            KINDS[name].count,
            f"{back.mean():.1f}",
            each,
            f"{handed.mean():.1f}",
            f"{back.sum():.0f} of {claimed.sum():.0f}",
            f"{null.max():.0f}",
            f"{rate.mean():.3f} (least {rate.min():.3f})",
            f"{called.mean():.1f}, {false.mean():.1f}",
            f"{nobody.sum():.0f}",
            f"{np.median(took):.1f}",
        )
        fitted = "" if accuracy.min() > 0.9 else f" fitted {accuracy.min():.2f}"
        print(f"| {' | '.join(map(str, cells))} |{fitted}", flush=True)


if __name__ == "__main__":
    main()
