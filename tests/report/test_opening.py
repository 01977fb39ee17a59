"""The first screen says what leaked, how badly, at what price and what to do; severity follows its stated rule."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from divulge.contract import (
    ASSETS,
    Access,
    Copy,
    Cost,
    Finding,
    Fitted,
    Holding,
    Hyperparameters,
    Parameters,
    Poison,
    Provenance,
    Record,
    Remedy,
    Score,
    TrainingData,
    Trial,
    Weights,
)
from divulge.report import overview, severity
from divulge.report.opening import SHOWN, opening
from divulge.report.paths import Paths
from divulge.report.severity import FREE, RULE, Severity

BETTER = Score(0.9, 0.1, "a guess", most=1.0)
IMAGES = TrainingData(np.zeros((3, 4)), shape=(2, 2))
RECORDS = TrainingData(np.zeros((3, 4)))


def leak(loot: Any = RECORDS, *, points: int = 0, seconds: float = 1.0, measured: bool = True, **rest: Any) -> Finding[Any]:
    rest.setdefault("scores", {"recovered": BETTER})
    return Finding.leak(
        loot,
        "something was won",
        cost=Cost(points, seconds),
        measured=("recovered",) if measured else (),
        **{"provenance": Provenance("attack", inputs={"model": "hash"}), **rest},
    )


def rated(finding: Finding[Any]) -> Severity:
    record = Record("", (Holding("model", "gradients", "", ""),), (finding,))
    return overview.leaks(record)[0].rating.severity


def test_the_worth_of_an_asset_is_where_its_severity_starts() -> None:
    assert rated(leak()) == Severity.CRITICAL
    assert rated(leak(Weights(((np.eye(2), np.zeros(2)), (np.ones((1, 2)), np.zeros(1)))))) == Severity.HIGH
    assert rated(leak(Hyperparameters({"alpha": 1.0}))) == Severity.LOW


@pytest.mark.parametrize(
    ("points", "seconds", "level"),
    [
        (FREE, 1, Severity.CRITICAL), (FREE + 1, 1, Severity.HIGH), (100_001, 1, Severity.MEDIUM),
        (0, 3601, Severity.HIGH), (0, 86_401, Severity.MEDIUM), (FREE + 1, 86_401, Severity.MEDIUM),
    ],
)  # fmt: skip
def test_what_costs_an_attacker_much_is_a_level_lower(points: int, seconds: float, level: Severity) -> None:
    assert rated(leak(points=points, seconds=seconds)) == level


def test_what_nothing_confirms_is_a_level_lower() -> None:
    assert rated(leak(measured=False)) == Severity.HIGH
    assert rated(leak(scores={"recovered": Score(0.5, 0.5, "a guess")})) == Severity.HIGH


def test_an_exact_copy_confirms_itself() -> None:
    layers = ((np.eye(2), np.zeros(2)), (np.ones((1, 2)), np.zeros(1)))
    assert rated(leak(Weights(layers, exact=True), measured=False)) == Severity.HIGH
    assert rated(leak(Weights(layers, exact=False, agreement=0.9), measured=False)) == Severity.MEDIUM


def test_a_small_share_is_a_level_lower_but_of_records_each_counts() -> None:
    little = {"recovered": Score(0.05, 0.01, "a guess", most=1.0)}
    layers = ((np.eye(2), np.zeros(2)), (np.ones((1, 2)), np.zeros(1)))
    assert rated(leak(scores=little)) == Severity.CRITICAL
    assert rated(leak(Weights(layers), scores=little)) == Severity.MEDIUM


def test_the_price_is_that_of_the_whole_way(record: Record) -> None:
    stolen = overview.leaks(record)[0]
    assert stolen.edge.finding.cost.points == 0
    assert stolen.rating.points == 12_345
    assert stolen.rating.price == "12,345 queries, 1 h 15 min"


def test_the_rule_that_is_printed_names_every_asset() -> None:
    assert [asset for asset in ASSETS if asset.replace("_", " ") not in RULE.lower()] == []
    assert set(severity.WORTH) == set(ASSETS)


def test_every_asset_has_a_line_whatever_was_tried(record: Record) -> None:
    lines = {line.heading: line for line in opening(record).assets}
    assert list(lines) == ["Training data", "Membership", "Parameters", "Integrity", "Hyperparameters"]
    assert lines["Training data"].summary == "50 pictures"
    assert lines["Training data"].score == "images recovered: 50, null 0.4"
    assert lines["Training data"].severity == Severity.HIGH  # the truth confirms it; the way to it takes 12,345 queries
    assert lines["Membership"].state == "none found"
    assert lines["Membership"].summary == "1 attempt found nothing."
    assert lines["Integrity"].state == "not tested"


def test_the_worst_is_what_stands_first(record: Record) -> None:
    found = overview.leaks(record)
    assert [leak.asset for leak in found] == ["training_data", "parameters", "hyperparameters"]
    counts = overview.counts(record)
    assert (counts["leaks"], counts["high"], counts["training_data"]) == (3, 1, 1)


def test_a_means_to_a_leak_is_no_attempt_that_found_nothing() -> None:
    means: Finding[Any] = Finding.means(IMAGES, "directions", provenance=Provenance("a", asset="training_data"))
    lines = opening(Record("", (), (means,))).assets
    assert lines[0].state == "not tested"


def test_stolen_pictures_stand_beside_the_originals(record: Record) -> None:
    shown = opening(record).showcase
    assert shown is not None
    assert len(shown.groups) == SHOWN
    assert [picture.alt for picture in shown.groups[0][0]] == ["training image 1", "found in the weights 1"]


def test_stolen_pictures_whose_originals_nobody_knows_stand_alone() -> None:
    shown = opening(Record("", (), (leak(IMAGES),))).showcase
    assert shown is not None
    assert [len(pictures) for pictures, _ in shown.groups] == [1, 1, 1]


def test_pictures_of_a_leak_of_something_else_are_not_called_stolen(record: Record) -> None:
    assert opening(replace(record, findings=record.findings[2:])).showcase is None
    assert opening(Record("", (), (leak(RECORDS),))).showcase is None


def test_a_remedy_that_was_measured_is_preferred_among_equals() -> None:
    told = leak(remedy=("Do something.",))
    known = leak(remedy=(Remedy("Do the other.", "It halved it."),), provenance=Provenance("b", inputs={"model": "hash"}))
    penalty = leak(Hyperparameters({"alpha": 1.0}), remedy=(Remedy("Round.", "It hid it."),))
    advice = opening(Record("", (), (told, known, penalty))).remedy
    assert advice is not None
    assert advice.action == "Do the other."
    advice = opening(Record("", (), (told, penalty))).remedy
    assert advice is not None
    assert advice.action == "Do something."


def test_without_a_leak_there_is_nothing_to_remedy() -> None:
    nothing: Finding[Any] = Finding.none_found("nothing", power="some", provenance=Provenance("a", asset="membership"))
    shown = opening(Record("", (), (nothing,)))
    assert (shown.remedy, shown.showcase) == (None, None)
    assert shown.lead.startswith("No leak found by the one attack that ran")


def test_a_way_back_through_a_circle_ends() -> None:
    circle = tuple(
        leak(provenance=Provenance("attack", inputs={one: "hash"}, won=other)) for one, other in (("a", "b"), ("b", "a"))
    )
    record = Record("", (Holding("a", "weights", "", ""), Holding("b", "training_data", "", "")), circle)
    paths = Paths(record)
    assert paths.behind(paths.edges[0]) == paths.edges[::-1]
    assert overview.counts(record)["leaks"] == 2


def test_what_a_defence_was_asked_counts_too() -> None:
    one = leak(points=10)
    record = Record("", (Holding("model", "gradients", "", ""),), (one,), trials=(Trial("absolute", ("model",), (one,)),))
    assert "The whole audit asked 20 queries" in opening(record).totals


def test_pictures_that_the_truth_denies_are_not_counted_as_won() -> None:
    right = Score(2, 0, "a guess", "of 3 claimed", interval=(0.3, 2.97), most=3)
    record = Record("", (Holding("model", "gradients", "", ""),), (leak(IMAGES, scores={"recovered": right}),))
    assert ": 2 pictures of 3 claimed, without a query" in opening(record).lead
    all_right, to_the_pixel = replace(right, value=3, interval=(0.9, 3.0)), Score(1, 0, "a guess", "of 3", most=3)
    record = replace(record, findings=(leak(IMAGES, scores={"recovered": all_right, "pixel-exact": to_the_pixel}),))
    assert ": 3 pictures, without a query" in opening(record).lead


@pytest.mark.parametrize(
    ("precision", "level"), [(1e-12, Severity.HIGH), (0.9e-6, Severity.HIGH), (1.1e-6, Severity.MEDIUM)]
)
def test_parameters_to_many_digits_confirm_themselves(precision: float, level: Severity) -> None:
    assert rated(leak(Parameters(np.ones(3), np.zeros(1), precision=precision), measured=False)) == level


def test_neither_a_price_nor_a_property_of_the_model_speaks_for_a_leak() -> None:
    cheap = {"queries": Score(0.1, 1.0, "one each", better="lower", speaks=False), "recovered": Score(0.0, 2.0, "a guess")}
    finding = leak(scores=cheap)
    assert severity.headline(finding) == ("recovered", cheap["recovered"])
    assert severity.certainty(finding) == (False, "the truth does not confirm it")


def test_a_share_is_of_the_most_and_not_of_whatever_unit() -> None:
    for unit in (1, 100):
        finding = leak(Weights(((np.eye(2), np.zeros(2)),)), scores={"recovered": Score(0.5 * unit, 0.45 * unit, "a guess")})
        assert severity.won_share(finding) is None


def test_verdicts_are_counted_in_a_line(record: Record) -> None:
    totals = opening(record).totals
    assert totals.startswith("6 attempts: 3 leaks (1 high, 1 medium, 1 low), 1 none found, 1 not applicable and 1 failed.")
    assert "132,645 queries" in totals


COPY = Copy("two-layer", {"weight": np.eye(4)}, (4,), 4, agreement=0.985)
LAYERS = ((np.eye(2), np.zeros(2)), (np.ones((1, 2)), np.zeros(1)))


def test_the_parameters_themselves_come_before_a_cheaper_copy() -> None:
    exact = leak(Weights(LAYERS, exact=True), points=311, measured=False)
    record = Record("", (Holding("model", "gradients", "", ""),), (leak(COPY, points=300), exact))
    opened = opening(record)
    assert opened.lead.startswith("An open explanation endpoint (`model`) gives its parameters away: 9 parameters, exact,")
    (line,) = [one for one in opened.assets if one.leaks]
    assert (line.summary, line.leaks) == ("9 parameters, exact", 2)


@pytest.mark.parametrize(
    ("won", "said"),
    [
        (COPY, "can be copied: a copy that agrees on 98.5 % of check points, without a query"),
        (Fitted("elastic_net", coef=np.ones(3)), "gives away which algorithm trained it: the learner, elastic net, without"),
        (Parameters(np.ones(3), np.zeros(1), precision=1e-12), "gives its parameters away: 4 parameters, exact, without"),
        (Parameters(np.ones(3), np.zeros(1), precision=2e-3), "4 parameters, to 0.002 of the largest, without"),
    ],
)
def test_what_was_won_is_named_for_what_it_is(won: Access, said: str) -> None:
    record = Record("", (Holding("model", "predictions", "", ""),), (leak(won),))
    assert said in opening(record).lead


def test_poison_is_told_with_the_harm_that_it_does() -> None:
    harm = {"recovered": Score(0.58, 0.2, "wrong labels", interval=(0.5, 0.66), most=1.0)}
    finding = leak(Poison(np.zeros((3, 4)), np.zeros(3)), scores=harm)
    record = Record("", (Holding("model", "pipeline", "", ""),), (finding,))
    assert (
        ") can be poisoned: 3 contributed points make the recovered 0.58, null 0.2, without a query" in opening(record).lead
    )
    shown = replace(finding, provenance=replace(finding.provenance, claimed=False))
    assert ") can be poisoned without a query" in opening(replace(record, findings=(shown,))).lead
