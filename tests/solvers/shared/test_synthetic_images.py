"""Pictures made to order are like what pens leave, and like what cameras see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.shared import synthetic_images

Make = Callable[[np.random.Generator, int, tuple[int, ...]], Array]


@pytest.mark.parametrize("shape", [(28, 28), (12, 20), (16, 16, 3)])
@pytest.mark.parametrize("make", [synthetic_images.strokes, synthetic_images.leaves])
def test_pictures_are_in_the_box_all_different_and_the_same_for_a_seed(make: Make, shape: tuple[int, ...]) -> None:
    X = make(np.random.default_rng(0), 6, shape)
    assert X.shape == (6, np.prod(shape))
    assert X.min() >= 0
    assert X.max() <= 1
    assert (X.std(axis=1) > 0.05).all()
    assert np.abs(np.corrcoef(X) - np.eye(6)).max() < 0.95
    assert np.array_equal(X, make(np.random.default_rng(0), 6, shape))


def test_strokes_are_mostly_black_and_white_and_leaves_are_not() -> None:
    rng = np.random.default_rng(1)
    strokes, leaves = synthetic_images.strokes(rng, 20, (28, 28)), synthetic_images.leaves(rng, 20, (28, 28))
    assert np.isin(strokes, (0, 1)).mean() > 0.9
    assert np.isin(leaves, (0, 1)).mean() < 0.2
