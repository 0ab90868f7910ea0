"""Where others dial in: until one has proved in which part it comes, it costs a few hundred bytes and five seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from burstcache.core.errors import FrameError
from burstcache.pool import proof
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind

# Takes the name and the header of a proof, and returns what the connection is from now on.
Part = Callable[[str, Header], FrameConnection]


class Door(FrameConnection):
    """The first moments of a connection, at the end that listens.

    Args:
        parts: For each part in which one may come, the token that it must know and what it becomes.
        there: All connections that have not proved anything yet.
    """

    def __init__(self, parts: Mapping[Kind, tuple[bytes, Part]], there: set[Door]) -> None:
        super().__init__()
        self._parts_of_guests = parts
        self._there = there
        self._nonce = proof.nonce()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._there.add(self)
        self.send(Kind.CHALLENGE, 0, payload=self._nonce)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._there.discard(self)

    def place(self, header: Header, name: bytes) -> memoryview:
        return memoryview(bytearray(header.payload_bytes))

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        shown = bytes(payload or b"")
        caller_nonce, shown = shown[: proof.NONCE_BYTES], shown[proof.NONCE_BYTES :]
        token, become = self._parts_of_guests.get(header.kind, (b"", None))
        stated = (name, self._nonce, caller_nonce)
        if not become or not proof.is_proven(shown, token, proof.side(header.kind), *stated):
            raise FrameError("the one that dialled in has not proved that it knows the token")
        self.send(Kind.WELCOME, 0, payload=proof.prove(token, proof.side(Kind.WELCOME), *stated))
        self.trust()
        self._there.discard(self)
        connection = become(name.decode(errors="replace"), header)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        connection.trust()
