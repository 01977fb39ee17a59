"""Are trainings that the map of risk does not know put on the right side of half the images?

    python bench/training_risk.py      30 trainings from seed 90000 on; some minutes on one core, needs DIVULGE_DATA

Nothing may be tuned on this file: whoever changes the map because of it draws other seeds and writes other kinds.
Eighteen recipes are drawn as those of bench/measure_risk.py are, by other seeds; twelve are kinds that are not among them:
other pictures, and recipes as people have them. Each is placed before it is trained.
"""

import argparse

import numpy as np
from measure_risk import drawn
from zoo import pictures

from divulge import risk
from divulge.errors import BadInput
from divulge.studies.training_risk import trial
from divulge.training_risk.measured import HALF
from divulge.training_risk.recipe import Recipe

FIRST_SEED = 90_000
DRAWN = 18
MANY = 100
"Images of a drawn recipe, at most: an attack on more takes minutes."
SHORT = {"fashion-mnist": "fashion"}
MOMENTUM = {"lr": 0.1, "momentum": 0.9}
KINDS = {
    "inverted digits": (
        "inverted-mnist",
        Recipe(**MOMENTUM, weight_decay=5e-3, steps=1200, images=30, hidden=(150,)),
    ),
    "blurred clothes": (
        "blurred-fashion",
        Recipe(**MOMENTUM, weight_decay=4e-3, steps=1000, images=40, hidden=(250,), data="fashion-mnist"),
    ),
    "two-tone digits, little decay": (
        "two_tone-mnist",
        Recipe(**MOMENTUM, weight_decay=1e-3, steps=1500, images=60, hidden=(200,)),
    ),
    "leaves, a hidden layer that widens": (
        "leaves",
        Recipe(**MOMENTUM, weight_decay=6e-3, steps=1000, images=30, hidden=(120, 300), data="cifar10"),
    ),
    "inverted clothes, from 0.02, no decay": (
        "inverted-fashion",
        Recipe(lr=0.2, momentum=0.5, steps=2500, images=30, hidden=(200,), start=0.02, data="fashion-mnist"),
    ),
    "64 clothes, rate 0.01, decay 5e-4, batches": (
        "fashion",
        Recipe(
            lr=0.01, momentum=0.9, weight_decay=5e-4, epochs=100, images=64, batch=32, hidden=(256,), data="fashion-mnist"
        ),
    ),
    "1,000 digits, decay 5e-4, 25 epochs": (
        "mnist",
        Recipe(**MOMENTUM, weight_decay=5e-4, epochs=25, images=1000, batch=64, hidden=(128,)),
    ),
    "Adam and L2 3e-3, clothes": (
        "fashion",
        Recipe(optimiser="adam", lr=1e-3, weight_decay=3e-3, steps=1500, images=30, hidden=(200,), data="fashion-mnist"),
    ),
    "AdamW as torch has it, digits": (
        "mnist",
        Recipe(optimiser="adamw", lr=1e-3, weight_decay=0.01, steps=1000, images=60, hidden=(200,)),
    ),
    "RMSprop and L2 5e-3, two classes": (
        "mnist",
        Recipe(optimiser="rmsprop", lr=1e-3, weight_decay=5e-3, steps=1000, images=30, hidden=(150,), classes=2),
    ),
    "photographs with noise of their own": (
        "cifar10",
        Recipe(**MOMENTUM, weight_decay=5e-3, steps=1000, images=30, hidden=(200,), augmentation="noise", data="cifar10"),
    ),
    "three layers, a third of the labels wrong": (
        "fashion",
        Recipe(
            **MOMENTUM, weight_decay=4e-3, steps=1200, images=40, hidden=(150, 100, 60), label_noise=0.3, classes=3,
            data="fashion-mnist",
        ),
    ),
}  # fmt: skip


def asked(first):
    """Name, set of pictures, recipe and seed of every training; a draw outside of the map is drawn again."""
    number = seed = 0
    while number < DRAWN:
        recipe = drawn(np.random.default_rng([first, seed]))
        seed += 1
        if recipe.images > MANY:
            continue
        try:
            risk(recipe)
        except BadInput as reason:
            print(f"drawn again: {reason}")
            continue
        yield f"drawn {seed - 1}", SHORT.get(recipe.data, recipe.data), recipe, first + seed
        number += 1
    for place, (name, (kind, recipe)) in enumerate(KINDS.items()):
        yield name, kind, recipe, first + 500 + place


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    given = parser.parse_args()
    placed = [(*one, risk(one[2])) for one in asked(given.first)]  # all of them before the first is trained
    right = inside = leaky = far = 0
    beside = []
    print("| training | placed | 90 % | half or more | back | null | right side |\n|---|---|---|---|---|---|---|")
    for name, kind, recipe, seed, told in placed:
        X, shape, y = pictures(kind, 2 * recipe.images, seed)
        some = recipe.images
        found = trial(recipe, X[:some], y[:some], shape, X[some:], np.random.default_rng([seed, 5]))
        low, high = told.interval
        good = (told.half >= HALF) == (found.share >= HALF)
        right, leaky, far = right + good, leaky + (found.share >= HALF), far + told.far
        inside += low <= found.share <= high
        beside.append((told.half, found.share >= HALF))
        print(
            f"| {name} | {told.share:.0%} | {low:.0%} to {high:.0%} | {told.half:.2f} | {found.back} of {some} | "
            f"{found.null} | {'yes' if good else 'NO'} | <!-- {recipe.words}; {found.verdict} -->",
            flush=True,
        )
    brier = np.mean([(half - truth) ** 2 for half, truth in beside])
    print(
        f"\n{right} of {len(placed)} on the right side of half, where {leaky} gave half or more back; {inside} inside the "
        f"interval of 90 %; mean squared error of the probability {brier:.3f} (0.25 for a coin); {far} far from the map."
    )


if __name__ == "__main__":
    main()
