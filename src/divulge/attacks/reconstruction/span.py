"""Training images from the span of first-layer weights, told apart because neighbouring pixels are mostly alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from divulge.attacks.reconstruction import claims, scoring
from divulge.attacks.reconstruction.claims import Claims
from divulge.attacks.reconstruction.scoring import PAPER
from divulge.contract import (
    Array,
    Attack,
    Context,
    Curve,
    Directions,
    Figure,
    Finding,
    Histogram,
    Remedy,
    TrainingData,
    Truth,
    Weights,
    option_class,
    taxonomies,
)
from divulge.errors import BadInput, NotApplicable
from divulge.solvers.directions import known_start
from divulge.solvers.directions.known_start import FOLDED
from divulge.solvers.images import adaptive, layouts
from divulge.solvers.images.layouts import Layout
from divulge.solvers.images.span import Span, pictured, span, span_of_combinations, span_of_moved
from divulge.solvers.images.span_search import Found, Once, SpanSearch
from divulge.solvers.margin import max_margin
from divulge.solvers.shared import synthetic_images

SMALLEST = 36
"Pixels below which a picture has too few differences to be told from a mixture."
DARK = 0.5
"""Of a picture's pixels, that are black where a mean was estimated: the estimate takes pictures for mostly black.

Of digits and strokes 0.55 to 0.91 are, of clothes 0.18 to 0.29 and of photographs none; of 35 claims of photographs none was
right.
"""
BEYOND = 0.3
"What may lie outside of the box where biases do not go with the weights: pictures less an unknown mean have 0.56 or more."
WITHIN = 0.1
"The same where no mean was subtracted: it was 0.03 and 0.05 for images as they are, and 0.39 or more for centred ones."
NEARLY = 0.2
"The same where neither scale nor mean is known: it was 0.08 to 0.17 where images were right, and 0.25 or more where not."
ADAPTIVE = (
    "Weights moved as an adaptive optimiser moves them: columns were multiplied by the usual size of their pixels, and what "
    "comes out of several numbers of directions is claimed."
)
NOTICED = 0.02
"Share of the box that a mean reaches somewhere, or none was subtracted."

# The control: a network of the same shape, trained on pictures that are known.
SYNTHETIC = 20  # pictures
CONTROL_STARTS = 2
CONTROL_LOSS = 1e-4


TRAINED_ON = (
    Remedy("Train on with differential privacy, the only remedy with a guarantee; then audit again."),
    Remedy(
        "Train on by Adam, which leaves no exact span, or on many more points than the layer has units; then audit again.",
        "of 40 digits 39.8 came back after SGD; after Adam none was claimed and 12.4 were among the candidates, and members "
        "were still told from others, at a TPR of 0.875 at 0.1 % FPR (docs/training-data.md).",
    ),
    Remedy("Do not publish what was trained on few private points from public weights, nor explain its answers."),
)
"What helps where the start is public: neither a large start nor training without decay does."


@option_class
class SpanReconstruction(Attack[Directions, TrainingData]):
    """Find combinations of directions whose neighbouring pixels are alike, as in pictures and no mixture of them.

    Descent moves the rows of the first layer only inside the span of the training images, whatever the depth, the loss and
    the other layers are; so do combinations of them that answers show. The bias tells the scale of every image.
    """

    name: ClassVar[str] = "span-reconstruction"
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.RECONSTRUCTION
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        Remedy(
            "Train with differential privacy, the only remedy with a guarantee; then audit again.",
            "with noise 1 no image of 40 came back from the weights, where 31 and 36 did, for an accuracy of 0.790 in the "
            "place of 0.808 (docs/defences.md).",
        ),
        Remedy(
            "Train without weight decay, by Adam or by descent: decay removes the start, under which images are hidden.",
            "from 9 answers all 50 images came back with decay and none by Adam, at an accuracy of 0.638 and 0.636; none "
            "without decay either, at 0.618 (docs/defences.md).",
        ),
        "With weight decay keep rate / (1 − momentum) · decay · steps below 1; a larger start and dropout do not help.",
        "Train on thousands of images, not dozens: of 2,000 digits none came back, of 100 nine in ten.",
    )

    count: PositiveInt | None = None
    "How many images to look for; as many as directions stand out of the noise unless given."
    seeds: PositiveInt = 4
    "Random starts, at most; fewer where two of them agree."
    box: tuple[float, float] | None = (0.0, 1.0)
    "The least and the largest value of a pixel; none where nothing is known of them."
    shape: tuple[PositiveInt, ...] | None = None
    "Of one image where the weights do not say it: height, width, and 3 for colours."

    def run(self, held: Directions, context: Context) -> Finding[TrainingData]:
        if self.box is not None and not -np.inf < self.box[0] < self.box[1] < np.inf:
            raise BadInput(f"expected a box from low to high, got {self.box}; give two finite numbers, the smaller first")
        held, known, exact = _since_start(held)
        seen, layout = self._seen(held)
        context.log(f"{seen.rank} directions of {_source(held)} stand out of {len(seen.sizes)}.")
        if seen.rank < 2:
            return self._nothing(held, seen, layout, None, context, f"no two directions of {_source(held)} stand out")
        if seen.buried:
            return self._nothing(
                held, seen, layout, None, context, "noise hides some directions, and the others are no images"
            )
        found, kind = self._search(held, seen, layout, context)
        claimed, handed = claims.chosen(found.confidence), np.zeros((0, held.dimension))
        if not len(claimed) and not exact and held.mean is not None and self.box is not None:
            found, kind = self._rescaled(held, layout, context), (ADAPTIVE,)
            claimed = claims.chosen(found.confidence)
            handed = layout.back(np.delete(found.X, claimed, axis=0))
        sure, certified = found.confidence[claimed], found.certified[claimed]
        evidence = Claims.of(scoring.GOOD, sure, certified, handed)
        if not len(claimed):
            why = "no combination of the directions is an image"
            return replace(self._nothing(held, seen, layout, found, context, why), evidence=evidence)
        summary = (
            f"{len(claimed)} training images of {seen.rank} directions in {_source(held)} come out, "
            f"{evidence.expected / len(claimed):.0%} of them right by the attack's own confidence"
        )
        summary += f"; clipped pixels certify {int(certified.sum())}." if certified.any() else "."
        return Finding.leak(
            TrainingData(layout.back(found.X[claimed]), shape=layout.shape),
            summary,
            evidence=evidence,
            remedy=TRAINED_ON if known else (),
            figures=self._figures(seen, found),
            notes=(*_price(held, evidence), *known, *self._notes(seen, found, claimed, evidence), *kind, *layout.notes),
        )

    def score(self, finding: Finding[TrainingData], held: Directions, truth: Truth) -> Finding[TrainingData]:
        return scoring.scored(finding, held, truth)

    def _seen(self, held: Directions) -> tuple[Span, Layout]:
        """The directions that are no noise, and how they are laid out as pictures."""
        seen = _span(held, held.rows[:, -1])
        layout = self._layout(held, seen.sizes[: seen.rank, None] * seen.axes[:, :-1])
        seen = _span(held, held.rows[:, -1], layout)
        moved = seen.sizes[: seen.rank, None] * seen.axes[:, :-1]
        whole, seen = seen, pictured(seen, layout)
        if (whole if held.precision is None else seen).crowded:
            raise NotApplicable(
                f"training moved {seen.rank} directions of {seen.pixels} pixels: of so many any picture can be made, and "
                "nothing tells a training image from the others"
            )
        if held.precision is None and len(moved) and layout.roughness(moved) > layouts.ROUGH:
            raise NotApplicable(
                "neighbouring pixels of the first layer's weights have nothing to do with each other "
                f"(roughness {layout.roughness(moved):.2f}, noise has 1); the inputs are no pictures, or not of this shape"
            )
        return seen.strongest(self.count), layout

    def _layout(self, held: Directions, moved: Array) -> Layout:
        """How inputs are laid out as pictures; refuses what is too small to be any."""
        if held.shape is not None and self.shape is not None and held.shape != self.shape:
            raise BadInput(f"the weights say that images have shape {held.shape}, got shape={self.shape}; leave it out")
        shape = held.shape or self.shape
        if shape is not None and math.prod(shape) != held.dimension:
            raise BadInput(f"images of shape {shape} do not fill the {held.dimension} inputs of the network; correct shape")
        options = layouts.candidates(held.dimension, shape)
        if not options:
            raise NotApplicable(
                f"inputs of {held.dimension} features{'' if shape is None else f' and shape {shape}'} are no pictures with "
                "neighbouring pixels; without those nothing tells a training point from a mixture of them"
            )
        best = min(options, key=lambda one: one.roughness(moved)) if len(moved) else options[0]
        if held.dimension < SMALLEST or min(best.size[:2]) < 4:
            raise NotApplicable(f"images of {held.dimension} pixels are too small; {SMALLEST} and 4 a side are needed")
        return best

    def _search(self, held: Directions, seen: Span, layout: Layout, context: Context) -> tuple[Found, tuple[str, ...]]:
        """Look for images as they were handed in; where a mean was taken from them that nobody knows, estimate it."""
        if held.mean is not None or self.box is None or not seen.centred:
            return self._look(seen, layout, held.mean, self.box, context, ""), ()
        alone = pictured(_span(held, np.zeros(len(held.rows)), layout), layout).strongest(self.count)
        context.log("Biases tell nothing of the scale; images are scaled to fill the box.")
        found = self._look(alone, layout, None, self.box, context, "unanchored ")
        outside = layouts.outside(found.raw, self.box)
        note = "Biases do not tell the scale, so every image was scaled to fill the box."
        others: list[tuple[Found, tuple[str, ...]]] = [(found.if_only(outside <= BEYOND), (note,))]
        if outside <= WITHIN and 2 * _sure(found) > alone.rank:
            return others[0]
        context.log("The inputs seem to have been centred; what was taken from them is estimated.")
        rough = self._look(alone, layout, None, None, context, "uncertain ")
        mean = layout.back(layouts.likely_mean(rough.raw, self.box)[None])[0]
        if mean.max() - self.box[0] > NOTICED * (self.box[1] - self.box[0]):
            others.append(self._with_mean(seen, layout, mean, context, "centred "))
        if max(_sure(one) for one, _ in others) < seen.rank / 2:
            found, notes = self._with_mean(alone, layout, mean, context, "unanchored centred ")
            others.append((found.if_only(layouts.outside(found.raw, self.box) <= NEARLY), notes))
        return max(others, key=lambda one: _sure(one[0]))

    def _rescaled(self, held: Directions, layout: Layout, context: Context) -> Found:
        """Look for images as if every weight's gradient had been divided by its usual size."""
        assert held.mean is not None
        assert self.box is not None
        context.log("The update is of no low rank: looking for images as an adaptive optimiser leaves them.")
        sizes = adaptive.usual_sizes(held.mean, self.box)

        def search(rank: int) -> Found:
            seen = adaptive.rescaled(held.rows, sizes, rank)
            return self._look(seen, layout, held.mean, self.box, context, f"rescaled {rank} ", certifiable=False)

        return adaptive.agreed(search)

    def _with_mean(
        self, seen: Span, layout: Layout, mean: Array, context: Context, name: str
    ) -> tuple[Found, tuple[str, ...]]:
        """Look for images with an estimated mean, and again with a better estimate that these tell of."""
        assert self.box is not None
        found = self._look(seen, layout, mean, self.box, context, name, certifiable=False)
        sure = found.raw[found.confidence >= claims.LIKELY]
        if len(sure):
            better = layouts.blacker_mean(layout.forth(mean[None])[0], sure, self.box)
            mean = layout.back(better[None])[0]
            found = self._look(seen, layout, mean, self.box, context, f"{name}again ", certifiable=False)
        note = (
            "A mean that nobody told was taken from the inputs; it was estimated, and brightness with it: pictures on a "
            "white ground come out as negatives."
        )
        return found.if_only(layouts.dark_share(found.raw, self.box) >= DARK), (note,)

    def _look(
        self,
        seen: Span,
        layout: Layout,
        mean: Array | None,
        box: tuple[float, float] | None,
        context: Context,
        name: str,
        certifiable: bool = True,
    ) -> Found:
        done = 0

        def step(what: str) -> None:
            nonlocal done
            done += 1
            context.budget.check()
            context.progress(min(done, search.most), search.most)
            context.log(f"Separated {what}.")
            context.show(lambda: claims.so_far(search, what))

        def once(piece: str, compute: Callable[[np.random.Generator], Array]) -> Array:
            return context.once(name + piece, compute)

        search = _searching(seen, layout, mean, box, self.seeds, once, step)
        search.certifiable = certifiable
        return search.run(np.random.default_rng(0))

    def _notes(self, seen: Span, found: Found, claimed: Array, evidence: Claims) -> tuple[str, ...]:
        certified = claimed[found.certified[claimed]]
        left = len(found.confidence) - len(claimed)
        notes = [
            f"{seen.rank} of {len(seen.sizes)} directions stand out of the first layer; what training did not move has a "
            f"deviation of {seen.noise:.1e}."
            if seen.noise > 0
            else f"{seen.rank} of {len(seen.sizes)} directions show pictures; neighbouring pixels of the others are unlike.",
            f"{evidence.words} {left} candidate{'s were' if left != 1 else ' was'} left out.",
        ]
        if len(certified):
            notes.append(
                f"{len(certified)} images are certified: their black and white pixels leave no other combination of "
                f"the weights, and {int(np.sum(found.error[certified] <= scoring.EXACT))} of them are off by at most "
                f"{scoring.EXACT:.0%} where the weights show everything (median bound "
                f"{np.median(found.error[certified]):.1%})."
            )
        return tuple(notes)

    def _figures(self, seen: Span, found: Found | None) -> tuple[Figure, ...]:
        numbers = np.arange(1.0, len(seen.sizes) + 1)
        sizes = np.maximum(seen.sizes, 1e-16 * seen.sizes[0])
        marks = {"directions used": float(seen.rank)}
        figures: list[Figure] = [
            Curve(
                "Directions of the first layer",
                "direction",
                "singular value",
                {"weights": (numbers, sizes)},
                log_y=True,
                marks=marks,
            )
        ]
        if found is not None:
            groups = {"certified": found.confidence[found.certified], "not certified": found.confidence[~found.certified]}
            shown = {name: values for name, values in groups.items() if len(values)}
            figures.append(Histogram("How sure each candidate is", "confidence", shown))
        return tuple(figures)

    def _nothing(
        self, held: Directions, seen: Span, layout: Layout, found: Found | None, context: Context, why: str
    ) -> Finding[TrainingData]:
        back = context.once("control", _Control(self, held, layout, context))
        same = "of the same shape" if isinstance(held, Weights) else f"with {len(held.rows)} hidden units"
        power = (
            f"Of {SYNTHETIC} synthetic pictures on which a network {same} was trained from a small start, the "
            f"same search claims {int(back[0])}, of which {int(back[1])} have NCC > 0.9 with one of them."
        )
        return Finding.none_found(
            f"{why[:1].upper()}{why[1:]}.", power=power, figures=self._figures(seen, found), notes=layout.notes
        )


def _since_start(held: Directions) -> tuple[Directions, tuple[str, ...], bool]:
    """What training added to a first layer whose start is public, as to one that started from 0; and what to say of it."""
    if not isinstance(held, Weights) or held.start is None:
        return held, (), True
    if held.folded:
        raise NotApplicable(FOLDED.format(" and ".join(held.folded)))
    if known_start.frozen(held.layers[0], held.start[0]):
        raise NotApplicable(
            "training left the first layer as it started, so that it shows no training image; a layer behind it shows what "
            "entered that one, which span-membership reads"
        )
    found = known_start.moved(held.layers[0], held.start[0])
    first = found.rows[:, :-1], found.rows[:, -1]
    nothing = np.zeros_like(first[0]), np.zeros_like(first[1])
    return replace(held, layers=(first, *held.layers[1:]), start=(nothing,)), (found.words,), found.exact


def _span(held: Directions, bias: Array, layout: Layout | None = None) -> Span:
    if isinstance(held, Weights) and held.start is not None:
        return span_of_moved(np.column_stack([held.rows[:, :-1], bias]), layout)
    if held.precision is None:
        return span(held.rows[:, :-1], bias)
    return span_of_combinations(np.column_stack([held.rows[:, :-1], bias]), held.precision)


def _source(held: Directions) -> str:
    return f"{held.answers:,} answers" if held.answers else "the first layer"


def _price(held: Directions, evidence: Claims) -> tuple[str, ...]:
    """What an image cost the attacker."""
    if not held.answers:
        return ()
    each = held.answers / max(evidence.expected, 1)
    return (f"That is {each:,.2g} answers of the model an image." if each < 10 else f"That is {each:,.0f} an image.",)


def _hidden(held: Directions) -> list[int]:
    """Hidden units of a network like the one that is attacked; as many as there are answers where nothing else is known."""
    return [len(b) for _, b in held.layers[:-1]] if isinstance(held, Weights) else [len(held.rows)]


def _sure(found: Found) -> float:
    """How many images are claimed rightly, by their confidence."""
    return float(found.confidence[claims.chosen(found.confidence)].sum())


def _searching(
    seen: Span,
    layout: Layout,
    mean: Array | None,
    box: tuple[float, float] | None,
    starts: int,
    once: Once,
    step: Callable[[str], None] = lambda what: None,
) -> SpanSearch:
    shift = None if mean is None else layout.forth(mean[None])[0]
    axes = layout.forth(seen.pictures(mean))
    bias = seen.bias if seen.has_bias else None
    return SpanSearch(axes, bias, seen.uncertainty, layout.size, box, shift, starts, once, step, hidden=seen.hidden)


@dataclass(frozen=True)
class _Control:
    """A network of the same shape that was trained on known pictures: how many are claimed, and how many rightly."""

    attack: SpanReconstruction
    held: Directions
    layout: Layout
    context: Context

    def __call__(self, rng: np.random.Generator) -> Array:
        make = synthetic_images.leaves if len(self.layout.size) == 3 else synthetic_images.strokes
        X = self.layout.back(make(rng, SYNTHETIC, self.layout.size))
        y = np.where(np.arange(SYNTHETIC) % 2, 1, -1)
        sizes = [self.held.dimension, *_hidden(self.held), 1]
        mean = X.mean(axis=0)
        self.context.log("Nothing was found; a network of the same shape is trained on synthetic pictures, to be attacked.")
        run = max_margin.train(max_margin.initial(rng, sizes), X - mean, y, target=CONTROL_LOSS)
        trained = Weights(tuple(run.layers), mean=mean, shape=self.layout.shape)
        seen = span(*trained.layers[0])
        if seen.rank < 2:
            return np.zeros(2)
        search = _searching(seen, self.layout, mean, (0.0, 1.0), CONTROL_STARTS, lambda _, compute: compute(rng))
        found = search.run(rng)
        claimed = self.layout.back(found.X[claims.chosen(found.confidence)])
        if not len(claimed):
            return np.zeros(2)
        alike = np.corrcoef(claimed, X)[: len(claimed), len(claimed) :]
        return np.array([len(claimed), np.sum(alike.max(axis=0) > scoring.GOOD)])
