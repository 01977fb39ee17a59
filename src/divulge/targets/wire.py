"""Requests to a model server with a good client's manners: its pace, its pauses, and in one sentence what went wrong."""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from divulge import __version__
from divulge.errors import BadInput, TargetFailed
from divulge.targets.signing import Signer

if TYPE_CHECKING:
    import ssl

    import httpx2

ATTEMPTS = 4
"How often a request that a server answers with an error of its own is sent before it is given up."
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"Seconds between attempts: the first, doubled each time up to the longest, where the server asks for none."
LONGEST = 20_000
"Characters of a refusal that are looked through."
SHOWN = 200
"Characters of an answer that a message quotes."

LEAST = 4
"Letters of a secret that a message must not quote; fewer may stand in any word."

sleep, clock = time.sleep, time.monotonic


class Refused(TargetFailed):
    """A server answered with an error."""

    def __init__(self, sentence: str, status: int, said: str = "") -> None:
        """`said` is all of its answer that may tell more."""
        super().__init__(sentence)
        self.status, self.said = status, said


@dataclass(frozen=True)
class Manners:
    """How a client behaves towards one server."""

    timeout: float = 30.0
    "Seconds to wait for an answer."
    patience: float = 60.0
    "Seconds for which a server that is busy or restarting is asked again."
    repeat: int = 0
    "How often a request is sent again that the server may have charged: timed out, or its answer cut off."
    rate: float | None = None
    "Requests a second at most."
    concurrency: int = 1
    "Requests under way at the same time."
    headers: Mapping[str, str] = field(default_factory=dict)
    "Secrets in them are named, as in `Bearer $MY_TOKEN`, and filled in from the environment."
    authority: str | None = None
    "A file of certificates that the server's is checked against, in place of the system's."
    certificate: str | None = None
    "A file with the client's own certificate (mTLS), its key inside or in `key`."
    key: str | None = None
    proxy: str | None = None
    "In place of what HTTP_PROXY, HTTPS_PROXY and NO_PROXY say."
    signer: Signer | None = None
    "Signs every request, where the host wants that."


@dataclass
class Sending:
    """Who wants to know of each attempt before it is sent, and of those that nobody took."""

    begins: Callable[[], None] = lambda: None
    unsent: Callable[[], None] = lambda: None


class Wire:
    """One client for one server."""

    def __init__(self, manners: Manners) -> None:
        try:
            import httpx2
            import jsonpath  # noqa: F401  # told to be missing before the first request, not after it
            import orjson  # noqa: F401
        except ImportError as error:
            raise BadInput(
                f"a model behind a url needs {error.name}, which is missing; run pip install 'divulge[remote]'"
            ) from None
        self.manners = manners
        agent = {"User-Agent": f"divulge/{__version__} (model audit)", "Accept": "application/json, */*;q=0.5"}
        self._secrets: set[str] = set()
        headers = agent | {name: self.filled(value) for name, value in manners.headers.items()}
        try:
            self._client = httpx2.Client(
                timeout=manners.timeout, headers=headers, verify=_tls(manners), proxy=manners.proxy,
                limits=httpx2.Limits(max_connections=manners.concurrency, max_keepalive_connections=manners.concurrency),
            )  # fmt: skip
        except (ValueError, httpx2.InvalidURL) as error:
            raise BadInput(f"cannot use the proxy or the certificates: {error}; correct them") from None
        weakref.finalize(self, self._client.close)
        self.stopped = False
        "True makes requests that wait to be sent again give up."
        self._turn = threading.Lock()
        self._next = self._held_until = 0.0
        "When the next request may go: at the pace that is wanted, and after the pause that a server asked for."

    def filled(self, value: str) -> str:
        """A header with what the environment holds in place of `$NAME`; what is filled in is never repeated in a message."""

        def secret(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            held = os.environ.get(name, "").strip()
            if not re.fullmatch("[!-~]+", held):
                got = "other characters" if held else "nothing"
                raise BadInput(f"expected a token of plain letters in the environment variable {name}, got {got}; set it")
            self._secrets.add(held)
            return held

        return re.sub(r"\$(?:(\w+)|\{(\w+)\})", secret, value)

    @contextmanager
    def discreet(self) -> Iterator[None]:
        """Errors that quote what a server says do not quote a secret that it repeats, nor a part of one."""
        try:
            yield
        except BadInput as error:
            said = str(error)
            for held in sorted(self._secrets, key=len, reverse=True):
                said = said.replace(held, "***") if len(held) >= LEAST else said
                for letters in range(len(held) - 1, LEAST - 1, -1):
                    said = said.replace(f"{held[:letters]}…", "***…")
            error.args = (said,)
            raise

    def send(
        self, method: str, url: str, content: bytes | None = None, headers: Mapping[str, str] | None = None,
        *, sending: Sending | None = None, first: bool = False,
    ) -> bytes:  # fmt: skip
        """What a server answers to one request. At the `first` contact, a server that is not there is not waited for."""
        with self.discreet():
            return self._send(method, url, content, headers or {}, sending or Sending(), first)

    def _send(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], sending: Sending, first: bool
    ) -> bytes:
        import httpx2

        manners = self.manners
        deadline, errors, charged = clock() + manners.patience, 0, 0
        pause, fresh = FIRST_PAUSE, True
        while True:
            self._take_turn(fresh)
            fresh = False
            sending.begins()
            asked: float | None = None
            try:
                signed = manners.signer.headers(method, url, content or b"") if manners.signer else {}
                request = self._client.build_request(method, url, content=content, headers={**headers, **signed})
                response = self._client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError) as error:
                sending.unsent()
                failure: TargetFailed = _silent(url, error)
                if first:
                    raise failure from None
            except (httpx2.ReadTimeout, httpx2.WriteTimeout) as error:
                failure = _silent(url, error)
                charged += 1
                if charged > manners.repeat:
                    raise failure from None
            except (httpx2.TransportError, httpx2.InvalidURL, httpx2.RequestError) as error:
                failure = _silent(url, error)  # gone before it answered
                errors += 1
                if errors >= ATTEMPTS or isinstance(error, httpx2.UnsupportedProtocol):
                    raise failure from None
            else:
                try:
                    body = response.read()
                except httpx2.RequestError as error:
                    failure = TargetFailed(
                        f"the answer of {url} was cut off ({error or type(error).__name__}); run again: what was answered "
                        "before is kept; option 'repeat' asks again for what the server may have charged"
                    )
                    charged += 1
                    if charged > manners.repeat:
                        raise failure from None
                else:
                    if response.is_success:
                        return body
                    failure = Refused(_refusal(response), response.status_code, response.text[:LONGEST])
                    busy = response.status_code in (429, 503)
                    errors += 0 if busy else 1
                    if (response.status_code != 429 and response.status_code < 500) or errors >= ATTEMPTS:
                        raise failure
                    asked = wanted_pause(response.headers.get("Retry-After", ""))
                finally:
                    response.close()
            wait = pause if asked is None else asked
            if clock() + wait > deadline:
                if asked is not None and asked > manners.patience:
                    raise TargetFailed(
                        f"{url} asks to be left alone for {asked:g} seconds; run again then: what was answered is kept"
                    )
                raise failure
            if asked is not None:
                self._held_until = clock() + asked
            sleep(wait)
            if self.stopped:
                raise failure
            pause = min(2 * pause, LONGEST_PAUSE)

    def _take_turn(self, fresh: bool) -> None:
        """Wait until the next request may go; one that is sent again has waited already."""
        interval = 0.0 if self.manners.rate is None else 1 / self.manners.rate
        with self._turn:
            now = clock()
            begin = max(now, self._next, self._held_until if fresh else now)
            self._next = begin + interval
        if begin > now:
            sleep(begin - now)


def wanted_pause(header: str) -> float | None:
    """How many seconds a server asks for: a number, or a date."""
    if header.strip().isdecimal():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def short(said: Any) -> str:
    """What a server said, on one line of readable length."""
    text = " ".join(str(said).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _silent(url: str, error: Exception) -> TargetFailed:
    reason = str(error) or type(error).__name__
    remedy = "check that the server runs there, or raise option 'timeout'"
    if "certificate" in reason.lower():
        remedy = (
            "name who signed the server's certificate as option 'authority', and your own, where it asks for one, as "
            "'certificate' and 'key'"
        )
    return TargetFailed(f"no answer from {url}: {reason}; {remedy}")


def _refusal(response: httpx2.Response) -> str:
    import json

    status = response.status_code
    if response.has_redirect_location:
        text, remedy = f"go to {response.headers['Location']}", "use that address as the url"
    else:
        try:
            said = json.loads(response.text)
            text = short(said.get("error") or said.get("detail") or said.get("message") or said)
        except (ValueError, AttributeError, RecursionError):
            text = short(response.text)
        remedy = {
            401: "set token_env, or headers, to name the environment variable that holds a valid token",
            403: "set token_env, or headers, to name the environment variable that holds a valid token",
            404: "check the name of the model, its version and the path in the url",
            429: "wait a while and run again: what was answered is kept",
        }.get(status, "check what the model takes: protocol, body, dimension, input, output")
        if status >= 500:
            remedy = "look into the server's log, then run again: what was answered is kept"
    return f"{response.url} answered {status} {response.reason_phrase}: {text}; {remedy}"


def _tls(manners: Manners) -> ssl.SSLContext | bool:
    """The system's certificates, or those that the auditor names."""
    if not (manners.authority or manners.certificate):
        return True
    import ssl

    try:
        context = ssl.create_default_context(cafile=manners.authority)
        if manners.certificate:
            context.load_cert_chain(manners.certificate, manners.key)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"cannot read the certificates: {error}; check 'authority', 'certificate' and 'key'") from None
    return context
