"""Whether explanations are called by their name: models of many kinds, explained in every way that people serve.

python bench/explanation_kinds.py --count 600 --seed 2000      the table of what was called what
python bench/explanation_kinds.py widths --seed 2000           down to which width smoothing is told from raw gradients

Nothing was tuned on seeds from 2000 on, but the twelve trained networks are the same for all seeds. DIVULGE_DATA trains
them on MNIST and CIFAR-10; without it, on the embedded samples. An answer counts as right where the kind, what is
explained, signs and scaling are; where two names are of the same numbers (the smoothed gradient of a linear model is its
gradient), either is.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import factorial

import numpy as np
import torch

from divulge import Explanation, datasets
from divulge.solvers.piecewise.explanation_kind import probe

Ask = Callable[[np.ndarray], np.ndarray]
SAME = 1e-4  # relative: explanations no further apart at any of 64 points are the same
MODELS = ("relu 1", "relu 2", "relu 3", "tanh", "gelu", "linear", "logistic", "cnn", "mnist", "mnist cnn", "cifar")
METHODS = (
    "gradient", "gradient times input", "absolute gradient", "absolute gradient times input", "gradient / norm",
    "absolute gradient / norm", "smoothed", "absolute smoothed / norm", "integrated", "shap", "other",
)  # fmt: skip


@dataclass
class Served:
    """A model as a service would answer of it."""

    module: torch.nn.Module
    dimension: int
    single: bool
    soft: bool
    of: str
    box: bool
    scale: float = 1.0
    asked: Counter[str] = field(default_factory=Counter)

    def answer(self, x: torch.Tensor) -> torch.Tensor:
        z = self.module(x)
        if not self.soft:
            return z
        return torch.sigmoid(z) if z.shape[1] == 1 else torch.softmax(z, 1)

    def tensor(self, X: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.array(X), dtype=torch.float32 if self.single else torch.float64)

    def value(self, X: np.ndarray) -> np.ndarray:
        self.asked["values"] += len(X)
        with torch.no_grad():
            return self.answer(self.tensor(X)).numpy().astype(float)

    def weights(self, X: np.ndarray) -> np.ndarray:
        """(n, outputs): which outputs are explained at each point."""
        with torch.no_grad():
            values = self.answer(self.tensor(X)).numpy()
        outputs = values.shape[1]
        if self.of == "top output":
            return np.eye(outputs)[values.argmax(1)]
        if self.of.startswith("output"):
            return np.tile(np.eye(outputs)[int(self.of.split()[1])], (len(X), 1))
        return np.ones_like(values)

    def slope(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        x = self.tensor(X).requires_grad_()
        (found,) = torch.autograd.grad((self.answer(x) * self.tensor(weights)).sum(), x)
        return found.numpy()

    def total(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return (self.answer(self.tensor(X)) * self.tensor(weights)).sum(1).numpy().astype(float)


def model(kind: str, rng: np.random.Generator) -> tuple[torch.nn.Module, int, int, float]:
    """A module, its inputs and outputs, and the usual size of inputs."""
    torch.manual_seed(int(rng.integers(2**31)))
    if kind in ("mnist", "mnist cnn", "cifar"):
        module = trained(kind, int(rng.integers(4)))
        return module, 3072 if kind == "cifar" else 784, 10, 0.3
    nn, outputs = torch.nn, int(rng.choice([1, 1, 3, 10]))
    if kind == "cnn":
        colours, side = (1, 16) if rng.random() < 0.5 else (3, 16)
        layers: list[torch.nn.Module] = [nn.Unflatten(1, (colours, side, side)), nn.Conv2d(colours, 8, 3), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if rng.random() < 0.5 else [nn.Conv2d(8, 8, 3, stride=2), nn.ReLU()]
        module = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(32), nn.ReLU(), nn.LazyLinear(outputs))
        module(torch.zeros(2, colours * side**2))
        return module, colours * side**2, outputs, 1.0
    dimension = int(rng.choice([2, 4, 8, 10, 30, 100, 784, 3072]))
    if kind in ("linear", "logistic"):
        return nn.Sequential(nn.Linear(dimension, outputs)), dimension, outputs, 1.0
    depth = int(kind.split()[1]) if kind.startswith("relu") else int(rng.integers(1, 4))
    between = {"tanh": nn.Tanh, "gelu": nn.GELU}.get(kind, nn.ReLU)
    widths = [dimension, *(int(rng.choice([8, 32, 128, 512])) for _ in range(depth)), outputs]
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), between()]
        with torch.no_grad():
            layers[-2].weight.normal_(0, (2 / before) ** 0.5)
            layers[-2].bias.normal_(0, float(rng.choice([0.1, 0.5])))
    return nn.Sequential(*layers[:-1]), dimension, outputs, 1.0


@cache
def trained(kind: str, seed: int) -> torch.nn.Module:
    """Networks as people train them, on pixels from 0 to 1."""
    nn, rng = torch.nn, np.random.default_rng(seed)
    torch.manual_seed(seed)
    data = datasets.load("cifar10" if kind == "cifar" else "mnist", full="DIVULGE_DATA" in os.environ)
    pixels = data.X.reshape(len(data.X), -1)
    chosen = rng.permutation(len(pixels))[:5000]
    X, y = torch.tensor(pixels[chosen]).float(), torch.tensor(data.y[chosen].astype(np.int64))
    X = (X - X.min()) / (X.max() - X.min())
    between = (nn.ReLU, nn.GELU, nn.ReLU, nn.Tanh)[seed]
    if kind == "mnist cnn":
        module = nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 8, 5, stride=2), between(), nn.Conv2d(8, 16, 3, stride=2), between(),
            nn.Flatten(), nn.Linear(400, 10),
        )  # fmt: skip
    else:
        module = nn.Sequential(
            nn.Linear(X.shape[1], 128), between(), *([nn.Linear(128, 64), between()] if seed % 2 else [nn.Linear(128, 64)]),
            nn.Linear(64, 10),
        )  # fmt: skip
    optimiser = torch.optim.Adam(module.parameters(), 2e-3)
    for _ in range(3):
        for rows in torch.split(torch.tensor(rng.permutation(len(X))), 128):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(X[rows]), y[rows]).backward()
            optimiser.step()
    return module


@dataclass
class Method:
    """A way to explain: rows (n, d) at points, with the outputs of each chosen by weights (n, outputs)."""

    rows: Callable[[np.ndarray, np.ndarray], np.ndarray]
    truth: Explanation | None
    "None where the right answer is that the kind is unknown."
    detail: str = ""


def method(name: str, served: Served, rng: np.random.Generator) -> Method:
    slope = served.slope
    if name.startswith(("gradient", "absolute gradient")):
        absolute, product = name.startswith("absolute"), "times input" in name

        def rows(X: np.ndarray, W: np.ndarray) -> np.ndarray:
            found = slope(X, W) * (served.tensor(X).numpy() if product else 1)
            return np.abs(found) if absolute else found

        kind = "gradient times input" if product else "absolute gradient" if absolute else "gradient"
        if not name.endswith("norm"):
            return Method(rows, Explanation(kind, absolute=absolute))
        norm = str(rng.choice(["maximum", "length", "sum", *(["range"] if absolute else [])]))
        truth = Explanation(kind, absolute=absolute, normalised=norm)
        return Method(lambda X, W: normalise(rows(X, W), norm), truth, norm)
    if name == "smoothed":
        width, samples = served.scale * 10 ** rng.uniform(-2, np.log10(0.3)), int(rng.integers(10, 101))
        noise = str(rng.choice(["fresh", "of the point", "the same"]))
        return Method(smoothed(served, width, samples, noise, rng), Explanation("smoothed gradient"), f"{width:.3f} {noise}")
    if name == "absolute smoothed / norm":
        norm, width = str(rng.choice(["maximum", "length", "sum", "range"])), 0.1 * served.scale
        many = smoothed(served, width, 30, "fresh", rng)
        truth = Explanation("smoothed gradient", absolute=True, normalised=norm)
        return Method(lambda X, W: normalise(np.abs(many(X, W)), norm), truth, norm)
    if name == "integrated":
        return integrated(served, rng)
    if name == "shap":
        return shapley(served, rng)
    other = str(rng.choice(["squares", "noise", "twice", "another's", "averaged path"]))
    many = smoothed(served, 0.2 * served.scale, 20, "fresh", rng)
    direction = rng.standard_normal((served.dimension, served.dimension)) if served.dimension < 200 else None

    def odd(X: np.ndarray, W: np.ndarray) -> np.ndarray:
        if other == "squares":
            return many(X, W) ** 2
        if other == "noise" or (other == "another's" and direction is None):
            return rng.standard_normal(X.shape)
        if other == "another's":
            return np.tanh(X @ direction)
        if other == "averaged path":
            return np.mean([slope(X * share, W) for share in (np.arange(30) + 0.5) / 30], axis=0)
        return 2 * slope(X, W)

    return Method(odd, None, other)


def normalise(rows: np.ndarray, norm: str) -> np.ndarray:
    sizes = np.abs(rows)
    if norm == "range":
        least = rows.min(1, keepdims=True)
        return (rows - least) / np.maximum(rows.max(1, keepdims=True) - least, 1e-30)
    by = {"maximum": sizes.max(1), "length": np.linalg.norm(rows, axis=1), "sum": sizes.sum(1)}[norm]
    return rows / np.maximum(by, 1e-30)[:, None]


def smoothed(
    served: Served, width: float, samples: int, noise: str, rng: np.random.Generator
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    same = rng.standard_normal((samples, served.dimension))

    def around(x: np.ndarray) -> np.ndarray:
        if noise == "the same":
            return same
        source = rng
        if noise == "of the point":
            source = np.random.default_rng(
                np.frombuffer(hashlib.sha256(np.ascontiguousarray(x).tobytes()).digest(), np.uint32)
            )
        return source.standard_normal((samples, served.dimension))

    def rows(X: np.ndarray, W: np.ndarray) -> np.ndarray:
        X = served.tensor(X).numpy()
        found = [served.slope(x + width * around(x), np.tile(w, (samples, 1))).mean(0) for x, w in zip(X, W, strict=True)]
        return np.array(found)

    return rows


def integrated(served: Served, rng: np.random.Generator) -> Method:
    steps, rule = int(rng.integers(20, 301)), str(rng.choice(["left", "right", "middle", "trapezoid", "gauss-legendre"]))
    shares = {
        "left": np.arange(steps) / steps,
        "right": (np.arange(steps) + 1) / steps,
        "middle": (np.arange(steps) + 0.5) / steps,
        "trapezoid": np.linspace(0, 1, steps + 1),
    }.get(rule)
    weights = np.full(steps, 1 / steps)
    if rule == "trapezoid":
        weights = np.r_[0.5, np.ones(steps - 1), 0.5] / steps
    if shares is None:
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        shares, weights = (nodes + 1) / 2, weights / 2
    begin = str(rng.choice(["0", "0", "constant", "point"]))
    start = np.zeros(served.dimension)
    if begin == "constant":
        start += rng.uniform(0, 1) if served.box else 0.5 * rng.standard_normal()
    if begin == "point":
        start = rng.uniform(0, 1, served.dimension) if served.box else 0.5 * rng.standard_normal(served.dimension)
    start = served.tensor(start).numpy().astype(float)

    def rows(X: np.ndarray, W: np.ndarray) -> np.ndarray:
        X = served.tensor(X).numpy().astype(float)
        total = sum(w * served.slope(start + s * (X - start), W) for s, w in zip(shares, weights, strict=True))
        return (X - start) * total

    return Method(rows, Explanation("integrated gradients", baseline=start), f"{steps} {rule} from {begin}")


def shapley(served: Served, rng: np.random.Generator) -> Method:
    """Exact Shapley values of few inputs, else means over random orders, or a weighted fit as kernel SHAP's."""
    count = int(rng.choice([1, 5, 20])) if served.dimension <= 100 else 1
    background = (
        rng.uniform(0, 1, (count, served.dimension)) if served.box else rng.standard_normal((count, served.dimension))
    )
    how = (
        "exact"
        if served.dimension <= 8
        else str(rng.choice(["orders", "kernel"] if served.dimension <= 100 else ["orders"]))
    )

    def worth(x: np.ndarray, w: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Mean value (masks,) with the coordinates of each mask from x, the others from the background."""
        mixed = np.where(masks[:, None, :], x, background).reshape(-1, len(x))
        return served.total(mixed, np.tile(w, (len(mixed), 1))).reshape(len(masks), -1).mean(1)

    def exact(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        d = len(x)
        masks = np.array(list(itertools.product([False, True], repeat=d)))
        values = worth(x, w, masks)
        sizes, places = masks.sum(1), masks @ (1 << np.arange(d)[::-1])
        found = np.zeros(d)
        for i in range(d):
            without = ~masks[:, i]
            share = np.array([factorial(s) * factorial(d - s - 1) / factorial(d) for s in sizes[without]])
            found[i] = (share * (values[places[without] + (1 << (d - 1 - i))] - values[without])).sum()
        return found

    def orders(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        found, times = np.zeros(len(x)), 10 if len(x) <= 100 else 2
        for _ in range(times):
            order = rng.permutation(len(x))
            masks = np.zeros((len(x) + 1, len(x)), dtype=bool)
            masks[1:, order] = np.tri(len(x), dtype=bool)
            found[order] += np.diff(worth(x, w, masks)) / times
        return found

    def kernel(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        d = len(x)
        sizes = np.arange(1, d)
        chance = 1 / (sizes * (d - sizes))
        drawn = rng.choice(sizes, 4 * d + 100, p=chance / chance.sum())
        masks = rng.random((len(drawn), d)).argsort(1) < drawn[:, None]
        low, high = worth(x, w, np.array([[False] * d, [True] * d]))
        inside, last = masks.astype(float), masks[:, -1].astype(float)
        fit, *_ = np.linalg.lstsq(inside[:, :-1] - last[:, None], worth(x, w, masks) - low - last * (high - low), rcond=None)
        return np.r_[fit, high - low - fit.sum()]

    def rows(X: np.ndarray, W: np.ndarray) -> np.ndarray:
        one = {"exact": exact, "orders": orders, "kernel": kernel}[how]
        return np.array([one(x, w) for x, w in zip(served.tensor(X).numpy().astype(float), W, strict=True)])

    return Method(rows, Explanation("SHAP-like"), f"{how}, {count} background")


def case(name: str, kind: str, rng: np.random.Generator) -> tuple[Served, Method, Ask]:
    module, dimension, outputs, scale = model(kind, rng)
    single = bool(rng.random() < 0.5)
    soft = kind == "logistic" or rng.random() < 0.4
    of = "only output"
    if outputs > 1:
        choices = ["each output", f"output {rng.integers(outputs)}", "top output", *([] if soft else ["sum of outputs"])]
        of = str(rng.choice(choices))
    box = kind in ("mnist", "mnist cnn", "cifar") or rng.random() < 0.2
    served = Served(module.float() if single else module.double(), dimension, single, soft, of, box, 0.3 if box else scale)
    way = method(name, served, rng)

    def explain(X: np.ndarray) -> np.ndarray:
        served.asked["explanations"] += len(X)
        if of == "each output":
            answer = np.stack([way.rows(X, np.tile(one, (len(X), 1))) for one in np.eye(outputs)], 1)
        else:
            answer = way.rows(X, served.weights(X))
        return answer.astype(np.float32 if single else float).astype(float)

    return served, way, explain


def right(found: Explanation, served: Served, way: Method, explain: Ask, kind: str, rng: np.random.Generator) -> bool:
    truth = way.truth
    if kind in ("linear", "logistic") and found.normalised and (truth is None or truth.normalised):
        return found.absolute == bool(truth and truth.absolute) or served.of == "only output"  # one direction, of one length
    if truth is None:
        mean = way.detail == "averaged path" and found.kind == "smoothed gradient"  # both are means of gradients elsewhere
        return found.kind == "unknown" or mean or (found.raw and the_same(found, served, explain, rng))
    if (
        found.kind == truth.kind
        and found.absolute == truth.absolute
        and (
            found.normalised == truth.normalised
            or (truth.normalised and found.normalised and same_norm(explain, served, rng))
        )
    ):
        return found.of == served.of or same_outputs(found, served, rng)
    if kind in ("linear", "relu 1") and {found.kind, truth.kind} <= {"integrated gradients", "SHAP-like"}:
        return kind == "linear" and not served.soft
    return the_same(found, served, explain, rng)


def points(served: Served, rng: np.random.Generator, count: int = 64) -> np.ndarray:
    return rng.uniform(0, 1, (count, served.dimension)) if served.box else rng.standard_normal((count, served.dimension))


def same_norm(explain: Ask, served: Served, rng: np.random.Generator) -> bool:
    """Whether answers have several norms in common, as those of a linear model, or begin at 0 anyway."""
    rows = np.abs(explain(points(served, rng))).reshape(64, -1, served.dimension)
    norms = rows.max(2), np.linalg.norm(rows, axis=2), rows.sum(2)
    return sum(bool(np.ptp(norm) <= 1e-3 * norm.max()) for norm in norms) > 1 or not rows.min(2).any()


def same_outputs(found: Explanation, served: Served, rng: np.random.Generator) -> bool:
    """Whether another name for what is explained is as good: the top output may always be the same."""
    X = points(served, rng)
    return {found.of, served.of} == {"top output", f"output {served.weights(X)[0].argmax()}"} and np.ptp(
        served.weights(X), axis=0
    ).max() == 0


def the_same(found: Explanation, served: Served, explain: Ask, rng: np.random.Generator) -> bool:
    """Whether what it was called gives the same numbers."""
    if (
        found.kind not in ("gradient", "gradient times input", "absolute gradient")
        or found.of != served.of
        or found.normalised
    ):
        return False
    X = served.tensor(points(served, rng)).numpy().astype(float)
    given = explain(X)
    outputs = given.shape[1] if given.ndim == 3 else 0
    weights = [np.tile(one, (len(X), 1)) for one in np.eye(outputs)] if outputs else [served.weights(X)]
    raw = np.stack([served.slope(X, one) for one in weights], 1)
    raw = raw * X[:, None] if found.kind == "gradient times input" else raw
    raw = np.abs(raw) if found.absolute else raw
    return bool(np.abs(raw - given.reshape(raw.shape)).max() <= SAME * np.abs(raw).max())


def table(count: int, seed: int, only: str | None) -> None:
    named: dict[str, Counter[str]] = defaultdict(Counter)
    good, asked, start = defaultdict(list), defaultdict(list), time.perf_counter()
    wrong_raw = other_as_raw = raws = others = 0
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        name = only or METHODS[number % len(METHODS)]
        kind = MODELS[int(rng.integers(len(MODELS)))]
        if name == "shap" and kind in ("cifar", "mnist cnn", "cnn"):
            kind = "relu 2"
        served, way, explain = case(name, kind, rng)
        while name == "shap" and served.dimension > 784:
            served, way, explain = case(name, kind, rng)
        options = {"low": 0.0, "high": 1.0} if served.box else {}
        found = probe(served.value, explain, served.dimension, rng, scale=served.scale, **options)
        for what, times in served.asked.items():
            asked[f"{what}, called {found.kind}"].append(times)
        fine = right(found, served, way, explain, kind, rng)
        group = name if name != "other" else f"other: {way.detail}"
        good[group].append(fine)
        called = f"{'absolute ' if found.absolute and found.kind != 'absolute gradient' else ''}{found.kind}"
        named[group][called + (" / norm" if found.normalised else "")] += 1
        if name == "gradient":
            raws += 1
            wrong_raw += not fine
        else:
            others += 1
            other_as_raw += found.raw and not fine
        if not fine:
            what = f"{kind} {served.dimension} {'single' * served.single} {'soft' * served.soft} {'box' * served.box}"
            print(f"  {number} {name} ({way.detail}) of {served.of}, {what}: {found}, {found.agreement:.2f}", flush=True)
    for group, found_names in named.items():
        share = np.mean(good[group])
        print(f"{group}: {share:.0%} of {len(good[group])}; called {dict(found_names.most_common())}")
    print(f"raw gradients called something else: {wrong_raw} of {raws}")
    print(f"others called raw gradients: {other_as_raw} of {others}")
    for what, times in sorted(asked.items()):
        print(f"{what}: median {np.median(times):.0f}, most {max(times)}")
    print(f"{time.perf_counter() - start:.0f} s")


def widths(count: int, seed: int) -> None:
    """How often smoothing of each width is called raw, by precision, model and whether noise is the same everywhere."""
    for single, kind, noises in itertools.product(
        (False, True), ("relu 1", "relu 2", "tanh", "mnist"), (("fresh", "of the point"), ("the same",))
    ):
        shares = []
        for power in np.arange(-4, -0.4, 0.5):
            raw = 0
            for number in range(count):
                rng = np.random.default_rng([seed, number])
                module, dimension, _, scale = model(kind, rng)
                box = kind == "mnist"
                served = Served(
                    module.float() if single else module.double(), dimension, single, False, "output 0", box, scale
                )
                rows = smoothed(served, scale * 10**power, 30, noises[number % len(noises)], rng)

                def explain(X: np.ndarray, served: Served = served, rows: Callable = rows) -> np.ndarray:
                    return rows(X, served.weights(X)).astype(np.float32 if served.single else float).astype(float)

                options = {"low": 0.0, "high": 1.0} if box else {}
                raw += probe(served.value, explain, dimension, rng, scale=scale, **options).raw
            shares.append(f"{10**power:.1g} {raw / count:.0%}")
        what = f"{kind}, {'single' if single else 'double'}, {' or '.join(noises)}"
        print(f"{what}: called raw at width " + ", ".join(shares), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", default="table", choices=("table", "widths"))
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--only", choices=METHODS)
    chosen = parser.parse_args()
    if chosen.part == "table":
        table(chosen.count, chosen.seed, chosen.only)
    else:
        widths(min(chosen.count, 30), chosen.seed)
