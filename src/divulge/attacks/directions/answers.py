"""Directions in which training moved a first layer, from a handful of explanations, at any depth."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from divulge.attacks.directions import growth, scoring
from divulge.attacks.directions.growth import Shown
from divulge.attacks.directions.reading import Service
from divulge.attacks.directions.scoring import SeenDirections
from divulge.contract import (
    Array,
    Attack,
    Context,
    Directions,
    Finding,
    Gradients,
    Remedy,
    Truth,
    option_class,
    taxonomies,
)
from divulge.errors import BudgetSpent, NotApplicable, TargetFailed

DOUBLE, SINGLE = 1e-13, 1e-7
"Of the largest singular value: errors of rows that are numbers of double and of single precision."
SAME = 1e-4
"Of the largest entry, by which gradients of a linear model may differ: errors of single precision. One unit makes more."
EACH_TIME = 8
"One in so many of the points asked before are asked at a time: no more than that is asked in vain."


@option_class
class AnswerDirections(Attack[Gradients, Directions]):
    """Ask a few pictures made to order, until their explanations show no new direction.

    Every input gradient is a combination of the rows of the first layer, whatever comes behind it. Means of gradients are
    too, so that smoothed ones and integrated ones serve as well.
    """

    name: ClassVar[str] = "answer-directions"
    paper: ClassVar[str] = "beyond Haim et al. 2022, arXiv:2206.07758, and Milli et al. 2018, arXiv:1807.05185"
    taxonomy = taxonomies.INVERSION
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        Remedy(
            "Answer explanations without signs, which are no combinations of the first layer's rows, or none at all.",
            "of 50 images none came back from absolute values, and all from 9 plain answers (docs/defences.md).",
        ),
        "Train by Adam or without weight decay, or with differential privacy: then few answers show no span of images.",
        Remedy(
            "Round answers to 2 digits or add noise of 10 %; 4 digits, SmoothGrad and the top class alone hide nothing.",
            "of 50 images none came back from 2 digits or noise of 10 %, and 43 to 49 from 4 digits (docs/defences.md).",
        ),
        "A limit on queries has to be well below the number of training images over the number of outputs.",
    )
    asks: ClassVar[int] = 10

    most: PositiveInt = 400
    "Points to ask, at most."
    least: PositiveInt = 1
    "Points to ask, at least: more than show all directions make those clearer that noise is in."
    box: tuple[float, float] = (0.0, 1.0)
    "The least and the largest value of a pixel, between which points are."
    shape: tuple[PositiveInt, ...] | None = None
    "Of one image where the service does not say it: height, width, and 3 for colours."

    def run(self, held: Gradients, context: Context) -> Finding[Directions]:
        if held.first_layer:
            raise NotApplicable(
                f"the first layer, {held.first_layer}, is not dense: gradients lie in the span of its shifted filters, not "
                "of images; audit the network from its first dense layer on, with what comes before as the inputs"
            )
        shape = held.shape or self.shape
        options = growth.layouts_of(held.dimension, shape)
        made = growth.made_points(held.dimension, options, self.box)
        service = Service(held, partial(made.draw, context.rng), context.rng)
        rows, left = np.zeros((0, held.dimension + 1)), None
        found: Shown | None = None
        while found is None or not self._enough(found, service.asked):
            try:
                more = service.rows(min(max(1, service.asked // EACH_TIME), self.most - service.asked))
            except (BudgetSpent, TargetFailed) as spent:
                if found is None:
                    raise
                left = spent
                break
            rows = np.concatenate([rows, more])
            found = growth.shown(rows, SINGLE if service.single else DOUBLE, options, shape is not None)
            context.log(f"Answers so far: {service.asked}, directions: {found.seen.rank}.")
            context.progress(min(len(rows), round(growth.ENOUGH * found.seen.rank)), round(growth.ENOUGH * found.seen.rank))
        return self._finding(held, rows, found, service, left)

    def _enough(self, found: Shown, asked: int) -> bool:
        return asked >= self.most or (asked >= self.least and (found.complete or found.crowded))

    def score(self, finding: Finding[Directions], held: Gradients, truth: Truth) -> Finding[Directions]:
        return scoring.scored(finding, truth)

    def _finding(
        self, held: Gradients, rows: Array, found: Shown, service: Service, left: Exception | None
    ) -> Finding[Directions]:
        rank, asked = found.seen.rank, service.asked
        figures = (scoring.spectrum(found.seen.sizes, rank),)
        notes = () if service.reading is None else (f"The explanations were read as {service.reading.said}.",)
        each = rows[:, :-1].reshape(asked, -1, held.dimension)
        if asked > 1 and np.ptp(each, axis=0).max() <= SAME * np.abs(each).max():
            raise NotApplicable("explanations are the same wherever they were asked for: the model is linear")
        if 1 < rank <= service.outputs + 1 and left is None:  # the bias is one more
            return Finding.none_found(
                f"{wording(asked)} show {rank} directions for {service.outputs} outputs: they tell classes apart, no image.",
                power="Of a network that descent with weight decay has trained on more images than classes, more would.",
                figures=figures,
                notes=notes,
            )
        if rank < 2:
            return Finding.none_found(
                f"No two directions stand out of the noise in {wording(asked)}.",
                power="Of a network that descent with weight decay has trained on n images, n directions would.",
                figures=figures,
                notes=notes,
            )
        if found.crowded:
            return Finding.none_found(
                f"{wording(asked)} show {rank} directions, and more of them at every point: no few images span them.",
                power=f"Fewer than {int(rank / growth.ENOUGH)} directions would have been seen to be all.",
                figures=figures,
                notes=(*notes, CONVOLUTIONS),
            )
        loot = Directions(
            rows, mean=held.mean, shape=found.shape, precision=SINGLE if service.single else DOUBLE, answers=asked
        )
        evidence = SeenDirections(rank, asked)
        summary = f"{wording(asked)} show {rank} directions in which training moved the first layer"
        if left is None:
            if found.seen.buried:
                rest = "; noise hides others, without which no image can be told"
            else:
                rest = ", and that is all of them" if found.complete else "; more of them may show more"
            return Finding.means(loot, f"{summary}{rest}.", evidence=evidence, figures=figures, notes=notes)
        lacking = math.ceil((growth.ENOUGH * rank - len(rows)) / (len(rows) / asked))
        return Finding.means(
            loot,
            f"{summary}; {left}, and {lacking} more answers at least would show all of them.",
            evidence=evidence,
            figures=figures,
            notes=notes,
            partial=True,
        )


CONVOLUTIONS = (
    "Networks whose first layer is a convolution are like that, because gradients lie in the span of its shifted filters: "
    "audit such a network from its first dense layer on, with what comes before as the inputs."
)


def wording(answers: int) -> str:
    return f"{answers} answer{'s' if answers != 1 else ''}"
