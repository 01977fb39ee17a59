"""Inputs that excite a network, taken for images (Haim et al. 2022, section 5.4)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from divulge.attacks.reconstruction.scoring import PAPER, REMEDY
from divulge.baselines.haim2022.scoring import POWER, scored
from divulge.contract import (
    Array,
    Baseline,
    Context,
    Finding,
    Remedy,
    TrainingData,
    Truth,
    Verdict,
    Weights,
    option_class,
    taxonomies,
)

STEPS, STARTS = (1e-6, 1.0), (1e-7, 1.0)
"Where the paper drew the step size and the width of the start from, as evenly in their logarithms as here."
STILL = 1e-7
"No pixel moves further than this in a step: the climb has ended."


@option_class
class ModelInversion(Baseline[Weights, TrainingData]):
    """Climb from random starts, pixels kept from 0 to 1, to inputs that make an output as large or small as it gets."""

    name: ClassVar[str] = "model-inversion"
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.INVERSION
    remedy: ClassVar[tuple[str | Remedy, ...]] = REMEDY

    count: PositiveInt = 200
    "How many inputs to make; half make the output large and half small, or as many each of several outputs large."
    settings: PositiveInt = 10
    "How many random settings of step size and start they share."
    steps: PositiveInt = 500
    "Steps of every climb, at most."
    step_size: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    "Times the gradient in every step; drawn between 1e-6 and 1 for every setting unless given."
    start: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    "Standard deviation of the pixels of a start; drawn between 1e-7 and 1 for every setting unless given."

    def run(self, held: Weights, context: Context) -> Finding[TrainingData]:
        settings = min(self.settings, self.count)
        shares = [len(part) for part in np.array_split(np.arange(self.count), settings)]
        climbs = context.map("climbs", _Climb(self, held), zip(shares, np.cumsum([0, *shares[:-1]]), strict=True))
        X, goals, heights = (np.concatenate(parts) for parts in zip(*climbs, strict=True))
        order = np.argsort(-heights, kind="stable")
        several = len(held.layers[-1][1]) > 1
        aim = "each of its outputs as large" if several else "its output as large or as small"
        return Finding(
            Verdict.NONE_FOUND,
            f"{self.count} inputs that make {aim} as they could be made, from {settings} settings of the climb.",
            TrainingData(X[order], goals[order], shape=held.shape),
            power=POWER,
        )

    def score(self, finding: Finding[TrainingData], held: Weights, truth: Truth) -> Finding[TrainingData]:
        return scored(finding, held, truth, "inputs that excite the network")


class _Climb:
    """One setting: inputs, what each was to make large, and how large it became. Made to travel to a worker."""

    def __init__(self, options: ModelInversion, held: Weights) -> None:
        self.options, self.held = options, held

    def __call__(self, item: tuple[int, int], rng: np.random.Generator) -> tuple[Array, Array, Array]:
        share, first = item
        drawn = [float(np.exp(rng.uniform(*np.log(ends)))) for ends in (STEPS, STARTS)]
        rate = drawn[0] if self.options.step_size is None else self.options.step_size
        width = drawn[1] if self.options.start is None else self.options.start
        mean = np.zeros(self.held.dimension) if self.held.mean is None else self.held.mean
        low, high = -mean, 1 - mean
        outputs = len(self.held.layers[-1][1])
        places = (first + np.arange(share)) % max(outputs, 2)
        signs = np.zeros((share, outputs))
        if outputs == 1:
            signs[:, 0] = goals = 1 - 2 * places
        else:
            signs[np.arange(share), places] = 1
            goals = places
        x = np.clip(width * rng.standard_normal((share, len(mean))), low, high)
        for _ in range(self.options.steps):
            moved = np.clip(x + rate * _slopes(self.held, x, signs)[0], low, high)
            still = np.abs(moved - x).max() <= STILL * rate
            x = moved
            if still:
                break
        return x + mean, goals, (_slopes(self.held, x, signs)[1] * signs).sum(axis=1)


def _slopes(held: Weights, x: Array, weights: Array) -> tuple[Array, Array]:
    """The gradient of Σ weights · outputs in each row of x (n, d), centred already, and the outputs (n, outputs)."""
    value, active = x, []
    for number, (W, b) in enumerate(held.layers):
        if number:
            active.append(value > 0)
            value = np.where(active[-1], value, 0)
        value = value @ W.T + b
    back = weights
    for (W, _), on in zip(held.layers[:0:-1], active[::-1], strict=True):
        back = back @ W * on
    return back @ held.layers[0][0], value
