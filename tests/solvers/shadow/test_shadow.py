"""Shadows are trained the way a network seems to have been, on points that are known."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array, Layer
from divulge.solvers.images.span import Span, span
from divulge.solvers.margin import kkt_residual, max_margin, weight_decay
from divulge.solvers.shadow import shadow
from divulge.solvers.shared import synthetic_images

RNG = np.random.default_rng


def sides(n: int) -> Array:
    return np.where(np.arange(n) % 2, 1, -1)


def trained(n: int = 8, d: int = 60) -> list[Layer]:
    rng = RNG(4)
    X = rng.standard_normal((n, d))
    return max_margin.train(max_margin.initial(rng, [d, 100, 1]), X, sides(n), target=1e-10).layers


def decayed(decay: float, n: int = 8, d: int = 40) -> list[Layer]:
    rng = RNG(4)
    X = rng.standard_normal((n, d))
    start = max_margin.initial(rng, [d, 60, 1], first=None)
    return weight_decay.minimise(start, X, sides(n), weight_decay=decay, iterations=400).layers


def size(layers: list[Layer]) -> float:
    return float(np.linalg.norm(layers[0][0]))


def test_a_shadow_is_trained_as_far_as_the_network_it_is_for() -> None:
    layers = trained()
    seen = span(*layers[0])
    made = shadow.train_shadow(layers, seen, 8, None, RNG(1))
    assert size(made.layers) == pytest.approx(size(layers), rel=0.25)
    assert made.seen.rank == seen.rank == 8
    assert made.margins.min() > 0
    assert made.decay is None
    assert kkt_residual.residual(made.layers, made.X, made.y).total < 0.3


def test_a_shadow_starts_from_the_noise_that_the_network_shows() -> None:
    layers = trained()
    made = shadow.train_shadow(layers, span(*layers[0]), 8, None, RNG(1))
    assert made.seen.noise == pytest.approx(span(*layers[0]).noise, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1e-2, 1e-4])
def test_a_network_without_noise_has_a_shadow_with_weight_decay_that_grew_as_large(decay: float) -> None:
    layers = decayed(decay)
    made = shadow.train_shadow(layers, span(*layers[0]), 8, None, RNG(1))
    assert made.decay is not None
    assert decay / 11 < made.decay < 11 * decay  # one in the list beside it
    assert size(made.layers) == pytest.approx(size(layers), rel=0.2)


def test_a_weight_decay_that_is_given_is_the_only_one_tried() -> None:
    layers = decayed(1e-2)
    assert shadow.train_shadow(layers, span(*layers[0]), 8, None, RNG(1), decay=1e-3).decay == 1e-3


@pytest.mark.parametrize(("noise", "decays"), [(5e-10, True), (2e-9, False)])
def test_noise_a_billion_times_below_the_weights_is_rounding_and_means_weight_decay(noise: float, decays: bool) -> None:
    layers = decayed(1e-2)
    seen = span(*layers[0])
    noisy = Span(seen.axes, seen.sizes, noise * float(seen.sizes[0]), 0.0)
    made = shadow.train_shadow(layers, noisy, 4, None, RNG(1), passes=5)
    assert (made.decay is not None) is decays


def test_a_shadow_has_the_widths_outputs_and_points_that_it_should() -> None:
    rng = RNG(0)
    X = rng.standard_normal((9, 30))
    layers = max_margin.train(max_margin.initial(rng, [30, 50, 20, 3]), X, np.arange(9) % 3).layers
    seen = span(*layers[0])
    made = shadow.train_shadow(layers, seen, 9, None, RNG(1), passes=50)
    assert [W.shape for W, _ in made.layers] == [W.shape for W, _ in layers]
    assert sorted(set(made.y.tolist())) == [0, 1, 2]
    own, labels = rng.standard_normal((6, 30)) + 5, np.arange(6) % 3
    made = shadow.train_shadow(layers, seen, 6, None, RNG(1), passes=50, points=(own, labels))
    assert made.X + made.mean == pytest.approx(own)
    assert made.y is labels


@pytest.mark.parametrize("n", [5, 12])
def test_the_number_of_points_is_read_from_the_weights(n: int) -> None:
    layers = trained(n)
    assert shadow.likely_count(layers, span(*layers[0]), None, RNG(0), 100) == n


def test_a_shadow_grows_until_it_shows_as_many_directions() -> None:
    layers = trained(12)
    seen = span(*layers[0])
    found = shadow.train_shadow_to_rank(layers, seen, None, RNG(0), 100)
    assert len(found.X) == found.seen.rank == seen.rank
    assert len(shadow.train_shadow_to_rank(layers, seen, None, RNG(0), 7).X) == 7


def showing(rank: int, count: int) -> shadow.Shadow:
    """A shadow of so many points that shows so many directions."""
    axes = np.eye(400)[:rank]
    return shadow.Shadow([], np.zeros((count, 3)), np.zeros(count), np.zeros(3), Span(axes, np.ones(400), 1.0, 1.0))


@pytest.mark.parametrize(("shown", "count"), [(96, 100), (94, 106)])
def test_a_shadow_shows_all_directions_from_95_of_a_hundred(shown: int, count: int) -> None:
    wanted = Span(np.eye(400)[:100], np.ones(400), 1.0, 1.0)
    assert shadow._needed(showing(shown, 100), wanted, 1000) == count


def weights(shape: tuple[int, ...], idle: float, noise: float = 1e-3, beyond: float = 100.0) -> tuple[Array, Span]:
    """Weights of which a share of the pixels was never moved from noise, and the others `beyond` it."""
    pixels = int(np.prod(shape))
    W = noise * RNG(0).choice([-1.0, 1.0], (50, pixels))
    W[:, int(idle * pixels) :] *= beyond
    return W, Span(np.eye(pixels + 1)[:5], np.ones(50), noise, 1.0)


def is_stroke(X: Array) -> bool:
    return bool(np.isin(X, (0, 1)).mean() > 0.5)


@pytest.mark.parametrize(("idle", "strokes"), [(0.15, False), (0.25, True)])
def test_pictures_with_a_ground_that_never_moved_are_taken_to_be_strokes(idle: float, strokes: bool) -> None:
    W, seen = weights((20, 20), idle)
    assert is_stroke(shadow.likely_points(W, seen, 5, (20, 20), RNG(0))) is strokes


@pytest.mark.parametrize(("beyond", "strokes"), [(1.8, True), (2.2, False)])
def test_a_pixel_was_moved_whose_weights_are_twice_the_noise(beyond: float, strokes: bool) -> None:
    W, seen = weights((20, 20), 0.0, beyond=beyond)
    assert is_stroke(shadow.likely_points(W, seen, 5, (20, 20), RNG(0))) is strokes


def test_colours_are_photographs_and_points_without_a_shape_are_normal() -> None:
    W, seen = weights((8, 8, 3), 0.5)
    photographs = shadow.likely_points(W, seen, 5, (8, 8, 3), RNG(0))
    assert np.array_equal(photographs, synthetic_images.leaves(RNG(0), 5, (8, 8, 3)))
    points = shadow.likely_points(W, seen, 2000, None, RNG(0))
    spread = np.sqrt((seen.axes[:, :-1] ** 2).mean(axis=0))
    assert points.std(axis=0) == pytest.approx(spread / spread.mean(), rel=0.1)
