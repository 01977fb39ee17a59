"""Pictures made to order are like what pens leave, and like what cameras see."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

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


def test_strokes_are_as_thin_and_as_sharp_as_those_of_a_fine_pen() -> None:
    X = synthetic_images.strokes(np.random.default_rng(0), 100, (28, 28))
    assert X.mean() == pytest.approx(0.07, abs=0.015)
    assert np.mean((X > 0.05) & (X < 0.95)) == pytest.approx(0.05, abs=0.01)
    large = synthetic_images.strokes(np.random.default_rng(0), 100, (56, 56))
    assert large.mean() == pytest.approx(X.mean(), rel=0.05)  # the pen grows with the picture


def test_power_of_leaves_falls_with_frequency_as_it_does_in_photographs() -> None:
    P = synthetic_images.leaves(np.random.default_rng(0), 100, (32, 32, 3)).reshape(-1, 32, 32, 3)
    power = (np.abs(np.fft.fft2(P - P.mean(axis=(1, 2), keepdims=True), axes=(1, 2))) ** 2).mean(axis=(0, 3))
    rate = np.hypot(np.fft.fftfreq(32)[:, None], np.fft.fftfreq(32)[None])
    ends = 0.03125 * 2.0 ** np.arange(5)
    bands = [power[(rate >= low) & (rate < high)].mean() for low, high in pairwise(ends)]
    slope = np.polyfit(np.log(ends[:-1]), np.log(bands), 1)[0]
    assert slope == pytest.approx(-2.45, abs=0.08)
