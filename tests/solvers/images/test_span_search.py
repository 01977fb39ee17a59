"""A search of a span says what it found, how sure it is, and what clipped pixels certify."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from divulge import datasets
from divulge.arrays import Array
from divulge.solvers.images import ica, span_search
from divulge.solvers.images.black_windows import BlackWindows
from divulge.solvers.images.span_search import Found, SpanSearch
from divulge.solvers.shared import synthetic_images

GREY = (20, 20)
RNG = np.random.default_rng


def mixed(seed: int, count: int, shape: tuple[int, int] = GREY) -> tuple[Array, Array, Array]:
    """Images, axes of their span, and the bias of each axis."""
    rng = RNG(seed)
    X = synthetic_images.strokes(rng, count, shape)
    mixture = np.linalg.qr(rng.standard_normal((count, count)))[0]
    return X, mixture @ X, mixture.sum(axis=1)


def search(axes: Array, bias: Array | None, shape: tuple[int, int] = GREY, **options: Any) -> SpanSearch:
    def once(name: str, make: Callable[[np.random.Generator], Array]) -> Array:
        return make(RNG(zlib.crc32(name.encode())))

    usual: dict[str, Any] = {"box": (0.0, 1.0), "mean": None, "starts": 3, "once": once}
    return SpanSearch(axes, bias, np.zeros(len(axes)), shape, **{**usual, **options})


def alike(A: Array, B: Array) -> Array:
    return np.asarray(np.corrcoef(A, B)[: len(A), len(A) :].max(axis=0))


def test_a_search_says_what_it_is_sure_of() -> None:
    X, axes, bias = mixed(7, 10)
    found = search(axes, bias).run(RNG(0))
    claimed = found.X[found.confidence > 0.5]
    assert (alike(claimed, X) > 0.99).sum() >= 8
    assert (alike(X, claimed) > 0.9).all()
    assert found.certified.sum() >= 8


def test_candidates_come_surest_first_and_each_once() -> None:
    _, axes, bias = mixed(7, 10)
    found = search(axes, bias).run(RNG(0))
    certified = found.certified.astype(int)
    assert (np.diff(certified) <= 0).all()
    assert (np.diff(found.confidence[certified == 0]) <= 0).all()
    assert (np.diff(found.error[certified == 1]) >= 0).all()
    among = np.abs(np.corrcoef(found.X))
    np.fill_diagonal(among, 0)
    assert among.max() <= 0.95
    assert found.X.min() >= 0
    assert found.X.max() <= 1


@pytest.mark.parametrize("options", [{"certifiable": False}, {"box": None}])
def test_nothing_is_certified_where_the_span_is_an_estimate_or_no_box_is_known(options: dict[str, Any]) -> None:
    X, axes, bias = mixed(7, 10)
    found = search(axes, bias, **options).run(RNG(0))
    assert not found.certified.any()
    assert (alike(found.X, X) > 0.9).sum() >= 8


def test_without_a_bias_nothing_is_certified_and_images_come_out_one_way_round_or_the_other() -> None:
    X, axes, _ = mixed(7, 10)
    found = search(axes, None).run(RNG(0))
    assert not found.certified.any()
    assert (np.maximum(alike(found.raw, X), alike(-found.raw, X)) > 0.9).sum() >= 8


def test_starts_end_where_two_agree() -> None:
    """Few images come out of any start: a third would find them again."""
    _, axes, bias = mixed(7, 6)
    run = search(axes, bias, starts=5)
    run.run(RNG(0))
    assert len(run.attempts) == 2


@pytest.mark.slow
def test_where_starts_differ_their_best_rows_make_better_attempts() -> None:
    """36 images of 14 × 14 pixels: 15 come out of either start, and 24 after four rounds."""
    small = (14, 14)
    X, axes, bias = mixed(3, 36, small)
    run = search(axes, bias, small, starts=2)
    run.run(RNG(0))
    samples = ica.Differences.of(axes, small)
    sparsity = [float(ica.contrast(rows, samples).mean()) for rows in run.attempts]
    right = [int((alike(run.shown(rows)[0], X) > 0.9).sum()) for rows in run.attempts]
    assert len(run.attempts) == 2 + 4
    assert (np.diff(sparsity[1:]) < 0).all()
    assert right[-1] >= max(right[:2]) + 6


def test_rounds_end_where_nothing_gets_sparser() -> None:
    small = (14, 14)
    _, axes, bias = mixed(4, 24, small)
    run = search(axes, bias, small, starts=2)
    run.run(RNG(0))
    samples = ica.Differences.of(axes, small)
    sparsity = [float(ica.contrast(rows, samples).mean()) for rows in run.attempts]
    assert len(run.attempts) < 2 + 4
    assert sparsity[-2] - sparsity[-1] < 1e-3


def cleaned(x: float, noise: float) -> float:
    run = search(np.ones((1, 1)), np.ones(1))
    return float(run._clean(np.array([[x]]), np.array([noise]))[0, 0])


def test_a_pixel_within_three_deviations_of_an_end_of_the_box_is_taken_to_be_there() -> None:
    assert cleaned(0.029, 0.01) == 0
    assert cleaned(0.031, 0.01) == 0.031
    assert cleaned(0.971, 0.01) == pytest.approx(1)
    assert cleaned(-0.2, 0.0) == 0


@pytest.mark.parametrize(("other", "kept"), [(0.94, 2), (0.96, 1)])
def test_two_pictures_are_one_from_an_ncc_of_095(other: float, kept: int) -> None:
    rng = RNG(0)
    basis = np.linalg.qr(np.column_stack([np.ones(400), rng.standard_normal((400, 2))]))[0].T
    axes = np.stack([basis[1], other * basis[1] + np.sqrt(1 - other**2) * basis[2]])
    run = search(axes, np.ones(2), box=None)
    found: Found = run._together(np.eye(2), np.array([0.9, 0.8]))
    assert len(found.X) == kept


@pytest.mark.parametrize(("ncc", "plain"), [(0.92, True), (0.88, False)])
def test_a_candidate_like_the_mean_image_shows_nothing_else(ncc: float, plain: bool) -> None:
    basis = np.linalg.qr(np.column_stack([np.ones(400), RNG(0).standard_normal((400, 2))]))[0].T[1:]
    mean = ncc * basis[0] + np.sqrt(1 - ncc**2) * basis[1]
    assert search(basis, np.ones(2), mean=mean).plain(np.eye(2)).tolist() == [plain, False]
    assert not search(basis, np.ones(2)).plain(np.eye(2)).any()


def test_a_patch_on_the_mean_image_is_no_training_image() -> None:
    rng = RNG(5)
    mean = rng.uniform(0.2, 0.8, 144)
    patch = np.where(np.arange(144) < 30, 1.0, mean)
    assert np.corrcoef(patch, mean)[0, 1] < 0.8
    assert search(np.array([patch, rng.random(144)]), np.ones(2), mean=mean).plain(np.eye(2)).tolist() == [True, False]


def test_a_large_span_is_looked_at_through_windows_and_shaken(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MANY": 60, "LOOKS": 1, "SHAKES": 1, "SETTLED": 2}.items():
        monkeypatch.setattr(span_search, name, value)
    monkeypatch.setattr(span_search, "BlackWindows", partial(BlackWindows, windows=8))
    X = np.asarray(datasets.load("mnist", samples=64, seed=2).X, dtype=float)
    mixture = np.linalg.qr(RNG(0).standard_normal((64, 64)))[0]
    pieces: list[str] = []
    steps: list[str] = []

    def once(name: str, make: Callable[[np.random.Generator], Array]) -> Array:
        pieces.append(name)
        return make(RNG(zlib.crc32(name.encode())))

    looked = search(mixture @ X, mixture.sum(axis=1), (28, 28), once=once, step=steps.append)
    found = looked.run(RNG(0))
    assert len(set(pieces)) == len(pieces)
    assert {"black windows 0", "basis", "shake 0", "finest"} <= set(pieces)
    assert len(steps) <= looked.most
    certified = found.X[found.certified]
    assert len(certified) >= 10
    assert (alike(X, certified) > 0.9).all()
    assert (found.confidence[found.certified] > 0.9).all()
