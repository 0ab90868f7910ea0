"""HTTP messages of a gateway: a parsed request, and the head of a response."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from burstcache.gateway.http_connection import RequestBody
    from burstcache.gateway.signatures import Signature

Headers = list[tuple[bytes, bytes]]  # names in lower case, in the order of the message

_STATUS_LINES = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}


@dataclass(slots=True, eq=False)
class HttpRequest:
    """A request as it came over the connection.

    Attributes:
        method: The method, in upper case.
        target: The request target: path and query, still encoded.
        headers: The headers, with names in lower case.
        is_http_1_0: Whether the client speaks HTTP/1.0, which has no chunks.
        keeps_alive: Whether the connection stays open after the response.
        body: The body. None: the request has none.
        signature: The verified signature. None: the request needs none.
        status: The status of the response, once it has begun.
    """

    method: bytes
    target: bytes
    headers: Headers = field(default_factory=list)
    is_http_1_0: bool = False
    keeps_alive: bool = True
    body: RequestBody | None = None
    signature: Signature | None = None
    status: int = 0

    def header(self, name: bytes) -> bytes | None:
        """Return the first header with a lower-case name, or None."""
        for each, value in self.headers:
            if each == name:
                return value
        return None


def status_line(status: int) -> bytes:
    """Return the status line of a response."""
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Unknown\r\n".encode()


def response_head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the head of a response without the connection's own headers and the empty line."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return status_line(status) + lines.encode("latin-1")
