"""A run-off withstands whatever rankings so many learners may turn to, and is a plain vote between two classes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LogisticRegression

from divulge.arrays import Array
from divulge.defences import partition, run_off
from divulge.defences.run_off import RunOff

quick = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10_000)


def elected(scores: Array) -> int:
    """The winner by the paper's words, of scores (parts, classes): two leaders, and then one of them."""
    first = [int(np.argmax(one)) for one in scores]
    classes = range(scores.shape[1])
    leaders = sorted(sorted(classes, key=lambda label: (-first.count(label), label))[:2])
    again = [leaders[int(one[leaders[1]] > one[leaders[0]])] for one in scores]
    return max(leaders, key=lambda label: (again.count(label), -label))


def rankings(classes: int) -> Array:
    """Scores of every order in which a learner may rank them."""
    return np.array([-np.argsort(order) for order in permutations(range(classes))], dtype=float)


@pytest.mark.parametrize(("parts", "classes"), [(4, 3), (5, 3), (7, 3), (3, 4)])
def test_no_rankings_that_learners_turn_to_change_a_winner_within_its_radius(parts: int, classes: int) -> None:
    every = rankings(classes)
    profiles = list(combinations_with_replacement(range(len(every)), parts))
    votes = RunOff.of(np.stack([every[list(profile)] for profile in profiles], axis=1))
    winners = dict(zip(profiles, votes.winner.tolist(), strict=True))
    assert all(winners[profile] == elected(every[list(profile)]) for profile in profiles[::7])
    reached = {profile: {winners[profile]} for profile in profiles}
    tight = 0
    for changes in range(1, parts + 1):
        apart = {profile: _one_apart(profile, len(every)) for profile in profiles}
        reached = {profile: set().union(*(reached[each] for each in apart[profile])) for profile in profiles}
        for profile, radius in zip(profiles, votes.radius, strict=True):
            if radius >= changes:
                assert reached[profile] == {winners[profile]}
            tight += radius == changes - 1 and len(reached[profile]) > 1
    assert (votes.radius >= 0).all()
    assert tight > 0.75 * len(profiles)


def _one_apart(profile: tuple[int, ...], every: int) -> set[tuple[int, ...]]:
    """Where one learner turns to any ranking."""
    return {
        tuple(sorted((*profile[:place], turned, *profile[place + 1 :])))
        for place in range(len(profile))
        for turned in range(every)
    }


@quick
@given(seeds, st.integers(1, 30))
def test_between_two_classes_it_is_the_plain_vote(seed: int, parts: int) -> None:
    scores = np.random.default_rng(seed).integers(3, size=(parts, 20, 2)).astype(float)
    votes = RunOff.of(scores)
    plain = partition.Votes(votes.counts)
    np.testing.assert_array_equal(votes.winner, plain.winner)
    np.testing.assert_array_equal(votes.radius, plain.radius)


@quick
@given(seeds, st.integers(1, 30), st.integers(3, 6))
def test_it_elects_as_the_paper_says_ties_and_all(seed: int, parts: int, classes: int) -> None:
    scores = np.random.default_rng(seed).integers(3, size=(parts, 20, classes)).astype(float)
    votes = RunOff.of(scores)
    assert votes.winner.tolist() == [elected(scores[:, point]) for point in range(20)]
    assert (votes.counts.sum(axis=1) == parts).all()


def test_second_choices_count_where_first_ones_are_split() -> None:
    every = rankings(3)
    of = {order: every[number] for number, order in enumerate(permutations(range(3)))}
    scores = np.array([of[0, 1, 2]] * 5 + [of[1, 2, 0]] * 4 + [of[2, 1, 0]] * 3)[:, None]
    votes = RunOff.of(scores)
    assert partition.Votes(votes.counts).winner == 0
    assert votes.winner == 1
    assert votes.preferred[0, 1, 0] == 7
    assert votes.radius == 0  # one of those for 1 turns to 2, which is then the other leader, or one to 0


def test_learners_are_trained_on_the_parts_of_the_vote() -> None:
    rng, classes = np.random.default_rng(1), np.array([0, 1, 2])
    y = rng.integers(3, size=150)
    X = rng.normal(size=(150, 3)) + 2 * np.eye(3)[y]
    points = rng.normal(size=(40, 3)) + 2 * np.eye(3)[rng.integers(3, size=40)]

    def ranks(X: Array, y: Array) -> run_off.Rank:
        model = LogisticRegression(C=0.1, max_iter=1000).fit(X, y)
        return lambda points: np.asarray(model.predict_proba(points))

    def names(X: Array, y: Array) -> partition.Predict:
        model = LogisticRegression(C=0.1, max_iter=1000).fit(X, y)
        return lambda points: np.asarray(model.predict(points))

    for parts in (5, 60):  # of sixty parts some have a class or two
        votes = run_off.elect(ranks, X, y, points, parts, classes)
        plain = partition.vote(names, X, y, points, parts, classes)
        np.testing.assert_array_equal(votes.counts, plain.counts)
        assert partition.certified_error(votes, np.zeros(40, int), 0) == np.mean(votes.winner != 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: RunOff(np.ones((3, 1), int), np.ones((3, 1, 1), int)),
        lambda: RunOff(np.ones((3, 2), int), np.ones((3, 2), int)),
    ],
)
def test_what_is_no_run_off_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="two classes or more"):
        call()
