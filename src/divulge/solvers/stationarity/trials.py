"""Trainings that may be repeated so often and no oftener, and how near each came."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from divulge.arrays import Array

Values = dict[str, float]
Train = Callable[[Mapping[str, float]], Array]

SAME = 500.0  # times machine precision: the relative distance below which two trainings are one, on another BLAS
STEP = 1e-6  # relative change of a value for a difference quotient: its error and that of rounding are both small in double
ROUGH = 1e-8  # relative distance at which a descent has arrived: what is claimed as a replay (estimators.REPLAYED)
UNIT = ("l1_ratio",)  # hyperparameters between 0 and 1, changed by adding; the others by factors


class Trials:
    """Trainings already done, and the nearest; no more than `most` are ever done."""

    def __init__(
        self, train: Train, observed: Array, most: int = 63, seen: Callable[[int], None] = lambda done: None
    ) -> None:
        self.train, self.observed, self.most, self.seen = train, observed, most, seen
        self.kept = 0
        self.epsilon = float(np.finfo(observed.dtype).eps)
        double = self.epsilon < 1e-12
        # In single precision a neighbouring value trains to the same but for noise: only bits count.
        self.same = SAME * self.epsilon if double else 0.0
        self.step = STEP if double else 3e-4
        self.size = float(np.linalg.norm(observed)) or 1.0
        self.done: dict[tuple[float, ...], Array] = {}
        self.best: tuple[float, Values] = (np.inf, {})

    @property
    def left(self) -> int:
        """How many more there may be, but for those that are kept for later."""
        return self.most - self.kept - len(self.done)

    def distance(self, values: Values) -> float:
        return self._distance(self(values))

    def _distance(self, found: Array) -> float:
        return float(np.linalg.norm(found - self.observed)) / self.size if np.isfinite(found).all() else np.inf

    def __call__(self, values: Values) -> Array:
        """The parameters that these values train to; infinite ones where training fails, or where none is left."""
        key = tuple(values.values())
        if key not in self.done:
            if self.left < 1:
                return np.full(self.observed.shape, np.inf)
            found = self.train(values)
            if found.shape != self.observed.shape or not np.isfinite(found).all():
                found = np.full(self.observed.shape, np.inf)
            self.done[key] = found
            self.seen(len(self.done))
            if self._distance(found) < self.best[0]:
                self.best = self._distance(found), dict(values)
        return self.done[key]


def finite(trials: Trials) -> list[float]:
    """The single values whose trainings did not fail."""
    return [key[0] for key, found in trials.done.items() if np.isfinite(found).all()]
