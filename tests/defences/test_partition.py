"""A vote's guarantee holds against the worst that so many points can do, and not against one more."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LogisticRegression

from divulge.arrays import Array
from divulge.defences import partition
from divulge.defences.partition import Votes

quick = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10_000)


def centroids(X: Array, y: Array) -> partition.Predict:
    labels = np.unique(y)
    means = np.stack([X[y == label].mean(axis=0) for label in labels])
    return lambda points: np.asarray(labels[np.square(points[:, None] - means).sum(axis=2).argmin(axis=1)])


def logistic(X: Array, y: Array) -> partition.Predict:
    model = LogisticRegression(C=0.1, max_iter=1000).fit(X, y)
    return lambda points: np.asarray(model.predict(points))


def clouds(rng: np.random.Generator, n: int, classes: int, labels: Array | None = None) -> tuple[Array, Array]:
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, 3)) + 3 * np.eye(classes, 3)[y]
    return X, y if labels is None else np.asarray(labels)[y]


def reachable(ballots: Array, changes: int, classes: int) -> set[int]:
    """Every class that wins after any so many of the ballots are cast anew."""
    winners = set()
    for places in product(range(len(ballots)), repeat=changes):
        for cast in product(range(classes), repeat=changes):
            changed = ballots.copy()
            changed[list(places)] = cast
            winners.add(int(np.bincount(changed, minlength=classes).argmax()))
    return winners


@pytest.mark.parametrize("classes", [2, 3])
def test_the_winner_stays_for_the_radius_and_can_change_for_one_more(classes: int) -> None:
    for cast in product(range(classes), repeat=5 if classes == 2 else 4):
        ballots = np.array(cast)
        votes = Votes(np.bincount(ballots, minlength=classes)[None])
        winner, radius = int(votes.winner[0]), int(votes.radius[0])
        assert reachable(ballots, radius, classes) == {winner}
        assert len(reachable(ballots, radius + 1, classes)) > 1


@quick
@given(st.lists(st.integers(0, 30), min_size=2, max_size=6).filter(any))
def test_the_radius_is_that_of_an_attacker_who_moves_votes_to_the_best_rival(counts: list[int]) -> None:
    votes = Votes(np.array([counts]))
    winner, radius = votes.winner[0], votes.radius[0]
    assert counts.index(max(counts)) == winner
    for changes in (radius, radius + 1):
        outcomes = set()
        for rival in set(range(len(counts))) - {winner}:
            changed = np.array(counts)
            changed[winner] -= changes
            changed[rival] += changes
            outcomes.add(int(changed.argmax()))
        assert (outcomes == {winner}) == (changes == radius)


def test_known_votes() -> None:
    votes = Votes(np.array([[5, 0, 0], [0, 5, 0], [3, 3, 0], [1, 2, 3], [2, 2, 6], [9, 0, 10]]))
    np.testing.assert_array_equal(votes.winner, [0, 1, 0, 2, 2, 2])
    np.testing.assert_array_equal(votes.radius, [2, 2, 0, 0, 1, 0])
    assert partition.certified_error(votes, np.array([0, 1, 0, 2, 2, 0]), 0) == pytest.approx(1 / 6)
    assert partition.certified_error(votes, np.array([0, 1, 0, 2, 2, 0]), 1) == pytest.approx(3 / 6)
    assert partition.certified_error(votes, np.array([0, 1, 0, 2, 2, 0]), 2) == pytest.approx(4 / 6)
    assert partition.certified_error(votes, np.array([0, 1, 0, 2, 2, 0]), 3) == 1


@quick
@given(seeds, st.integers(1, 50), st.integers(1, 20))
def test_a_points_part_depends_on_nothing_else(seed: int, n: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = clouds(rng, n, 3)
    own, order, some = partition.assign(X, y, parts), rng.permutation(n), rng.random(n) < 0.5
    assert ((own >= 0) & (own < parts)).all()
    np.testing.assert_array_equal(partition.assign(X[order], y[order], parts), own[order])
    np.testing.assert_array_equal(partition.assign(X[some], y[some], parts), own[some])
    for other in (np.asfortranarray(X), X.astype(">f8"), X.reshape(n, 3, 1)):
        np.testing.assert_array_equal(partition.assign(other, y.astype(float), parts), own)


def test_parts_are_the_same_on_every_machine() -> None:
    X = np.array([[0.0, 1], [-0.0, 1], [0, 1], [0.5, -2]])
    assert partition.assign(X, np.array([0, 0, 1, 1]), 1000).tolist() == [200, 200, 665, 308]
    assert partition.assign(X[:2], np.array(["ham", "spam"]), 1000).tolist() == [415, 864]


def test_parts_are_of_one_size_but_for_chance() -> None:
    X, y = clouds(np.random.default_rng(0), 5000, 2)
    sizes = np.bincount(partition.assign(X, y, 50), minlength=50)
    assert np.square(sizes - 100).sum() / 100 < 49 + 5 * np.sqrt(2 * 49)  # chi squared


@quick
@given(seeds, st.integers(0, 40), st.integers(1, 15))
def test_order_does_not_change_a_vote(seed: int, n: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    classes = np.array([1, -1, 7])
    X, y = clouds(rng, n, 3, classes)
    points, order = rng.normal(size=(10, 3)), rng.permutation(n)
    votes = partition.vote(centroids, X, y, points, parts, classes)
    assert (votes.counts.sum(axis=1) == parts).all()
    np.testing.assert_array_equal(partition.vote(centroids, X[order], y[order], points, parts, classes).counts, votes.counts)


def test_parts_that_cannot_be_trained_on_vote_all_the_same() -> None:
    def never(X: Array, y: Array) -> partition.Predict:
        raise AssertionError("nothing to train on")

    X, points = np.array([[1.0], [2], [3]]), np.zeros((2, 1))
    empty = partition.vote(never, X[:0], np.zeros(0), points, 4, np.array([5.0, 3.0]))
    np.testing.assert_array_equal(empty.counts, [[4, 0]] * 2)
    one = partition.vote(never, X, np.full(3, "b"), points, 4, np.array(["a", "b"]))
    filled = len(set(partition.assign(X, np.full(3, "b"), 4)))
    np.testing.assert_array_equal(one.counts, [[4 - filled, filled]] * 2)


def placed(rng: np.random.Generator, part: int, parts: int, label: int) -> Array:
    """A point far off, of this label, that falls in this part."""
    while True:
        X = 100 * rng.normal(size=(8 * parts, 3))
        hits = np.flatnonzero(partition.assign(X, np.full(len(X), label), parts) == part)
        if len(hits):
            return np.asarray(X[hits[0]])


@pytest.mark.parametrize("train", [centroids, logistic])
def test_no_certified_prediction_changes_when_points_are_put_in_or_taken_out(train: partition.Train) -> None:
    rng, parts, classes = np.random.default_rng(3), 15, np.array([0, 1])
    X, y = clouds(rng, 150, 2)
    points, truth = clouds(rng, 60, 2)
    before = partition.vote(train, X, y, points, parts, classes)
    assert len(np.unique(before.radius)) > 3
    changed = 0
    for size in (1, 2, 4, 6):
        bound = partition.certified_error(before, truth, size)
        for attempt in range(4):
            removed = rng.choice(150, size // 2 if attempt % 2 else 0, replace=False)
            labels = rng.integers(2, size=size - len(removed)) if attempt < 2 else np.full(size - len(removed), attempt - 2)
            chosen = rng.permutation(parts)[: len(labels)]  # each point spoils another part
            inserted = np.array([placed(rng, part, parts, label) for part, label in zip(chosen, labels, strict=True)])
            poisoned = np.vstack([np.delete(X, removed, 0), inserted]), np.append(np.delete(y, removed), labels)
            after = partition.vote(train, *poisoned, points, parts, classes)
            assert np.abs(after.counts - before.counts).sum(axis=1).max() <= 2 * size
            safe = before.radius >= size
            np.testing.assert_array_equal(after.winner[safe], before.winner[safe])
            assert np.mean(after.winner != truth) <= bound
            changed += int(np.sum(after.winner != before.winner))
    assert changed > 0  # the attempts were in earnest


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: partition.assign(np.zeros((2, 1)), np.zeros(2), 0), "one part or more"),
        (lambda: partition.assign(np.zeros((2, 1)), np.zeros(3), 2), "a label for each"),
        (lambda: partition.vote(centroids, np.zeros((2, 1)), np.array([0, 2]), np.zeros((1, 1)), 2, np.arange(2)), "got 2"),
        (lambda: Votes(np.ones((3, 1), int)), "two classes or more"),
    ],
)
def test_what_cannot_be_used_is_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
