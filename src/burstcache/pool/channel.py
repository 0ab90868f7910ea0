"""A channel to one member. It sends requests, and matches each response to its request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool.connection import FrameConnection, Place
from burstcache.pool.frames import Header, Kind


class Caller(Protocol):
    """The sender of a request. It is called back once per request, unless it cancels the request."""

    def place(self, request: int, header: Header) -> Place:
        """Return the destination of an arriving chunk."""

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        """Process a response."""

    def on_failure(self, request: int) -> None:
        """Handle the loss of the member."""


class Notification:
    """A request with an empty response. `answer` resolves to True if the response is of the expected kind."""

    def __init__(self, kind: Kind) -> None:
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._kind = kind

    def place(self, request: int, header: Header) -> None:
        return None

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        self._settle(header.kind is self._kind)

    def on_failure(self, request: int) -> None:
        self._settle(False)

    def _settle(self, answer: bool) -> None:
        if not self.answer.done():  # done if the waiting task was cancelled
            self.answer.set_result(answer)


class Channel(Protocol):
    """A channel to a member: an open connection, or one opened on demand."""

    def send_request(
        self, kind: Kind, caller: Caller, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        """Send a request and return its id."""

    def cancel_request(self, request: int) -> None:
        """Cancel a GET and release the memory into which its chunk was being received."""

    def end(self) -> None:
        """Abort the connection, for example after a timeout."""


class Channels(Protocol):
    """A hub's channels, by member."""

    def find_channel(self, member: str) -> Channel | None:
        """Return the channel to a member, or None if the member is unreachable."""


def request_numbers() -> Iterator[int]:
    """Yield request ids, unique among requests in flight."""
    while True:
        yield from range(1, 1 << 32)


class ConnectionChannel(FrameConnection):
    """A channel over one connection. The other end decides which member responds.

    Args:
        requests: Request ids, shared by all channels of one hub or reader.
    """

    def __init__(self, requests: Iterator[int]) -> None:
        super().__init__()
        self._requests = requests
        self._callers: dict[int, Caller] = {}
        self._receiving = 0

    def send_request(
        self, kind: Kind, caller: Caller, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        """Send a request and return its id."""
        request = next(self._requests)
        self._callers[request] = caller
        self.send(kind, request, name, payload, number=number, crc32c=crc32c)
        return request

    def cancel_request(self, request: int) -> None:
        """Cancel a GET and release the memory into which its chunk was being received."""
        if not self._callers.pop(request, None):
            return
        if self._receiving == request:
            self.stop_receiving()
        elif not self.transport.is_closing():
            self.send(Kind.CANCEL, request)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.fail_all()

    def fail_all(self) -> None:
        """Fail all pending requests."""
        callers, self._callers = self._callers, {}
        for request, caller in callers.items():
            caller.on_failure(request)

    def place(self, header: Header, name: bytes) -> Place:
        self._receiving = header.request
        caller = self._callers.get(header.request)
        return caller.place(header.request, header) if caller else None

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        self._receiving = 0
        if caller := self._callers.pop(header.request, None):
            caller.on_answer(header.request, header, payload)
