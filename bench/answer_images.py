"""Training images and members from a handful of answers (`answer-directions`, `span-reconstruction`, `span-membership`).

    python bench/answer_images.py                      all rows, five fresh draws each; half an hour on one core
    python bench/answer_images.py --only margin        rows whose name holds one of the words
    python bench/answer_images.py --seeds 2 --first 900

Networks are d-300-300-10 as people train them unless a row says otherwise: torch's start, biases everywhere, SGD with rate
0.1, momentum 0.9, weight decay 3e-3, 3,000 epochs over 50 images less their mean, which is known. The attacker knows neither
their number nor the training. Images are those at NCC > 0.9 with a training image, one to one, among what is claimed; null
is the same count with as many others of the same data. Members are called among 50 members and 1,000 others.
Nobody tunes on these draws: what was looked at while this was made has seeds below 100.
"""

import argparse
import time
import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np

from divulge import Candidates, Context, Gradients, Weights, datasets
from divulge.attacks.directions.answers import AnswerDirections
from divulge.attacks.membership.span import SpanMembership
from divulge.attacks.reconstruction.span import SpanReconstruction
from divulge.contract import Budget
from divulge.solvers.shared import similarity
from divulge.victims import margins, ordinary

USUAL = {"lr": 0.1, "momentum": 0.9, "weight_decay": 3e-3, "epochs": 3000}
RIGHT = 0.9
OTHERS = 1000


@dataclass(frozen=True)
class Row:
    name: str
    data: str = "mnist"
    answers: int | None = None
    "Points that are explained, at most and at least; the attack decides where it is None."
    kind: str = "gradient"
    of: str = "each output"
    probabilities: bool = False
    single: bool = False
    count: int = 50
    hidden: tuple[int, ...] = (300, 300)
    outputs: int = 10
    margin: bool = False
    fall: float = 0.01
    "Of the log-loss in a step, where it is trained to the margin: 0.1 are long steps, 0.01 end where plain descent does."
    mean: str = "known"
    budget: int | None = None
    layer: bool = False
    "Whether the first layer itself is attacked, for comparison."


ROWS = [
    *(Row(f"{data}, {answers} answers", data, answers) for data in ("mnist", "fashion", "cifar") for answers in (8, 5)),
    *(
        Row(f"one output, to the margin, {n} answers", answers=n, outputs=1, margin=True, fall=fall)
        if fall == 0.01
        else Row(f"the same by long steps, {n} answers", answers=n, outputs=1, margin=True, fall=fall)
        for n in (100, 200)
        for fall in (0.01, 0.1)
    ),
    Row("one output, to the margin, first layer", outputs=1, margin=True, layer=True),
    Row("the same by long steps, first layer", outputs=1, margin=True, layer=True, fall=0.1),
    *(Row(f"fashion, to the margin, {n} answers", "fashion", n, margin=True) for n in (5, 8, 15, 40)),
    *(Row(f"mnist, to the margin, {n} answers", "mnist", n, margin=True) for n in (8, 40)),
    *(Row(f"cifar, to the margin, {n} answers", "cifar", n, margin=True) for n in (8, 40)),
    *(Row(f"{d} 200 images, 500 units, 40 answers", d, 40, count=200, hidden=(500, 500)) for d in ("mnist", "cifar")),
    *(
        Row(f"{d} 200 images, 500 units, first layer", d, count=200, hidden=(500, 500), layer=True)
        for d in ("mnist", "cifar")
    ),
    Row("integrated gradients, 8", answers=8, kind="integrated gradients"),
    Row("SmoothGrad, 8", answers=8, kind="smoothed gradient"),
    Row("gradient x input, 8", answers=8, kind="gradient times input"),
    Row("top class, 80", answers=80, of="top output"),
    Row("probabilities, 12", answers=12, probabilities=True),
    Row("top probability, 80", answers=80, of="top output", probabilities=True),
    Row("single precision, 8", answers=8, single=True),
    Row("budget of 20 queries", budget=20),
    Row("budget of 8 queries", budget=8),
    *(Row(f"{d}, raw pixels", d, mean="none") for d in ("mnist", "fashion")),
    *(Row(f"{d}, centred, mean unknown", d, mean="unknown") for d in ("mnist", "fashion")),
    *(Row(f"{d}, normalised inside", d, mean="normalised") for d in ("mnist", "fashion")),
]
DATA = {"mnist": "mnist", "fashion": "fashion-mnist", "cifar": "cifar10"}


@cache
def victim(data, count, hidden, outputs, margin, mean, fall, seed):
    """Layers, training images, as many others, more others, and what is subtracted before the first layer."""
    drawn = datasets.load(DATA[data], samples=2 * count, seed=seed, full=True)
    X, others = drawn.X[:count].astype(float), drawn.X[count:].astype(float)
    y, rng = drawn.y[:count], np.random.default_rng(seed)
    y = y % 2 if outputs == 1 else y
    shift = X.mean(axis=0) if mean in ("known", "unknown") else np.full(X.shape[1], 0.1307 if mean == "normalised" else 0.0)
    scale = 0.3081 if mean == "normalised" else 1.0
    inputs = (X - shift) / scale
    if margin:
        layers = margins.train(inputs, np.where(y, 1, -1) if outputs == 1 else y, rng, hidden=hidden, first=1e-4, fall=fall)
    else:
        layers = ordinary.train(inputs, y, rng, hidden=hidden, **USUAL).layers
    layers = [(layers[0][0] / scale, layers[0][1]), *layers[1:]]
    return Weights(tuple(layers), mean=shift, shape=drawn.shape), X, others, drawn.X_test[:OTHERS].astype(float)


def service(row, network, rng):
    """The network as a service that explains in the row's way."""
    plain = Gradients.of(network)

    def cast(A):
        return A.astype(np.float32).astype(float) if row.single else A

    def both(X):
        A, J = plain.value(cast(X)), plain.gradient(cast(X))
        J = J.reshape(len(X), -1, X.shape[1])
        if row.probabilities:
            A = np.exp(A - A.max(axis=1, keepdims=True))
            A /= A.sum(axis=1, keepdims=True)
            J = A[:, :, None] * (J - np.einsum("nk,nkd->nd", A, J)[:, None])
        return A, J

    def explain(X):
        A, J = both(X)
        if row.kind == "smoothed gradient":
            J = np.array([both(x + 0.2 * rng.standard_normal((200, len(x))))[1].mean(axis=0) for x in X])
        elif row.kind == "integrated gradients":
            steps = (np.arange(50) + 0.5) / 50
            J = np.array([both(steps[:, None] * x)[1].mean(axis=0) * x for x in X])
        elif row.kind == "gradient times input":
            J = J * X[:, None]
        return cast(J[np.arange(len(X)), A.argmax(axis=1)] if row.of == "top output" else J)

    known = network.mean if row.mean == "known" else None
    return Gradients(
        value=lambda X: cast(both(X)[0]), gradient=explain, dimension=network.dimension, mean=known, shape=network.shape
    )


def hits(found, originals):
    if not len(found):
        return 0
    alike = similarity.ncc(found, originals)
    rows, columns = similarity.matched(alike)
    return int(np.sum(alike[rows, columns] > RIGHT))


def measured(row, seed):
    network, X, others, more = victim(row.data, row.count, row.hidden, row.outputs, row.margin, row.mean, row.fall, seed)
    asked, said = 0, ""
    if row.layer:
        directions = network
    else:
        held = service(row, network, np.random.default_rng(seed))
        attack = AnswerDirections() if row.answers is None else AnswerDirections(least=row.answers, most=row.answers)
        first = attack(held, context=Context(seed, budget=Budget(queries=row.budget)))
        directions, asked, said = first.loot, first.cost.points, first.summary
    if directions is None:
        print("   ", seed, said[:100])
        return 0, 0, 0, 0, asked, 0, 0
    found = SpanReconstruction()(directions, context=Context(seed))
    claimed = found.loot.X if found.loot is not None else X[:0]
    right = int(np.sum(similarity.ncc(claimed, X).max(axis=1) > RIGHT)) if len(claimed) else 0
    called = np.zeros(len(X) + len(more), dtype=bool)
    if not row.layer:
        candidates = Candidates(np.concatenate([X, more]), shape=network.shape)
        members = SpanMembership()(directions, candidates, context=Context(seed))
        called = members.loot.decisions if members.loot is not None else called
    return (
        hits(claimed, X),
        hits(claimed, others),
        right,
        len(claimed),
        asked,
        called[: len(X)].sum(),
        called[len(X) :].sum(),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = ("images", "each draw", "null", "claims right", "queries", "members", "false")
    print("{:42s} {:>7s} {:22s} {:>5s} {:>13s} {:>8s} {:>8s} {:>6s}".format("", *heads))
    for row in ROWS:
        if chosen.only and not any(word in row.name for word in chosen.only):
            continue
        start = time.perf_counter()
        seen = np.array([measured(row, chosen.first + number) for number in range(chosen.seeds)])
        images, null, right, claimed, asked, members, false = seen.sum(axis=0)
        n = chosen.seeds
        each = " ".join(map(str, seen[:, 0]))
        print(
            f"{row.name:42s} {images / n:7.1f} {each:22s} {null / n:5.1f} {right:6d} of {claimed:3d} {asked / n:8.0f} "
            f"{members / n:8.1f} {false / n:6.1f}   {(time.perf_counter() - start) / n:.0f} s each",
            flush=True,
        )


if __name__ == "__main__":
    main()
