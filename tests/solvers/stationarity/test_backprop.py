"""The gradient of a dense network, against finite differences."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from divulge.arrays import Layers
from divulge.solvers.stationarity import backprop


@pytest.mark.parametrize("activation", backprop.ACTIVATIONS)
def test_the_gradient_agrees_with_finite_differences(activation: str) -> None:
    rng = np.random.default_rng(0)
    sizes = (3, 5, 4, 2)
    layers = [(rng.normal(size=(after, before)), rng.normal(size=after)) for before, after in pairwise(sizes)]
    X, y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))

    def loss(layers: Layers) -> float:
        return 0.5 * float(((backprop.outputs(layers, X, activation) - y) ** 2).sum())

    found = backprop.gradient(layers, X, lambda f: f - y, activation)
    step = 1e-6
    for number, (W, b) in enumerate(layers):
        for part, array in ((0, W), (1, b)):
            numeric = np.zeros_like(array)
            for place in np.ndindex(array.shape):
                values = []
                for sign in (1, -1):
                    moved = array.copy()
                    moved[place] += sign * step
                    changed = list(layers)
                    changed[number] = (moved, b) if part == 0 else (W, moved)
                    values.append(loss(changed))
                numeric[place] = (values[0] - values[1]) / (2 * step)
            assert found[number][part] == pytest.approx(numeric, rel=1e-4, abs=1e-6)
            assert (found[number][part + 2] >= np.abs(found[number][part]) - 1e-12).all()
