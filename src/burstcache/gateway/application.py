"""Application of a gateway: answers S3's requests from the cache, and passes everything else to S3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from burstcache.gateway.access import Access
from burstcache.gateway.http_connection import HttpConnection
from burstcache.gateway.http_messages import HttpRequest, error_answer
from burstcache.gateway.object_cache import ObjectCache
from burstcache.gateway.object_reads import ObjectReads
from burstcache.gateway.origin import Origin
from burstcache.gateway.responses import hold_back, passed_headers, relay, release_held
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

_DELETION_BYTES = 4 << 20  # DeleteObjects names at most 1,000 keys of 1 KB
_READS = (b"GET", b"HEAD")


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
        self._cache = cache
        self._origin = origin
        self._targets = targets
        self._access = access
        self._reads = ObjectReads(cache, origin)

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        """Answer a request from memory, or refuse it. Return False if that is impossible without waiting."""
        try:
            if not self._access.check(request):
                return False
            target = self._targets.find(request)
            read = self._read_of(request, target)
            return read is not None and self._reads.respond_now(request, connection, target, read)
        except S3Error as error:
            connection.send(*error_answer(error, request))
            return True

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        """Answer a request that may have to wait."""
        if not request.is_authorised and not self._access.check(request):
            await self._access.check_again(request)
        target = self._targets.find(request)
        read = self._read_of(request, target)
        if read is not None and await self._reads.respond(request, connection, target, read):
            return
        if target.key and request.method in _READS and target.bucket == self._cache.bucket:
            self._cache.note_bypass(target.key)
        await self._forward(request, connection, target)

    def _read_of(self, request: HttpRequest, target: Target) -> ObjectRead | None:
        """Return what the cache may answer, or None."""
        if target.bucket != self._cache.bucket or not target.key or request.method not in _READS:
            return None
        return object_read(request, target) if request.body is None else None

    async def _forward(self, request: HttpRequest, connection: HttpConnection, target: Target) -> None:
        """Send a request to S3, and the response to the client. A write first drops the copies that it makes old."""
        if not target.key and request.method == b"POST" and _is_form(request):
            message = "An upload by a form is signed for S3 itself. Send it to S3, or use PUT."
            raise S3Error("NotImplemented", message)
        upload = upload_of(request, request.passed_headers())
        content: AsyncIterator[bytes] | bytes | None = upload.content
        keys: list[str] = []
        if target.bucket == self._cache.bucket:
            if changes_object(request.method, target):
                keys = [target.key]
            elif deletes_many(request.method, target) and upload.content is not None:
                content = await _collected(upload.content)
                keys = keys_of_deletion(content)
        send = partial(
            self._origin.send, request.method.decode(), target, upload.headers, payload=upload.payload, body=content
        )
        if not keys:
            response = await send()
            try:
                await relay(connection, request, response, passed_headers(response))
            finally:
                response.release()
            return
        self._cache.begin_write(keys)
        try:
            response = await send()
            try:
                answer = await hold_back(connection, request, response)
            finally:
                response.release()
        finally:
            await asyncio.shield(self._cache.finish_write(keys))
        release_held(connection, request, response, answer)


def _is_form(request: HttpRequest) -> bool:
    return (request.header(b"content-type") or b"").lower().startswith(b"multipart/form-data")


async def _collected(content: AsyncIterator[bytes]) -> bytes:
    """Return the body of DeleteObjects. Raise S3Error if it is too long."""
    body = b""
    async for piece in content:
        body += piece
        if len(body) > _DELETION_BYTES:
            raise S3Error("MalformedXML", f"The body has more than {_DELETION_BYTES} bytes.")
    return body
