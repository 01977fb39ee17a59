"""Audits of real servers over their own protocols: what they give away, and what the audit says that it asked."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from divulge.serving.processes import PATIENCE

from .conftest import Running

pytestmark = pytest.mark.servers

DIGITS = 1e-8
"Errors of recovered weights, as a share: double precision survives JSON, so they are near 1e-13."


@dataclass(frozen=True)
class Server:
    """How a server is addressed, and what its users add to the preset where the answer has fields of their own."""

    name: str
    protocol: str
    address: str
    ready: str
    fields: str = ""

    def audit(self, root: str, network: Path) -> str:
        return f"""
attacks = ["gradient-extraction"]

[held.api]
kind = "gradients"
url = "{root}{self.address}"
protocol = "{self.protocol}"
dimension = 784
batch = 64
{self.fields}
[truth.weights]
file = "{network}"
"""


def both(place: str) -> str:
    return f'answer = "{place}.logits"\n\n[held.api.explanation]\nanswer = "{place}.gradients"\n'


SERVERS = [
    Server("kserve", "kserve-v1", "/v1/models/mine", "/v1/models/mine"),
    Server("mlflow", "mlflow", "/invocations", "/ping", both("$.predictions")),
    Server("bentoml", "bentoml", "/predict", "/readyz", both("$")),
    Server("litserve", "litserve", "/predict", "/health", both("$.output")),
]
every_server = pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)


def divulge(folder: Path, *arguments: str) -> dict[str, Any]:
    """What a command that ends well says to a machine."""
    command = [sys.executable, "-m", "divulge.cli", *arguments, "--json"]
    environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def audited(folder: Path, text: str) -> dict[str, Any]:
    (folder / "audit.toml").write_text(text)
    return divulge(folder, "audit", "audit.toml")


def sent(said: dict[str, Any]) -> tuple[int, int]:
    """Rows and requests that an audit says it sent."""
    parts = [*said["findings"], *said["sent"].values()]
    return sum(part["rows"] for part in parts), sum(part["requests"] for part in parts)


@every_server
def test_a_network_is_recovered_from_a_server_that_explains_it(
    server: Server, serve: Callable[[str, str], Running], network: Path, tmp_path: Path
) -> None:
    running = serve(server.name, server.ready)
    said = audited(tmp_path, server.audit(running.root, network))
    (finding,) = said["findings"]
    assert (finding["attack"], finding["verdict"]) == ("gradient-extraction", "leak"), finding["summary"]
    assert finding["scores"]["largest weight error"]["value"] < DIGITS
    assert sent(said) == (sum(running.counted), len(running.counted))
    assert max(running.counted) <= 64


@every_server
def test_a_second_audit_asks_only_what_connecting_costs(
    server: Server, serve: Callable[[str, str], Running], network: Path, tmp_path: Path
) -> None:
    running = serve(server.name, server.ready)
    text = server.audit(running.root, network)
    first = audited(tmp_path, text)
    before = sum(running.counted)
    second = audited(tmp_path, text)
    assert second["findings"] == first["findings"]
    assert sum(running.counted) - before == second["sent"]["looking"]["rows"] - first["sent"]["looking"]["rows"]
    assert sent(second) == (sum(running.counted), len(running.counted))


@every_server
def test_a_first_look_at_the_host_finds_what_a_user_would_write(
    server: Server, serve: Callable[[str, str], Running], network: Path, tmp_path: Path
) -> None:
    running = serve(server.name, server.ready)
    divulge(tmp_path, "init", f"{running.root}#dimension=784")
    found = tomllib.loads((tmp_path / "AUDIT.toml").read_text())["held"]["api"]
    assert found.pop("explained") == {"kind": "gradient", "of": "each output"}
    written = tomllib.loads(server.audit(running.root, network))["held"]["api"]
    assert found | {"batch": 64} == written


@every_server
def test_a_server_listens_on_loopback_only(server: Server, serve: Callable[[str, str], Running]) -> None:
    running = serve(server.name, server.ready)
    port = int(running.root.rpartition(":")[2])
    assert listening(port) == {"0100007F"}


def listening(port: int) -> set[str]:
    """The addresses at which sockets wait on a port, as Linux writes them: four bytes, lowest first."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            place, state = line.split()[1], line.split()[3]
            if state == "0A" and int(place.rpartition(":")[2], 16) == port:
                found.add(place.rpartition(":")[0])
    return found
