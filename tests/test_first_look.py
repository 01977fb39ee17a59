"""`divulge init` on files and on running servers: what it says is so, and the file that it writes runs."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from divulge import Weights, cli
from divulge.contract import Array
from divulge.serving import Server

RNG = np.random.default_rng(5)
NETWORK = Weights(
    ((RNG.standard_normal((6, 4)), RNG.standard_normal(6)), (RNG.standard_normal((2, 6)), RNG.standard_normal(2)))
)
(W1, B1), (W2, B2) = NETWORK.layers


def jacobian(X: Array) -> Array:
    return np.asarray(np.einsum("oh,nh,hd->nod", W2, (X @ W1.T + B1 > 0).astype(float), W1))


Reply = tuple[int, Any]
Speaks = Callable[[str, Any], Reply]


@contextmanager
def speaking(reply: Speaks) -> Iterator[tuple[str, list[int]]]:
    """The address of a server that answers so, and the number of rows in each request to its model."""
    asked: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(*reply(self.path, None))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(len(next(iter(body.values()))))
            self._say(*reply(self.path, body))

        def _say(self, status: int, said: Any) -> None:
            content = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def points(rows: Any) -> Array:
    X = np.array(rows, dtype=float)
    if X.ndim != 2 or X.shape[1] != 4:
        raise ValueError(f"X has {X.shape[-1]} features, but the network is expecting 4 features as input")
    return X


def mlflow(path: str, body: Any) -> Reply:
    if body is None:
        return (200, "3.1.4") if path == "/version" else (404, "not found")
    if path != "/invocations":
        return 404, "not found"
    try:
        X = points(body["inputs"])
    except ValueError as error:
        return 400, {"error_code": "BAD_REQUEST", "message": str(error)}
    return 200, {"predictions": {"logits": NETWORK.predict(X).tolist(), "gradients": jacobian(X).tolist()}}


def kserve(path: str, body: Any) -> Reply:
    if body is None:
        return (200, {"models": ["mine"]}) if path == "/v1/models" else (404, {"error": "nothing here"})
    if not path.startswith("/v1/models/mine:"):
        return 404, {"error": f"no model at {path}"}
    try:
        X = points(body["instances"])
    except ValueError as error:
        return 500, {"error": str(error)}
    if path.endswith(":explain"):
        return 200, {"explanations": jacobian(X).tolist()}
    return 200, {"predictions": NETWORK.predict(X).tolist()}


def kserve_without_explainer(path: str, body: Any) -> Reply:
    return (404, {"error": "no explainer"}) if path.endswith(":explain") else kserve(path, body)


def litserve(path: str, body: Any) -> Reply:
    if body is None:
        return (200, {"server": {"workers_per_device": 1}}) if path == "/info" else (404, {"detail": "Not Found"})
    if path != "/predict":
        return 404, {"detail": "Not Found"}
    try:
        X = points(body["input"])
    except ValueError:
        return 500, {"detail": "Internal server error"}
    logits = NETWORK.predict(X)
    scores = np.exp(logits - logits.max(1, keepdims=True))
    return 200, {"output": (scores / scores.sum(1, keepdims=True)).astype(np.float32).tolist()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("divulge.targets.wire.sleep", lambda seconds: None)
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code = cli.main([*arguments, "--json"])
    said = capfd.readouterr()
    assert (code, said.err) == (0, "")
    return json.loads(said.out)


@pytest.mark.parametrize(
    ("speaks", "path", "protocol", "kind", "outputs", "precision"),
    [
        (mlflow, "", "MLflow's scoring server", "gradients", "2 real numbers", "double"),
        (mlflow, "/invocations", "MLflow's scoring server", "gradients", "2 real numbers", "double"),
        (kserve, "", "KServe's V1 protocol", "gradients", "2 real numbers", "double"),
        (kserve, "/v1/models/mine:predict", "KServe's V1 protocol", "gradients", "2 real numbers", "double"),
        (kserve_without_explainer, "/v1/models/mine", "KServe's V1 protocol", "predictions", "2 real numbers", "double"),
        (litserve, "/predict#dimension=4", "LitServe", "predictions", "2 probabilities that add up to 1", "single"),
        (litserve, "#dimension=4", "LitServe", "predictions", "2 probabilities that add up to 1", "single"),
    ],
)
def test_a_server_is_known_by_what_it_says_and_the_file_runs(
    folder: Path, capfd: pytest.CaptureFixture[str], speaks: Speaks, path: str, protocol: str, kind: str, outputs: str,
    precision: str,
) -> None:  # fmt: skip
    with speaking(speaks) as (host, asked):
        found = next(iter(run(capfd, "init", host + path)["found"].values()))
        assert found["protocol"] == protocol
        assert found["inputs"] == "4 numbers"
        assert found["outputs"].startswith(outputs)
        assert found["precision"] == precision
        assert ("explanations" in found) == (kind == "gradients")
        assert found["asked"] == f"{sum(asked)} rows in {len(asked)} requests"
        section = tomllib.loads(Path("AUDIT.toml").read_text())["held"]["api"]
        assert section["kind"] == kind
        asked.clear()
        audited = run(capfd, "audit", "AUDIT.toml")
        won = {finding["attack"]: finding["verdict"] for finding in audited["findings"]}
        assert won.get("gradient-extraction", "leak") == "leak"
        parts = [*audited["findings"], *audited["sent"].values()]
        assert (sum(part["rows"] for part in parts), sum(part["requests"] for part in parts)) == (sum(asked), len(asked))


def explaining(change: Callable[[Array, Array], Array]) -> Speaks:
    """The MLflow server with explanations of another kind."""

    def speaks(path: str, body: Any) -> Reply:
        status, said = mlflow(path, body)
        if status == 200 and body is not None:
            X, J = np.array(body["inputs"]), np.array(said["predictions"]["gradients"])
            said["predictions"]["gradients"] = change(X, J).tolist()
        return status, said

    return speaks


@pytest.mark.parametrize(
    ("change", "kind", "verdict"),
    [
        (lambda X, J: J * X[:, None], "gradient × input of each output", "leak"),
        (lambda X, J: J[:, 1], "gradient of output 1", "leak"),
        (lambda X, J: np.abs(J), "absolute gradient of each output", "not applicable"),
        (lambda X, J: J[np.arange(len(J)), NETWORK.predict(X).argmax(1)], "gradient of the top output", "not applicable"),
        (
            lambda X, J: J / np.abs(J).max(2, keepdims=True).clip(1e-9),
            "gradient of each output, each divided",
            "not applicable",
        ),
    ],
    ids=["times input", "one output", "absolute", "top output", "normalised"],
)
def test_explanations_are_called_by_their_name_and_used_where_they_can_be(
    folder: Path, capfd: pytest.CaptureFixture[str], change: Callable[[Array, Array], Array], kind: str, verdict: str
) -> None:
    with speaking(explaining(change)) as (host, _):
        found = next(iter(run(capfd, "init", host)["found"].values()))
        assert found["explanations"].startswith(kind)
        audited = run(capfd, "audit", "AUDIT.toml")
    finding = next(one for one in audited["findings"] if one["attack"] == "gradient-extraction")
    assert finding["verdict"] == verdict
    if verdict == "not applicable":
        assert kind in finding["summary"]


def test_one_command_audits_an_address_and_counts_what_it_took_to_look(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with speaking(mlflow) as (host, asked):
        for _ in range(2):
            assert cli.main(["audit", host, "--json"]) == 0
            found = json.loads(capfd.readouterr().out)
            assert any(finding["verdict"] == "leak" for finding in found["findings"])
            parts = [*found["findings"], *found["sent"].values()]
            assert (sum(part["rows"] for part in parts), sum(part["requests"] for part in parts)) == (sum(asked), len(asked))
        assert len(list(folder.glob("*.toml"))) == 1


@pytest.mark.parametrize("more", [(), ("data.csv",)])
def test_a_v2_server_is_asked_about_its_only_model(
    folder: Path, capfd: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    Path("data.csv").write_text("a,b,c,d,y\n1,2,3,4,0\n5,6,7,8,1\n")
    with Server(NETWORK, "mine") as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            found = next(iter(run(capfd, "init", server.url.partition("/v2")[0], *more)["found"].values()))
        finally:
            server.shutdown()
            thread.join()
    section = tomllib.loads(Path("AUDIT.toml").read_text())["held"]["api"]
    assert (section["url"], section["output"], section["explanation"]) == (server.url, "value", "output:gradient")
    assert "columns" not in section
    assert found["asked"] == f"{server.rows} rows in {server.requests} requests"


@pytest.mark.parametrize(
    ("speaks", "source", "sentence"),
    [
        (kserve, "/v1/models/yours", "no model at /v1/models/yours:predict; the server has: mine; use one of these"),
        (litserve, "/predict", "to tell how wide a point is, and it did not"),
        (lambda path, body: (404, "nothing"), "", "that speaks one of azure-ml, bentoml, .* and none was recognised"),
        (lambda path, body: (200, "<html>"), "/x", "and none was recognised; name one with"),
    ],
)
def test_what_cannot_be_found_out_is_said_in_one_sentence(
    folder: Path, capfd: pytest.CaptureFixture[str], speaks: Speaks, source: str, sentence: str
) -> None:
    with speaking(speaks) as (host, _):
        # a width is known, so that the name of the model is what is wrong
        more = "#dimension=4&protocol=kserve-v1" if "yours" in source else ""
        assert cli.main(["init", host + source + more]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert re.search(sentence, said), said
    assert not Path("AUDIT.toml").exists()


def test_files_are_what_they_look_like(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import pandas
    from sklearn.linear_model import Ridge
    from skops.io import dump

    X = RNG.standard_normal((40, 3))
    y = X @ [1.0, 2.0, 3.0] + RNG.standard_normal(40)
    pandas.DataFrame(X, columns=list("abc")).assign(price=y).to_csv("train.csv", index=False)
    dump(Ridge(0.25).fit(X, y), "model.skops")
    found = run(capfd, "init", "model.skops", "train.csv")["found"]
    assert found["model.skops"] == {"is": "a fitted Ridge", "held as": "the parameters of a ridge model"}
    assert found["train.csv"] == {"is": "40 points of 3 numbers, and 'price' to predict"}
    audited = run(capfd, "audit", "AUDIT.toml")
    assert audited["findings"][0]["loot"]["alpha"] == pytest.approx(0.25)
    assert audited["findings"][0]["verdict"] == "leak"


def test_a_network_and_its_data_are_the_weights_and_the_truth(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.savez("network.npz", W1=W1, b1=B1, W2=W2, b2=B2)
    np.savez("data.npz", X=RNG.standard_normal((9, 4)), y=np.zeros(9))
    np.save("others.npy", RNG.standard_normal((5, 4)))
    run(capfd, "init", "network.npz", "data.npz", "others.npy", "--out", "some.toml")
    document = tomllib.loads(Path("some.toml").read_text())
    assert {name: section["kind"] for name, section in document["held"].items()} == {
        "network": "weights",
        "points": "candidates",
    }
    assert document["truth"]["training_data"]["file"] == "data.npz"
    run(capfd, "audit", "some.toml")


def test_what_was_folded_into_a_network_is_said_at_first_look(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from safetensors.numpy import save_file

    norm = {"1.running_mean": B1, "1.running_var": np.ones(6)}
    save_file({"0.weight": W1, "0.bias": B1, "3.weight": W2, "3.bias": B2, **norm}, "network.safetensors")
    found = run(capfd, "init", "network.safetensors")["found"]["network.safetensors"]
    assert found["is"] == "a ReLU network 4-6-2"
    assert "'1' (BatchNorm)" in found["as read"]


def test_a_network_of_scikit_learn_is_said_to_be_one(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from sklearn.neural_network import MLPClassifier
    from skops.io import dump

    X = RNG.standard_normal((30, 3))
    for activation in ("relu", "tanh"):
        dump(MLPClassifier((4,), activation=activation, tol=9).fit(X, np.arange(30) % 2), f"{activation}.skops")
        found = run(capfd, "init", f"{activation}.skops", "--out", f"{activation}.toml")["found"][f"{activation}.skops"]
        assert found["is"] == "a fitted MLPClassifier"
        assert ('kind = "weights"' in found.get("also", "")) == (activation == "relu")


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        ((), "expected files or an address to look at, got none"),
        (("nothing.csv",), "found no such file; check its name"),
        (("data.npy",), "got data alone; name the model too"),
        (("http://127.0.0.1:1", "http://127.0.0.1:2"), "expected one address, got 2"),
        (("http://127.0.0.1:1",), "no answer from http://127.0.0.1:1"),
        (("http://127.0.0.1:1#dimensio=3",), "unknown key 'dimensio'; did you mean 'dimension'?"),
        (("notes.txt",), "expected a model or its data in a file ending in"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    folder: Path, capfd: pytest.CaptureFixture[str], sources: tuple[str, ...], sentence: str
) -> None:
    np.save("data.npy", np.zeros((3, 2)))
    Path("notes.txt").write_text("hello")
    assert cli.main(["init", *sources]) == 2
    assert sentence in capfd.readouterr().err
    assert not Path("AUDIT.toml").exists()


def test_an_audit_file_that_is_there_is_kept(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("AUDIT.toml").write_text("mine")
    np.savez("network.npz", W1=W1, b1=B1, W2=W2, b2=B2)
    assert cli.main(["init", "network.npz"]) == 2
    assert "is there already; choose another name with --out, or replace it with --force" in capfd.readouterr().err
    assert Path("AUDIT.toml").read_text() == "mine"
    assert cli.main(["init", "network.npz", "--force"]) == 0
    assert "network.npz" in Path("AUDIT.toml").read_text()


def test_a_server_that_explains_nothing_says_how_to_audit_it_all_the_same(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with speaking(kserve_without_explainer) as (host, _):
        Path("audit.toml").write_text(
            f'[held.api]\nkind = "gradients"\nprotocol = "kserve-v1"\nurl = "{host}/v1/models/mine"\ndimension = 4\n'
        )
        assert cli.main(["audit", "audit.toml"]) == 2
        said = capfd.readouterr().err
        assert "404" in said
        assert 'it explains nothing there: audit predictions alone with kind = "predictions"' in said
        assert said.count("\n") == 1
        Path("audit.toml").write_text(Path("audit.toml").read_text().replace("gradients", "predictions"))
        assert run(capfd, "audit", "audit.toml")["findings"]
