"""A connection that carries frames. Each payload is received in place, or forwarded as it arrives."""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool.frames import HEADER_BYTES, MAX_PAYLOAD_BYTES, Header, Kind, parse

_PART_BYTES = 256 * 1024
_HANDSHAKE_PAYLOAD_BYTES = 64
HANDSHAKE_LIMIT_S = 5.0

# Consumes each part of a payload as it arrives. Returns True if the part's memory may be reused.
Sink = Callable[[memoryview], bool]
# The destination of a payload: memory of its length, a sink, or None to discard it.
Place = memoryview | Sink | None

_logger = logging.getLogger(__name__)


class _ForwardBuffer(threading.local):
    """The buffer for forwarded payloads.

    All connections of an event loop share one buffer, because each part is consumed before the next arrives. Each
    thread runs one loop.
    """

    def __init__(self) -> None:
        self.replace()

    def replace(self) -> None:
        """Allocate new memory, since a transport still needs the current contents."""
        self.memory = memoryview(bytearray(_PART_BYTES))


_forward_buffer = _ForwardBuffer()


class _Ended(asyncio.Transport):
    """The transport of a lost connection. It ignores all calls."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: object) -> None:
        """Discard the data."""

    def writelines(self, list_of_data: object) -> None:
        """Discard the data."""

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


_ENDED = _Ended()


class FrameConnection(asyncio.BufferedProtocol, ABC):
    """One end of a connection.

    Until the other end is trusted, only payloads of up to 64 bytes are accepted, for up to 5 seconds. Subclasses
    choose the destination of each payload and handle each frame.
    """

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_trusted = False
        self.transport: asyncio.Transport
        self._header_room = memoryview(bytearray(HEADER_BYTES))
        self._room = self._header_room  # receives the next bytes
        self._sink: Sink | None = None
        self._begin()

    @abstractmethod
    def place(self, header: Header, name: bytes) -> Place:
        """Return the destination of a payload: memory of its length, a sink, or None to discard it."""

    @abstractmethod
    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        """Handle a frame. The payload is None if it was not received into memory.

        Raises:
            FrameError: The other end violates the protocol. The connection is aborted.
        """

    def trust(self) -> None:
        """Accept all frames from now on. Call this method once the other end is authenticated."""
        self.is_trusted = True
        self._handshake.cancel()

    def send(
        self, kind: Kind, request: int, name: bytes = b"", payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> None:
        """Send a frame. Do not modify the payload before the response arrives."""
        head = Header(kind, request, number, len(name), len(payload), crc32c).pack() + name
        if payload:
            self.transport.writelines((head, payload))
        else:
            self.transport.write(head)

    def end(self) -> None:
        """Abort the connection."""
        self.transport.abort()

    def stop_receiving(self) -> None:
        """Discard the rest of the current payload, since its memory may be reused now."""
        if self._payload is not None:
            self._receive_by(_discard, len(self._room))
        elif self._sink:
            self._sink = _discard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        self._handshake = asyncio.get_running_loop().call_later(HANDSHAKE_LIMIT_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._handshake.cancel()
        self.transport = _ENDED  # breaks the reference cycle with asyncio's own transport
        if not self.ended.done():
            self.ended.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _forward_buffer.memory[: self._left] if self._sink else self._room

    def buffer_updated(self, nbytes: int) -> None:
        if self._sink:
            self._left -= nbytes
            if not self._sink(_forward_buffer.memory[:nbytes]):
                _forward_buffer.replace()
        else:
            self._room = self._room[nbytes:]
        if not (self._left if self._sink else self._room):
            try:
                self._next(self)
            except FrameError as error:
                _logger.warning("a connection of the pool ends: %s", error)
                self.transport.abort()

    def _begin(self) -> None:
        self._room = self._header_room
        self._payload: memoryview | None = None
        self._sink = None
        self._left = 0  # bytes of a forwarded payload that have not arrived yet
        # Not a bound method, since a reference cycle would keep the TLS buffers until the next garbage collection.
        self._next: Callable[[FrameConnection], None] = FrameConnection._end_header

    def _end_header(self) -> None:
        limit = MAX_PAYLOAD_BYTES if self.is_trusted else _HANDSHAKE_PAYLOAD_BYTES
        self._header = parse(self._header_room, max_payload_bytes=limit)
        self._name = b""
        if not self._header.name_bytes:
            return self._begin_payload()
        self._name_room = bytearray(self._header.name_bytes)
        self._room = memoryview(self._name_room)
        self._next = FrameConnection._end_name

    def _end_name(self) -> None:
        self._name = bytes(self._name_room)
        self._begin_payload()

    def _begin_payload(self) -> None:
        self._next = FrameConnection._end_payload
        length = self._header.payload_bytes
        if not length:
            return self._end_payload()
        place = self.place(self._header, self._name)
        if isinstance(place, memoryview):
            self._room = self._payload = place
        else:
            self._receive_by(place or _discard, length)

    def _receive_by(self, sink: Sink, length: int) -> None:
        self._payload, self._sink, self._left = None, sink, length

    def _end_payload(self) -> None:
        header, name, payload = self._header, self._name, self._payload
        self._begin()
        self.handle(header, name, payload)


def _discard(part: memoryview) -> bool:
    return True
