"""Weights from values: queries and errors over seeds, against ART's FunctionallyEquivalentExtraction, and false claims.

    python bench/value_extraction.py                          random networks, 20 seeds a size
    python bench/value_extraction.py --trained 5              784-128-10 trained on MNIST, five seeds
    python bench/value_extraction.py --false-accepts 200      is a copy ever called exact that is not?
    python bench/value_extraction.py --art-python PATH        the same networks for ART, PATH being a Python that has it

ART pins other versions of what divulge needs, so it has an environment of its own:
    python -m venv art
    art/bin/pip install numpy scipy scikit-learn packaging requests tqdm six adversarial-robustness-toolbox
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

SIZES = ((20, 10, 1), (784, 32, 1), (784, 128, 1), (784, 4, 10), (784, 128, 10))
ART_SIZE = 784, 4, 10
ART_MOST = 1_000_000  # queries, after which ART is stopped: it may halve its step for ever
FAR = 1e-5  # a copy called exact whose error at fresh points is larger was falsely accepted
FRESH = 2000


def layers(dimension, units, outputs, rng):
    """As the recipe `random-network` makes them."""
    into = rng.standard_normal((units, dimension)) / np.sqrt(dimension)
    out = rng.standard_normal((outputs, units)) / np.sqrt(units)
    return (into, rng.standard_normal(units)), (out, rng.standard_normal(outputs))


def attack(network, seed):
    from divulge import Context, Predictions
    from divulge.attacks import ValueExtraction

    return ValueExtraction()(Predictions.of(network), truth={"weights": network}, context=Context(seed))


def row(name, findings):
    """One line of the table: medians and worst cases of the complete ones."""
    won = [one for one in findings if one.verdict.value == "leak"]
    if not won:
        return f"| {name} | 0 of {len(findings)} | | | | |"
    rates, errors = ([one.scores[key].value for one in won] for key in ("queries per parameter", "largest weight error"))
    queries = [one.cost.points for one in won]
    return (
        f"| {name} | {len(won)} of {len(findings)} | {np.median(queries):.0f} ({max(queries)}) | "
        f"{np.median(rates):.3f} ({max(rates):.3f}) | {np.median(errors):.0e} ({max(errors):.0e}) | "
        f"{np.median([one.cost.seconds for one in won]):.1f} |"
    )


def table(seeds):
    from divulge import Weights

    for size in SIZES:
        networks = [Weights(layers(*size, np.random.default_rng(seed))) for seed in range(seeds)]
        name = "-".join(map(str, size))
        print(row(f"random {name}", [attack(one, seed) for seed, one in enumerate(networks)]), flush=True)


def trained(seed, units=128, epochs=3):
    """A network that knows digits, in double precision: a forward pass in single precision shows 7 digits only."""
    import torch

    from divulge import Weights, datasets

    data = datasets.load("mnist", seed=seed)
    X = torch.as_tensor(np.asarray(data.X, np.float32)).reshape(len(data.X), -1)
    y = torch.as_tensor(np.asarray(data.y)).long()
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(784, units), torch.nn.ReLU(), torch.nn.Linear(units, 10))
    optimiser = torch.optim.Adam(module.parameters(), 1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(64):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(X[rows]), y[rows]).backward()
            optimiser.step()
    accuracy = float((module(X).argmax(1) == y).float().mean())
    return Weights.of(module.double()), accuracy


def trained_table(seeds):
    victims = [trained(seed) for seed in range(seeds)]
    findings = [attack(network, seed) for seed, (network, _) in enumerate(victims)]
    name = f"trained on MNIST (accuracy {np.mean([accuracy for _, accuracy in victims]):.2f}) 784-128-10"
    print(row(name, findings), flush=True)


def odd_network(rng):
    """Any size, biases and weights of any scale, and often units that are doubled, parallel, dead or nearly invisible."""
    from divulge import Weights

    dimension, units, outputs = int(rng.integers(2, 101)), int(rng.integers(1, 101)), int(rng.choice([1, 1, 2, 3, 10]))
    (into, bias), (out, constant) = layers(dimension, units, outputs, rng)
    into *= 10 ** rng.uniform(-2, 2, (units, 1)) if rng.random() < 0.5 else 10 ** rng.uniform(-3, 3)
    bias *= rng.choice([0.0, 0.1, 1.0, 10.0, 100.0])
    out *= 10 ** rng.uniform(-4, 0, units) if rng.random() < 0.3 else 1.0
    into[rng.random(into.shape) < rng.choice([0, 0, 0.5, 0.9])] = 0
    for kind in rng.choice(["", "double", "opposite", "parallel", "dead", "invisible", "far"], size=3):
        one, other = rng.integers(units, size=2)
        if kind == "double":
            into[one], bias[one] = into[other], bias[other]
        elif kind == "opposite":
            into[one], bias[one] = -2 * into[other], -2 * bias[other]
        elif kind == "parallel":
            into[one] = 0.5 * into[other]
        elif kind == "dead":
            into[one], bias[one] = 0, -1
        elif kind == "invisible":
            out[:, one] *= 1e-8
        elif kind == "far":
            bias[one] *= 1e4
    return Weights(((into, bias), (out, constant)))


def false_accepts(count):
    from divulge.errors import DivulgeError

    verdicts: Counter[str] = Counter(false=0)
    worst = 0.0
    for seed in range(count):
        rng = np.random.default_rng([seed, 1])
        network = odd_network(rng)
        try:
            finding = attack(network, seed)
        except DivulgeError as error:
            verdicts[f"error: {error}"] += 1
            continue
        verdict = finding.verdict.value
        verdicts[verdict] += 1
        if verdict != "leak":
            print(f"seed {seed}: {[W.shape for W, _ in network.layers]} {verdict}: {finding.summary}")
            continue
        X = rng.standard_normal((FRESH, network.dimension)) * np.resize([0.1, 1, 10, 100, 1000], FRESH)[:, None]
        error = 0.0
        usual = network.predict(X[1::5]).std(0).max()
        for size in range(5):
            answers, copied = network.predict(X[size::5]), finding.loot.predict(X[size::5])
            error = max(error, float(np.abs(copied - answers).max() / (max(answers.std(0).max(), usual) or 1)))
        if not finding.loot.exact:
            verdicts["of those, called a copy and not exact"] += 1
            print(f"seed {seed}: a copy whose error is {error:.1e}: {finding.summary}")
            continue
        worst = max(worst, error)
        if error > FAR:
            verdicts["false"] += 1
            print(f"seed {seed}: FALSE, error {error:.1e}: {finding.summary}")
    print(f"{count} networks: {dict(verdicts)}; largest error of an exact one at {FRESH} fresh points {worst:.1e}")


def art_worker(path, seed):
    """In ART's own environment: extract the network in a file, print queries, error and seconds."""
    import art.config

    art.config.ART_NUMPY_DTYPE = np.float64
    from art.attacks.extraction import FunctionallyEquivalentExtraction
    from art.estimators.classification.blackbox import BlackBoxClassifierNeuralNetwork

    with np.load(path) as file:
        into, bias, out, constant = (file[name] for name in ("into", "bias", "out", "constant"))
    asked = 0

    def predict(X):
        nonlocal asked
        asked += len(X)
        if asked > ART_MOST:
            raise RuntimeError(f"stopped after {ART_MOST} queries")
        return np.maximum(np.asarray(X, float) @ into.T + bias, 0) @ out.T + constant

    np.random.seed(seed)  # what ART draws from
    start = time.perf_counter()
    shape = (into.shape[1],)  # and no preprocessing, which would round inputs to single precision
    model = BlackBoxClassifierNeuralNetwork(predict, input_shape=shape, nb_classes=len(constant), preprocessing=None)
    X = np.random.default_rng(seed).standard_normal((1000, into.shape[1]))
    said = "complete"
    error = np.nan
    try:
        copy = FunctionallyEquivalentExtraction(model, num_neurons=len(bias)).extract(X[:100])
        queries = asked
        answers = predict(X)
        error = np.abs(copy.predict(X) - answers).max() / answers.std()
    except Exception as reason:
        queries, said = min(asked, ART_MOST), f"{type(reason).__name__}: {reason}"[:110]
    print(f"RESULT|{queries}|{error:.1e}|{time.perf_counter() - start:.1f}|{said}")


def against_art(python, seeds):
    from divulge import Weights

    print("| 784-4-10 | seed | ART: queries, error, seconds | ours: queries, error, seconds | ratio |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind, seed in [(kind, seed) for kind in ("random", "trained") for seed in range(seeds)]:
            random = kind == "random"
            network = Weights(layers(*ART_SIZE, np.random.default_rng(seed))) if random else trained(seed, ART_SIZE[1])[0]
            (into, bias), (out, constant) = network.layers
            path = Path(folder) / "network.npz"
            np.savez(path, into=into, bias=bias, out=out, constant=constant)
            command = [python, "-W", "ignore", __file__, "--art-worker", str(path), "--seed", str(seed)]
            alone = {**os.environ, "PYTHONPATH": ""}
            heard = subprocess.run(command, capture_output=True, text=True, env=alone, check=False)
            lines = [line for line in heard.stdout.splitlines() if line.startswith("RESULT|")]
            if not lines:
                print(heard.stderr[-500:], "\nART did not start; see the top of this file for how to install it.")
                return
            _, queries, error, seconds, said = lines[0].split("|")
            finding = attack(network, seed)
            ours = finding.scores["relative error at fresh points"].value if finding.scores else np.nan
            ratio = f"{int(queries) / finding.cost.points:.0f}" + ("" if said == "complete" else ", ART not complete")
            print(
                f"| {kind} | {seed} | {queries}, {error}, {seconds} ({said}) | {finding.cost.points}, {ours:.0e}, "
                f"{finding.cost.seconds:.1f} ({finding.verdict.value}) | {ratio} |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trained", type=int, default=0, metavar="N")
    parser.add_argument("--false-accepts", type=int, default=0, metavar="N")
    parser.add_argument("--art-python", default="", metavar="PATH")
    parser.add_argument("--art-worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.art_worker:
        art_worker(given.art_worker, given.seed)
        return
    if given.false_accepts:
        false_accepts(given.false_accepts)
        return
    if given.art_python:
        against_art(given.art_python, given.seeds)
        return
    print("| network | complete | queries (most) | queries a parameter (most) | weight error (largest) | seconds |")
    print("|---|---|---|---|---|---|")
    if given.trained:
        trained_table(given.trained)
        return
    table(given.seeds)
    print("ART's row: run again with --art-python PATH.", file=sys.stderr)


if __name__ == "__main__":
    main()
