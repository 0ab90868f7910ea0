"""A member of the pool: it dials the hub that its invocation names, and serves chunks until the connection ends."""

from __future__ import annotations

import asyncio
import ssl

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import Chunk, ChunkStore
from burstcache.pool import proof
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind
from burstcache.pool.isa_l import room


class MemberConnection(FrameConnection):
    """A member's end: it accepts chunks and names, never code."""

    def __init__(self, name: str, token: bytes, store: ChunkStore) -> None:
        super().__init__()
        self._member = name.encode()
        self._token = token
        self._store = store
        self._hub_nonce = b""
        self._own_nonce = proof.nonce()
        self._asked: dict[int, bytes] = {}  # slices that were asked for, by request, while the connection is busy
        self._is_busy = False

    def place(self, header: Header, name: bytes) -> memoryview | None:
        if header.kind is Kind.PUT and not self._store.fits(header.payload_bytes):
            return None
        return room(header.payload_bytes)

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if not self.is_trusted:
            return self._shake_hands(header, bytes(payload or b""))
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

    def _shake_hands(self, header: Header, payload: bytes) -> None:
        if header.kind is Kind.CHALLENGE and len(payload) == proof.NONCE_BYTES and not self._hub_nonce:
            self._hub_nonce = payload
            own = proof.prove(self._token, b"member", self._member, self._hub_nonce, self._own_nonce)
            self.send(Kind.PROOF, 0, self._member, self._own_nonce + own)
        elif (
            header.kind is Kind.WELCOME
            and self._hub_nonce
            and proof.is_proven(payload, self._token, b"hub", self._member, self._hub_nonce, self._own_nonce)
        ):
            self.trust()
        else:
            raise FrameError("the hub has not proved that it knows the invocation's token")

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
