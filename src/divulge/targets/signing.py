"""AWS Signature Version 4: what Amazon's own hosts want in every request, from keys that the environment holds.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

from divulge.errors import BadInput


@dataclass(frozen=True)
class Signer:
    """Signs requests to one service in one region."""

    service: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)

    @classmethod
    def of(cls, service: str, url: str) -> Signer | None:
        """For one of Amazon's own hosts, which name their region; others, such as the container itself, want none."""
        host = re.match(r"https?://[\w.-]*?\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?(?:[:/]|$)", url)
        if host is None:
            return None
        keys = [os.environ.get(name, "").strip() for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
        for name, key in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), keys, strict=True):
            if not key:
                raise BadInput(f"expected a key in the environment variable {name}, got nothing; set it")
        return cls(service, host[1], keys[0], keys[1], os.environ.get("AWS_SESSION_TOKEN", "").strip())

    def headers(self, method: str, url: str, content: bytes, now: datetime | None = None) -> dict[str, str]:
        """What a request has to carry besides its own headers."""
        moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        address = urlsplit(url)
        signed = {"host": address.netloc, "x-amz-date": moment}
        if self.session_token:
            signed["x-amz-security-token"] = self.session_token
        query = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in parse_qsl(address.query, True))
        names = ";".join(sorted(signed))
        request = "\n".join(
            [
                method,
                quote(address.path or "/", safe="/-_.~"),
                "&".join(f"{name}={value}" for name, value in query),
                *(f"{name}:{signed[name]}" for name in sorted(signed)),
                "",
                names,
                hashlib.sha256(content).hexdigest(),
            ]
        )
        scope = f"{moment[:8]}/{self.region}/{self.service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = _hmac(key, part)
        signature = _hmac(key, text).hex()
        credential = f"Credential={self.access_key}/{scope}"
        found = {
            "X-Amz-Date": moment,
            "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}",
        }
        return found | ({"X-Amz-Security-Token": self.session_token} if self.session_token else {})


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
