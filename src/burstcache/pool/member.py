"""A member of the pool: it dials the hub that its invocation names, and serves chunks until the connection ends."""

from __future__ import annotations

import asyncio
import ssl

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import Chunk, ChunkStore
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind
from burstcache.pool.isa_l import room
from burstcache.pool.proof import Introduction


class MemberConnection(FrameConnection):
    """A member's end: it accepts chunks and names, never code."""

    def __init__(self, name: str, token: bytes, store: ChunkStore) -> None:
        super().__init__()
        self._introduction = Introduction(Kind.PROOF, name.encode(), token)
        self._store = store
        self._asked: dict[int, bytes] = {}  # slices that were asked for, by request, while the connection is busy
        self._is_busy = False

    def place(self, header: Header, name: bytes) -> memoryview | None:
        if header.kind is Kind.PUT and not self._store.fits(header.payload_bytes):
            return None
        return room(header.payload_bytes)

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if not self.is_trusted:
            frame = self._introduction.answer(header, bytes(payload or b""))
            return self.send(frame[0], 0, *frame[1:]) if frame else self.trust()
        match header.kind:
            case Kind.GET:
                self._asked[header.request] = name
                self._answer()
            case Kind.CANCEL:
                self._asked.pop(header.request, None)
            case Kind.PUT if payload:
                self._store.put(name, Chunk(header.number, header.crc32c, payload))
                self.send(Kind.STORED, header.request)
            case Kind.PUT:
                self.send(Kind.REFUSED, header.request)
            case Kind.DELETE:
                self._store.delete(name)
                self.send(Kind.MISSING, header.request)
            case _:
                raise FrameError(f"a hub does not send {header.kind.name}")

    def pause_writing(self) -> None:
        self._is_busy = True

    def resume_writing(self) -> None:
        self._is_busy = False
        self._answer()

    def _answer(self) -> None:
        while self._asked and not self._is_busy:  # an answer that waits here can still be cancelled
            request = next(iter(self._asked))
            chunk = self._store.get(self._asked.pop(request))
            if chunk:
                self.send(Kind.FOUND, request, payload=chunk.payload, number=chunk.number, crc32c=chunk.crc32c)
            else:
                self.send(Kind.MISSING, request)


async def serve(
    host: str, port: int, name: str, token: bytes, store: ChunkStore, tls: ssl.SSLContext | None = None
) -> None:
    """Serve a hub until it, or the network, ends the connection.

    Args:
        host: The hub's address.
        port: The hub's port.
        name: The member's name, its tenant id.
        token: What hub and invocation share.
        store: Where chunks are kept; it outlives the connection.
        tls: Trusts the stack's authority; None: without TLS.

    Raises:
        OSError: The hub cannot be reached.
    """
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: MemberConnection(name, token, store), host, port, ssl=tls)
    await connection.ended
