"""Every protocol reads what its servers say: answers recorded from real ones, and as their documentation prints them."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from divulge.errors import BadInput, TargetFailed
from divulge.targets import protocols, remote
from divulge.targets.messages import Answer, Body, gradients, parsed
from divulge.targets.service import RemoteService
from divulge.targets.wire import Sending

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))
EXCHANGES = [
    pytest.param(path.stem, exchange, id=f"{path.stem}-{number}")
    for path in RECORDINGS
    for number, exchange in enumerate(json.loads(path.read_text())["exchanges"])
]


class Replay:
    """A loopback server that gives one answer, and remembers what it was asked."""

    def __init__(self) -> None:
        self.url = self.answer = ""
        self.asked: list[tuple[str, str]] = []


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replay]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Replay()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            made.asked.append((self.path, body))
            content = made.answer.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_port}"
        yield made
        server.shutdown()
        thread.join()


def test_every_protocol_but_v2_has_a_recording() -> None:
    # V2 is asked of MLServer itself, in the tests beside this one.
    assert {path.stem for path in RECORDINGS} == set(protocols.names()) - {"oip-v2"}


@pytest.mark.parametrize("name", protocols.names())
def test_a_protocol_says_what_it_is_and_how_it_is_addressed(name: str) -> None:
    preset = protocols.read(name)
    assert preset.about
    assert preset.described.startswith("https://")
    assert preset.address.startswith("http")
    assert preset.predict.body


@pytest.mark.parametrize(("protocol", "exchange"), EXCHANGES)
def test_an_answer_of_a_server_is_read_as_it_is_meant(
    protocol: str, exchange: dict[str, Any], replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_ML_KEY", "VERTEX_AI_TOKEN"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setattr(RemoteService, "_look", lambda self, *, first=False: ())
    X = np.array(exchange["points"], dtype=float)
    options: dict[str, Any] = {"protocol": protocol, **exchange.get("options", {})}
    if exchange["columns"]:
        options["columns"] = exchange["columns"]
    elif "shape" not in options:
        options["dimension"] = X.shape[1]
    what = "gradient" if exchange["call"] == "explain" else "value"
    kind = "gradients" if what == "gradient" else "predictions"
    here = re.sub("^https?://[^/]+", replay.url, exchange["address"])
    held = remote.connect(kind, here, _here(options, replay.url))
    assert isinstance(held.service, RemoteService)
    asked = held.service._exchanges[what]
    replay.answer = exchange["response"]
    parts = dict(zip(asked.answers, asked.ask(X, Sending()), strict=True))
    path, body = replay.asked[-1]
    assert path == re.sub("^https?://[^/]+", "", exchange["url"])
    assert _same(body, exchange["request"])
    if what == "gradient":
        expected = np.array(exchange["gradients"], dtype=float)
        np.testing.assert_array_equal(parts["gradient"].reshape(expected.shape), expected)
        assert parts["gradient"].shape[-1] == X.shape[1]
    if "value" in parts:
        np.testing.assert_array_equal(parts["value"], np.array(exchange["values"], dtype=float).reshape(len(X), -1))


def _here(options: Any, url: str) -> Any:
    """Options that name a host, with the one that replays."""
    if isinstance(options, dict):
        return {key: _here(value, url) for key, value in options.items()}
    return re.sub("^https?://[^/]+", url, options) if isinstance(options, str) else options


def _same(one: str, other: str) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return one.split() == other.split()


X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("template", "body"),
    [
        ('{"inputs": $X}', b'{"inputs": [[0.0,1.0,2.0],[3.0,4.0,5.0]]}'),
        ('{"d": $RECORDS}', b'{"d": [{"a":0.0,"b":1.0,"c":2.0},{"a":3.0,"b":4.0,"c":5.0}]}'),
        ('{"c": $COLUMNS, "d": $X}', b'{"c": ["a","b","c"], "d": [[0.0,1.0,2.0],[3.0,4.0,5.0]]}'),
        ('{"s": $SHAPE, "n": $N, "d": $FLAT}', b'{"s": [2,3], "n": 2, "d": [0.0,1.0,2.0,3.0,4.0,5.0]}'),
        ("$CSV", b"0.0,1.0,2.0\n3.0,4.0,5.0"),
        ('{"price": "$XL", "x": $X}', b'{"price": "$XL", "x": [[0.0,1.0,2.0],[3.0,4.0,5.0]]}'),
    ],
)
def test_points_go_where_the_body_says(template: str, body: bytes) -> None:
    assert Body(template, (3,), ["a", "b", "c"], single=False).filled(X) == body


def test_points_have_the_shape_that_pictures_have() -> None:
    assert Body("$X", (1, 3), (), single=False).filled(X) == b"[[[0.0,1.0,2.0]],[[3.0,4.0,5.0]]]"
    assert Body("$ROW", (3, 1), (), single=False).filled(X[:1]) == b"[[0.0],[1.0],[2.0]]"


@pytest.mark.parametrize("single", [True, False])
def test_no_digit_is_lost_on_the_way(single: bool) -> None:
    points = np.random.default_rng(0).standard_normal((5, 4)) * 1e-7
    sent = json.loads(Body("$X", (4,), (), single=single).filled(points))
    np.testing.assert_array_equal(
        np.array(sent, dtype=np.float32 if single else float), points.astype(np.float32) if single else points
    )


@pytest.mark.parametrize(
    ("template", "columns", "sentence"),
    [
        ('{"inputs": 3}', (), r"expected a body in which \$X stands for the points, got"),
        ('{"inputs": $X', (), "expected a body that is JSON once points are filled in"),
        ("$RECORDS", (), "expected the names of the features for such a body, got none; list them as columns"),
    ],
)
def test_a_body_that_cannot_be_sent_is_refused(template: str, columns: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Body(template, (3,), columns, single=False)


@pytest.mark.parametrize(
    ("path", "decode", "said", "numbers"),
    [
        ("$.p", "json", {"p": [1, 2]}, [[1], [2]]),
        ("$.p", "json", {"p": [[1, 2], [3, 4]]}, [[1, 2], [3, 4]]),
        ("$.p[*].s", "json", {"p": [{"s": [1, 2]}, {"s": [3, 4]}]}, [[1, 2], [3, 4]]),
        ("$.p[*].s[*]", "json", {"p": [{"s": [1, 2]}, {"s": [3, 4]}]}, [[1, 2], [3, 4]]),
        ("$.p", "json", {"p": [{"b": 2, "a": 1}, {"a": 3, "b": 4}]}, [[1, 2], [3, 4]]),
        ("$.p", "json", {"p": [{"out": [1, 2]}, {"out": [3, 4]}]}, [[1, 2], [3, 4]]),
        ("$.p", "json", {"p": {"shape": [2, 2], "data": [1, 2, 3, 4]}}, [[1, 2], [3, 4]]),
        (["$.p", "$.q"], "string", {"p": '{"q": [[1, 2], [3, 4]]}'}, [[1, 2], [3, 4]]),
        ("$.p", "csv", {"p": "1,2\n3,4\n"}, [[1, 2], [3, 4]]),
        ("$.p", "csv", {"p": "1,2"}, [[1], [2]]),
        ("$", "csv", "1,2\n3,4", [[1, 2], [3, 4]]),
    ],
)
def test_numbers_are_found_however_they_are_wrapped(path: Any, decode: Any, said: Any, numbers: Any) -> None:
    found = Answer.at(path, decode, ("a", "b")).read(said, 2, "http://h")
    np.testing.assert_array_equal(found.reshape(2, -1), np.array(numbers, dtype=float))


@pytest.mark.parametrize(
    ("path", "decode", "said", "sentence"),
    [
        (
            "$.q",
            "json",
            {"p": 300 * "x"},
            r"expected \$\['q'\] in the answer of http://h, found nothing there; it begins {.p.*…$",
        ),
        ("$.p", "json", {"p": [1, 2, 3]}, "expected 2 rows in the answer of http://h for 2 points"),
        ("$.p", "json", {"p": {"a": [1], "c": [2]}}, "expected numbers in the answer of http://h, got"),
        ("$.p", "json", {"p": [1, None]}, "expected finite numbers in the answer of http://h, got NaN"),
        ("$.p", "csv", {"p": "1;2"}, "expected lines of numbers from http://h, got 1;2"),
        (["$.p", "$.q"], "string", {"p": "no JSON"}, "expected JSON from http://h, got 'no JSON'"),
    ],
)
def test_an_answer_that_cannot_be_read_is_shown(path: Any, decode: Any, said: Any, sentence: str) -> None:
    with pytest.raises(TargetFailed, match=sentence):
        Answer.at(path, decode, ("a", "b")).read(said, 2, "http://h")


@pytest.mark.parametrize(
    ("path", "decode", "sentence"),
    [
        ("$.[", "json", r"expected a JSONPath such as \$.predictions, got '\$.\['"),
        ("$.p", "string", "expected two JSONPaths for text that holds JSON"),
    ],
)
def test_a_path_that_is_none_is_refused(path: str, decode: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Answer.at(path, decode, ())


def test_json_with_nan_is_read_and_what_is_no_json_is_shown() -> None:
    assert np.isnan(parsed(b"[NaN]", "http://h")[0])
    with pytest.raises(
        TargetFailed, match="expected JSON from http://h, got '<html> busy'; check the address and the protocol"
    ):
        parsed(b"<html>\nbusy", "http://h")


@pytest.mark.parametrize(
    ("shape", "item", "becomes"),
    [((5, 6), (6,), (5, 6)), ((5, 2, 3), (2, 3), (5, 6)), ((5, 4, 6), (6,), (5, 4, 6)), ((5, 24), (6,), (5, 4, 6)),
     ((5, 4, 2, 3), (2, 3), (5, 4, 6))],
)  # fmt: skip
def test_explanations_are_flat_or_a_jacobian(
    shape: tuple[int, ...], item: tuple[int, ...], becomes: tuple[int, ...]
) -> None:
    assert gradients(np.zeros(shape), item, "http://h").shape == becomes


@pytest.mark.parametrize("shape", [(5,), (5, 7), (5, 6, 4), (5, 2, 4)])
def test_what_is_no_explanation_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(TargetFailed, match=r"expected explanations of shape \(n, 6\) or \(n, outputs, 6\)"):
        gradients(np.zeros(shape), (6,), "http://h")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"protocol": "mlfow"}, "protocol: unknown key 'mlfow'; did you mean 'mlflow'?"),
        ({"protocol": "mlflow"}, "expected the width of one point, got none; give option 'dimension', 'shape' or 'columns'"),
        ({"protocol": "mlflow", "dimension": 3, "columns": ["a"]}, "got 1 columns and dimension 3; give one of them"),
        ({"protocol": "mlflow", "dimension": 3, "shape": [2, 2]}, r"a shape of \(2, 2\) does not hold 3 numbers"),
        ({"protocol": "mlflow", "dimension": 3, "form": "split"}, "form of protocol mlflow: unknown key 'split'"),
        ({"protocol": "mlflow", "dimension": 3}, "protocol mlflow has no explanations of its own, so say where they are"),
        ({"protocol": "mlflow", "dimension": 3, "explanation": "v1"}, "got explanation = 'v1', which is of protocol oip-v2"),
        (
            {"protocol": "mlflow", "dimension": 3, "explanation": {"anser": "$"}},
            "unknown key 'anser'; did you mean 'answer'?",
        ),
        ({"protocol": "mlflow", "dimension": 3, "explanation": {"answer": 3}}, "option 'answer"),
        ({"protocol": "oip-v2", "body": "$X"}, "option 'body' is not for protocol oip-v2, which says it itself"),
        ({"protocol": "azure-ml", "dimension": 3}, "in the environment variable AZURE_ML_KEY, got nothing; set it"),
    ],
)
def test_options_that_do_not_fit_are_named_before_anything_is_sent(
    options: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_ML_KEY", raising=False)
    with pytest.raises(BadInput, match=sentence):
        remote.connect("gradients", "http://127.0.0.1:9/v2/models/m", options)


@pytest.mark.parametrize(
    ("url", "protocol", "root"),
    [
        ("http://h:1", "mlflow", "http://h:1/invocations"),
        ("http://h:1/", "mlflow", "http://h:1/invocations"),
        ("http://h:1/invocations", "mlflow", "http://h:1/invocations"),
        ("http://h:1/mine", "mlflow", "http://h:1/mine"),
        ("http://h/v1/models/m:predict", "kserve-v1", "http://h/v1/models/m"),
        ("http://h/v1/models/m:explain", "kserve-v1", "http://h/v1/models/m"),
        ("http://h/v2/models/m-explainer/infer", "seldon", "http://h/v2/models/m"),
    ],
)
def test_what_people_copy_along_with_an_address_is_no_part_of_it(url: str, protocol: str, root: str) -> None:
    assert remote.root_of(url, protocols.read(protocol)) == root
