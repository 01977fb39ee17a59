"""Likeness of pictures: against slow definitions, a published program's numbers, and what must not change it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from divulge.arrays import Array
from divulge.solvers.shared import similarity

rows = hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(5)), elements=st.floats(-100, 100, width=32))
seeds = st.integers(0, 2**32 - 1)


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).random(shape)


@given(rows, rows)
def test_correlation_is_that_of_numpy_and_0_for_constant_rows(A: Array, B: Array) -> None:
    found = similarity.ncc(A, B)
    assert found.shape == (len(A), len(B))
    assert (np.abs(found) <= 1).all()
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            if np.ptp(a) == 0 or np.ptp(b) == 0:
                assert found[i, j] == 0
            elif min(a.std() / np.abs(a).max(), b.std() / np.abs(b).max()) > 1e-6:
                assert found[i, j] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-6)


@given(seeds, st.floats(1e-3, 1e3), st.floats(-100, 100))
def test_brightness_and_contrast_do_not_change_the_correlation(seed: int, factor: float, offset: float) -> None:
    A, B = random(seed, 3, 20), random(seed + 1, 4, 20)
    assert similarity.ncc(factor * A + offset, B) == pytest.approx(similarity.ncc(A, B), abs=1e-8)
    assert similarity.ncc(-A, B) == pytest.approx(-similarity.ncc(A, B))


@pytest.mark.parametrize("constant", [0.1, 1e-300, 1e20])
def test_a_constant_row_resembles_nothing_whatever_its_value(constant: float) -> None:
    assert not similarity.ncc(np.full((1, 784), constant), random(0, 3, 784)).any()


@settings(max_examples=30)
@given(seeds, st.integers(1, 7), st.integers(1, 7))
def test_no_reconstruction_serves_two_images(seed: int, m: int, n: int) -> None:
    found, originals = similarity.matched(random(seed, m, n))
    assert len(found) == len(originals) == min(m, n)
    assert len(set(found)) == len(set(originals)) == min(m, n)


@given(seeds)
def test_shuffled_rows_find_their_way_back(seed: int) -> None:
    X, order = random(seed, 8, 30), np.random.default_rng(seed).permutation(8)
    found, originals = similarity.matched(similarity.ncc(X[order], X))
    assert (order[found] == originals).all()


def test_the_vote_is_the_stretched_mean_of_all_that_are_nearly_as_near_as_the_nearest() -> None:
    drawn = random(0, 12, 4)
    original, away, x, y = np.linalg.qr(drawn - drawn.mean(axis=0))[0].T  # of mean 0, and nothing in common
    near = [original + 0.300 * x, original + 0.305 * y]  # distances within 1.1 of each other
    found = np.array([*near, original + 0.6 * x, away])
    distance = 1 - similarity.ncc(found, original[None])[:, 0]
    assert (distance <= 1.1 * distance.min()).tolist() == [True, True, False, False]
    mean = similarity.scaled(found[:2]).mean(axis=0, keepdims=True)
    assert similarity.voted(found, original[None]) == pytest.approx(similarity.scaled(mean))


def test_a_reconstruction_votes_for_one_original_only() -> None:
    X = random(0, 3, 40)
    found = np.stack([X[0] + 0.01 * X[1], X[0] + 0.4 * X[1]])  # both nearest to the first, one not far from the second
    voted = similarity.voted(found, X)
    assert voted[0] == pytest.approx(similarity.scaled(found)[0])
    assert np.isnan(voted[1:]).all()


def test_noise_is_not_averaged_into_a_likeness() -> None:
    X, noise = random(0, 50, 192), np.random.default_rng(1).normal(size=(100, 192))
    assert np.nanmax(similarity.ssim(similarity.voted(noise, X), X, (8, 8, 3))) < 0.4


def test_an_exact_reconstruction_is_not_outvoted() -> None:
    X = random(0, 5, 40)
    found = np.concatenate([X, X + 0.1 * random(1, 5, 40)])
    assert similarity.voted(3 * found + 1, X) == pytest.approx(similarity.scaled(X))


@given(rows)
def test_stretched_rows_run_from_0_to_1(X: Array) -> None:
    stretched = similarity.scaled(X)
    assert (stretched.min(axis=1) == 0).all()
    assert (stretched.max(axis=1) == (np.ptp(X, axis=1) > 0)).all()


def slow_ssim(a: Array, b: Array) -> float:
    """By the definition, pixel by pixel, of one channel."""
    window = np.exp(-(np.arange(-1, 2)[:, None] ** 2 + np.arange(-1, 2) ** 2) / (2 * 1.5**2))
    window /= window.sum()
    a, b = np.pad(a, 1, mode="reflect"), np.pad(b, 1, mode="reflect")
    found = []
    for i in range(a.shape[0] - 2):
        for j in range(a.shape[1] - 2):
            p, q = a[i : i + 3, j : j + 3], b[i : i + 3, j : j + 3]
            mp, mq = (window * p).sum(), (window * q).sum()
            vp, vq, c = (window * (p - mp) ** 2).sum(), (window * (q - mq) ** 2).sum(), (window * (p - mp) * (q - mq)).sum()
            found.append((2 * mp * mq + 1e-4) * (2 * c + 9e-4) / ((mp**2 + mq**2 + 1e-4) * (vp + vq + 9e-4)))
    return float(np.mean(found))


@settings(max_examples=20)
@given(seeds, st.integers(2, 7), st.integers(2, 7), st.sampled_from([(), (1,), (3,)]))
def test_structural_similarity_is_its_definition(seed: int, height: int, width: int, channels: tuple[int, ...]) -> None:
    A, B = random(seed, 3, height, width, *channels), random(seed + 1, 3, height, width, *channels)
    found = similarity.ssim(A.reshape(3, -1), B.reshape(3, -1), (height, width, *channels))
    A, B = A.reshape(3, height, width, -1), B.reshape(3, height, width, -1)
    slow = [np.mean([slow_ssim(a[..., k], b[..., k]) for k in range(A.shape[3])]) for a, b in zip(A, B, strict=True)]
    assert found == pytest.approx(slow)


@pytest.mark.parametrize(("shape", "published"), [((8, 6), 0.96166726398), ((8, 6, 3), 0.90245642594)])
def test_structural_similarity_is_that_of_the_published_evaluation(shape: tuple[int, ...], published: float) -> None:
    """Numbers of kornia 0.9.0, `ssim` with window_size=3."""
    k = np.arange(np.prod(shape))
    A, B = 0.5 + 0.5 * np.sin(0.7 * k), 0.5 + 0.5 * np.sin(0.7 * k + 0.4 * np.cos(0.3 * k))
    assert similarity.ssim(A[None], B[None], shape) == pytest.approx(published, rel=1e-9)


def test_many_pictures_score_as_each_alone_and_one_can_stand_for_all() -> None:
    A, B = random(0, 300, 784), random(1, 300, 784)
    together = similarity.ssim(A, B, (28, 28))
    assert together[[0, 150, 299]] == pytest.approx([similarity.ssim(A[[i]], B[[i]], (28, 28))[0] for i in (0, 150, 299)])
    assert similarity.ssim(A[:1], B, (28, 28)) == pytest.approx(similarity.ssim(np.repeat(A[:1], 300, axis=0), B, (28, 28)))
    assert similarity.ssim(A, A, (28, 28)) == pytest.approx(1)
    assert len(similarity.ssim(A[:0], B[:0], (28, 28))) == 0


@given(seeds, st.floats(0.1, 10), st.floats(-3, 3), st.floats(-3, 3))
def test_what_a_fit_can_mend_does_not_change_the_fitted_similarity(seed: int, a: float, b: float, c: float) -> None:
    X, Y, mean = random(seed, 4, 36), random(seed + 1, 4, 36), random(seed + 2, 36)
    plain = similarity.affine_ssim(X, Y, mean, (6, 6))
    assert similarity.affine_ssim(a * X + b * mean + c, Y, mean, (6, 6)) == pytest.approx(plain, abs=1e-6)
    assert similarity.affine_ssim(-a * Y + b * mean + c, Y, mean, (6, 6)) == pytest.approx(1)


def test_the_fit_is_least_squares() -> None:
    X, Y, mean = random(0, 2, 36), random(1, 2, 36), random(2, 36)
    fits = []
    for x, y in zip(X, Y, strict=True):
        columns = np.stack([x, mean, np.ones(36)], axis=1)
        fits.append(columns @ np.linalg.lstsq(columns, y)[0])
    assert similarity.affine_ssim(X, Y, mean, (6, 6)) == pytest.approx(similarity.ssim(np.array(fits), Y, (6, 6)))


def test_the_mean_image_and_a_grey_one_add_nothing_to_a_fit() -> None:
    Y, mean = random(1, 3, 36), random(2, 36)
    nothing = similarity.affine_ssim(np.zeros((3, 36)), Y, mean, (6, 6))
    assert similarity.affine_ssim(np.tile(7 * mean + 1, (3, 1)), Y, mean, (6, 6)) == pytest.approx(nothing)
    assert np.isfinite(similarity.affine_ssim(np.zeros((3, 36)), Y, np.zeros(36), (6, 6))).all()


def test_a_rank_counts_the_others_that_a_reconstruction_resembles_more() -> None:
    originals, others = random(0, 6, 50), random(1, 200, 50)
    assert similarity.ranks(originals[::-1], originals, others).tolist() == [1] * 6
    wrong = np.concatenate([originals[:3], others[:3]])
    found = similarity.ranks(wrong, originals, others)
    assert found[:3].tolist() == [1] * 3
    assert (found[3:] > 1).all()
    alike = similarity.ncc(wrong, np.concatenate([originals, others]))
    rows, columns = similarity.matched(alike[:, :6])
    more = [(alike[row, 6:] > alike[row, column]).sum() for row, column in zip(rows, columns, strict=True)]
    assert (found[columns] - 1).tolist() == more


def test_an_image_without_a_reconstruction_ranks_last() -> None:
    originals, others = random(0, 3, 50), random(1, 20, 50)
    assert similarity.ranks(originals[1:2], originals, others).tolist() == [21, 1, 21]
