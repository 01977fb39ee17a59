"""The first layer of a network, taken for images (Haim et al. 2022, section 5.4)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from divulge.attacks.reconstruction.scoring import FIRST_LAYER, PAPER, REMEDY
from divulge.baselines.haim2022.scoring import POWER, scored
from divulge.contract import (
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
from divulge.solvers.shared.similarity import scaled


@option_class
class FirstLayerImages(Baseline[Weights, TrainingData]):
    """Take the weights into every unit of the first layer for an image."""

    name: ClassVar[str] = "first-layer-images"
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.RECONSTRUCTION
    remedy: ClassVar[tuple[str | Remedy, ...]] = REMEDY

    count: PositiveInt = 1000
    "How many units to take, those with the largest weights first."
    inverted: bool = True
    "Also take every image inverted: a unit that an image silences shows its negative."

    def run(self, held: Weights, context: Context) -> Finding[TrainingData]:
        W = held.layers[0][0]
        largest = np.argsort(-np.linalg.norm(W, axis=1), kind="stable")[: self.count]
        images = scaled(W[largest])
        also = " and once inverted" if self.inverted else ""
        return Finding(
            Verdict.NONE_FOUND,
            f"The weights into {len(largest)} of {len(W)} units of the first layer, stretched to run from 0 to 1{also}.",
            TrainingData(np.concatenate([images, 1 - images]) if self.inverted else images, shape=held.shape),
            power=POWER,
        )

    def score(self, finding: Finding[TrainingData], held: Weights, truth: Truth) -> Finding[TrainingData]:
        return scored(finding, held, truth, "weights of the first layer", without=(FIRST_LAYER,))
