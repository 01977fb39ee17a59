"""How audits behave towards a server: pace, number at once, name, proxy, certificates, and what they keep to themselves."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Condition, Lock, Thread
from typing import Any

import numpy as np
import pytest

from divulge import __version__
from divulge.contract import Gradients
from divulge.targets import remote, wire
from divulge.targets.ledger import Ledger

from .misbehaving import Fault, FaultyServer, described, finding, network, running, said, sent

MODEL = network(3)
OPTIONS = {"output": "value", "explanation": "output:gradient"}
PATIENCE = 300.0
"Seconds for another thread or process on a loaded machine, before it is called broken."


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with running(FaultyServer(MODEL)) as made:
        yield made


# Pace.


def test_requests_keep_the_pace_that_the_auditor_sets(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, times = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(wire, "sleep", sleep)
    monkeypatch.setattr(wire, "clock", lambda: now[0])

    class Timed(FaultyServer):
        def infer(self, asked: dict[str, Any]) -> dict[str, Any]:
            times.append(now[0])
            return super().infer(asked)

    with running(Timed(MODEL)) as server:
        code, found, err = said(capfd, described(tmp_path, server.url, "rate = 4"), tmp_path / "run")
        assert (code, err, found["leaks"]) == (0, "", 1)
        assert sent(found) == server.count
    assert len(times) > 50
    np.testing.assert_allclose(np.diff(times), 0.25, rtol=1e-9)


# Several at once.


class Together(FaultyServer):
    """Answers only when so many requests are there at once, and knows how many there ever were."""

    def __init__(self, at_once: int) -> None:
        super().__init__(MODEL)
        self.barrier: Barrier | None = None
        self.at_once, self.most, self.here = at_once, 0, 0
        self.lock = Lock()

    def infer(self, asked: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            self.here += 1
            self.most = max(self.most, self.here)
        try:
            if self.barrier is not None:
                self.barrier.wait(PATIENCE)
            return super().infer(asked)
        finally:
            with self.lock:
                self.here -= 1


def test_as_many_requests_as_allowed_are_under_way_at_once_and_never_more(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    with running(Together(3)) as server:
        assert isinstance(server, Together)
        held = remote.connect("gradients", server.url, {**OPTIONS, "batch": 2, "concurrency": 3})
        assert isinstance(held, Gradients)
        assert held.service is not None
        with Ledger(tmp_path / "ledger") as ledger, held.service.keeping(ledger, print):
            server.barrier = Barrier(3)  # fifteen requests, three at a time: with fewer at once, none would be answered
            values, gradients = held.value(X), held.gradient(X)
            assert ledger.sent() == server.count == (2 + 30, 1 + 15)
            assert ledger.answers() == 30
        assert server.most == 3
    np.testing.assert_allclose(values, MODEL.predict(X), rtol=1e-12)
    np.testing.assert_allclose(gradients, Gradients.of(MODEL).gradient(X), rtol=1e-12)


def test_an_audit_finds_the_same_however_many_requests_are_under_way(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = {}
    with running(Together(4)) as server:
        for at_once in (1, 4):
            server.rows = server.requests = 0
            path = described(tmp_path, server.url, f"concurrency = {at_once}").read_text().replace("batch = 8", "batch = 1")
            (tmp_path / "audit.toml").write_text(path)
            code, told, err = said(capfd, tmp_path / "audit.toml", tmp_path / f"run{at_once}")
            assert (code, err) == (0, "")
            assert sent(told) == server.count
            found[at_once] = finding(tmp_path / f"run{at_once}"), server.count
        assert isinstance(server, Together)
        assert server.most <= 4
    assert found[1] == found[4]


class Holding(FaultyServer):
    """Once so many rows are answered, keeps every request back until it is told to answer."""

    def __init__(self) -> None:
        super().__init__(MODEL)
        self.sizes: list[int] = []
        self.enough: int | None = None
        self.here = 0
        self.changed = Condition()

    def infer(self, asked: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            self.sizes.append(asked["inputs"][0]["shape"][0])
            if self.enough is not None and self.rows >= self.enough:
                self.here += 1
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.enough is None, PATIENCE)
        return super().infer(asked)


LISTENING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from divulge import cli
sys.exit(cli.main(sys.argv[1:]))
"""
"The command line in the foreground: a shell hands what it starts in the background an interrupt that is ignored."


def test_ctrl_c_with_requests_under_way_loses_no_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running(Holding()) as server:
        assert isinstance(server, Holding)
        path = described(tmp_path, server.url)
        said(capfd, path, tmp_path / "eight at a time")
        whole, full = server.rows, server.sizes.index(8)
        server.enough = sum(server.sizes[:full])  # then eight points are asked for in one go
        server.rows = server.requests = 0
        path.write_text(path.read_text().replace("batch = 8", "batch = 1\nconcurrency = 3\ntimeout = 300.0"))
        command = [sys.executable, "-c", LISTENING, "audit", str(path), "--out", str(tmp_path / "run"), "--json"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        with server.changed:
            assert server.changed.wait_for(lambda: server.here >= 3, PATIENCE)
        process.send_signal(signal.SIGINT)
        with server.changed:
            server.enough = None
            server.changed.notify_all()
        _, err = process.communicate()
        assert process.returncode == 130
        assert "run the same command again to go on" in err
        assert "Traceback" not in err
        with Ledger(tmp_path / "run" / "ledger.sqlite") as ledger:
            assert ledger.sent() == server.count
            assert ledger.answers() == server.rows - 2  # all but the look
        code, told, err = said(capfd, path, tmp_path / "run")
        assert (code, err, told["leaks"]) == (0, "", 1)
        assert sent(told) == server.count
        assert server.rows == whole + 2  # one more look, and no answer paid for twice
        said(capfd, path, tmp_path / "undisturbed")
        assert finding(tmp_path / "run") == finding(tmp_path / "undisturbed")


# Name and secrets.


def test_every_request_says_who_asks(server: FaultyServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said(capfd, described(tmp_path, server.url), tmp_path / "run")
    assert {headers["User-Agent"] for headers in server.heard} == {f"divulge/{__version__} (model audit)"}


TOKEN = "s3cret-Tok3n-that-nobody-else-may-read"


def told_back(status: int, before: int) -> Fault:
    """The token in the answer, after so many other letters."""
    return lambda handler, tree: handler.plain(status, b"x" * before + handler.headers["Authorization"].encode())


@pytest.mark.parametrize(
    "fault", [None, told_back(401, 0), told_back(500, 0), told_back(500, 175), told_back(200, 0), told_back(200, 175)]
)
@pytest.mark.parametrize("number", [1, 20])
def test_a_secret_stands_nowhere_even_where_the_server_repeats_it(
    server: FaultyServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    fault: Fault | None, number: int,
) -> None:  # fmt: skip
    monkeypatch.setenv("MINE", TOKEN)
    monkeypatch.setattr(wire, "sleep", lambda seconds: None)
    server.faults, server.for_ever = ({number: fault} if fault else {}), True
    path = described(tmp_path, server.url, 'token_env = "MINE"')
    _, told, err = said(capfd, path, tmp_path / "run")
    assert {headers["Authorization"] for headers in server.heard} == {f"Bearer {TOKEN}"}
    written = [content.read_bytes() for content in tmp_path.rglob("*") if content.is_file()]
    assert written
    for content in (*written, str(told).encode(), err.encode()):
        assert TOKEN[:8].encode() not in content


# Proxy.


@contextmanager
def forwarding() -> Iterator[tuple[str, list[str]]]:
    """A forward proxy on loopback: its address, and what it was asked for."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._forward(None)

        def do_POST(self) -> None:
            self._forward(self.rfile.read(int(self.headers["Content-Length"])))

        def _forward(self, content: bytes | None) -> None:
            seen.append(self.path)
            target = urllib.parse.urlsplit(self.path)
            beyond = http.client.HTTPConnection(target.netloc)
            beyond.request(self.command, target.path, content, {"Content-Type": "application/json"})
            answer = beyond.getresponse()
            body = answer.read()
            beyond.close()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{proxy.server_port}", seen
        proxy.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("where", "exempt", "used"),
    [("option", "127.0.0.1", True), ("environment", "", True), ("environment", "127.0.0.1", False), ("nowhere", "", False)],
)
def test_a_proxy_is_used_where_the_auditor_or_the_environment_names_one(
    server: FaultyServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    where: str, exempt: str, used: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv("NO_PROXY", exempt)
    with forwarding() as (proxy, seen):
        if where == "environment":
            monkeypatch.setenv("HTTP_PROXY", proxy)
        options = f'proxy = "{proxy}"' if where == "option" else ""
        code, told, err = said(capfd, described(tmp_path, server.url, options), tmp_path / "run")
    assert (code, err, told["leaks"]) == (0, "", 1)
    assert sent(told) == server.count
    assert set(seen) == ({server.url, f"{server.url}/infer"} if used else set())


# Certificates.


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server and a client of one's own."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no openssl found: install it")
        pytest.skip("no openssl found: install it to make certificates")
    folder = tmp_path_factory.mktemp("certificates")
    fresh = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    openssl(*fresh, "-x509", "-days", "30", "-subj", "/CN=authority", *usage, "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("server", "client"):
        (folder / f"{name}.ext").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
        openssl(*fresh, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", f"{name}.ext"]
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return folder


class Secure(FaultyServer):
    """Speaks TLS, and may ask for the client's certificate."""

    def __init__(self, folder: Path, asks: bool) -> None:
        super().__init__(MODEL)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(folder / "ca.pem")
        self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def url(self) -> str:
        return super().url.replace("http://", "https://")


@pytest.mark.parametrize(
    ("asks", "options", "works"),
    [
        (False, "", False),
        (False, 'authority = "ca.pem"', True),
        (True, 'authority = "ca.pem"', False),
        (True, 'authority = "ca.pem"\ncertificate = "client.pem"\nkey = "client.key"', True),
    ],
)
def test_certificates_are_checked_on_both_sides(
    certificates: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    asks: bool, options: str, works: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(wire, "sleep", lambda seconds: None)
    with running(Secure(certificates, asks)) as server:
        code, told, err = said(capfd, described(certificates, server.url, options), tmp_path / "run")
        if works:
            assert (code, err, told["leaks"]) == (0, "", 1)
            assert sent(told) == server.count
        else:
            assert (code, told) == (2, {})
            assert len(err.splitlines()) == 1
            assert "certificate" in err
            assert server.count == (0, 0)
            assert ("option 'authority'" in err) or ("'certificate' and 'key'" in err)


@pytest.mark.parametrize("option", ["authority", "certificate"])
def test_a_certificate_that_cannot_be_read_is_named(option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = described(tmp_path, "https://127.0.0.1:9/v2/models/mine", f'{option} = "nowhere.pem"')
    code, _, err = said(capfd, path, tmp_path / "run")
    assert code == 2
    assert "cannot read the certificates: " in err


def test_a_pause_that_a_server_asks_of_one_request_holds_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(wire, "sleep", sleep)
    monkeypatch.setattr(wire, "clock", lambda: now[0])
    with running(FaultyServer(MODEL)) as server:
        held = remote.connect("gradients", server.url, OPTIONS)
        server.faults = {2: lambda handler, tree: handler.plain(429, b"{}", {"Retry-After": "7"})}
        X = np.random.default_rng(0).standard_normal((3, 4))
        held.value(X[:1])
        assert slept == [7.0]  # the request itself, which is then sent again
        held.value(X[1:2])
        assert slept == [7.0, 7.0]  # the clock stands still: the next one waits as long
        now[0] = 8.0
        held.value(X[2:])
        assert slept == [7.0, 7.0]
