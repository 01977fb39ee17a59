"""Training images of ordinarily trained networks from values alone: how many come back, and for how many values.

    python bench/value_directions.py                    digits and clothes, five draws from seed 200
    python bench/value_directions.py --quick            digits in double precision, one draw
    python bench/value_directions.py --seeds 300 301    other draws

Networks d-300-300-10 with torch's own start, SGD at 0.1 with momentum 0.9 and weight decay 3e-3 for 3,000 epochs, on 50
images of which the mean is known to the attacker, and nothing else. Nothing was tuned on seeds from 200 on. DIVULGE_DATA has
the pictures. Images are matched one to one at NCC > 0.9; the null is as many pictures that were not trained on.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from divulge import Context, Predictions, Weights, datasets
from divulge.attacks.directions.values import ValueDirections
from divulge.attacks.reconstruction.span import SpanReconstruction
from divulge.contract.context import Budget
from divulge.solvers.shared import similarity
from divulge.victims import ordinary

COUNT, SHAPE = 50, (28, 28)
SERVED = ("float64 logits", "float32 logits", "float64 probabilities", "float32 probabilities")
LIMIT = 13_000  # values


def served(layers: list[tuple[np.ndarray, np.ndarray]], mean: np.ndarray, kind: str) -> Callable[[np.ndarray], np.ndarray]:
    """A server that computes in the precision it answers in."""
    number = np.float32 if "float32" in kind else np.float64

    def answer(X: np.ndarray) -> np.ndarray:
        A = X.astype(number) - mean.astype(number)
        for place, (W, b) in enumerate(layers):
            A = (np.maximum(A, 0) if place else A) @ W.T.astype(number) + b.astype(number)
        if "probabilities" in kind:
            A = np.exp(A - A.max(axis=1, keepdims=True))
            A /= A.sum(axis=1, keepdims=True)
        return A

    return answer


def alike(X: np.ndarray, Y: np.ndarray) -> int:
    if not len(X):
        return 0
    near = similarity.ncc(X, Y)
    return int((near[similarity.matched(near)] > 0.9).sum())


def draw(name: str, seed: int, kinds: tuple[str, ...], limit: int | None) -> list[tuple[int, ...]]:
    """Of one network, for each way of serving it: images, null, claims, directions, values."""
    data, rng = datasets.load(name), np.random.default_rng([seed, 78])
    order = rng.permutation(len(data.X))
    X, y, others = data.X[order[:COUNT]], data.y[order[:COUNT]], data.X[order[COUNT : 2 * COUNT]]
    mean, found = X.mean(axis=0), []
    options = {"optimiser": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 3e-3, "epochs": 3000}
    layers = ordinary.train(X - mean, y, rng, hidden=(300, 300), **options).layers
    truth = Weights(tuple(layers), mean=mean, shape=SHAPE)
    for kind in kinds:
        start = time.perf_counter()
        held = Predictions(served(layers, mean, kind), len(mean), mean=mean, shape=SHAPE)
        won = ValueDirections()(held, truth={"weights": truth}, context=Context(seed, budget=Budget(queries=limit)))
        claimed = np.zeros((0, len(mean)))
        if won.loot is not None:
            images = SpanReconstruction()(won.loot)
            claimed = claimed if images.loot is None else images.loot.X
        rank = 0 if won.evidence is None else won.evidence.rank
        found.append((alike(claimed, X), alike(claimed, others), len(claimed), rank, won.cost.points))
        seconds = time.perf_counter() - start
        print(f"  {name} {seed} {kind}: {found[-1]} {'partial ' * won.partial}{seconds:.1f} s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(200, 205)))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--limit", type=int, default=LIMIT, help="values a network may be asked for")
    given = parser.parse_args()
    names, seeds, kinds = given.data, given.seeds, SERVED
    if given.quick:
        names, seeds, kinds = names[:1], seeds[:1], kinds[:1]
    for name in names:
        means = np.mean([draw(name, seed, kinds, given.limit) for seed in seeds], axis=0)
        for kind, (images, null, claims, rank, values) in zip(kinds, means, strict=True):
            right = images / max(claims, 1)
            print(
                f"{name}, {kind}: {images:.1f} of {COUNT} images (null {null:.1f}), {right:.0%} of {claims:.1f} claims "
                f"right, {rank:.1f} directions, {values:,.0f} values"
            )


if __name__ == "__main__":
    main()
