"""Object reads of a gateway: GET and HEAD by the cache, and by S3 on a miss, whose response fills the cache."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing

import aiohttp

from burstcache.core.errors import ObjectNotFoundError, PreconditionFailedError
from burstcache.gateway.http_connection import ConnectionLostError, HttpConnection
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.object_cache import Body, ObjectCache
from burstcache.gateway.origin import S3Origin, lower_names, unavailable
from burstcache.gateway.part_windows import Call, PartWindows
from burstcache.gateway.responses import absence, entry_head, hit_head, miss_headers, passed_headers, relay
from burstcache.gateway.s3_requests import ObjectRead, Target
from burstcache.serve.large_objects import Part, with_tier
from burstcache.serve.reader import Miss
from burstcache.serve.shared_reads import flight_key
from burstcache.web.request import Request
from burstcache.web.response import Response

_HELD_BYTES = 256 << 20  # of bodies that no other client shares yet, until their clients have them, per process
_HELD_WITHIN_S = 1.0  # how long a read waits for its share of that
_PIECE_BYTES = 1 << 20
_UNCOUNTED_BYTES = 1 << 18  # bodies up to this size do not count, so that slow clients of others do not keep them out
_FOLLOWED_S = 10.0  # how long a read waits for an identical one
_MOST_VERSIONS = 3  # attempts to read an object that is overwritten during the read
_NOT_FOUND = 404


class ObjectReads:
    """Answers reads of the cached bucket. For one event loop."""

    def __init__(self, cache: ObjectCache, origin: S3Origin) -> None:
        """Create the reader."""
        self._cache = cache
        self._origin = origin
        # Of reads of S3 whose bodies are kept. False: the read was abandoned, since its client is gone.
        self._flights: dict[object, asyncio.Future[bool]] = {}
        self._held_bytes = 0
        self._holding = deque[asyncio.Future[None]]()  # reads that wait until fewer bytes are held
        client = cache.client
        self._windows = PartWindows(client.large.slices, lambda call: asyncio.wrap_future(client.submit(_called, call)))

    def respond_now(self, request: HttpRequest, connection: HttpConnection, target: Target, read: ObjectRead) -> bool:
        """Answer a read from memory. Return False if that is impossible."""
        wanted = self._cache.request(request.method.decode(), target, read)
        if wanted is None:
            return False
        if read.is_plain and wanted.method == "GET" and (hit := self._cache.recall_entry(wanted)) is not None:
            cached, bound_ms = hit
            connection.send(200, entry_head(wanted, read, cached, bound_ms), cached.entry.body)
            return True
        if (found := self._cache.recall(wanted)) is None:
            return False
        send_hit(connection, wanted, read, *found)
        return True

    async def respond(self, request: HttpRequest, connection: HttpConnection, target: Target, read: ObjectRead) -> bool:
        """Answer a read by any tier or S3. Return False if only S3 can answer it."""
        wanted = self._cache.request(request.method.decode(), target, read)
        if wanted is None:
            return False
        for _ in range(_MOST_VERSIONS):
            try:
                await self._respond(request, connection, target, read, wanted)
                return True
            except (PreconditionFailedError, ObjectNotFoundError) as error:
                if connection.has_begun:  # the client sees that the body is incomplete
                    raise unavailable(error) from error
        return False

    async def _respond(
        self, request: HttpRequest, connection: HttpConnection, target: Target, read: ObjectRead, wanted: Request
    ) -> None:
        if (on_disk := self._cache.recall_part(wanted)) is not None:
            response, stored = on_disk
            await self._send_part(connection, wanted, read, response, stored)
            return
        if self._held_bytes >= _HELD_BYTES:
            await self._await_release()
        found = await self._cache.find(wanted)
        key = flight_key(wanted)
        is_abandoned = True
        while is_abandoned and isinstance(found, Miss) and not found.fills and key in self._flights:
            flight = self._flights[key]
            await asyncio.wait((flight,), timeout=_FOLLOWED_S)
            if (recalled := self._cache.recall(wanted)) is not None:
                send_hit(connection, wanted, read, *recalled)
                return
            found = await self._cache.find(wanted)
            is_abandoned = flight.done() and not flight.result()  # the first of its followers reads S3
        if isinstance(found, Response):
            if (part := self._cache.part(wanted, found)) is not None:
                await self._send_part(connection, wanted, read, found, part)
                return
            if len(found.body) <= _UNCOUNTED_BYTES or found.headers.get("x-cache-tier") == "memory":
                send_hit(connection, wanted, read, found, found.body)
                return
            if await self._send_own(connection, wanted, read, found):
                return
            found = self._cache.miss()  # S3's response takes little memory, since S3 waits for the client
        own: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flights.setdefault(key, own)
        has_ended = True
        try:
            await self._read_through(request, connection, target, read, wanted, found, own)
        except (asyncio.CancelledError, ConnectionLostError):
            has_ended = False
            raise
        finally:
            self._land(key, own, has_ended=has_ended)

    async def _send_own(self, connection: HttpConnection, wanted: Request, read: ObjectRead, found: Response) -> bool:
        """Send a body that no other client shares, at its client's pace. Return False if too many bytes are held."""
        size_bytes = len(found.body)
        if size_bytes > _HELD_BYTES - self._held_bytes:
            return False
        self._held_bytes += size_bytes
        try:
            connection.begin(found.status, hit_head(wanted, read, found))
            for start in range(0, size_bytes, _PIECE_BYTES):
                await connection.write(memoryview(found.body)[start : start + _PIECE_BYTES])
            connection.end()
        finally:
            self._release(size_bytes)
        return True

    async def _await_release(self) -> None:
        """Wait a moment for a client to have its response. A slow one may take longer, so the read goes on then."""
        waiting = asyncio.get_running_loop().create_future()
        self._holding.append(waiting)
        await asyncio.wait((waiting,), timeout=_HELD_WITHIN_S)
        waiting.cancel()

    def _release(self, size_bytes: int) -> None:
        """Hold fewer bytes, and let one of the waiting reads go on."""
        self._held_bytes -= size_bytes
        while self._holding:
            if not (waiting := self._holding.popleft()).done():
                waiting.set_result(None)
                return

    def _land(self, key: object, flight: asyncio.Future[bool], *, has_ended: bool = True) -> None:
        """Let the reads go on that wait for this one."""
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.done():
            flight.set_result(has_ended)

    async def _read_through(
        self,
        request: HttpRequest,
        connection: HttpConnection,
        target: Target,
        read: ObjectRead,
        wanted: Request,
        miss: Miss,
        flight: asyncio.Future[bool],
    ) -> None:
        """Send S3's response to the client as it arrives, and keep its body."""
        headers = request.passed_headers()
        if wanted.method == "GET" and not read.wants_checksum:  # a later read may ask for it
            headers.append(("x-amz-checksum-mode", "ENABLED"))
        response = await self._origin.send(wanted.method, target, headers)
        try:
            lower = lower_names(passed_headers(response))
            self._cache.note_answer(wanted, response.status, lower, miss)
            taken = self._cache.take_over(wanted, response.status, lower, miss)
            if taken is None:
                self._cache.count_sent(wanted, response.status, lower)
                await self._pass_on(request, connection, read, wanted, miss, response, lower)
                return
        finally:
            response.release()
        response.close()
        self._land(flight_key(wanted), flight)
        part = self._cache.part(wanted, taken)
        assert part is not None  # only long bodies are taken over
        await self._send_part(connection, wanted, read, taken, part)

    async def _pass_on(
        self,
        request: HttpRequest,
        connection: HttpConnection,
        read: ObjectRead,
        wanted: Request,
        miss: Miss,
        response: aiohttp.ClientResponse,
        lower: dict[str, str],
    ) -> None:
        cache, headers = self._cache, miss_headers(response, read)
        length_bytes = int(lower.get("content-length", 0))
        counted_bytes = length_bytes if length_bytes > _UNCOUNTED_BYTES else 0
        has_room = counted_bytes <= _HELD_BYTES - self._held_bytes
        if not (has_room and cache.keeps(wanted, response.status, lower, miss)):
            is_absent = await relay(connection, request, response, headers)
            if is_absent and "x-amz-delete-marker" not in lower:
                cache.note_absence(wanted, miss)
            return
        self._held_bytes += counted_bytes

        def keep(body: bytes) -> None:
            cache.keep(wanted, response.status, lower, body, miss)
            if (flight := self._flights.get(key := flight_key(wanted))) is not None:
                self._land(key, flight)  # others need not wait until this client has its response

        try:
            await relay(connection, request, response, headers, keep)
        finally:
            self._release(counted_bytes)

    async def _send_part(
        self, connection: HttpConnection, wanted: Request, read: ObjectRead, response: Response, part: Part
    ) -> None:
        """Send a response whose body is a part of a large object. Its head follows from the first window."""
        async with aclosing(self._windows.read(part)) as windows:
            async for window in windows:
                if not connection.has_begun:
                    tier = await self._windows.tier(part, window)
                    response = with_tier(response, tier, is_hit=tier != "s3")
                    connection.begin(response.status, hit_head(wanted, read, response))
                await connection.write(window[0])
        connection.end()


def send_hit(connection: HttpConnection, wanted: Request, read: ObjectRead, response: Response, body: Body) -> None:
    """Send a complete response of the cache."""
    if response.status == _NOT_FOUND:
        connection.send(_NOT_FOUND, *absence(wanted, response))
    else:
        connection.send(response.status, hit_head(wanted, read, response), b"" if wanted.method == "HEAD" else body)


def _called(call: Call) -> str | None:
    return call()
