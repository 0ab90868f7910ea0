"""HTTP messages of a gateway: a parsed request, and the head of a response."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol
from xml.sax.saxutils import escape

from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.signatures import Signature

_CODE = re.compile(rb"<Code>(\w{1,64})</Code>")
_STATUS_LINES = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# The request to S3 has its own length, host and signature.
_SIGNATURE = {"authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"}
_HOP_BY_HOP = frozenset(name.encode() for name in HOP_BY_HOP)
_OWN = _HOP_BY_HOP | {name.encode() for name in (*_SIGNATURE, "content-length", "expect", "host")}


class Body(Protocol):
    """The body of a request, an asynchronous stream of bytes that can be read once."""

    @property
    def is_complete(self) -> bool:
        """True once all of it has been received."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...


@dataclass(slots=True, eq=False)
class HttpRequest:
    """A request as it came over the connection.

    Attributes:
        method: The method, in upper case.
        target: The request target: path and query, still encoded.
        headers: The headers in the order of the message, with names in lower case.
        is_http_1_0: Whether the client speaks HTTP/1.0, which has no chunks.
        keeps_alive: Whether the connection stays open after the response.
        body: The body. None: the request has none.
        is_authorised: Whether the request may be answered.
        signature: The verified signature. None: the request needs none.
        status: The status of the response, once it has begun.
        head: The head of the response, without the connection's own headers.
        sent_bytes: Bytes of the response's body that have been sent.
        error_code: The code of the gateway's own error, empty if S3 or the cache has answered.
        s3_error_code: The code of S3's error, as far as its body has been seen.
        received_ns: When the head of the request was complete, by the monotonic clock [ns].
        begun_ns: When the response began, by the same clock [ns]. 0: it has not.
        is_recorded: Whether the request has been counted, or need not be.
    """

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    is_http_1_0: bool = False
    keeps_alive: bool = True
    body: Body | None = None
    is_authorised: bool = False
    signature: Signature | None = None
    status: int = 0
    head: bytes = b""
    sent_bytes: int = 0
    error_code: str = ""
    s3_error_code: str = ""
    received_ns: int = field(default_factory=time.monotonic_ns)
    begun_ns: int = 0
    is_recorded: bool = False

    def count_sent(self, data: bytes | memoryview) -> None:
        """Count a part of the response's body."""
        self.sent_bytes += len(data)
        if self.status >= 400 and not self.s3_error_code and (found := _CODE.search(bytes(data[:4096]))):
            self.s3_error_code = found[1].decode()

    def header(self, name: bytes) -> bytes | None:
        """Return the first header with a lower-case name, or None."""
        for each, value in self.headers:
            if each == name:
                return value
        return None

    def passed_headers(self, *, keeps_signature: bool = False) -> list[tuple[str, str]]:
        """Return the headers that S3 gets, without those of the client's connection, length and signature.

        A signed header stays, even if `Connection` names it: anybody on the way could have added that.

        Args:
            keeps_signature: Whether the client's own signature, length and host reach S3.
        """
        dropped, named = _HOP_BY_HOP if keeps_signature else _OWN, self.header(b"connection")
        if named is not None:
            signed = () if self.signature is None else self.signature.signed_headers
            dropped = dropped | {each.strip().lower() for each in named.split(b",")}.difference(signed)
        return [
            (name.decode("latin-1"), value.decode("latin-1").strip())
            for name, value in self.headers
            if name not in dropped
        ]


def response_head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the head of a response without the connection's own headers and the empty line."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    status_line = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Unknown\r\n".encode()
    return status_line + lines.encode("latin-1")


def error_answer(error: S3Error, request: HttpRequest) -> tuple[int, bytes, bytes]:
    """Return the status, the head and the body of the response to a refused request, and note the error in it."""
    request.error_code = error.code
    request_id = os.urandom(8).hex().upper()
    details = "".join(f"<{name}>{_escaped(text)}</{name}>" for name, text in error.details)
    resource = _escaped(request.target.partition(b"?")[0].decode("latin-1"))
    xml = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{error.code}</Code><Message>{_escaped(error.message)}</Message>{details}"
        f"<Resource>{resource}</Resource><RequestId>{request_id}</RequestId></Error>"
    ).encode()
    body = b"" if request.method == b"HEAD" else xml
    headers = (
        ("content-type", "application/xml"),
        ("content-length", str(len(body))),
        ("x-amz-request-id", request_id),
    )
    return error.status, response_head(error.status, headers), body


def _escaped(text: str) -> str:
    """Return text for XML, which cannot have most control characters, not even escaped."""
    return escape(
        "".join(each if each.isprintable() or each in "\t\n" else "\N{REPLACEMENT CHARACTER}" for each in text)
    )
