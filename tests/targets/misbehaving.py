"""A model server that misbehaves at chosen requests, and what an audit of it says."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from divulge import Weights, cli
from divulge.auditing import reopen
from divulge.contract import Cost
from divulge.serving import Handler, Server
from divulge.storage import fingerprint

Fault = Callable[["Misbehaving", Any], None]
"Says something else than the answer, which it is given."

AUDIT = """
attacks = ["gradient-extraction"]
[held.api]
kind = "gradients"
url = "{url}"
output = "value"
explanation = "output:gradient"
batch = 8
{options}
"""


def network(seed: int, inputs: int = 4, units: int = 6, outputs: int = 2) -> Weights:
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((units, inputs)), rng.standard_normal(units)
    return Weights((first, (rng.standard_normal((outputs, units)), rng.standard_normal(outputs))))


class FaultyServer(Server):
    """Answers as it should, but for requests that have a fault."""

    def __init__(self, model: Weights, port: int = 0) -> None:
        super().__init__(model, "mine", port, Misbehaving)
        self.faults: dict[int, Fault] = {}
        "By the number of the request, from 1."
        self.for_ever = False
        "Whether a fault stays."
        self.released = Event()
        "Lets those go that were never answered."
        self.heard: list[dict[str, str]] = []
        "The headers of every request."

    @property
    def count(self) -> tuple[int, int]:
        return self.rows, self.requests

    def due(self) -> Fault | None:
        """What is wrong with the request that was counted last: clients here ask one after the other."""
        if self.for_ever:
            return next((fault for number, fault in self.faults.items() if self.requests >= number), None)
        return self.faults.get(self.requests)

    def handle_error(self, *_: object) -> None:
        """Connections that are cut on purpose."""


class Misbehaving(Handler):
    """Counts a request as every server does, then says what the fault wants."""

    server: FaultyServer

    def say(self, status: int, said: Any) -> None:
        self.server.heard.append(dict(self.headers.items()))
        fault = self.server.due() if self.command == "POST" else None
        if fault is None:
            super().say(status, said)
        else:
            fault(self, said)

    def plain(self, status: int, content: bytes, headers: dict[str, str] | None = None, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def hang_up(self, *, reset: bool = False) -> None:
        self.close_connection = True
        self.wfile.flush()
        if reset:  # what was sent is not waited for: the other end is told that the connection is gone
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


@contextmanager
def running(server: FaultyServer) -> Iterator[FaultyServer]:
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def described(folder: Path, url: str, options: str = "") -> Path:
    path = folder / "audit.toml"
    path.write_text(AUDIT.format(url=url, options=options))
    return path


def said(capfd: pytest.CaptureFixture[str], path: Path, out: Path) -> tuple[int, dict[str, Any], str]:
    """Exit code, what a machine gets, and what stands in the terminal."""
    code = cli.main(["audit", str(path), "--out", str(out), "--json"])
    streams = capfd.readouterr()
    assert "Traceback" not in streams.err
    return code, json.loads(streams.out) if streams.out else {}, streams.err


def sent(found: dict[str, Any]) -> tuple[int, int]:
    """Rows and requests that an audit says it sent."""
    parts = [*found["findings"], *found["sent"].values()]
    return sum(part["rows"] for part in parts), sum(part["requests"] for part in parts)


def finding(out: Path) -> str:
    """Everything that was found, without what it cost."""
    record = reopen(out)
    return fingerprint([record.complete, *(replace(one, cost=Cost(one.cost.points)) for one in record.findings)])
