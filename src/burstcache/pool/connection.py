"""Frames over a transport, each payload received where it belongs."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool.frames import HEADER_BYTES, MAX_PAYLOAD_BYTES, Header, Kind, parse

_TRASH = memoryview(bytearray(256 * 1024))  # what is received nowhere; its content means nothing
_HANDSHAKE_PAYLOAD_BYTES = 64
_HANDSHAKE_LIMIT_S = 5.0

_logger = logging.getLogger(__name__)


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
        self._begin()

    @abstractmethod
    def place(self, header: Header, name: bytes) -> memoryview | None:
        """Return where to receive a payload, as long as it is; None: nowhere."""

    @abstractmethod
    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        """Handle a frame; without payload if it was received nowhere.

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

    def stop_receiving(self) -> None:
        """Receive the rest of the present payload nowhere: its place is needed for something else."""
        if self._payload is not None:
            self._discard(len(self._room))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._handshake = asyncio.get_running_loop().call_later(_HANDSHAKE_LIMIT_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._handshake.cancel()
        if not self.ended.done():
            self.ended.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self._room = self._room[nbytes:]
        if not self._room:
            try:
                self._next()
            except FrameError as error:
                _logger.warning("a connection of the pool ends: %s", error)
                self.transport.abort()

    def _begin(self) -> None:
        self._room = self._header_room
        self._payload: memoryview | None = None
        self._to_discard = 0
        self._next: Callable[[], None] = self._end_header

    def _end_header(self) -> None:
        limit = MAX_PAYLOAD_BYTES if self.is_trusted else _HANDSHAKE_PAYLOAD_BYTES
        self._header = parse(self._header_room, max_payload_bytes=limit)
        self._name = b""
        if not self._header.name_bytes:
            return self._begin_payload()
        self._name_room = bytearray(self._header.name_bytes)
        self._room = memoryview(self._name_room)
        self._next = self._end_name

    def _end_name(self) -> None:
        self._name = bytes(self._name_room)
        self._begin_payload()

    def _begin_payload(self) -> None:
        self._next = self._end_payload
        length = self._header.payload_bytes
        if not length:
            return self._end_payload()
        self._payload = self.place(self._header, self._name)
        if self._payload is None:
            self._discard(length)
        else:
            self._room = self._payload

    def _discard(self, length: int) -> None:
        self._payload = None
        self._room = _TRASH[:length]
        self._to_discard = length - len(self._room)

    def _end_payload(self) -> None:
        if self._to_discard:
            return self._discard(self._to_discard)
        header, name, payload = self._header, self._name, self._payload
        self._begin()
        self.handle(header, name, payload)
