"""Audits through the command line as a new user runs them: every example, and a model behind an address."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier

from divulge import Gradients, Predictions, Weights, audit, cli
from divulge.attacks import GradientExtraction
from divulge.serving import Server, on_mlserver, served
from divulge.solvers.shared import synthetic_images

from .attacks.directions.victims import SHAPE, victim
from .targets import served_network
from .test_audit_file import EXAMPLES, make_files
from .test_first_look import speaking

RNG = np.random.default_rng(3)
NETWORK = Weights(
    ((RNG.standard_normal((6, 4)), RNG.standard_normal(6)), (RNG.standard_normal((2, 6)), RNG.standard_normal(2)))
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server(NETWORK, "mine") as made:
        thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What a machine gets from a command that ends well."""
    code = cli.main([*arguments, "--json"])
    said = capfd.readouterr()
    assert (code, said.err) == (0, "")
    found: dict[str, Any] = json.loads(said.out)
    return found


def sent(found: dict[str, Any]) -> tuple[int, int]:
    """Rows and requests that an audit says it sent."""
    parts = [*found["findings"], *found["sent"].values()]
    return sum(part["rows"] for part in parts), sum(part["requests"] for part in parts)


def scores(path: str, body: Any) -> tuple[int, Any]:
    """The service of one's own that an example describes."""
    if path != "/score" or body is None:
        return 404, "nothing here"
    X = np.array(body["rows"])
    reasons = [
        dict(zip(("age", "income", "rooms", "year"), row, strict=True)) for row in served_network.gradient(X).tolist()
    ]
    return 200, {"scores": served_network.value(X).tolist(), "reasons": reasons}


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_in_the_documentation_runs(
    example: Path, folder: Path, server: Server, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_files(folder)
    monkeypatch.setenv("MY_TOKEN", "secret")
    with speaking(scores) as (host, asked):
        text = example.read_text().replace("http://127.0.0.1:8080/v2/models/mine", server.url)
        (folder / example.name).write_text(text.replace("http://127.0.0.1:8080/score", f"{host}/score"))
        found = run(capfd, "audit", example.name)
    assert found["complete"]
    assert Path(found["report"]).exists()
    assert not [finding for finding in found["findings"] if finding["verdict"] == "failed"]
    assert sent(found) == (server.rows + sum(asked), server.requests + len(asked))
    assert bool(sent(found)[0]) == ("url" in example.stem)
    if "url" in example.stem:
        assert next(f for f in found["findings"] if f["attack"] == "gradient-extraction")["verdict"] == "leak"
    assert not (folder / "ledger.sqlite").exists()


@pytest.mark.slow
def test_the_example_with_an_address_runs_on_a_real_inference_server(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with on_mlserver(NETWORK) as url:
        text = (EXAMPLES / "gradients-url.toml").read_text().replace("http://127.0.0.1:8080/v2/models/mine", url)
        Path("audit.toml").write_text(text)
        found = run(capfd, "audit", "audit.toml")
    finding = next(one for one in found["findings"] if one["attack"] == "gradient-extraction")
    assert finding["verdict"] == "leak"
    assert found["complete"]


API = """
attacks = ["gradient-extraction"]
[held.api]
kind = "gradients"
url = "{url}"
output = "value"
explanation = "output:gradient"
batch = 16
"""


def test_values_and_gradients_are_one_request_and_every_row_is_reported(
    folder: Path, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "audit.toml").write_text(API.format(url=server.url))
    found = run(capfd, "audit", "audit.toml")
    finding = found["findings"][0]
    assert finding["verdict"] == "leak"
    assert sent(found) == (server.rows, server.requests)
    assert finding["rows"] <= finding["points"]  # a point is a row, and one asked twice is sent once
    assert finding["requests"] < finding["rows"]
    assert found["sent"] == {"looking": {"rows": 4, "requests": 2}}


def test_a_second_run_only_looks(folder: Path, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "audit.toml").write_text(API.format(url=server.url))
    first = run(capfd, "audit", "audit.toml")
    before = server.rows
    second = run(capfd, "audit", "audit.toml")
    assert server.rows == before + 2
    assert sent(second) == (server.rows, server.requests)
    assert second["findings"] == first["findings"]


@pytest.mark.parametrize("queries", [5, 20, 30])
def test_a_budget_counts_what_the_server_counts(
    folder: Path, server: Server, capfd: pytest.CaptureFixture[str], queries: int
) -> None:
    (folder / "audit.toml").write_text(API.format(url=server.url) + f"[budget]\nqueries = {queries}\n")
    for _ in range(2):  # and goes on counting in a run that resumes
        found = run(capfd, "audit", "audit.toml")
        assert not found["complete"]
        assert f"the budget of {queries} queries ran out" in found["findings"][0]["summary"].lower()
        assert sent(found) == (server.rows, server.requests)
        assert server.rows <= queries + 2  # a look at the model is needed to know whether it is the same


def test_more_budget_goes_on_where_it_stopped(folder: Path, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "audit.toml").write_text(API.format(url=server.url) + "[budget]\nqueries = 60\n")
    run(capfd, "audit", "audit.toml")
    (folder / "audit.toml").write_text(API.format(url=server.url))
    found = run(capfd, "audit", "audit.toml")
    assert found["findings"][0]["verdict"] == "leak"
    assert sent(found) == (server.rows, server.requests)
    assert found["findings"][0]["rows"] <= found["findings"][0]["points"]


def test_one_attack_on_an_address_keeps_its_books_in_the_run_folder(
    folder: Path, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    source = f"{server.url}#output=value&explanation=output:gradient"
    found = run(capfd, "attack", "gradient-extraction", "--gradients", source)
    assert found["findings"][0]["verdict"] == "leak"
    assert sent(found) == (server.rows, server.requests)
    assert [path.name for path in folder.iterdir()] == ["runs"]
    assert (folder / "runs" / "gradient-extraction" / "ledger.sqlite").exists()


def test_python_asks_the_same_way(server: Server, tmp_path: Path) -> None:
    held = Gradients.at(server.url, output="value", explanation="output:gradient")
    finding = GradientExtraction()(held)
    assert finding.loot is not None
    assert (finding.cost.rows + 2, finding.cost.requests + 1) == (server.rows, server.requests)
    found = audit([held], attacks=["gradient-extraction"], out=tmp_path / "run")
    assert found.leaks
    rows = sum(finding.cost.rows for finding in found.findings) + sum(rows for rows, _ in found.record.sent.values())
    assert rows + finding.cost.rows == server.rows
    before = server.rows
    X = RNG.standard_normal((3, 4))
    np.testing.assert_allclose(held.value(X), NETWORK.predict(X), rtol=1e-12)  # and it can be asked when the audit is over
    assert server.rows == before + 3


def test_a_plan_asks_nothing_but_what_the_model_is(folder: Path, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "audit.toml").write_text(API.format(url=server.url))
    assert cli.main(["audit", "audit.toml", "--plan"]) == 0
    assert "gradient-extraction" in capfd.readouterr().out
    assert server.rows <= 2
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("serve", [served, pytest.param(on_mlserver, marks=pytest.mark.slow)])
def test_a_server_in_a_process_of_its_own_ends_with_whoever_started_it(
    serve: Callable[[Weights], AbstractContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve(NETWORK) as url:
        held = Gradients.at(url, output="value", explanation="output:gradient")
        X = RNG.standard_normal((5, 4))
        np.testing.assert_allclose(held.value(X), NETWORK.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="no answer from"):
        Gradients.at(url, output="value", explanation="output:gradient")


@pytest.fixture
def strokes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A service of a network that was trained on known pictures, at an address; beside it what its owner knows."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    network, data = victim()
    assert network.mean is not None
    np.save("mean.npy", network.mean)
    np.savez("train.npz", X=data.X)
    others = synthetic_images.strokes(np.random.default_rng(9), 300, SHAPE)
    np.savez("asked.npz", X=np.concatenate([data.X, others]))
    with served(network) as url:
        yield url


AUDIT = """
[held.api]
kind = "gradients"
url = "{url}"
output = "value"
explanation = "output:gradient"
pictures = [20, 20]
mean = "mean.npy"

[held.asked]
kind = "candidates"
file = "asked.npz"
shape = [20, 20]

[truth.training_data]
file = "train.npz"
shape = [20, 20]

[budget]
queries = 20
"""


def test_under_a_budget_of_twenty_queries_the_images_still_come(
    strokes: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Eight answers are asked before a thousand, and what follows from them needs no more."""
    (folder / "audit.toml").write_text(AUDIT.format(url=strokes))
    code = cli.main(["audit", "audit.toml", "--json"])
    found = json.loads(capfd.readouterr().out)
    assert code == 0
    assert sent(found)[0] <= 20
    by_name = {one["attack"]: one for one in reversed(found["findings"])}
    assert by_name["answer-directions"]["verdict"] == "none found"
    images = by_name["span-reconstruction"]
    assert images["verdict"] == "leak"
    assert images["scores"]["images at NCC > 0.9"]["value"] >= 18
    assert images["scores"]["claims that are right"]["value"] >= 18
    assert by_name["span-membership"]["verdict"] == "leak"
    assert by_name["gradient-extraction"]["verdict"] == "failed"


def test_one_command_asks_an_address_for_directions(strokes: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = f"{strokes}#output=value&explanation=output:gradient&pictures=[20,20]&mean=mean.npy"
    found = run(capfd, "attack", "answer-directions", "--gradients", target, "--out", "won")
    assert "directions in which training moved the first layer" in found["findings"][0]["summary"]
    assert found["findings"][0]["rows"] <= 12


def test_in_python_a_service_gives_its_pictures_away(strokes: str) -> None:
    service = Gradients.at(strokes, output="value", explanation="output:gradient", pictures=[20, 20], mean="mean.npy")
    found = audit(service, attacks=["answer-directions", "span-reconstruction"])
    assert [one.verdict.value for one in found.record.findings] == ["none found", "leak"]


def test_a_binary_classifier_in_memory_gives_up_its_weights_by_its_probabilities(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 7))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    model = MLPClassifier((8,), max_iter=50, tol=0.1, random_state=0).fit(X, y)
    done = audit(Predictions.of(model), attacks=["value-extraction"], out=tmp_path / "run")
    (finding,) = done.leaks
    assert finding.loot is not None
    assert finding.loot.exact
    (W, V), (b, c) = model.coefs_, model.intercepts_
    logit = np.maximum(X @ W + b, 0) @ V + c
    assert np.abs(finding.loot.predict(X) @ [[-1.0], [1.0]] - logit).max() < 1e-6


def test_a_torch_network_in_single_precision_gives_up_its_weights_by_its_values(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(12, 15), torch.nn.ReLU(), torch.nn.Linear(15, 1))
    done = audit(Predictions.of(net), attacks=["value-extraction"], out=tmp_path / "run")
    (finding,) = done.leaks
    assert finding.loot is not None
    assert not finding.loot.exact
    X = RNG.standard_normal((200, 12)).astype(np.float32)
    with torch.no_grad():
        true = net(torch.as_tensor(X)).numpy()
    assert np.abs(finding.loot.predict(X.astype(float)) - true).max() < 1e-5 * true.std()


def test_one_command_copies_what_answers_with_eight_digits(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (W, b), (V, c) = NETWORK.layers
    np.savez("network.npz", W1=W, b1=b, W2=V, b2=c)
    target = 'network.npz#defence={name="rounding",digits=8}'
    found = run(capfd, "attack", "value-extraction", "--predictions", target, "--truth", "network.npz")
    (finding,) = found["findings"]
    assert finding["verdict"] == "leak", finding["summary"]
    assert finding["scores"]["largest weight error"]["value"] < 1e-6
