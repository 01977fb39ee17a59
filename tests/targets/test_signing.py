"""Requests to Amazon's hosts are signed as Amazon's own examples are."""

from datetime import UTC, datetime

import pytest

from divulge.errors import BadInput
from divulge.targets.signing import Signer

MOMENT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
SIGNER = Signer("service", "us-east-1", "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
URL = "https://runtime.sagemaker.eu-west-1.amazonaws.com/endpoints/mine/invocations"


@pytest.mark.parametrize(
    ("method", "query", "signature"),
    [
        ("GET", "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ("GET", "?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
    ],
    ids=["get-vanilla", "post-vanilla", "get-vanilla-query-order-key-case"],
)
def test_the_published_examples_come_out(method: str, query: str, signature: str) -> None:
    made = SIGNER.headers(method, f"https://example.amazonaws.com/{query}", b"", MOMENT)
    assert made["X-Amz-Date"] == "20150830T123600Z"
    assert made["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}"
    )


def test_a_session_token_is_signed_and_sent() -> None:
    made = Signer("sagemaker", "eu-west-1", "A", "B", "TOKEN").headers("POST", URL, b"1,2", MOMENT)
    assert made["X-Amz-Security-Token"] == "TOKEN"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token" in made["Authorization"]


def test_keys_come_from_the_environment_and_only_for_amazons_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "A")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    assert Signer.of("sagemaker", "http://127.0.0.1:8080/invocations") is None
    assert Signer.of("sagemaker", "http://runtime.sagemaker.eu-west-1.amazonaws.com.example/x") is None
    with pytest.raises(BadInput, match="in the environment variable AWS_SECRET_ACCESS_KEY, got nothing; set it"):
        Signer.of("sagemaker", URL)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    made = Signer.of("sagemaker", URL)
    assert made is not None
    assert (made.region, made.service) == ("eu-west-1", "sagemaker")
    assert "secret" not in repr(made)
