"""Trained networks that values alone should give up: binary probabilities, saturating units, single precision.

python bench/value_refusals.py --count 20 --seed 5000                 all kinds, 20 networks each
python bench/value_refusals.py --kinds binary single --count 5 --seed 0

Nothing was tuned on seeds from 5000 on.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import scale

from divulge import Predictions, Verdict
from divulge.attacks import ValueExtraction
from divulge.contract import Context

FRESH = 2000  # points at which a copy is compared with the model
FALSE = 1e-5  # of the spread: a copy called exact that is further off is falsely claimed
SIZES = (0.1, 1.0, 10.0)  # of those points
SATURATED = 6.0  # logits beyond it, of probabilities, are not compared: at z nearly e^z digits' worth is lost

Score = Callable[[np.ndarray], np.ndarray]


def table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of people's tables: a made one of 5 to 100 inputs, breast cancer, or two kinds of digits."""
    which = rng.integers(4)
    if which == 0:
        X, y = load_breast_cancer(return_X_y=True)
        return scale(X), y
    if which == 1:
        X, y = load_digits(return_X_y=True)
        one, other = rng.choice(10, 2, replace=False)
        kept = (y == one) | (y == other)
        return X[kept] / 16, (y[kept] == one).astype(int)
    inputs = int(np.exp(rng.uniform(np.log(5), np.log(100))))
    X, y = make_classification(
        500, inputs, n_informative=max(3, inputs // 2), n_redundant=inputs // 10, random_state=int(rng.integers(2**31))
    )
    return scale(X), y


def width(rng: np.random.Generator) -> int:
    return int(rng.integers(5, 51))


def binary(rng: np.random.Generator) -> tuple[Predictions, Score, str]:
    """scikit-learn's classifier, or two probabilities of a torch network in double precision."""
    X, y = table(rng)
    seed, units, kind = int(rng.integers(2**31)), width(rng), rng.integers(4)
    if kind < 2:
        model = MLPClassifier((units,), max_iter=int(rng.choice([30, 200])), random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        (W, V), (b, c) = model.coefs_, model.intercepts_
        held = Predictions.of(model)
        return held, lambda Z: np.maximum(Z @ W + b, 0) @ V + c, f"sklearn {X.shape[1]}-{units}"
    net = trained(X, y, units, torch.nn.ReLU(), 1 if kind == 2 else 2, seed).double()

    def logits(Z: np.ndarray) -> torch.Tensor:
        with torch.no_grad():
            return net(torch.as_tensor(Z))

    def answers(Z: np.ndarray) -> np.ndarray:
        out = logits(Z)
        if kind == 3:
            return torch.softmax(out, 1).numpy()
        p = torch.sigmoid(out)
        return torch.cat([1 - p, p], 1).numpy()

    def score(Z: np.ndarray) -> np.ndarray:
        out = logits(Z).numpy()
        return out if kind == 2 else out[:, 1:] - out[:, :1]

    name = f"torch {'softmax' if kind == 3 else 'sigmoid'} {X.shape[1]}-{units}"
    return Predictions(answers, X.shape[1], name), score, name


def trained(
    X: np.ndarray, y: np.ndarray, units: int, activation: torch.nn.Module, outputs: int, seed: int
) -> torch.nn.Module:
    """A network of one hidden layer, 20 to 100 rounds of Adam on batches."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(X.shape[1], units), activation, torch.nn.Linear(units, outputs))
    inputs, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(20 + seed % 81):
        for rows in torch.randperm(len(inputs)).split(64):
            optimiser.zero_grad()
            out = net(inputs[rows])
            if outputs > 1:
                loss = torch.nn.functional.cross_entropy(out, labels[rows].long())
            else:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(out[:, 0], labels[rows].float())
            loss.backward()
            optimiser.step()
    return net.eval()


def plain(
    rng: np.random.Generator, activation: torch.nn.Module, outputs: int, dtype: torch.dtype
) -> tuple[Predictions, Score, str]:
    X, y = table(rng)
    units = width(rng)
    net = trained(X, y, units, activation, outputs, int(rng.integers(2**31))).to(dtype)
    precise = torch.nn.Sequential(*net).to(torch.float64) if dtype == torch.float64 else None

    def score(Z: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return (precise or net)(torch.as_tensor(Z, dtype=dtype)).numpy().astype(float)

    return Predictions.of(net), score, f"{X.shape[1]}-{units}-{outputs}"


def relu6(rng: np.random.Generator) -> tuple[Predictions, Score, str]:
    return plain(rng, torch.nn.ReLU6(), int(rng.integers(1, 3)), torch.float64)


def hardtanh(rng: np.random.Generator) -> tuple[Predictions, Score, str]:
    return plain(rng, torch.nn.Hardtanh(), int(rng.integers(1, 3)), torch.float64)


def single(rng: np.random.Generator) -> tuple[Predictions, Score, str]:
    return plain(rng, torch.nn.ReLU(), 1, torch.float32)


KINDS = {"binary": binary, "relu6": relu6, "hardtanh": hardtanh, "single": single}


def error(copied: Score, score: Score, dimension: int, rng: np.random.Generator, curved: bool) -> float:
    """The largest over sizes of the root mean square error, relative to how scores vary."""
    worst = 0.0
    for size in SIZES:
        X = size * rng.standard_normal((FRESH, dimension))
        Z, copy = score(X), copied(X)
        if curved:
            copy = copy[:, -1:] - copy[:, :1] if copy.shape[1] > 1 else copy
            kept = np.abs(Z[:, 0]) < SATURATED
            Z, copy = Z[kept], copy[kept]
        if len(Z) > 1 and Z.std() > 0:
            worst = max(worst, float(np.sqrt(np.mean((Z - copy) ** 2)) / Z.std()))
    return worst


def measure(kind: str, count: int, seed: int) -> None:
    tally: Counter[str] = Counter()
    for number in range(count):
        rng = np.random.default_rng([seed + number, list(KINDS).index(kind)])
        held, score, name = KINDS[kind](rng)
        finding = ValueExtraction()(held, context=Context(seed + number))
        said = f"{kind} {seed + number} {name}: {finding.verdict.value}, {finding.cost.points} queries"
        if finding.loot is not None:
            said += f", {len(finding.loot.layers[0][1])} units"
        if finding.loot is None:
            print(f"{said}: {finding.summary}", flush=True)
            tally[finding.verdict.value] += 1
            continue
        off = error(finding.loot.predict, score, held.dimension, rng, kind == "binary")
        exact = finding.loot.exact
        tally[finding.verdict.value] += 1
        tally["exact"] += exact
        tally["falsely exact"] += exact and off > FALSE
        leak = finding.verdict is Verdict.LEAK
        print(f"{said}{', exact' * exact}, off {off:.1e}{'' if leak else ': ' + finding.summary}", flush=True)
    print(f"{kind}: {dict(tally)} of {count}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=5000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for kind in given.kinds:
        measure(kind, given.count, given.seed)
