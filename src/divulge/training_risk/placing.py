"""Where a training stands on the map: what share of its images comes back, how sure that is, and what would lower it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from divulge.arrays import Array
from divulge.errors import BadInput
from divulge.training_risk.features import features
from divulge.training_risk.measured import Measured, fit, measured
from divulge.training_risk.recipe import Recipe

ALIKE = 30
"Measured recipes that say how wide an interval is: of fewer the ends of 90 % are two recipes or one."
ENDS = 0.05, 0.95
"Of the interval."
BEYOND = 0.1
"By how much of the least and the largest that were measured a recipe may lie outside: a dropout of 0.5 where 0.48 was."
SHOWN = 3
"Measured recipes that go with a place."
SAFE = 0.2
"Probability of half the images below which a change counts as a remedy."


@dataclass(frozen=True)
class Change:
    """One thing done otherwise, and where the training stands then."""

    option: str
    value: float | str
    share: float
    half: float

    def __str__(self) -> str:
        value = f"{self.value:.2g}" if isinstance(self.value, float) else self.value
        return f"{self.option} {value}: {self.share:.0%} expected, half or more with probability {self.half:.2f}"


@dataclass(frozen=True)
class Risk:
    """A training on the map of risk."""

    recipe: Recipe
    share: float
    "Of the training images, expected to come back from the weights by `span-reconstruction`."
    interval: tuple[float, float]
    "Where 90 of 100 trainings lie that a map which did not know them placed like this one."
    half: float
    "Probability that half of the images or more come back."
    nearest: tuple[Measured, ...]
    "Measured recipes that are most like it, the nearest first."
    far: bool
    "Whether it is further from every measured recipe than these are from each other; the interval is of little use then."
    changes: tuple[Change, ...]
    "What would lower the risk, where there is one: each alone."

    @property
    def sentence(self) -> str:
        low, high = self.interval
        said = (
            f"About {self.share:.0%} of the {self.recipe.images} training images are expected back from the weights "
            f"(90 % of trainings placed like this: {low:.0%} to {high:.0%}), half or more with probability {self.half:.2f}; "
        )
        if self.recipe.rescaled:
            said += f"{self.recipe.optimiser} rescales every slope" + (
                ", that of weight decay as well, which takes the start away."
                if self.recipe.weight_decay
                else ", and leaves the span of the images."
            )
        else:
            said += (
                f"of the start {self.recipe.left:.2g} of torch's own is left where training moves nothing "
                f"(start {self.recipe.start:g}, lr / (1 − momentum) · weight decay · steps = {self.recipe.decay:.2g})."
            )
        return said + (" No measured recipe is near this one: take it as a guess." if self.far else "")

    def __str__(self) -> str:
        return self.sentence

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "sentence": self.sentence,
            "share": self.share,
            "interval": list(self.interval),
            "half": self.half,
            "far": self.far,
            "nearest": [{"recipe": asdict(one.recipe), "shares": list(one.shares)} for one in self.nearest],
            "changes": [vars(change) for change in self.changes],
            "recipe": asdict(self.recipe),
        }


def risk(recipe: Recipe | None = None, /, **options: Any) -> Risk:
    """Place a training on the map: `risk(lr=0.1, momentum=0.9, weight_decay=5e-4, steps=3000, images=200)`.

    Options are those of `Recipe`; what is not given is as there. A recipe outside of what was measured is refused.
    """
    made = Recipe(**options) if recipe is None else recipe
    outside = list(_outside(made))
    if outside:
        raise BadInput(
            f"outside the map: {'; '.join(outside)}; train networks of your own with `divulge study training-risk`"
        )
    share, interval, half = _place(made)
    distance, nearest = _nearest(made)
    return Risk(
        made,
        share,
        interval,
        half,
        nearest,
        bool(distance > fit().away),
        tuple(_changes(made, half)) if half >= SAFE else (),
    )


def vector(recipe: Recipe) -> Array:
    """Its features as the fit takes them, each with mean 0 and deviation 1 over the measured recipes."""
    named, known = features(recipe), fit()
    return np.asarray((np.array([named[name] for name in known.names]) - known.centre) / np.array(known.scale))


def spread(left_out: Array, shares: Sequence[tuple[float, ...]], odds: float, most: int = ALIKE) -> tuple[float, float]:
    """Ends of the interval, from recipes that were placed most like these log-odds when they were left out.

    Every recipe has the same weight, whatever the number of its trainings.
    """
    alike = np.argsort(np.abs(left_out - odds), kind="stable")[:most]
    values = np.concatenate([shares[place] for place in alike])
    weights = np.concatenate([np.full(len(shares[place]), 1 / len(shares[place])) for place in alike])
    order = np.argsort(values, kind="stable")
    along = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    low, high = (float(np.interp(end, along, values[order])) for end in ENDS)
    return low, high


def _place(recipe: Recipe) -> tuple[float, tuple[float, float], float]:
    known = fit()
    odds = float(vector(recipe) @ np.array(known.weights)) + known.constant
    low, high = spread(np.array(known.left_out), [one.shares for one in measured()], odds)
    share, (slope, offset) = _logistic(odds), known.half
    return share, (min(low, share), max(high, share)), _logistic(slope * odds + offset)


def _logistic(odds: float) -> float:
    return 1 / (1 + math.exp(-odds))


def _nearest(recipe: Recipe) -> tuple[float, tuple[Measured, ...]]:
    """How far the nearest measured recipe is, and the first few."""
    every = np.array([vector(one.recipe) for one in measured()])
    apart = np.linalg.norm(every - vector(recipe), axis=1)
    order = np.argsort(apart, kind="stable")[:SHOWN]
    return float(apart[order[0]]), tuple(measured()[place] for place in order)


QUANTITIES: dict[str, Callable[[Recipe], float]] = {
    "images": lambda one: one.images,
    "units of the first layer": lambda one: one.hidden[0],
    "units of the narrowest layer": lambda one: min(one.hidden),
    "hidden layers": lambda one: len(one.hidden),
    "start": lambda one: one.start,
    "lr · steps / (1 − momentum)": lambda one: one.travelled,
    "weight_decay": lambda one: one.weight_decay,
    "lr · weight_decay · steps / (1 − momentum)": lambda one: one.decay,
    "classes": lambda one: one.classes,
    "label_noise": lambda one: one.label_noise,
    "dropout": lambda one: one.dropout,
}
"What has to lie between the least and the largest that were measured, among adaptive optimisers and among others."


def _outside(recipe: Recipe) -> Iterator[str]:
    peers = [one.recipe for one in measured() if one.recipe.adaptive == recipe.adaptive]
    for name, quantity in QUANTITIES.items():
        values = [quantity(one) for one in peers]
        low, high, here = min(values), max(values), quantity(recipe)
        if not low * (1 - BEYOND) <= here <= high * (1 + BEYOND):
            yield f"{name} {here:g} where {low:g} to {high:g} were measured"


def _changes(recipe: Recipe, half: float) -> Iterator[Change]:
    """The least change of each option that brings the probability of half the images below a fifth."""
    for option, values in _choices(recipe):
        for value in values:
            changed = _with(recipe, option, value)
            if changed is None or any(_outside(changed)):
                continue
            share, _, now = _place(changed)
            if now < min(SAFE, half):
                yield Change(option, value, share, now)
                break


def _choices(recipe: Recipe) -> Iterator[tuple[str, Sequence[float | str]]]:
    """Options that an owner can choose, with values from the present one on."""
    if recipe.weight_decay:
        yield "weight_decay", [recipe.weight_decay / 10 ** (k / 10) for k in range(1, 31)] + [0.0]
    yield "start", [recipe.start * 10 ** (k / 10) for k in range(1, 41)]
    yield "images", [math.ceil(recipe.images * 10 ** (k / 10)) for k in range(1, 21)]
    yield "steps", [math.ceil(recipe.updates / 10 ** (k / 10)) for k in range(1, 14)]
    if not recipe.adaptive:
        yield "optimiser", ["adam"]


def _with(recipe: Recipe, option: str, value: Any) -> Recipe | None:
    if option == "optimiser":
        return replace(recipe, optimiser=value, momentum=0.0, lr=1e-3)
    if option == "steps":
        return replace(recipe, steps=value, epochs=None)
    if option == "images" and recipe.epochs is not None:  # as many updates as before
        return replace(recipe, images=value, steps=recipe.updates, epochs=None)
    return replace(recipe, **{option: value})
