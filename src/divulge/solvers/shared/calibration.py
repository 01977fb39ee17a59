"""How likely something is right, from measures of it: learned where what is right is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from divulge.arrays import Array

RIDGE = 1.0
"Keeps the weights of a judge small: it has seen one shadow."
STEPS = 30


@dataclass(frozen=True, eq=False)
class Judge:
    """How likely a candidate is right: a logistic regression on what was right on a shadow."""

    weights: Array
    "Of each measure, and a constant."
    centre: Array
    width: Array

    @classmethod
    def of(cls, measures: Array, right: Array) -> Judge:
        centre, width = measures.mean(axis=0), measures.std(axis=0) + 1e-9
        A = np.column_stack([(measures - centre) / width, np.ones(len(measures))])
        w, keep = np.zeros(A.shape[1]), np.append(np.full(A.shape[1] - 1, RIDGE), 1e-3)
        for _ in range(STEPS):  # Newton's method
            p = expit(A @ w)
            w = w - np.linalg.solve(A.T @ (A * (p * (1 - p))[:, None]) + np.diag(keep), A.T @ (p - right) + keep * w)
        return cls(w, centre, width)

    def log_odds(self, measures: Array) -> Array:
        found: Array = (measures - self.centre) / self.width @ self.weights[:-1] + self.weights[-1]
        return found

    def confidence(self, measures: Array) -> Array:
        found: Array = expit(self.log_odds(measures))
        return found
