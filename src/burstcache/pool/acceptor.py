"""The acceptor: the listener's side of the handshake.

Until a caller has proved its role, its connection uses a few hundred bytes and lasts at most five seconds.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping

from burstcache.core.errors import FrameError
from burstcache.pool import handshake
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind

# Takes the name and the header of a proof, and returns the protocol that handles the connection from then on.
Role = Callable[[str, Header], FrameConnection]

# Keep-alive settings that detect dead connections. Options that the system does not support are skipped.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_USER_TIMEOUT": 120_000}  # seconds, seconds, milliseconds


class Acceptor(FrameConnection):
    """An incoming connection, until its caller has proved its role.

    Args:
        roles: For each role, the token that the caller must know, and the protocol that then takes over.
        on_connected: Called once the connection is established, after the TLS handshake.
    """

    def __init__(self, roles: Mapping[Kind, tuple[bytes, Role]], on_connected: Callable[[Acceptor], object]) -> None:
        super().__init__()
        self._on_connected = on_connected
        self._roles = roles
        self._nonce = handshake.nonce()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        _enable_keep_alive(transport.get_extra_info("socket"))
        self._on_connected(self)
        self.send(Kind.CHALLENGE, 0, payload=self._nonce)

    def place(self, header: Header, name: bytes) -> memoryview:
        return memoryview(bytearray(header.payload_bytes))

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        proof = bytes(payload or b"")
        caller_nonce, proof = proof[: handshake.NONCE_BYTES], proof[handshake.NONCE_BYTES :]
        token, role = self._roles.get(header.kind, (b"", None))
        claim = (name, self._nonce, caller_nonce)
        if not role or not handshake.is_proven(proof, token, handshake.SIDES[header.kind], *claim):
            raise FrameError("the caller has not proved that it knows the token")
        self.send(Kind.WELCOME, 0, payload=handshake.prove(token, handshake.SIDES[Kind.WELCOME], *claim))
        self.trust()
        self.ended.set_result(None)
        connection = role(name.decode(errors="replace"), header)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        connection.trust()


def _enable_keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, limit in _KEEP_ALIVE.items():
        if option := getattr(socket, name, None):
            connection.setsockopt(socket.IPPROTO_TCP, option, limit)
