"""A member of the pool: it dials the hub that its invocation names, and serves chunks until the connection ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import Chunk, ChunkStore
from burstcache.pool.connection import FrameConnection
from burstcache.pool.copying import Copying
from burstcache.pool.frames import DROPPED_BETWEEN, Header, Kind
from burstcache.pool.isa_l import room
from burstcache.pool.listing import pages
from burstcache.pool.proof import Introduction


class MemberConnection(FrameConnection):
    """A member's end: it accepts chunks and names, never code.

    Args:
        copying: What takes over the chunks of the member's first environment, if this one is a copy.

    Attributes:
        is_copied: Whether another environment is taking over these chunks.
    """

    def __init__(self, name: str, token: bytes, store: ChunkStore, copying: Copying | None = None) -> None:
        super().__init__()
        self.is_copied = False
        self._copying = copying
        self._copy: asyncio.Task[bool]
        self._pages: Iterator[bytes] = iter(())
        self._fetching: set[int] = set()  # requests whose chunk is on its way from there
        self._introduction = Introduction(Kind.PROOF, name.encode(), token)
        self._store = store
        self._asked: dict[
            int, tuple[Kind, bytes]
        ] = {}  # slices that were asked for, by request, while the connection is busy
        self._is_busy = False

    def place(self, header: Header, name: bytes) -> memoryview | None:
        if header.kind is Kind.PUT and not self._store.fits(header.payload_bytes):
            return None
        return room(header.payload_bytes)

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if not self.is_trusted:
            frame = self._introduction.answer(header, bytes(payload or b""))
            if frame:
                return self.send(frame[0], 0, *frame[1:], number=bool(self._copying))
            self.trust()
            if self._copying:
                self._copy = asyncio.create_task(self._copying.run())
            return
        match header.kind:
            case Kind.GET | Kind.FETCH:
                self._asked[header.request] = header.kind, name
                self._answer()
            case Kind.CANCEL:
                self._asked.pop(header.request, None)
                self._fetching.discard(header.request)
            case Kind.PUT if payload:
                chunk = Chunk(header.number, header.crc32c, payload)
                dropped = self._store.put(name, chunk)
                if self._copying:
                    self._copying.written(name, chunk)
                self.send(Kind.STORED, header.request, payload=DROPPED_BETWEEN.join(dropped))
            case Kind.PUT:
                self.send(Kind.REFUSED, header.request)
            case Kind.DELETE:
                self._store.delete(name)
                if self._copying:
                    self._copying.deleted(name)
                self.send(Kind.MISSING, header.request)
            case Kind.LIST:
                if not header.number:
                    self._pages, self.is_copied = pages(self._store), True
                self.send(Kind.LISTED, header.request, payload=next(self._pages, b""))
            case Kind.COPIED:
                self.is_copied = False
                if header.number:
                    self.transport.close()
            case _:
                raise FrameError(f"a hub does not send {header.kind.name}")

    def pause_writing(self) -> None:
        self._is_busy = True

    def resume_writing(self) -> None:
        self._is_busy = False
        self._answer()

    def _answer(self) -> None:
        while self._asked and not self._is_busy:  # an answer that waits here can still be cancelled
            request, (kind, name) = next(iter(self._asked.items()))
            del self._asked[request]
            chunk = self._store.get(name) if kind is Kind.GET else self._store.peek(name)
            if not chunk and self._copying and (fetch := self._copying.find(name)):
                self._await(request, fetch)
            else:
                self._tell(request, chunk)

    def _await(self, request: int, fetch: asyncio.Future[Chunk | None]) -> None:
        """Answer when a chunk has been fetched."""
        self._fetching.add(request)

        def fetched(_: object) -> None:
            if request in self._fetching:
                self._fetching.discard(request)
                self._tell(request, fetch.result())

        fetch.add_done_callback(fetched)

    def _tell(self, request: int, chunk: Chunk | None) -> None:
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
