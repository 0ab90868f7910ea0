"""Forward proxy of a gateway: the client's own signature reaches S3, which decides who may read what.

A hit needs a permission, too. S3 gives it by a conditional request with the client's signature, whose answer has no
body if the copy is current. Within a bound that the user sets, an earlier answer of S3 over the same connection, for
the same object and access key, is permission enough. The gateway cannot verify the client's signature itself, so
another connection has to ask S3.

Nothing is read with a client's signature that it did not ask for: its range reaches S3 as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from weakref import WeakKeyDictionary

import aiohttp
from cachetools import TTLCache

from burstcache.gateway.http_connection import HttpConnection
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.object_cache import ObjectCache
from burstcache.gateway.object_reads import send_hit
from burstcache.gateway.object_writes import pass_on
from burstcache.gateway.origin import S3Origin, lower_names
from burstcache.gateway.responses import miss_headers, passed_headers, relay
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import ObjectRead, Target, object_read, parse_target
from burstcache.web.request import Request

_S3_HOST = re.compile(
    r"(?:(?P<bucket>.+)\.)?s3(?:-fips)?(?:\.dualstack)?(?:[.-][a-z]{2}(?:-[a-z]+)+-\d)?\.amazonaws\.com(?:\.cn)?"
)
_ABSOLUTE = re.compile(rb"http://(?P<host>[^/?#]+)(?P<rest>[/?].*)?", re.IGNORECASE | re.DOTALL)
_CREDENTIAL = re.compile(rb"Credential=([^/,\s]+)")
_MOST_GRANTS = 1024  # per connection

_Send = Callable[..., Awaitable[aiohttp.ClientResponse]]
_Grant = tuple[bytes, str]  # the caller, and the hash of the key


class ForwardProxy:
    """Answers requests for S3's own host names. For one event loop."""

    def __init__(self, cache: ObjectCache, origin: S3Origin, *, permitted_s: float) -> None:
        """Create the proxy.

        Args:
            cache: The cached bucket.
            origin: Connections to S3.
            permitted_s: How long an answer of S3 permits further hits of the same caller [s]. 0: S3 permits each hit.
        """
        self._cache = cache
        self._origin = origin
        self._permitted_s = permitted_s
        self._grants: WeakKeyDictionary[HttpConnection, TTLCache[_Grant, None]] = WeakKeyDictionary()

    async def respond(self, request: HttpRequest, connection: HttpConnection) -> None:
        """Answer a request whose target is an absolute URL.

        Raises:
            S3Error: The URL is not S3's.
        """
        url, target = self._target(request)
        headers = request.passed_headers(keeps_signature=True)
        if request.method == b"GET" and request.body is None and target.key and target.bucket == self._cache.bucket:
            read = object_read(request, target)
            wanted = None if read is None else self._cache.request("GET", target, read)
            if read is not None and wanted is not None and not read.conditions.keys() - {"cache-control"}:
                send_read = partial(self._origin.pass_on, "GET", url, target)
                await self._read(request, connection, send_read, headers, read, wanted)
                return
        content = None if request.body is None else aiter(request.body)

        async def send(body: AsyncIterator[bytes] | bytes | None) -> aiohttp.ClientResponse:
            return await self._origin.pass_on(request.method.decode(), url, target, headers, body)

        await pass_on(self._cache, request, connection, target, send, content)

    def _target(self, request: HttpRequest) -> tuple[str, Target]:
        """Return the URL at S3, and the target that it names."""
        host, rest, bucket = _split(request.target)
        if bucket is not None:  # the signature does not cover the scheme, so the way to S3 is encrypted
            base = f"https://{host}"
        elif host == self._origin.netloc:
            base = self._origin.endpoint
        else:
            raise S3Error("AccessDenied", f"This proxy sends requests to S3 only, not to {host[:200]!r}.")
        return base + rest.decode("latin-1"), parse_target(rest, bucket or "")

    async def _read(
        self,
        request: HttpRequest,
        connection: HttpConnection,
        send: _Send,
        headers: list[tuple[str, str]],
        read: ObjectRead,
        wanted: Request,
    ) -> None:
        caller = _caller(request)
        if self._is_permitted(connection, caller, wanted) and (recalled := self._cache.recall(wanted)) is not None:
            send_hit(connection, wanted, read, *recalled)
            return
        miss = self._cache.miss()
        stored = await self._cache.stored(wanted)
        response = await send(headers if stored is None else [*headers, ("if-none-match", stored.entry.etag)])
        if stored is not None and response.status == 304:
            response.release()
            if response.headers.get("last-modified") in (None, stored.entry.last_modified):
                self._cache.confirm(wanted, stored.entry, miss)
                self._permit(connection, caller, wanted)
                send_hit(connection, wanted, read, *stored.answer(wanted))
                return
            response = await send(headers)  # the same bytes were written with another type or other metadata
        try:
            lower = lower_names(passed_headers(response))
            self._cache.note_answer(wanted, response.status, lower, miss)
            self._cache.count_sent(wanted, response.status, lower)
            if response.status in (200, 206):
                self._permit(connection, caller, wanted)
                self._cache.note_head(wanted, lower, miss)
            keep = None
            if self._cache.keeps(wanted, response.status, lower, miss):
                keep = partial(self._cache.keep, wanted, response.status, lower, miss=miss)
            await relay(connection, request, response, miss_headers(response, read), keep)
        finally:
            response.release()

    def _is_permitted(self, connection: HttpConnection, caller: bytes, wanted: Request) -> bool:
        grants = self._grants.get(connection)
        return grants is not None and bool(caller) and (caller, wanted.hash) in grants

    def _permit(self, connection: HttpConnection, caller: bytes, wanted: Request) -> None:
        """Note that S3 has answered a read of the caller."""
        if not self._permitted_s or not caller:
            return
        if (grants := self._grants.get(connection)) is None:
            grants = self._grants[connection] = TTLCache(_MOST_GRANTS, self._permitted_s)
        grants[(caller, wanted.hash)] = None


def proxied_target(url: bytes) -> Target:
    """Parse the path and query of a URL of S3. Raise S3Error if they are malformed."""
    _, rest, bucket = _split(url)
    return parse_target(rest, bucket or "")


def _split(url: bytes) -> tuple[str, bytes, str | None]:
    """Split a URL into its host, its path with the query, and the bucket in AWS's host name. None: another host."""
    if (found := _ABSOLUTE.fullmatch(url)) is None:
        raise S3Error("InvalidURI", "Couldn't parse the specified URI.")
    host, rest = found["host"].decode("latin-1").lower(), found["rest"] or b"/"
    rest = rest if rest.startswith(b"/") else b"/" + rest
    of_aws = _S3_HOST.fullmatch(host.removesuffix(":80"))
    return (host, rest, None) if of_aws is None else (host.removesuffix(":80"), rest, of_aws["bucket"] or "")


def _caller(request: HttpRequest) -> bytes:
    """Return the signer of a request: access key and digest of the session token. Empty: it has none."""
    found = _CREDENTIAL.search(request.header(b"authorization") or b"")
    if found is None:  # a presigned URL may have been passed on
        return b""
    return found[1] + hashlib.sha256(request.header(b"x-amz-security-token") or b"").digest()
