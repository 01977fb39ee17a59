"""Fit what `divulge.risk` places trainings by, on src/divulge/training_risk/measured.csv; writes fitted.json beside it.

    python scripts/fit_risk.py

A logistic regression of the share of images that come back, on a few features of the recipe, every recipe of weight 1. What
it says of each recipe when that, and a tenth of all others, were left out is what the intervals are made of.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from divulge.arrays import Array
from divulge.training_risk.features import features
from divulge.training_risk.measured import HALF, measured
from divulge.training_risk.placing import spread

OUT = Path(__file__).parent.parent / "src" / "divulge" / "training_risk" / "fitted.json"
SOFT = 1.0
"Inverse strength of the penalty."
FOLDS = 10


def logistic(X: Array, shares: Array, soft: float = SOFT) -> LogisticRegression:
    """Every row once as a leak and once as none, with the share and the rest as weights."""
    both = np.concatenate([shares, 1 - shares]) + 1e-9
    told = np.repeat([1, 0], len(X))
    return LogisticRegression(C=soft, max_iter=10_000).fit(np.concatenate([X, X]), told, both)


def main() -> None:
    known = measured()
    named = [features(one.recipe) for one in known]
    names = list(named[0])
    X = np.array([[one[name] for name in names] for one in named])
    shares = np.array([one.share for one in known])
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale == 0] = 1
    X = (X - centre) / scale
    left_out = np.empty(len(X))
    for told, asked in KFold(FOLDS, shuffle=True, random_state=0).split(X):
        left_out[asked] = logistic(X[told], shares[told]).decision_function(X[asked])
    apart = np.linalg.norm(X[:, None] - X[None], axis=2) + np.diag(np.full(len(X), np.inf))
    fitted = logistic(X, shares)
    OUT.write_text(
        json.dumps(
            {
                "names": names,
                "centre": np.round(centre, 6).tolist(),
                "scale": np.round(scale, 6).tolist(),
                "weights": np.round(fitted.coef_[0], 4).tolist(),
                "constant": round(float(fitted.intercept_[0]), 4),
                "left_out": np.round(left_out, 3).tolist(),
                "away": round(float(np.quantile(apart.min(axis=1), 0.99)), 3),
            },
            indent=1,
        )
        + "\n",
        encoding="utf-8",
    )
    every = [one.shares for one in known]
    others = [np.delete(np.arange(len(X)), place) for place in range(len(X))]
    placed = [
        spread(left_out[rest], [every[place] for place in rest], odds) for rest, odds in zip(others, left_out, strict=True)
    ]
    random = np.array([one.cell == "random" for one in known])
    for name, some in (("random recipes", random), ("one factor or two varied", ~random)):
        right = np.array([(half >= HALF) == (share >= HALF) for (_, _, half), share in zip(placed, shares, strict=True)])
        inside = np.array([low <= share <= high for (low, high, _), share in zip(placed, shares, strict=True)])
        print(
            f"{name}: {some.sum()}, {np.sum(shares[some] >= HALF)} gave half back; left out, {right[some].sum()} on the "
            f"right side of half, {inside[some].sum()} inside their interval, mean error "
            f"{np.abs(1 / (1 + np.exp(-left_out)) - shares)[some].mean():.3f}"
        )
    for name, weight in sorted(zip(names, fitted.coef_[0], strict=True), key=lambda one: -abs(one[1])):
        print(f"{weight:+.2f} {name}")


if __name__ == "__main__":
    main()
