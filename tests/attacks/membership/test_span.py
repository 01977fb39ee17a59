"""Membership from the weights: who is found, who is not, and what is said of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from divulge import Candidates, Membership, TrainingData, Weights, datasets, victims
from divulge.arrays import Array
from divulge.attacks import SpanMembership
from divulge.attacks.membership.claims import MembershipClaim
from divulge.contract import Context, Finding
from divulge.errors import BadInput
from divulge.solvers.shadow.membership import ShadowInference

RNG = np.random.default_rng


@cache
def digits(samples: int = 60, **settings: Any) -> tuple[Weights, Array, Array]:
    """A network 784-200-1 for odd and even digits, whose mean digit nobody knows; members, non-members."""
    drawn = datasets.load("mnist-odd-even", samples=samples, seed=0)
    made = victims.make(
        "margin", drawn.X, drawn.y, RNG(0), shape=drawn.shape, hidden=[200], **{"mean_known": False, "fall": 0.1, **settings}
    )
    network = made.held["network"]
    assert isinstance(network, Weights)
    return network, drawn.X, drawn.X_test


def attacked(members: int = 60, non_members: int = 1500, truth: bool = True, **options: Any) -> Finding[Membership]:
    network, X, others = digits()
    asked = Candidates(np.concatenate([X[:members], others[:non_members]]), shape=(28, 28))
    return SpanMembership(**options)(network, asked, truth={"training_data": TrainingData(X)} if truth else None)


def won(finding: Finding[Membership]) -> Membership:
    assert finding.loot is not None
    return finding.loot


@pytest.mark.slow
def test_members_are_found_among_non_members() -> None:
    finding = attacked()
    assert finding.verdict == "leak"
    assert finding.scores["TPR at 1 % FPR"].value > 0.9
    assert won(finding).decisions[:60].mean() > 0.6
    assert won(finding).decisions[60:].mean() < 0.005


@pytest.mark.slow
def test_nobody_is_called_a_member_where_none_is_asked_about() -> None:
    finding = attacked(members=0)
    assert finding.verdict == "none found"
    assert "of members stand out" in finding.power
    assert not finding.provenance.claimed


@pytest.mark.slow
@pytest.mark.parametrize(("members", "non_members"), [(20, 20), (0, 30)])
def test_few_candidates_are_enough(members: int, non_members: int) -> None:
    finding = attacked(members, non_members)
    assert finding.verdict == ("leak" if members else "none found")
    assert any("There are so few candidates" in note for note in finding.notes)
    if members:
        assert finding.scores["AUC"].value > 0.9


@pytest.mark.slow
def test_both_tell_more_than_kinks_whose_place_the_unknown_mean_hides() -> None:
    kinks, both = attacked(score_by="kinks"), attacked()
    assert kinks.scores["TPR at 1 % FPR"].value < 0.3 < both.scores["TPR at 1 % FPR"].value


def test_kinks_tell_where_the_mean_is_known() -> None:
    network, X, others = digits(mean_known=True)
    asked = Candidates(np.concatenate([X, others[:1500]]))
    finding = SpanMembership(score_by="kinks")(network, asked, truth={"training_data": TrainingData(X)})
    assert finding.scores["TPR at 1 % FPR"].value > 0.2


@pytest.mark.slow
def test_a_network_that_never_saw_the_candidates_leaks_nothing() -> None:
    network, *_ = digits()
    other = datasets.load("mnist-odd-even", samples=60, seed=7)
    truth = {"training_data": TrainingData(other.X)}
    finding = SpanMembership()(network, Candidates(np.concatenate([other.X, other.X_test[:1000]])), truth=truth)
    assert finding.verdict == "none found"
    assert finding.scores["TPR at 1 % FPR"].value < 0.1


def test_several_outputs_and_points_that_are_no_pictures() -> None:
    rng = RNG(0)
    X, others = rng.normal(size=(30, 80)), rng.normal(size=(400, 80))
    made = victims.make("margin", X, np.arange(30) % 3, rng, test=None, shape=None, hidden=[100], centred=False)
    asked = Candidates(np.concatenate([X, others]))
    finding = SpanMembership()(made.held["network"], asked, truth={"training_data": TrainingData(X)})
    assert finding.verdict == "leak"
    assert finding.scores["AUC"].value > 0.95


def test_what_does_not_fit_is_named() -> None:
    network, X, _ = digits()
    with pytest.raises(BadInput, match="the 784 inputs of the network, got 5 features"):
        SpanMembership()(network, Candidates(np.ones((20, 5))))
    linear = Weights(((RNG(0).normal(size=(1, 784)), np.zeros(1)),))
    assert SpanMembership()(linear, Candidates(X)).verdict == "not applicable"
    idle = Weights(((RNG(0).normal(size=(50, 784)), np.zeros(50)), (np.ones((1, 50)), np.zeros(1))))
    finding = SpanMembership()(idle, Candidates(X))
    assert finding.verdict in ("not applicable", "none found")


@pytest.mark.parametrize("rows", [1, 5])
def test_a_candidate_without_others_is_not_applicable(rows: int) -> None:
    network, X, _ = digits()
    finding = SpanMembership()(network, Candidates(np.tile(X[:1], (rows, 1))))
    assert finding.verdict == "not applicable"
    assert "none to compare it with" in finding.summary


@pytest.mark.slow
def test_the_same_seed_tells_the_same() -> None:
    network, X, others = digits()
    asked = Candidates(np.concatenate([X, others[:400]]))
    one, two = (SpanMembership()(network, asked, context=Context(3)) for _ in range(2))
    np.testing.assert_array_equal(won(one).scores, won(two).scores)


def claimed(called: int, count: int, controls_called: int = 0, shadows_called: int = 0) -> Finding[Membership]:
    """Of so many calls among candidates, among as many controls (1,000 at least) and among 10,000 of shadows."""

    def scores(calls: int, many: int) -> Array:
        return np.where(np.arange(many) < calls, 1.0, -1.0)

    mine = scores(called, count)
    controls = scores(controls_called, max(count, 1000))
    found = ShadowInference(mine, 0.0, np.ones(5), scores(shadows_called, 10_000), controls, 5, 0)
    return SpanMembership()._finding(Membership(mine, mine > 0), found)


@pytest.mark.parametrize(
    ("called", "count", "verdict"), [(2, 40, "none found"), (3, 40, "leak"), (9, 1500, "none found"), (10, 1500, "leak")]
)
def test_a_leak_is_claimed_of_three_candidates_at_least_and_more_than_chance_calls(
    called: int, count: int, verdict: str
) -> None:
    """Where no control and no shadow's non-member is called: of 40 two would be rare enough, of 1,500 ten are."""
    assert claimed(called, count).verdict == verdict


@pytest.mark.parametrize(("controls_called", "verdict"), [(1, "leak"), (11, "leak"), (12, "none found"), (40, "none found")])
def test_calls_among_made_up_points_are_false_and_half_of_those_called_have_to_be_members(
    controls_called: int, verdict: str
) -> None:
    """Of 40 called, 12 calls among as many controls leave up to 21 false ones, though p is 6e-5."""
    finding = claimed(40, 2000, controls_called)
    assert finding.verdict == verdict
    claim = finding.evidence
    assert isinstance(claim, MembershipClaim)
    assert (claim.precision >= 0.5) is (verdict == "leak")


@pytest.mark.parametrize(("called", "verdict"), [(13, "none found"), (43, "none found"), (44, "leak")])
def test_a_network_may_have_five_times_the_false_positives_of_its_shadows(called: int, verdict: str) -> None:
    """11 of 10,000 non-members of shadows: up to 22 of 4,000 candidates, though none of as many controls."""
    finding = claimed(called, 4000, shadows_called=11)
    assert finding.verdict == verdict
    claim = finding.evidence
    assert isinstance(claim, MembershipClaim)
    assert claim.expected_false_calls == pytest.approx(22)
    assert any(
        note.startswith(f"Called are {called} of 4,000 candidates and 0 of 4,000 made-up points") for note in finding.notes
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_an_ordinary_network_asked_about_digits_it_never_saw_claims_nothing(seed: int) -> None:
    """Adam, torch's own start, odd and even digits: few directions stand out, and shadows of so few points tell little."""
    drawn = datasets.load("mnist-odd-even", samples=500, seed=seed)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)).double()
    steps = torch.optim.Adam(model.parameters())
    X, y = torch.tensor(drawn.X), torch.tensor((drawn.y > 0).astype(float))
    for _ in range(40):
        for some in torch.split(torch.randperm(len(X)), 64):
            steps.zero_grad()
            loss: Any = torch.nn.functional.binary_cross_entropy_with_logits(model(X[some])[:, 0], y[some])
            loss.backward()
            steps.step()
    finding = SpanMembership()(Weights.of(model), Candidates(drawn.X_test, shape=(28, 28)), context=Context(seed))
    assert finding.verdict == "none found"
