"""Signer of a gateway's requests to S3: its signatures are botocore's, and the gateway's verifier accepts them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from burstcache.gateway.origin_signer import OriginSigner
from burstcache.gateway.signatures import Secret, SignatureVerifier
from support.clock import ManualClock

_EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_TEXT = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"]), max_size=12)
_VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            ["content-type", "content-md5", "range", "x-amz-meta-a", "x-amz-meta-b", "accept", "if-match", "x-amz-acl"]
        ),
        _VALUE,
    ),
    max_size=6,
)
_PARAMETERS = st.lists(st.tuples(st.text("ab-", min_size=1, max_size=3), _TEXT), max_size=4)
_ENDPOINTS = st.sampled_from(
    [
        "http://127.0.0.1:9000",
        "https://s3.eu-central-1.amazonaws.com",
        "https://bucket.s3.amazonaws.com:443",
        "http://HOST:80",
        "http://[::1]:9000",
    ]
)


class _BotocoresSigner(S3SigV4Auth):
    """botocore's signer, for a payload that is known by its hash alone."""

    def payload(self, request: Any) -> str:
        return str(request.context["payload"])


@given(
    endpoint=_ENDPOINTS,
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]),
    key=_TEXT,
    parameters=_PARAMETERS,
    headers=_HEADERS,
    payload=st.sampled_from([_EMPTY_SHA256, "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"]),
    token=st.sampled_from([None, "token/with+characters="]),
)
def test_signature_is_botocores(
    endpoint: str,
    method: str,
    key: str,
    parameters: list[tuple[str, str]],
    headers: list[tuple[str, str]],
    payload: str,
    token: str | None,
) -> None:
    query = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in parameters)
    url = f"{endpoint}/bucket/{quote(key, safe='/-_.~')}" + (f"?{query}" if query else "")
    credentials: Any = Credentials("AKID", "secret", token)
    expected = AWSRequest(method=method, url=url)
    for name, value in headers:
        if name.startswith("x-amz-") or name in ("content-type", "content-md5", "range"):
            expected.headers[name] = value
    expected.context["payload"] = payload
    _BotocoresSigner(credentials, "s3", "eu-central-1").add_auth(expected)
    clock = ManualClock()
    at = datetime.strptime(expected.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    clock.now_us = lambda: round(at.timestamp() * 1e6)  # type: ignore[method-assign]

    signed = OriginSigner(clock).sign(credentials, "eu-central-1", method, url, headers, payload)

    sent = dict(signed)
    assert sent["authorization"] == expected.headers["Authorization"]
    assert sent.get("x-amz-security-token") == token
    assert [each for each in signed if each in headers] == headers
    secrets = {"AKID": Secret("secret", token)}
    target = url.partition("://")[2].partition("/")[2]
    received = [(name.encode(), value.encode()) for name, value in signed]
    received.append((b"host", _host(url).encode()))
    verifier = SignatureVerifier(secrets.get, clock)
    assert verifier.verify(method.encode(), b"/" + target.encode(), received).access_key == "AKID"


def _host(url: str) -> str:
    """Return the Host header that clients send for a URL."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
    return host if parts.port in (None, {"http": 80, "https": 443}[parts.scheme]) else f"{host}:{parts.port}"
