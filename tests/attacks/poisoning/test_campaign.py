"""Steps of a campaign: how penalties are chosen, what a split keeps, what is stored, and how a step fails."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pytest

from divulge import datasets
from divulge.arrays import Array
from divulge.attacks.poisoning.campaign import contribute, cross_validated, prepare, resplit, validated
from divulge.attacks.poisoning.climb import Climb
from divulge.attacks.poisoning.learners import PipelineLearner
from divulge.attacks.poisoning.records import (
    Aim,
    Campaign,
    FailedTraining,
    PipelineModels,
    PipelineSplit,
    PoisonLevel,
    PreparedSplit,
    Setting,
    Terms,
    all_done,
)
from divulge.errors import AttackFailed
from divulge.solvers.bilevel.ascent import Trainer, tuned
from divulge.solvers.bilevel.inner import Trained
from divulge.storage import pack, unpack

CLASSES = np.array([-1.0, 1.0])
LOGISTIC = PipelineLearner("logistic", "logistic", CLASSES, "converged", 150, 0.1, None)
AIMS: tuple[Aim, ...] = ("clean", "validation")
TERMS = Terms(2, 6, 0.1, (-8.0, 5.3), (-8.0, 5.3), np.full(4, -3.0), np.full(4, 3.0))


def clouds(n: int, rng: np.random.Generator, gap: float = 0.5) -> tuple[Array, Array]:
    y = CLASSES[np.arange(n) % 2]
    return rng.standard_normal((n, 4)) + gap * y[:, None], y


def given(train: int = 30, val: int = 20, gap: float = 0.5) -> PipelineSplit:
    rng = np.random.default_rng(0)
    return PipelineSplit(*clouds(train, rng, gap), *clouds(val, rng, gap))


@dataclass(frozen=True, eq=False)
class Watched(PipelineLearner):
    """A learner that remembers what it was trained on and judged by."""

    seen: list[tuple[Array, Array]] = field(default_factory=list)
    strengths: list[Array] = field(default_factory=list)

    def trainer(self, X: Array, y: Array, X_val: Array, y_val: Array) -> Trainer:
        self.seen.append((X, X_val))
        inner = super().trainer(X, y, X_val, y_val)

        def train(points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
            self.strengths.append(strengths)
            return inner(points, targets, strengths, penalties=penalties)

        return train


def test_a_new_split_has_the_same_points_and_as_many_of_each_class() -> None:
    split = given()
    other = resplit(split, np.random.default_rng(1), classes=True)
    assert (other.y_val == 1).sum() == (split.y_val == 1).sum()
    whole, before = (np.concatenate([each.X, each.X_val]) for each in (other, split))
    np.testing.assert_array_equal(np.sort(whole, axis=0), np.sort(before, axis=0))
    assert not np.array_equal(other.X_val, split.X_val)


def test_cross_validation_leaves_every_point_out_once_and_a_fifth_at_a_time() -> None:
    watched, split = Watched(**vars(LOGISTIC)), given()
    found = cross_validated(watched, split, (-8.0, 5.3), np.random.default_rng(0))
    assert [len(outside) for _, outside in watched.seen] == [6] * 5
    left_out = np.concatenate([outside for _, outside in watched.seen])
    np.testing.assert_array_equal(np.sort(left_out, axis=0), np.sort(split.X, axis=0))
    assert found in watched.strengths[0]


def test_neighbouring_penalties_of_cross_validation_differ_by_less_than_a_factor_of_two_and_no_finer_than_needed() -> None:
    watched = Watched(**vars(LOGISTIC))
    cross_validated(watched, given(), (-8.0, 5.3), np.random.default_rng(0))
    factors = np.exp(np.diff(watched.strengths[0][:, 0]))
    assert (factors < 2).all()
    assert (factors > 1.4).all()


@pytest.mark.parametrize("gap", [0.2, 0.5, 2.0])
def test_a_re_tuned_penalty_is_the_best_of_a_fine_grid(gap: float) -> None:
    split = given(gap=gap)
    grid = np.linspace(-8, 5.3, 400)
    losses = LOGISTIC.plain(split.trainer(LOGISTIC), 4, grid[:, None]).value
    (found,) = validated(LOGISTIC, split, (-8.0, 5.3))
    reached = LOGISTIC.plain(split.trainer(LOGISTIC), 4, np.array([[found]])).value[0]
    assert reached <= losses.min() * (1 + 1e-5)


@pytest.mark.parametrize("gap", [0.2, 0.35, 0.5])
def test_more_tuning_and_another_begin_would_not_move_the_penalty(gap: float) -> None:
    split = given(gap=gap)
    for begin in (-2.0, 4.0):
        known = tuned(split.trainer(LOGISTIC), 4, 1, np.array([begin]), (-8.0, 5.3), 300)
        np.testing.assert_allclose(validated(LOGISTIC, split, (-8.0, 5.3)), known, atol=1e-4)


def test_the_first_split_is_the_one_given_and_others_are_not() -> None:
    first, second = (
        prepare(number, np.random.default_rng(0), learner=LOGISTIC, given=given(), terms=TERMS, settings={"fixed": 0.5})
        for number in (0, 1)
    )
    assert isinstance(first, PreparedSplit)
    assert isinstance(second, PreparedSplit)
    np.testing.assert_array_equal(first.split.X, given().X)
    assert not np.array_equal(second.split.X, given().X)
    assert first.clean["fixed"].strengths == 0.5


def begun(split: PipelineSplit, strength: float = 0.0) -> Campaign:
    return Campaign("fixed", split, PipelineModels.trained(LOGISTIC, split, np.array([strength])))


def level(campaign: Campaign, size: int = 3, strengths: Array | None = None) -> PoisonLevel:
    rng = np.random.default_rng(0)
    made = contribute(campaign, rng, size=size, learner=LOGISTIC, terms=TERMS, strengths=strengths)
    assert isinstance(made, PoisonLevel)
    return made


def test_a_level_has_all_points_so_far_and_its_models_were_trained_on_them() -> None:
    campaign = begun(given())
    after = campaign.followed_by(level(campaign))
    again = after.followed_by(level(after, size=2))
    assert (campaign.points.shape, after.points.shape, again.points.shape) == ((0, 4), (3, 4), (5, 4))
    for state, models in ((again.points, again.levels[1].poisoned), (again.begun, again.levels[1].mislabelled)):
        known = PipelineModels.trained(LOGISTIC, again.split.joined(state, again.labels), again.strengths)
        np.testing.assert_allclose(models.W, known.W, rtol=1e-6)
    np.testing.assert_array_equal(again.split.X_val[again.levels[1].rows], again.levels[1].begun)


def campaign_of(split: PipelineSplit, terms: Terms, sizes: list[int]) -> Campaign:
    state, rng = begun(split), np.random.default_rng(0)
    for size in sizes:
        (made,) = all_done([contribute(state, rng, size=size, learner=LOGISTIC, terms=terms)])
        state = state.followed_by(made)
    return state


def test_points_of_earlier_levels_go_on_moving_and_keep_their_labels_unless_told_to_stay() -> None:
    moving, staying = (campaign_of(given(), replace(TERMS, joint=joint), [3, 2]) for joint in (True, False))
    first, last = moving.levels
    assert (np.abs(first.points - last.points[:3]).max(axis=1) > 0).any()
    np.testing.assert_array_equal(first.labels, last.labels[:3])
    np.testing.assert_array_equal(first.begun, last.begun[:3])
    np.testing.assert_array_equal(staying.levels[0].points, staying.points[:3])


def test_points_aim_at_all_clean_points_and_penalties_answer_those_of_validation() -> None:
    split = given()
    everything = replace(split, X_val=np.concatenate([split.X_val, split.X]), y_val=np.concatenate([split.y_val, split.y]))
    points, wanted = np.full((1, 2, 4), 0.3), LOGISTIC.targets(np.array([1.0, -1.0]))[None]
    settings: tuple[Setting, ...] = ("fixed", "learned")
    for setting, aim in product(settings, AIMS):
        terms = replace(TERMS, aim=aim)
        climb = Climb(replace(begun(split), setting=setting), LOGISTIC, terms, terms.into_box, np.random.default_rng(0))
        made = climb._alone(points, wanted, np.zeros((1, 1)))
        aimed = (everything if aim == "clean" else split).trainer(LOGISTIC)(points, wanted, np.zeros((1, 1)))
        answered = split.trainer(LOGISTIC)(points, wanted, np.zeros((1, 1))) if setting == "learned" else aimed
        assert made.value == pytest.approx(aimed.value)
        np.testing.assert_allclose(made.point_gradients, aimed.point_gradients, atol=1e-6)
        np.testing.assert_allclose(made.strength_gradients, answered.strength_gradients, atol=1e-6)


@pytest.mark.slow
def test_what_is_aimed_at_all_clean_points_does_more_to_fresh_ones() -> None:
    digits = datasets.load("mnist", samples=200, seed=0, only=[3, 5])
    split = PipelineSplit(digits.X[:120], digits.y[:120], digits.X[120:], digits.y[120:])
    learner = replace(LOGISTIC, classes=np.unique(digits.y))
    terms = Terms(2, 40, 0.07, (-8.0, 5.3), (-8.0, 5.3), np.zeros(784), np.ones(784))
    errors = {}
    for aim in AIMS:
        made = contribute(
            Campaign("fixed", split, PipelineModels.trained(learner, split, np.zeros(1))), np.random.default_rng(0),
            size=20, learner=learner, terms=replace(terms, aim=aim),
        )  # fmt: skip
        assert isinstance(made, PoisonLevel)
        model = made.poisoned
        errors[aim] = learner.wrong(model.W[None], model.b[None], digits.X_test, digits.y_test).mean()
    assert errors["clean"] > errors["validation"] + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_points_that_go_on_moving_do_more_than_points_that_stay(seed: int) -> None:
    digits = datasets.load("mnist-0-8", samples=200, seed=seed)
    split = PipelineSplit(digits.X[:120], digits.y[:120], digits.X[120:], digits.y[120:])
    terms = Terms(2, 40, 0.07, (-8.0, 5.3), (-8.0, 5.3), np.zeros(784), np.ones(784))
    moving, staying = (campaign_of(split, replace(terms, joint=joint), [8] * 4) for joint in (True, False))
    assert moving.levels[-1].value > staying.levels[-1].value


def test_penalties_that_are_given_take_the_place_of_the_campaigns_own() -> None:
    campaign = begun(given())
    assert level(campaign).poisoned.strengths == 0
    assert level(campaign, strengths=np.array([2.0])).poisoned.strengths == 2


def test_a_penalty_that_answers_changes_by_a_factor_of_about_one_and_a_half_in_a_move() -> None:
    campaign = replace(begun(given(), 1.0), setting="learned")
    once = replace(TERMS, iterations=1)
    made = contribute(campaign, np.random.default_rng(0), size=3, learner=LOGISTIC, terms=once)
    assert isinstance(made, PoisonLevel)
    factor = np.exp(np.abs(made.poisoned.strengths - 1.0))
    assert (factor > 1.4).all()
    assert (factor < 2.2).all()


def test_a_training_that_diverges_is_a_value_that_says_why_and_ends_the_attack_when_it_is_looked_at() -> None:
    hasty, split = replace(LOGISTIC, risk="squared", regime="early-stopped", rate=1e30), given()
    prepared = prepare(0, np.random.default_rng(0), learner=hasty, given=split, terms=TERMS, settings={"fixed": 0.0})
    step = contribute(begun(split), np.random.default_rng(0), size=3, learner=hasty, terms=TERMS)
    for failed in (prepared, step):
        assert isinstance(failed, FailedTraining)
        assert "training diverges" in failed.reason
    with pytest.raises(AttackFailed, match="training diverges"):
        all_done([level(begun(split)), step])


def test_every_step_survives_the_store() -> None:
    campaign = begun(given())
    prepared = prepare(0, np.random.default_rng(0), learner=LOGISTIC, given=given(), terms=TERMS, settings={"weak": -8.0})
    for step in (level(campaign), prepared, FailedTraining("no minimum")):
        kept = unpack(*pack(step))
        assert type(kept) is type(step)
        assert pack(kept)[0] == pack(step)[0]
        for one, other in zip(pack(kept)[1].values(), pack(step)[1].values(), strict=True):
            np.testing.assert_array_equal(one, other)
