"""The span of training points is read from weights, through noise, rounding and what an extraction adds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from divulge import datasets
from divulge.arrays import Array
from divulge.solvers.images.layouts import Layout
from divulge.solvers.images.span import Span, pictured, span, span_of_combinations, span_of_moved

RNG = np.random.default_rng


def rows(
    rng: np.random.Generator, units: int = 80, dimension: int = 200, points: int = 10, noise: float = 1e-3
) -> tuple[Array, Array, Array]:
    X = rng.random((points, dimension))
    known = np.column_stack([X, np.ones(points)])
    A = rng.standard_normal((units, points)) @ known + noise * rng.standard_normal((units, dimension + 1))
    return A[:, :-1], A[:, -1], known


def spectrum(*sizes: float, units: int = 40, columns: int = 61, dtype: type = np.float64) -> tuple[Array, Array]:
    """Weights and biases with these singular values, and no others."""
    rng = RNG(0)
    U = np.linalg.qr(rng.standard_normal((units, len(sizes))))[0]
    V = np.linalg.qr(rng.standard_normal((columns, len(sizes))))[0]
    A = ((U * np.array(sizes)) @ V.T).astype(dtype)
    return A[:, :-1], A[:, -1]


@pytest.mark.parametrize("noise", [0, 1e-8, 1e-3, 1e-2])
def test_the_points_lie_in_the_span_and_nothing_else_is_counted(noise: float) -> None:
    W, b, known = rows(RNG(0), noise=noise)
    found = span(W, b)
    assert found.rank == len(known)
    inside = known @ found.axes.T @ found.axes
    assert np.abs(inside - known).max() < 1e-9 + 2 * noise
    assert found.noise == pytest.approx(noise, rel=0.05, abs=1e-13)


@pytest.mark.parametrize("shape", [(30, 400), (300, 784), (400, 50)])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_noise_alone_has_no_directions(shape: tuple[int, int], kind: str) -> None:
    rng = RNG(1)
    W = rng.standard_normal(shape) if kind == "normal" else rng.uniform(-1, 1, shape)
    assert span(W, np.zeros(len(W))).rank == 0


@pytest.mark.parametrize(("beyond", "directions"), [(1.02, 0), (1.04, 1)])
def test_a_direction_counts_from_three_percent_beyond_the_edge_of_the_noise(beyond: float, directions: int) -> None:
    U, sizes, V = np.linalg.svd(RNG(2).standard_normal((150, 301)), full_matrices=False)
    sizes[0] = beyond * (np.sqrt(150) + np.sqrt(301))
    A = (U * sizes) @ V
    assert span(A[:, :-1], A[:, -1]).rank == directions


def test_weak_directions_count_down_to_the_rounding_of_double_precision() -> None:
    falling = [1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 3e-12, 3e-13]
    assert span(*spectrum(*falling, 3e-14)).rank == len(falling)


def test_weak_directions_count_down_to_the_rounding_of_single_precision() -> None:
    falling = [1, 1e-2, 1e-4, 3e-6]
    assert span(*spectrum(*falling, 4e-7, dtype=np.float32)).rank == len(falling)


def test_rounding_to_single_precision_is_no_direction() -> None:
    W, b, known = rows(RNG(2), noise=0)
    assert span(W.astype(np.float32), b.astype(np.float32)).rank == len(known)


ERRORS = 10.0 ** -np.arange(0, 4.8, 0.13)
"Of all sizes, as no noise has them."


@pytest.mark.parametrize(("fall", "errors"), [(2000, True), (500, False)])
def test_errors_begin_where_singular_values_fall_a_thousand_times(fall: float, errors: bool) -> None:
    rank = span(*spectrum(1, 0.1, 1e-4, *(1e-4 / fall * ERRORS))).rank
    assert rank == 3 if errors else rank > 30


@pytest.mark.parametrize(("share", "errors"), [(5e-7, True), (2e-6, False)])
def test_a_fall_by_which_one_direction_outweighs_the_others_is_no_beginning_of_errors(share: float, errors: bool) -> None:
    rank = span(*spectrum(1, *(share * ERRORS))).rank
    assert rank == 1 if errors else rank > 30


def test_centred_points_are_told_from_raw_ones() -> None:
    rng = RNG(3)
    X = rng.random((10, 200))
    mixture = rng.standard_normal((80, 10))
    for points, centred in ((X, False), (X - X.mean(axis=0), True)):
        A = mixture @ np.column_stack([points, np.ones(10)])
        assert span(A[:, :-1], A[:, -1]).centred is centred
    assert not span(mixture @ X, np.zeros(80)).has_bias


@pytest.mark.parametrize(("share", "centred"), [(0.85, False), (0.95, True)])
def test_points_were_centred_where_the_bias_is_nearly_a_direction_of_its_own(share: float, centred: bool) -> None:
    axis = np.zeros(61)
    axis[0], axis[-1] = np.sqrt(1 - share), np.sqrt(share)
    A = np.outer(RNG(0).standard_normal(30), axis)
    assert span(A[:, :-1], A[:, -1]).centred is centred


def test_fewer_directions_may_be_asked_for() -> None:
    W, b, _ = rows(RNG(4))
    assert span(W, b).strongest(4).rank == 4


def rescaled(seed: int, width: float, **options: float) -> int:
    """Directions of rows whose units are known up to factors between e^−width and e^width."""
    rng = RNG(seed)
    W, b, _ = rows(rng, noise=1e-2, **options)  # type: ignore[arg-type]  # whole numbers are numbers
    scale = np.exp(rng.uniform(-width, width, len(b)))
    return span(scale[:, None] * W, scale * b).rank


def test_units_known_up_to_their_scale_are_levelled() -> None:
    """Noise that differs from row to row would pass for directions: for 60 of them with factors from 0.1 to 7."""
    assert [rescaled(seed, 2.0) for seed in range(3)] == [10] * 3


def test_rows_are_levelled_only_where_far_fewer_directions_are_left() -> None:
    """Of 17 directions 10 are left, which is believed; of 11 there are 10, which may be the levelling's own error."""
    assert rescaled(4, 0.5) == 10
    assert rescaled(3, 0.25) == 11


def test_rows_that_explain_one_another_are_half_as_many_as_their_entries() -> None:
    """As many leave nothing of a row that is noise, and 33 to 36 directions; a quarter explain too little, and leave 31."""
    assert [rescaled(seed, 1.0, units=190, points=30) for seed in range(3)] == [30] * 3


@pytest.mark.parametrize(("more", "directions"), [(3, 13), (4, 10)])
def test_noise_is_told_by_four_singular_values(more: int, directions: int) -> None:
    W, b, _ = rows(RNG(0), units=10 + more)
    assert span(W, b).rank == directions


@pytest.mark.parametrize(("factor", "is_noise"), [(1.2, True), (2.0, False)])
def test_a_tail_that_is_wider_than_noise_is_weak_signal(factor: float, is_noise: bool) -> None:
    noise = 1e-3 * np.linalg.svd(RNG(0).standard_normal((40, 61)), compute_uv=False)[3:]
    middle = np.median(noise)
    tail = middle + factor * np.clip(noise - middle, -0.45 * middle, 0.45 * middle)
    rank = span(*spectrum(1, 0.9, 0.8, *tail)).rank
    assert rank == 3 if is_noise else rank > 30


def test_pairs_by_which_a_copy_adds_what_is_linear_show_nothing() -> None:
    rng = RNG(7)
    X = rng.standard_normal((6, 40))
    rows = rng.standard_normal((30, 6)) @ np.column_stack([X, np.ones(6)])
    linear = np.append(X[0] + X[1], 0.0)  # its bias is another than that of any sum of points
    copied = np.concatenate([rows, [linear], [-linear]])
    assert span(copied[:, :-1], copied[:, -1]).rank == span(rows[:, :-1], rows[:, -1]).rank == 6


def test_errors_of_an_extraction_far_below_the_points_are_no_directions() -> None:
    rng = RNG(8)
    rows = rng.standard_normal((30, 6)) @ rng.standard_normal((6, 41))
    rows += 1e-9 * rng.standard_normal((30, 1)) ** 5 * rng.standard_normal(rows.shape)
    assert span(rows[:, :-1], rows[:, -1]).rank == 6


def test_tiny_rows_that_an_extraction_made_up_are_left_out() -> None:
    rng = RNG(9)
    rows = rng.standard_normal((60, 6)) @ rng.standard_normal((6, 41))
    made_up = np.zeros((5, 41))
    made_up[:, -1] = 1e-3 * rng.standard_normal(5)
    copied = np.concatenate([rows, made_up])
    seen = span(copied[:, :-1], copied[:, -1])
    assert seen.rank == 6
    np.testing.assert_allclose(rows @ seen.axes.T @ seen.axes, rows, atol=1e-10)


@pytest.mark.parametrize(("size", "directions"), [(8e-4, 6), (2e-3, 7)])
def test_a_row_counts_from_a_thousandth_of_the_largest(size: float, directions: int) -> None:
    rng = RNG(9)
    rows = rng.standard_normal((60, 6)) @ rng.standard_normal((6, 41))
    extra = rng.standard_normal(41)
    extra *= size * np.linalg.norm(rows, axis=1).max() / np.linalg.norm(extra)
    A = np.vstack([rows, extra])
    assert span(A[:, :-1], A[:, -1]).rank == directions


def test_inputs_that_training_moved_are_counted_and_noise_is_none() -> None:
    """150 of 200 inputs vary; the others have noise alone, or a thousandth of what the most moved one has."""
    rng = RNG(3)
    X = rng.random((10, 200))
    X[:, 150:] = 0
    A = rng.standard_normal((80, 10)) @ np.column_stack([X, np.ones(10)])
    noisy = A + 1e-3 * rng.standard_normal(A.shape)
    assert span(A[:, :-1], A[:, -1]).pixels == 150
    assert span(noisy[:, :-1], noisy[:, -1]).pixels == 150
    A[:, 150:200] = 5e-4 * A[:, :50]
    assert span(A[:, :-1], A[:, -1]).pixels == 150


def test_directions_near_the_edge_of_the_noise_say_that_others_are_hidden() -> None:
    rng = RNG(4)
    W, b, _ = rows(rng, noise=1e-6)
    assert span(W, b).hidden < 0.01
    X = rng.random((30, 200)) * np.logspace(0, -4, 30)[:, None]
    A = rng.standard_normal((80, 30)) @ np.column_stack([X, np.zeros(30)]) + 1e-3 * rng.standard_normal((80, 201))
    found = span(A[:, :-1], A[:, -1])
    assert found.rank < 30
    assert 0.3 < found.hidden < 1


def answers(noise: float, units: int, many: int = 60) -> tuple[Span, Layout]:
    """Combinations of the rows of a first layer of so many units, which 20 smooth pictures moved."""
    rng, layout = RNG(3), Layout((20, 20))
    X = np.column_stack([gaussian_filter(rng.random((20, 20, 20)), (0, 2, 2)).reshape(20, -1), np.ones(20)])
    W = rng.standard_normal((units, 20)) @ X + noise * rng.standard_normal((units, 401))
    return span_of_combinations(rng.standard_normal((many, units)) @ W, 1e-13), layout


def test_where_all_units_are_directions_nothing_is_excused_as_noise() -> None:
    whole, layout = answers(1e-3, 15)
    assert (pictured(whole, layout).rank, whole.rank) == (15, 15)
    assert not pictured(whole, layout).uncertainty.any()


def test_what_lies_below_the_pictures_is_noise_in_them_too() -> None:
    whole, layout = answers(1e-4, 40)
    found = pictured(whole, layout)
    assert (found.rank, whole.rank) == (20, 40)
    assert (found.uncertainty > 0).all()


@pytest.mark.parametrize(("noise", "buried"), [(1e-7, False), (0.3, True)])
def test_directions_that_end_in_noise_are_not_all(noise: float, buried: bool) -> None:
    whole, layout = answers(noise, 40)
    assert pictured(whole, layout).buried is buried


def test_what_was_added_to_a_known_start_ends_where_rounding_begins() -> None:
    digits = datasets.load("mnist", samples=30, seed=1)
    rng = RNG(0)
    added = rng.standard_normal((120, 30)) @ np.column_stack([digits.X - digits.X.mean(axis=0), np.ones(30)])
    tail = np.linalg.qr(rng.standard_normal((120, 120)))[0] * 10.0 ** -np.linspace(3, 5, 120)  # it has no edge
    rounding = tail @ np.linalg.qr(rng.standard_normal((785, 120)))[0].T
    moved = added + rounding
    assert span(moved[:, :-1], moved[:, -1]).rank > 30
    found = span_of_moved(moved, None)
    assert found.rank == 30
    assert 0 < found.noise < 1e-4


def test_where_points_added_as_little_as_rounding_the_last_picture_tells() -> None:
    digits = datasets.load("mnist", samples=30, seed=2)
    rng = RNG(0)
    fading = 10.0 ** -np.linspace(0, 5, 30)
    added = (rng.standard_normal((120, 30)) * fading) @ np.column_stack([digits.X, np.ones(30)])
    rounding = 1e-5 * rng.standard_normal(added.shape) * rng.uniform(0, 1, added.shape[1]) ** 4
    assert 20 <= span_of_moved(added + rounding, Layout((28, 28))).rank <= 31
