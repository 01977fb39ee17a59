"""Searches of different kinds are pooled, and which of them find the most is learned on a shadow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from divulge.arrays import Array, Layer
from divulge.solvers.images.span import span
from divulge.solvers.kkt import pool as kkt_pool
from divulge.solvers.kkt.descent import State
from divulge.solvers.kkt.pool import Pool, SearchSpace
from divulge.solvers.margin import max_margin
from divulge.solvers.shadow.shadow import Shadow
from divulge.solvers.shared import similarity, synthetic_images

RNG = np.random.default_rng


def trained(n: int = 8, d: int = 60) -> tuple[list[Layer], Array, Array]:
    rng = RNG(4)
    X, y = rng.standard_normal((n, d)), np.where(np.arange(n) % 2, 1, -1)
    return max_margin.train(max_margin.initial(rng, [d, 100, 1]), X, y, target=1e-10).layers, X, y


def space() -> tuple[SearchSpace, Array, Array]:
    layers, X, y = trained()
    return SearchSpace.of(layers, span(*layers[0]), None), X, y


def state(space: SearchSpace, X: Array, name: str, loss: float = 0.1) -> State:
    """A search that has come to these inputs (m, d)."""
    return {
        "name": name,
        "points": (X @ space.plain.frame.T).astype(np.float32),
        "multipliers": np.ones((len(X), 1), dtype=np.float32),
        "loss": loss,
    }


def inside(space: SearchSpace, X: Array) -> Array:
    return np.asarray(X @ space.plain.frame.T @ space.plain.frame)


@pytest.mark.parametrize("outputs", [1, 3])
def test_every_class_is_looked_for_in_turn(outputs: int) -> None:
    signs = kkt_pool.sides(12, outputs)
    assert signs.shape == (12, outputs)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    each = (signs[:, 0] > 0).sum() if outputs == 1 else (signs > 0).sum(axis=0)
    assert np.all(each == 12 / max(outputs, 2))


def test_pictures_have_searches_of_their_own() -> None:
    plain, pictured = kkt_pool.setups(10, 1.0, 3, False), kkt_pool.setups(10, 1.0, 3, True)
    assert not set(plain) & set(pictured)
    assert all(setup.sparse > 0 for setup in pictured.values())
    assert not any(setup.sparse for setup in plain.values())
    assert all(setup.layers[1] == 0 and len(setup.layers) == 3 for setup in (*plain.values(), *pictured.values()))


def test_photographs_are_likely_in_proportion_to_one_over_the_frequency() -> None:
    """White noise in coordinates of the root of the spectrum has pictures whose power falls as 1/f²."""
    shape, waves = (16, 16), np.fft.fftfreq(16)
    frame = np.linalg.qr(RNG(0).standard_normal((256, 256)))[0].T
    covariance = kkt_pool.spectrum(frame, shape)
    in_pixels = frame.T @ covariance @ frame
    powers = []
    for rate in (2, 4):
        wave = np.tile(np.cos(2 * np.pi * waves[rate] * np.arange(16)), 16)
        powers.append(wave @ in_pixels @ wave)
    assert powers[0] / powers[1] == pytest.approx(4)
    flat, slow = np.ones(256), np.tile(np.cos(2 * np.pi * waves[1] * np.arange(16)), 16)
    assert (flat @ in_pixels @ flat / 256) / (slow @ in_pixels @ slow / 128) == pytest.approx(4)  # flat below half a period


def test_differences_are_those_of_neighbours() -> None:
    X = synthetic_images.strokes(RNG(0), 3, (6, 7))
    found = kkt_pool.differences(X, (6, 7))
    P = X.reshape(3, 6, 7)
    own = np.concatenate([np.diff(P, axis=1).reshape(3, -1), np.diff(P, axis=2).reshape(3, -1)], axis=1)
    assert np.sort(found, axis=1) == pytest.approx(np.sort(own, axis=1))


def test_a_pool_says_which_candidates_other_searches_found_too() -> None:
    known, X, _ = space()
    X = inside(known, X)
    noise = inside(known, RNG(0).standard_normal((4, 60)))
    one, other = np.concatenate([X[:4], noise]), X
    found = Pool.of(known, [state(known, one, "soft"), state(known, other, "hard")])
    agreed = found.agreed[:8]
    assert agreed[:4] == pytest.approx(np.ones(4), abs=1e-5)
    assert agreed[4:].max() < 0.9
    assert pytest.approx(np.concatenate([one, other]), abs=1e-5) == found.X


def test_random_points_of_the_span_tell_what_is_more_than_chance() -> None:
    """In a span of two directions any point is like another; in many directions none is."""
    rng = RNG(0)
    layers, X, _ = trained(24)
    many = SearchSpace.of(layers, span(*layers[0]), None)
    few = SearchSpace.of(layers, span(*layers[0]).strongest(2), None)
    assert kkt_pool.alike_by_chance(few, inside(few, X[:4]), rng) > 0.99
    level = kkt_pool.alike_by_chance(many, X, RNG(0))
    assert 0.5 < level < 0.9
    sizes = np.linalg.norm(X @ many.plain.frame.T, axis=0)
    fresh = (RNG(9).standard_normal((20_000, len(sizes))) * sizes) @ many.plain.frame
    beyond = np.mean(similarity.ncc(fresh, X).max(axis=1) > level)
    assert 0.0002 < beyond < 0.004  # one in a thousand


def tuned(found: dict[str, Array], many: int = 2) -> dict[str, Any]:
    known, X, y = space()
    shadow = Shadow(list(known.layers), X, y, np.zeros(60), span(*known.layers[0]))
    each = enumerate(found.items(), 1)
    states = {name: state(known, inside(known, rows), name, 0.1 * place) for place, (name, rows) in each}
    return kkt_pool.tune(known, states, shadow, many, 1.0)


def test_searches_are_chosen_that_together_find_the_most() -> None:
    """The second best finds what the best has found; the third finds the rest, and goes with it."""
    _, X, _ = space()
    noise = RNG(1).standard_normal((8, 60))
    found = {
        "soft": np.concatenate([X[:4], noise[:4]]),
        "hard": np.concatenate([X[:5], noise[:3]]),
        "hardening": np.concatenate([X[5:], noise[:5]]),
    }
    learned = tuned(found)
    assert learned["names"] == ["hard", "hardening"]
    assert (learned["right"], learned["points"]) == (8, 8)
    assert learned["loss"] == pytest.approx(0.2)


@pytest.mark.parametrize(("ncc", "found"), [(0.72, 1), (0.68, 0)])
def test_a_candidate_finds_a_point_from_an_ncc_of_07_where_chance_has_less(ncc: float, found: int) -> None:
    """In 40 directions one random point in a thousand is like one of 40 points at 0.6."""
    layers, X, y = trained(40, 100)
    known = SearchSpace.of(layers, span(*layers[0]), None)
    points = similarity.standard(inside(known, X))
    other = inside(known, RNG(7).standard_normal((1, 100)))
    shift = similarity.standard(inside(known, np.ones((1, 100))))  # what a mean of 0 takes away
    for axis in (points[:1], shift, points[:1]):
        other = similarity.standard(other - (other * axis).sum() * axis)
    candidate = ncc * points[:1] + np.sqrt(1 - ncc**2) * other
    shadow = Shadow(layers, X, y, np.zeros(100), span(*layers[0]))
    learned = kkt_pool.tune(known, {"soft": state(known, candidate, "soft")}, shadow, 1, 1.0)
    assert learned["enough"] == 0.7
    assert learned["right"] == found
