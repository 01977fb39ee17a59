"""A plug-in in one file: the bootstrap mean of the first feature, in many small pieces of real work."""

from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from divulge.contract import Attack, Context, Finding, Hyperparameters, TrainingData, option_class


@option_class
class ResampledMean(Attack[TrainingData, Hyperparameters]):
    """Average the first feature over resampled rows."""

    name: ClassVar[str] = "resampled-mean"

    resamples: PositiveInt = 24
    "How many times to draw the rows again."
    work: PositiveInt = 60
    "Size of the matrix whose norm is computed each time."

    def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
        start = context.once("start", lambda rng: rng.normal(size=self.work))
        shift = float(context.rng.normal())
        means = context.map("resamples", _Resample(held.X[:, 0], start), range(self.resamples))
        return Finding.leak(Hyperparameters({"mean": float(np.mean(means)) + shift}), f"The mean is {np.mean(means):.3f}.")


class _Resample:
    def __init__(self, column: np.ndarray, start: np.ndarray) -> None:
        self.column, self.start = column, start

    def __call__(self, number: int, rng: np.random.Generator) -> float:
        drawn = rng.choice(self.column, len(self.column))
        matrix = np.outer(self.start, self.start) + rng.normal(size=(len(self.start), len(self.start)))
        return float(drawn.mean() + 1e-3 * np.linalg.svd(matrix, compute_uv=False)[0])
