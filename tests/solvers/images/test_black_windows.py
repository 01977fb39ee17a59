"""Images that are black outside of a window come apart by linear algebra, and mixtures are not accepted for them."""

from __future__ import annotations

import numpy as np

from divulge import datasets
from divulge.arrays import Array
from divulge.solvers.images import ica
from divulge.solvers.images.black_windows import BlackWindows
from divulge.solvers.shared import synthetic_images

RNG = np.random.default_rng
BOX = (0.0, 1.0)


def digits(count: int, seed: int) -> Array:
    return np.asarray(datasets.load("mnist", samples=count, seed=seed).X, dtype=float)


GREY = (28, 28)


def windows_of(X: Array, seed: int, shape: tuple[int, ...] = GREY, white: bool = False, windows: int = 6) -> BlackWindows:
    """The search of a span of images X that a random mixture hides."""
    rng = RNG(seed)
    mixture = np.linalg.qr(rng.standard_normal((len(X), len(X))))[0]
    return BlackWindows(mixture @ X, mixture.sum(axis=1), np.full(len(X), 1e-12), shape, BOX, windows, white)


def alike(A: Array, B: Array) -> Array:
    """(len(A),): how like the most alike of B each of A is."""
    return np.asarray(np.corrcoef(A, B)[: len(A), len(A) :].max(axis=1)) if len(A) else np.zeros(0)


def test_digits_of_a_large_span_are_exact_where_a_window_shows_them() -> None:
    X = digits(100, 3)
    windows = windows_of(X, 0)
    found = windows.look(np.zeros((0, 100)), RNG(1))
    shown = found @ windows.pictures
    assert len(shown) >= 15
    assert (alike(shown, X) > 0.98).all()
    errors = np.array([windows.certificate(row).error for row in found])
    near = np.corrcoef(shown, X)[: len(shown), len(shown) :].argmax(axis=1)
    assert (np.linalg.norm(shown - X[near], axis=1) <= (errors + 1e-6) * np.linalg.norm(X[near], axis=1)).all()


def test_a_second_look_keeps_what_is_known() -> None:
    windows = windows_of(digits(100, 4), 0)
    first = windows.look(np.zeros((0, 100)), RNG(1))
    again = windows.look(first, RNG(2))
    assert len(again) >= len(first)
    assert np.allclose(again[: len(first)], first, atol=1e-6 * np.abs(first).max())


def test_white_paper_is_a_ground_as_well() -> None:
    X = 1 - digits(100, 5)
    assert not len(windows_of(X, 0).look(np.zeros((0, 100)), RNG(1)))
    windows = windows_of(X, 0, white=True)
    shown = windows.look(np.zeros((0, 100)), RNG(1)) @ windows.pictures
    assert len(shown) >= 5
    assert (alike(shown, X) > 0.98).all()


def test_the_mean_of_two_images_is_not_accepted() -> None:
    X = digits(100, 6)
    windows = windows_of(X, 0)
    true = np.linalg.solve(windows.pictures @ windows.pictures.T, windows.pictures @ X.T).T
    back = np.linalg.inv(windows.back)
    halves = [(true[place] + true[place + 1]) / 2 for place in range(0, 100, 2)]
    assert not any(windows.accepted(windows.certificate(row), row @ back) for row in halves)
    assert np.mean([windows.accepted(windows.certificate(row), row @ back) for row in true]) > 0.9


def test_a_span_of_mixtures_has_no_image() -> None:
    rng = RNG(7)
    X = digits(100, 7)
    mixtures = rng.dirichlet(np.full(100, 0.3), size=90) @ X
    assert not len(windows_of(mixtures, 0).look(np.zeros((0, 90)), RNG(1)))


def test_pictures_without_black_pixels_are_left_alone() -> None:
    X = 0.1 + 0.8 * synthetic_images.leaves(RNG(8), 60, (16, 16, 3))
    assert not len(windows_of(X, 0, (16, 16, 3)).look(np.zeros((0, 60)), RNG(1)))


def test_rows_that_are_images_stay_when_the_others_are_separated_anew() -> None:
    rng = RNG(9)
    X = digits(60, 9)
    mixture = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    samples = ica.Differences.of(mixture @ X, (28, 28))
    rows = ica.separate(samples, rng)
    new = ica.shaken(rows, samples, 40, rng)
    assert np.linalg.matrix_rank(new) == 60
    best = rows[np.argsort(ica.contrast(rows, samples))[:20]] @ mixture @ X
    assert np.median(np.abs(alike(best, new @ mixture @ X))) > 0.95
