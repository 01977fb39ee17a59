from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Layer
from divulge.solvers.margin import weight_decay as wd
from divulge.solvers.margin.max_margin import initial


@pytest.mark.parametrize(("loss", "y"), [("logistic", [1, -1, 1]), ("cross-entropy", [0, 2, 1]), ("squared", [0.3, -2, 1])])
def test_each_loss_has_the_derivative_it_says(loss: str, y: list[float]) -> None:
    rng = np.random.default_rng(0)
    outputs = rng.standard_normal((3, 3 if loss == "cross-entropy" else 1))
    each, back = wd.LOSSES[loss](outputs, np.array(y))
    for place in np.ndindex(outputs.shape):
        step = np.zeros_like(outputs)
        step[place] = 1e-6
        ahead, behind = (wd.LOSSES[loss](outputs + sign * step, np.array(y))[0].sum() for sign in (1, -1))
        assert back[place] == pytest.approx((ahead - behind) / 2e-6, abs=1e-8)
    assert each.shape == (3,)


def test_a_minimum_is_lower_than_what_surrounds_it() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((10, 20)), np.where(np.arange(10) % 2, 1, -1)

    def objective(layers: list[Layer]) -> float:
        value = np.maximum(X @ layers[0][0].T + layers[0][1], 0) @ layers[1][0].T
        size = sum((W**2).sum() + (b**2).sum() for W, b in layers)
        return float(wd.logistic(value, y)[0].mean() + 0.005 * size)

    found = wd.minimise(initial(rng, [20, 15, 1], first=None), X, y, weight_decay=0.01, rounded=True)
    least = objective(found.layers)
    for _ in range(50):
        moved = [(W + 0.01 * rng.standard_normal(W.shape), b + 0.01 * rng.standard_normal(b.shape)) for W, b in found.layers]
        moved[1] = (moved[1][0], np.zeros(1))
        assert objective(moved) > least


def test_what_lies_outside_the_span_of_the_data_is_gone() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((6, 20)), np.where(np.arange(6) % 2, 1, -1)
    found = wd.minimise(initial(rng, [20, 10, 1], first=None), X, y, weight_decay=0.01)
    across = np.linalg.svd(X)[2][6:]
    assert np.abs(found.layers[0][0] @ across.T).max() < 1e-12
