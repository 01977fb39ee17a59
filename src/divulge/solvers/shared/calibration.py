"""A calibrated classifier: how likely something is right, from measures of it, learned where what is right is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from divulge.arrays import Array

RIDGE = 1.0
"Of the weights, in standardised measures: a shadow has few right candidates, which any measure may split by chance."
STEPS = 30  # of Newton's method, which has settled after ten


@dataclass(frozen=True, eq=False)
class CalibratedClassifier:
    """Logistic regression on what was right on a shadow: p = 1/(1 + e^−(w·z + c)), z = (m − centre)/width.

    Its weights minimise Σ log(1 + e^−t(w·z + c)) + ½ RIDGE ‖w‖², t = ±1; that it was fitted by likelihood calibrates it.
    """

    weights: Array
    "(measures + 1,): w, and c last."
    centre: Array
    width: Array

    @classmethod
    def fit(cls, measures: Array, right: Array) -> CalibratedClassifier:
        """To measures (n, k) of which `right` (n,), 0 or 1, says whether they belong to something right."""
        centre, width = measures.mean(axis=0), measures.std(axis=0) + 1e-9
        A = np.column_stack([(measures - centre) / width, np.ones(len(measures))])
        w, keep = np.zeros(A.shape[1]), np.append(np.full(A.shape[1] - 1, RIDGE), 1e-3)
        for _ in range(STEPS):
            p = expit(A @ w)
            w = w - np.linalg.solve(A.T @ (A * (p * (1 - p))[:, None]) + np.diag(keep), A.T @ (p - right) + keep * w)
        return cls(w, centre, width)

    def log_odds(self, measures: Array) -> Array:
        found: Array = (measures - self.centre) / self.width @ self.weights[:-1] + self.weights[-1]
        return found

    def confidence(self, measures: Array) -> Array:
        found: Array = expit(self.log_odds(measures))
        return found
