"""What of a recipe decides whether its images come back, as numbers."""

from __future__ import annotations

import math

from divulge.training_risk.recipe import Recipe

FLOOR = -5.0
"log10 of a start below which less of it changes nothing: rounding and what training itself leaves behind are larger."
LEAST_DECAY = 1e-6
"What stands for no weight decay on a scale of magnitudes: below every one that was measured."


def features(recipe: Recipe) -> dict[str, float]:
    """By name; starts, decays, counts and ways as magnitudes (log10), kinds as 0 and 1."""
    left = max(math.log10(recipe.start) - recipe.decay / math.log(10), FLOOR)
    decayed = min(recipe.decay, 12.0)
    strong = 0.0 if recipe.adaptive else max(_decades(recipe.weight_decay) - 4, 0)
    rests = recipe.rescaled and recipe.weight_decay > 0  # the start goes, and steps of the size of the rate stay
    narrowest = min(recipe.hidden)
    return {
        "start left": left,
        "start left, below 1/30": max(-1.5 - left, 0),
        "decay": decayed,
        "weight decay, above 0.01": strong,
        "weight decay, above 0.01, a layer": strong * (len(recipe.hidden) - 1),
        "way": math.log10(recipe.travelled),
        "images": math.log10(recipe.images),
        "images a unit, above 1/2": max(math.log10(2 * recipe.images / narrowest), 0),
        "images a unit of the first layer": math.log10(recipe.images / recipe.hidden[0]),
        "images a pixel, above 1/8": max(math.log10(8 * recipe.images / recipe.pixels), 0),
        "layers": len(recipe.hidden),
        "one output": float(recipe.classes == 2),
        "batches": math.log10(recipe.images / min(recipe.batch or recipe.images, recipe.images)),
        "label noise": recipe.label_noise,
        "dropout": recipe.dropout,
        "shifts": float(recipe.augmentation == "shift"),
        "noise": float(recipe.augmentation == "noise"),
        "no biases": float(not recipe.biases),
        "float64": float(recipe.precision == "float64"),
        "adaptive": float(recipe.adaptive),
        "adaptive, start": math.log10(recipe.start) if recipe.adaptive else 0.0,
        "adaptive, rate with weight decay": math.log10(recipe.lr) + 3 if rests else 0.0,
        "adaptive, weight decay": max(_decades(recipe.weight_decay) - 2, 0) if recipe.rescaled else 0.0,
        "AdamW, decay": decayed if recipe.optimiser == "adamw" else 0.0,
        "clothes": float(recipe.data == "fashion-mnist"),
        "photographs": float(recipe.data == "cifar10"),
    }


def _decades(weight_decay: float) -> float:
    """Above what stands for none."""
    return math.log10(max(weight_decay, LEAST_DECAY) / LEAST_DECAY)
