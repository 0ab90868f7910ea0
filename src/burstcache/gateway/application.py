"""Application of a gateway: answers S3's requests from the cache, and passes everything else to S3."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp

from burstcache.gateway.access import Access
from burstcache.gateway.forward_proxy import ForwardProxy
from burstcache.gateway.http_connection import HttpConnection
from burstcache.gateway.http_messages import HttpRequest, error_answer
from burstcache.gateway.object_cache import ObjectCache
from burstcache.gateway.object_reads import ObjectReads
from burstcache.gateway.object_writes import pass_on
from burstcache.gateway.origin import S3Origin
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import ObjectRead, Target, Targets, object_read
from burstcache.gateway.uploads import upload_of

_READS = (b"GET", b"HEAD")
# Of S3. A store that answers TRACE would show the gateway's own signature.
_METHODS = (*_READS, b"PUT", b"POST", b"DELETE", b"OPTIONS")


class GatewayApplication:
    """Answers the requests of one process's connections. For one event loop."""

    def __init__(
        self,
        cache: ObjectCache,
        origin: S3Origin,
        targets: Targets,
        access: Access,
        proxy: ForwardProxy | None = None,
    ) -> None:
        """Create the application.

        Args:
            cache: The cached bucket.
            origin: S3.
            targets: Parses request targets.
            access: Decides who may send requests.
            proxy: Answers requests for S3's own host names. None: they are refused.
        """
        self._proxy = proxy
        self._cache = cache
        self._origin = origin
        self._targets = targets
        self._access = access
        self._reads = ObjectReads(cache, origin)

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        """Answer a request from memory, or refuse it. Return False if that is impossible without waiting."""
        if self._proxy is not None and not request.target.startswith(b"/"):
            return False
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
        if request.method not in _METHODS:
            raise S3Error("MethodNotAllowed", "The specified method is not allowed against this resource.")
        if self._proxy is not None and not request.target.startswith(b"/"):
            await self._proxy.respond(request, connection)
            return
        if request.method == b"POST":
            self._refuse_form(request)
        if not request.is_authorised and not self._access.check(request):
            await self._access.check_again(request)
        target = self._targets.find(request)
        read = self._read_of(request, target)
        if read is not None and await self._reads.respond(request, connection, target, read):
            return
        if read is None and target.key and request.method in _READS and target.bucket == self._cache.bucket:
            self._cache.note_bypass(target.key)
        await self._forward(request, connection, target)

    def _read_of(self, request: HttpRequest, target: Target) -> ObjectRead | None:
        """Return the read that the cache may answer, or None."""
        if target.bucket != self._cache.bucket or not target.key or request.method not in _READS:
            return None
        return object_read(request, target) if request.body is None else None

    def _refuse_form(self, request: HttpRequest) -> None:
        """Refuse an upload by a form, whose signature is in its body."""
        is_form = (request.header(b"content-type") or b"").lower().startswith(b"multipart/form-data")
        if is_form and not self._targets.find(request).key:
            message = "An upload by a form is signed for S3 itself. Send it to S3, or use PUT."
            raise S3Error("NotImplemented", message)

    async def _forward(self, request: HttpRequest, connection: HttpConnection, target: Target) -> None:
        """Send a request to S3, signed with the gateway's credentials."""
        upload = upload_of(request, [*request.passed_headers(), *target.headers])

        async def send(body: AsyncIterator[bytes] | bytes | None) -> aiohttp.ClientResponse:
            method = request.method.decode()
            return await self._origin.send(method, target, upload.headers, payload=upload.payload, body=body)

        await pass_on(self._cache, request, connection, target, send, upload.content)
