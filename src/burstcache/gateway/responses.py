"""Responses of a gateway: the heads of hits and misses, and S3's responses as they pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from xml.sax.saxutils import escape

import aiohttp

from burstcache.gateway.http_connection import ConnectionLostError, HttpConnection
from burstcache.gateway.http_messages import HOP_BY_HOP, HttpRequest, response_head
from burstcache.gateway.origin import unavailable
from burstcache.gateway.s3_requests import ObjectRead
from burstcache.serve.memory_tier import CachedEntry
from burstcache.web.headers import age_s, without_checksums
from burstcache.web.request import Request
from burstcache.web.response import Response

_CHANGING = ("age", "date")
_MEMORY_HIT = (("accept-ranges", "bytes"), ("x-cache-tier", "memory"), ("x-cache", "hit"))
_MISS = (("x-cache", "miss"), ("x-cache-tier", "s3"), ("x-cache-bound", "0"))
_PIECE_BYTES = 1 << 18  # that a slow client gets at a time
_WITHOUT_BODY = (204, 304)
_NOT_FOUND = 404

Headers = list[tuple[str, str]]


class _Date:
    """The Date header, which changes once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second, self._line = now, f"date: {formatdate(now, usegmt=True)}\r\n".encode()
        return self._line


_date = _Date()


def hit_head(request: Request, read: ObjectRead, response: Response) -> bytes:
    """Return the head of a response of the cache.

    Args:
        request: The read.
        read: What the client asks beside: overrides, checksums.
        response: The cache's response.
    """
    headers = response.headers if read.wants_checksum else without_checksums(response.headers)
    headers = {**headers, **read.overrides, "x-amz-request-id": request.request_id}
    return response_head(response.status, headers.items()) + _date.line()


def entry_head(request: Request, read: ObjectRead, cached: CachedEntry, bound_ms: int) -> bytes:
    """Return the head of the response to a plain GET of an entry in memory. The entry keeps what does not change."""
    entry, variant = cached.entry, read.wants_checksum
    if (lasting := cached.heads.get(variant)) is None:
        headers = entry.meta if variant else without_checksums(entry.meta)
        kept = [(name, value) for name, value in headers.items() if name not in _CHANGING]
        lasting = response_head(200, [*kept, *_MEMORY_HIT])
        cached.heads[variant] = lasting
    age = age_s(entry.meta, at_us=request.at_us) if "date" in entry.meta else entry.meta.get("age", "0")
    changing = f"age: {age}\r\nx-cache-bound: {bound_ms}\r\nx-amz-request-id: {request.request_id}\r\n"
    return b"".join((lasting, changing.encode(), _date.line()))


def absence(request: Request, response: Response) -> tuple[bytes, bytes]:
    """Return the head and the body of the response for an object that S3 does not have, as S3 sends it."""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code>'
        f"<Message>The specified key does not exist.</Message><Key>{escape(request.key)}</Key>"
        f"<RequestId>{request.request_id}</RequestId></Error>"
    ).encode("utf-8", "replace")
    body = b"" if request.method == "HEAD" else body
    source = [(name, response.headers[name]) for name in ("x-cache", "x-cache-tier", "x-cache-bound", "age")]
    headers = [
        ("content-type", "application/xml"),
        ("content-length", str(len(body))),
        ("x-amz-request-id", request.request_id),
        *source,
    ]
    return response_head(_NOT_FOUND, headers) + _date.line(), body


def passed_headers(response: aiohttp.ClientResponse) -> Headers:
    """Return the headers of S3's response for the client, without those of S3's connection."""
    return [
        (name, value.encode("utf-8", "surrogateescape").decode("latin-1"))  # aiohttp decodes UTF-8
        for name, value in response.headers.items()
        if name.lower() not in HOP_BY_HOP
    ]


def miss_headers(response: aiohttp.ClientResponse, read: ObjectRead) -> Headers:
    """Return the headers of S3's response to a read that the cache could not answer."""
    headers = passed_headers(response)
    if not read.wants_checksum:
        headers = [each for each in headers if not each[0].lower().startswith("x-amz-checksum-")]
    return [*headers, *_MISS]


async def relay(
    connection: HttpConnection,
    request: HttpRequest,
    response: aiohttp.ClientResponse,
    headers: Headers,
    keep: Callable[[bytes], None] | None = None,
) -> bool:
    """Send S3's response to the client as it arrives. Return True if S3 says that the object does not exist.

    Args:
        connection: The client's connection.
        request: The client's request.
        response: S3's response.
        headers: The headers to send.
        keep: Gets the whole body before the client does. A slow client does not slow down the reading: it gets the rest
            of its response from the whole body.
    """
    status = response.status
    has_body = request.method != b"HEAD" and status not in _WITHOUT_BODY
    is_chunked = has_body and not any(name.lower() == "content-length" for name, _ in headers)
    if is_chunked and request.is_http_1_0:
        request.keeps_alive = is_chunked = False  # the end of the connection ends the body
    elif is_chunked:
        headers.append(("transfer-encoding", "chunked"))
    connection.begin(status, response_head(status, headers))
    if not has_body:
        connection.end()
        return request.method == b"HEAD" and status == _NOT_FOUND
    first, recorded = b"", list[bytes]()
    sent_bytes = recorded_bytes = 0
    try:
        async for chunk in response.content.iter_any():
            first = first or chunk
            data = chunked(chunk) if is_chunked else chunk
            if keep is None:
                await connection.write(data)
            else:
                if sent_bytes == recorded_bytes and not connection.is_slow:
                    connection.write_soon(data)
                    sent_bytes += len(chunk)
                recorded.append(chunk)
                recorded_bytes += len(chunk)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _broken_off(error) from error
    if keep is not None:
        body = b"".join(recorded)
        recorded.clear()
        keep(body)
        for start in range(sent_bytes, len(body), _PIECE_BYTES):
            piece = body[start : start + _PIECE_BYTES]
            await connection.write(chunked(piece) if is_chunked else piece)
    if is_chunked:
        connection.write_soon(chunked(b""))
    connection.end()
    return status == _NOT_FOUND and b"<Code>NoSuchKey</Code>" in first


async def hold_back(connection: HttpConnection, request: HttpRequest, response: aiohttp.ClientResponse) -> bytes:
    """Return the body of S3's response to a write, for `release_held`.

    S3 sends spaces while it copies an object or completes an upload. The client gets them at once, since it might lose
    patience otherwise.
    """
    held = b""
    try:
        async for chunk in response.content.iter_any():
            held += chunk
            if not held.strip() and not request.is_http_1_0:
                if not connection.has_begun:
                    headers = [*_without_length(response), ("transfer-encoding", "chunked")]
                    connection.begin(response.status, response_head(response.status, headers))
                await connection.write(chunked(held))
                held = b""
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _broken_off(error) from error
    return held


def release_held(connection: HttpConnection, response: aiohttp.ClientResponse, body: bytes) -> None:
    """Send what `hold_back` has returned."""
    if connection.has_begun:
        connection.write_soon(chunked(body) + chunked(b"") if body else chunked(b""))
        connection.end()
        return
    headers = _without_length(response)
    if response.status not in _WITHOUT_BODY:
        headers.append(("content-length", str(len(body))))
    connection.send(response.status, response_head(response.status, headers), body)


def chunked(data: bytes) -> bytes:
    """Return a chunk of HTTP's chunked transfer coding. An empty one ends a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _without_length(response: aiohttp.ClientResponse) -> Headers:
    return [each for each in passed_headers(response) if each[0].lower() != "content-length"]


def _broken_off(error: Exception) -> Exception:
    """Return the error of a failed relay: the client is gone, or S3 has broken off its response."""
    return error if isinstance(error, ConnectionLostError) else unavailable(error)
