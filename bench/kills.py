"""Audits of a model on a server, killed at random moments: is anything lost, damaged, or paid for twice?

A network is served on loopback, with a few milliseconds a request. An audit of it runs as a process of its own and is
killed (SIGKILL) after a random part of the time that an undisturbed one takes, its start included; then it is started
again, until it ends, and the next audit begins. After every kill the ledger is held against what the server saw:

- nothing may be asked that the ledger has an answer to; a row may be answered twice only where a kill came between the
  answer and the ledger, which is at most one request a kill;
- rows and requests in the books may exceed the server's only by one request a kill, written down and not yet sent;
- the file passes sqlite's own check, and every finding is that of the undisturbed audit, bit for bit.

`python bench/kills.py 500`; ends with code 1 where any of this does not hold.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Condition, Thread
from typing import Any

import numpy as np

from divulge.auditing import reopen
from divulge.contract import Cost, Weights
from divulge.serving import Server
from divulge.storage import fingerprint
from divulge.targets.ledger import KEY, key

INPUTS, UNITS, OUTPUTS, BATCH = 12, 120, 2, 2
DELAY = 0.004  # seconds a request: most of an audit's time is then spent asking
PATIENCE = 300.0  # seconds for anything on a loaded machine, before it is called broken
LOOKED_AT = 2
AUDIT = """
attacks = ["gradient-extraction"]
workers = 1
[held.api]
kind = "gradients"
url = "{url}"
output = "value"
explanation = "output:gradient"
batch = {batch}
"""


class Counting(Server):
    """Remembers every row that it answers."""

    def __init__(self, network: Weights) -> None:
        super().__init__(network)
        self.answered: list[list[bytes]] = []
        "The rows of each request."
        self.busy = 0
        self.idle = Condition()

    def infer(self, asked: dict[str, Any]) -> dict[str, Any]:
        with self.idle:
            self.busy += 1
        try:
            X = np.asarray(asked["inputs"][0]["data"], dtype=float).reshape(-1, self.model.dimension)
            self.answered.append([key(row) for row in X])
            answer = super().infer(asked)
            time.sleep(DELAY)
            return answer
        finally:
            with self.idle:
                self.busy -= 1
                self.idle.notify_all()

    def settle(self) -> None:
        """Wait for what a killed client had asked."""
        with self.idle:
            if not self.idle.wait_for(lambda: not self.busy, PATIENCE):
                raise RuntimeError("the server did not come to rest")

    def handle_error(self, *_: object) -> None:
        """Clients are killed here."""


@dataclass
class Tally:
    kills: int = 0
    before_asking: int = 0
    asking: int = 0
    after_asking: int = 0
    audits: int = 0
    same: int = 0
    intact: int = 0
    rows: int = 0
    requests: int = 0
    rows_twice: int = 0
    requests_twice: int = 0
    rows_ahead: int = 0
    requests_ahead: int = 0
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(f"audit {self.audits}, kill {self.kills}: {what}")
            print(self.wrong[-1], flush=True)


def start(folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "divulge.cli", "audit", str(folder / "audit.toml"), "--json"]
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def prepared(home: Path, name: str, server: Server) -> Path:
    folder = home / name
    folder.mkdir()
    (folder / "audit.toml").write_text(AUDIT.format(url=server.url, batch=BATCH))
    return folder


def finding(folder: Path) -> str:
    """What an audit found, without what it cost."""
    record = reopen(folder / "runs" / "audit")
    return fingerprint([record.complete, *(replace(one, cost=Cost(one.cost.points)) for one in record.findings)])


@dataclass
class Books:
    """What a ledger says."""

    check: str
    points: set[bytes]
    rows: int
    requests: int

    @classmethod
    def read(cls, folder: Path) -> "Books":
        path = folder / "runs" / "audit" / "ledger.sqlite"
        if not path.exists():
            return cls("ok", set(), 0, 0)
        with closing(sqlite3.connect(path)) as file:
            check = str(file.execute("PRAGMA integrity_check").fetchone()[0])
            if not file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:  # killed before it was made
                return cls(check, set(), 0, 0)
            kept = b"".join(points for (points,) in file.execute("SELECT points FROM answer"))
            points = {kept[at : at + KEY] for at in range(0, len(kept), KEY)}
            rows, requests = file.execute("SELECT total(rows), total(requests) FROM sent").fetchone()
        return cls(check, points, int(rows), int(requests))


@contextmanager
def serving() -> Iterator[Counting]:
    rng = np.random.default_rng(7)
    layers = (rng.standard_normal((UNITS, INPUTS)), rng.standard_normal(UNITS))
    network = Weights((layers, (rng.standard_normal((OUTPUTS, UNITS)), rng.standard_normal(OUTPUTS))))
    with Counting(network) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def one_audit(folder: Path, server: Counting, kills: int, length: float, rng: np.random.Generator, tally: Tally) -> None:
    """Kill an audit up to so often and let it end; look into its books after every kill."""
    looks = {key(row) for row in np.random.default_rng(0).standard_normal((LOOKED_AT, INPUTS))}
    server.rows = server.requests = 0
    server.answered.clear()
    lost: Counter[bytes] = Counter()
    ahead, killed = (0, 0), 0
    while True:
        before = Books.read(folder)
        seen = len(server.answered)
        process = start(folder)
        done = False
        try:
            process.wait(rng.uniform(0, length) if killed < kills else PATIENCE)
            done = True
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stderr is not None
        said = process.stderr.read().decode()
        process.stderr.close()
        server.settle()
        books = Books.read(folder)
        tally.expect(books.check == "ok", f"the ledger is damaged: {books.check}")
        tally.expect(before.points <= books.points, "answers that were kept are gone")
        asked = [[name for name in rows if name not in looks] for rows in server.answered[seen:]]
        tally.expect(before.points.isdisjoint(name for rows in asked for name in rows), "asked for what was answered")
        unkept = [rows for rows in asked if not books.points.issuperset(rows)]
        tally.expect(len(unkept) <= (not done), f"{len(unkept)} requests answered and not kept")
        lost.update(name for rows in unkept for name in rows)
        tally.requests_twice += len(unkept)
        further = books.rows - server.rows, books.requests - server.requests
        tally.expect(0 <= further[1] - ahead[1] <= (not done), f"{further[1] - ahead[1]} requests more in the books")
        tally.expect(0 <= further[0] - ahead[0] <= (not done) * BATCH, f"{further[0] - ahead[0]} rows more in the books")
        ahead = further
        if done:
            tally.expect(process.returncode == 0 and not said, f"ended with {process.returncode}: {said}")
            break
        killed += 1
        tally.kills += 1
        new = len(server.answered) - seen
        finished = (folder / "runs" / "audit" / "findings.json").exists()
        tally.before_asking += not new
        tally.asking += bool(new) and not finished
        tally.after_asking += bool(new) and finished
    answers = Counter(name for rows in server.answered for name in rows if name not in looks)
    twice = {name: count - 1 for name, count in answers.items() if count > 1}
    tally.expect(all(count <= lost[name] for name, count in twice.items()), "a row was paid for twice without a kill")
    tally.rows_twice += sum(twice.values())
    record = json.loads((folder / "runs" / "audit" / "findings.json").read_text())["value"]
    rows, requests = reported(folder)
    tally.expect((rows, requests) == (books.rows, books.requests), "the report says other rows than the books")
    tally.expect(record["complete"], "the audit is not complete")
    tally.audits += 1
    tally.rows, tally.requests = tally.rows + server.rows, tally.requests + server.requests
    tally.rows_ahead, tally.requests_ahead = tally.rows_ahead + ahead[0], tally.requests_ahead + ahead[1]
    tally.intact += books.check == "ok"


def reported(folder: Path) -> tuple[int, int]:
    """Rows and requests that an audit says it sent, since its run folder was made."""
    record = reopen(folder / "runs" / "audit")
    parts = [*record.sent.values(), *((one.cost.rows, one.cost.requests) for one in record.findings)]
    return sum(rows for rows, _ in parts), sum(requests for _, requests in parts)


def main(kills: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    tally = Tally()
    with TemporaryDirectory() as name, serving() as server:
        home = Path(name)
        whole = prepared(home, "whole", server)
        began = time.perf_counter()
        with start(whole) as process:
            process.wait(PATIENCE)
        length = time.perf_counter() - began
        expected = finding(whole)
        verdict = reopen(whole / "runs" / "audit").findings[0].verdict.value
        rows, requests = server.rows, server.requests
        print(f"undisturbed: {verdict}, {rows} rows in {requests} requests, {length:.1f} s", flush=True)
        while tally.kills < kills:
            folder = prepared(home, f"audit-{tally.audits}", server)
            one_audit(folder, server, kills - tally.kills, length, rng, tally)
            same = finding(folder) == expected
            tally.expect(same, "another finding")
            tally.same += same
            print(f"{tally.kills} kills, {tally.audits} audits finished", flush=True)
    print(
        f"{tally.kills} kills in {tally.audits} audits: {tally.before_asking} before the first request of their process, "
        f"{tally.asking} while it asked, {tally.after_asking} after its findings\n"
        f"findings equal bit for bit: {tally.same} of {tally.audits}; ledgers intact: {tally.intact} of {tally.audits}\n"
        f"rows answered twice: {tally.rows_twice}, in {tally.requests_twice} requests in flight at a kill\n"
        f"rows in the books {tally.rows + tally.rows_ahead}, at the server {tally.rows}; "
        f"requests {tally.requests + tally.requests_ahead}, {tally.requests} "
        f"({tally.requests_ahead} written down and not yet sent at a kill)\n"
        f"{len(tally.wrong)} contradictions"
    )
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    sys.exit(main(chosen.kills, chosen.seed))
