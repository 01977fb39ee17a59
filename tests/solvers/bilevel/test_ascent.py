"""Ascent on the validation loss: what it may not do, what it finds, and what penalties that answer to it do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.bilevel.ascent import Draw, Starts, Trainer, ascend, tuned
from divulge.solvers.bilevel.implicit import Converged
from divulge.solvers.bilevel.inner import RISKS, Shared, Trained, targets
from divulge.solvers.bilevel.unrolled import EarlyStopped

LOW, HIGH = 0.0, 1.0
FEATURES = 12
CLASSES = np.arange(2)


def boxed(points: Array, targets: Array) -> Array:
    return np.clip(points, LOW, HIGH)


def blobs(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two clouds in the box that touch."""
    y = np.arange(n) % 2
    return np.clip(0.5 + 0.12 * (2 * y[:, None] - 1) + 0.2 * rng.standard_normal((n, FEATURES)), LOW, HIGH), y


def setting(own: int = 4) -> tuple[Shared, Callable[[int], Draw]]:
    """What is shared, and a way to draw validation points with their labels flipped that depends on a seed alone."""
    rng = np.random.default_rng(0)
    (X, y), (X_val, y_val) = blobs(40, rng), blobs(40, rng)
    shared = Shared(X, targets("logistic", y, CLASSES), X_val, targets("logistic", y_val, CLASSES), RISKS["logistic"])

    def draws(seed: int) -> Draw:
        rng = np.random.default_rng(seed)

        def draw(count: int) -> Starts:
            rows = np.array([rng.choice(len(X_val), own, replace=False) for _ in range(count)])
            return Starts(X_val[rows], 1 - shared.Y_val[:, rows].transpose(1, 0, 2), rows)

        return draw

    return shared, draws


def trainers(shared: Shared) -> dict[str, Trainer]:
    return {"early-stopped": EarlyStopped(shared, steps=60, rate=0.3), "converged": Converged(shared)}


class Recording:
    """A trainer, with what it was asked for and said at each iteration."""

    def __init__(self, train: Trainer) -> None:
        self.train = train
        self.values: list[Array] = []
        self.strengths: list[Array] = []

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        trained = self.train(points, targets, strengths, penalties=penalties)
        self.values.append(trained.value)
        self.strengths.append(strengths)
        return trained


@pytest.mark.parametrize("kind", ["early-stopped", "converged"])
def test_points_stay_in_the_box_and_the_loss_rises(kind: str) -> None:
    shared, draws = setting()
    train = Recording(trainers(shared)[kind])
    strengths = np.array([-1.0])
    found = ascend(train, draws(1), strengths, boxed, starts=5, iterations=40, step=0.5)
    assert ((found.points >= LOW) & (found.points <= HIGH)).all()
    assert found.value > 1.1 * train.values[0].max()
    assert found.value == np.max(train.values)
    again = trainers(shared)[kind](found.points[None], found.targets[None], strengths[None])
    assert again.value[0] == pytest.approx(found.value, rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("step", [0.01, 3.0, 100.0])
def test_the_loss_is_never_below_that_of_the_start_whatever_the_step(seed: int, step: float) -> None:
    shared, draws = setting()
    train = Recording(trainers(shared)["early-stopped"])
    found = ascend(train, draws(seed), np.zeros(1), boxed, starts=1, iterations=10, step=step)
    assert found.value >= train.values[0].max()
    assert found.restarts == 0


def test_the_winner_is_the_same_for_the_same_draws_and_keeps_the_labels_it_began_with() -> None:
    shared, draws = setting()
    first, second = (
        ascend(EarlyStopped(shared, steps=60, rate=0.3), draws(3), np.zeros(1), boxed, starts=6, iterations=30, step=0.5)
        for _ in range(2)
    )
    for name, value in vars(first).items():
        np.testing.assert_array_equal(value, vars(second)[name])
    np.testing.assert_array_equal(first.targets, 1 - shared.Y_val[:, first.rows])
    other = ascend(EarlyStopped(shared, steps=60, rate=0.3), draws(4), np.zeros(1), boxed, starts=6, iterations=30, step=0.5)
    assert not np.array_equal(other.points, first.points)


def test_more_points_do_more_harm() -> None:
    values = []
    for own in (1, 4, 10):
        shared, draws = setting(own)
        train = Converged(shared)
        values.append(ascend(train, draws(0), np.zeros(1), boxed, starts=3, iterations=30, step=0.5).value)
    assert values == sorted(values)
    assert values[2] > 1.2 * values[0]


def test_each_point_moves_by_the_step_and_by_less_and_less() -> None:
    seen: list[Array] = []

    def train(points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        seen.append(points)
        slopes = np.full_like(points, 1e-6)
        return made(points.sum(axis=(1, 2)), slopes, np.zeros_like(strengths))

    ascend(train, flat, np.zeros(1), free, starts=2, iterations=4, step=0.8)
    lengths = [np.linalg.norm(after - before, axis=2) for before, after in pairwise(seen)]
    np.testing.assert_allclose(lengths, np.array([0.8, 0.6, 0.4, 0.2])[:, None, None] * np.ones((1, 2, 3)))


def made(value: Array, points: Array, strengths: Array) -> Trained:
    return Trained(value, points, strengths, np.zeros((len(value), 1, 2)), np.zeros((len(value), 1)))


def free(points: Array, targets: Array) -> Array:
    return points


def flat(count: int) -> Starts:
    return Starts(np.zeros((count, 3, 2)), np.zeros((count, 1, 3)), np.zeros((count, 3), dtype=int))


class Valleys:
    """A made-up trainer: starts labelled 0 are stuck where they are, those labelled 1 climb."""

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        climbs = targets[:, 0, :1] == 1
        value = 1 + climbs[:, 0] * (1 + points[:, 0, 0])
        slopes = np.zeros_like(points)
        slopes[:, :, 0] = climbs
        return made(value, slopes, -np.ones_like(strengths))


def luck(sides: list[int]) -> tuple[Draw, list[int]]:
    """Draws whose labels are taken from a list, and how many were asked for each time."""
    asked: list[int] = []

    def draw(count: int) -> Starts:
        begin = sum(asked)
        asked.append(count)
        taken = np.array(sides[begin : begin + count])
        labels = np.tile(taken[:, None, None], (1, 1, 3)).astype(float)
        return Starts(np.zeros((count, 3, 2)), labels, np.tile(begin + np.arange(count)[:, None], (1, 3)))

    return draw, asked


def test_starts_that_are_stuck_behind_the_best_begin_anew() -> None:
    draw, asked = luck([0, 1, 0, 1, 1])
    found = ascend(Valleys(), draw, np.zeros(1), free, starts=3, iterations=60, step=0.1)
    assert asked == [3, 2]
    assert found.restarts == 2
    assert found.rows.tolist() == [1, 1, 1]
    assert found.value == pytest.approx(2 + 0.1 * sum(1 - i / 60 for i in range(60)))


def test_a_stuck_start_that_is_ahead_is_kept() -> None:
    draw, asked = luck([0, 0, 0])
    found = ascend(Valleys(), draw, np.zeros(1), free, starts=3, iterations=60, step=0.1)
    assert asked == [3]
    assert found.restarts == 0
    assert found.value == 1


class Levels:
    """A made-up trainer: starts labelled 1 stay at a loss of 1, others begin at `level` and grow by `rate` at every call."""

    def __init__(self, level: float, rate: float) -> None:
        self.level, self.rate, self.calls = level, rate, 0

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        value = np.where(targets[:, 0, 0] == 1, 1.0, self.level * (1 + self.rate) ** self.calls)
        self.calls += 1
        return made(value, np.zeros_like(points), np.zeros_like(strengths))


def restarts(level: float, rate: float) -> int:
    draw, _ = luck([1, 0, *[0] * 20])
    return ascend(Levels(level, rate), draw, np.zeros(1), free, starts=2, iterations=60, step=0.1).restarts


def test_a_start_that_rises_by_more_than_a_thousandth_a_move_is_not_stuck() -> None:
    assert restarts(0.1, rate=1.4e-3) == 0
    assert restarts(0.1, rate=0.7e-3) > 0


def test_a_start_within_a_twentieth_of_the_best_is_kept() -> None:
    assert restarts(0.96, rate=0.0) == 0
    assert restarts(0.93, rate=0.0) > 0


def test_late_in_the_ascent_nothing_begins_anew() -> None:
    draw, asked = luck([1, 0, *[0] * 20])
    found = ascend(Valleys(), draw, np.zeros(1), free, starts=2, iterations=60, step=0.1)
    assert len(asked) - 1 == found.restarts == 2, "after iterations 16 and 32 of at most 36"


def test_nothing_begins_anew_while_penalties_move() -> None:
    draw, asked = luck([0, 1])
    found = ascend(Valleys(), draw, np.zeros(1), free, starts=2, iterations=60, step=0.1, descent=0.1)
    assert asked == [2]
    assert found.restarts == 0


@pytest.mark.parametrize("starts", [0, 2])
def test_starts_that_are_given_come_first_and_are_left_as_they_were(starts: int) -> None:
    given, _ = luck([0, 1])
    also = given(2)
    kept = {name: value.copy() for name, value in vars(also).items()}
    draw, asked = luck([0] * 50)
    found = ascend(Valleys(), draw, np.zeros(1), free, starts=starts, iterations=60, step=0.1, also=also)
    assert asked[0] == (starts or 1)
    assert found.restarts > 0
    assert found.rows.tolist() == [1, 1, 1]
    for name, value in kept.items():
        np.testing.assert_array_equal(vars(also)[name], value)


def test_penalties_descend_by_direction_within_their_bounds_and_the_last_points_win() -> None:
    (draw, _), train = luck([1]), Recording(Valleys())
    found = ascend(
        train, draw, np.array([0.0, 5.0]), free, starts=1, iterations=4, step=1.0, descent=0.4, bounds=(-9.0, 5.0)
    )
    np.testing.assert_allclose(np.array(train.strengths)[:, 0, 0], np.cumsum([0, 0.4, 0.3, 0.2, 0.1]))
    np.testing.assert_array_equal(np.array(train.strengths)[:, 0, 1], 5.0)
    np.testing.assert_array_equal(found.strengths, train.strengths[-1][0])
    assert found.value == train.values[-1][0]


def test_fixed_penalties_stay_and_their_gradient_is_not_asked_for() -> None:
    def train(points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        assert not penalties
        return Valleys()(points, targets, strengths)

    recorded = Recording(train)
    ascend(recorded, luck([1])[0], np.array([0.3]), free, starts=1, iterations=5, step=0.1)
    np.testing.assert_array_equal(recorded.strengths, np.full((6, 1, 1), 0.3))


@pytest.mark.parametrize("kind", ["early-stopped", "converged"])
def test_a_penalty_that_answers_grows_with_the_attack(kind: str) -> None:
    clean = tuned(trainers(setting()[0])[kind], FEATURES, 1, np.zeros(1), (-8.0, 8.0), 40)
    options: dict[str, Any] = {"starts": 1, "iterations": 60, "step": 0.5, "descent": 0.3, "bounds": (-8.0, 8.0)}
    ends = []
    for own in (0, 4, 10):
        shared, draws = setting(own)
        ends.append(ascend(trainers(shared)[kind], draws(0), clean, boxed, **options).strengths[0])
    assert ends[0] == pytest.approx(clean[0], abs=0.3)
    assert ends == sorted(ends)
    assert ends[2] > ends[0] + 1


@pytest.mark.parametrize("kind", ["early-stopped", "converged"])
@pytest.mark.parametrize("start", [-6.0, 6.0])
def test_a_tuned_penalty_is_where_the_validation_loss_is_least(kind: str, start: float) -> None:
    shared, _ = setting()
    train = trainers(shared)[kind]
    grid = np.linspace(-8, 8, 161)
    nothing: dict[str, Any] = {"points": np.zeros((161, 0, FEATURES)), "targets": np.zeros((161, 1, 0))}
    known = grid[train(**nothing, strengths=grid[:, None]).value.argmin()]
    found = tuned(train, FEATURES, 1, np.array([start]), (-8.0, 8.0), 60)
    assert found[0] == pytest.approx(known, abs=0.1)
