"""Object writes of a gateway: requests that pass to S3, with the copies dropped that they make old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from burstcache.gateway.http_connection import HttpConnection
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.object_cache import ObjectCache
from burstcache.gateway.responses import hold_back, passed_headers, relay, release_held
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import Target, changed_keys, deletes_many, keys_of_deletion

_DELETION_BYTES = 4 << 20  # DeleteObjects names at most 1,000 keys of 1 KB

Send = Callable[[AsyncIterator[bytes] | bytes | None], Awaitable[aiohttp.ClientResponse]]


async def pass_on(
    cache: ObjectCache,
    request: HttpRequest,
    connection: HttpConnection,
    target: Target,
    send: Send,
    content: AsyncIterator[bytes] | None,
) -> None:
    """Send a request to S3, and the response to the client. The client gets a write's response once copies are dropped.

    Args:
        cache: The cached bucket.
        request: The client's request.
        connection: The client's connection.
        target: What the request addresses.
        send: Sends the request to S3 with a body, and returns the response.
        content: The body for S3. None: none.
    """
    keys: list[str] = []
    body: AsyncIterator[bytes] | bytes | None = content
    if target.bucket == cache.bucket:
        keys = changed_keys(request, target)
        if not keys and deletes_many(request.method, target) and content is not None:
            body = await _collected(content)
            keys = keys_of_deletion(body)
    if not keys:
        response = await send(body)
        try:
            await relay(connection, request, response, passed_headers(response))
        finally:
            response.release()
        return
    cache.begin_write(keys)
    try:
        response = await send(body)
        try:
            answer = await hold_back(connection, request, response)
        finally:
            response.release()
    finally:
        await asyncio.shield(cache.finish_write(keys))
    release_held(connection, response, answer)


async def _collected(content: AsyncIterator[bytes]) -> bytes:
    """Return the body of DeleteObjects. Raise S3Error if it is too long."""
    body = b""
    async for piece in content:
        body += piece
        if len(body) > _DELETION_BYTES:
            raise S3Error("MalformedXML", f"The body has more than {_DELETION_BYTES} bytes.")
    return body
