"""Values and gradients over HTTP: from MLServer, and from a server that does everything wrong that servers do."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stamina

from divulge import audit_file
from divulge.contract import Array, Gradients, Predictions
from divulge.errors import BadInput, StorageError
from divulge.solvers.piecewise.explanation_kind import probe
from divulge.targets import remote
from divulge.targets.ledger import Ledger

from . import served_network

PATIENCE = 300.0
"Seconds to wait for another process on a loaded machine, before calling it broken; two are usual."
STARTS = 3
"Between the choice of a port and its use another process may take it; three times in a row is no accident."

X = np.random.default_rng(0).standard_normal((20, 4))


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with stamina.set_testing(True, attempts=4, cap=True):
        yield


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


# MLServer: a real inference server.


@pytest.fixture(scope="module")
def mlserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the models of an MLServer are, on loopback only."""
    folder = tmp_path_factory.mktemp("mlserver")
    for name, version, datatype, shape, outputs in (
        ("mine", "3", "FP64", [-1, 4], ["value", "gradient", "magnitude"]),
        ("mine-explainer", "3", "FP64", [-1, 4], ["gradient"]),
        ("pictures", None, "FP64", [-1, 1, 2, 2], ["value", "gradient"]),
        ("single", "1", "FP32", [-1, 4], ["value", "gradient"]),
    ):
        (folder / name).mkdir()
        model = {
            "name": name,
            "implementation": "targets.mlserver_runtime.Network",
            "platform": "numpy",
            "versions": [version] if version else [],
            "inputs": [{"name": "points", "datatype": datatype, "shape": shape}],
            "outputs": [{"name": output, "datatype": datatype, "shape": [-1]} for output in outputs],
            "parameters": {"version": version},
        }
        (folder / name / "model-settings.json").write_text(json.dumps(model))
    for _ in range(STARTS):
        http, grpc = free_ports(2)
        process = start(folder, http, grpc)
        try:
            if is_ready(f"http://127.0.0.1:{http}/v2/health/ready", process):
                yield f"http://127.0.0.1:{http}/v2/models"
                return
        finally:
            stop(process)
    pytest.fail(f"MLServer did not start:\n{(folder / 'log').read_text()}")


def start(folder: Path, http: int, grpc: int) -> "subprocess.Popen[bytes]":
    settings = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_endpoint": None, "parallel_workers": 0}
    (folder / "settings.json").write_text(json.dumps(settings))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [str(Path(sys.executable).parent / "mlserver"), "start", str(folder)]
    with (folder / "log").open("a") as log:
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_ready(url: str, process: "subprocess.Popen[bytes]") -> bool:
    """Wait until the server answers; false where it ended instead, or takes too long."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            opener.open(url, timeout=5).close()
            return process.poll() is None
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("explanation", ["output:gradient", "model:mine-explainer", "model:mine:gradient"])
def test_values_and_gradients_come_to_the_last_digit(mlserver: str, explanation: str) -> None:
    held = remote.connect("gradients", f"{mlserver}/mine", {"output": "value", "explanation": explanation})
    assert isinstance(held, Gradients)
    assert held.dimension == 4
    np.testing.assert_array_equal(held.value(X)[:, 0], served_network.value(X))
    np.testing.assert_array_equal(held.gradient(X), served_network.gradient(X))


def test_the_example_in_the_documentation_connects_and_never_pays_twice(mlserver: str, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "docs" / "examples" / "gradients-url.toml"
    text = example.read_text().replace("http://127.0.0.1:8080/v2/models", mlserver)
    (tmp_path / "audit.toml").write_text(text)
    for _ in range(2):
        held = audit_file.read(tmp_path / "audit.toml").held["api"]
        assert isinstance(held, Gradients)
        np.testing.assert_array_equal(held.gradient(X), served_network.gradient(X))
    assert Ledger(tmp_path / "runs" / "audit" / "ledger.sqlite").sent() == len(X)


def test_predictions_need_no_explanation(mlserver: str) -> None:
    held = remote.connect("predictions", f"{mlserver}/mine/", {"output": "value", "batch": 7})
    assert type(held) is Predictions
    np.testing.assert_allclose(held.value(X)[:, 0], served_network.value(X), rtol=1e-12)


def test_points_travel_in_the_shape_the_model_takes(mlserver: str) -> None:
    held = remote.connect("gradients", f"{mlserver}/pictures", {"explanation": "output:gradient"})
    assert isinstance(held, Gradients)
    assert held.dimension == 4
    np.testing.assert_array_equal(held.gradient(X), served_network.gradient(X))


def test_two_points_that_single_precision_cannot_tell_apart_are_one_query(mlserver: str, tmp_path: Path) -> None:
    held = remote.connect("predictions", f"{mlserver}/single", {"output": "value"}, ledger=tmp_path / "ledger")
    answers = held.value(np.vstack([X[0], X[0] + 1e-12]))
    assert answers[0] == answers[1] == served_network.value(X[:1].astype(np.float32).astype(float)).astype(np.float32)
    assert Ledger(tmp_path / "ledger").sent() == 1


@pytest.mark.parametrize(("output", "kind"), [("gradient", "gradient"), ("magnitude", "absolute gradient")])
def test_the_kind_of_explanation_is_found_over_http(mlserver: str, output: str, kind: str) -> None:
    held = remote.connect("gradients", f"{mlserver}/mine", {"output": "value", "explanation": f"output:{output}"})
    assert isinstance(held, Gradients)
    assert probe(held.value, held.gradient, held.dimension, np.random.default_rng(0)).kind == kind


def test_a_second_audit_sends_nothing(mlserver: str, tmp_path: Path) -> None:
    options = {"output": "value", "explanation": "output:gradient"}
    for _ in range(2):
        held = remote.connect("gradients", f"{mlserver}/mine", options, ledger=tmp_path / "ledger")
        assert isinstance(held, Gradients)
        held.value(X)
        held.gradient(X)
        assert Ledger(tmp_path / "ledger").sent() == 40
    assert held.identity == "; ".join(
        f"{mlserver}/mine version 3 numpy FP64 {kind}" for kind in ("value value", "gradient gradient")
    )


@pytest.mark.parametrize(
    ("path", "options", "sentence"),
    [
        ("none", {}, "answered 404 Not Found: Model none not found; check the name of the model"),
        ("mine/versions/9", {}, "Model mine with version 9 not found; check the name of the model, its version"),
        ("mine", {}, "expected one output of .*, got value, gradient, magnitude; choose one with option 'output'"),
        ("mine", {"output": "logits"}, "expected output 'logits' of .* that has: value, gradient, magnitude; use one"),
        ("mine", {"input": "x", "output": "value"}, "expected input 'x' of .* a model that has: points; use one"),
        ("mine", {"dimension": 5, "output": "value"}, "width 5 at .*, got a model of shape .-1, 4.; correct 'dimension'"),
    ],
)
def test_what_does_not_fit_the_model_is_named(mlserver: str, path: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        remote.connect("predictions", f"{mlserver}/{path}", options)


def test_an_explainer_that_is_not_there_is_named(mlserver: str) -> None:
    options = {"output": "value", "explanation": "model:nobody"}
    with pytest.raises(BadInput, match="Model nobody not found"):
        remote.connect("gradients", f"{mlserver}/mine", options)


def test_what_the_server_says_of_an_error_is_passed_on(mlserver: str) -> None:
    held = remote.connect("predictions", f"{mlserver}/mine", {"output": "value"})
    with pytest.raises(BadInput, match="points above 1000 are out of range; check input, output, dimension and datatype"):
        held.value(1e6 * np.ones((1, 4)))


def test_an_output_that_is_no_gradient_is_refused(mlserver: str) -> None:
    held = remote.connect("gradients", f"{mlserver}/mine", {"output": "gradient", "explanation": "output:value"})
    assert isinstance(held, Gradients)
    with pytest.raises(BadInput, match=r"expected explanations of shape \(n, 4\) .*, got \(20,\); choose the output"):
        held.gradient(X)


# A server of our own, for what MLServer does not do.

Reply = tuple[int, dict[str, str], Any]


@dataclass
class Stub:
    """A V2 server on loopback whose next replies can be set, and which remembers what it was asked."""

    url: str
    version: str | None = "1"
    factor: float = 1.0
    metadata: dict[str, Any] = field(default_factory=dict)
    refusals: list[Reply] = field(default_factory=list)
    "Given instead of the next answers."
    answer: Callable[[dict[str, Any]], Any] | None = None
    asked: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)

    def reply(self, path: str, body: Any, headers: dict[str, str]) -> Reply:
        self.asked.append((path, body, headers))
        if self.refusals:
            return self.refusals.pop(0)
        if body is None:
            tensor = {"name": "points", "datatype": "FP64", "shape": [-1, 4]}
            versions = [] if self.version is None else [self.version]
            return 200, {}, {"name": "mine", "versions": versions, "inputs": [tensor], **self.metadata}
        if self.answer is not None:
            return 200, {}, self.answer(body)
        if path.endswith(":explain"):
            return 200, {}, {"explanations": served_network.gradient(np.array(body["instances"])).tolist()}
        rows = np.array(body["inputs"][0]["data"]).reshape(-1, 4)
        values = (self.factor * served_network.value(rows)).tolist()
        return 200, {}, {"model_version": self.version, "outputs": [tensor_of(values)]}

    @property
    def rows(self) -> list[float]:
        """The first number of every row asked."""
        bodies = [body for path, body, _ in self.asked if path.endswith("/infer")]
        return [row for body in bodies for row in body["inputs"][0]["data"][::4]]


def tensor_of(values: list[Any], shape: list[int] | None = None, name: str = "value") -> dict[str, Any]:
    return {"name": name, "datatype": "FP64", "shape": shape or [len(values)], "data": values}


@pytest.fixture
def stub() -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(None)

        def do_POST(self) -> None:
            self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _respond(self, body: Any) -> None:
            status, headers, content = made.reply(self.path, body, dict(self.headers.items()))
            blob = content if isinstance(content, bytes) else json.dumps(content).encode()
            try:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(blob))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(blob)
            except OSError:
                pass  # the client was killed meanwhile

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Stub(f"http://127.0.0.1:{server.server_port}/v2/models/mine")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def test_explanations_come_from_the_older_protocol(stub: Stub) -> None:
    held = remote.connect("gradients", stub.url, {"explanation": "v1"})
    assert isinstance(held, Gradients)
    np.testing.assert_array_equal(held.gradient(X), served_network.gradient(X))
    assert stub.asked[-1][0] == "/v1/models/mine:explain"


def test_a_full_jacobian_keeps_its_outputs(stub: Stub) -> None:
    stub.answer = lambda body: {"explanations": [[row, row, row] for row in body["instances"]]}
    held = remote.connect("gradients", stub.url, {"explanation": "v1"})
    assert isinstance(held, Gradients)
    assert held.gradient(X).shape == (20, 3, 4)


def test_a_new_version_is_asked_again_and_the_old_one_is_not(stub: Stub, tmp_path: Path) -> None:
    answers, counts = [], []
    for stub.version, stub.factor in (("1", 1.0), ("2", 2.0), ("1", 1.0)):
        held = remote.connect("predictions", stub.url, {}, ledger=tmp_path / "ledger")
        answers.append(held.value(X))
        counts.append(len(stub.rows))
    np.testing.assert_array_equal(answers[1], 2 * answers[0])
    np.testing.assert_array_equal(answers[2], answers[0])
    assert counts == [20, 40, 40]


def test_a_model_replaced_without_a_version_is_noticed(stub: Stub, tmp_path: Path) -> None:
    stub.version = None
    before, same = (remote.connect("predictions", stub.url, {}, ledger=tmp_path / "ledger") for _ in range(2))
    assert before.identity == same.identity
    old = before.value(X)
    stub.factor = 2.0
    after = remote.connect("predictions", stub.url, {}, ledger=tmp_path / "ledger")
    assert after.identity != before.identity
    np.testing.assert_array_equal(after.value(X), 2 * old)


def test_a_version_that_changes_under_way_is_refused(stub: Stub) -> None:
    held = remote.connect("predictions", stub.url, {})
    stub.version = "2"
    with pytest.raises(BadInput, match=r"expected version 1 at .*, got an answer from version 2; the model was replaced"):
        held.value(X)


def test_several_versions_must_be_told_apart(stub: Stub) -> None:
    stub.metadata = {"versions": ["1", "2"]}
    with pytest.raises(BadInput, match="has versions 1, 2 and an audit is of one; add /versions/2 to the url"):
        remote.connect("predictions", stub.url, {})
    assert " version 2 " in remote.connect("predictions", f"{stub.url}/versions/2", {}).identity


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_four_times(stub: Stub, status: int) -> None:
    held = remote.connect("predictions", stub.url, {})
    stub.asked.clear()
    stub.refusals = 3 * [(status, {"Retry-After": "1"}, {"error": "busy"})]
    np.testing.assert_array_equal(held.value(X)[:, 0], served_network.value(X))
    assert len(stub.asked) == 4
    refusal: Reply = (status, {}, b"<h1>sorry,\nbusy</h1>")
    stub.refusals = 4 * [refusal]
    with pytest.raises(
        BadInput, match=rf"answered {status} .*: <h1>sorry, busy</h1>; .*run again: what was answered is kept"
    ):
        held.value(X + 1)
    assert not stub.refusals


@pytest.mark.parametrize(("header", "pause"), [("2", 2.0), ("3600", 30.0), ("soon", True), (None, True)])
def test_a_server_that_asks_for_a_pause_gets_it_within_bounds(header: str | None, pause: float | bool) -> None:
    import httpx2

    from divulge.targets import wire

    request = httpx2.Request("GET", "http://127.0.0.1")
    response = httpx2.Response(429, headers={} if header is None else {"Retry-After": header}, request=request)
    assert wire._pause(httpx2.HTTPStatusError("busy", request=request, response=response)) == pause


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        ((400, {}, {"error": "no such tensor"}), "answered 400 Bad Request: no such tensor; check input, output"),
        ((422, {}, {"detail": [{"msg": "field required"}]}), "answered 422 .*field required.*; check input, output"),
        ((401, {}, {}), "answered 401 Unauthorized: {}; set token_env"),
        ((307, {"Location": "http://127.0.0.1/else"}, b""), "307 .*: go to http://127.0.0.1/else; use that address"),
        ((200, {}, b"<html>"), "expected JSON from .*, got '<html>'; check that the server speaks V2"),
        ((200, {}, [1, 2]), r"expected V2 model metadata at .*, got \[1, 2\]; check that the server speaks V2"),
        ((200, {}, {"inputs": [{"name": "x"}]}), "expected V2 model metadata at .*; check that the server speaks V2"),
    ],
)
def test_a_refusal_is_said_once(stub: Stub, refusal: Reply, sentence: str) -> None:
    stub.refusals = [refusal]
    with pytest.raises(BadInput, match=sentence):
        remote.connect("predictions", stub.url, {})
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"outputs": [tensor_of([1.0])]}, r"expected 20 rows in output 'value' of .* for 20 points, got shape \(1,\)"),
        ({"outputs": [tensor_of(20 * [None])]}, "expected finite numbers in output 'value' of .*, got NaN or infinity"),
        ({"outputs": [tensor_of(20 * [float("nan")])]}, "expected finite numbers in output 'value'"),
        ({"outputs": [tensor_of(20 * ["cat"])]}, r"expected numbers of shape \[20\] in output 'value'"),
        ({"outputs": [tensor_of([1.0, 2.0], [20])]}, r"expected numbers of shape \[20\] .*, got \[1.0, 2.0\]"),
        ({"outputs": [tensor_of([1.0]), tensor_of([1.0], name="p")]}, "expected one output of .*, got value, p; choose"),
        ({"outputs": []}, "expected a V2 answer from .*; check the server"),
        ({"predictions": [1.0]}, "expected a V2 answer from .*, got {'predictions': .*; check the server"),
        ([], "expected a V2 answer from"),
    ],
)
def test_a_wrong_answer_is_named_and_not_kept(stub: Stub, tmp_path: Path, answer: Any, sentence: str) -> None:
    held = remote.connect("predictions", stub.url, {}, ledger=tmp_path / "ledger")
    stub.answer = lambda body: answer
    with pytest.raises(BadInput, match=sentence):
        held.value(X)
    stub.answer = None
    np.testing.assert_array_equal(held.value(X)[:, 0], served_network.value(X))


def test_an_explanation_that_is_no_list_of_numbers_is_named(stub: Stub) -> None:
    held = remote.connect("gradients", stub.url, {"explanation": "v1"})
    assert isinstance(held, Gradients)
    stub.answer = lambda body: {"explanations": {"meta": "anchors"}}
    with pytest.raises(BadInput, match=r"expected a list of explanations from .*:explain, got .*; check that it gives"):
        held.gradient(X)


@pytest.mark.parametrize(
    ("inputs", "options", "sentence"),
    [
        ([], {}, "expected the metadata of .* to list its inputs, got none; name one with option 'input'"),
        ([], {"input": "x"}, r"does not say how wide a point is \(shape \[\]\); give option 'dimension'"),
        ([{"name": "x", "datatype": "FP64", "shape": [-1, -1]}], {}, r"\(shape \[-1, -1\]\); give option 'dimension'"),
        (
            [{"name": "x", "datatype": "INT64", "shape": [-1, 4]}],
            {},
            "expected input 'x' of .* to take FP32 or FP64, got INT64",
        ),
    ],
)
def test_metadata_that_says_too_little_asks_for_options(
    stub: Stub, inputs: list[Any], options: dict[str, Any], sentence: str
) -> None:
    stub.metadata = {"inputs": inputs}
    with pytest.raises(BadInput, match=sentence):
        remote.connect("predictions", stub.url, options)


def test_options_say_what_metadata_does_not(stub: Stub) -> None:
    stub.metadata = {"inputs": []}
    held = remote.connect("predictions", stub.url, {"input": "x", "dimension": 4, "datatype": "FP32", "output": "value"})
    held.value(X)
    body = stub.asked[-1][1]
    assert (body["inputs"][0]["name"], body["inputs"][0]["datatype"]) == ("x", "FP32")
    assert body["outputs"] == [{"name": "value"}]


def test_the_token_comes_from_the_environment(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIVULGE_TEST_TOKEN", "abc\n")
    remote.connect("predictions", stub.url, {"token_env": "DIVULGE_TEST_TOKEN"}).value(X)
    assert {headers["Authorization"] for _, _, headers in stub.asked} == {"Bearer abc"}


@pytest.mark.parametrize(("token", "got"), [("", "nothing"), ("geheim\nnis", "other characters"), ("żeton", "other")])
def test_a_token_that_cannot_be_sent_is_not_repeated(monkeypatch: pytest.MonkeyPatch, token: str, got: str) -> None:
    monkeypatch.setenv("DIVULGE_TEST_TOKEN", token)
    with pytest.raises(BadInput, match=f"environment variable DIVULGE_TEST_TOKEN, got {got}") as raised:
        remote.connect("predictions", "http://127.0.0.1:1/v2/models/m", {"token_env": "DIVULGE_TEST_TOKEN"})
    assert not token or token not in str(raised.value)


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as deaf:  # holds the port, so that nobody else takes it, and does not listen
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v2/models/mine"
        sentence = r"no answer from .*Connection refused; check that the server runs there"
        with pytest.raises(BadInput, match=sentence) as raised:
            remote.connect("predictions", url, {})
    assert "\n" not in str(raised.value)


def test_a_server_that_says_nothing_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v2/models/mine"
        with pytest.raises(BadInput, match=r"no answer from .*timed out; .*raise option 'timeout'"):
            remote.connect("predictions", url, {"timeout": 0.05})


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8080/v2/models/m", "http://h/v1/models/m", "http://h/v2/models/", "http://me:pw@h/v2/models/m",
     "http://h/v2/models/m/infer", "http://h/v2/models/m?key=1", "ftp://h/v2/models/m"],
)  # fmt: skip
def test_an_address_of_no_model_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match=r"expected a url such as http://127.0.0.1:8080/v2/models/mine, got"):
        remote.connect("predictions", url, {})


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        ("weights", {}, "expected gradients or predictions of a model behind a url, got weights; give weights as a file"),
        ("gradients", {}, 'says where gradients come from, got explanation = None; write "output:TENSOR"'),
        ("gradients", {"explanation": "shap"}, "got explanation = 'shap'; write \"output:TENSOR\""),
        ("gradients", {"explanation": "output:"}, "got explanation = 'output:'; write"),
        ("predictions", {"explanation": "v1"}, "option 'explanation' is for kind gradients, got it for predictions"),
        ("predictions", {"ouput": "v"}, "unknown key 'ouput'; did you mean 'output'?"),
        ("predictions", {"batch": 0}, "option 'batch': input should be greater than 0, got 0"),
        ("predictions", {"datatype": "INT8"}, "option 'datatype': input should be 'FP32' or 'FP64'"),
    ],
)
def test_options_are_checked_before_anything_is_sent(kind: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput) as raised:
        remote.connect(kind, "http://127.0.0.1:1/v2/models/m", options)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        (np.zeros((2, 3)), r"expected query points of shape \(n, 4\), got \(2, 3\); reshape them"),
        (np.zeros(4), r"expected query points of shape \(n, 4\), got \(4,\)"),
        (np.full((1, 4), np.nan), "expected query points that FP32 can hold, got NaN or infinity"),
        (np.full((1, 4), 1e300), "expected query points that FP32 can hold, got NaN or infinity"),
    ],
)
def test_points_that_cannot_be_sent_are_refused(stub: Stub, points: Array, sentence: str) -> None:
    held = remote.connect("predictions", stub.url, {"datatype": "FP32"})
    with pytest.raises(BadInput, match=sentence):
        held.value(points)


def test_a_ledger_that_cannot_be_opened_is_named(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("no database" * 100)
    with pytest.raises(StorageError, match="the file is damaged"):
        remote.connect("predictions", stub.url, {}, ledger=tmp_path / "ledger")


KILLED = """
import sys
from pathlib import Path
import numpy as np
from divulge.targets import remote

held = remote.connect("predictions", sys.argv[1], {"batch": 5}, ledger=Path(sys.argv[2]))
held.value(np.arange(80.0).reshape(20, 4))
"""


def test_what_a_killed_audit_was_answered_is_not_asked_again(stub: Stub, tmp_path: Path) -> None:
    reached, release = threading.Event(), threading.Event()
    plain = stub.reply

    def third_waits(path: str, body: Any, headers: dict[str, str]) -> Reply:
        reply = plain(path, body, headers)
        if len(stub.rows) == 15:
            reached.set()
            release.wait(PATIENCE)
        return reply

    stub.reply = third_waits  # type: ignore[method-assign]  # this stub alone answers so
    command = [sys.executable, "-c", KILLED, stub.url, str(tmp_path / "ledger")]
    with subprocess.Popen(command) as process:
        assert reached.wait(PATIENCE)
        process.send_signal(signal.SIGKILL)
    release.set()
    stub.reply = plain  # type: ignore[method-assign]  # as before
    stub.asked.clear()
    points = np.arange(80.0).reshape(20, 4)
    held = remote.connect("predictions", stub.url, {"batch": 5}, ledger=tmp_path / "ledger")
    np.testing.assert_allclose(held.value(points)[:, 0], served_network.value(points), rtol=1e-12)
    assert stub.rows == list(points[10:, 0])


def test_the_http_client_is_loaded_only_when_it_is_used() -> None:
    code = "import sys, divulge.targets.remote; sys.exit(not {'httpx2', 'stamina'}.isdisjoint(sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", ["httpx2", "stamina"])
def test_a_missing_client_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=rf"needs {package}, which is missing; run pip install 'divulge\[remote\]'"):
        remote.connect("predictions", "http://127.0.0.1:1/v2/models/m", {})
