"""Images come apart from their mixtures because their differences are sparse."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.images.confidence import scaled_by_bias
from divulge.solvers.images.ica import Differences, best_basis, contrast, fast_ica, separate, separate_from
from divulge.solvers.shared import synthetic_images

GREY, COLOUR = (20, 20), (16, 16, 3)
RNG = np.random.default_rng


def mixed(rng: np.random.Generator, shape: tuple[int, ...], count: int = 8) -> tuple[Array, Array, Array]:
    """Images, axes of their span, and the bias of each axis."""
    make = synthetic_images.leaves if len(shape) == 3 else synthetic_images.strokes
    X = make(rng, count, shape)
    mixture = np.linalg.qr(rng.standard_normal((count, count)))[0]
    return X, mixture @ X, mixture.sum(axis=1)


def alike(A: Array, B: Array) -> Array:
    return np.asarray(np.corrcoef(A, B)[: len(A), len(A) :].max(axis=0))


@pytest.mark.parametrize("shape", [GREY, COLOUR])
def test_pictures_come_apart_and_the_bias_gives_their_scale(shape: tuple[int, ...]) -> None:
    X, axes, bias = mixed(RNG(0), shape)
    rows = separate(Differences.of(axes, shape), RNG(1))
    found, _ = scaled_by_bias(rows, axes, bias)
    assert (alike(found, X) > 0.95).all()
    nearest = np.corrcoef(found, X)[:8, 8:].argmax(axis=1)
    assert np.median(np.linalg.norm(found - X[nearest], axis=1) / np.linalg.norm(X[nearest], axis=1)) < 0.2


def test_most_of_many_pictures_come_out_of_one_start() -> None:
    right = 0
    for seed in (0, 1):
        X, axes, bias = mixed(RNG(seed), GREY, 30)
        found, _ = scaled_by_bias(separate(Differences.of(axes, GREY), RNG(1)), axes, bias)
        right += int((alike(found, X) > 0.9).sum())
    assert right >= 56  # of 60


def test_components_of_heavy_tails_are_found_among_white_ones() -> None:
    """A mixture of independent Laplace variables: FastICA's own problem."""
    rng = RNG(0)
    sources = rng.laplace(size=(4, 20_000)) / np.sqrt(2)
    turned = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    rows = fast_ica(turned @ sources, RNG(1), 60)
    match = np.abs(rows @ turned)
    assert rows @ rows.T == pytest.approx(np.eye(4), abs=1e-9)
    assert np.sort(match, axis=1)[:, -1] == pytest.approx(np.ones(4), abs=0.01)


def test_the_slope_of_the_contrast_is_right() -> None:
    rng = RNG(0)
    for shape in (GREY, COLOUR):
        samples = Differences.of(mixed(rng, shape, 3)[1], shape)
        Y, level = samples.flat[:1].copy(), np.array([0.1])
        _, weight = samples.small(Y, level)
        away = rng.standard_normal(Y.shape)
        slope = float((weight * Y * away).sum())
        step = 1e-6
        differences = (samples.small(Y + step * away, level)[0] - samples.small(Y - step * away, level)[0]) / (2 * step)
        assert differences[0] == pytest.approx(slope, rel=1e-5)


def test_differences_are_those_of_neighbours_and_none_goes_over_the_border() -> None:
    ramp = np.add.outer(2.0 * np.arange(5), np.arange(4)).reshape(1, -1)  # 2 a row, 1 a column
    kinds = Differences.of(ramp, (5, 4)).flat.reshape(5, 5, 4)
    assert kinds[0].sum() == 5 * 3 * 1
    assert kinds[1].sum() == 4 * 4 * 2
    assert not kinds[2:].any()  # second differences of a plane


def test_a_mixture_is_less_sparse_than_its_parts() -> None:
    X, _, _ = mixed(RNG(2), GREY)
    samples = Differences.of(X, GREY)
    parts = contrast(np.eye(8), samples)
    assert contrast(np.full((1, 8), 1.0), samples)[0] > parts.max()


def test_the_contrast_of_a_component_has_a_closed_form() -> None:
    """Half the differences are 0, the others √2 in root mean squares; the confidence was fitted at a level of 0.2."""
    samples = Differences(np.resize([0.0, 3.0], (1, 100)), (5, 5, 4, 1))
    assert contrast(np.array([[7.0]]), samples)[0] == pytest.approx((np.log(0.04) + np.log(2.04)) / 2)


def test_the_best_rows_of_a_pool_span_everything() -> None:
    X, _, _ = mixed(RNG(3), GREY)
    samples = Differences.of(X, GREY)
    pool = np.concatenate([RNG(0).standard_normal((20, 8)), np.eye(8), 2 * np.eye(8)])
    kept = best_basis(pool, samples)
    assert kept.shape == (8, 8)
    assert ((kept != 0).sum(axis=1) == 1).all()
    assert np.linalg.matrix_rank(kept) == 8


@pytest.mark.parametrize(("own", "chosen"), [(0.35, True), (0.25, False)])
def test_a_row_is_chosen_where_three_tenths_of_it_are_new(own: float, chosen: bool) -> None:
    """The second row is the sparsest after the first, which explains the rest of it; the third shows what it has new."""
    flat = np.zeros((3, 1000))
    flat[0, 0] = flat[1, 1] = 1.0
    flat[2, 2:] = 998**-0.5
    samples = Differences(flat, (5, 20, 10, 1))
    pool = np.array([[1.0, 0.0, 0.0], [np.sqrt(1 - own), np.sqrt(own), 0.0], [0.0, 1.0, 0.2], [0.0, 0.0, 1.0]])
    assert (np.diff(contrast(pool, samples)) > 0).all()
    kept = best_basis(pool, samples)
    assert np.array_equal(kept, pool[[0, 1, 3]] if chosen else pool[[0, 2, 3]])


def test_rows_of_several_attempts_make_one_that_is_sparser() -> None:
    shape = (14, 14)
    _, axes, _ = mixed(RNG(3), shape, 36)
    samples = Differences.of(axes, shape)
    attempts = [separate(samples, RNG(seed)) for seed in (1, 2)]
    both = separate_from(np.concatenate(attempts), samples)
    assert contrast(both, samples).mean() < min(contrast(rows, samples).mean() for rows in attempts)
