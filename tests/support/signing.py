"""Signing of S3 requests by botocore, and the example of the S3 API Reference, for tests of their verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.session import Session

from burstcache.gateway.signatures import Header, Secret, SignatureVerifier
from support.clock import ManualClock

# The S3 API Reference signs all of its examples with this key at this time.
EXAMPLE_KEY, EXAMPLE_SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EXAMPLE_TIME, EXAMPLE_SCOPE = "20130524T000000Z", "20130524/us-east-1/s3/aws4_request"


class SignedRequest(NamedTuple):
    """A request as a server receives it."""

    method: bytes
    target: bytes
    headers: list[Header]


def seconds(timestamp: str) -> float:
    """Return the seconds since the epoch of a signature's time."""
    return datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def example_request(method: str, target: str, signature: str, headers: Mapping[str, str]) -> SignedRequest:
    """Return an example of the S3 API Reference, whose headers are all signed."""
    names = ";".join(sorted(headers))
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={EXAMPLE_KEY}/{EXAMPLE_SCOPE},SignedHeaders={names},Signature={signature}"
    )
    return SignedRequest(
        method.encode(),
        target.encode(),
        [
            *((name.encode(), value.encode()) for name, value in headers.items()),
            (b"authorization", authorization.encode()),
        ],
    )


def example_verifier(now: str = EXAMPLE_TIME) -> SignatureVerifier:
    """Return a verifier that knows the example's key."""
    return SignatureVerifier({EXAMPLE_KEY: Secret(EXAMPLE_SECRET)}.get, ManualClock(seconds(now)))


class _NoBody:
    """The empty body of a response."""

    def stream(self) -> list[bytes]:
        return [b""]


class BotocoreSigner:
    """An S3 client of botocore whose requests are captured instead of sent."""

    def __init__(self, url: str, token: str | None = None, **config: Any) -> None:
        """Make a client of an endpoint."""
        session = Session()
        session.set_credentials(EXAMPLE_KEY, EXAMPLE_SECRET, token)
        self.client: Any = session.create_client(
            "s3", region_name="eu-central-1", endpoint_url=url, config=Config(**{"signature_version": "s3v4", **config})
        )
        self._sent: list[AWSPreparedRequest] = []
        events: Any = self.client.meta.events
        events.register("before-send.s3", self._capture)

    def _capture(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        self._sent.append(request)
        return AWSResponse(request.url, 200, HTTPHeaders(), _NoBody())

    def sign(self, call: Callable[[Any], object]) -> SignedRequest:
        """Return the request that a call of the client sends."""
        self._sent.clear()
        call(self.client)
        (request,) = self._sent
        headers = [
            (name.lower().encode(), value if isinstance(value, bytes) else str(value).encode())
            for name, value in request.headers.items()
        ]
        target, host = _target_and_host(request.url)
        return SignedRequest(request.method.encode(), target, [(b"host", host), *headers])

    def presign(self, operation: str, parameters: Mapping[str, Any], **options: Any) -> SignedRequest:
        """Return the request of a presigned URL."""
        target, host = _target_and_host(self.client.generate_presigned_url(operation, parameters, **options))
        return SignedRequest(b"GET", target, [(b"host", host)])


def _target_and_host(url: str) -> tuple[bytes, bytes]:
    parts = urlsplit(url)
    return (parts.path + (f"?{parts.query}" if parts.query else "")).encode(), parts.netloc.encode()
