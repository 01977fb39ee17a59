"""Placing a training on the map of risk: what is said, what is refused, and that it is light."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge import cli, risk
from divulge.errors import BadInput
from divulge.training_risk.features import features
from divulge.training_risk.measured import HALF, fit, measured
from divulge.training_risk.placing import SAFE, spread
from divulge.training_risk.recipe import Recipe

MOMENTUM: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "steps": 1200}


def test_decay_uncovers_images_and_torchs_start_hides_them() -> None:
    decayed, plain = risk(**MOMENTUM, weight_decay=5e-3), risk(lr=0.05, steps=500)
    assert decayed.share > 0.8 > 0.2 > plain.share
    assert decayed.half > 0.8 > 0.2 > plain.half
    assert "0.0025 of torch's own is left" in decayed.sentence


def test_a_small_start_uncovers_them_without_decay() -> None:
    assert risk(**MOMENTUM, start=1e-3).half > HALF
    assert risk(**MOMENTUM, start=1.0, images=90).half < HALF


def test_adam_hides_them_until_it_has_weight_decay() -> None:
    adam: dict[str, Any] = {"optimiser": "adam", "lr": 1e-3, "steps": 1200}
    assert risk(**adam).half < 0.3
    assert risk(**adam, weight_decay=1e-2).share > risk(**adam).share
    assert "takes the start away" in str(risk(**adam, weight_decay=1e-2))


@pytest.mark.parametrize("place", range(0, len(measured()), 11))
def test_every_measured_recipe_has_a_place_and_is_its_own_nearest(place: int) -> None:
    known = measured()[place]
    placed = risk(known.recipe)
    low, high = placed.interval
    assert 0 <= low <= placed.share <= high <= 1
    assert 0 < placed.half < 1
    assert not placed.far
    assert features(placed.nearest[0].recipe) == features(known.recipe)
    assert f"{placed.share:.0%} of the {known.recipe.images} training images" in placed.sentence


def test_a_change_brings_the_probability_below_a_fifth_and_is_the_least_that_does() -> None:
    placed = risk(**MOMENTUM, weight_decay=5e-3)
    changes = {change.option: change for change in placed.changes}
    assert changes
    decay = changes["weight_decay"]
    assert isinstance(decay.value, float)
    assert decay.value < 5e-3
    again = risk(**MOMENTUM, weight_decay=decay.value)
    assert again.half == pytest.approx(decay.half)
    assert again.half < SAFE
    assert risk(**MOMENTUM, weight_decay=decay.value * 10**0.1 if decay.value else 1e-5).half >= SAFE
    assert not again.changes


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ({"lr": 0.0}, "greater than 0"),
        ({"lr": -0.1}, "greater than 0"),
        ({"optimiser": "lamb"}, "'sgd', 'adam', 'adamw' or 'rmsprop'"),
        ({"convolutional": True}, "unknown key 'convolutional'"),
        ({"images": 10_000_000}, "outside the map: images 1e\\+07 where"),
        ({"hidden": (200,) * 9}, "outside the map: hidden layers 9 where 1 to 3 were measured"),
        ({"hidden": ()}, "hidden"),
        ({"weight_decay": 3.0}, "outside the map: weight_decay 3"),
        ({"start": 1e-9}, "outside the map: start 1e-09"),
        ({"steps": 10**9}, "outside the map: lr · steps"),
        ({"label_noise": 1.5}, "label_noise"),
        ({"optimiser": "adam", "momentum": 0.9}, "momentum for sgd alone"),
        ({"images": 8, "classes": 10}, "no more classes than images"),
        ({"data": "imagenet"}, "'mnist', 'fashion-mnist' or 'cifar10'"),
    ],
)
def test_a_recipe_outside_of_what_was_measured_is_refused(recipe: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        risk(**recipe)


def test_a_recipe_unlike_every_measured_one_is_called_a_guess() -> None:
    every = {"dropout": 0.4, "label_noise": 0.4, "augmentation": "noise", "biases": False, "precision": "float64"}
    placed = risk(images=1500, batch=32, hidden=(40, 300, 40), start=1e-3, classes=2, data="cifar10", **every)
    assert placed.far
    assert placed.sentence.endswith("take it as a guess.")


def test_epochs_and_batches_are_steps() -> None:
    recipe = Recipe(lr=0.1, momentum=0.9, weight_decay=1e-3, epochs=30, images=50, batch=20)
    assert (recipe.updates, recipe.passes) == (90, 30)
    assert recipe.decay == pytest.approx(0.09)
    assert recipe.left == pytest.approx(np.exp(-0.09))
    assert replace(recipe, epochs=None, steps=90).decay == recipe.decay
    assert Recipe(steps=100, images=50, batch=20).passes == 34


def test_what_was_fitted_belongs_to_what_was_measured() -> None:
    assert len(fit().left_out) == len(measured())
    assert fit().names == tuple(features(Recipe()))
    assert all(0 <= share <= 1 for one in measured() for share in one.shares)
    assert len(measured()) > 100


def test_the_interval_is_that_of_recipes_placed_alike_each_of_one_weight() -> None:
    odds = np.linspace(-3, 3, 60)
    shares: list[tuple[float, ...]] = [(1.0,) * 5 if here > 0 else (0.0,) for here in odds]
    assert spread(odds, shares, -3.0) == (0.0, 0.0)
    assert spread(odds, shares, 3.0) == (1.0, 1.0)
    assert spread(odds, shares, 0.0) == (0.0, 1.0)
    few = [(1.0,) * 50, *[(0.0,)] * 29]
    assert spread(np.zeros(30), few, 0.0)[1] < 1


def test_placing_a_training_loads_no_torch() -> None:
    code = "import divulge, sys; divulge.risk(lr=0.1); print(sorted({'torch', 'sklearn', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    assert "risk" in divulge.__all__


def test_the_command_line_places_a_training(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--lr",
        "0.1",
        "--momentum",
        "0.9",
        "--weight-decay",
        "5e-3",
        "--steps",
        "1200",
        "--hidden",
        "100",
        "--hidden",
        "50",
    ]
    assert cli.main(["risk", *flags]) == 0
    said = capsys.readouterr().out
    assert "training images are expected back" in said
    assert "measured near it: " in said
    assert cli.main(["risk", *flags, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    placed = risk(**MOMENTUM, weight_decay=5e-3, hidden=(100, 50))
    assert told["share"] == pytest.approx(placed.share)
    assert told["recipe"] == {**asdict(placed.recipe), "hidden": [100, 50]}
    assert cli.main(["risk", "--lr", "-1"]) == 2
    assert "greater than 0" in capsys.readouterr().err


def test_the_map_is_data_of_the_package() -> None:
    folder = Path(divulge.__file__).parent / "training_risk"
    assert sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".csv", ".json")) < 200_000
