"""Checks of training points find what is planted, whatever the order and the axes; points moved past them do pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.stats import special_ortho_group

from divulge.arrays import Array
from divulge.defences import sanitising
from divulge.defences.sanitising import Sphere

quick = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 10_000)
grids = st.booleans()
agreements = st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.0])
ROW = np.array([[0.0], [1], [2], [10], [11], [12]])


def drawn(rng: np.random.Generator, n: int, d: int, classes: int, grid: bool) -> tuple[Array, Array]:
    """Points in clouds, or on a grid where many are the same or equally far."""
    y = rng.integers(classes, size=n)
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if grid else rng.standard_normal((n, d))
    return X + (y[:, None] == np.arange(d)), y


def plain(X: Array, y: Array, X_known: Array, y_known: Array, own: bool, neighbours: int, agreement: float) -> Array:
    """The check by neighbours one point at a time; every order of points equally far, on average."""
    kept = []
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        away = np.round(np.linalg.norm(X_known - x, axis=1), 9)
        agree = y_known == label
        if own:
            away, agree = np.delete(away, i), np.delete(agree, i)
        last = np.sort(away)[: min(neighbours, len(away))]
        nearer, tied = away < last[-1], away == last[-1]
        share = (agree[nearer].sum() + (len(last) - nearer.sum()) * agree[tied].mean()) / len(last)
        kept.append(share >= agreement - 1e-9)
    return np.array(kept)


def test_a_label_among_others_is_found() -> None:
    y = np.array([0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(sanitising.by_neighbours(ROW, y, neighbours=2), [True, True, False, True, True, True])
    np.testing.assert_array_equal(sanitising.by_neighbours(ROW, y, neighbours=2, agreement=1), [0, 0, 0, 1, 1, 1])


def test_trusted_points_are_asked_where_there_are_some() -> None:
    trusted = ROW, np.array(["a", "a", "a", "b", "b", "b"])
    found = sanitising.by_neighbours(
        np.array([[1.5], [1.5], [11.0]]), np.array(["a", "b", "c"]), neighbours=3, among=trusted
    )
    np.testing.assert_array_equal(found, [True, False, False])


def test_points_equally_far_share_the_last_place() -> None:
    X, y = np.array([[0.0], [1], [-1]]), np.array([0, 0, 1])
    for agreement, kept in ((0.5, True), (0.51, False)):
        assert sanitising.by_neighbours(X, y, neighbours=1, agreement=agreement)[0] == kept


def test_fewer_points_than_neighbours_are_all_asked() -> None:
    np.testing.assert_array_equal(
        sanitising.by_neighbours(ROW, np.array([0, 0, 0, 0, 1, 1]), neighbours=50), [1, 1, 1, 1, 0, 0]
    )


@quick
@given(seeds, st.integers(2, 30), st.integers(1, 4), st.integers(1, 12), agreements, grids, st.booleans())
def test_the_check_by_neighbours_is_what_it_says(
    seed: int, n: int, d: int, neighbours: int, agreement: float, grid: bool, own: bool
) -> None:
    rng = np.random.default_rng(seed)
    X, y = drawn(rng, n, d, 3, grid)
    known = (X, y) if own else drawn(rng, 25, d, 3, grid)
    options: dict[str, Any] = {"neighbours": neighbours, "agreement": agreement}
    found = sanitising.by_neighbours(X, y, **options, among=None if own else known)
    np.testing.assert_array_equal(found, plain(X, y, *known, own, **options))


def test_blocks_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = drawn(np.random.default_rng(0), 50, 3, 2, False)
    whole = sanitising.by_neighbours(X, y)
    P = np.random.default_rng(1).standard_normal((7, 3))
    moved = sanitising.past_neighbours(P, np.ones(7, int), X, y, low=-3, high=3, agreement=0.7)
    monkeypatch.setattr(sanitising, "CELLS", 170)
    np.testing.assert_array_equal(sanitising.by_neighbours(X, y), whole)
    again = sanitising.past_neighbours(P, np.ones(7, int), X, y, low=-3, high=3, agreement=0.7)
    np.testing.assert_allclose(again, moved)
    assert not np.array_equal(P, moved)


@quick
@given(seeds, st.integers(12, 40), st.integers(1, 4), grids)
def test_neither_order_nor_place_nor_axes_matter(seed: int, n: int, d: int, grid: bool) -> None:
    rng = np.random.default_rng(seed)
    X, y = drawn(rng, n, d, 2, grid)
    known, theirs = drawn(rng, 30, d, 2, grid)
    turn = special_ortho_group.rvs(d, random_state=rng) if d > 1 else -np.eye(1)
    shift, order, other = 50 * rng.standard_normal(d), rng.permutation(n), rng.permutation(30)

    def moved(points: Array) -> Array:
        return np.asarray(points @ turn + shift)

    trusted, changed = (known, theirs), (moved(known)[other], theirs[other])
    checks: tuple[Callable[[Array, Array, sanitising.Labelled], Array], ...] = (
        lambda X, y, _: sanitising.by_neighbours(X, y, neighbours=5, agreement=0.6),
        lambda X, y, known: sanitising.by_neighbours(X, y, neighbours=5, agreement=0.6, among=known),
        lambda X, y, known: sanitising.by_distance(X, y, trusted=known, share=0.8),
    )
    for check in checks:
        np.testing.assert_array_equal(check(moved(X)[order], y[order], changed), check(X, y, trusted)[order])


def test_one_point_far_off_does_not_blur_the_others() -> None:
    X, y = drawn(np.random.default_rng(0), 60, 3, 2, False)
    far, labels = np.vstack([X, np.full(3, 1e12)]), np.append(y, 0)
    np.testing.assert_array_equal(sanitising.by_neighbours(far, labels)[:-1], sanitising.by_neighbours(X, y))


def test_spheres_are_means_and_quantiles() -> None:
    y = np.repeat([-1.0, 1.0], [4, 1])
    X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1], [7, 7]])
    first, second = sanitising.spheres(X, y, 0.5)
    assert (first.label, first.radius, second.label, second.radius) == (-1, 1, 1, 0)
    np.testing.assert_array_equal(np.stack([first.centre, second.centre]), [[0, 0], [7, 7]])
    kept = sanitising.by_distance(np.vstack([X, X[:1]]), np.append(y, 3.0), trusted=(X, y), share=0.5)
    np.testing.assert_array_equal(kept, [False, False, True, True, True, False])


@quick
@given(seeds, st.sampled_from([0.0, 0.29, 0.5, 0.95, 1.0]), grids)
def test_a_share_of_the_trusted_points_is_kept(seed: int, share: float, grid: bool) -> None:
    X, y = drawn(np.random.default_rng(seed), 100, 3, 1, grid)
    kept = sanitising.by_distance(X, y, trusted=(X, y), share=share)
    assert kept.mean() >= share - 1e-9
    assert grid or kept.sum() <= 100 * share + 1


@quick
@given(seeds, st.integers(1, 6), st.sampled_from([(), (7,), (2, 3)]), st.floats(0.05, 1), st.booleans())
def test_points_moved_into_spheres_are_kept_and_others_stay(
    seed: int, d: int, leading: tuple[int, ...], share: float, centred: bool
) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.random((40, d)), rng.integers(3, size=40)
    low, high = (0.0, 1.0) if centred else (X.mean(axis=0) + 0.03, np.full(d, 0.9))
    balls = sanitising.spheres(X, y, share)
    P, labels = rng.normal(0.5, 1, (*leading, d)), rng.choice(np.unique(y), leading)
    if any(np.linalg.norm(np.clip(ball.centre, low, high) - ball.centre) > ball.radius for ball in balls):
        with pytest.raises(ValueError, match="no point of the box"):
            sanitising.into_spheres(P, labels, balls, low, high)
        return
    found = sanitising.into_spheres(P, labels, balls, low, high)
    assert found.shape == P.shape
    assert ((found >= low) & (found <= high)).all()
    flat, whose = found.reshape(-1, d), np.reshape(labels, -1)
    assert sanitising.by_distance(flat, whose, trusted=(X, y), share=share).all()
    if min(ball.radius for ball in balls) > 0.1:
        assert sanitising.by_distance(flat.astype(np.float32), whose, trusted=(X, y), share=share).all()
    np.testing.assert_array_equal(sanitising.into_spheres(found, labels, balls, low, high), found)
    within = sanitising.by_distance(X, y, trusted=(X, y), share=share) & (np.clip(X, low, high) == X).all(axis=1)
    at_edge = np.isclose(np.linalg.norm(X - np.stack([balls[k].centre for k in y]), axis=1), [balls[k].radius for k in y])
    inner = X[within & ~at_edge]
    np.testing.assert_array_equal(sanitising.into_spheres(inner, y[within & ~at_edge], balls, low, high), inner)


def square(x: Array, point: Array) -> float:
    return float(np.sum((x - point) ** 2))


@pytest.mark.parametrize("low", [0.0, 0.55])
def test_points_are_moved_to_the_nearest_of_box_and_sphere(low: float) -> None:
    rng = np.random.default_rng(2)
    ball = Sphere("a", np.full(5, 0.5), 0.4)  # with the second box, its centre is outside
    P = rng.normal(0.5, 1, (30, 5))
    found = sanitising.into_spheres(P, np.full(30, "a"), [ball], low, 1.0)
    within: Any = {"type": "ineq", "fun": lambda x: ball.radius**2 - square(x, ball.centre)}
    for point, ours in zip(P, found, strict=True):
        start = np.full(5, 0.56)
        away = partial(square, point=point)
        best = minimize(away, start, method="SLSQP", bounds=[(low, 1.0)] * 5, constraints=[within], tol=1e-12)
        np.testing.assert_allclose(ours, best.x, atol=1e-5)


@quick
@given(seeds, st.integers(1, 4), st.sampled_from([(), (9,), (2, 4)]), st.integers(1, 8), agreements, grids)
def test_points_moved_past_neighbours_are_kept_and_others_stay(
    seed: int, d: int, leading: tuple[int, ...], neighbours: int, agreement: float, grid: bool
) -> None:
    rng = np.random.default_rng(seed)
    X, y = drawn(rng, 40, d, 2, grid)
    X += 2 * y[:, None]
    options: dict[str, Any] = {"neighbours": neighbours, "agreement": agreement}
    low, high = X.min(axis=0), X.max(axis=0)
    P, labels = rng.uniform(low, high, (*leading, d)), rng.integers(2, size=leading)
    if len(np.unique(y[sanitising.by_neighbours(X, y, **options)])) < 2:
        return
    found = sanitising.past_neighbours(P, labels, X, y, low=low, high=high, **options)
    assert found.shape == P.shape
    assert ((found >= low) & (found <= high)).all()
    flat, start, whose = found.reshape(-1, d), P.reshape(-1, d), np.reshape(labels, -1)
    assert sanitising.by_neighbours(flat, whose, **options, among=(X, y)).all()
    stays = sanitising.by_neighbours(start, whose, **options, among=(X, y))
    np.testing.assert_array_equal((flat == start).all(axis=1), stays)


def test_a_point_moves_as_far_as_it_must() -> None:
    X = np.array([[0.0, 0], [0, 0.1], [0, -0.1], [8, 0], [8, 0.1], [8, -0.1]])
    y = np.repeat([0, 1], 3)
    options: dict[str, Any] = {"low": -1, "high": 9, "neighbours": 2, "agreement": 1}
    found = sanitising.past_neighbours(np.array([[8.0, 0.0], [1, 0]]), np.array(0), X, y, **options)
    np.testing.assert_array_equal(found, [[3, 0], [1, 0]])  # at 4 both classes are equally far
    only = np.arange(6) == 1
    found = sanitising.past_neighbours(np.array([8.0, 0.1]), np.array(0), X, y, **options, anchors=only)
    np.testing.assert_allclose(found, [3, 0.1])


def test_an_eighth_of_the_way_is_tried_first() -> None:
    X, y = np.array([[-8.0], [-7.9], [8.0], [8.1]]), np.array([0, 0, 1, 1])
    found = sanitising.past_neighbours(np.array([-0.5]), np.array(1), X, y, low=-9, high=9, neighbours=1, agreement=1)
    assert found == -0.5 + 8.5 / 8  # beyond 0.05, where both classes are equally far


def test_anchors_lie_in_the_box() -> None:
    X, y = np.array([[0.0], [0.1], [1.0], [1.1], [8], [8.1]]), np.array([0, 0, 0, 0, 1, 1])
    options: dict[str, Any] = {"neighbours": 1, "agreement": 1}
    assert sanitising.past_neighbours(np.array([9.0]), np.array(0), X, y, low=-1, high=1, **options) == 1
    assert (
        sanitising.past_neighbours(np.array([-3.0]), np.array(1), X, y, low=0, high=8, **options) == 5
    )  # 0, moved by 5/8 of the way
    with pytest.raises(ValueError, match="no point of class 1 in the box"):
        sanitising.past_neighbours(np.array([9.0]), np.array(1), X, y, low=-1, high=1, **options)


@pytest.mark.parametrize("y", [np.random.default_rng(0).standard_normal(40), np.arange(440.0) % 110])
def test_numbers_of_a_regression_are_refused(y: Array) -> None:
    X = np.zeros((len(y), 2))
    with pytest.raises(ValueError, match="not for regression"):
        sanitising.by_neighbours(X, y)
    with pytest.raises(ValueError, match="not for regression"):
        sanitising.by_distance(X, y, trusted=(X, y))


def test_a_moved_point_stays_clear_of_the_sphere_by_what_single_precision_rounds_and_hardly_more() -> None:
    ball = Sphere("a", np.zeros(3), 2.0)
    found = sanitising.into_spheres(np.array([[9.0, 1.0, 1.0]]), np.array(["a"]), [ball], -10.0, 10.0)
    gap = 1 - np.linalg.norm(found) / 2
    assert 3e-7 < gap < 3e-6


def test_labels_of_any_kind_are_classes() -> None:
    hundred = np.arange(300.0) % 100
    for y in (
        hundred,
        np.array([0.0, 1.0, 1.0]),
        np.array([0.5, 1.5] * 2),
        np.arange(300),
        np.array(["a", "b"]),
        np.array([True]),
    ):
        X = np.zeros((len(y), 1))
        assert len(sanitising.by_distance(X, y, trusted=(X, y))) == len(y)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sanitising.by_neighbours(ROW, np.zeros(5)), "a label for each"),
        (lambda: sanitising.by_neighbours(ROW[:, 0], np.zeros(6)), "a label for each"),
        (lambda: sanitising.by_neighbours(ROW * np.nan, np.zeros(6)), "finite"),
        (lambda: sanitising.by_neighbours(ROW, np.zeros(6), neighbours=0), "a neighbour or more"),
        (lambda: sanitising.by_neighbours(ROW[:1], np.zeros(1)), "at least one other"),
        (lambda: sanitising.by_neighbours(ROW, np.zeros(6), among=(ROW[:0], np.zeros(0))), "at least one other"),
        (lambda: sanitising.spheres(ROW, np.zeros(6), 1.5), "between 0 and 1"),
        (lambda: sanitising.into_spheres(ROW, np.array(1), [Sphere(0, np.zeros(1), 1.0)], 0, 1), "got one of class 1"),
        (lambda: sanitising.into_spheres(ROW, np.array(0), [Sphere(0, np.zeros(1), 1.0)], 1, 0), "expected a box"),
        (lambda: sanitising.into_spheres(ROW * np.nan, np.array(0), [Sphere(0, np.zeros(1), 1.0)], 0, 1), "finite"),
    ],
)
def test_what_cannot_be_used_is_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
