"""What Adam moved of a known start shows images once columns are brought to the size of their pixels."""

from __future__ import annotations

import numpy as np
import pytest

from divulge import datasets
from divulge.arrays import Array
from divulge.solvers.images import adaptive
from divulge.solvers.images.span_search import Found
from divulge.victims import ordinary

RNG = np.random.default_rng


def found(X: Array, confidence: float = 0.9) -> Found:
    level = np.full(len(X), confidence)
    return Found(X, level, level > 2, np.full(len(X), np.inf), X)


def test_the_usual_size_of_a_pixel_is_that_of_one_at_either_end_of_the_box() -> None:
    X = (RNG(0).random((4000, 3)) < [0.1, 0.5, 0.9]).astype(float)
    sizes = adaptive.usual_sizes(X.mean(axis=0), (0.0, 1.0))
    assert sizes[:3] == pytest.approx(X.std(axis=0))
    assert sizes[3] == 1
    assert adaptive.usual_sizes(np.zeros(2), (0.0, 1.0))[:2] == pytest.approx(adaptive.LEAST)


def test_scaled_directions_show_more_of_what_was_trained_on_than_unscaled_ones() -> None:
    digits = datasets.load("mnist", samples=30, seed=2)
    mean = digits.X.mean(axis=0)
    made = ordinary.train(digits.X - mean, digits.y, RNG(2), hidden=(150,), optimiser="adam", lr=1e-3, epochs=100)
    rows = np.column_stack(made.layers[0]) - np.column_stack(made.start[0])
    points = np.column_stack([digits.X - mean, np.ones(30)])

    def shown(sizes: Array) -> float:
        axes = adaptive.rescaled(rows, sizes, 30).axes
        return float(np.linalg.norm(points @ axes.T) / np.linalg.norm(points))

    assert shown(adaptive.usual_sizes(mean, (0.0, 1.0))) > shown(np.ones(785)) + 0.02


def test_what_all_numbers_of_directions_show_is_sure_and_what_one_shows_is_not() -> None:
    same, rng = RNG(0).random((3, 50)), RNG(1)
    others = {rank: rng.random((5, 50)) for rank in adaptive.RANKS}
    made = adaptive.agreed(lambda rank: found(np.concatenate([others[rank], same])))
    assert made.confidence[:3].min() > 0.99
    assert made.confidence[3:].max() < 0.3
    np.testing.assert_array_equal(np.sort(made.X[:3], axis=0), np.sort(same, axis=0))
    assert not made.certified.any()


def test_a_candidate_that_is_the_mean_image_is_never_sure() -> None:
    same = RNG(0).random((3, 50))
    made = adaptive.agreed(lambda rank: found(same, 0.0))
    assert not made.confidence.any()
