"""What an owner can do against reconstruction of training images, beside what it costs in accuracy.

    python bench/reconstruction_defences.py                     every defence, two draws
    python bench/reconstruction_defences.py --only decay start  those whose name holds one of the words
    python bench/reconstruction_defences.py --images 40 200     those with so many images
    python bench/reconstruction_defences.py --attack kkt-reconstruction --draws 5

Networks 784-300-1 for odd or even digits of the embedded MNIST sample, all attacked by one attack with its own
options. Every draw has images and starting weights of its own. A count is training images at NCC > 0.9 in the loot, matched
one to one; its null is the best of the mean image, random points of the span, first-layer weights and as many images that
were not trained on. Accuracy is on the 2,000 test images.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

from divulge import Candidates, TrainingData, Weights, datasets, registry, victims
from divulge.contract import Context
from divulge.defences import dp_sgd
from divulge.solvers.margin import max_margin

FIRST_SEED = 2000
UNITS = 300
HEADLINE = "images at NCC > 0.9"
PRIVATE = {"method": "private", "batch": 64, "rate": 0.2, "clip": 1.0}


def cases():
    """Name -> number of images, settings of the recipe."""
    yield "none", 40, {}
    for decay in (1e-3, 1e-2, 1e-1):
        yield f"weight decay {decay:g}", 40, {"method": "decay", "decay": decay}
        yield f"weight decay {decay:g}, nearer to the minimum", 40, {"method": "decay", "decay": decay, "rounded": True}
    for target in (0.3, 0.1, 1e-2):
        yield f"stop at loss {target:g}", 40, {"target": target}
    for first in (1e-3, 1e-2, "standard"):
        yield f"start {first if isinstance(first, str) else format(first, 'g')}", 40, {"first": first}
    for digits in (4, 3, 2, 1):
        yield f"weights to {digits} digit{'s' if digits > 1 else ''}", 40, {"digits": digits}
    for noise in (1e-4, 1e-3, 1e-2, 3e-2, 1e-1):
        yield f"noise {noise:g} of the largest weight", 40, {"noise_on_weights": noise}
    yield "mean image kept secret", 40, {"mean_known": False}
    yield "trained without first-layer bias", 40, {"bias": False}
    for count, epochs, levels in ((40, 100, (0.01, 0.1, 1.0, 4.0)), (1000, 10, (0.01, 1.0, 4.0))):
        for noise in levels:
            yield f"DP-SGD noise {noise:g}", count, {**PRIVATE, "epochs": epochs, "noise": noise}
    for count in (100, 200):
        yield "more images", count, {}
    yield "stop at loss 0.3", 200, {"target": 0.3}
    yield "weight decay 0.01", 200, {"method": "decay", "decay": 1e-2}
    yield "start standard", 200, {"first": "standard"}
    for count in (500, 1000):
        yield "more images", count, {}


def attacked(attack, count, settings, seed):
    """Accuracy, images and their null, verdict, seconds."""
    data = datasets.load("mnist-odd-even", samples=count, seed=seed)
    rng = np.random.default_rng(seed)
    test = Candidates(data.X_test, data.y_test)
    settings = dict(settings)
    if settings.pop("bias", True):
        made = victims.make("margin", data.X, data.y, rng, test=test, shape=data.shape, hidden=[UNITS], **settings)
        network, truth = made.held["network"], made.truth
    else:
        network = without_bias(data, rng)
        truth = {"training_data": TrainingData(data.X, data.y, shape=data.shape), "candidates": test}
    in_use = replace(network, mean=data.X.mean(axis=0))  # also where the owner keeps the mean secret
    accuracy = np.mean(np.sign(in_use.predict(data.X_test)[:, 0]) == data.y_test)
    start = time.perf_counter()
    options = {"fewest": 1} if attack == "kkt-reconstruction" else {}  # so few pictures it leaves to the span search
    finding = registry.attack(attack)(**options)(network, truth=truth, context=Context(seed))
    score = finding.scores.get(HEADLINE)
    found = (score.value, score.null) if score else (0.0, 0.0)
    return accuracy, *found, finding.verdict.value, time.perf_counter() - start


def without_bias(data, rng, target=4e-6, fall=0.05):
    """Descent on the log-loss as the recipe does it, for a network that has no bias at all."""
    mean = data.X.mean(axis=0)
    (W, _), (V, _) = max_margin.initial(rng, [data.X.shape[1], UNITS, 1])
    span = max_margin.Span.of(data.X - mean, W)
    W, v, X, y, rate = span.rows, V[0], span.points, data.y, 1.0

    def log_loss(W, v):
        return np.log(np.mean(np.logaddexp(0, -y * (np.maximum(X @ W.T, 0) @ v))))

    now = log_loss(W, v)
    for _ in range(20_000):
        if now <= np.log(target):
            break
        hidden = np.maximum(X @ W.T, 0)
        back = -y * np.exp(-np.logaddexp(0, y * (hidden @ v)) - now) / len(X)
        dv, dW = back @ hidden, ((back[:, None] * v) * (hidden > 0)).T @ X
        size = np.vdot(dW, dW) + dv @ dv
        rate = min(1.5 * rate, fall / size)
        while (then := log_loss(W - rate * dW, v - rate * dv)) > now - 0.1 * rate * size and rate * size > 1e-3:
            rate /= 2
        W, v, now = W - rate * dW, v - rate * dv, then
    layers = span.outside([(W, np.zeros(UNITS)), (v[None], np.zeros(1))])
    return Weights(tuple(layers), mean=mean, shape=data.shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--images", nargs="+", type=int, default=[40, 100, 200, 500, 1000])
    parser.add_argument("--attack", default="span-reconstruction")
    parser.add_argument("--draws", type=int, default=2)
    asked = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + asked.draws)
    print("| defence | images | ε | test accuracy | images back, each draw | null | verdicts | s |")
    print("|---|---|---|---|---|---|---|---|")
    for name, count, settings in cases():
        if count not in asked.images or not any(word in name for word in asked.only):
            continue
        each_draw = [attacked(asked.attack, count, settings, seed) for seed in seeds]
        accuracy, found, null, verdicts, seconds = zip(*each_draw, strict=True)
        spent = "–"
        if settings.get("method") == "private":
            kept = {key: settings[key] for key in ("epochs", "batch", "noise")}
            spent = f"{dp_sgd.epsilon(count, **kept):.1f}"
        each = ", ".join(f"{value:.0f}" for value in found)
        said = ", ".join(sorted(set(verdicts)))
        row = [
            name,
            str(count),
            spent,
            f"{np.mean(accuracy):.3f}",
            each,
            f"{max(null):.0f}",
            said,
            f"{np.mean(seconds):.0f}",
        ]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
