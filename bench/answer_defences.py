"""What an owner can do against images out of a handful of explanations (`answer-directions`, then `span-reconstruction`).

    python bench/answer_defences.py                        every defence, digits, seeds 200 to 202; half an hour on one core
    python bench/answer_defences.py --data cifar10         photographs, from DIVULGE_DATA
    python bench/answer_defences.py --only digits noise    defences whose name holds one of the words
    python bench/answer_defences.py --images 50 100        those with so many images; 1,000 take most of the time

Networks d-300-300-10 as people train them: torch's start, SGD, rate 0.1, momentum 0.9, weight decay 3e-3, 3,000 epochs over
50 images, the mean image known. Images back are training images at NCC > 0.9 among what is claimed, one to one; null is the
same count with as many images that were not trained on. `decayed` is rate/(1 − momentum)·decay·steps: e^−decayed of the
start is left. Accuracy is on 1,000 other images.
"""

import argparse
import time
import warnings
from dataclasses import replace
from functools import cache

import numpy as np

from divulge import Context, Gradients, Weights, datasets
from divulge.attacks import SpanReconstruction
from divulge.attacks.directions.answers import AnswerDirections
from divulge.attacks.reconstruction import span as span_attack
from divulge.defences import defended, dp_sgd
from divulge.explanations import Explanation
from divulge.solvers.shared import similarity
from divulge.victims import margins, ordinary

FIRST_SEED = 200
RIGHT = 0.9
TESTED = 1000  # images of which accuracy is measured
USUAL = {"lr": 0.1, "momentum": 0.9, "weight_decay": 3e-3, "epochs": 3000}
PRIVATE = {"how": "private", "first": 1e-3, "rate": 0.2, "clip": 1.0, "batch": 50, "epochs": 100}
TOLD = ("rounding", "noise", "smoothgrad", "query-limit")
"Behind which it is told that gradients of each output are explained, as a service's own documentation does."


def cases():
    """Name -> how answers are changed, how the network is trained, on how many images."""
    yield "none", None, {}, 50
    for digits in (6, 4, 3, 2, 1):
        yield f"{digits} digits", ("rounding", {"digits": digits}), {}, 50
    for sigma in (1e-3, 1e-2, 1e-1, 1.0):
        yield f"noise {sigma:.1%}", ("noise", {"sigma": sigma}), {}, 50
    yield "absolute", ("absolute", {}), {}, 50
    yield "top-class", ("top-class", {}), {}, 50
    yield "smoothgrad 0.2", ("smoothgrad", {"sigma": 0.2, "samples": 200}), {}, 50
    for points in (20, 10, 8, 5, 3):
        yield f"limit {points}", ("query-limit", {"points": points}), {}, 50
    for start in (0.1, 3.0, 10.0):
        yield f"start {start:g} times torch's", None, {"start": start}, 50
    for decay in (0.0, 1e-4, 5e-4, 1e-3, 1e-2):
        yield f"weight decay {decay:g}", None, {"weight_decay": decay}, 50
    yield "weight decay 5e-4, six times as long", None, {"weight_decay": 5e-4, "epochs": 18_000}, 50
    for epochs in (300, 1000, 2000):
        yield f"stop after {epochs} epochs", None, {"epochs": epochs}, 50
    for count in (100, 200, 1000):
        yield "more images", None, {"single": True, "epochs": 3000 if count < 1000 else 2000}, count
    yield "Adam", None, {"how": "adam", "lr": 1e-3, "weight_decay": 0.0, "epochs": 500}, 50
    yield "AdamW, decay 0.01", None, {"how": "adamw", "lr": 1e-3, "weight_decay": 0.01, "epochs": 500}, 50
    yield "dropout 0.5", None, {"dropout": 0.5}, 50
    for noise in (0.01, 0.1, 1.0):
        yield f"DP-SGD noise {noise:g}, first layer starts at 1e-3", None, {**PRIVATE, "noise": noise}, 50


def decayed(settings, count):
    """rate/(1 − momentum)·decay·steps of the full batch; none where another optimiser was used."""
    if settings.get("how", "sgd") != "sgd":
        return None
    one = {**USUAL, **settings}
    return one["lr"] / (1 - one["momentum"]) * one["weight_decay"] * one["epochs"]


@cache
def network(data, count, settings, seed):
    """A network, its training images, as many others, and its accuracy on more others."""
    drawn = datasets.load(data, samples=2 * count, seed=seed, full=True)
    X, others, y = drawn.X[:count].astype(float), drawn.X[count:].astype(float), drawn.y[:count]
    given, rng, mean = dict(settings), np.random.default_rng(seed), drawn.X[:count].astype(float).mean(axis=0)
    if given.get("how") == "private":
        given.pop("how")
        layers = margins.train(X - mean, y, rng, hidden=(300, 300), method="private", **given)
    else:
        given = {**USUAL, **given}
        optimiser = given.pop("how", "sgd")
        if optimiser != "sgd":
            del given["momentum"]
        layers = ordinary.train(X - mean, y, rng, hidden=(300, 300), optimiser=optimiser, **given).layers
    held = Weights(tuple(layers), mean=mean, shape=drawn.shape)
    right = held.predict(drawn.X_test[:TESTED].astype(float)).argmax(axis=1) == drawn.y_test[:TESTED]
    return held, X, others, float(right.mean())


def attacked(held, defence, seed):
    """Points asked, what was claimed, and the last verdict."""
    service = replace(Gradients.of(held), mean=held.mean, shape=held.shape)
    if defence is not None:
        service = defended(service, defence[0], seed=seed, **defence[1])
        if defence[0] in TOLD:
            kind = "smoothed gradient" if defence[0] == "smoothgrad" else "gradient"
            service = replace(service, explanation=Explanation(kind, of="each output"))
    shown = AnswerDirections()(service, context=Context(seed))
    found = SpanReconstruction()(shown.loot, context=Context(seed)) if shown.loot is not None else shown
    asked = 0 if shown.cost is None else shown.cost.points
    claimed = found.loot.X if found.verdict.value == "leak" else np.zeros((0, held.dimension))
    return asked, claimed, found.verdict.value


def one_to_one(claimed, X):
    if not len(claimed):
        return 0
    alike = similarity.ncc(claimed, X)
    rows, columns = similarity.matched(alike)
    return int(np.sum(alike[rows, columns] > RIGHT))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist", choices=("mnist", "fashion-mnist", "cifar10"))
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--images", nargs="+", type=int, default=[50, 100, 200, 1000])
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    span_attack._Control.__call__ = lambda self, rng: np.zeros(2)  # tells power, not claims, and takes most of the time
    print(
        "| defence | images | decayed | test accuracy | points asked | images back | null | claimed, right | verdicts | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, defence, settings, count in cases():
        if count not in given.images or not any(word in name for word in given.only):
            continue
        begun, rows = time.perf_counter(), []
        for seed in range(FIRST_SEED, FIRST_SEED + given.draws):
            held, X, others, accuracy = network(given.data, count, tuple(sorted(settings.items())), seed)
            asked, claimed, verdict = attacked(held, defence, seed)
            right = int(np.sum(similarity.ncc(claimed, X).max(axis=1) > RIGHT)) if len(claimed) else 0
            rows.append((accuracy, asked, one_to_one(claimed, X), one_to_one(claimed, others), len(claimed), right, verdict))
        accuracy, asked, back, null, many, right, verdicts = zip(*rows, strict=True)
        product, spent = decayed(settings, count), ""
        if settings.get("how") == "private":
            spent = f" (ε {dp_sgd.epsilon(count, **{key: settings[key] for key in ('epochs', 'batch', 'noise')}):,.0f})"
        cells = [
            name + spent,
            str(count),
            "–" if product is None else f"{product:.1f}",
            f"{np.mean(accuracy):.3f}",
            ", ".join(map(str, asked)),
            ", ".join(map(str, back)),
            str(max(null)),
            f"{sum(many)}, {sum(right)}",
            ", ".join(sorted(set(verdicts))),
            f"{(time.perf_counter() - begun) / given.draws:.0f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
