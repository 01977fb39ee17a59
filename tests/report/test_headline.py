"""The headline follows the loot, counts what ran, and claims no more than that."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from divulge.contract import Access, Finding, Holding, Hyperparameters, Membership, Provenance, Record, TrainingData, Verdict
from divulge.report.headline import sentences
from divulge.report.opening import opening
from divulge.report.paths import Paths


def leak(inputs: Iterable[str], won: str, loot: Access | None = None) -> Finding[Access]:
    return Finding.leak(
        loot or Hyperparameters({"alpha": 1.0}),
        "won",
        provenance=Provenance("attack", inputs=dict.fromkeys(inputs, "hash"), won=won),
    )


def nothing(verdict: str) -> Finding[Access]:
    return Finding(Verdict(verdict), "nothing", power="some", provenance=Provenance("attack", inputs={"model": "hash"}))


def holdings(**kinds: str) -> tuple[Holding, ...]:
    return tuple(Holding(name, kind, "somewhere", "hash") for name, kind in kinds.items())


def test_the_worst_leak_comes_first_with_how_much_and_at_what_price(record: Record) -> None:
    assert sentences(record)[0] == (
        "An open explanation endpoint (`api`) gives away what it was trained on: 50 pictures, for 12,345 queries and in "
        "1 h 15 min."
    )


def test_a_penalty_alone_is_said_to_be_one(record: Record) -> None:
    alone = Record("", record.holdings, record.findings[2:])
    assert sentences(alone)[0] == (
        "A fitted model that can be read (`ridge`) gives its hyperparameters away: alpha = 0.31 and gamma = 2.5e-4, "
        "without a query and in under 0.1 s."
    )


def test_what_only_the_truth_shows_is_not_counted_as_won(record: Record) -> None:
    told = record.findings[3]
    shown = replace(told, verdict=Verdict.LEAK, provenance=replace(told.provenance, claimed=False))
    said = sentences(Record("", record.holdings, (shown,)))[0]
    price = "for 300 queries and in 1.5 s; only the truth shows it."
    assert said == f"An open explanation endpoint (`api`) tells who was in its training data {price}"


def test_a_chain_is_one_sentence_from_the_first_thing_held_to_the_last_thing_won(record: Record) -> None:
    said = sentences(record)
    assert said[1] == (
        "An open explanation endpoint (`api`) reaches the training data in 2 steps: gradients → weights → training data."
    )
    assert said[2] == "From `ridge` and `table`, hyperparameters were won."
    assert len(said) == 3


def test_one_step_names_what_it_started_from() -> None:
    record = Record("", holdings(model="fitted", data="training_data"), (leak(["model", "data"], "loot"),))
    assert sentences(record)[1:] == ["From `model` and `data`, hyperparameters were won."]


def test_several_things_won_from_the_same_are_one_sentence(record: Record) -> None:
    loot = record.findings[3].loot
    assert isinstance(loot, Membership)
    record = Record("", holdings(model="predictions"), (leak(["model"], "a"), leak(["model"], "b", loot)))
    assert sentences(record)[1:] == ["From `model`, hyperparameters and membership were won."]


def test_help_from_other_things_held_is_named() -> None:
    kinds = {"api": "gradients", "people": "candidates", "copy": "weights", "who": "membership"}
    record = Record("", holdings(**kinds), (leak(["api"], "copy"), leak(["copy", "people"], "who")))
    assert "(`api`), with `people`, tells who was in the training data in 2 steps" in sentences(record)[1]


def test_no_leak_is_evidence_about_these_attacks_only() -> None:
    record = Record("", holdings(model="predictions"), (nothing("none found"), nothing("none found"), nothing("failed")))
    assert sentences(record) == [
        "No leak found by the 2 attacks that ran: evidence of resistance to these attacks only.",
        "1 attack failed, which says nothing either way.",
    ]


def test_what_was_won_on_the_way_is_no_evidence_of_resistance() -> None:
    about = Provenance("a", inputs={"model": "h"}, asset="training_data")
    means: Finding[Any] = Finding.means(TrainingData(np.zeros((3, 4))), "directions", provenance=about)
    record = Record("", holdings(model="predictions"), (means,))
    assert sentences(record) == ["What was won on the way gives nothing away by itself."]
    (line,) = [one for one in opening(record).assets if one.heading == "Training data"]
    assert line.summary == "A step towards it was won, and no attack went on from there."
    both = Record("", holdings(model="predictions"), (means, nothing("none found")))
    assert sentences(both)[0].startswith("No leak found by the one attack that ran")
    broken = Record("", holdings(model="predictions"), (means, nothing("failed")))
    assert sentences(broken)[0].startswith("No attack came to an answer that holds")


def test_a_leak_that_the_truth_alone_shows_does_not_hide_what_it_started_from() -> None:
    won = leak(["model"], "weights of model")
    shown = leak(["weights of model"], "membership of model")
    shown = replace(shown, provenance=replace(shown.provenance, won="", claimed=False))
    record = Record("", holdings(model="predictions", **{"weights of model": "weights"}), (won, shown))
    assert [edge.number for edge in Paths(record).ends] == [1]


@pytest.mark.parametrize("verdicts", [(), ("not applicable",), ("failed", "not applicable")])
def test_where_nothing_ran_to_its_end_nothing_is_claimed(verdicts: tuple[str, ...]) -> None:
    record = Record("", holdings(model="predictions"), tuple(map(nothing, verdicts)))
    assert sentences(record)[0] == "No attack came to an answer that holds: nothing is known of what this gives away."


def test_an_attack_called_on_its_own_still_has_a_headline() -> None:
    finding = Finding.leak(TrainingData(np.array([[1.0]])), "won")
    assert sentences(Record("", (), (finding,)))[1] == "Training data was won."


def test_a_record_that_goes_in_a_circle_ends() -> None:
    circle = Record("", holdings(a="weights", b="training_data"), (leak(["a"], "b"), leak(["b"], "a")))
    assert len(sentences(circle)) == 1
    assert set(Paths(circle).depths) == {"a", "b"}


def test_loot_of_an_attack_that_is_no_leak_is_drawn_but_not_claimed(record: Record) -> None:
    assert Paths(record).makers["membership of api"].leak is False
    assert not any("membership" in sentence for sentence in sentences(record))
