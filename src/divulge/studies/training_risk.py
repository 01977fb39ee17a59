"""The map of risk: how many training images a network gives back, by how it was trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from divulge.attacks.reconstruction.scoring import GOOD, PAPER
from divulge.attacks.reconstruction.span import SpanReconstruction
from divulge.contract import (
    Access,
    Array,
    Context,
    Evidence,
    Finding,
    HeatMap,
    Remedy,
    Score,
    Study,
    TrainingData,
    Verdict,
    Weights,
    option_class,
    taxonomies,
)
from divulge.contract.context import Forgetful
from divulge.errors import BadInput, NotApplicable
from divulge.solvers.shared import similarity
from divulge.training_risk.placing import risk
from divulge.training_risk.recipe import Recipe
from divulge.victims import ordinary

SEVERAL = 3
"Images beyond the null from which a training counts as a leak: as many as a claim of the attack needs certain ones."
JITTER = 0.1
"Deviation of the noise that augments, in units of the box."

FITTED = 0.9
"Share of its labels that a network names which has learnt them."


@dataclass(frozen=True)
class Training(Evidence):
    """One training, and what `span-reconstruction` made of its weights."""

    images: int
    claimed: int
    back: int
    "Training images that a claim shows at NCC > 0.9, one to one."
    null: int
    "The same against as many images that were not trained on."
    fitted: float
    "Share of the labels that the network gives."
    verdict: str

    @property
    def share(self) -> float:
        return self.back / self.images


@dataclass(frozen=True, eq=False)
class RiskMeasured(Evidence):
    """What came back from networks that were trained for the purpose, on pictures of the data."""

    recipe: Mapping[str, Any]
    "The options that say how."
    starts: Array
    decays: Array
    "lr / (1 − momentum) · weight decay · steps; of optimisers that rescale the penalty, 1000 times the weight decay."
    shares: Array
    "(starts, decays): of the images that came back, the mean over draws."
    own: tuple[Training, ...]
    "Trainings by the recipe as it was given, a draw each."


@option_class
class TrainingRisk(Recipe, Study[TrainingData]):
    """Train networks on pictures of the data as a recipe says, with other starts and decays, and count what comes back.

    The recipe is that of your own network. `divulge risk` places it on a map that was measured before, in no time; this
    measures the part of the map around it, on data like yours. No given model is attacked.
    """

    name: ClassVar[str] = "training-risk"
    asset: ClassVar[str] = "training_data"
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.RECONSTRUCTION
    remedy: ClassVar[tuple[str | Remedy, ...]] = SpanReconstruction.remedy

    starts: Annotated[tuple[PositiveFloat, ...], Field(min_length=2)] = (1e-3, 1e-2, 0.1, 1.0)
    "Starts of the first layer that are tried, torch's own being 1."
    decays: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=2)] = (0.0, 2.0, 4.0, 6.0, 9.0)
    "What lr / (1 − momentum) · weight decay · steps is brought to; of Adam and RMSprop, weight decays in thousandths."
    draws: PositiveInt = 1
    "Trainings of each kind, on pictures of their own."

    def run(self, held: TrainingData, context: Context) -> Finding[Access]:
        recipe = Recipe(**{name: getattr(self, name) for name in Recipe.__dataclass_fields__})
        pictures = _Pictures.of(held, recipe)
        starts, decays = np.unique(self.starts), np.unique(self.decays)
        unit = 1e-3 if recipe.rescaled else 1 / recipe.travelled
        cells = [replace(recipe, start=start, weight_decay=decay * unit) for start in starts for decay in decays]
        context.log(f"Training {self.draws * (1 + len(cells))} networks on {recipe.images} pictures each.")
        work = partial(_drawn, pictures=pictures)
        own = tuple(context.map("as told", work, [recipe] * self.draws))
        tried = context.map("around it", work, [cell for cell in cells for _ in range(self.draws)])
        shares = np.array([one.share for one in tried]).reshape(len(starts), len(decays), self.draws).mean(axis=2)
        return self._finding(recipe, RiskMeasured(asdict(recipe), starts, decays, shares, own), tried)

    def _finding(self, recipe: Recipe, seen: RiskMeasured, tried: list[Training]) -> Finding[Access]:
        own = seen.own
        back, null, total = (sum(getattr(one, part) for one in own) for part in ("back", "null", "images"))
        best = max(tried, key=lambda one: one.share)
        scores = {
            "share of the images back": Score(
                back / total, null / total, "the same claims against images that were not trained on", most=1.0
            ),
            "largest share around it": Score(
                best.share, best.null / best.images, "the same claims against images that were not trained on", most=1.0
            ),
        }
        said = (
            f"Of {total} pictures on which {len(own)} network{'s were' if len(own) > 1 else ' was'} trained as told, {back} "
            f"come back from the weights (as many others: {null})"
        )
        notes = (*_notes(recipe, seen, tried), "No given model was attacked.")
        figures = (_figure(recipe, seen),)
        if back - null >= SEVERAL:
            return Finding.shown(seen, f"{said}.", scores=scores, figures=figures, notes=notes)
        power = (
            f"Of {len(tried)} trainings with other starts and decays the one that shows most gives back {best.back} of "
            f"{best.images} pictures"
        )
        return Finding.none_found(f"{said}.", power=power, evidence=seen, scores=scores, figures=figures, notes=notes)


def _notes(recipe: Recipe, seen: RiskMeasured, tried: list[Training]) -> list[str]:
    notes = []
    if not recipe.rescaled:
        notes.append(
            f"lr / (1 − momentum) · weight decay · steps is {recipe.decay:.3g}, so that {recipe.left:.2g} of torch's own "
            "start is left where training moves nothing."
        )
    try:
        notes.append(f"On the map that comes with divulge: {risk(recipe).sentence}")
    except BadInput as reason:
        notes.append(f"The map that comes with divulge does not reach it: {reason}.")
    diverged = sum(one.verdict == "diverged" for one in (*seen.own, *tried))
    if diverged:
        notes.append(f"{diverged} of {len(tried) + len(seen.own)} trainings diverged, and show nothing.")
    unfit = sum(one.fitted < FITTED for one in seen.own)
    if unfit:
        notes.append(f"{unfit} of {len(seen.own)} networks trained as told name fewer than {FITTED:.0%} of their labels.")
    return notes


def _figure(recipe: Recipe, seen: RiskMeasured) -> HeatMap:
    along, here = "lr / (1 − momentum) · weight decay · steps", recipe.decay
    if recipe.rescaled:
        along, here = "weight decay · 1000", 1000 * recipe.weight_decay
    return HeatMap(
        "Share of the training images that come back",
        along,
        "start of the first layer, log10 of torch's own",
        seen.shares,
        seen.decays,
        np.log10(seen.starts),
        "share",
        {"your training": (np.array([here]), np.array([math.log10(recipe.start)]))},
        limits=(0.0, 1.0),
    )


@dataclass(frozen=True, eq=False)
class _Pictures:
    """What networks are trained on."""

    X: Array
    y: Array
    shape: tuple[int, ...]

    @classmethod
    def of(cls, held: TrainingData, recipe: Recipe) -> _Pictures:
        if not similarity.pictured(held.shape):
            raise NotApplicable(
                "the training data is no pictures of a known shape, and the map is one of pictures; give their shape"
            )
        assert held.shape is not None
        if len(held.X) < 2 * recipe.images:
            raise NotApplicable(
                f"expected {2 * recipe.images} pictures, half of them for the null, got {len(held.X)}; lower images"
            )
        if held.X.min() < 0 or held.X.max() > 1:
            raise NotApplicable(
                f"expected pixels from 0 to 1, got {held.X.min():.3g} to {held.X.max():.3g}; divide by the largest"
            )
        classes = np.unique(held.y) if held.y is not None and held.y.ndim == 1 else np.zeros(1)
        if len(classes) < 2:
            raise NotApplicable("the pictures have no labels of two classes or more, and networks are trained on them")
        y: Array = np.searchsorted(classes, np.asarray(held.y))
        return cls(np.asarray(held.X, float), y, held.shape)


def _drawn(recipe: Recipe, rng: np.random.Generator, pictures: _Pictures) -> Training:
    """A training on pictures of its own, with as many classes as the recipe has or the data."""
    order = rng.permutation(len(pictures.X))
    inside, outside = order[: recipe.images], order[recipe.images : 2 * recipe.images]
    while len(np.unique(pictures.y[inside] % recipe.classes)) < 2:  # rare: a few pictures of one class
        order = rng.permutation(len(pictures.X))
        inside, outside = order[: recipe.images], order[recipe.images : 2 * recipe.images]
    X = pictures.X
    return trial(recipe, X[inside], pictures.y[inside], pictures.shape, X[outside], rng)


def trial(
    recipe: Recipe,
    X: Array,
    y: Array,
    shape: tuple[int, ...],
    others: Array,
    rng: np.random.Generator,
) -> Training:
    """Train on pictures (images, pixels) from 0 to 1 by the recipe, attack, and count; `others` are as many for the null.

    A training that diverges gives nothing back.
    """
    y = np.unique(y, return_inverse=True)[1] % recipe.classes
    labels = ordinary.mislabelled(y, recipe.label_noise, rng)
    mean = X.mean(axis=0)
    augment = None
    if recipe.augmentation != "none":
        augment = ordinary.shifted(shape, mean) if recipe.augmentation == "shift" else ordinary.noisy(JITTER)
    with threadpool_limits(1):  # the same numbers whoever computes them
        try:
            layers = ordinary.train(X - mean, labels, rng, augment=augment, **recipe.training()).layers
        except BadInput:
            return Training(len(X), 0, 0, 0, 0.0, "diverged")
        held = Weights(tuple(layers), mean=mean, shape=shape)
        finding = SpanReconstruction()(held, context=Context(0, memory=_NoControl()))
    outputs = held.predict(X)
    named = outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(int)
    fitted = float(np.mean(named == labels))
    if finding.verdict is not Verdict.LEAK or finding.loot is None:
        return Training(len(X), 0, 0, 0, fitted, finding.verdict.value)
    found = finding.loot.X
    back, null = (_matching(found, images) for images in (X, others))
    return Training(len(X), len(found), back, null, fitted, finding.verdict.value)


def _matching(found: Array, images: Array) -> int:
    alike = similarity.ncc(found, images.astype(found.dtype))
    return int(np.sum(alike[similarity.matched(alike)] > GOOD))


class _NoControl(Forgetful):
    """Skips the control that a search without a find trains to say what it would have found: the map is that control."""

    def recall(self, name: str) -> object:
        if name == "control":
            return {"value": np.zeros(2), "points": 0, "in_memory": 0}
        raise KeyError(name)
