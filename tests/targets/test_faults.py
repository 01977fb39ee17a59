"""Whole audits of a server that misbehaves: each fault is survived, or stops the audit with one sentence and costs nothing.

Survived: the finding is that of an audit without the fault. Stopped: it failed in one sentence, and the same command against
the healthy server ends with that finding, bit for bit. Either way the rows and requests that are reported are the server's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import numpy as np
import orjson
import pytest

from divulge.auditing import reopen
from divulge.contract import Gradients
from divulge.targets import wire

from .misbehaving import Fault, FaultyServer, Misbehaving, described, finding, network, running, said, sent

MODEL, ANOTHER = network(3), network(4)
MIDDLE = 20
"Of the 52 requests of an undisturbed audit, the first and the last of which only look at the model."
LAST = 52


def slowly(*numbers: int) -> list[Any]:
    return [pytest.param(number, marks=pytest.mark.slow) for number in numbers]


MOMENTS = [*slowly(1, 2, LAST), MIDDLE]


@dataclass
class Clock:
    """Time that passes only when somebody sleeps."""

    now: float = 0.0
    pauses: list[float] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        self.meanwhile()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Clock()
    monkeypatch.setattr(wire, "sleep", made.sleep)
    monkeypatch.setattr(wire, "clock", lambda: made.now)
    return made


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with running(FaultyServer(MODEL)) as made:
        yield made


@dataclass
class House:
    """One server, its audit file, and what an undisturbed audit of it finds."""

    server: FaultyServer
    folder: Path
    capfd: pytest.CaptureFixture[str]
    options: str = ""

    def undisturbed(self) -> str:
        faults, self.server.faults = self.server.faults, {}
        code, found, err = said(self.capfd, described(self.folder, self.server.url), self.folder / "undisturbed")
        assert (code, err, found["findings"][0]["verdict"]) == (0, "", "leak")
        assert sent(found) == self.server.count
        self.server.rows = self.server.requests = 0
        self.server.faults = faults
        return finding(self.folder / "undisturbed")

    def audit(self) -> tuple[int, dict[str, Any], str]:
        return said(self.capfd, described(self.folder, self.server.url, self.options), self.folder / "run")

    def found(self) -> str:
        return finding(self.folder / "run")


@pytest.fixture
def house(server: FaultyServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> House:
    return House(server, tmp_path, capfd)


def answer(tree: Any) -> bytes:
    return orjson.dumps(tree, option=orjson.OPT_SERIALIZE_NUMPY)


def refusal(status: int, headers: Callable[[], dict[str, str]] = dict) -> Fault:
    return lambda handler, tree: handler.plain(status, b'{"error": "having a bad day"}', headers())


def silence(handler: Misbehaving, tree: Any) -> None:
    handler.server.released.wait()
    handler.close_connection = True


def half_a_text(handler: Misbehaving, tree: Any) -> None:
    content = answer(tree)
    handler.plain(200, content[: len(content) // 2])


def half_a_body(handler: Misbehaving, tree: Any) -> None:
    content = answer(tree)
    handler.plain(200, content[: len(content) // 2], length=len(content))
    handler.hang_up()


def reset(handler: Misbehaving, tree: Any) -> None:
    handler.hang_up(reset=True)


def hang_up(handler: Misbehaving, tree: Any) -> None:
    handler.hang_up()


def page(handler: Misbehaving, tree: Any) -> None:
    handler.plain(200, b"<!DOCTYPE html><title>Please log in</title>", {"Content-Type": "text/html"})


def in_drops(handler: Misbehaving, tree: Any) -> None:
    content = answer(tree)
    handler.plain(200, b"", length=len(content))
    for start in range(0, len(content), 7):
        handler.wfile.write(content[start : start + 7])


def altered(change: Callable[[dict[str, Any]], None]) -> Fault:
    """A wrong answer in the right form."""

    def fault(handler: Misbehaving, tree: Any) -> None:
        wrong = json.loads(answer(tree))
        change({output["name"]: output for output in wrong["outputs"]})
        handler.plain(200, json.dumps(wrong).encode())

    return fault


def fewer_rows(outputs: dict[str, Any]) -> None:
    rows, width = outputs["value"]["shape"]
    outputs["value"].update(shape=[rows - 1, width], data=outputs["value"]["data"][width:])


def narrow(outputs: dict[str, Any]) -> None:
    *rest, width = outputs["gradient"]["shape"]
    kept = np.reshape(outputs["gradient"]["data"], (-1, width))[:, :-1]
    outputs["gradient"].update(shape=[*rest, width - 1], data=kept.ravel().tolist())


def no_number(outputs: dict[str, Any]) -> None:
    outputs["gradient"]["data"][-1] = float("nan")


def no_name(outputs: dict[str, Any]) -> None:
    outputs["gradient"]["name"] = "saliency"


def in_a_moment() -> dict[str, str]:
    return {"Retry-After": format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)}


def much_later() -> dict[str, str]:
    return {"Retry-After": format_datetime(datetime.now(UTC) + timedelta(days=2), usegmt=True)}


SURVIVED: dict[str, Fault] = {
    "500": refusal(500),
    "502": refusal(502),
    "503": refusal(503),
    "503, wait": refusal(503, lambda: {"Retry-After": "7"}),
    "429": refusal(429),
    "429, seconds": refusal(429, lambda: {"Retry-After": "7"}),
    "429, date": refusal(429, in_a_moment),
    "connection reset before an answer": reset,
    "connection closed before an answer": hang_up,
    "an answer in drops": in_drops,
}
"Once, and the finding is the same."


@pytest.mark.parametrize("number", MOMENTS)
@pytest.mark.parametrize("name", SURVIVED)
def test_a_request_that_was_not_answered_is_asked_again(house: House, name: str, number: int, clock: Clock) -> None:
    expected = house.undisturbed()
    house.server.faults = {number: SURVIVED[name]}
    code, found, err = house.audit()
    assert (code, err) == (0, "")
    assert house.found() == expected
    assert sent(found) == house.server.count
    assert house.server.requests == LAST + (name != "an answer in drops")
    if "seconds" in name or "wait" in name:
        assert clock.pauses == [7.0]
    if "date" in name:
        assert 30 < clock.pauses[0] <= 40


STOPPED: dict[str, tuple[Fault, bool, str]] = {
    "500 for ever": (refusal(500), True, "answered 500 .*: having a bad day; look into the server's log, then run again"),
    "502 for ever": (refusal(502), True, "answered 502 .*: having a bad day; look into the server's log, then run again"),
    "503 for ever": (refusal(503), True, "answered 503 .*: having a bad day; look into the server's log, then run again"),
    "429 for ever": (refusal(429), True, "answered 429 .*: having a bad day; wait a while and run again"),
    "429, long": (refusal(429, lambda: {"Retry-After": "90000"}), False, "left alone for 90000 seconds; run again then"),
    "429, date": (refusal(429, much_later), False, "left alone for 17.* seconds; run again then"),
    "reset for ever": (reset, True, "no answer from .*; check that the server runs there"),
    "closed for ever": (hang_up, True, "no answer from .*disconnected.*; check that the server runs there"),
    "silence": (silence, False, "no answer from .*timed out; .*raise option 'timeout'"),
    "half a text": (half_a_text, False, "expected JSON from .*; check the address and the protocol"),
    "half a body": (half_a_body, False, "the answer of .* was cut off .*; run again: what was answered before is kept"),
    "a page": (page, False, "expected JSON from .*, got '<!DOCTYPE html><title>Please log in.*; check the address"),
    "fewer rows": (altered(fewer_rows), False, "expected . rows in the answer of .*, got shape"),
    "narrow gradients": (altered(narrow), False, "expected explanations of shape .*; choose the output that holds input"),
    "NaN": (altered(no_number), False, "expected finite numbers in the answer of .*, got NaN or infinity"),
    "no gradients": (altered(no_name), False, "expected .*gradient.* in the answer of .*, found nothing there"),
}
"Fault, whether it stays until the audit ends, and the sentence."


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, server: FaultyServer) -> None:
    """Clients do not wait long for what will never come; for all else they have their time, however busy the machine."""
    build = httpx2.Client.build_request

    def hurried(self: httpx2.Client, method: str, url: str, **rest: Any) -> httpx2.Request:
        if server.faults.get(server.requests + 1) is silence:
            rest["timeout"] = 0.2
        return build(self, method, url, **rest)

    monkeypatch.setattr(httpx2.Client, "build_request", hurried)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("number", MOMENTS)
@pytest.mark.parametrize("name", STOPPED)
def test_what_cannot_be_survived_is_one_sentence_and_the_next_run_goes_on(house: House, name: str, number: int) -> None:
    expected = house.undisturbed()
    fault, house.server.for_ever, sentence = STOPPED[name]
    house.server.faults = {number: fault}
    code, found, err = house.audit()
    kept = house.server.rows
    if number == 1:  # nothing was begun
        assert (code, found) == (2, {})
        (told,) = err.splitlines()
    else:
        assert (code, err, found["complete"]) == (0, "", False)
        assert found["findings"][0]["verdict"] == "failed"
        told = found["findings"][0]["summary"]
        assert sent(found) == house.server.count
    assert "\n" not in told
    assert matches(sentence, told)
    house.server.faults = {}
    code, found, err = house.audit()
    assert (code, err) == (0, "")
    assert house.found() == expected
    assert sent(found) == house.server.count
    if not house.server.for_ever and number in (MIDDLE, LAST):  # what was answered was not asked again
        lost = reopen(house.folder / "undisturbed")
        whole = sum(one.cost.rows for one in lost.findings)
        assert house.server.rows - kept < whole


CHARGED = ("silence", "half a text", "half a body", "a page", "fewer rows", "narrow gradients", "NaN", "no gradients")
"What a server answered, or may have: it may have charged for it."


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", CHARGED)
def test_what_may_have_been_charged_is_asked_again_where_the_auditor_allows_it(house: House, name: str) -> None:
    expected = house.undisturbed()
    house.options = "repeat = 1"
    house.server.faults = {MIDDLE: STOPPED[name][0]}
    code, found, err = house.audit()
    assert (code, err) == (0, "")
    assert house.found() == expected
    assert sent(found) == house.server.count
    assert house.server.requests == LAST + 1


def test_a_server_that_restarts_is_waited_for(house: House, clock: Clock) -> None:
    expected = house.undisturbed()
    before = house.server

    def stops(handler: Misbehaving, tree: Any) -> None:
        before.shutdown()
        before.server_close()
        handler.hang_up(reset=True)

    before.faults = {MIDDLE: stops}
    after: list[FaultyServer] = []

    def starts() -> None:
        if len(clock.pauses) == 4:
            after.append(FaultyServer(MODEL, before.server_port))
            Thread(target=after[0].serve_forever, kwargs={"poll_interval": 0.01}).start()

    clock.meanwhile = starts
    try:
        code, found, err = house.audit()
    finally:
        for server in after:
            server.shutdown()
            server.server_close()
    assert (code, err) == (0, "")
    assert house.found() == expected
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8]
    assert sent(found) == tuple(np.add(before.count, after[0].count))
    assert sent(found)[1] == LAST + 1


@pytest.mark.parametrize("number", [*slowly(2, 40, LAST - 1), MIDDLE])
def test_a_model_replaced_under_way_stops_the_audit_and_leaves_nothing_behind(house: House, number: int) -> None:
    expected = house.undisturbed()

    def replaced(handler: Misbehaving, tree: Any) -> None:
        handler.server.model = Gradients.of(ANOTHER)
        handler.plain(200, answer(tree))

    house.server.faults = {number: replaced}
    code, found, err = house.audit()
    assert (code, err, found["complete"]) == (0, "", False)
    (one,) = found["findings"]
    assert one["verdict"] == "failed"
    assert "was replaced while it was audited; run the audit again, which begins anew" in one["summary"]
    assert sent(found) == house.server.count
    house.server.faults = {}
    for model in (ANOTHER, MODEL, ANOTHER):
        house.server.model = Gradients.of(model)
        code, found, err = house.audit()
        assert (code, err, found["findings"][0]["verdict"]) == (0, "", "leak")
        assert sent(found) == house.server.count
        assert (house.found() == expected) == (model is MODEL)
        loot = reopen(house.folder / "run").findings[0].loot
        assert loot is not None
        X = np.random.default_rng(0).standard_normal((100, 4))
        np.testing.assert_allclose(loot.predict(X), model.predict(X), atol=1e-9)


def test_a_model_replaced_between_two_runs_is_another_audit_and_the_first_one_goes_on_when_it_is_back(house: House) -> None:
    expected = house.undisturbed()
    house.server.faults = {MIDDLE: page}
    house.audit()
    kept = house.server.count
    house.server.faults = {}
    house.server.model = Gradients.of(ANOTHER)
    code, found, err = house.audit()
    assert (code, err, found["complete"]) == (0, "", True)
    assert house.found() != expected
    assert sent(found) == house.server.count
    between = house.server.rows
    house.server.model = Gradients.of(MODEL)
    code, found, err = house.audit()
    assert (code, err) == (0, "")
    assert house.found() == expected
    assert sent(found) == house.server.count
    assert house.server.rows - between + kept[0] < 2 * 192  # half of it was known


def lie(size: float, output: str) -> Fault:
    def change(outputs: dict[str, Any]) -> None:
        numbers = outputs[output]["data"]
        numbers[0] += size * max(1.0, abs(numbers[0]))

    return altered(change)


@pytest.mark.parametrize("number", [*slowly(1, 2, MIDDLE, 30, 40, LAST - 1, LAST), 33])
@pytest.mark.parametrize("output", ["value", "gradient"])
@pytest.mark.parametrize("size", [10.0, 1e-6])
def test_one_lie_never_makes_a_wrong_claim(house: House, size: float, output: str, number: int) -> None:
    """What a lie costs is a finding, never a false one. The lie stays in the run folder; another folder is free of it."""
    expected = house.undisturbed()
    house.server.faults = {number: lie(size, output)}
    code, found, err = house.audit()
    assert (code, err) == (0, "")
    assert sent(found) == house.server.count
    (one,) = reopen(house.folder / "run").findings
    if found["leaks"]:
        assert one.loot is not None
        X = np.random.default_rng(0).standard_normal((1000, 4))
        np.testing.assert_allclose(one.loot.predict(X), MODEL.predict(X), atol=1e-9)
    else:
        assert one.verdict.value in ("failed", "not applicable")
        assert one.summary
        assert "\n" not in one.summary
    house.server.faults = {}
    code, found, err = said(house.capfd, house.folder / "audit.toml", house.folder / "another")
    assert finding(house.folder / "another") == expected


def matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
