"""Frames over a transport, each payload received where it belongs, or passed on as it arrives."""

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

# Takes each part of a payload as it arrives; returns whether the part's memory is free again.
Sink = Callable[[memoryview], bool]
# Where a payload goes: into memory of its length, to others, or (None) nowhere.
Place = memoryview | Sink | None

_logger = logging.getLogger(__name__)


class _Thread(threading.local):
    """Where a part of a payload arrives that is passed on.

    One for all connections of an event loop, since each part is taken before another comes; a thread has one loop.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Take other memory: somebody still needs what is in the present one."""
        self.parts = memoryview(bytearray(_PART_BYTES))


_thread = _Thread()


class _Ended(asyncio.Transport):
    """Sends and receives nothing any more."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: object) -> None:
        """Drop it."""

    def writelines(self, list_of_data: object) -> None:
        """Drop them."""

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
    """One end of a connection. Until the other is trusted, only short payloads are accepted, and not for long.

    Subclasses answer two questions: where a payload goes, and what a frame means.
    """

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_trusted = False
        self.transport: asyncio.Transport
        self._header_room = memoryview(bytearray(HEADER_BYTES))
        self._room = self._header_room  # what is received next
        self._sink: Sink | None = None
        self._begin()

    @abstractmethod
    def place(self, header: Header, name: bytes) -> Place:
        """Return where to receive a payload: memory as long as it is, what takes it part by part, or nowhere."""

    @abstractmethod
    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        """Handle a frame; without payload if it was not received in memory.

        Raises:
            FrameError: The other side does not keep to the protocol; the connection ends.
        """

    def trust(self) -> None:
        """Accept all frames from now on: the other end has proved itself."""
        self.is_trusted = True
        self._handshake.cancel()

    def send(
        self, kind: Kind, request: int, name: bytes = b"", payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> None:
        """Send a frame. The payload must not change before it is answered."""
        head = Header(kind, request, number, len(name), len(payload), crc32c).pack() + name
        if payload:
            self.transport.writelines((head, payload))
        else:
            self.transport.write(head)

    def end(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def stop_receiving(self) -> None:
        """Receive the rest of the present payload nowhere: its place is needed for something else."""
        if self._payload is not None:
            self._pass_on(_drop, len(self._room))
        elif self._sink:
            self._sink = _drop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._handshake = asyncio.get_running_loop().call_later(HANDSHAKE_LIMIT_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._handshake.cancel()
        self.transport = _ENDED  # asyncio's own knows this connection for as long as it lives
        if not self.ended.done():
            self.ended.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _thread.parts[: self._left] if self._sink else self._room

    def buffer_updated(self, nbytes: int) -> None:
        if self._sink:
            self._left -= nbytes
            if not self._sink(_thread.parts[:nbytes]):
                _thread.renew()
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
        self._left = 0  # of a payload that is passed on
        # No bound method: that would be a cycle, which keeps TLS's memory until the garbage is collected.
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
            self._pass_on(place or _drop, length)

    def _pass_on(self, sink: Sink, length: int) -> None:
        self._payload, self._sink, self._left = None, sink, length

    def _end_payload(self) -> None:
        header, name, payload = self._header, self._name, self._payload
        self._begin()
        self.handle(header, name, payload)


def _drop(part: memoryview) -> bool:
    return True
