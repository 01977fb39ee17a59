"""The study that trains networks as a recipe says: what comes back, what does not, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from divulge import Context, TrainingData, datasets
from divulge.contract import Access, Finding, HeatMap
from divulge.errors import BadInput
from divulge.studies import TrainingRisk
from divulge.studies.training_risk import RiskMeasured

SMALL: dict[str, Any] = {
    "images": 10,
    "hidden": (40,),
    "momentum": 0.9,
    "steps": 300,
    "starts": (0.01, 4.0),
    "decays": (0.0, 6.0),
}
LEAKY = 6 / 300
"The weight decay at which as many steps at rate 0.1 and momentum 0.9 leave e^-6 of the start."


def digits(**changed: Any) -> TrainingData:
    drawn = datasets.load("mnist", samples=30, seed=0)
    return TrainingData(**{"X": drawn.X, "y": drawn.y, "shape": (28, 28), **changed})


def study(data: TrainingData | None = None, **options: Any) -> Finding[Access]:
    return TrainingRisk(**{**SMALL, **options})(data or digits(), context=Context(0))


def test_a_start_that_has_decayed_gives_its_images_back_and_is_marked_on_the_map() -> None:
    finding = study(weight_decay=LEAKY)
    assert finding.verdict == "leak"
    assert finding.scores["share of the images back"].value >= 0.7
    assert finding.scores["share of the images back"].null <= 0.1
    (figure,) = finding.figures
    assert isinstance(figure, HeatMap)
    (x,), (y,) = figure.groups["your training"]
    assert (x, y) == pytest.approx((6.0, 0.0))
    seen = finding.evidence
    assert isinstance(seen, RiskMeasured)
    assert seen.shares[1, 1] >= 0.7 > 0.3 > seen.shares[1, 0]
    assert any("0.0025 of torch's own start" in note for note in finding.notes)


def test_a_large_start_without_decay_hides_them_and_the_power_says_what_would_not() -> None:
    finding = study(start=4.0)
    assert finding.verdict == "none found"
    assert finding.scores["share of the images back"].value <= 0.2
    assert "gives back 10 of 10 pictures" in finding.power


def test_the_same_seed_gives_the_same_map() -> None:
    first, second = (study(steps=60, label_noise=0.2, dropout=0.2) for _ in range(2))
    assert isinstance(first.evidence, RiskMeasured)
    assert isinstance(second.evidence, RiskMeasured)
    np.testing.assert_array_equal(first.evidence.shares, second.evidence.shares)
    assert first.evidence.own == second.evidence.own


def test_a_training_that_diverges_is_counted_and_shows_nothing() -> None:
    finding = study(lr=1e4, decays=(0.0, 1e-3), steps=60)
    assert finding.verdict == "none found"
    assert any("trainings diverged" in note for note in finding.notes)
    assert any("does not reach it: outside the map" in note for note in finding.notes)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (digits(shape=None), "no pictures of a known shape"),
        (digits(X=255 * digits().X), "divide by the largest"),
        (digits(y=None), "no labels of two classes"),
        (TrainingData(digits().X[:12], np.arange(12), shape=(28, 28)), "expected 20 pictures"),
    ],
)
def test_data_without_pictures_labels_or_enough_of_them_is_not_applicable(data: TrainingData, reason: str) -> None:
    finding = study(data)
    assert finding.verdict == "not applicable"
    assert reason in finding.summary.lower()


def test_options_that_describe_no_training_are_refused() -> None:
    with pytest.raises(BadInput, match="momentum for sgd alone"):
        TrainingRisk(optimiser="adam", momentum=0.9)
    with pytest.raises(BadInput, match="starts"):
        TrainingRisk(starts=(1.0,))
