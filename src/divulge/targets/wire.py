"""JSON over HTTP to a model server: sent again where that may help, and in one sentence what went wrong."""

from __future__ import annotations

import logging
import os
import re
import weakref
from typing import TYPE_CHECKING, Any

from divulge.errors import BadInput, TargetFailed

if TYPE_CHECKING:
    import httpx2

ATTEMPTS = 4
"How often a request is sent before a busy or broken server is given up."
LONGEST_PAUSE = 30.0
"Seconds; a server that asks for a longer pause is asked again after this one."


class Wire:
    """One client for one model; the environment variable `token_env` holds its bearer token, where it needs one."""

    def __init__(self, timeout: float, token_env: str | None = None) -> None:
        try:
            import httpx2
            import stamina  # noqa: F401  # told to be missing before the first request, not after it
        except ImportError as error:
            raise BadInput(
                f"a model behind a url needs {error.name}, which is missing; run pip install 'divulge[remote]'"
            ) from None
        # Nobody who has set up no logging wants "stamina.retry_scheduled" between the lines of a report.
        logging.getLogger("stamina").addHandler(logging.NullHandler())
        headers = {"Authorization": f"Bearer {_token(token_env)}"} if token_env else {}
        self._client = httpx2.Client(timeout=timeout, headers=headers)
        weakref.finalize(self, self._client.close)

    def send(self, method: str, url: str, body: Any = None) -> Any:
        """What a server answers to one request."""
        import httpx2
        import stamina

        try:
            for attempt in stamina.retry_context(on=_pause, attempts=ATTEMPTS, timeout=None):
                with attempt:
                    response = self._client.request(method, url, json=body).raise_for_status()
        except httpx2.HTTPStatusError as error:
            raise TargetFailed(_refusal(error.response)) from None
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise TargetFailed(
                f"no answer from {url}: {reason}; check that the server runs there, or raise option 'timeout'"
            ) from None
        try:
            return response.json()
        except ValueError:
            raise BadInput(
                f"expected JSON from {url}, got {short(response.text)!r}; check that the server speaks V2"
            ) from None


def _pause(error: Exception) -> bool | float:
    """Whether a request is worth sending again, or after how many seconds."""
    import httpx2

    if not isinstance(error, httpx2.HTTPStatusError):
        return isinstance(error, httpx2.TransportError)
    if error.response.status_code != 429 and error.response.status_code < 500:
        return False
    asked = error.response.headers.get("Retry-After", "")
    return min(float(asked), LONGEST_PAUSE) if asked.isdecimal() else True


def _refusal(response: httpx2.Response) -> str:
    status = response.status_code
    if response.has_redirect_location:
        text, remedy = f"go to {response.headers['Location']}", "use that address as the url"
    else:
        try:
            said = response.json()
            text = short(said.get("error") or said.get("detail") or said)
        except (ValueError, AttributeError):
            text = short(response.text)
        remedy = {
            401: "set token_env to the environment variable that holds a valid token",
            403: "set token_env to the environment variable that holds a valid token",
            404: "check the name of the model, its version and the path in the url",
            429: "wait a while and run again: what was answered is kept",
        }.get(status, "check input, output, dimension and datatype")
        if status >= 500:
            remedy = "look into the server's log, then run again: what was answered is kept"
    return f"{response.url} answered {status} {response.reason_phrase}: {text}; {remedy}"


def _token(variable: str) -> str:
    token = os.environ.get(variable, "").strip()
    if not re.fullmatch("[!-~]+", token):  # never repeated in a message, not even when it cannot be sent
        got = "other characters" if token else "nothing"
        raise BadInput(f"expected a token of plain letters in the environment variable {variable}, got {got}; set it")
    return token


def short(said: Any) -> str:
    """What a server said, on one line of readable length."""
    text = " ".join(str(said).split())
    return text if len(text) <= 300 else f"{text[:300]}…"
