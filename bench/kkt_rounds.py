"""Searches for training images in rounds, beside searches that go on with all candidates, on the same networks.

    python bench/kkt_rounds.py --networks 3                                CIFAR-10, 150 images, 3072-500-500-1
    python bench/kkt_rounds.py --networks 5 --count 10 --standard-start    torch's own start, 3072-1000-1000-1
    python bench/kkt_rounds.py --networks 1 --count 500 --hidden 1000 --search "in rounds" --steps 450

Every search is pooled with those of its kind before it, and everything they come to is handed over and scored beside its
nulls. `--first` is the first seed: those below 100 were looked at while the searches were made. CIFAR-10 comes from the
folder in DIVULGE_DATA.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from divulge import Candidates, TrainingData, Weights, datasets
from divulge.arrays import Array
from divulge.attacks import KktReconstruction
from divulge.attacks.reconstruction import scoring
from divulge.attacks.reconstruction.measuring import Scale
from divulge.contract import Context
from divulge.datasets.dataset import Dataset
from divulge.solvers.images.span import span
from divulge.solvers.kkt import pool as kkt_pool
from divulge.solvers.kkt.pool import SearchSpace
from divulge.victims import margins

MARGIN = 10.0
"Outputs that candidates should reach: the least of a network trained to the published loss of 4e-6 has 9 to 10."
ROUNDS = [kkt_pool.IN_ROUNDS] * 3
OTHERS = ["smooth on the margin", kkt_pool.PHOTOGRAPH, "smooth and hard"]


def counts(found: Array, pictures: Dataset, held: Weights, scale: Scale) -> str:
    """Every count beside the largest that a useless attack has, which is named for the published count."""
    compared = scoring.Compared.of(found.astype(np.float32), held, scale, pictures.X_test, ())
    said = [
        f"{name.removeprefix('images at ')} {score.value:.0f} (null {score.null:.0f})"
        for name, score in compared.scores.items()
        if name.startswith("images")
    ]
    return f"{len(found)} candidates: {', '.join(said)}; {compared.scores[scoring.PUBLISHED].null_of}"


def network(seed: int, count: int, hidden: int, steps: int, names: list[str]) -> None:
    pictures = datasets.load("cifar-vehicles-animals", samples=count, seed=seed)
    mean = pictures.X.mean(axis=0)
    began = time.perf_counter()
    layers = margins.train(pictures.X - mean, pictures.y, np.random.default_rng(seed), hidden=[hidden, hidden], single=True)
    held = Weights(tuple(layers), mean=mean, shape=pictures.shape)
    scale = Scale.of(TrainingData(pictures.X, pictures.y, shape=pictures.shape), held)
    space = SearchSpace.of(layers, span(*layers[0]), pictures.shape)
    print(f"seed {seed}: trained in {time.perf_counter() - began:.0f} s, {len(space.plain.frame)} directions", flush=True)
    pools: dict[bool, list[Array]] = {True: [], False: []}
    for number, name in enumerate(names):
        setup, began = space.menu(steps, MARGIN)[name], time.process_time()
        state = space.begin(name, setup, space.signs(2 * count), np.random.default_rng(100 + number))
        state = space.advance(name, space.objective(name), setup, state, setup.steps, lambda: None)
        spent, pool = time.process_time() - began, pools[name == kkt_pool.IN_ROUNDS]
        pool.append(space.inputs(state) @ space.plain.frame + mean)
        print(f"  {name} ({spent:.0f} s of CPU), pooled {counts(np.concatenate(pool), pictures, held, scale)}", flush=True)


def standard_start(seed: int, count: int) -> None:
    """The attack itself on a network that torch's own start is still in, without decay (Haim et al. 2022, C.3.1)."""
    pictures = datasets.load("cifar-vehicles-animals", samples=count, seed=seed)
    mean = pictures.X.mean(axis=0)
    rng, settings = np.random.default_rng(seed), {"first": "standard", "target": 1.5e-6, "single": True}
    layers = margins.train(pictures.X - mean, pictures.y, rng, hidden=[1000, 1000], **settings)
    truth = {
        "training_data": TrainingData(pictures.X, pictures.y, shape=pictures.shape),
        "candidates": Candidates(pictures.X_test, shape=pictures.shape),
    }
    held = Weights(tuple(layers), mean=mean, shape=pictures.shape)
    attack = KktReconstruction(count=count, span=False, fewest=1)
    finding = attack(held, truth=truth, context=Context(seed))
    said = [f"{name} {one.value:.3g} (null {one.null:.3g})" for name, one in finding.scores.items()]
    print(
        f"seed {seed}, {count} images, {finding.cost.seconds:.0f} s, {finding.verdict.value}: {', '.join(said)}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", type=int, default=1)
    parser.add_argument("--first", type=int, default=9500)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--steps", type=int, default=600, help="of a search; one in rounds takes twice as many")
    parser.add_argument(
        "--search", action="append", help="by name, several times for several; by default three of each kind"
    )
    parser.add_argument("--standard-start", action="store_true")
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.networks):
        if given.standard_start:
            standard_start(seed, given.count)
            continue
        network(seed, given.count, given.hidden, given.steps, given.search or [*ROUNDS, *OTHERS])


if __name__ == "__main__":
    main()
