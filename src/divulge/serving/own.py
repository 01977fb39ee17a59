"""A server of the package's own, with nothing but the standard library behind it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np

from divulge.contract import Gradients, Weights
from divulge.errors import BadInput, TargetFailed
from divulge.serving.network import NAME, answer, metadata, save

HOST = "127.0.0.1"
LARGEST = 256 * 2**20
"Bytes of a request that are read."


class Server(ThreadingHTTPServer):
    """Answers logits as `value` and their input gradients as `gradient`; counts what it was sent."""

    daemon_threads = True

    def __init__(
        self, network: Weights, name: str = NAME, port: int = 0, handler: type[BaseHTTPRequestHandler] | None = None
    ) -> None:
        super().__init__((HOST, port), handler or Handler)
        self.model = Gradients.of(network)
        self.name = name
        self.rows = self.requests = 0
        self._counting = Lock()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/v2/models/{self.name}"

    def infer(self, asked: dict[str, Any]) -> dict[str, Any]:
        X = np.asarray(asked["inputs"][0]["data"], dtype=float).reshape(-1, self.model.dimension)
        with self._counting:
            self.rows, self.requests = self.rows + len(X), self.requests + 1
        outputs = []
        for name in [output["name"] for output in asked.get("outputs") or ()] or ["value"]:
            found = answer(self.model, name, X)
            outputs.append({"name": name, "datatype": "FP64", "shape": list(found.shape), "data": found.ravel()})
        return {"model_name": self.name, "model_version": "1", "outputs": outputs}


class Handler(BaseHTTPRequestHandler):
    """Speaks for a server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes, and the second would wait for the first's receipt
    server: Server

    def do_GET(self) -> None:
        if self.path == f"/v2/models/{self.server.name}":
            self.say(200, metadata(self.server.name, self.server.model.dimension))
        elif self.path == "/v2":
            self.say(200, {"name": "divulge", "version": "1", "extensions": []})
        else:
            self.say(404, {"error": f"nothing at {self.path}"})

    def do_POST(self) -> None:
        import orjson

        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= LARGEST:
            self.close_connection = True
            self.say(413, {"error": f"a request of {length} bytes is too large"})
            return
        content = self.rfile.read(length)
        if self.path == "/v2/repository/index":
            self.say(200, [{"name": self.server.name, "state": "READY"}])
        elif self.path != f"/v2/models/{self.server.name}/infer":
            self.say(404, {"error": f"nothing at {self.path}"})
        else:
            try:
                said = self.server.infer(orjson.loads(content))
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                self.say(400, {"error": f"{type(error).__name__}: {error}"})
            else:
                self.say(200, said)

    def say(self, status: int, said: Any) -> None:
        import orjson

        content = orjson.dumps(said, option=orjson.OPT_SERIALIZE_NUMPY)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(network: Weights) -> Iterator[str]:
    """The address of a network that a process of its own serves."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.npz"
        save(network, path)
        command = [sys.executable, "-m", "divulge.serving", str(path)]
        with _started(command, environment) as address:
            yield address


@contextmanager
def _started(command: list[str], environment: dict[str, str]) -> Iterator[str]:
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = (process.stdout.readline() if process.stdout else "").strip()
            if not address:
                raise TargetFailed("the demonstration's server did not start; run python -m divulge.serving to see why")
            yield address
        finally:
            process.terminate()


def main() -> int:
    """Serve until the process that started this one ends."""
    from threading import Thread

    from divulge.targets import files

    try:
        network = files.read("weights", Path(sys.argv[1]), {})
    except (IndexError, BadInput) as error:
        sys.stderr.write(f"error: expected the file of a network: {error}\n")
        return 2
    assert isinstance(network, Weights)
    with Server(network) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()  # ends with whoever holds the other end
    return 0
