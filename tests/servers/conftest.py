"""Real inference servers, each in an environment of its own, on loopback only.

They take hundreds of megabytes, so these tests are there only where DIVULGE_SERVERS names the folder of the environments:
`make test-servers` makes them and says so.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from divulge import datasets
from divulge.serving.processes import STARTS, free_ports, is_ready
from divulge.victims import classifiers

ENVIRONMENTS = os.environ.get("DIVULGE_SERVERS")
collect_ignore_glob = [] if ENVIRONMENTS else ["test_*.py"]

UNITS = 24
"Hidden units, as many as the demonstration's network has."


@dataclass(frozen=True)
class Running:
    """A server that answers, and what it has counted."""

    root: str
    book: Path

    @property
    def counted(self) -> list[int]:
        """The rows of every inference request so far."""
        return [int(line) for line in self.book.read_text().split()] if self.book.exists() else []


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that reads digits, as the demonstration trains it."""
    digits = datasets.load("mnist")
    rng = np.random.default_rng(0)
    made = classifiers.train(digits.X, digits.y, rng, architecture="two-layer", shape=digits.shape, width=UNITS)
    path = tmp_path_factory.mktemp("network") / "network.npz"
    (W1, b1), (W2, b2) = ((W.astype(float), b.astype(float)) for W, b in made.weights().layers)
    np.savez(path, W1=W1, b1=b1, W2=W2, b2=b2)
    return path


@pytest.fixture
def serve(network: Path, tmp_path: Path) -> Iterator[Callable[[str, str], Running]]:
    """Start a server by name, and wait until it answers at a path."""
    with ExitStack() as running:
        yield lambda name, ready: running.enter_context(_served(name, ready, network, tmp_path))


@contextmanager
def _served(name: str, ready: str, network: Path, folder: Path) -> Iterator[Running]:
    book, log = folder / "count", folder / "log"
    for _ in range(STARTS):
        (port,) = free_ports(1)
        process = _start(name, port, network, book, log)
        try:
            if is_ready(f"http://127.0.0.1:{port}{ready}", process):
                yield Running(f"http://127.0.0.1:{port}", book)
                return
        finally:
            stop(process)
    pytest.fail(f"{name} did not start:\n{log.read_text()}")


def _start(name: str, port: int, network: Path, book: Path, log: Path) -> "subprocess.Popen[bytes]":
    tests = Path(__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": str(tests),
        "DIVULGE_NETWORK": str(network),
        "DIVULGE_COUNT": str(book),
        "BENTOML_DO_NOT_TRACK": "true",
        "BENTOML_HOME": str(log.parent / "bentoml"),
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [str(Path(str(ENVIRONMENTS)) / name / "bin" / "python"), "-m", f"servers.{name}.serve", str(port)]
    with log.open("a") as output:
        return subprocess.Popen(command, env=environment, cwd=tests, stdout=output, stderr=output, start_new_session=True)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End the server with the workers that it started, which are its session."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):  # all of them had ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
