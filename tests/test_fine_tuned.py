"""From public weights and what was made of them to images and members, as a user would: files, commands, a server."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from divulge import Gradients, TrainingData, Weights, audit, cli, datasets
from divulge.serving.own import Server

from .test_front_door import run

pytestmark = pytest.mark.slow

AUDIT = """
attacks = ["span-reconstruction", "span-membership"]
[held.network]
kind = "weights"
file = "tuned.safetensors"
start = "public.safetensors"
shape = [28, 28]
mean = "mean.npy"

[held.people]
kind = "candidates"
file = "people.npz"
shape = [28, 28]

[truth.training_data]
file = "train.npz"

[truth.membership]
file = "members.npz"
"""
HTTP = """
attacks = ["gradient-extraction", "span-reconstruction"]
[held.api]
kind = "gradients"
url = "{url}"
output = "value"
explanation = "output:gradient"
pictures = [28, 28]
start = "public.safetensors"

[truth.training_data]
file = "raw.npz"
"""


def saved(module: torch.nn.Module, path: Path) -> None:
    save_file({name: value.detach().numpy() for name, value in module.state_dict().items()}, path)


def trained_on(module: torch.nn.Module, X: Any, y: Any, steps: int) -> None:
    """By SGD with momentum, in single precision, as most people do."""
    X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    descent = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for _ in range(steps):
        descent.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(module(X), y))
        descent.step()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of torch's start that learned 300 digits, which is public, and then 20 others."""
    folder = tmp_path_factory.mktemp("tuned")
    digits = datasets.load("mnist", samples=320, seed=8)
    mean, private = digits.X[20:].mean(axis=0), digits.X[:20]
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    trained_on(module, digits.X[20:] - mean, digits.y[20:], 30)
    saved(module, folder / "public.safetensors")
    trained_on(module, private - mean, digits.y[:20], 200)
    saved(module, folder / "tuned.safetensors")
    np.save(folder / "mean.npy", mean)
    np.savez(folder / "train.npz", X=private, y=digits.y[:20])
    np.savez(folder / "people.npz", X=np.concatenate([private, digits.X_test[:500]]))
    np.savez(folder / "members.npz", decisions=np.arange(520) < 20)
    return folder


def finding_of(found: Mapping[str, Any], attack: str) -> Any:
    return next(one for one in found["findings"] if one["attack"] == attack)


def test_a_command_with_the_public_weights_beside_gets_the_images(
    files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    held = "tuned.safetensors#shape=[28,28]&mean=mean.npy"
    arguments = ["attack", "span-reconstruction", "--truth", "train.npz", "--weights"]
    without = finding_of(run(capfd, *arguments, held), "span-reconstruction")
    assert without["verdict"] == "none found"
    found = finding_of(run(capfd, *arguments, f"{held}&start=public.safetensors"), "span-reconstruction")
    assert found["verdict"] == "leak"
    images = found["scores"]["images at NCC > 0.9"]
    assert images["value"] >= 18
    assert images["null"] <= 2


def test_an_audit_file_names_the_start_and_finds_images_and_members(
    files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    (files / "audit.toml").write_text(AUDIT)
    found = run(capfd, "audit", "audit.toml")
    assert finding_of(found, "span-reconstruction")["verdict"] == "leak"
    members = finding_of(found, "span-membership")
    assert members["verdict"] == "leak"
    assert members["scores"]["TPR at 1 % FPR"]["value"] > 0.9


def test_explanations_of_a_server_and_public_weights_lead_to_the_images(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    digits = datasets.load("mnist", samples=20, seed=9)
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(784, 60), torch.nn.ReLU(), torch.nn.Linear(60, 10))
    start = deepcopy(module)
    trained_on(module, digits.X, digits.y, 300)
    saved(start, tmp_path / "public.safetensors")
    np.savez(tmp_path / "raw.npz", X=digits.X, y=digits.y)
    with Server(Weights.of(module), "mine") as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        (tmp_path / "audit.toml").write_text(HTTP.format(url=server.url))
        found = run(capfd, "audit", "audit.toml")
        server.shutdown()
        thread.join()
    assert finding_of(found, "gradient-extraction")["verdict"] == "leak"
    images = finding_of(found, "span-reconstruction")
    assert images["verdict"] == "leak"
    assert images["scores"]["images at NCC > 0.9"]["value"] >= 17


def test_the_same_in_python_from_a_module_in_memory() -> None:
    digits = datasets.load("mnist", samples=20, seed=9)
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(784, 60), torch.nn.ReLU(), torch.nn.Linear(60, 10))
    start = deepcopy(module)
    trained_on(module, digits.X, digits.y, 300)
    wanted = ["gradient-extraction", "span-reconstruction"]
    held = Gradients.of(module, shape=(28, 28), start=start)
    report = audit(held, {"training_data": TrainingData(digits.X)}, attacks=wanted)
    found = {finding.provenance.attack: finding for finding in report.findings}
    assert {name: finding.verdict.value for name, finding in found.items()} == dict.fromkeys(wanted, "leak")
    assert found["span-reconstruction"].scores["images at NCC > 0.9"].value >= 17


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("tuned.safetensors", "got the network itself"),
        ("other.safetensors", "expected a start of the network's own widths 784-100-10, but for its head, got 784-50-10"),
        ("people.npz", "expected arrays W1, b1"),
        ("missing.safetensors", "missing.safetensors"),
    ],
)
def test_a_start_that_cannot_be_one_is_one_sentence(
    files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, start: str, sentence: str
) -> None:
    monkeypatch.chdir(files)
    saved(
        torch.nn.Sequential(torch.nn.Linear(784, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10)), files / "other.safetensors"
    )
    code = cli.main(["attack", "span-reconstruction", "--weights", f"tuned.safetensors#shape=[28,28]&start={start}"])
    said = capfd.readouterr()
    assert code == 2
    assert sentence in " ".join(said.err.split())
    assert "Traceback" not in said.err


def test_init_says_that_one_of_two_networks_may_have_been_trained_from_the_other(
    files: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert cli.main(["init", "tuned.safetensors", "public.safetensors", "--out", str(tmp_path / "both.toml")]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "as wide as tuned.safetensors: if one of them was trained from the other" in said
