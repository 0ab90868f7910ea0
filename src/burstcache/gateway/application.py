"""Application of a gateway: answers S3's requests from the cache, and passes everything else to S3."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from email.utils import formatdate
from functools import partial
from xml.sax.saxutils import escape

import aiohttp

from burstcache.core.errors import BurstcacheError
from burstcache.gateway.access import Access
from burstcache.gateway.http_connection import ConnectionLostError, HttpConnection
from burstcache.gateway.http_messages import HttpRequest, error_answer, response_head
from burstcache.gateway.object_cache import Body, ObjectCache
from burstcache.gateway.origin import Origin, lower_names, unavailable
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import (
    ObjectRead,
    Target,
    Targets,
    changes_object,
    deletes_many,
    keys_of_deletion,
    object_read,
)
from burstcache.gateway.uploads import upload_of
from burstcache.serve.large_objects import Part
from burstcache.serve.reader import Miss
from burstcache.serve.shared_reads import flight_key
from burstcache.web.request import Request
from burstcache.web.response import Response

_FIRST_WINDOW_BYTES = 1 << 18  # one slice; each further window is twice as long, if the client keeps reading
_MOST_WINDOW_BYTES = 8 << 20
_RECORDED_BYTES = 128 << 20  # of bodies that are on their way into the cache, per process
_FOLLOWED_S = 10.0  # how long a read waits for an identical one
_DELETION_BYTES = 4 << 20  # DeleteObjects names at most 1,000 keys of 1 KB
_HOP_BY_HOP = frozenset(
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
# Headers of the client that concern its connection or its signature. The origin's request has its own.
_OWN = _HOP_BY_HOP | {"authorization", "content-length", "expect", "host", "x-amz-content-sha256", "x-amz-date"}
_OWN |= {"x-amz-security-token"}
_LENGTH = ("content-length",)

Header = tuple[str, str]


class GatewayApplication:
    """Answers the requests of one process's connections. For one event loop."""

    def __init__(self, cache: ObjectCache, origin: Origin, targets: Targets, access: Access) -> None:
        """Create the application.

        Args:
            cache: The cached bucket.
            origin: S3.
            targets: Parses request targets.
            access: Decides who may send requests.
        """
        self._access = access
        self._cache = cache
        self._origin = origin
        self._targets = targets
        self._flights: dict[object, asyncio.Future[None]] = {}
        self._recorded_bytes = 0
        self._date = b""
        self._date_s = 0

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        """Answer a request from memory, or refuse it. Return False if that is impossible without waiting."""
        try:
            try:
                self._access.check(request)
            except S3Error as error:
                if self._access.may_know_later(error):
                    return False
                raise
            request.is_authorised = True
            target = self._targets.find(request)
            if not target.key or request.method not in (b"GET", b"HEAD"):
                return False
            if (read := object_read(request, target)) is None:
                return False
            wanted = self._cache.request(request.method.decode(), target, read)
            if wanted is None or (found := self._cache.recall(wanted)) is None:
                return False
        except S3Error as error:
            status, head, body = error_answer(error, request)
            connection.send(status, head, body)
            return True
        response, content = found
        self._send(request, connection, wanted, read, response, content)
        return True

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        """Answer a request that may have to wait."""
        if not request.is_authorised:
            try:
                self._access.check(request)
            except S3Error as error:
                if not self._access.may_know_later(error):
                    raise
                await self._access.check_again(request, error)
        target = self._targets.find(request)
        if target.key and request.method in (b"GET", b"HEAD") and request.body is None:
            read = object_read(request, target)
            if read is None and target.bucket == self._cache.bucket:
                self._cache.note_bypass(target.key)
            wanted = None if read is None else self._cache.request(request.method.decode(), target, read)
            if wanted is not None and read is not None:
                await self._read(request, connection, target, read, wanted)
                return
        await self._forward(request, connection, target)

    # Reads through the cache.

    async def _read(
        self, request: HttpRequest, connection: HttpConnection, target: Target, read: ObjectRead, wanted: Request
    ) -> None:
        found = await self._cache.find(wanted)
        key = flight_key(wanted)
        if isinstance(found, Miss) and not found.fills and (flight := self._flights.get(key)) is not None:
            await asyncio.wait((flight,), timeout=_FOLLOWED_S)
            if (recalled := self._cache.recall(wanted)) is not None:
                self._send(request, connection, wanted, read, *recalled)
                return
            found = await self._cache.find(wanted)
        if isinstance(found, Response):
            await self._deliver(request, connection, wanted, read, found)
            return
        flight = asyncio.get_running_loop().create_future()
        is_leader = self._flights.setdefault(key, flight) is flight
        try:
            await self._read_through(request, connection, target, read, wanted, found, flight)
        finally:
            if is_leader and not flight.done():
                self._land(key, flight)

    def _land(self, key: object, flight: asyncio.Future[None]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.done():
            flight.set_result(None)

    async def _read_through(
        self,
        request: HttpRequest,
        connection: HttpConnection,
        target: Target,
        read: ObjectRead,
        wanted: Request,
        miss: Miss,
        flight: asyncio.Future[None],
    ) -> None:
        """Send S3's response to the client as it arrives, and keep its body."""
        cache, headers = self._cache, _forwarded(request)
        if wanted.method == "GET" and not read.wants_checksum:
            headers.append(("x-amz-checksum-mode", "ENABLED"))
        response = await self._origin.send(wanted.method, target, headers)
        lower = lower_names(list(response.headers.items()))
        try:
            cache.note_answer(wanted, response.status, lower, miss)
            if (taken := cache.take_over(wanted, response.status, lower, miss)) is not None:
                response.close()
                self._land(flight_key(wanted), flight)
                part = cache.part(wanted, taken)
                assert part is not None
                sent = [*_sendable(response.headers.items(), read), *_source(taken)]
                await self._send_part(connection, response.status, sent, part)
                return
            length_bytes = int(lower.get("content-length", 0))
            sent = [*_sendable(response.headers.items(), read), *_MISS]
            if length_bytes > _RECORDED_BYTES - self._recorded_bytes or not cache.keeps(
                wanted, response.status, lower, miss
            ):
                if await self._relay(connection, request, response, sent):
                    cache.note_absence(wanted, miss)
                return
            self._recorded_bytes += length_bytes
            try:
                keep = partial(cache.keep, wanted, response.status, lower, miss=miss)
                await self._relay(connection, request, response, sent, keep)
            finally:
                self._recorded_bytes -= length_bytes
        finally:
            response.release()

    async def _deliver(
        self, request: HttpRequest, connection: HttpConnection, wanted: Request, read: ObjectRead, found: Response
    ) -> None:
        """Send a response of the cache."""
        part = self._cache.part(wanted, found)
        if part is None:
            self._send(request, connection, wanted, read, found, found.body)
            return
        await self._send_part(connection, found.status, _hit_headers(wanted, read, found), part)

    async def _send_part(self, connection: HttpConnection, status: int, headers: Iterable[Header], part: Part) -> None:
        """Send a response whose body is a part of a large object, in windows that grow while the client reads on."""
        slices = self._cache.client.large.slices
        position, window_bytes = part.start, _FIRST_WINDOW_BYTES
        head = response_head(status, headers) + self._date_line()
        while position < part.end:
            end = min(part.end, position - position % window_bytes + window_bytes)
            is_short = end - position <= _FIRST_WINDOW_BYTES
            body: Body | None = slices.recall(part.version, position, end) if is_short else None
            if body is None:
                into = memoryview(bytearray(end - position))
                try:
                    await asyncio.wrap_future(slices.begin(part.version, position, into))
                except BurstcacheError as error:
                    raise unavailable(error) from error
                body = into
            if position == part.start:
                connection.begin(status, head)
            await connection.write(body)
            position = end
            window_bytes = min(2 * window_bytes, _MOST_WINDOW_BYTES)
        connection.end()

    def _send(
        self,
        request: HttpRequest,
        connection: HttpConnection,
        wanted: Request,
        read: ObjectRead,
        response: Response,
        body: Body,
    ) -> None:
        """Send a complete response of the cache."""
        if response.status == 404:
            body = _absence(request, wanted)
            headers: Iterable[Header] = [
                ("content-type", "application/xml"),
                ("content-length", str(len(body))),
                ("x-amz-request-id", wanted.request_id),
                *_source(response),
            ]
        else:
            headers = _hit_headers(wanted, read, response)
        head = response_head(response.status, headers) + self._date_line()
        connection.send(response.status, head, b"" if request.method == b"HEAD" else body)

    def _date_line(self) -> bytes:
        now_s = int(time.time())
        if now_s != self._date_s:
            self._date_s, self._date = now_s, f"date: {formatdate(now_s, usegmt=True)}\r\n".encode()
        return self._date

    # Everything else.

    async def _forward(self, request: HttpRequest, connection: HttpConnection, target: Target) -> None:
        """Send a request to S3, and the response to the client. Drop the copies that a write makes old."""
        upload = upload_of(request, _forwarded(request))
        content: AsyncIterator[bytes] | bytes | None = upload.content
        keys: list[str] = []
        if target.bucket == self._cache.bucket:
            if changes_object(request.method, target):
                keys = [target.key]
            elif deletes_many(request.method, target) and upload.content is not None:
                content = await _collected(upload.content)
                keys = keys_of_deletion(content)
        send = partial(
            self._origin.send,
            request.method.decode(),
            target,
            upload.headers,
            payload=upload.payload,
            body=content,
        )
        if not keys:
            response = await send()
            try:
                await self._relay(connection, request, response, _sendable(response.headers.items(), None))
            finally:
                response.release()
            return
        self._cache.begin_write(keys)
        is_over = False
        try:
            response = await send()
            try:
                answer = await self._hold_back(connection, request, response)
            finally:
                response.release()
            is_over = True
        finally:
            await asyncio.shield(self._cache.finish_write(keys))
        assert is_over
        self._release_answer(connection, request, response, answer)

    async def _hold_back(
        self, connection: HttpConnection, request: HttpRequest, response: aiohttp.ClientResponse
    ) -> bytes:
        """Return the body of S3's response to a write, which the client gets once copies are dropped.

        S3 sends spaces while it copies an object or completes an upload. The client gets them at once, since it might
        lose patience otherwise.
        """
        held = b""
        try:
            async for chunk in response.content.iter_any():
                held += chunk
                if not held.strip() and not request.is_http_1_0:
                    if not connection.has_begun:
                        headers = [each for each in _sendable(response.headers.items(), None) if each[0] not in _LENGTH]
                        headers.append(("transfer-encoding", "chunked"))
                        connection.begin(response.status, response_head(response.status, headers))
                    await connection.write(_chunk(held))
                    held = b""
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, ConnectionLostError):
                raise
            raise unavailable(error) from error
        return held

    def _release_answer(
        self, connection: HttpConnection, request: HttpRequest, response: aiohttp.ClientResponse, body: bytes
    ) -> None:
        """Send what `_hold_back` has returned."""
        if connection.has_begun:
            connection.write_soon(_chunk(body) + _chunk(b"") if body else _chunk(b""))
            connection.end()
            return
        headers = [each for each in _sendable(response.headers.items(), None) if each[0].lower() not in _LENGTH]
        if response.status not in (204, 304):
            headers.append(("content-length", str(len(body))))
        connection.send(response.status, response_head(response.status, headers), body)

    async def _relay(
        self,
        connection: HttpConnection,
        request: HttpRequest,
        response: aiohttp.ClientResponse,
        headers: list[Header],
        keep: Callable[[bytes], None] | None = None,
    ) -> bool:
        """Send S3's response to the client as it arrives. Return True if S3 says that the object does not exist.

        Args:
            connection: The client's connection.
            request: The client's request.
            response: S3's response.
            headers: The headers to send.
            keep: Gets the whole body before the client does. A slow client then does not slow down the reading.
        """
        status = response.status
        has_body = request.method != b"HEAD" and status not in (204, 304)
        names = {name.lower() for name, _ in headers}
        is_chunked = has_body and "content-length" not in names
        if is_chunked and request.is_http_1_0:
            request.keeps_alive = is_chunked = False  # the end of the connection ends the body
        elif is_chunked:
            headers.append(("transfer-encoding", "chunked"))
        connection.begin(status, response_head(status, headers))
        if not has_body:
            connection.end()
            return request.method == b"HEAD" and status == 404
        first, recorded = b"", list[bytes]()
        try:
            async for chunk in response.content.iter_any():
                first = first or chunk
                data = _chunk(chunk) if is_chunked else chunk
                if keep is None:
                    await connection.write(data)
                else:
                    recorded.append(chunk)
                    connection.write_soon(data)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, ConnectionLostError):
                raise
            connection.abort()  # the client sees that the body is incomplete
            raise unavailable(error) from error
        if keep is not None:
            keep(b"".join(recorded))
        if is_chunked:
            connection.write_soon(_chunk(b""))
        connection.end()
        return status == 404 and b"<Code>NoSuchKey</Code>" in first


async def _collected(content: AsyncIterator[bytes]) -> bytes:
    """Return the body of DeleteObjects. Raise S3Error if it is too long."""
    body = b""
    async for piece in content:
        body += piece
        if len(body) > _DELETION_BYTES:
            raise S3Error("MalformedXML", f"The body has more than {_DELETION_BYTES} bytes.")
    return body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _forwarded(request: HttpRequest) -> list[Header]:
    """Return the headers of a request that S3 gets, without those of its connection and signature."""
    named = (request.header(b"connection") or b"").decode("latin-1").lower()
    dropped = _OWN | {each.strip() for each in named.split(",")} if named else _OWN
    return [
        (name, value.decode("latin-1").strip())
        for name, value in ((name.decode("latin-1"), value) for name, value in request.headers)
        if name not in dropped
    ]


def _sendable(headers: Iterable[Header], read: ObjectRead | None) -> list[Header]:
    """Return the headers of S3's response for the client, with checksums only if it asked for them."""
    drops_checksums = read is not None and not read.wants_checksum
    return [
        (name, value)
        for name, value in (
            (name, value.encode("utf-8", "surrogateescape").decode("latin-1")) for name, value in headers
        )
        if (lower := name.lower()) not in _HOP_BY_HOP and not (drops_checksums and lower.startswith("x-amz-checksum-"))
    ]


def _hit_headers(wanted: Request, read: ObjectRead, response: Response) -> Iterable[Header]:
    headers = response.headers
    if not read.wants_checksum:
        headers = {name: value for name, value in headers.items() if not name.startswith("x-amz-checksum-")}
    return ({**headers, **read.overrides, "x-amz-request-id": wanted.request_id}).items()


_MISS = (("x-cache", "miss"), ("x-cache-tier", "s3"), ("x-cache-bound", "0"))


def _source(response: Response) -> list[Header]:
    return [(name, response.headers[name]) for name in ("x-cache", "x-cache-tier", "x-cache-bound", "age")]


def _absence(request: HttpRequest, wanted: Request) -> bytes:
    """Return the body of S3's response for an object that does not exist, empty for a HEAD."""
    if request.method == b"HEAD":
        return b""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code>'
        f"<Message>The specified key does not exist.</Message><Key>{escape(wanted.key)}</Key>"
        f"<RequestId>{wanted.request_id}</RequestId></Error>"
    ).encode("utf-8", "replace")
