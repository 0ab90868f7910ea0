"""Connections proxied by a hub: from a reader that members cannot dial, or from a replica, to one member."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from burstcache.core.errors import FrameError
from burstcache.pool.channel import Channel
from burstcache.pool.connection import FrameConnection, Sink
from burstcache.pool.frames import Header, Kind

_MAX_PENDING = 4  # requests in flight to the member, per connection; reading pauses while as many more are queued
_IDLE_LIMIT_S = 300.0  # a reader may be frozen or dead, and its connection takes memory
_READER_KINDS = frozenset({Kind.GET, Kind.PUT, Kind.DELETE})
_REPLICA_KINDS = _READER_KINDS | {Kind.LIST, Kind.FETCH}


class _Request:
    """A request forwarded to the member, with its response forwarded back."""

    def __init__(self, connection: ProxiedConnection, header: Header, name: bytes, payload: memoryview | None) -> None:
        self._connection = connection
        self._header = header
        self._name = name
        self._payload = payload or b""
        self._number = 0
        self._channel: Channel | None = None
        self.is_forwarding = False

    def send(self, channel: Channel) -> None:
        """Send the request to the member."""
        header, payload = self._header, self._payload
        self._channel, self._payload = channel, b""
        self._number = channel.send_request(
            header.kind, self, self._name, payload, number=header.number, crc32c=header.crc32c
        )

    def cancel(self) -> None:
        """Cancel the request, if it was sent."""
        if self._channel:
            self._channel.cancel_request(self._number)

    def place(self, request: int, header: Header) -> Sink | None:
        if self.is_forwarding:  # a retry: the forwarded part of the first response cannot be revoked
            self._connection.end()
            return None
        self.is_forwarding = True
        self._connection.transport.write(header._replace(request=self._header.request, name_bytes=0).pack())
        return self._connection.forward

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        if not self.is_forwarding:
            self._connection.send(header.kind, self._header.request, number=header.number, crc32c=header.crc32c)
        self._connection.complete(self._header.request)

    def on_failure(self, request: int) -> None:
        self._connection.end()


class ProxiedConnection(FrameConnection):
    """A hub's end of a reader's connection to one member.

    Responses are forwarded as they arrive. A chunk for the member is received completely before it is forwarded, since
    readers share the member's connection and none may block it. A slow reader does not block others, since backpressure
    delays its next requests until it has received its responses. The connection is closed when the member is lost, or
    after 5 minutes without a request.

    Args:
        find: Returns the channel to the member, or None if the member is unreachable.
        kinds: The accepted request kinds.
    """

    def __init__(self, find: Callable[[], Channel | None], kinds: frozenset[Kind] = _READER_KINDS) -> None:
        super().__init__()
        self._find = find
        self._kinds = kinds
        self._waiting: dict[int, _Request] = {}
        self._pending: dict[int, _Request] = {}
        self._is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._idle = self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle.cancel()
        self._waiting.clear()
        for request in self._pending.values():
            request.cancel()
        self._pending.clear()

    def pause_writing(self) -> None:
        self._is_busy = True

    def resume_writing(self) -> None:
        self._is_busy = False
        self._send_waiting()

    def place(self, header: Header, name: bytes) -> memoryview:
        return memoryview(bytearray(header.payload_bytes))

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        self._idle.cancel()
        self._idle = self._start_idle_timer()
        number = header.request
        if header.kind is Kind.CANCEL:
            self._waiting.pop(number, None)
            if number in self._pending and not self._pending[number].is_forwarding:
                self._pending.pop(number).cancel()
                self._send_waiting()
        elif header.kind not in self._kinds or number in self._waiting or number in self._pending:
            raise FrameError(f"a reader does not send {header.kind.name} as its request {number}")
        else:
            self._waiting[number] = _Request(self, header, name, payload)
            self._send_waiting()

    def forward(self, part: memoryview) -> bool:
        """Forward a part of a response. Return True if the part's memory may be reused."""
        self.transport.write(part)
        return not self.transport.get_write_buffer_size()

    def complete(self, number: int) -> None:
        """Remove an answered request."""
        del self._pending[number]
        self._send_waiting()

    def _start_idle_timer(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(_IDLE_LIMIT_S, self.end)

    def _send_waiting(self) -> None:
        while self._waiting and not self._is_busy and len(self._pending) < _MAX_PENDING:
            channel = self._find()
            if not channel:
                return self.end()
            number = next(iter(self._waiting))
            self._pending[number] = self._waiting.pop(number)
            self._pending[number].send(channel)
        if len(self._waiting) < _MAX_PENDING:
            self.transport.resume_reading()
        else:  # backpressure
            self.transport.pause_reading()


class ProxiedReplicaConnection(ProxiedConnection):
    """A hub's end of the connection over which a replica copies the chunks of its primary.

    Args:
        find: Returns the channel to the primary, or None if the primary is gone.
    """

    def __init__(self, find: Callable[[], Channel | None]) -> None:
        super().__init__(find, _REPLICA_KINDS)
        self.is_done = False
        self.passed_bytes = 0

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if header.kind is Kind.DONE:
            self.is_done = True
            self.send(Kind.STORED, header.request)
            self.transport.close()
        else:
            super().handle(header, name, payload)

    def forward(self, part: memoryview) -> bool:
        self.passed_bytes += len(part)
        return super().forward(part)
