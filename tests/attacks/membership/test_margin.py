"""Membership from answers alone: the three rules, what they say without truth, and the theorem's certificate."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from divulge import Candidates, Finding, Membership, Predictions, TrainingData, Weights, datasets, victims
from divulge.arrays import Array
from divulge.attacks import MarginMembership
from divulge.attacks.membership.claims import MembershipClaim
from divulge.defences import defended
from divulge.errors import BadInput

RNG = np.random.default_rng


@cache
def sphere(
    dimension: int = 1000, target: float = 1e-30, outputs: int = 1, **settings: Any
) -> tuple[Predictions, Candidates, dict[str, Any], float]:
    """A two-layer network trained on 20 points of a sphere, the points first among the candidates; and its margin."""
    data = datasets.load("sphere", samples=20, dimension=dimension, test=400, seed=1)
    y = data.y if outputs == 1 else np.arange(20) % outputs
    made = victims.make(
        "margin", data.X, y, RNG(0), test=None, shape=None, hidden=[200], centred=False, target=target, fall=0.1, **settings
    )
    network = made.held["network"]
    assert isinstance(network, Weights)
    asked = Candidates(np.concatenate([data.X, data.X_test]))
    truth = {"training_data": TrainingData(data.X, y), "weights": network}
    return Predictions.of(network), asked, truth, float(np.abs(network.predict(data.X)).min())


def won(finding: Finding[Membership]) -> Membership:
    assert finding.loot is not None
    return finding.loot


@pytest.mark.parametrize("rule", ["margin", "one_of", "at_least", "nothing known"])
def test_every_rule_finds_every_training_point_and_nobody_else(rule: str) -> None:
    model, asked, truth, margin = sphere()
    options: dict[str, dict[str, Any]] = {
        "margin": {"margin": margin},
        "one_of": {"one_of": (30, 31, 4, 35)},
        "at_least": {"at_least": 0.8 * margin},
        "nothing known": {},
    }
    finding = MarginMembership(**options[rule])(model, asked, truth=truth)
    assert finding.verdict == "leak"
    np.testing.assert_array_equal(won(finding).decisions, np.arange(420) < 20)
    assert finding.scores["accuracy"].value == 1
    assert finding.scores["candidates called members"].null == 0


@pytest.mark.parametrize("dimension", [10, 20])
def test_training_points_are_on_the_margin_where_others_are_above_it_too(dimension: int) -> None:
    model, asked, truth, margin = sphere(dimension, target=1e-80)
    above, on = (MarginMembership(margin=margin, rule=rule)(model, asked, truth=truth) for rule in ("above", "on"))
    assert on.scores["accuracy"].value >= above.scores["accuracy"].value
    assert on.scores["AUC"].value > above.scores["AUC"].value


def test_answers_of_every_kind_give_the_same_scores() -> None:
    model, asked, _, margin = sphere(100, target=1e-6)
    values = MarginMembership(margin=margin)(model, asked)
    chances = Predictions(lambda X: expit(model.value(X)), model.dimension)
    two = Predictions(lambda X: softmax(np.column_stack([0 * model.value(X), model.value(X)]), 1), model.dimension)
    for api in (chances, two):
        finding = MarginMembership(margin=margin)(api, asked)
        np.testing.assert_allclose(won(finding).scores, won(values).scores, atol=1e-6)


def test_several_classes_are_decided_by_the_two_largest() -> None:
    model, asked, truth, _ = sphere(1000, outputs=3)
    finding = MarginMembership()(model, asked, truth=truth)
    assert finding.verdict == "leak"
    assert finding.scores["TPR at 1 % FPR"].value == 1
    assert any("3 outputs" in note and "without its certificate" in note for note in finding.notes)


def test_names_of_classes_are_not_applicable_and_coarse_answers_claim_nothing() -> None:
    model, asked, truth, _ = sphere()
    assert MarginMembership()(defended(model, "label-only"), asked).verdict == "not applicable"
    chances = Predictions(lambda X: expit(model.value(X)), model.dimension, "chances")
    rounded = defended(chances, "rounding", decimals=2)
    finding = MarginMembership()(rounded, asked, truth=truth)
    assert not finding.provenance.claimed


def test_an_early_end_of_training_hides_the_margin() -> None:
    model, asked, truth, _ = sphere(100, target=0.3)
    assert MarginMembership()(model, asked).verdict == "none found"
    told = MarginMembership()(model, asked, truth=truth)  # and yet members are decided by more than others
    assert told.verdict == "leak"
    assert not told.provenance.claimed
    assert told.summary.startswith("The truth shows that members stand out, though the attack could not tell: ")


def test_nobody_is_called_a_member_where_none_is_asked_about() -> None:
    model, asked, _, margin = sphere()
    non_members = Candidates(asked.X[20:])
    for known in (None, margin):
        finding = MarginMembership(margin=known)(model, non_members)
        assert finding.verdict == "none found"
        assert finding.power


def test_made_up_points_cost_queries_and_may_be_left_out() -> None:
    model, asked, _, margin = sphere()
    finding = MarginMembership(margin=margin, controls=0)(model, asked)
    assert finding.verdict == "leak"
    assert finding.cost.points == 420
    assert MarginMembership(margin=margin)(model, asked).cost.points == 840  # a claim: as many as candidates
    assert MarginMembership(margin=margin)(model, Candidates(asked.X[20:])).cost.points == 600  # none: 200


@cache
def one_against_one(seed: int) -> tuple[Array, SVC]:
    """A ten-class machine trained on half of the digits, and the other half."""
    order = RNG(seed).permutation(1797)
    X, y = load_digits(return_X_y=True)
    return X[order[900:]], SVC().fit(X[order[:900]], y[order[:900]])


@pytest.mark.parametrize("controls", [0, 200])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_votes_of_one_class_against_another_have_steps_and_no_margin(seed: int, controls: int) -> None:
    others, machine = one_against_one(seed)
    finding = MarginMembership(controls=controls)(Predictions(machine.decision_function, 64), Candidates(others))
    assert finding.verdict == "none found"
    assert any(note.startswith("The outputs are votes") for note in finding.notes)


def test_a_step_that_made_up_points_share_is_no_margin() -> None:
    """The same votes in other units, which are no whole numbers."""
    others, machine = one_against_one(0)
    finding = MarginMembership()(Predictions(lambda X: 2 * machine.decision_function(X), 64), Candidates(others))
    assert finding.verdict == "none found"
    assert any("it is a step of the model, nobody's margin" in note for note in finding.notes)


@pytest.mark.parametrize(("share", "verdict"), [(0.0, "leak"), (0.3, "none found")])
def test_a_step_is_none_even_where_candidates_are_on_it_more_often(share: float, verdict: str) -> None:
    """80 of 300 candidates at 5, the rest anywhere; of made-up points none or 30 % are there."""
    rng = RNG(0)
    asked = rng.normal(size=(300, 4))
    known = {row.tobytes(): row[0] for row in asked}

    def value(X: Array) -> Array:
        mine = np.array([row.tobytes() in known for row in X])
        on = np.where(mine, np.arange(len(X)) < 80, rng.random(len(X)) < share)
        return np.where(on, 5 + 1e-4 * rng.random(len(X)), rng.uniform(0.1, 4.5, len(X)))

    finding = MarginMembership(margin=5.0)(Predictions(value, 4), Candidates(asked))
    assert finding.verdict == verdict


def test_a_claim_is_numbers_and_not_only_sentences() -> None:
    model, asked, _, margin = sphere()
    claim = MarginMembership(margin=margin)(model, asked).evidence
    assert isinstance(claim, MembershipClaim)
    assert (claim.called, claim.candidates, claim.controls, claim.controls_called) == (20, 420, 420, 0)
    assert claim.expected_false_calls == pytest.approx(420 * claim.false_positive_rate)
    assert claim.precision == pytest.approx(1 - claim.expected_false_calls / 20)
    assert claim.p_value < 1e-3


def test_those_called_have_to_be_members_mostly() -> None:
    """In 20 dimensions a quarter of the others are decided by more than the margin, and made-up points tell."""
    model, asked, _, margin = sphere(20, target=1e-80)
    finding = MarginMembership(margin=margin)(model, asked)
    assert isinstance(finding.evidence, MembershipClaim)
    assert finding.evidence.precision < 0.5
    assert finding.verdict == "none found"


@pytest.mark.parametrize("rule", ["above", "on"])
@pytest.mark.parametrize("known", ["margin", "at_least", "one_of"])
def test_pictures_that_are_decided_far_are_no_members_for_that(known: str, rule: Literal["above", "on"]) -> None:
    """Points made up like them are decided far less often, so that they alone would be no control."""
    clothes = datasets.load("fashion-mnist", samples=50, seed=3)
    made = clothes_network()
    best = np.sort(made.predict(clothes.X), axis=1)
    margin = float((best[:, -1] - best[:, -2]).min())
    values: dict[str, Any] = {"margin": margin, "at_least": margin / 2, "one_of": (0, 1, 2)}
    finding = MarginMembership(rule=rule, **{known: values[known]})(Predictions.of(made), Candidates(clothes.X_test[:1000]))
    assert finding.verdict == "none found"


@cache
def clothes_network() -> Weights:
    clothes = datasets.load("fashion-mnist", samples=50, seed=3)
    made = victims.make("margin", clothes.X, clothes.y, RNG(0), shape=clothes.shape, hidden=[100]).held["network"]
    assert isinstance(made, Weights)
    return made


def test_the_theorem_is_vacuous_on_a_sphere_and_says_by_which_numbers() -> None:
    model, asked, truth, margin = sphere()
    finding = MarginMembership(margin=margin)(model, asked, truth=truth)
    assert any(note.startswith("Theorem 4.2 is vacuous here (20 training points") for note in finding.notes)
    assert "most that a fresh point can reach, in margins" not in finding.scores


def test_orthogonal_points_are_certified_and_the_certificate_holds() -> None:
    rng = RNG(0)
    axes = np.linalg.qr(rng.normal(size=(400, 406)).T)[0].T
    X, others = 10 * axes[:6], 10 * axes[6:206]
    y = np.array([-1, 1] * 3)
    made = victims.make("margin", X, y, rng, test=None, shape=None, hidden=[100], centred=False, target=1e-60)
    network = made.held["network"]
    assert isinstance(network, Weights)
    asked = Candidates(np.concatenate([X, others]))
    truth = {"training_data": TrainingData(X, y), "weights": network}
    finding = MarginMembership()(Predictions.of(network), asked, truth=truth)
    ceiling = finding.scores["most that a fresh point can reach, in margins"]
    assert ceiling.value == pytest.approx(6 / (101 - 12))
    margin = np.abs(network.predict(X)).min()
    assert np.abs(network.predict(others)).max() <= ceiling.value * margin
    assert finding.scores["non-members certified below the margin"].value == 1
    assert any("Theorem 4.2 certifies the test" in note for note in finding.notes)


def test_a_training_point_on_the_wrong_side_voids_the_theorem() -> None:
    model, asked, truth, margin = sphere()
    wrong = truth["training_data"].y.copy()
    wrong[0] *= -1
    mistaken = {**truth, "training_data": TrainingData(truth["training_data"].X, wrong)}
    finding = MarginMembership(margin=margin)(model, asked, truth=mistaken)
    assert any("on the wrong side" in note for note in finding.notes)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"margin": 0.0}, "greater than 0"),
        ({"margin": -1.0}, "greater than 0"),
        ({"margin": 1.0, "at_least": 1.0}, "expected one of margin, one_of and at_least"),
        ({"one_of": (420,)}, "expected rows from 0 to 419 for one_of"),
        ({"one_of": ()}, "expected rows from 0 to 419 for one_of"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], sentence: str) -> None:
    model, asked, *_ = sphere()
    with pytest.raises(BadInput, match=sentence):
        MarginMembership(**options)(model, asked)


def test_a_margin_of_nothing_is_not_applicable() -> None:
    model, asked, *_ = sphere()
    undecided = Predictions(lambda X: np.where(X[:, 0] == asked.X[3, 0], 0.0, model.value(X).ravel()), model.dimension)
    finding = MarginMembership(one_of=(3,))(undecided, asked)
    assert finding.verdict == "not applicable"
    assert "not positive" in finding.summary


def test_candidates_of_another_width_are_refused() -> None:
    with pytest.raises(BadInput, match="the 1000 inputs of the model, got 3 features"):
        MarginMembership()(sphere()[0], Candidates(np.ones((12, 3))))


@pytest.mark.parametrize(("times", "seen"), [(1.08, True), (1.15, False)])
def test_equal_margins_may_begin_a_tenth_below_the_margin_that_is_given(times: float, seen: bool) -> None:
    model, asked, _, margin = sphere()
    finding = MarginMembership(margin=times * margin)(model, asked)
    assert any(note.startswith("20 candidates are decided by") for note in finding.notes) is seen
