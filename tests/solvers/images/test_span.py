import numpy as np
import pytest

from divulge.solvers.images.span import span


def rows(rng, units=80, dimension=200, points=10, noise=1e-3):
    X = rng.random((points, dimension))
    known = np.column_stack([X, np.ones(points)])
    A = rng.standard_normal((units, points)) @ known + noise * rng.standard_normal((units, dimension + 1))
    return A[:, :-1], A[:, -1], known


@pytest.mark.parametrize("noise", [0, 1e-8, 1e-3, 1e-2])
def test_the_points_lie_in_the_span_and_nothing_else_is_counted(noise):
    W, b, known = rows(np.random.default_rng(0), noise=noise)
    found = span(W, b)
    assert found.rank == len(known)
    inside = known @ found.axes.T @ found.axes
    assert np.abs(inside - known).max() < 1e-9 + 2 * noise
    assert found.noise == pytest.approx(noise, rel=0.05, abs=1e-13)


@pytest.mark.parametrize("shape", [(30, 400), (300, 784), (400, 50)])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_noise_alone_has_no_directions(shape, kind):
    rng = np.random.default_rng(1)
    W = rng.standard_normal(shape) if kind == "normal" else rng.uniform(-1, 1, shape)
    assert span(W, np.zeros(len(W))).rank == 0


def test_rounding_to_single_precision_is_no_direction():
    W, b, known = rows(np.random.default_rng(2), noise=0)
    assert span(W.astype(np.float32), b.astype(np.float32)).rank == len(known)


def test_centred_points_are_told_from_raw_ones():
    rng = np.random.default_rng(3)
    X = rng.random((10, 200))
    mixture = rng.standard_normal((80, 10))
    for points, centred in ((X, False), (X - X.mean(axis=0), True)):
        A = mixture @ np.column_stack([points, np.ones(10)])
        assert span(A[:, :-1], A[:, -1]).centred is centred
    assert not span(mixture @ X, np.zeros(80)).has_bias


def test_fewer_directions_may_be_asked_for():
    W, b, _ = rows(np.random.default_rng(4))
    assert span(W, b, 4).rank == 4


def test_pairs_by_which_a_copy_adds_what_is_linear_show_nothing():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((6, 40))
    rows = rng.standard_normal((30, 6)) @ np.column_stack([X, np.ones(6)])
    linear = np.append(X[0] + X[1], 0.0)  # its bias is another than that of any sum of points
    copied = np.concatenate([rows, [linear], [-linear]])
    assert span(copied[:, :-1], copied[:, -1]).rank == span(rows[:, :-1], rows[:, -1]).rank == 6


def test_errors_of_an_extraction_far_below_the_points_are_no_directions():
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((30, 6)) @ rng.standard_normal((6, 41))
    rows += 1e-9 * rng.standard_normal((30, 1)) ** 5 * rng.standard_normal(rows.shape)
    assert span(rows[:, :-1], rows[:, -1]).rank == 6


def test_tiny_rows_that_an_extraction_made_up_are_left_out():
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((60, 6)) @ rng.standard_normal((6, 41))
    made_up = np.zeros((5, 41))
    made_up[:, -1] = 1e-3 * rng.standard_normal(5)
    copied = np.concatenate([rows, made_up])
    seen = span(copied[:, :-1], copied[:, -1])
    assert seen.rank == 6
    np.testing.assert_allclose(rows @ seen.axes.T @ seen.axes, rows, atol=1e-10)
