"""What the adapter and the ledger add to an audit of a model on a server, beyond what the server itself takes.

The same attack, twice: on a model in memory where every request (up to 256 points, values and gradients together) takes a
millisecond more, and through adapter and ledger (on disk) with a transport that answers in the same process after the same
millisecond. What the model takes to compute, and what a server takes to read and write JSON, is measured and left out on
both sides. What remains is making bodies, parsing, decoding, and the books. The two are run in turn; medians with the
least and the most. For information: the same against a real server on loopback, nothing left out.

`python bench/remote_overhead.py`, or with names such as 784-300-1; --profile shows where the time goes.
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson

from divulge.attacks import GradientExtraction
from divulge.contract import Array, Context, Finding, Gradients, Weights
from divulge.runner import one_blas_thread
from divulge.serving import Server, served
from divulge.storage import fingerprint
from divulge.targets import remote, wire
from divulge.targets.ledger import Ledger

DELAY = 0.001
BATCH = 256
NETWORKS = ("4-16-1", "100-50-1", "784-24-10", "784-300-1")
OPTIONS = {"output": "value", "explanation": "output:gradient", "batch": BATCH}


class InMemory:
    """A model that takes a millisecond more for every request; what it computes is timed."""

    def __init__(self, network: Weights) -> None:
        self.model = Gradients.of(network)
        self.apart = 0.0
        self.requests = 0
        self.last: Array | None = None

    def held(self) -> Gradients:
        return Gradients(self.value, self.model.dimension, gradient=self.gradient)

    def value(self, X: Array) -> Array:
        return self._answer(self.model.value, X)

    def gradient(self, X: Array) -> Array:
        return self._answer(self.model.gradient, X)

    def _answer(self, ask: Callable[[Array], Array], X: Array) -> Array:
        began = time.perf_counter()
        answers = [ask(X[start : start + BATCH]) for start in range(0, len(X), BATCH)]
        self.apart += time.perf_counter() - began
        if self.last is None or not np.array_equal(self.last, X):  # values and gradients come in one answer
            for _ in answers:
                time.sleep(DELAY)
                self.requests += 1
        self.last = X.copy()
        return np.concatenate(answers)


class SameProcess:
    """A transport that answers at once, but for the millisecond; what a server would do is timed."""

    def __init__(self, network: Weights) -> None:
        self.server = Server(network)
        self.server.server_close()
        self.apart = 0.0

    def send(
        self, method: str, url: str, content: bytes | None = None, headers: Any = None,
        *, sending: wire.Sending | None = None, first: bool = False,
    ) -> bytes:  # fmt: skip
        if content is None:
            return orjson.dumps(self.server.metadata())
        if sending is not None:
            sending.begins()
        began = time.perf_counter()
        answer = orjson.dumps(self.server.infer(orjson.loads(content)), option=orjson.OPT_SERIALIZE_NUMPY)
        self.apart += time.perf_counter() - began
        time.sleep(DELAY)
        return answer


def drawn(name: str) -> Weights:
    inputs, units, outputs = map(int, name.split("-"))
    rng = np.random.default_rng([inputs, units, outputs])
    first = rng.standard_normal((units, inputs)) / np.sqrt(inputs), rng.standard_normal(units)
    return Weights((first, (rng.standard_normal((outputs, units)) / np.sqrt(units), rng.standard_normal(outputs))))


def attacked(held: Gradients) -> tuple[float, Finding[Weights]]:
    began = time.perf_counter()
    with one_blas_thread():
        finding = GradientExtraction()(held, context=Context(0, asker="bench"))
    return time.perf_counter() - began, finding


def in_memory(network: Weights) -> tuple[float, str]:
    model = InMemory(network)
    seconds, finding = attacked(model.held())
    return seconds - model.apart, fingerprint(finding.loot)


def connected(url: str, folder: Path) -> tuple[float, Finding[Weights]]:
    held = remote.connect("gradients", url, OPTIONS)
    assert isinstance(held, Gradients)
    assert held.service is not None
    with Ledger(folder / "ledger.sqlite") as ledger, held.service.keeping(ledger, print):
        return attacked(held)


def same_process(network: Weights, profile: cProfile.Profile | None = None) -> tuple[float, str, int]:
    transport = SameProcess(network)
    plain, wire.Wire.send = wire.Wire.send, staticmethod(transport.send)
    try:
        with TemporaryDirectory() as folder:
            if profile:
                profile.enable()
            seconds, finding = connected(transport.server.url, Path(folder))
            if profile:
                profile.disable()
    finally:
        wire.Wire.send = plain
    return seconds - transport.apart, fingerprint(finding.loot), finding.cost.requests


def over_loopback(network: Weights, url: str) -> float:
    with TemporaryDirectory() as folder:
        return connected(url, Path(folder))[0]


def spread(ratios: list[float]) -> str:
    return f"{np.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def main(names: list[str], repeats: int, profiled: bool) -> None:
    for name in names:
        network = drawn(name)
        if profiled:
            profile = cProfile.Profile()
            same_process(network, profile)
            pstats.Stats(profile).sort_stats("tottime").print_stats(18)
            continue
        in_memory(network)  # once for what is loaded at first use
        same_process(network)
        plain, adapter, real = [], [], []
        with served(network) as url:
            for _ in range(repeats):
                (seconds, expected), (through, found, requests) = in_memory(network), same_process(network)
                assert found == expected, "another copy"
                plain.append(seconds)
                adapter.append(through)
                real.append(over_loopback(network, url))
        ratios = [b / a for a, b in zip(plain, adapter, strict=True)]
        print(
            f"{name}: in memory {np.median(plain):.3f} s, adapter and ledger {spread(ratios)} of it, {requests} requests "
            f"({(np.median(adapter) - np.median(plain)) / requests * 1e3:+.2f} ms each); "
            f"real server {spread([b / a for a, b in zip(plain, real, strict=True)])}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    main(list(chosen.networks), chosen.repeats, chosen.profile)
