"""HTTP/1.1 connection of a gateway: parses requests, applies backpressure both ways, and answers in order.

httptools parses, with llhttp's strict rules: a request that two parsers could read in two ways is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from typing import Any, NoReturn, Protocol, cast

import httptools

from burstcache.gateway.http_messages import HttpRequest, error_answer
from burstcache.gateway.s3_errors import S3Error
from burstcache.logs import logger

MAX_HEAD_BYTES = 65_536  # S3 accepts 8 KB of metadata, and a presigned URL has a few KB
HEAD_WITHIN_S = 20.0  # as long as S3 waits for a request
IDLE_S = 120.0  # longer than SDKs keep an idle connection
BODY_WITHIN_S = (
    60.0  # maximum wait for the next bytes of a request's body, or until the client reads some of a response's
)
_FRAMING = frozenset({b"host", b"content-length", b"transfer-encoding"})
_BODY_BYTES = 1 << 18  # bytes of a request's body that are buffered before reading pauses
_WRITE_BYTES = 1 << 16  # bytes of a response that are buffered before writing pauses
_JOINED_BYTES = 1 << 16  # longest body that is copied behind its head
_LINGER_S = 2.0
_MOST_PIPELINED = 8  # requests that are parsed before the first one is answered


class Application(Protocol):
    """Answers the requests of a connection."""

    def respond_now(self, request: HttpRequest, connection: HttpConnection) -> bool:
        """Answer without blocking, by `HttpConnection.send`. Return False if that is impossible."""

    def respond(self, request: HttpRequest, connection: HttpConnection) -> Awaitable[None]:
        """Answer by `send`, or by `begin`, `write` and `end`."""


class Observer(Protocol):
    """Counts connections and requests."""

    def open_connection(self) -> None:
        """Note an open connection."""

    def close_connection(self) -> None:
        """Note the end of a connection."""

    def end_request(self, request: HttpRequest, peer: str, *, is_complete: bool) -> None:
        """Note a request whose response has been sent, or has broken off. May be called again for the same one."""


class ConnectionLostError(ConnectionError):
    """The client closed its connection, or stopped sending or reading."""


class ReceivedBody:
    """The body of a request, as an asynchronous stream of bytes with backpressure."""

    def __init__(self, connection: HttpConnection, *, expects_continue: bool) -> None:
        self._connection = connection
        self._expects_continue = expects_continue
        self._chunks: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._arrived: asyncio.Future[None] | None = None
        self.is_complete = False
        self._error: Exception | None = None

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        self._chunks.append(data)
        self._buffered_bytes += len(data)
        if self._buffered_bytes > _BODY_BYTES:
            self._connection.pause("body")
        self._wake()

    def finish(self, error: Exception | None = None) -> None:
        """End the body. With an error, the reader gets it after the received bytes."""
        if not self.is_complete:
            self.is_complete = True
            self._error = error
            self._wake()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._expects_continue:
            self._expects_continue = False
            self._connection.send_continue()
        while True:
            while self._chunks:
                data = self._chunks.popleft()
                self._buffered_bytes -= len(data)
                if self._buffered_bytes <= _BODY_BYTES // 2:
                    self._connection.resume("body")
                yield data
            if self.is_complete:
                if self._error is not None:
                    raise self._error
                return
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(BODY_WITHIN_S):
                    await self._arrived
            except TimeoutError:
                message = (
                    "Your socket connection to the server was not read from or written to within the timeout period."
                )
                raise S3Error("RequestTimeout", message) from None
            finally:
                self._arrived = None

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


class HttpConnection(asyncio.Protocol):
    """A client's connection.

    Attributes:
        closed: Done once the connection is closed.
    """

    def __init__(self, application: Application, connections: set[HttpConnection], recorder: Observer) -> None:
        """Create the protocol of a connection.

        Args:
            application: Answers the requests.
            connections: All open connections of the process, for its shutdown.
            recorder: Counts the connection and its requests.
        """
        self._application = application
        self._recorder = recorder
        self._peer: str | None = None
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)  # set before any other call
        self._pauses: set[str] = set()
        self._writable: asyncio.Future[None] | None = None
        self._is_write_paused = False
        self._queue: deque[HttpRequest] = deque()
        self._active: HttpRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._give_up_at_s = 0.0
        self._is_closing = False
        self._is_closing_soon = False  # after the response that is under way
        self._is_lost = False
        self._has_ended = False  # the client sends no more
        self._is_refused = False  # what the client sends cannot be parsed
        self._is_answered = False  # the head of the active request's response has been sent
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._body: ReceivedBody | None = None

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._connections.add(self)
        self._recorder.open_connection()
        self._wait_for_head(HEAD_WITHIN_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = self._is_closing = True
        self._connections.discard(self)
        self._recorder.close_connection()
        self.closed.set_result(None)
        self._cancel_timer()
        self._queue.clear()
        if self._body is not None:
            self._body.finish(ConnectionLostError("the client closed the connection"))
        if self._writable is not None and not self._writable.done():
            self._writable.set_exception(ConnectionLostError("the client closed the connection"))
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(S3Error("NotImplemented", "Protocol upgrades are not supported."))
        except httptools.HttpParserError as error:
            cause = error.__context__
            refusal = cause if isinstance(cause, S3Error) else S3Error("BadRequest", "The HTTP request is malformed.")
            self._refuse(refusal)

    def eof_received(self) -> bool:
        if self._body is not None and not self._body.is_complete:
            self._body.finish(ConnectionLostError("the client ended the body early"))
        self._has_ended = True
        return self._active is not None  # a client may close its side and still read

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # The parser's calls.

    def on_message_begin(self) -> None:
        self._target, self._headers, self._head_bytes = b"", [], 0

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._head_bytes += len(url)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise S3Error("BadRequest", f"HTTP/{version} is not supported; accepted: HTTP/1.1, HTTP/1.0.")
        framing = [each for each in self._headers if each[0] in _FRAMING]
        has_body = False
        if len(framing) > 1:
            names = [name for name, _ in framing]
            if len(set(names)) < len(names):
                raise S3Error("BadRequest", "Host, Content-Length and Transfer-Encoding may occur once.")
        for name, value in framing:
            if name == b"transfer-encoding":
                _check_coding(value, version)
                has_body = True
            elif name == b"content-length":
                has_body = has_body or value.strip() != b"0"
        request = HttpRequest(
            method=parser.get_method(),
            target=self._target,
            headers=self._headers,
            is_http_1_0=version == "1.0",
            keeps_alive=parser.should_keep_alive(),
        )
        self._headers = []  # of the trailers, which nobody reads
        if has_body:
            expects = any(name == b"expect" and value.lower() == b"100-continue" for name, value in request.headers)
            request.body = self._body = ReceivedBody(self, expects_continue=expects)
        self._queue.append(request)
        if len(self._queue) >= _MOST_PIPELINED:
            self.pause("pipeline")
        if has_body:  # otherwise its message is complete right after, and may be answered at once
            self._next()

    def on_body(self, body: bytes) -> None:
        if self._body is not None:
            self._body.feed(body)

    def on_message_complete(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.finish()
        else:
            self._next()

    # For the application.

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self._transport.get_extra_info("sslcontext") is not None

    @property
    def peer(self) -> str:
        """The client's address, empty for a Unix socket."""
        if self._peer is None:
            name: Any = self._transport.get_extra_info("peername")
            self._peer = str(name[0]) if isinstance(name, tuple) else ""
        return self._peer

    def send(self, status: int, head: bytes, body: bytes | memoryview = b"") -> None:
        """Send a complete response. `head` is of `response_head`, without the connection's own headers.

        A body that the client does not read at once is buffered, so large ones are for `write`.
        """
        head = self._begin(status, head)
        self._count(body)
        if len(body) <= _JOINED_BYTES:
            self._transport.write(b"".join((head, body)))
        else:
            self._transport.writelines((head, body))
        self._finish()

    def begin(self, status: int, head: bytes) -> None:
        """Send the head of a response, whose body comes by `write`."""
        self._transport.write(self._begin(status, head))

    def write_soon(self, data: bytes | memoryview) -> None:
        """Send a part of the body. It is buffered as long as the client does not read."""
        if not self._is_lost:
            self._count(data)
            self._transport.write(data)

    async def write(self, data: bytes | memoryview) -> None:
        """Send a part of the body, and wait until the client reads fast enough.

        Raises:
            ConnectionLostError: The client is gone, or has read nothing for a minute.
        """
        self._count(data)
        self._transport.write(data)
        await self._drain()

    def end(self) -> None:
        """End the response."""
        self._finish()

    def abort(self) -> None:
        """Break the connection, so that the client sees that its response is incomplete."""
        self._is_closing = True
        self._transport.abort()
        if self._active is not None:
            self._recorder.end_request(self._active, self.peer, is_complete=False)

    @property
    def is_slow(self) -> bool:
        """Whether the client has yet to read so much of the response that writing should wait."""
        return self._is_write_paused

    @property
    def has_begun(self) -> bool:
        """Whether the head of the response has been sent."""
        return self._is_answered

    def close_when_idle(self) -> None:
        """Close the connection after the response that is under way."""
        self._is_closing_soon = True
        if self._active is None and not self._queue and self._body is None:
            self._close()

    def send_continue(self) -> None:
        """Tell the client to send the body of its request."""
        if not self._is_closing:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def pause(self, reason: str) -> None:
        """Stop reading from the client."""
        if not self._pauses and not self._is_closing:
            self._transport.pause_reading()
        self._pauses.add(reason)

    def resume(self, reason: str) -> None:
        """Read from the client again, unless there is another reason not to."""
        if reason in self._pauses:
            self._pauses.discard(reason)
            if not self._pauses and not self._is_closing:
                self._transport.resume_reading()

    # Internals.

    def _next(self) -> None:
        """Answer the next request, unless one is being answered."""
        while self._active is None and self._queue and not self._is_closing:
            request = self._active = self._queue.popleft()
            self._is_answered = False
            self.resume("pipeline")
            if request.body is None and self._application.respond_now(request, self):
                continue
            self._task = self._loop.create_task(self._respond(request))

    async def _respond(self, request: HttpRequest) -> None:
        try:
            await self._application.respond(request, self)
        except ConnectionLostError:
            self.abort()
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception as error:  # any error: the client gets a response, and the connection stays usable
            self._fail(request, error)
        finally:
            if self._task is asyncio.current_task():  # the next request may be under way
                self._task = None
            self._next()

    def _fail(self, request: HttpRequest, error: Exception) -> None:
        if not isinstance(error, S3Error):
            logger().error("a request of the gateway failed", reason=repr(error), target=repr(request.target[:200]))
            error = S3Error("InternalError", "We encountered an internal error. Please try again.")
        if self._is_answered:
            self.abort()
        elif not self._is_lost:
            status, head, body = error_answer(error, request)
            self.send(status, head, body)

    def _begin(self, status: int, head: bytes) -> bytes:
        """Begin a response, and return its complete head."""
        request = self._active
        assert request is not None
        body = request.body
        keeps_alive = request.keeps_alive and not self._is_closing_soon
        if body is not None and not body.is_complete:
            keeps_alive = False  # the rest of the body would have to be read first
        request.keeps_alive = keeps_alive
        self._is_answered = True
        request.status, request.head, request.begun_ns = status, head, time.monotonic_ns()
        if keeps_alive:
            return head + (b"connection: keep-alive\r\n\r\n" if request.is_http_1_0 else b"\r\n")
        return head + b"connection: close\r\n\r\n"

    def _finish(self) -> None:
        request, self._active = self._active, None
        if request is not None:
            self._recorder.end_request(request, self.peer, is_complete=not self._is_lost)
        if self._is_refused or (request is not None and request.body is not None and not request.body.is_complete):
            self._linger()
        elif (
            request is None or not request.keeps_alive or self._is_closing_soon or (not self._queue and self._has_ended)
        ):
            self._close()
        else:
            self.resume("body")  # the application may have answered without reading it
            if not self._queue:
                self._wait_for_head(IDLE_S)

    def _count(self, data: bytes | memoryview) -> None:
        if self._active is not None:
            self._active.count_sent(data)

    async def _drain(self) -> None:
        if self._is_lost:
            raise ConnectionLostError("the client closed the connection")
        while self._is_write_paused:
            left_bytes = self._transport.get_write_buffer_size()
            self._writable = self._loop.create_future()
            try:
                async with asyncio.timeout(BODY_WITHIN_S):
                    await self._writable
            except TimeoutError:
                if self._transport.get_write_buffer_size() >= left_bytes:
                    raise ConnectionLostError("the client does not read") from None
            finally:
                self._writable = None

    def _refuse_head(self) -> NoReturn:
        raise S3Error("RequestHeaderSectionTooLarge", f"The headers have more than {MAX_HEAD_BYTES} bytes.")

    def _refuse(self, error: S3Error) -> None:
        """Answer a request that cannot be parsed, after those before it, and close the connection."""
        self._is_refused = True
        if self._active is not None or self._queue:
            self._queue.clear()
            if self._body is not None:
                self._body.finish(error)
            self._is_closing_soon = True
            return
        request = self._active = HttpRequest(method=b"GET", target=self._target, headers=[], keeps_alive=False)
        self._fail(request, error)

    def _wait_for_head(self, within_s: float) -> None:
        """Wait for the next request. A timer that is running stays, since a new one for each request takes longer."""
        self._give_up_at_s = self._loop.time() + within_s
        if self._timer is None:
            self._timer = self._loop.call_later(within_s, self._give_up)

    def _give_up(self) -> None:
        """Close a connection whose client sends no complete request in time."""
        self._timer = None
        if self._active is not None or self._queue:
            return
        left_s = self._give_up_at_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._give_up)
        else:
            self._close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _linger(self) -> None:
        """Discard the rest of a body for a while, since a close with unread bytes may destroy the response."""
        self._is_closing = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._pauses:
            self._pauses.clear()
            self._transport.resume_reading()
        self._cancel_timer()
        self._timer = self._loop.call_later(_LINGER_S, self._close)

    def _close(self) -> None:
        self._is_closing = True
        self._cancel_timer()
        self._transport.close()


def _check_coding(value: bytes, version: str) -> None:
    """Refuse transfer codings other than `chunked`, and any in HTTP/1.0, whose proxies do not know them."""
    if version == "1.0" or value.strip().lower() != b"chunked":
        raise S3Error("BadRequest", "The transfer coding is not supported; accepted: chunked, in HTTP/1.1.")
