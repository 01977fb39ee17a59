"""Membership scores beside the truth: who counts as a member, which figures stand, and what becomes of a claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from divulge import Candidates, Membership, TrainingData, Truth, Verdict
from divulge.arrays import Array
from divulge.attacks.membership import scoring
from divulge.contract import Curve, Finding, Histogram, ImagePairs, contradictions
from divulge.errors import BadInput


def points(count: int, width: int = 3, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random((count, width))


def truth_of(**known: Any) -> Truth:
    return Truth(known)


def victim(members: int = 40, non_members: int = 400, shift: float = 2.0, seed: int = 0) -> tuple[Array, Candidates, Truth]:
    """Scores of candidates, members first, and a truth that knows them by their rows."""
    rng = np.random.default_rng(seed)
    X = points(members + non_members, 4, seed)
    scores = np.concatenate([rng.normal(shift, size=members), rng.normal(size=non_members)])
    candidates = Candidates(X, shape=(2, 2))
    return scores, candidates, truth_of(training_data=TrainingData(X[:members]))


def membership(*known: Any) -> Membership:
    """From lists."""
    return Membership(*map(np.array, known))


def members_of(truth: Truth, candidates: Candidates | None, count: int, records: Array | None = None) -> list[bool]:
    found = scoring.members_of(truth, candidates, count, records)
    assert found is not None
    return list(found.tolist())


def claimed(scores: Array, decisions: Array | None = None, records: Array | None = None) -> Finding[Membership]:
    decided = np.zeros(len(scores), dtype=bool) if decisions is None else decisions
    return Finding.leak(Membership(scores, decided, records), "Members were found.")


def unclaimed(scores: Array) -> Finding[Membership]:
    return Finding(Verdict.NONE_FOUND, "Nobody stood out.", Membership(scores, scores < -np.inf), power="Little.")


def said(finding: Finding[Any]) -> str:
    return " ".join(finding.notes)


def test_members_are_told_by_their_rows_in_the_coarser_number_format() -> None:
    X = points(50)
    for kind, other in ((np.float32, np.float64), (np.float64, np.float32), (np.float64, np.float64)):
        truth = truth_of(training_data=TrainingData(X[10:30].astype(kind)))
        found = members_of(truth, Candidates(X.astype(other)), 50)
        assert np.flatnonzero(found).tolist() == list(range(10, 30))


def test_a_negative_zero_is_a_zero_and_rows_of_one_sum_are_not_one_row() -> None:
    truth = truth_of(training_data=TrainingData(np.array([[0.0, 1.0]])))
    found = members_of(truth, Candidates(np.array([[-0.0, 1.0], [1.0, 0.0]])), 2)
    assert found == [True, False]


def test_members_are_told_by_the_names_of_records_else_by_their_order() -> None:
    known = membership([0, 0, 0], [1, 0, 1], ["a", "b", "c"])
    truth = truth_of(membership=known)
    assert members_of(truth, None, 3, np.array(["c", "b", "a"])) == [True, False, True]
    assert members_of(truth, None, 2, np.array(["b", "a"])) == [False, True]
    assert members_of(truth, None, 3) == [True, False, True]


def test_a_record_is_the_same_as_a_number_and_as_text() -> None:
    truth = truth_of(membership=membership([0, 0], [1, 0], [7, 8]))
    assert members_of(truth, None, 2, np.array(["8", "7"])) == [False, True]


def test_an_auditor_who_knows_neither_scores_nothing() -> None:
    scores, candidates, truth = victim()
    finding = claimed(scores)
    assert scoring.scored(finding, truth_of(), candidates) is finding
    assert scoring.scored(finding, truth, None) is finding
    nothing: Finding[Membership] = Finding.none_found("Nothing.", power="None.")
    assert scoring.scored(nothing, truth, candidates) is nothing


@pytest.mark.parametrize(
    ("truth", "candidates", "records", "sentence"),
    [
        ({"membership": membership([0, 0], [1, 0])}, None, None, "each of the 3 records that have a score, got 2"),
        ({"membership": membership([0], [1], ["a"])}, None, ["a", "b", "c"], "2 of 3 that it does not know, such as 'b'"),
        ({"training_data": TrainingData(points(5, 4))}, Candidates(points(3, 3)), None, "the 4 features .* got 3"),
        ({}, Candidates(points(2)), None, "a score for each of the 2 candidates, got 3"),
    ],
)
def test_a_truth_about_other_records_is_refused(
    truth: dict[str, Any], candidates: Candidates | None, records: Array | None, sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        scoring.scored(claimed(np.arange(3.0), records=records), truth_of(**truth), candidates)


def test_every_figure_stands_beside_its_null_within_its_interval() -> None:
    scores, candidates, truth = victim(members=300, non_members=2000)
    finding = scoring.scored(claimed(scores, scores > 1), truth, candidates)
    assert finding.verdict is Verdict.LEAK
    nulls = {name: score.null for name, score in finding.scores.items()}
    assert nulls == pytest.approx(
        {
            "TPR at 1 % FPR": 21 / 2001, "TPR at 0.1 % FPR": 3 / 2001, "AUC": 0.5, "advantage": 0.0388, "accuracy": 0.5,
            "ε at least": 0.0,
        },
        abs=1e-4,
    )  # fmt: skip
    for score in finding.scores.values():
        assert score.interval is not None
        assert score.interval[0] <= score.value <= score.interval[1]
        assert score.interval[0] > score.null
    assert finding.scores["AUC"].value == pytest.approx(0.921, abs=0.03)
    assert finding.scores["accuracy"].value == pytest.approx(0.841, abs=0.03)
    assert "Scored on 300 members and 2,000 non-members." in finding.notes
    assert f"below ε = {finding.scores['ε at least'].value:.2g} at δ = 1e-05 is ruled out with 95 % confidence" in said(
        finding
    )


def test_a_rate_finer_than_the_non_members_allow_is_refused() -> None:
    scores, candidates, truth = victim(non_members=400)
    finding = scoring.scored(claimed(scores), truth, candidates)
    assert "TPR at 1 % FPR" in finding.scores
    assert "TPR at 0.1 % FPR" not in finding.scores
    assert "No TPR at 0.1 % FPR: so fine a rate needs 1,000 non-members, 400 are there." in finding.notes


def test_an_attack_that_calls_nobody_a_member_has_no_accuracy() -> None:
    scores, candidates, truth = victim()
    assert "accuracy" not in scoring.scored(claimed(scores), truth, candidates).scores


@pytest.mark.parametrize(("members", "non_members", "why"), [(40, 9, "at least 10 non-members"), (0, 40, "nobody to find")])
def test_too_few_records_give_no_rates_and_say_so(members: int, non_members: int, why: str) -> None:
    X = points(members + non_members)
    scores = np.arange(len(X), dtype=float)
    truth = truth_of(training_data=TrainingData(X[:members] if members else X[:1] + 2))
    finding = scoring.scored(claimed(scores), truth, Candidates(X))
    assert finding.scores == {}
    assert finding.figures == ()
    assert finding.verdict is Verdict.LEAK
    assert finding.notes[-1].startswith("No rates: ")
    assert why in finding.notes[-1]


def test_a_candidate_that_is_there_again_counts_once() -> None:
    scores, candidates, truth = victim(members=40, non_members=400)
    again = np.r_[0:440, 0:5, 430:440]
    twice = Candidates(candidates.X[again], shape=(2, 2))
    finding = scoring.scored(claimed(scores[again]), truth, twice)
    once = scoring.scored(claimed(scores), truth, candidates)
    assert finding.scores == once.scores
    assert "15 candidates are the same as an earlier one: each counts once." in finding.notes


def test_a_candidate_that_is_member_and_non_member_at_once_counts_as_a_member() -> None:
    X = np.concatenate([points(40), points(1)])
    member = np.arange(41) >= 35
    truth = truth_of(membership=Membership(np.zeros(41), member))
    finding = scoring.scored(claimed(np.arange(41.0)), truth, Candidates(X))
    assert "Scored on 6 members and 34 non-members." in finding.notes
    assert "1 of them member and non-member at once, and counted as members" in said(finding)


def test_the_most_exposed_members_are_named_with_how_many_others_score_as_high() -> None:
    scores = np.array([*range(30), 28.5, 7.0])
    member = np.arange(32) >= 30
    names = np.array([f"p{number}" for number in range(32)])
    truth = truth_of(membership=Membership(np.zeros(32), member, names))
    finding = scoring.scored(claimed(scores, records=names), truth, None)
    assert finding.notes[-1].endswith("how many of 30 non-members score as high: record p30 (28.5, 1), record p31 (7, 23).")


def test_the_truth_may_know_of_records_that_have_no_score() -> None:
    truth = truth_of(membership=Membership(np.zeros(60), np.arange(60) < 20, np.arange(60)))
    finding = scoring.scored(claimed(-np.arange(50.0), records=np.arange(50)), truth, None)
    assert "10 records of the truth have no score and count nowhere." in finding.notes


def test_figures_show_the_curve_with_chance_and_band_the_scores_and_the_pictures() -> None:
    scores, candidates, truth = victim(members=20, non_members=400)
    curve, histogram, pictures = scoring.scored(claimed(scores), truth, candidates).figures
    assert isinstance(curve, Curve)
    assert (curve.log_x, curve.log_y) == (True, True)
    (attack, (x, y)), (chance, (left, right)) = curve.series.items()
    assert chance == "chance"
    assert (left == right).all()
    assert x.min() == 1 / 800
    assert y.min() == 1 / 40
    _, low, high = curve.bands[attack]
    assert ((low <= y) & (y <= high)).all()
    assert isinstance(histogram, Histogram)
    assert [len(group) for group in histogram.groups.values()] == [20, 400]
    assert isinstance(pictures, ImagePairs)
    best = np.argmax(scores[:20])
    assert (pictures.left[0].ravel() == candidates.X[best]).all()
    assert (pictures.right[0].ravel() == candidates.X[20 + np.argmax(scores[20:])]).all()
    assert pictures.captions[0] == f"scores {scores[best]:.3g} and {scores[20:].max():.3g}"


def test_pictures_beyond_0_and_1_are_brought_there() -> None:
    scores, candidates, _ = victim()
    X = 255 * candidates.X - 20
    known = truth_of(training_data=TrainingData(X[:40]))
    pictures = scoring.scored(claimed(scores), known, Candidates(X, shape=(2, 2, 1))).figures[-1]
    assert isinstance(pictures, ImagePairs)
    assert pictures.left.shape == (10, 2, 2)
    assert min(pictures.left.min(), pictures.right.min()) >= 0
    assert max(pictures.left.max(), pictures.right.max()) <= 1


@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_a_claim_that_the_truth_contradicts_has_failed(shift: float) -> None:
    scores, candidates, truth = victim(shift=shift, seed=1)
    finding = scoring.scored(claimed(scores, scores > 1), truth, candidates)
    assert finding.verdict is Verdict.FAILED
    assert finding.summary.startswith("The truth contradicts what the attack claimed: members do not stand out, with TPR at")
    assert finding.notes[-1] == "Before the truth was looked at, the attack said: Members were found."


def test_a_few_members_that_stand_out_contradict_no_claim() -> None:
    scores, candidates, truth = victim(members=1, non_members=30)
    scores[0] = scores.max() + 1
    assert scoring.scored(claimed(scores), truth, candidates).verdict is Verdict.LEAK


def test_decisions_that_are_right_bear_out_a_claim_whatever_the_scores() -> None:
    _, candidates, truth = victim()
    finding = scoring.scored(claimed(np.zeros(440), np.arange(440) < 40), truth, candidates)
    assert finding.verdict is Verdict.LEAK


def test_what_was_not_claimed_is_a_leak_where_the_truth_shows_it() -> None:
    scores, candidates, truth = victim(shift=2)
    finding = scoring.scored(unclaimed(scores), truth, candidates)
    assert finding.verdict is Verdict.LEAK
    assert finding.power == ""
    assert finding.summary.startswith(
        "The truth shows that members stand out, though the attack could not tell: TPR at 1 % FPR"
    )
    assert finding.notes[-1] == f"Before the truth was looked at, the attack said: {unclaimed(scores).summary}"
    scores, candidates, truth = victim(shift=0)
    finding = scoring.scored(unclaimed(scores), truth, candidates)
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.summary == unclaimed(scores).summary


def test_what_chance_may_do_is_said_and_is_no_leak() -> None:
    scores, candidates, truth = victim(shift=0.4)
    finding = scoring.scored(unclaimed(scores), truth, candidates)
    area = finding.scores["AUC"]
    assert area.interval is not None
    assert area.interval[0] > area.null
    assert finding.verdict is Verdict.NONE_FOUND
    assert "By the truth members score higher, and not beyond doubt: TPR at 1 % FPR" in finding.summary


def test_a_few_members_far_out_are_told_by_the_rate_that_shows_them() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(6000)
    scores[:24] += 9
    X = np.arange(6000.0)[:, None] * np.ones(2)
    finding = scoring.scored(unclaimed(scores), truth_of(training_data=TrainingData(X[:3000])), Candidates(X))
    assert contradictions(replace(finding, measured=tuple(finding.scores))) == []
    assert finding.verdict is Verdict.LEAK or "TPR at 0.1 % FPR" in finding.summary


def test_scores_that_know_nothing_are_seldom_said_to_show_a_leak() -> None:
    shown = 0
    for seed in range(400):
        scores, candidates, truth = victim(shift=0, members=50, non_members=150, seed=seed)
        shown += scoring.scored(unclaimed(scores), truth, candidates).verdict is Verdict.LEAK
    assert shown <= 2  # 0.1 % is expected of the two figures together, or less


def test_what_the_attack_scored_itself_is_kept() -> None:
    scores, candidates, truth = victim()
    finding = claimed(scores)
    own = scoring.scored(finding, truth, candidates).scores["AUC"]
    kept = scoring.scored(replace(finding, scores={"own": own}), truth, candidates)
    assert list(kept.scores)[-1] == "own"


@pytest.mark.parametrize("claimed", [False, True])
def test_a_few_members_far_above_all_others_are_a_leak_and_so_are_none_far_below(claimed: bool) -> None:
    """Neither the rate at 1 % of false alarms nor the area sees them."""
    rng = np.random.default_rng(0)
    above = np.concatenate([rng.standard_normal(19_940), np.full(60, 9.0)]), rng.standard_normal(20_000)
    middle = 0.1 * rng.standard_normal(200), np.concatenate([np.full(150, -5.0), np.full(150, 5.0)])
    for members, others in (above, middle):
        scores, member = np.concatenate([members, others]), np.arange(len(members) + len(others)) < len(members)
        loot = Membership(scores, scores > 100)
        finding = Finding.leak(loot, "So it ended.") if claimed else Finding.none_found("So it ended.", power="p", loot=loot)
        judged = scoring.scored(finding, Truth({"membership": Membership(scores, member)}), None)
        assert judged.verdict is Verdict.LEAK
