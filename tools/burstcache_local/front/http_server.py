"""The front door's HTTP server, which is aiohttp's server with AWS's responses to malformed requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong

from burstcache_local.front.http_events import HttpRequest
from burstcache_local.hosts import is_loopback

_MAX_HEAD_BYTES = 10_240  # API Gateway's limit for the request line plus all header values
_LINGERING_S = 1.0  # keep reading a rejected body for this long, so that the client can read the response
_PART_LIMIT_S = 30.0  # for a request's head, and for its body; equals the front door's timeout

Handler = Callable[[HttpRequest], Awaitable[web.Response]]


class Connection(web.RequestHandler):
    """A connection that survives a half-close by the client, and limits the time to receive each request's head."""

    __slots__ = ("_head_limit_s", "_head_timer", "_is_half_closed")

    def __init__(self, *args: Any, head_limit_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_half_closed = False
        self._head_limit_s = head_limit_s
        self._head_timer: asyncio.TimerHandle | None = None  # runs while a head is incomplete

    def data_received(self, data: bytes) -> None:
        """Receive data, with a time limit for each request's head, which aiohttp lacks."""
        current = self._current_request
        is_body = current is not None and not current.content.is_eof()
        super().data_received(data)
        if self._messages:
            self._stop_timer()
        elif self._head_timer is None and not is_body:
            self._head_timer = self._loop.call_later(self._head_limit_s, self._refuse_head)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the timer for the head."""
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse_head(self) -> None:
        if self._waiter is None:  # another request is being answered
            self._head_timer = self._loop.call_later(self._head_limit_s, self._refuse_head)
            return
        body = json.dumps({"message": HTTPStatus.REQUEST_TIMEOUT.phrase}).encode()
        head = f"HTTP/1.1 408 {HTTPStatus.REQUEST_TIMEOUT.phrase}\r\nContent-Type: application/json; charset=utf-8\r\n"
        if self.transport is not None:
            self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.force_close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep a half-closed connection open for pending responses. aiohttp would close the connection."""
        if self._current_request is not None:
            _end(self._current_request)
        is_answering = self._request_count > 0 and self._waiter is None
        self._is_half_closed = is_answering or bool(self._messages)
        if not self._messages:
            self.close()  # takes effect after the current response
        return self._is_half_closed

    def begin(self, request: web.BaseRequest) -> None:
        """Begin to handle a request. A half-closed connection closes after its last request."""
        if self._is_half_closed and not self._messages:
            _end(request)
            self.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to malformed HTTP with an error. Any other exception is a bug of ours, which aiohttp logs."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        request._version = HttpVersion11  # not parsed yet; the only supported version
        if isinstance(exc, LineTooLong):
            return refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return refusal(HTTPStatus.BAD_REQUEST)


class Server(web.Server):
    """An HTTP server that passes requests to a handler.

    Args:
        handler: Handles a request and returns the response.
        max_body_bytes: Maximum size of a request body.
        body_limit_s: Time limit to receive a request body [s].
        head_limit_s: Time limit to receive the request line and headers [s].
    """

    def __init__(
        self,
        handler: Handler,
        *,
        max_body_bytes: int,
        body_limit_s: float = _PART_LIMIT_S,
        head_limit_s: float = _PART_LIMIT_S,
    ) -> None:
        super().__init__(
            self._handle,
            access_log=None,
            keepalive_timeout=3600,
            max_line_size=_MAX_HEAD_BYTES,
            max_field_size=_MAX_HEAD_BYTES,
            auto_decompress=False,  # functions get the body as sent
            lingering_time=_LINGERING_S,
        )
        self._front_handler, self._max_body_bytes, self._body_limit_s = handler, max_body_bytes, body_limit_s
        self._head_limit_s = head_limit_s

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, head_limit_s=self._head_limit_s, **self._kwargs)

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.begin(request)
        target = _target(request.raw_path)
        if request.version.major != 1 or not target.startswith("/"):
            return refusal(HTTPStatus.BAD_REQUEST)
        if "Host" in request.headers and not is_loopback(request.headers["Host"]):
            return refusal(HTTPStatus.FORBIDDEN)
        line_bytes = len(f"{request.method} {request.raw_path} HTTP/1.1")
        if line_bytes + sum(map(len, request.headers.values())) > _MAX_HEAD_BYTES:
            return refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        try:
            async with asyncio.timeout(self._body_limit_s):
                body = await self._body(request)
        except TimeoutError:
            return refusal(HTTPStatus.REQUEST_TIMEOUT)
        except HttpProcessingError:
            return refusal(HTTPStatus.BAD_REQUEST)
        if len(body) > self._max_body_bytes:
            return refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        path, _, query = target.partition("?")
        headers = tuple(request.headers.items())
        source_ip = request.remote or "127.0.0.1"
        return await self._front_handler(HttpRequest(request.method, path, query, headers, body, source_ip))

    async def _body(self, request: web.BaseRequest) -> bytes:
        if not request.can_read_body:
            return b""
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > self._max_body_bytes:
                break
        return bytes(body)


def refusal(status: HTTPStatus) -> web.Response:
    """Return an error response in API Gateway's format. The connection closes afterwards."""
    response = web.json_response({"message": status.phrase}, status=status)
    response.force_close()
    return response


def _end(request: web.BaseRequest) -> None:
    """Fail the read of an incomplete request body."""
    if not request.content.is_eof():
        request.content.set_exception(BadHttpMessage("the client has stopped sending"))


def _target(raw: str) -> str:
    """Return the path and query of a request target, which may include scheme and host."""
    if raw.startswith(("http://", "https://")):
        return "/" + raw.partition("://")[2].partition("/")[2]
    return raw
