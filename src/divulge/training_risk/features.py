"""What of a recipe decides whether its images come back, as numbers."""

from __future__ import annotations

import math

from divulge.training_risk.recipe import Recipe

FLOOR = -2.5
"log10 of a start below which less of it uncovers no more."
WEAKEST, STRONGEST = -5.0, -2.0
"log10 of the weight decay, when the slopes of the loss have gone, from which it moves weights at all, and at the full rate."
MEMORY = {"adam": 2000, "rmsprop": 200}
"Steps in which the size of slopes that have gone falls by e: 2 / (1 − β), β being 0.999 and 0.99 in torch."
PLACES = 9
"Where a picture lies that moves by up to a pixel: a network sees as many."


def features(recipe: Recipe) -> dict[str, float]:
    """By name; starts, decays, counts and ways as magnitudes (log10), kinds as 0 and 1."""
    images = recipe.images * (PLACES if recipe.augmentation == "shift" else 1)
    plain = not recipe.adaptive  # whose own steps leave the span as far as any start does
    left = max(math.log10(recipe.start) - recipe.decay / math.log(10), FLOOR) if plain else 0.0
    gone = recipe.rescaled and recipe.weight_decay > 0  # the start goes, and steps of the size of the rate stay
    return {
        "start left": left,
        "weight decay, above 0.01": math.log10(max(100 * recipe.weight_decay, 1)) if plain else 0.0,
        "way": math.log10(recipe.travelled) if plain else 0.0,
        "images": math.log10(images),
        "images a unit, above 1/2": max(math.log10(2 * images / min(recipe.hidden)), 0),
        "images a unit of the first layer": math.log10(images / recipe.hidden[0]),
        "images a pixel, above 1/8": max(math.log10(8 * images / recipe.pixels), 0),
        "one output": float(recipe.classes == 2),
        "noise": float(recipe.augmentation == "noise"),
        "no biases": float(not recipe.biases),
        "no biases, start left": left if not recipe.biases else 0.0,
        "adaptive": float(recipe.adaptive),
        "rescaled decay, beside the slopes": _beside(recipe) if gone else 0.0,
        "rescaled decay, rate": math.log10(recipe.lr) + 3 if gone else 0.0,
        "rescaled decay, images a unit": math.log10(images / recipe.hidden[0]) if gone else 0.0,
    }


def _beside(recipe: Recipe) -> float:
    """How far weight decay has outgrown what the optimiser remembers of the slopes: however weak, it does in time."""
    grown = math.log10(recipe.weight_decay) + recipe.updates / MEMORY[recipe.optimiser] / math.log(10)
    return min(max(grown, WEAKEST), STRONGEST) - WEAKEST
