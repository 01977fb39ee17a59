"""Claims as they come out of the command line and of an audit file: what is claimed, how surely, and what is handed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from divulge import cli, datasets
from divulge.victims import ordinary

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 12 digits that was trained by SGD with weight decay, as a file, and what it was trained on."""
    folder = tmp_path_factory.mktemp("audited")
    digits = datasets.load("mnist", samples=12, seed=4)
    mean = digits.X.mean(axis=0)
    settings: dict[str, Any] = {"momentum": 0.9, "weight_decay": 3e-3, "epochs": 3000}
    trained = ordinary.train(digits.X - mean, digits.y, np.random.default_rng(0), hidden=(60,), **settings)
    parts: dict[str, Any] = {}
    for number, (W, b) in enumerate(trained.layers):
        parts |= {f"{2 * number}.weight": np.ascontiguousarray(W), f"{2 * number}.bias": b}
    save_file(parts, folder / "network.safetensors")
    np.save(folder / "mean.npy", mean)
    np.savez(folder / "train.npz", X=digits.X, y=digits.y)
    return folder


def findings(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    assert cli.main([*arguments, "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    return {one["attack"]: one for one in said["findings"]}


def test_a_command_says_how_many_images_are_claimed_and_how_many_of_them_are_right(
    files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    held = "network.safetensors#shape=[28,28]&mean=mean.npy"
    found = findings(capfd, "attack", "span-reconstruction", "--weights", held, "--truth", "train.npz")
    one = found["span-reconstruction"]
    assert one["verdict"] == "leak"
    claimed = one["evidence"]["claimed"]
    assert 8 <= claimed <= 12
    assert 0.9 * claimed <= one["evidence"]["expected"] <= claimed
    assert one["evidence"]["handed_over"] == 0
    assert one["scores"]["claims that are right"]["value"] > 0.9 * claimed
    assert one["scores"]["claims that are right"]["null"] < 0.5 * claimed
    assert f"{claimed} training images" in one["summary"]


def test_an_audit_leaves_few_pictures_to_the_span_search_and_says_so(
    files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    (files / "audit.toml").write_text(
        '[held.network]\nkind = "weights"\nfile = "network.safetensors"\nshape = [28, 28]\nmean = "mean.npy"\n'
        '[truth.training_data]\nfile = "train.npz"\n'
        "[options.kkt-reconstruction]\nsteps = 50\n"
    )
    found = findings(capfd, "audit", "audit.toml", "--out", "kept")
    assert found["span-reconstruction"]["verdict"] == "leak"
    assert found["kkt-reconstruction"]["verdict"] == "not applicable"
    assert "span-reconstruction" in found["kkt-reconstruction"]["summary"]
