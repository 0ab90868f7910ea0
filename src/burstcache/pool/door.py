"""Where others dial in: until one has proved in which part it comes, it costs a few hundred bytes and five seconds."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping

from burstcache.core.errors import FrameError
from burstcache.pool import proof
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind

# Takes the name and the header of a proof, and returns what the connection is from now on.
Part = Callable[[str, Header], FrameConnection]

# When the kernel ends a connection whose other end is gone without a word; some systems lack some of these.
_LOST = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_USER_TIMEOUT": 120_000}  # seconds, seconds, milliseconds


class Door(FrameConnection):
    """The first moments of a connection, at the end that listens.

    Args:
        parts: For each part in which one may come, the token that it must know and what it becomes.
        made: Is called when there is a connection, after TLS.
    """

    def __init__(self, parts: Mapping[Kind, tuple[bytes, Part]], made: Callable[[Door], object]) -> None:
        super().__init__()
        self._made = made
        self._guests = parts
        self._nonce = proof.nonce()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        _end_if_lost(transport.get_extra_info("socket"))
        self._made(self)
        self.send(Kind.CHALLENGE, 0, payload=self._nonce)

    def place(self, header: Header, name: bytes) -> memoryview:
        return memoryview(bytearray(header.payload_bytes))

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        shown = bytes(payload or b"")
        caller_nonce, shown = shown[: proof.NONCE_BYTES], shown[proof.NONCE_BYTES :]
        token, become = self._guests.get(header.kind, (b"", None))
        stated = (name, self._nonce, caller_nonce)
        if not become or not proof.is_proven(shown, token, proof.side(header.kind), *stated):
            raise FrameError("the one that dialled in has not proved that it knows the token")
        self.send(Kind.WELCOME, 0, payload=proof.prove(token, proof.side(Kind.WELCOME), *stated))
        self.trust()
        self.ended.set_result(None)
        connection = become(name.decode(errors="replace"), header)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        connection.trust()


def _end_if_lost(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, limit in _LOST.items():
        if option := getattr(socket, name, None):
            connection.setsockopt(socket.IPPROTO_TCP, option, limit)
