"""Flat inputs are laid out as the pictures they are, and the mean that was taken from them follows from the box."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.images import layouts
from divulge.solvers.images.layouts import Layout, candidates, likely_mean
from divulge.solvers.shared import synthetic_images

GREY = (20, 20)


def strokes(count: int = 30) -> Array:
    return synthetic_images.strokes(np.random.default_rng(8), count, GREY)


def test_the_mean_that_was_subtracted_follows_from_the_box() -> None:
    X = strokes()
    mean = X.mean(axis=0)
    scale = np.random.default_rng(0).uniform(0.5, 2, (30, 1))
    found = likely_mean(scale * (X - mean), (0.0, 1.0))
    assert np.corrcoef(found, mean)[0, 1] > 0.95
    assert found.max() == pytest.approx(mean.max(), rel=0.3)


def test_the_mean_is_in_units_of_the_box() -> None:
    X = strokes()
    away = X - X.mean(axis=0)
    unit, bytes_ = likely_mean(away, (0.0, 1.0)), likely_mean(away, (0.0, 255.0))
    assert bytes_ == pytest.approx(255 * unit)


def test_colours_may_come_first() -> None:
    X = synthetic_images.leaves(np.random.default_rng(9), 5, (16, 16, 3))
    first = np.moveaxis(X.reshape(5, 16, 16, 3), -1, 1).reshape(5, -1)
    last = min(candidates(768, None), key=lambda one: one.roughness(X))
    other = min(candidates(768, (16, 16, 3)), key=lambda one: one.roughness(first))
    assert (last.shape, other.shape) == ((16, 16, 3), (3, 16, 16))
    assert np.array_equal(other.forth(first), X)
    assert np.array_equal(other.back(other.forth(first)), first)


def test_what_fills_no_picture_has_no_layout() -> None:
    assert candidates(10, None) == candidates(20, (2, 2, 5)) == []


def test_a_picture_of_one_channel_is_grey() -> None:
    assert candidates(400, (20, 20, 1)) == [Layout((20, 20))]


def test_noise_has_a_roughness_of_one_and_pictures_lie_below_the_limit() -> None:
    rng = np.random.default_rng(0)
    assert Layout(GREY).roughness(rng.standard_normal((50, 400))) == pytest.approx(1, abs=0.05)
    assert Layout(GREY).roughness(np.ones((3, 400))) == 1
    leaves = synthetic_images.leaves(rng, 30, GREY)
    assert max(Layout(GREY).roughness(X) for X in (strokes(), leaves)) < layouts.ROUGH / 1.4
    half = leaves + leaves.std() * rng.standard_normal(leaves.shape)
    assert layouts.ROUGH / 1.3 < Layout(GREY).roughness(half) < 1.3 * layouts.ROUGH


def test_the_share_of_black_pixels_is_that_of_most_pictures() -> None:
    X = np.full((3, 10), 0.5)
    X[0, :9], X[1, :6], X[2, :2] = 0.09, -0.09, 0.11
    assert layouts.dark_share(X, (0.0, 1.0)) == 0.6


def test_what_lies_outside_is_measured_in_deviations_of_the_picture() -> None:
    X = np.array([[-1.0, 0.0, 1.0, 2.0]])
    assert layouts.outside(X, (0.0, 1.0)) == pytest.approx(np.sqrt(2 / 4) / X.std())
    assert layouts.outside(np.array([[0.0, 0.5, 1.0]]), (0.0, 1.0)) == 0


def test_noise_is_bounded_by_the_few_pixels_that_are_empty_everywhere() -> None:
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.random((30, 28, 22)), np.zeros((30, 28, 6))], axis=2).reshape(30, -1)
    found = Layout((28, 28)).noise(X + 1e-3 * rng.standard_normal(X.shape))
    assert 1e-3 < np.median(found) < 1e-2
