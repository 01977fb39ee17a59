"""Experiments: every claim that ships can be read at both scales, and the reader refuses what it does not know."""

from pathlib import Path
from typing import Any

import pytest

from divulge import experiments
from divulge.contract import Pipeline
from divulge.errors import BadInput
from divulge.experiments import reader
from divulge.runner import Runner

TEXT = """
title = "T"
paper = "P"
claim = "C"
published = "1"
attack = "hyperparameters"
score = "relative error of alpha"
pool = "largest"
at_most = 1e-9
[data]
name = "diabetes"
standardised = true
[victim]
recipe = "classical"
learner = "ridge"
[vary]
"victim.alpha" = [0.1, 1.0]
"""


@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_can_be_read(name: str, scale: experiments.Scale) -> None:
    experiment = experiments.read(name, scale)
    assert experiment.claim
    assert list(experiment.cells())


def test_a_scale_overrides_only_what_it_names() -> None:
    quick = experiments.parse("t", TEXT + '[scale.quick.vary]\n"victim.alpha" = [5.0]\n', "quick")
    paper = experiments.parse("t", TEXT + '[scale.quick.vary]\n"victim.alpha" = [5.0]\n', "paper")
    assert list(quick.cells()) == [{"victim.alpha": 5.0}]
    assert len(list(paper.cells())) == 2
    assert quick.victim == paper.victim


def test_every_combination_is_a_cell() -> None:
    experiment = experiments.parse("t", TEXT.replace("[vary]", '[vary]\n"data.name" = ["diabetes", "iris"]'), "quick")
    assert len(list(experiment.cells())) == 4


def test_the_same_description_draws_the_same_victim_in_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    sections: dict[str, dict[str, Any]] = {
        "data": {"name": "two-gaussians"},
        "victim": {"recipe": "pipeline", "learner": "logistic"},
    }

    def pipeline(seed: int = 0) -> Pipeline:
        made = reader._victim(sections, Runner(None, seed=seed)).held["pipeline"]
        assert isinstance(made, Pipeline)
        return made

    first = pipeline()
    monkeypatch.setattr(reader, "code_version", lambda module: "another version")
    again = pipeline()
    assert (first.X == again.X).all()
    other = pipeline(seed=1)
    assert not (first.X == other.X).all()


def test_a_claim_is_reproduced_or_not_by_its_own_limit() -> None:
    outcome = experiments.run(experiments.parse("t", TEXT, "quick"))
    assert outcome.reproduced
    assert outcome.ours is not None
    assert outcome.null is not None
    assert outcome.ours < 1e-9 < 0.1 < outcome.null
    strict = experiments.run(experiments.parse("t", TEXT.replace("1e-9", "1e-30"), "quick"))
    assert not strict.reproduced
    nothing = experiments.run(experiments.parse("t", TEXT.replace("of alpha", "of beta"), "quick"))
    assert nothing.ours is None
    assert not nothing.reproduced


def test_a_claim_is_not_reproduced_where_a_victim_resists() -> None:
    resisting = TEXT.replace('learner = "ridge"', 'learner = "ridge"\nsolver = "lsqr"').replace("1e-9", "1e9")
    resisting = resisting.replace("diabetes", "breast-cancer") + "[options]\ntrainings = 0\n"
    outcome = experiments.run(experiments.parse("t", resisting.replace("[0.1, 1.0]", "[1e-3, 1000.0]"), "quick"))
    assert outcome.counts == {"none found": 1, "leak": 1}
    assert not outcome.reproduced


LITTLE = """
title = "T"
paper = "P"
claim = "C"
published = "1"
attack = "first-layer-images"
score = "images at NCC > 0.9"
pool = "largest"
at_most = 1
[data]
name = "mnist-odd-even"
samples = 20
[victim]
recipe = "margin"
hidden = [30]
"""


def test_a_claim_that_an_attack_wins_little_is_reproduced_where_it_finds_nothing() -> None:
    outcome = experiments.run(experiments.parse("t", LITTLE, "quick"))
    assert outcome.counts == {"none found": 1}
    assert outcome.reproduced
    much = LITTLE.replace("at_most = 1", "at_least = 0")
    assert not experiments.run(experiments.parse("t", much, "quick")).reproduced


def test_finished_cells_and_victims_are_found_again(tmp_path: Path) -> None:
    experiment = experiments.parse("t", TEXT, "quick")
    first = experiments.run(experiment, out=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    again = experiments.run(experiment, out=tmp_path)
    assert [cell.value for cell in first.cells] == [cell.value for cell in again.cells]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == kept


SERVED = """
title = "T"
paper = "P"
claim = "C"
published = "1"
attack = "published-extraction"
score = "relative error at fresh points"
pool = "largest"
at_most = 1e-9
[data]
name = "iris"
[victim]
recipe = "random-network"
biases = false
dimension = 30
[options]
units = "$victim.units"
[vary]
"victim.units" = [10, 20]
"""
SEED = 1
"The published extraction fails on some networks, where two kinks are close on its line; not on those of this seed."
DEFENCE = '[defence]\nname = "rounding"\ndigits = 2\n'


def test_an_option_may_follow_what_varies_in_another_section() -> None:
    outcome = experiments.run(experiments.parse("t", SERVED, "quick"), seed=SEED)
    assert [cell.finding.provenance.options["units"] for cell in outcome.cells] == [10, 20]
    assert outcome.reproduced


def test_a_defence_stands_before_the_victims_api(tmp_path: Path) -> None:
    open_api = experiments.run(experiments.parse("t", SERVED, "quick"), out=tmp_path, seed=SEED)
    behind = experiments.run(experiments.parse("t", SERVED + DEFENCE, "quick"), out=tmp_path, seed=SEED)
    assert open_api.counts == {"leak": 2}
    assert "leak" not in behind.counts
    assert len(list((tmp_path / "victims").glob("*.json"))) == 2  # the same victims, trained once


def test_settings_of_a_defence_can_vary() -> None:
    text = SERVED.replace("[10, 20]", '[10]\n"defence.digits" = [2, 15]') + DEFENCE
    outcome = experiments.run(experiments.parse("t", text, "quick"), seed=SEED)
    assert [cell.finding.verdict.value == "leak" for cell in outcome.cells] == [False, True]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (SERVED.replace("$victim.units", "$victim.unit"), "unknown key 'unit'; did you mean 'units'"),
        (SERVED.replace("$victim.units", "$victm.units"), "unknown key 'victm'; did you mean 'victim'"),
        (SERVED + DEFENCE.replace("digits", "digit"), "unknown key 'digit'; did you mean 'digits'"),
        (SERVED + DEFENCE.replace("rounding", "roundin"), "did you mean 'rounding'"),
        (TEXT + DEFENCE, "expected a victim with an API to defend"),
    ],
)
def test_mistakes_in_references_and_defences_are_named(text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        experiments.run(experiments.parse("t", text, "quick"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("title", "titel"), "unknown key 'titel'; did you mean 'title'"),
        (('pool = "largest"', 'pool = "large"'), "did you mean 'largest'"),
        (("at_most = 1e-9", ""), "one of at_most and at_least"),
        (('claim = "C"', ""), "expected claim"),
        (('"victim.alpha"', '"victm.alpha"'), "did you mean 'victim'"),
        (('"ridge"', '"rigde"'), "did you mean 'ridge'"),
        (('"victim.alpha"', '"victim.alhpa"'), "did you mean 'alpha'"),
        (('"classical"', '"clasical"'), "did you mean 'classical'"),
    ],
)
def test_mistakes_are_named(change: tuple[str, str], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        experiments.run(experiments.parse("t", TEXT.replace(*change), "quick"))


@pytest.mark.slow
def test_images_of_ten_classes_are_claimed_and_no_useless_attack_has_any() -> None:
    outcome = experiments.run(experiments.read("training-data-span-classes"))
    assert outcome.reproduced
    assert outcome.null == 0
