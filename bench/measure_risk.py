"""The trainings behind the map of risk: one factor varied at a time, and recipes drawn over the whole space.

    python bench/measure_risk.py --minutes 60      goes on where it stopped; needs DIVULGE_DATA
    python scripts/fit_risk.py                     then fits what `divulge.risk` places trainings by

Every training is a row of src/divulge/training_risk/measured.csv, which nobody edits by hand. Seeds from 20000 on; the
trainings that judge the map (bench/training_risk.py) have others.
"""

import argparse
import csv
import json
import signal
import time
import warnings
from dataclasses import asdict, replace
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
from zoo import pictures

from divulge import risk
from divulge.studies.training_risk import Training, trial
from divulge.training_risk.measured import measured as found_before
from divulge.training_risk.recipe import Recipe

OUT = Path(__file__).parent.parent / "src" / "divulge" / "training_risk" / "measured.csv"
FIRST_SEED = 20_000
RANDOM, NEAR, CHOSEN = 260, 200, 300
SOON = 45
"Images of 784 pixels, or half as many photographs, up to which a chosen training comes before those of more."
DRAWS = 5
SECONDS = 120
"A training and its attack that take longer tell nothing, and are left out."
CENTRE = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-3, "steps": 1200}
"lr/(1 − momentum)·wd·steps is 6: all 40 digits come back."
STARTS, DECAYS = (1e-4, 1e-3, 1e-2, 0.1, 1.0), (0.0, 1.0, 2.0, 3.0, 4.5, 6.0, 9.0)
AXES = [
    {"momentum": 0.0, "lr": 0.5, "weight_decay": 0.01},
    {"optimiser": "adam", "momentum": 0.0, "lr": 1e-3, "weight_decay": 0.0},
    {"optimiser": "adam", "momentum": 0.0, "lr": 1e-3, "weight_decay": 1e-2},
    {"optimiser": "adamw", "momentum": 0.0, "lr": 1e-3, "weight_decay": 5.0},
    {"optimiser": "rmsprop", "momentum": 0.0, "lr": 1e-3, "weight_decay": 1e-3},
    {"optimiser": "adam", "momentum": 0.0, "lr": 1e-3, "weight_decay": 1e-3},
    {"optimiser": "adam", "momentum": 0.0, "lr": 1e-3, "weight_decay": 1e-4},
    {"optimiser": "rmsprop", "momentum": 0.0, "lr": 1e-3, "weight_decay": 0.0},
    {"optimiser": "adam", "momentum": 0.0, "lr": 1e-3, "weight_decay": 0.0, "start": 1e-3},
    {"weight_decay": 2e-2, "steps": 300},
    {"weight_decay": 2e-3, "steps": 3000},
    {"weight_decay": 5e-4, "steps": 3000},
    {"weight_decay": 2e-2},
    {"weight_decay": 5e-2},
    {"images": 20},
    {"images": 80},
    {"images": 150},
    {"images": 400, "batch": 64, "epochs": 170},
    {"images": 2000, "batch": 64, "epochs": 38},
    {"label_noise": 0.2},
    {"label_noise": 0.5},
    {"hidden": (25,)},
    {"hidden": (50,)},
    {"hidden": (100,)},
    {"hidden": (500,)},
    {"hidden": (200, 200)},
    {"hidden": (200, 200, 200)},
    {"biases": False},
    {"precision": "float64"},
    {"dropout": 0.2},
    {"dropout": 0.5},
    {"augmentation": "shift"},
    {"augmentation": "noise"},
    {"classes": 2},
    {"classes": 5},
    {"batch": 20, "epochs": 600},
    {"batch": 8, "epochs": 240},
    {"data": "fashion-mnist"},
    {"data": "cifar10"},
    {"weight_decay": 0.0},
    {"weight_decay": 0.0, "start": 1e-3, "steps": 3000},
]


def drawn(rng, kinds=("mnist", "mnist", "fashion-mnist", "cifar10")):
    """A recipe from anywhere, such as people may use; small enough to be trained in seconds."""

    def power(low, high):
        return float(10 ** rng.uniform(np.log10(low), np.log10(high)))

    images = int(power(20, 100) if rng.random() < 0.83 else power(100, 2000))
    batch = None if images < 300 and rng.random() < 0.6 else int(min(rng.choice([4, 8, 16, 32, 64]), images))
    if images > 300:
        batch = int(rng.choice([32, 64, 128]))
    an_epoch = 1 if batch is None else -(-images // batch)
    epochs = max(1, round(power(200, 3000) / an_epoch))
    optimiser = str(rng.choice(["sgd"] * 8 + ["adam", "adamw", "rmsprop"]))
    momentum = float(rng.choice([0.0, 0.5, 0.9, 0.9, 0.95])) if optimiser == "sgd" else 0.0
    lr = power(0.02, 0.5) * (1 - momentum) ** 0.5 if optimiser == "sgd" else power(2e-4, 5e-3)
    decay = 0.0 if rng.random() < 0.25 else power(0.5, 15) if rng.random() < 0.7 else None
    weight_decay = power(1e-5, 1e-2) if decay is None else decay * (1 - momentum) / (lr * epochs * an_epoch)
    if decay and optimiser in ("adam", "rmsprop"):  # which rescale the penalty's slope with the loss's
        weight_decay = 1e-6 * 3e4 ** (np.log(decay / 0.5) / np.log(30))
    widths = tuple(int(power(30, 400)) for _ in range(int(rng.choice([1, 1, 2, 3]))))
    return Recipe(
        lr=float(f"{lr:.3g}"),
        epochs=epochs,
        weight_decay=float(f"{weight_decay:.3g}"),
        momentum=momentum,
        optimiser=optimiser,
        images=images,
        batch=batch,
        hidden=widths,
        start=1.0 if rng.random() < 0.5 else float(f"{power(1e-4, 2):.3g}"),
        classes=int(rng.choice([2, 2, 5, 10, 10, 10])),
        label_noise=round(float(rng.uniform(0.05, 0.5)), 2) if rng.random() < 0.15 else 0.0,
        dropout=round(float(rng.uniform(0.05, 0.5)), 2) if rng.random() < 0.15 else 0.0,
        augmentation=str(rng.choice(["none"] * 10 + ["shift", "noise"])),
        biases=bool(rng.random() > 0.1),
        precision=str(rng.choice(["float32", "float32", "float64"])),
        data=str(rng.choice(kinds)),
    )


def near(rng):
    """One of few images that may or may not come back: where the start has neither stayed nor gone."""
    while True:
        recipe = drawn(rng)
        left = np.log10(recipe.left)
        open_yet = recipe.weight_decay > 1e-4 if recipe.rescaled else -2.5 < left < -0.2
        if open_yet and recipe.images <= 100 and recipe.optimiser != "adamw":
            return recipe


def quick(rng, images=60, steps=2000):
    """One of few images that is soon trained and attacked."""
    while True:
        recipe = drawn(rng)
        if recipe.images <= images and recipe.updates <= steps and (recipe.batch or images) >= 16:
            return replace(recipe, batch=None if recipe.batch is None else min(recipe.batch, recipe.images))


def decayed(rng, recipe, low=1.5, high=14.0):
    """The same by descent, with decay that takes the start away by a factor from e^low to e^high."""
    momentum = recipe.momentum if recipe.optimiser == "sgd" else 0.9
    lr = recipe.lr if recipe.optimiser == "sgd" else 0.1
    made = replace(recipe, optimiser="sgd", momentum=momentum, lr=lr)
    return replace(made, weight_decay=float(f"{rng.uniform(low, high) / made.travelled:.3g}"))


def chosen(rng, kind):
    """One where the map of before was wrong or had little to go by."""
    recipe = quick(rng)
    if kind == "two classes":
        data = str(rng.choice(["mnist", "fashion-mnist", "cifar10", "cifar10"]))
        return decayed(rng, replace(recipe, classes=2, data=data))
    if kind == "rescaled":
        lr, weight_decay = 10 ** rng.uniform(-3.7, -2.3), 10 ** rng.uniform(-4.7, -1.7)
        optimiser = str(rng.choice(["adam", "rmsprop"]))
        rates = {"lr": float(f"{lr:.3g}"), "weight_decay": float(f"{weight_decay:.3g}")}
        return replace(recipe, optimiser=optimiser, momentum=0.0, **rates)
    if kind == "no biases":
        return decayed(rng, replace(recipe, biases=False))
    if kind == "augmented":
        return decayed(rng, replace(recipe, augmentation=str(rng.choice(["shift", "noise"]))), low=3.0)
    if kind == "few steps":
        return decayed(rng, replace(recipe, epochs=None, steps=int(rng.integers(200, 400))), high=8.0)
    if kind == "many images":
        images, width = int(rng.integers(80, 180)), int(rng.integers(100, 400))
        return decayed(rng, replace(recipe, images=images, batch=None, epochs=int(rng.integers(300, 1500)), hidden=(width,)))
    return recipe


CHOICES = (
    "two classes", "rescaled", "no biases", "few steps", "anything",
    "rescaled", "two classes", "augmented", "anything", "many images",
)  # fmt: skip
"In turn."


def cells():
    """Name, recipe and seed of every training, random ones between the others; the plane first, which takes least time."""
    axes = [{**CENTRE, **one} for one in AXES]
    scale = CENTRE["lr"] / (1 - CENTRE["momentum"]) * CENTRE["steps"]
    plane = [{**CENTRE, "start": start, "weight_decay": decay / scale} for start in STARTS for decay in DECAYS]
    planes, others = [("plane", Recipe(**one)) for one in plane], [("axis", Recipe(**one)) for one in axes]
    fixed = [
        (name, recipe, FIRST_SEED + draw) for kind in (planes, others) for draw in range(DRAWS) for name, recipe in kind
    ]
    spread = [("random", drawn(np.random.default_rng([FIRST_SEED, i])), FIRST_SEED + 100 + i) for i in range(RANDOM)]
    open_yet = [("near", near(np.random.default_rng([FIRST_SEED, 1, i])), FIRST_SEED + 500 + i) for i in range(NEAR)]
    where_weak = [
        ("chosen", chosen(np.random.default_rng([FIRST_SEED, 2, i]), CHOICES[i % len(CHOICES)]), FIRST_SEED + 800 + i)
        for i in range(CHOSEN)
    ]
    where_weak.sort(key=lambda one: one[1].images * (one[1].pixels / 784) ** 0.5 > SOON)
    pairs = zip_longest(open_yet, spread, fixed)
    return where_weak + [one for one in chain.from_iterable(pairs) if one is not None]


class TooLong(Exception):
    pass


def stop(*_):
    raise TooLong


def measured(recipe, seed, seconds=SECONDS):
    """The trial of a recipe, or one that is unfinished."""
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        return tried(recipe, seed)
    except TooLong:
        return Training(recipe.images, 0, 0, 0, 0.0, "unfinished")
    finally:
        signal.alarm(0)


def tried(recipe, seed):
    short = {"fashion-mnist": "fashion"}.get(recipe.data, recipe.data)
    X, shape, y = pictures(short, 2 * recipe.images, seed)
    count = recipe.images
    return trial(recipe, X[:count], y[:count], shape, X[count:], np.random.default_rng([seed, 5]))


def key(name, recipe, seed):
    return json.dumps([name, {**asdict(recipe), "hidden": list(recipe.hidden)}, seed])


def row(name, recipe, seed, found):
    spelt = {**asdict(recipe), "hidden": " ".join(map(str, recipe.hidden))}
    return {"cell": name, **spelt, "seed": seed, **{part: getattr(found, part) for part in PARTS}}


PARTS = ("claimed", "back", "null", "fitted", "verdict")


def beside(minutes):
    """Kinds varied one at a time that the map has no training of: placed, then trained, and kept out of the map."""
    known = {one.recipe for one in found_before()}
    kinds = [one for one in (Recipe(**{**CENTRE, **axis}) for axis in AXES) if one not in known]
    end = time.monotonic() + 60 * minutes
    shares, placed = {recipe: [] for recipe in kinds}, {recipe: risk(recipe).share for recipe in kinds}
    for seed in range(FIRST_SEED, FIRST_SEED + DRAWS):
        for recipe in kinds:
            if time.monotonic() < end:
                found = measured(recipe, seed)
                shares[recipe].append(f"{found.share:.2f}" if found.verdict != "unfinished" else "unfinished")
        print(f"after {seed - FIRST_SEED + 1} draws")
        for recipe, each in shares.items():
            print(f"| {recipe.words} | {recipe.data} | {placed[recipe]:.2f} | {', '.join(each)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for a training and its attack")
    parser.add_argument("--beside", action="store_true", help="kinds that the map has no training of, kept out of it")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.beside:
        beside(given.minutes)
        return
    end = time.monotonic() + 60 * given.minutes
    wanted = cells()
    done = set()
    if OUT.exists():
        with OUT.open() as file:
            done = {(one["cell"], one["seed"], one["place"]) for one in csv.DictReader(file)}
    with OUT.open("a", newline="") as file:
        writer = None
        places = {}
        for name, recipe, seed in wanted:
            place = places[name, seed] = places.get((name, seed), -1) + 1
            if (name, str(seed), str(place)) in done:
                continue
            if time.monotonic() > end:
                break
            began = time.monotonic()
            found = measured(recipe, seed, given.seconds)
            line = {"place": place, **row(name, recipe, seed, found), "fitted": round(found.fitted, 3)}
            writer = writer or csv.DictWriter(file, list(line), lineterminator="\n")
            if not done and file.tell() == 0:
                writer.writeheader()
            writer.writerow(line)
            file.flush()
            print(
                f"{time.monotonic() - began:5.1f} s {name} {seed} {found.back}/{recipe.images} null {found.null} "
                f"{found.verdict} e={recipe.decay:.2f} start={recipe.start:g} {recipe.optimiser} fitted {found.fitted:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
