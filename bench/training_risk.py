"""Are trainings that the map of risk does not know put on the right side of half the images?

    python bench/training_risk.py      30 trainings from seed 91000 on; some minutes on one core, needs DIVULGE_DATA

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

FIRST_SEED = 91_000
DRAWN = 18
MANY = 100
"Images of a drawn recipe, at most: an attack on more takes minutes."
SHORT = {"fashion-mnist": "fashion"}
MOMENTUM = {"lr": 0.1, "momentum": 0.9}
KINDS = {
    "faint digits, float64": (
        "faint-mnist",
        Recipe(**MOMENTUM, weight_decay=4e-3, steps=1500, images=36, hidden=(300,), precision="float64"),
    ),
    "grey photographs": (
        "grey-cifar10",
        Recipe(lr=0.05, momentum=0.9, weight_decay=8e-3, steps=1200, images=30, hidden=(200,), data="fashion-mnist"),
    ),
    "strokes, two hidden layers": (
        "strokes",
        Recipe(**MOMENTUM, weight_decay=6e-3, steps=900, images=32, hidden=(160, 80)),
    ),
    "two-tone clothes, two classes": (
        "two_tone-fashion",
        Recipe(**MOMENTUM, weight_decay=5e-3, steps=1000, images=40, hidden=(200,), classes=2, data="fashion-mnist"),
    ),
    "inverted photographs, from 0.01, a rate for beginners": (
        "inverted-cifar10",
        Recipe(lr=0.01, momentum=0.9, steps=2000, images=24, hidden=(128,), start=0.01, data="cifar10"),
    ),
    "100 digits, no decay, batches": (
        "mnist",
        Recipe(lr=0.05, momentum=0.9, epochs=100, images=100, batch=20, hidden=(256,)),
    ),
    "500 clothes, decay 1e-3, dropout": (
        "fashion",
        Recipe(
            lr=0.05, momentum=0.9, weight_decay=1e-3, epochs=40, images=500, batch=50, hidden=(200, 100), dropout=0.3,
            data="fashion-mnist",
        ),
    ),
    "Adam and L2 5e-3, three classes, digits": (
        "mnist",
        Recipe(optimiser="adam", lr=5e-4, weight_decay=5e-3, steps=2000, images=36, hidden=(256,), classes=3),
    ),
    "Adam and L2 1e-5, as people have it": (
        "mnist",
        Recipe(optimiser="adam", lr=1e-3, weight_decay=1e-5, steps=1000, images=50, hidden=(128, 64)),
    ),
    "RMSprop and L2 1e-4, clothes": (
        "fashion",
        Recipe(optimiser="rmsprop", lr=5e-4, weight_decay=1e-4, steps=1500, images=30, hidden=(200,), data="fashion-mnist"),
    ),
    "digits that shift, strong decay": (
        "mnist",
        Recipe(**MOMENTUM, weight_decay=8e-3, steps=1000, images=30, hidden=(200,), augmentation="shift"),
    ),
    "no biases, clothes, from 0.1": (
        "fashion",
        Recipe(
            **MOMENTUM, weight_decay=2e-3, steps=1500, images=30, hidden=(150,), start=0.1, biases=False,
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
