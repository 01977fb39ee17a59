"""Training points of networks with one input: precision, coverage and time on held-out sets, false claims, exact crossings.

python bench/univariate.py                     50 sets of each kind, seeds from 1000
python bench/univariate.py --false-claims 50   is anything certified that is no training point, in all sorts of networks?
python bench/univariate.py --crossings         exact crossings beside a search on a grid, the two taking turns
"""

import argparse
import time
from collections import Counter

import numpy as np

from divulge import Predictions, Weights, victims
from divulge.attacks import UnivariateFromValues, UnivariateReconstruction
from divulge.solvers.univariate import polyline

FIRST = 1000
KINDS = {
    "KKT, alternating labels": {},
    "KKT, alternating, from 60 random units": {"units": 60},
    "KKT, random labels": {"labels": "random"},
    "KKT, random labels, from 40 random units": {"labels": "random", "units": 40},
    "weight decay, alternating labels": {"method": "decay"},
    "descent, alternating labels": {"method": "descent"},
}
SIZES = {"descent, alternating labels": (2, 4)}
"Points of a set: descent separates no more."
USUAL = (6, 14)
STEP = 1e-3
"Of the grid, in shares of the range; crossings between its places are interpolated."


def victim(seed, low=USUAL[0], high=USUAL[1], **settings):
    points = low + seed % (high - low + 1)
    return victims.make("univariate", None, None, np.random.default_rng(seed), points=points, **settings)


def held(made, values):
    (network,) = made.held.values()
    return Predictions.of(network) if values else network


def row(name, findings):
    """One line of the table."""
    score = {
        key: np.array([one.scores[key].value for one in findings if key in one.scores])
        for key in ("certified precision", "precision of all candidates", "margin points found", "margin points certified")
    }
    null = np.mean([one.scores["precision of all candidates"].null for one in findings if one.loot is not None])
    certified = score["certified precision"]
    least = f"{certified.min():.2f}, {certified.mean():.3f} ({len(certified)})" if len(certified) else "–"
    kinds = dict(Counter(one.verdict.value for one in findings))
    return (
        f"| {name} | {kinds} | {least} | {score['margin points certified'].mean():.3f} | "
        f"{score['precision of all candidates'].mean():.3f} | {score['margin points found'].mean():.3f} | {null:.3f} | "
        f"{np.median([one.cost.seconds for one in findings]):.3f} |"
    )


def table(sets, first):
    print("| networks | verdicts | certified: least, mean (sets) | margin points certified | precision of all | ", end="")
    print("margin points found | null | seconds |\n|---|---|---|---|---|---|---|---|")
    for name, settings in KINDS.items():
        made = [victim(seed, *SIZES.get(name, USUAL), **settings) for seed in range(first, first + sets)]
        attacks = {"margin unknown": (UnivariateReconstruction(), False), "values only": (UnivariateFromValues(), True)}
        if settings.get("method", "kkt") == "kkt":
            attacks = {"margin known": (UnivariateReconstruction(margin=1.0), False), **attacks}
        for way, (attack, values) in attacks.items():
            findings = [attack(held(one, values), truth=one.truth) for one in made]
            print(row(f"{name}; {way}", findings), flush=True)


def disturbed(seed, kind):
    """A network that is not what the theorems are about, or not exactly."""
    rng = np.random.default_rng([seed, 1])
    made = victim(seed, labels=str(rng.choice(["alternating", "random"])), units=int(rng.choice([40, 60])))
    (network,) = made.held.values()
    (W, b), (V, c) = network.layers
    if kind == "single precision":
        layers = [(np.float32(one).astype(float), np.float32(two).astype(float)) for one, two in network.layers]
        return Weights(tuple(layers)), made.truth
    if kind.startswith("noise"):
        size = float(kind.split()[-1])
        W, b, V = (one * (1 + size * rng.standard_normal(one.shape)) for one in (W, b, V))
    elif kind == "another margin for one unit":
        V = V.copy()
        V[0, 0] *= 1.1
    elif kind == "never trained":
        W, b, V = rng.standard_normal((20, 1)), rng.standard_normal(20), rng.standard_normal((1, 20))
        size = np.sqrt(np.hypot(W[:, 0], b) / np.abs(V[0]))  # balanced, as if it had been
        W, b, V = W / size[:, None], b / size, V * size
    elif kind == "output bias":
        c = c + 0.1
    return Weights(((W, b), (V, c))), made.truth


def false_claims(sets, first):
    kinds = ("single precision", "noise 1e-6", "noise 1e-3", "another margin for one unit", "never trained", "output bias")
    print("| networks | verdicts | certified | of those each | false among these | certified precision, least |")
    print("|---|---|---|---|---|---|")
    for kind in kinds:
        findings = [
            UnivariateReconstruction()(network, truth=truth)
            for network, truth in (disturbed(seed, kind) for seed in range(first, first + sets))
        ]
        verdicts = dict(Counter(one.verdict.value for one in findings))
        each = [one.scores.get("precision of those certain each") for one in findings]
        precise = [one.scores["certified precision"].value for one in findings if "certified precision" in one.scores]
        wrong = sum(1 for one in each if one is not None and one.value < 1)
        least = f"{min(precise):.2f}" if precise else "–"
        print(f"| {kind} | {verdicts} | {len(precise)} | {sum(one is not None for one in each)} | {wrong} | {least} |")


def sampled(function, margin, low, high):
    """Crossings by their signs on a grid, as one would without the breakpoints."""
    x = np.arange(low, high, STEP * (high - low))
    found = []
    for level in (margin, -margin):
        away = function(x) - level
        (place,) = np.nonzero(away[:-1] * away[1:] < 0)
        found.append(x[place] + (x[place + 1] - x[place]) * away[place] / (away[place] - away[place + 1]))
    return np.sort(np.concatenate(found))


def crossings(sets, first):
    spent, found, total = Counter(), Counter(), 0
    for seed in range(first, first + sets):
        made = victim(seed)
        truth, (network,) = made.truth["training_data"].X[:, 0], made.held.values()
        total += len(truth)
        for way in ("exact", "grid") if seed % 2 else ("grid", "exact"):
            start = time.perf_counter()
            if way == "exact":
                points = polyline.read(polyline.of_network(network.layers), 1.0).points
            else:
                points = sampled(lambda x, net=network: net.predict(x[:, None])[:, 0], 1.0, -1.5, 1.5)
            spent[way] += time.perf_counter() - start
            near = np.abs(truth[:, None] - points).min(axis=1, initial=np.inf)
            found[way] += int(np.sum(near <= STEP * np.ptp(truth)))
    print(f"{total} points of {sets} sets: exact finds {found['exact']}, a grid of {1 / STEP:.0f} places {found['grid']};")
    print(f"seconds {spent['exact']:.3f} and {spent['grid']:.3f}: grid / exact = {spent['grid'] / spent['exact']:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--false-claims", type=int, default=0, metavar="N")
    parser.add_argument("--crossings", action="store_true")
    given = parser.parse_args()
    if given.false_claims:
        false_claims(given.false_claims, given.first)
    elif given.crossings:
        crossings(given.sets, given.first)
    else:
        table(given.sets, given.first)


if __name__ == "__main__":
    main()
