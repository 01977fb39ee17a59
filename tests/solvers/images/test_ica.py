import numpy as np
import pytest

from divulge.solvers.images import clipped_pixels
from divulge.solvers.images.confidence import scaled_by_bias, scaled_to_box
from divulge.solvers.images.ica import Differences, best_basis, contrast, separate
from divulge.solvers.images.layouts import candidates, likely_mean
from divulge.solvers.images.span_search import SpanSearch
from divulge.solvers.shared import synthetic_images

GREY, COLOUR = (20, 20), (16, 16, 3)


def mixed(rng, shape, count=8):
    make = synthetic_images.leaves if len(shape) == 3 else synthetic_images.strokes
    X = make(rng, count, shape)
    mixture = np.linalg.qr(rng.standard_normal((count, count)))[0]
    return X, mixture @ X, mixture.sum(axis=1)


def alike(A, B):
    return np.corrcoef(A, B)[: len(A), len(A) :].max(axis=0)


@pytest.mark.parametrize("shape", [GREY, COLOUR])
def test_pictures_come_apart_and_the_bias_gives_their_scale(shape):
    X, axes, bias = mixed(np.random.default_rng(0), shape)
    rows = separate(Differences.of(axes, shape), np.random.default_rng(1))
    found, _ = scaled_by_bias(rows, axes, bias)
    assert (alike(found, X) > 0.95).all()
    nearest = np.corrcoef(found, X)[:8, 8:].argmax(axis=1)
    assert np.median(np.linalg.norm(found - X[nearest], axis=1) / np.linalg.norm(X[nearest], axis=1)) < 0.2


def test_the_slope_of_the_contrast_is_right():
    rng = np.random.default_rng(0)
    for shape in (GREY, COLOUR):
        samples = Differences.of(mixed(rng, shape, 3)[1], shape)
        Y, level = samples.flat[:1].copy(), np.array([0.1])
        _, weight = samples.small(Y, level)
        away = rng.standard_normal(Y.shape)
        slope = float((weight * Y * away).sum())
        step = 1e-6
        differences = (samples.small(Y + step * away, level)[0] - samples.small(Y - step * away, level)[0]) / (2 * step)
        assert differences[0] == pytest.approx(slope, rel=1e-5)


def test_a_mixture_is_less_sparse_than_its_parts():
    X, _, _ = mixed(np.random.default_rng(2), GREY)
    samples = Differences.of(X, GREY)
    parts = contrast(np.eye(8), samples)
    assert contrast(np.full((1, 8), 1.0), samples)[0] > parts.max()


def test_the_best_rows_of_a_pool_span_everything():
    X, _, _ = mixed(np.random.default_rng(3), GREY)
    samples = Differences.of(X, GREY)
    rng = np.random.default_rng(0)
    pool = np.concatenate([rng.standard_normal((20, 8)), np.eye(8), 2 * np.eye(8)])
    kept = best_basis(pool, samples)
    assert kept.shape == (8, 8)
    assert ((kept != 0).sum(axis=1) == 1).all()
    assert np.linalg.matrix_rank(kept) == 8


def test_saturated_pixels_make_a_picture_exact_and_prove_it():
    X, axes, bias = mixed(np.random.default_rng(4), GREY)
    true = np.linalg.solve(axes @ axes.T, axes @ X.T).T
    rng = np.random.default_rng(0)
    near = true + 0.02 * rng.standard_normal(true.shape)
    found = clipped_pixels.fit(near, axes, bias, np.zeros(8), (0.0, 1.0))
    assert all(one.certified for one in found)
    X2, _ = scaled_by_bias(np.array([one.row for one in found]), axes, bias)
    off = np.linalg.norm(X2 - X, axis=1) / np.linalg.norm(X, axis=1)
    assert (off <= [one.error for one in found]).all()
    assert off.max() < 0.02


def test_mixtures_and_photographs_are_not_proven():
    rng = np.random.default_rng(5)
    X, axes, bias = mixed(rng, GREY)
    true = np.linalg.solve(axes @ axes.T, axes @ X.T).T
    judged = clipped_pixels.certificate((true[0] + true[1]) / 2, axes, bias, np.zeros(8), (0.0, 1.0))
    assert not judged.certified
    X, axes, bias = mixed(rng, COLOUR)
    rows = separate(Differences.of(axes, COLOUR), rng)
    assert not any(one.certified for one in clipped_pixels.fit(rows, axes, bias, np.full(8, 1e-3), (0.0, 1.0)))


def test_without_a_bias_pictures_fill_the_box():
    X, axes, _ = mixed(np.random.default_rng(6), GREY)
    true = np.linalg.solve(axes @ axes.T, axes @ X.T).T
    found, _ = scaled_to_box(-3 * true, axes, None, (0.0, 1.0))
    assert np.abs(found - X).max() < 0.05


def test_a_search_says_what_it_is_sure_of():
    X, axes, bias = mixed(np.random.default_rng(7), GREY, 10)
    search = SpanSearch(
        axes, bias, np.zeros(10), GREY, (0.0, 1.0), None, 3, lambda name, make: make(np.random.default_rng(len(name)))
    )
    found = search.run(np.random.default_rng(0))
    claimed = found.X[found.confidence > 0.5]
    assert (alike(claimed, X) > 0.99).sum() >= 8
    assert (alike(X, claimed) > 0.9).all()
    assert found.certified.sum() >= 8


def test_the_mean_that_was_subtracted_follows_from_the_box():
    X = synthetic_images.strokes(np.random.default_rng(8), 30, GREY)
    mean = X.mean(axis=0)
    scale = np.random.default_rng(0).uniform(0.5, 2, (30, 1))
    found = likely_mean(scale * (X - mean), (0.0, 1.0))
    assert np.corrcoef(found, mean)[0, 1] > 0.95


def test_colours_may_come_first():
    X = synthetic_images.leaves(np.random.default_rng(9), 5, (16, 16, 3))
    first = np.moveaxis(X.reshape(5, 16, 16, 3), -1, 1).reshape(5, -1)
    last = min(candidates(768, None), key=lambda one: one.roughness(X))
    other = min(candidates(768, (16, 16, 3)), key=lambda one: one.roughness(first))
    assert (last.shape, other.shape) == ((16, 16, 3), (3, 16, 16))
    assert np.array_equal(other.forth(first), X)
    assert np.array_equal(other.back(other.forth(first)), first)
    assert candidates(10, None) == candidates(20, (2, 2, 5)) == []
