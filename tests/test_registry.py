"""Plug-ins come through the same door as our own attacks; a broken one is named and skipped."""

import subprocess
import sys
from collections.abc import Mapping

import pytest

from divulge import registry
from divulge.attacks import HyperparameterStealing


def divulge(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "divulge.cli", *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def listed(plugin: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What `divulge attacks` says where the plug-in is installed."""
    return divulge(plugin, "attacks")


def test_our_own_attacks_are_registered_like_any_other() -> None:
    assert registry.attacks()["hyperparameters"] is HyperparameterStealing


def test_a_plug_in_is_listed_and_has_flags_nobody_wrote(
    plugin: dict[str, str], listed: subprocess.CompletedProcess[str]
) -> None:
    assert "resampled-mean" in listed.stdout
    helped = divulge(plugin, "attack", "resampled-mean", "--help")
    assert "--resamples" in helped.stdout
    assert "How many times to draw the rows again." in helped.stdout


def test_a_broken_plug_in_is_named_and_skipped(listed: subprocess.CompletedProcess[str]) -> None:
    assert listed.returncode == 0
    assert "plug-in skipped: broken" in listed.stderr
    assert "a library that nobody has" in listed.stderr
    assert "plug-in skipped: misnamed" in listed.stderr
    assert "plug-in skipped: leaves" in listed.stderr
    assert "hyperparameters" in listed.stdout


@pytest.mark.slow
def test_a_plug_in_cannot_take_the_name_of_an_attack_of_ours(
    plugin: dict[str, str], listed: subprocess.CompletedProcess[str]
) -> None:
    assert "plug-in skipped: hyperparameters" in listed.stderr
    assert "the name is taken by divulge.attacks.hyperparameters" in listed.stderr
    assert "--confidence" in divulge(plugin, "attack", "hyperparameters", "--help").stdout


@pytest.mark.slow
def test_a_plug_in_conforms(plugin: dict[str, str]) -> None:
    check = (
        "import numpy as np; from divulge.contract import TrainingData; from divulge.testing import check_attack; "
        "from tiny_attacks import ResampledMean; check_attack(ResampledMean(), TrainingData(np.eye(4))); print('conforms')"
    )
    ran = subprocess.run([sys.executable, "-c", check], env=plugin, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "conforms", ran.stderr
