"""Whether the p-value of a cluster of equal margins is one: how often smooth crowds have a smaller one than α.

    python bench/logit_gap.py --draws 100 --seed 1000

Crowds of 50 to 5,000 numbers of eleven kinds, all without bumps narrower than the solver allows for. Each row has the share
of draws with p below each α and the smallest p; the last one has all draws. A share above α beyond its error is a defect.
"""

import argparse
from collections.abc import Callable

import numpy as np

from divulge.arrays import Array
from divulge.solvers.statistics.logit_gap import BUMP, margin_cluster

Crowd = Callable[[np.random.Generator, int], Array]
LEVELS = (1e-2, 1e-3, 1e-4)
SIZES = (50, 150, 300, 1000, 5000)
CROWDS: dict[str, Crowd] = {
    "normal": lambda rng, n: 3 * rng.standard_normal(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "lognormal": lambda rng, n: np.exp(rng.standard_normal(n)),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "Student, 2": lambda rng, n: rng.standard_t(2, n),
    "two normals": lambda rng, n: rng.standard_normal(n) + np.where(rng.random(n) < 0.5, 0, 5),
    "two scales": lambda rng, n: rng.standard_normal(n) * np.where(rng.random(n) < 0.5, 1, 20),
    "two uniforms": lambda rng, n: np.where(rng.random(n) < 0.7, rng.uniform(0, 1, n), rng.uniform(0.5, 2, n)),
    "top two of ten": lambda rng, n: np.diff(np.sort(rng.standard_normal((n, 10)))[:, -2:]).ravel(),
    "narrowest bump": lambda rng, n: np.exp(BUMP * rng.standard_normal(n)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100, help="of each kind and size")
    parser.add_argument("--seed", type=int, default=1000)
    given = parser.parse_args()
    print(f"{'crowd':16}{'points':>7}" + "".join(f"{f'p < {level:g}':>11}" for level in LEVELS) + f"{'smallest':>11}")
    everything = []
    for number, (name, draw) in enumerate(CROWDS.items()):
        for size in SIZES:
            seeds = ([given.seed, number, size, draw_number] for draw_number in range(given.draws))
            found = [margin_cluster(np.abs(draw(np.random.default_rng(seed), size))) for seed in seeds]
            p = np.array([1.0 if one is None else one.p_value for one in found])
            everything.append(p)
            _row(name, f"{size:,}", p)
    _row("all", f"{sum(map(len, everything)):,}", np.concatenate(everything))


def _row(name: str, size: str, p: Array) -> None:
    shares = "".join(f"{np.mean(p < level):11.5f}" for level in LEVELS)
    print(f"{name:16}{size:>7}{shares}{p.min():11.1e}", flush=True)


if __name__ == "__main__":
    main()
