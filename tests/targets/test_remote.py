"""Values and gradients over HTTP: from MLServer, and from a server that does everything wrong that servers do."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge.contract import Array, Gradients, Predictions
from divulge.contract.service import Account
from divulge.errors import BadInput, TargetFailed
from divulge.serving.processes import STARTS, free_ports, is_ready, stop
from divulge.solvers.piecewise.explanation_kind import probe
from divulge.targets import remote, wire
from divulge.targets.ledger import Ledger

from . import served_network

X = np.random.default_rng(0).standard_normal((20, 4))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a client would have waited; here nobody does."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    waited: list[float] = []
    monkeypatch.setattr(wire, "sleep", waited.append)
    return waited


@contextmanager
def kept(held: Predictions, path: Path) -> Iterator[Ledger]:
    """What a run folder does: the answers of something held are kept in its ledger."""
    assert held.service is not None
    with Ledger(path) as ledger, held.service.keeping(ledger, print):
        yield ledger


# MLServer: a real inference server.


@pytest.fixture(scope="module")
def mlserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the models of an MLServer are, on loopback only."""
    folder = tmp_path_factory.mktemp("mlserver")
    for name, version, datatype, shape, outputs in (
        ("mine", "3", "FP64", [-1, 4], ["value", "gradient", "magnitude"]),
        ("mine-explainer", "4", "FP64", [-1, 4], ["gradient"]),
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


@pytest.mark.parametrize("explanation", ["output:gradient", "model:mine-explainer", "model:mine:gradient"])
def test_values_and_gradients_come_to_the_last_digit(mlserver: str, explanation: str) -> None:
    held = remote.connect("gradients", f"{mlserver}/mine", {"output": "value", "explanation": explanation})
    assert isinstance(held, Gradients)
    assert held.dimension == 4
    np.testing.assert_array_equal(held.value(X)[:, 0], served_network.value(X))
    np.testing.assert_array_equal(held.gradient(X), served_network.gradient(X))


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
    held = remote.connect("predictions", f"{mlserver}/single", {"output": "value"})
    with kept(held, tmp_path / "ledger") as ledger:
        answers = held.value(np.vstack([X[0], X[0] + 1e-12]))
        assert ledger.answers() == 1
    assert answers[0] == answers[1] == served_network.value(X[:1].astype(np.float32).astype(float)).astype(np.float32)


@pytest.mark.parametrize(("output", "kind"), [("gradient", "gradient"), ("magnitude", "absolute gradient")])
def test_the_kind_of_explanation_is_found_over_http(mlserver: str, output: str, kind: str) -> None:
    held = remote.connect("gradients", f"{mlserver}/mine", {"output": "value", "explanation": f"output:{output}"})
    assert isinstance(held, Gradients)
    assert probe(held.value, held.gradient, held.dimension, np.random.default_rng(0)).kind == kind


def test_a_second_audit_only_looks(mlserver: str, tmp_path: Path) -> None:
    options = {"output": "value", "explanation": "output:gradient"}
    for audits in (1, 2):
        held = remote.connect("gradients", f"{mlserver}/mine", options)
        assert isinstance(held, Gradients)
        with kept(held, tmp_path / "ledger") as ledger:
            held.value(X)
            held.gradient(X)
            assert ledger.sent() == (20 + 2 * audits, 1 + audits)
    assert held.identity.startswith("/v2/models/mine oip-v2 version 3 numpy FP64 answering ")


@pytest.mark.parametrize(
    ("path", "options", "sentence"),
    [
        ("none", {}, "404 Not Found: Model none not found; the server has: mine, mine-explainer, pictures, single; use one"),
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
    with pytest.raises(BadInput, match="Model nobody not found; the server has: mine, mine-explainer"):
        remote.connect("gradients", f"{mlserver}/mine", options)


def test_what_the_server_says_of_an_error_is_passed_on(mlserver: str) -> None:
    held = remote.connect("predictions", f"{mlserver}/mine", {"output": "value"})
    with pytest.raises(BadInput, match="points above 1000 are out of range; check what the model takes"):
        held.value(1e6 * np.ones((1, 4)))


def test_an_output_that_is_no_gradient_is_refused(mlserver: str) -> None:
    with pytest.raises(BadInput, match=r"expected explanations of shape \(n, 4\) .*, got \(2,\); choose the output"):
        remote.connect("gradients", f"{mlserver}/mine", {"output": "gradient", "explanation": "output:value"})


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
        bodies = [body for path, body, _ in self.asked if "/infer" in path]
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
    held = remote.connect("gradients", stub.url, {"explanation": "v1"})
    stub.answer = lambda body: {"explanations": [[row, row, row] for row in body["instances"]]}
    assert isinstance(held, Gradients)
    assert held.gradient(X).shape == (20, 3, 4)


def test_a_new_version_is_asked_again_and_the_old_one_is_not(stub: Stub, tmp_path: Path) -> None:
    answers, counts = [], []
    for stub.version, stub.factor in (("1", 1.0), ("2", 2.0), ("1", 1.0)):
        held = remote.connect("predictions", stub.url, {})
        with kept(held, tmp_path / "ledger") as ledger:
            answers.append(held.value(X))
            assert ledger.sent()[0] == len(stub.rows)
        counts.append(len(stub.rows))
    np.testing.assert_array_equal(answers[1], 2 * answers[0])
    np.testing.assert_array_equal(answers[2], answers[0])
    assert counts == [22, 44, 46]


@pytest.mark.parametrize("version", [None, "1"])
def test_a_model_replaced_between_two_runs_is_noticed(stub: Stub, tmp_path: Path, version: str | None) -> None:
    stub.version = version
    tokens: list[str] = []
    said: list[str] = []
    for stub.factor in (1.0, 1.0 + 1e-14, 2.0, 1.0):
        held = remote.connect("predictions", stub.url, {})
        assert held.service is not None
        with Ledger(tmp_path / "ledger") as ledger, held.service.keeping(ledger, said.append):
            tokens.append(held.service.token)
            np.testing.assert_allclose(held.value(X)[:, 0], stub.factor * served_network.value(X), rtol=1e-13)
    assert tokens[0] == tokens[1] == tokens[3] != tokens[2]
    assert [sentence.partition(" ")[2] for sentence in said] == [
        "answers otherwise than in an earlier run: what it said then is set aside"
    ]
    assert len(stub.rows) == 4 * 2 + 2 * 20 + 2  # a look each, both models once, and a second look to tell it from noise


def test_a_model_replaced_while_it_is_asked_is_noticed_and_its_answers_are_forgotten(stub: Stub, tmp_path: Path) -> None:
    held = remote.connect("predictions", stub.url, {})
    assert held.service is not None
    with kept(held, tmp_path / "ledger") as ledger:
        held.service.account = Account("before")
        held.value(X[:5])
        held.service.check("before")
        held.service.account = Account("after")
        held.value(X[5:10])
        stub.factor = 2.0
        held.value(X[10:])
        with pytest.raises(TargetFailed, match="was replaced while it was audited; run the audit again"):
            held.service.check("after")
        assert ledger.answers() == 5
        with pytest.raises(TargetFailed, match="was replaced"):
            held.value(X)


@pytest.mark.parametrize("seed", range(5))
def test_a_model_that_answers_classes_alone_is_told_from_another_one(stub: Stub, tmp_path: Path, seed: int) -> None:
    """Retrained trees, say, which answer alike at many points."""
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(seed)
    points = rng.standard_normal((200, 4))
    trees = [
        DecisionTreeClassifier(random_state=0).fit(points, points[:, 0] + rng.standard_normal(200) > 0) for _ in range(2)
    ]
    tokens = []
    for tree in (trees[0], trees[1], trees[0]):
        stub.answer = lambda body, tree=tree: {
            "outputs": [tensor_of(tree.predict(np.array(body["inputs"][0]["data"]).reshape(-1, 4)).astype(float).tolist())]
        }
        held = remote.connect("predictions", stub.url, {})
        assert held.service is not None
        with kept(held, tmp_path / "ledger") as ledger:
            tokens.append(held.service.token)
            assert ledger.sent()[0] == len(stub.rows)
    assert tokens[0] == tokens[2] != tokens[1]


def test_a_model_that_never_answers_twice_the_same_is_no_other_one(stub: Stub, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    plain = stub.reply

    def noisy(path: str, body: Any, headers: dict[str, str]) -> Reply:
        stub.factor = float(rng.uniform(1, 2))
        return plain(path, body, headers)

    stub.reply = noisy  # type: ignore[method-assign]  # this stub alone answers so
    for _ in range(3):
        held = remote.connect("predictions", stub.url, {})
        assert held.service is not None
        with kept(held, tmp_path / "ledger") as ledger:
            held.value(X)
            held.service.check("me")
            assert ledger.answers() == 20


def test_a_version_that_changes_under_way_is_refused(stub: Stub) -> None:
    held = remote.connect("predictions", stub.url, {})
    stub.version = "2"
    with pytest.raises(BadInput, match=r"expected version 1 at .*, got an answer from version 2; the model was replaced"):
        held.value(X)


def test_several_versions_must_be_told_apart(stub: Stub) -> None:
    stub.metadata = {"versions": ["1", "2"]}
    with pytest.raises(BadInput, match="has versions 1, 2 and an audit is of one; add /versions/2 to the url"):
        remote.connect("predictions", stub.url, {})
    stub.version = "2"
    assert " version 2 " in remote.connect("predictions", f"{stub.url}/versions/2", {}).identity


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again_after_the_pause_it_wants(stub: Stub, status: int, pauses: list[float]) -> None:
    held = remote.connect("predictions", stub.url, {"patience": 5.0})
    stub.asked.clear()
    stub.refusals = 3 * [(status, {"Retry-After": "1"}, {"error": "busy"})]
    np.testing.assert_array_equal(held.value(X)[:, 0], served_network.value(X))
    assert len(stub.asked) == 4
    assert pauses == [1.0, 1.0, 1.0]
    refusal: Reply = (status, {"Retry-After": "6"} if status != 500 else {}, b"<h1>sorry,\nbusy</h1>")
    stub.refusals = 4 * [refusal]
    sentence = (
        rf"answered {status} .*: <h1>sorry, busy</h1>; .*run again" if status == 500 else "left alone for 6 seconds; run"
    )
    with pytest.raises(TargetFailed, match=f"{sentence}.*: what was answered is kept"):
        held.value(X + 1)
    assert len(stub.refusals) == (0 if status == 500 else 3)


@pytest.mark.parametrize(
    ("header", "pause"),
    [("2", 2.0), (" 3600", 3600.0), ("soon", None), ("", None), ("-1", None), ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0)],
)
def test_a_pause_is_wanted_in_seconds_or_until_a_date(header: str, pause: float | None) -> None:
    assert wire.wanted_pause(header) == pause


def test_a_date_to_come_is_waited_for() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < (wire.wanted_pause(later) or 0) <= 100


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        ((400, {}, {"error": "no such tensor"}), "answered 400 Bad Request: no such tensor; check what the model takes"),
        ((422, {}, {"detail": [{"msg": "field required"}]}), "answered 422 .*field required.*; check what the model takes"),
        ((401, {}, {}), "answered 401 Unauthorized: {}; set token_env"),
        ((307, {"Location": "http://127.0.0.1/else"}, b""), "307 .*: go to http://127.0.0.1/else; use that address"),
        ((200, {}, b"<html>"), "expected JSON from .*, got '<html>'; check the address and the protocol"),
        ((200, {}, [1, 2]), r"expected V2 model metadata at .*, got \[1, 2\]; check that the server speaks V2"),
        ((200, {}, {"inputs": [{"name": "x"}]}), "expected V2 model metadata at .*; check that the server speaks V2"),
    ],
)
def test_a_refusal_is_said_once(stub: Stub, refusal: Reply, sentence: str) -> None:
    stub.refusals = [refusal]
    with pytest.raises(BadInput, match=sentence):
        remote.connect("predictions", stub.url, {})
    assert sum(path == "/v2/models/mine" for path, _, _ in stub.asked) == 1


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"outputs": [tensor_of([1.0])]}, r"expected 20 rows in the answer of .* for 20 points, got shape \(1,\)"),
        ({"outputs": [tensor_of(20 * [None])]}, "expected finite numbers in the answer of .*, got NaN or infinity"),
        ({"outputs": [tensor_of(20 * [float("nan")])]}, "expected finite numbers in the answer"),
        ({"outputs": [tensor_of(20 * ["cat"])]}, "expected numbers in the answer of .*cat.*; choose another"),
        ({"outputs": [tensor_of([1.0, 2.0], [20])]}, "expected numbers in the answer of"),
        ({"outputs": []}, r"expected \$\['outputs'\]\[0\] in the answer of .*, found nothing there; it begins"),
        ({"predictions": [1.0]}, 'found nothing there; it begins {"predictions": '),
        ([], "found nothing there; it begins \\[\\]"),
        (b'{"outputs": [{"name"', "expected JSON from .*, got '{.outputs.*'; check the address"),
    ],
)
def test_a_wrong_answer_is_named_and_not_kept(stub: Stub, tmp_path: Path, answer: Any, sentence: str) -> None:
    held = remote.connect("predictions", stub.url, {})
    with kept(held, tmp_path / "ledger") as ledger:
        stub.answer = lambda body: answer
        with pytest.raises(TargetFailed, match=sentence):
            held.value(X)
        stub.answer = None
        np.testing.assert_array_equal(held.value(X)[:, 0], served_network.value(X))
        assert ledger.sent() == (2 + 20 + 20, 3)  # what it answered wrongly it may have charged


def test_what_may_have_been_charged_is_repeated_only_where_the_auditor_allows_it(stub: Stub, tmp_path: Path) -> None:
    held = remote.connect("predictions", stub.url, {"repeat": 1})
    replies: Iterator[Any] = iter([{"outputs": []}])
    plain = stub.reply

    def once_wrong(path: str, body: Any, headers: dict[str, str]) -> Reply:
        status, said, answer = plain(path, body, headers)
        return status, said, next(replies, answer)

    stub.reply = once_wrong  # type: ignore[method-assign]  # this stub alone answers so
    with kept(held, tmp_path / "ledger") as ledger:
        np.testing.assert_array_equal(held.value(X)[:, 0], served_network.value(X))
        assert ledger.sent() == (2 + 20 + 20, 3)
        assert len(stub.rows) == 42


def test_an_explanation_that_is_no_list_of_numbers_is_named(stub: Stub) -> None:
    held = remote.connect("gradients", stub.url, {"explanation": "v1"})
    assert isinstance(held, Gradients)
    stub.answer = lambda body: {"explanations": {"meta": "anchors"}}
    with pytest.raises(TargetFailed, match=r"expected numbers in the answer of .*:explain, got .*anchors.*; choose another"):
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
    assert body["inputs"][0]["shape"] == [20, 4]
    assert body["outputs"] == [{"name": "value"}]


def test_the_token_comes_from_the_environment(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIVULGE_TEST_TOKEN", "abc\n")
    remote.connect("predictions", stub.url, {"token_env": "DIVULGE_TEST_TOKEN"}).value(X)
    assert {headers["Authorization"] for _, _, headers in stub.asked} == {"Bearer abc"}


def test_a_secret_in_an_address_comes_from_the_environment_and_stays_out_of_messages(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIVULGE_TEST_KEY", "abcdefgh")
    options = {"body": '{"inputs": [{"data": $FLAT}]}', "answer": "$.outputs[0]", "dimension": 4}
    url = f"{stub.url}/infer?code=$DIVULGE_TEST_KEY"
    held = remote.connect("predictions", url, options)
    np.testing.assert_array_equal(held.value(X)[:, 0], served_network.value(X))
    assert stub.asked[-1][0] == "/v2/models/mine/infer?code=abcdefgh"
    assert "abcdefgh" not in held.identity
    stub.answer = lambda body: {}
    with pytest.raises(TargetFailed, match="found nothing there") as raised:
        held.value(X + 1)
    assert "abcdefgh" not in str(raised.value)


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
    ["http://127.0.0.1:9/v2/models/", "http://127.0.0.1:9/v2/models/m/infer", "http://127.0.0.1:9/v2/models/m?key=1"],
)
def test_an_address_of_no_model_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match=r"expected a url such as http://127.0.0.1:8080/v2/models/mine, got"):
        remote.connect("predictions", url, {})


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080/v2/models/m", "http://me:pw@h/v2/models/m", "ftp://h/v2/models/m", "http:///m"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="a url that begins with http:// or https:// and holds no password") as raised:
        remote.connect("predictions", url, {})
    assert "pw" not in str(raised.value)


def test_an_address_without_its_protocol_asks_for_it() -> None:
    with pytest.raises(
        BadInput, match=r"expected the protocol of http://h/score, got none; write protocol = one of .*oip-v2"
    ):
        remote.connect("predictions", "http://h/score", {})


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
        (np.full((1, 4), np.nan), "expected query points that single precision can hold, got NaN or infinity"),
        (np.full((1, 4), 1e300), "expected query points that single precision can hold, got NaN or infinity"),
    ],
)
def test_points_that_cannot_be_sent_are_refused(stub: Stub, points: Array, sentence: str) -> None:
    held = remote.connect("predictions", stub.url, {"datatype": "FP32"})
    with pytest.raises(BadInput, match=sentence):
        held.value(points)


def test_the_http_client_is_loaded_only_when_it_is_used() -> None:
    code = "import sys, divulge.targets.remote; sys.exit(not {'httpx2', 'orjson', 'jsonpath'}.isdisjoint(sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", ["httpx2", "orjson", "jsonpath"])
def test_a_missing_client_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=rf"needs {package}, which is missing; run pip install 'divulge\[remote\]'"):
        remote.connect("predictions", "http://127.0.0.1:1/v2/models/m", {})
