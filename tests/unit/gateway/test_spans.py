"""Spans of requests that end in any way: answered, refused, failed or broken off."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from burstcache.gateway.http_connection import ConnectionLostError, HttpConnection
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import Targets
from burstcache.gateway.spans import Spans

_CONNECTION = cast(HttpConnection, SimpleNamespace(is_tls=False, peer="::1"))
_HEAD = b"HTTP/1.1 200 OK\r\nx-cache: hit\r\nx-cache-tier: disk\r\nx-amz-request-id: R1\r\n"


class _Application:
    """Answers a request with a head, or without one, and ends as it is told."""

    def __init__(self, status: int, error: BaseException | None) -> None:
        self._status, self._error = status, error

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        return True

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        request.status = self._status
        request.head = _HEAD if self._status else b""
        request.sent_bytes = 7
        if self._error is not None:
            raise self._error


@pytest.fixture(scope="module")
def s3() -> Any:
    return boto3.client("s3", region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret")


def span_of(s3: Any, request: HttpRequest, status: int, error: BaseException | None) -> ReadableSpan:
    """Return the span of a request."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    application = Spans(provider, Targets(("localhost",)), s3).traced(_Application(status, error))

    async def respond() -> None:
        await application.respond(request, _CONNECTION)

    assert application.respond_now(request, _CONNECTION)
    assert exporter.get_finished_spans() == ()
    if error is None:
        asyncio.run(respond())
    else:
        with pytest.raises(type(error)):
            asyncio.run(respond())
    (span,) = exporter.get_finished_spans()
    return span


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (200, None, (200, "disk", None)),
        (503, None, (503, "disk", "503")),
        (404, None, (404, "disk", None)),
        (0, S3Error("SignatureDoesNotMatch", "no"), (403, None, None)),
        (0, S3Error("ServiceUnavailable", "down"), (503, None, "ServiceUnavailable")),
        (0, RuntimeError("bug"), (500, None, "RuntimeError")),
        (0, ConnectionLostError("gone"), (None, None, "ConnectionLostError")),
        (0, asyncio.CancelledError(), (None, None, "CancelledError")),
        (200, ConnectionLostError("gone"), (200, "disk", "ConnectionLostError")),
        (200, S3Error("ServiceUnavailable", "down"), (200, "disk", "ServiceUnavailable")),
    ],
    ids=str,
)
def test_a_span_has_the_status_the_tier_and_the_error_of_its_response(
    s3: Any, status: int, error: BaseException | None, expected: tuple[int | None, str | None, str | None]
) -> None:
    span = span_of(s3, HttpRequest(method=b"GET", target=b"/b/k"), status, error)

    attributes = span.attributes or {}
    names = ("http.response.status_code", "burstcache.cache.tier", "error.type")
    assert tuple(map(attributes.get, names)) == expected
    assert span.status.is_ok is (expected[2] is None)
    assert span.events == ()  # neither a message nor a stack trace, which may have a client's data


@pytest.mark.parametrize(
    ("target", "host", "expected"),
    [
        (b"/b/k%20?X-Amz-Signature=s", b"[::1]:9000", ("S3.GetObject", "/b/k%20", "::1", 9000, "b", "k ")),
        (b"/k", b"b.LOCALHOST", ("S3.GetObject", "/k", "b.localhost", None, "b", "k")),
        (
            b"http://s3.amazonaws.com/b/k?x",
            b"s3.amazonaws.com",
            ("S3.GetObject", "/b/k", "s3.amazonaws.com", None, "b", "k"),
        ),
        (b"/%FF", b"localhost:99999999", ("GET", "/%FF", "localhost", None, None, None)),
        (b"http://", b"[:", ("GET", "/", ":", None, None, None)),
    ],
)
def test_a_span_names_what_a_request_addresses_however_malformed_it_is(
    s3: Any, target: bytes, host: bytes, expected: tuple[object, ...]
) -> None:
    span = span_of(s3, HttpRequest(method=b"GET", target=target, headers=[(b"host", host)]), 200, None)

    names = ("url.path", "server.address", "server.port", "aws.s3.bucket", "aws.s3.key")
    assert (span.name, *map((span.attributes or {}).get, names)) == expected
