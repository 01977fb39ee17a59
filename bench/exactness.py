"""Whether what is called exact is, how soon other networks are refused, and what that costs plain ones.

python bench/exactness.py traps --count 300 --seed 2000      exact copies that are wrong beyond their bound
python bench/exactness.py refusals --count 72 --seed 2000    queries until deep and convolutional networks are refused
python bench/exactness.py plain --count 100 --seed 2000      false refusals among two-layer networks, random and trained
python bench/exactness.py cost --count 3 --seed 2000         queries a unit
python bench/exactness.py noise --seed 2000                  what noise and rounding end in
python bench/exactness.py traps --values --count 300         the same from values alone

Nothing was tuned on seeds from 2000 on. DIVULGE_DATA trains networks on all of MNIST; without it, on the embedded sample.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch

from divulge import Finding, Gradients, Predictions, Weights, datasets
from divulge.attacks import GradientExtraction, ValueExtraction
from divulge.contract import Context, Verdict

POINTS = 40_000  # at which a copy is compared with the network
OFF = 1e-6  # of the spread of values at points of one size: a copy that is further off there is wrong
FAR = 10.0 ** np.arange(-2, 6)  # sizes of points at which copies are looked at besides


def dense(rng: np.random.Generator, *widths: int, biases: float = 1.0) -> list[list[np.ndarray]]:
    return [
        [rng.standard_normal((after, before)) * np.sqrt(2 / before), biases * rng.standard_normal(after)]
        for before, after in pairwise(widths)
    ]


def behind(
    first: list[np.ndarray], deeper: np.ndarray, biases: np.ndarray, rng: np.random.Generator, outputs: int
) -> Weights:
    """First-layer units handed through a second layer that leaves them alone, and deeper units beside them."""
    units = len(first[1])
    through = np.concatenate([np.eye(units), deeper]), np.concatenate([np.zeros(units), biases])
    out = rng.standard_normal((outputs, units + len(deeper))) / np.sqrt(units)
    return Weights((tuple(first), through, (out, rng.standard_normal(outputs))))


TRAPS = (
    "rare deeper unit", "thin cone", "far deeper unit", "all at once", "near twins", "tiny", "huge bias",
    "rarely on", "deep and open", "wide and rare",
)  # fmt: skip


def trap(kind: str, rng: np.random.Generator) -> Weights:
    """A network that looks like one of two layers, or whose units hardly show."""
    inputs, units, outputs = int(rng.integers(2, 60)), int(rng.integers(2, 50)), int(rng.choice([1, 1, 3]))
    first = dense(rng, inputs, units)[0]
    W, b = first
    X = rng.standard_normal((4000, inputs))
    active = np.maximum(X @ W.T + b, 0)
    some = int(rng.integers(1, 4))
    if kind in ("rare deeper unit", "thin cone", "far deeper unit", "wide and rare"):
        v = rng.standard_normal((some, units))
        if kind == "thin cone":  # on where one unit outweighs many
            v = -np.abs(v) * 10 ** rng.uniform(-2, 0.5)
            v[np.arange(some), rng.integers(0, units, some)] = 1.0
            biases = np.full(some, -float(rng.uniform(0, 1)))
        elif kind == "far deeper unit":
            biases = -(10 ** rng.uniform(1, 5, some))
        else:
            share = 10 ** rng.uniform(-4, -1, some)
            biases = -np.array([np.quantile(row, 1 - p) for row, p in zip((active @ v.T).T, share, strict=True)])
            if kind == "rare deeper unit":  # and far out on the side of few
                v -= rng.uniform(0, 2)
                biases = -np.array([np.quantile(row, 1 - p) for row, p in zip((active @ v.T).T, share, strict=True)])
        return behind(first, v, biases, rng, outputs)
    if kind == "all at once":  # on where several units are
        several = rng.integers(2, min(units, 8) + 1, some)
        v = np.stack([np.isin(np.arange(units), rng.permutation(units)[:k]) * 1.0 for k in several])
        v = v - rng.uniform(0, 3) * (1 - v)
        return behind(first, v, -(10 ** rng.uniform(-1, 2, some)), rng, outputs)
    out = [rng.standard_normal((outputs, units)) / np.sqrt(units), rng.standard_normal(outputs)]
    pick = rng.permutation(units)[: max(1, units // 4)]
    if kind == "near twins":
        other = (pick + 1) % units
        W[pick] = W[other] + 10 ** rng.uniform(-9, -3) * rng.standard_normal((len(pick), inputs))
        b[pick], out[0][:, pick] = b[other], -out[0][:, other]
    elif kind == "tiny":
        out[0][:, pick] *= 10 ** rng.uniform(-13, -4, len(pick))
    elif kind == "huge bias":
        b[pick] *= 10 ** rng.uniform(1, 7, len(pick))
    elif kind == "rarely on":
        b[pick] = -rng.uniform(2, 5, len(pick)) * np.linalg.norm(W[pick], axis=1)
    elif kind == "deep and open":  # deeper units that are all on near 0
        layers = dense(rng, inputs, units, int(rng.integers(2, 30)), outputs)
        layers[1][1] = 10 ** rng.uniform(0.5, 3) * np.abs(layers[1][1]) + 1
        return Weights(tuple(tuple(layer) for layer in layers))
    return Weights((tuple(first), tuple(out)))


def share_wrong(network: Weights, copy: Weights, region: dict[float, float], rng: np.random.Generator) -> float:
    """Of points of several sizes, {size: share of the points}, where a copy is off by 1e-6 of how values vary there.

    Or at points of size 1, if they vary more there: where all units are off, nothing varies but by rounding.
    """
    usual = network.predict(rng.standard_normal((POINTS, network.dimension)))
    least, wrong = float(np.abs(usual - usual.mean(0)).max()), 0.0
    for size, share in region.items():
        X = size * rng.standard_normal((POINTS, network.dimension))
        Y, mine = network.predict(X), copy.predict(X)
        unit = max(float(np.abs(Y - Y.mean(0)).max()), least, 1e-9)
        wrong += share * float((np.abs(mine - Y).max(1) > OFF * unit).mean())
    return wrong


def traps(count: int, seed: int, values: bool) -> None:
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    beyond, elsewhere, queries = 0, 0, []
    for number in range(count):
        kind, rng = TRAPS[number % len(TRAPS)], np.random.default_rng([seed, number])
        network = trap(kind, rng)
        attack = ValueExtraction() if values else GradientExtraction()
        held = Predictions.of(network) if values else Gradients.of(network)
        finding = attack(held, context=Context(number))
        verdict = finding.verdict.value
        if finding.verdict is Verdict.LEAK:
            queries.append(finding.cost.points)
            verdict = "exact" if finding.loot.exact else "copied"
            bound = getattr(finding.evidence, "bound", None)
            region = dict(bound.sizes) if bound is not None else {1.0: 0.5, 1e4: 0.5}
            allowed = bound.share if bound is not None else 3 / 8
            wrong = share_wrong(network, finding.loot, region, rng)
            far = max(share_wrong(network, finding.loot, {size: 1.0}, rng) for size in FAR)
            if finding.loot.exact and wrong > allowed:
                beyond, verdict = beyond + 1, "WRONG"
            elsewhere += finding.loot.exact and far > allowed
            if max(wrong, far) > 0:
                print(
                    f"  {number} {kind}: {verdict}, off at {wrong:.2%}, bound {allowed:.1%}, {far:.1%} of one size",
                    flush=True,
                )
        verdicts[kind][verdict] += 1
    for kind, found in verdicts.items():
        print(f"{kind}: {dict(found)}")
    exact = sum(found["exact"] + found["WRONG"] for found in verdicts.values())
    print(f"{exact} of {count} called exact, {beyond} wrong beyond their bound, {elsewhere} at points of another size")
    print(f"queries of copies: median {np.median(queries):.0f}, most {max(queries)}")


def served(layers: list[list[np.ndarray]], single: bool, soft: bool) -> Gradients:
    modules: list[torch.nn.Module] = []
    for W, b in layers:
        linear = torch.nn.Linear(W.shape[1], len(W))
        linear.weight.data, linear.bias.data = torch.tensor(W), torch.tensor(b)
        modules += [linear, torch.nn.ReLU()]
    return asked(torch.nn.Sequential(*modules[:-1]), layers[0][0].shape[1], single, soft)


def asked(module: torch.nn.Module, dimension: int, single: bool, soft: bool) -> Gradients:
    """Values and Jacobians of a module of any kind, of flat inputs."""
    module = module.float() if single else module.double()
    kind = torch.float32 if single else torch.float64

    def answer(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(module(x), 1) if soft else module(x)

    def value(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return answer(torch.as_tensor(np.array(X), dtype=kind)).numpy().astype(float)

    def gradient(X: np.ndarray) -> np.ndarray:
        rows = torch.as_tensor(np.array(X), dtype=kind).requires_grad_()
        out = answer(rows)
        found = [torch.autograd.grad(out[:, k].sum(), rows, retain_graph=True)[0] for k in range(out.shape[1])]
        return torch.stack(found, 1).numpy().astype(float)

    return Gradients(value, dimension, gradient=gradient)


def convolutional(rng: np.random.Generator, kind: str, outputs: int) -> tuple[torch.nn.Module, int]:
    torch.manual_seed(int(rng.integers(2**31)))
    colours, side = (1, 28) if rng.random() < 0.5 else (3, int(rng.choice([16, 32])))
    channels, size = int(rng.choice([4, 8, 16])), int(rng.choice([3, 5]))
    nn = torch.nn
    layers: list[torch.nn.Module] = [nn.Unflatten(1, (colours, side, side)), nn.Conv2d(colours, channels, size), nn.ReLU()]
    if kind == "conv, pool, linear":
        layers += [nn.MaxPool2d(2)]
    elif kind == "conv, conv, dense":
        layers += [nn.Conv2d(channels, channels, 3, stride=2), nn.ReLU()]
    elif kind == "conv, pool, dense":
        layers += [nn.MaxPool2d(2)]
    layers += [nn.Flatten()]
    if kind == "conv, pool, linear":
        layers += [nn.LazyLinear(outputs)]
    else:
        layers += [nn.LazyLinear(int(rng.choice([16, 64]))), nn.ReLU(), nn.LazyLinear(outputs)]
    module = nn.Sequential(*layers)
    module(torch.zeros(2, colours * side * side))
    return module, colours * side * side


CONVOLUTIONAL = ("conv, dense", "conv, conv, dense", "conv, pool, dense", "conv, pool, linear")


def trained_module(rng: np.random.Generator, *hidden: int) -> torch.nn.Sequential:
    data = datasets.load("mnist", full="DIVULGE_DATA" in os.environ)
    torch.manual_seed(int(rng.integers(2**31)))
    modules: list[torch.nn.Module] = []
    for before, after in pairwise((784, *hidden)):
        modules += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    module = torch.nn.Sequential(*modules, torch.nn.Linear(hidden[-1], 10))
    chosen = rng.permutation(len(data.X))[:5000]
    X, y = torch.tensor(data.X[chosen]).float(), torch.tensor(data.y[chosen].astype(np.int64))
    optimiser = torch.optim.Adam(module.parameters(), 2e-3)
    for _ in range(3):
        for rows in torch.split(torch.tensor(rng.permutation(len(X))), 128):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(X[rows]), y[rows]).backward()
            optimiser.step()
    return module


def refusals(count: int, seed: int) -> None:
    """Deep networks, random and trained, and convolutional ones: queries, seconds, and the layer's kind as it was named."""
    asked_for: dict[str, list[int]] = defaultdict(list)
    named: Counter[str] = Counter()
    slowest, not_refused = 0.0, 0
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        outputs, single = int(rng.choice([1, 2, 10])), bool(rng.random() < 0.3)
        soft = outputs > 1 and rng.random() < 0.4
        if number % 3 == 0:
            kind = CONVOLUTIONAL[number // 3 % 4]
            target = asked(*convolutional(rng, kind, outputs), single, soft)
        elif number % 12 == 1:
            kind = "trained on MNIST"
            target = asked(trained_module(rng, *([int(rng.choice([32, 128]))] * int(rng.integers(2, 4)))), 784, single, soft)
        else:
            hidden = int(rng.integers(2, 6))
            kind = f"dense, {hidden} hidden layers"
            inputs = int(rng.choice([10, 30, 100, 784, 3072]))
            widths = [int(rng.choice([16, 64, 128, 512])) for _ in range(hidden)]
            target = served(dense(rng, inputs, *widths, outputs, biases=float(rng.choice([0.1, 1]))), single, soft)
        start = time.perf_counter()
        options = {"low": 0.0, "high": 1.0} if kind == "trained on MNIST" and rng.random() < 0.5 else {}
        finding = GradientExtraction(**options)(target, context=Context(number))
        slowest = max(slowest, time.perf_counter() - start)
        asked_for[kind].append(finding.cost.points)
        about = "several hidden layers" if "several hidden layers" in finding.summary else "other"
        about = "convolutional" if "convolution" in finding.summary else about
        named[f"{kind.split(',')[0]}: {about}"] += 1
        if finding.verdict is not Verdict.NOT_APPLICABLE or finding.cost.points > 60 or about == "other":
            not_refused += finding.verdict is not Verdict.NOT_APPLICABLE
            print(f"  {number} {kind} {target.dimension}->{outputs} single {single} soft {soft}:", end=" ")
            print(finding.verdict.value, finding.cost.points, finding.summary, flush=True)
    for kind, queries in asked_for.items():
        print(f"{kind}: median {np.median(queries):.0f}, most {max(queries)} queries, {len(queries)} networks")
    every = [one for queries in asked_for.values() for one in queries]
    soon = sum(one <= 60 for one in every)
    print(f"all {len(every)}: median {np.median(every):.0f}, most {max(every)}, {soon} within 60; {not_refused} not refused")
    print(dict(named))
    print(f"slowest {slowest:.1f} s")


def plain(count: int, seed: int) -> None:
    """Two-layer networks: of any width, wide ones too, in single precision, in a box, behind a softmax, trained."""
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    kinds = ("random", "wide", "random", "single", "box", "softmax", "trained", "trained, single", "no biases", "one unit")
    for number in range(count):
        kind, rng = kinds[number % len(kinds)], np.random.default_rng([seed, number])
        inputs, outputs = int(rng.choice([3, 10, 50, 200, 784])), int(rng.choice([1, 1, 3, 10]))
        units = round(np.exp(rng.uniform(0, np.log(600))))
        options, single = {}, kind in ("single", "trained, single")
        if kind == "wide":
            inputs, units = int(rng.choice([5, 10, 20])), int(rng.choice([100, 500, 2000]))
        elif kind == "one unit":
            units = int(rng.integers(1, 4))
        elif kind in ("single", "box", "softmax"):
            inputs, units = max(inputs, 10), min(units, 60)
        outputs = max(2, outputs) if kind == "softmax" else outputs
        if kind.startswith("trained"):
            target = asked(trained_module(rng, int(rng.choice([16, 64, 128]))), 784, single, False)
        else:
            biases = {"no biases": 0.0, "box": 0.2}.get(kind, 1.0)
            layers = dense(rng, inputs, units, outputs, biases=biases)
            target = served(layers, single, kind == "softmax")
        if kind == "box":
            options = {"low": 0.0, "high": 1.0}
        finding = GradientExtraction(**options)(target, context=Context(number))
        exact = " exact" if finding.loot is not None and finding.loot.exact else ""
        verdicts[kind][finding.verdict.value + exact] += 1
        if finding.verdict is not Verdict.LEAK:
            print(f"  {number} {kind} {inputs}-{units}-{outputs}: {finding.cost.points} {finding.summary}", flush=True)
    for kind, found in verdicts.items():
        print(f"{kind}: {dict(found)}")


def cost(count: int, seed: int) -> None:
    for units, outputs in ((10, 1), (100, 1), (500, 1), (1000, 1), (100, 10), (1000, 10)):
        found = []
        for number in range(count):
            network = Weights(tuple(tuple(one) for one in dense(np.random.default_rng([seed, number]), 784, units, outputs)))
            finding = GradientExtraction()(Gradients.of(network), context=Context(number))
            found.append(finding.cost.points if finding.verdict is Verdict.LEAK else np.nan)
        each = ", ".join(f"{one:.0f}" for one in found)
        print(f"784-{units}-{outputs}: {np.mean(found) / units:.3f} queries a unit ({each})", flush=True)


def noisy(network: Weights, change: Callable[[np.ndarray], np.ndarray]) -> Gradients:
    api = Gradients.of(network)
    return Gradients(lambda X: change(api.value(X)), network.dimension, gradient=lambda X: change(api.gradient(X)))


def digits(numbers: np.ndarray, count: int) -> np.ndarray:
    unit = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(numbers), 1e-300))) + 1 - count)
    return np.asarray(np.round(numbers / unit) * unit)


def outcome(finding: Finding[Weights], network: Weights) -> str:
    if finding.loot is None:
        return f"{finding.verdict.value}: {finding.summary[:60]}"
    X = np.random.default_rng(0).standard_normal((2000, network.dimension))
    Y = network.predict(X)
    error = np.abs(finding.loot.predict(X) - Y).max() / np.abs(Y - Y.mean(0)).max()
    return f"{finding.verdict.value}{' EXACT' * finding.loot.exact}, off {error:.0e}, {finding.cost.points} queries"


def noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    networks = [
        Weights(tuple(tuple(one) for one in dense(rng, *shape))) for shape in ((30, 10, 1), (30, 40, 4), (100, 60, 1))
    ]
    steps: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    for power in range(-14, -2):
        steps[f"noise added, 1e{power}"] = lambda Z, s=10.0**power: Z + s * rng.standard_normal(Z.shape)
    for power in range(-14, -2):
        steps[f"noise times, 1e{power}"] = lambda Z, s=10.0**power: Z * (1 + s * rng.standard_normal(Z.shape))
    for count in range(12, 2, -1):
        steps[f"{count} digits"] = lambda Z, n=count: digits(Z, n)
    for count in range(12, 2, -1):
        steps[f"{count} decimals"] = lambda Z, n=count: np.round(Z, n)
    for name, change in steps.items():
        for network in networks:
            finding = GradientExtraction()(noisy(network, change), context=Context(seed))
            print(
                f"{name} | {'-'.join(map(str, network.layers[0][0].shape[::-1]))} | {outcome(finding, network)}", flush=True
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("traps", "refusals", "plain", "cost", "noise"))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--values", action="store_true", help="of traps: from values alone")
    chosen = parser.parse_args()
    if chosen.part == "traps":
        traps(chosen.count, chosen.seed, chosen.values)
    elif chosen.part == "noise":
        noise(chosen.seed)
    else:
        {"refusals": refusals, "plain": plain, "cost": cost}[chosen.part](chosen.count, chosen.seed)
