"""Clipped pixels make an image of a span exact, and certify it where they leave no other."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.images import clipped_pixels
from divulge.solvers.images.clipped_pixels import ActiveSetFit
from divulge.solvers.images.confidence import scaled_by_bias
from divulge.solvers.images.ica import Differences, separate
from divulge.solvers.shared import synthetic_images

GREY, COLOUR = (20, 20), (16, 16, 3)
BOX = (0.0, 1.0)
RNG = np.random.default_rng


def mixed(rng: np.random.Generator, shape: tuple[int, ...], count: int = 8) -> tuple[Array, Array, Array]:
    """Images, axes of their span, and the bias of each axis."""
    make = synthetic_images.leaves if len(shape) == 3 else synthetic_images.strokes
    X = make(rng, count, shape)
    mixture = np.linalg.qr(rng.standard_normal((count, count)))[0]
    return X, mixture @ X, mixture.sum(axis=1)


def judged(x: Array, other: Array | None = None, noise: float = 0.0) -> ActiveSetFit:
    """The certificate of an image x in a span of two directions, of which the other (d,) has no bias."""
    L = np.stack([x, np.resize([1.0, -1.0], len(x)) if other is None else other])
    return clipped_pixels.certificate(np.array([1.0, 0.0]), L, np.array([1.0, 0.0]), np.array([noise, 0.0]), BOX)


def image(clipped: int, shade: float = 0.0, between: int = 40) -> Array:
    """Pixels that are nearly black, and others that are grey."""
    return np.concatenate([np.full(clipped, shade), np.full(between, 0.5)])


def test_clipped_pixels_make_an_image_exact_and_certify_it() -> None:
    X, axes, bias = mixed(RNG(4), GREY)
    true = np.linalg.solve(axes @ axes.T, axes @ X.T).T
    near = true + 0.02 * RNG(0).standard_normal(true.shape)
    found = clipped_pixels.fit(near, axes, bias, np.zeros(8), BOX)
    assert all(one.certified for one in found)
    X2, _ = scaled_by_bias(np.array([one.row for one in found]), axes, bias)
    off = np.linalg.norm(X2 - X, axis=1) / np.linalg.norm(X, axis=1)
    assert (off <= [one.error for one in found]).all()
    assert off.max() < 0.02


def test_mixtures_and_photographs_are_not_certified() -> None:
    rng = RNG(5)
    X, axes, bias = mixed(rng, GREY)
    true = np.linalg.solve(axes @ axes.T, axes @ X.T).T
    assert not clipped_pixels.certificate((true[0] + true[1]) / 2, axes, bias, np.zeros(8), BOX).certified
    X, axes, bias = mixed(rng, COLOUR)
    rows = separate(Differences.of(axes, COLOUR), rng)
    assert not any(one.certified for one in clipped_pixels.fit(rows, axes, bias, np.full(8, 1e-3), BOX))


def test_the_fit_is_weighted_least_squares_at_bias_one() -> None:
    rng = RNG(0)
    L, weight, ends, bias = rng.standard_normal((3, 30)), rng.random(30), rng.integers(0, 2, 30), rng.standard_normal(3)
    found = clipped_pixels.least_squares(L, weight, ends, bias)
    assert found is not None
    assert found @ bias == pytest.approx(1)
    slope = L @ (weight * (found @ L - ends))
    assert slope - (slope @ bias) / (bias @ bias) * bias == pytest.approx(np.zeros(3), abs=1e-9)


@pytest.mark.parametrize(("clipped", "certified"), [(4, True), (3, False)])
def test_twice_as_many_clipped_pixels_as_directions_certify(clipped: int, certified: bool) -> None:
    assert judged(image(clipped, between=10)).certified is certified


@pytest.mark.parametrize(("shade", "active"), [(0.009, 30), (0.011, 0)])
def test_a_pixel_is_clipped_within_a_hundredth_of_the_box(shade: float, active: int) -> None:
    assert judged(image(30, shade)).active == active


@pytest.mark.parametrize(("off", "active"), [(3.9, 30), (4.1, 0)])
def test_a_pixel_is_clipped_within_four_deviations_of_noise(off: float, active: int) -> None:
    assert judged(image(30, 0.05 * off), noise=0.05).active == active


@pytest.mark.parametrize(("off", "certified"), [(1.25, True), (1.35, False)])
def test_clipped_pixels_that_scatter_more_than_noise_certify_nothing(off: float, certified: bool) -> None:
    assert judged(image(30, 0.005 * off), noise=0.005).certified is certified


@pytest.mark.parametrize(("noise", "certified"), [(0.031, True), (0.032, False)])
def test_where_noise_makes_an_eighth_of_the_box_black_nothing_is_certified(noise: float, certified: bool) -> None:
    assert judged(image(200), noise=noise).certified is certified


@pytest.mark.parametrize(("share", "certified"), [(0.11, True), (0.09, False)])
def test_a_tenth_of_any_difference_has_to_show_at_clipped_pixels(share: float, certified: bool) -> None:
    other = np.concatenate([np.full(30, np.sqrt(share / 30)), np.full(40, np.sqrt((1 - share) / 40))])
    assert judged(image(30), other).certified is certified


@pytest.mark.parametrize(("bound", "certified"), [(0.19, True), (0.21, False)])
def test_an_image_that_may_be_off_by_a_fifth_is_not_certified(bound: float, certified: bool) -> None:
    """100 clipped pixels may be off by 0.0025 each, all of which shows: 0.025 in all, over the norm of the image."""
    x = np.append(np.zeros(100), 0.025 / bound)
    other = np.append(np.resize([1.0, -1.0], 100), 0.0)
    found = judged(x, other)
    assert found.error == pytest.approx(bound)
    assert found.certified is certified


@pytest.mark.parametrize(("moved", "active"), [(0.8e-3, 30), (2e-3, 90)])
def test_pixels_that_no_image_of_the_span_moves_are_not_counted_as_clipped(moved: float, active: int) -> None:
    """They are black in every image, so that black tells nothing."""
    alive = np.concatenate([np.zeros(30), np.ones(60)])
    other = np.concatenate([np.resize([1.0, -1.0], 30), np.zeros(60)])
    L = np.stack([np.append(alive[:30], moved * alive[30:]), other])
    (found,) = clipped_pixels.fit(np.array([[1.0, 0.0]]), L, np.array([1.0, 0.0]), np.zeros(2), BOX)
    assert found.active == active


def test_the_fit_takes_in_errors_far_above_a_hundredth_of_the_box() -> None:
    """Of 0.1 in every pixel: widths have to begin there, and to shrink slowly."""
    right = 0
    for seed in range(6):
        X, axes, bias = mixed(RNG(seed), GREY, 12)
        true = np.linalg.solve(axes @ axes.T, axes @ X.T).T
        error = RNG(seed + 50).standard_normal(true.shape)
        error *= 0.1 / np.sqrt(((error @ axes) ** 2).mean(axis=1, keepdims=True))
        for one, x in zip(clipped_pixels.fit(true + error, axes, bias, np.zeros(12), BOX), X, strict=True):
            right += int(one.certified and np.abs(one.row @ axes - x).max() < 0.05)
    assert right >= 68  # of 72
