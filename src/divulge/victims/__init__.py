"""Training recipes that make the papers' models: name -> a victim's public side and its secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from divulge.contract import Access, Array, Fitted, Hyperparameters, TrainingData
from divulge.errors import refuse_unknown


@dataclass(frozen=True, eq=False)
class Victim:
    """A trained model: what an attacker is given of it, and what only its owner knows."""

    held: Mapping[str, Access]
    truth: Mapping[str, Access]


def make(recipe: str, X: Array, y: Array, rng: np.random.Generator, **settings: Any) -> Victim:
    """Train the victim a recipe describes on the points given."""
    refuse_unknown([recipe], RECIPES, "recipe")
    return RECIPES[recipe](X, y, rng, **settings)


def _classical(X: Array, y: Array, rng: np.random.Generator, learner: str, **settings: Any) -> Victim:
    from divulge.victims import classical

    estimator = classical.train(learner, X, y, **settings)
    return Victim(
        {"model": Fitted(estimator), "data": TrainingData(X, y)}, {"hyperparameters": Hyperparameters.of(estimator)}
    )


RECIPES: dict[str, Callable[..., Victim]] = {"classical": _classical}
