"""Training points of networks with one input: precision, coverage and time on held-out sets, false claims, exact crossings.

python bench/univariate.py                     50 sets of each kind, seeds from 1000
python bench/univariate.py --false-claims 50   is anything certified that is no training point, in all sorts of networks?
python bench/univariate.py --near 40           networks near a KKT point: certificates right and wrong
python bench/univariate.py --crossings         exact crossings beside a search on a grid, the two taking turns
"""

import argparse
import time
from collections import Counter

import numpy as np
from scipy.optimize import minimize

from divulge import Predictions, TrainingData, Weights, victims
from divulge.attacks import UnivariateFromValues, UnivariateReconstruction
from divulge.attacks.univariate import candidates
from divulge.attacks.univariate.findings import CertifiedPoints, FunctionOfValues
from divulge.solvers.univariate import polyline
from divulge.victims.univariate import draw

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


def sqp(seed, width, starts=3):
    """A network by sequential quadratic programming on ½‖θ‖² for a margin of 1: near a KKT point, seldom at one; or none."""
    rng = np.random.default_rng(seed)
    x, y = draw(rng, 6 + seed % 7, "alternating")
    units = [slice(0, width), slice(width, 2 * width), slice(2 * width, None)]

    def beyond(theta):
        w, b, v = (theta[one] for one in units)
        return y * (np.maximum(np.outer(x, w) + b, 0) @ v) - 1

    def slopes(theta):
        w, b, v = (theta[one] for one in units)
        z = np.outer(x, w) + b
        return y[:, None] * np.hstack([(z > 0) * v * x[:, None], (z > 0) * v, np.maximum(z, 0)])

    best = None
    for _ in range(starts):
        w = 2 * rng.standard_normal(width)
        b = -w * rng.uniform(-1.2, 1.2, width)
        v = np.linalg.lstsq(np.maximum(np.outer(x, w) + b, 0), 1.2 * y, rcond=None)[0]
        rule = {"type": "ineq", "fun": beyond, "jac": slopes}
        start, options = np.concatenate([w, b, v]), {"maxiter": 500, "ftol": 1e-12}
        end = minimize(lambda t: t @ t / 2, start, jac=lambda t: t, constraints=rule, method="SLSQP", options=options)
        if beyond(end.x).min() > -0.05 and (best is None or end.fun < best.fun):
            best = end
    if best is None:
        return None
    w, b, v = (best.x[one] / np.sqrt(1 + beyond(best.x).min()) for one in units)
    return Weights(((w[:, None], b), (v[None], np.zeros(1)))), {"training_data": TrainingData(x[:, None], y)}


def near(sets, first):
    """Sets by SQP, weight decay and descent, and what is certified of them: without a tolerance, and with."""
    ways = {f"SQP, {width} units": (lambda seed, width=width: sqp(seed, width)) for width in (24, 40, 80)}
    for method in ("kkt", "decay", "descent"):
        for units in (24, 100, 200):
            if method == "kkt" and units > 24:
                continue

            def trained(seed, method=method, units=units):
                size = (2, 4) if method == "descent" else (6, 12)
                made = victim(seed, *size, method=method, units=None if method == "kkt" else units)
                return made.held["network"], made.truth

            ways[method if method == "kkt" else f"{method}, {units} units"] = trained
    print("| networks | sets | held | with a certificate: exact, in all | groups right | wrong | listed | ", end="")
    print("margin points found |")
    print("|---|---|---|---|---|---|---|---|")
    for name, make in ways.items():
        made = [one for one in (make(seed) for seed in range(first, first + sets)) if one is not None]
        for held_as in ("weights", "values"):
            count, found = Counter(), []
            for network, truth in made:
                attack, asked = (
                    (UnivariateReconstruction(), network)
                    if held_as == "weights"
                    else (UnivariateFromValues(), Predictions.of(network))
                )
                finding = attack(asked, truth=truth)
                if not isinstance(finding.evidence, CertifiedPoints | FunctionOfValues):
                    continue  # values that are too noisy
                points = getattr(finding.evidence, "points", finding.evidence)
                count["exact"] += bool(points.certified) and not points.tolerance
                count["all"] += bool(points.certified)
                count["listed"] += points.listed
                if "margin points found" in finding.scores:
                    found.append(finding.scores["margin points found"].value)
                function = polyline.of_network(network.layers) if held_as == "weights" else finding.evidence.function
                again = (
                    candidates.of_weights(network, None, polyline.SLACK)
                    if held_as == "weights"
                    else candidates.of_values(function, None, polyline.SLACK)
                )
                x = truth["training_data"].X[:, 0]
                within = max(1e-3, again.tolerance) * np.ptp(x)
                right = np.abs(again.reading.points[:, None] - x).min(axis=1, initial=np.inf) <= within
                count["right"] += sum(bool(right[one.members].any()) for one in again.all_windows)
                count["wrong"] += sum(not right[one.members].any() for one in again.all_windows)
                count["wrong"] += int(np.sum(again.certain & ~right))
            share = f"{np.mean(found):.3f}" if found else "–"
            print(
                f"| {name} | {len(made)} | {held_as} | {count['exact']}, {count['all']} | {count['right']} | "
                f"{count['wrong']} | {count['listed']} | {share} |",
                flush=True,
            )


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
    parser.add_argument("--near", type=int, default=0, metavar="N")
    parser.add_argument("--crossings", action="store_true")
    given = parser.parse_args()
    if given.false_claims:
        false_claims(given.false_claims, given.first)
    elif given.near:
        near(given.near, given.first)
    elif given.crossings:
        crossings(given.sets, given.first)
    else:
        table(given.sets, given.first)


if __name__ == "__main__":
    main()
