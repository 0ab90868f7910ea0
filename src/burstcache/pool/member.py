"""A member of the pool: it dials the hub that its invocation names, and serves chunks until the connection ends."""

from __future__ import annotations

import asyncio
import json
import mmap
import ssl
from collections.abc import Callable, Iterator
from typing import cast

from burstcache.core.errors import FrameError
from burstcache.core.messages.pool import HubAddress
from burstcache.core.pool.chunk_store import Chunk, ChunkStore
from burstcache.pool.connection import FrameConnection
from burstcache.pool.copying import Copying
from burstcache.pool.frames import DROPPED_BETWEEN, Header, Kind
from burstcache.pool.listing import pages
from burstcache.pool.proof import Introduction

_MAPPED_FROM_BYTES = 128 * 1024


class MemberConnection(FrameConnection):
    """A member's end: it accepts chunks and names, never code.

    Args:
        name: The member's name.
        token: What hub and invocation share.
        store: Where chunks are kept.
        copying: What takes over the chunks of the member's first environment, if this one is a copy.
        wake: Which of the hub's invocations this is; 0: none.
        arrived: Is called when a request begins to arrive.
        answered: Is called when one has been worked on.
        dial: Connects to another hub that needs the member; whether it can be reached. None: to none.
        retire: Is called when a copy has taken over everything; None: the connection ends.

    Attributes:
        is_copied: Whether another environment is taking over these chunks.
        is_awaited: Whether the hub has still to say what it wants of the member.
    """

    def __init__(
        self,
        name: str,
        token: bytes,
        store: ChunkStore,
        copying: Copying | None = None,
        *,
        wake: int = 0,
        arrived: Callable[[], None] = lambda: None,
        answered: Callable[[], None] = lambda: None,
        dial: Callable[[HubAddress], asyncio.Future[bool]] | None = None,
        retire: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.is_copied = False
        self.is_awaited = True
        self._wake = wake
        self._arrived, self._answered = arrived, answered
        self._copying = copying
        self._dial, self._retire = dial, retire
        self._copy: asyncio.Task[bool]
        self._pages: Iterator[bytes] = iter(())
        self._fetching: set[int] = set()  # requests whose chunk is on its way from there
        self._introduction = Introduction(Kind.PROOF, name.encode(), token)
        self._store = store
        self._asked: dict[int, tuple[Kind, bytes]] = {}  # slices by request, while the connection is busy
        self._is_busy = False
        self._frames = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked for, on its way in or on its way out."""
        is_receiving = self._room is not self._header_room
        is_asked = self._asked or self._fetching or self.is_copied or (self._copying and not self._copying.is_over)
        return not (is_asked or is_receiving or self.transport.get_write_buffer_size())

    @property
    def under_way(self) -> tuple[int, ...]:
        """What changes when anything moves: frames that have come, what is left of one, of answers, of a copy."""
        copied_bytes = self._store.stored_bytes if self._copying else 0
        left_bytes = len(self._room) + self._left
        return self._frames, left_bytes, self.transport.get_write_buffer_size(), copied_bytes

    def leave(self, environment: str = "") -> None:
        """Say BYE with the environment's name, and end the connection when that and all earlier answers are sent."""
        if self.is_trusted:  # else the hub still waits for a proof
            self.send(Kind.BYE, 0, environment.encode())
        self.transport.close()

    def place(self, header: Header, name: bytes) -> memoryview | None:
        if header.kind is Kind.PUT:
            if not self.is_copied:  # else it is what its copy sends back
                self._arrived()
            if not self._store.fits(header.payload_bytes):
                return None
        return room(header.payload_bytes)

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if not self.is_trusted:
            frame = self._introduction.answer(header, bytes(payload or b""))
            if frame:
                return self.send(frame[0], self._wake, *frame[1:], number=bool(self._copying))
            self.trust()
            if self._copying:
                self._copy = asyncio.create_task(self._copying.run())
            return
        self.is_awaited = False
        self._frames += 1
        match header.kind:
            case Kind.PING:
                return self.send(Kind.PONG, header.request)
            case Kind.CANCEL:
                self._asked.pop(header.request, None)
                self._fetching.discard(header.request)
                return
            case Kind.COPY:
                self.is_copied = True
                return
            case Kind.COPIED:
                self.is_copied = False
                if header.number:
                    (self._retire or self.transport.close)()
                return
        if header.kind in (Kind.GET, Kind.DELETE):
            self._arrived()
        self._serve(header, name, payload)
        self._answered()

    def pause_writing(self) -> None:
        self._is_busy = True

    def resume_writing(self) -> None:
        self._is_busy = False
        self._answer()

    def _serve(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        match header.kind:
            case Kind.GET | Kind.FETCH:
                self._asked[header.request] = header.kind, name
                self._answer()
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
            case Kind.DIAL:
                self._dial_for(header.request, hub_address(bytes(payload or b"")))
            case Kind.LIST:
                if not header.number:
                    self._pages, self.is_copied = pages(self._store), True
                self.send(Kind.LISTED, header.request, payload=next(self._pages, b""))
            case _:
                raise FrameError(f"a hub does not send {header.kind.name}")

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

    def _dial_for(self, request: int, hub: HubAddress) -> None:
        """Connect to another hub, and answer when that has been done or has failed."""
        if not self._dial:
            return self.send(Kind.MISSING, request)

        def dialled(dial: asyncio.Future[bool]) -> None:
            if dial.cancelled() or self.transport.is_closing():  # it returns, and is asked once more when it is back
                return
            is_reached = dial.exception() is None and dial.result()
            self.send(Kind.STORED if is_reached else Kind.MISSING, request)

        self._dial(hub).add_done_callback(dialled)

    def _tell(self, request: int, chunk: Chunk | None) -> None:
        if chunk:
            self.send(Kind.FOUND, request, payload=chunk.payload, number=chunk.number, crc32c=chunk.crc32c)
        else:
            self.send(Kind.MISSING, request)


def room(size_bytes: int) -> memoryview:
    """Return memory for a chunk; of a large one the system gets every page back when the chunk is dropped."""
    if size_bytes < _MAPPED_FROM_BYTES:
        return memoryview(bytearray(size_bytes))
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def hub_address(payload: bytes) -> HubAddress:
    """Return the hub that a DIAL names.

    Raises:
        FrameError: It names none.
    """
    try:
        address = json.loads(payload)
        texts = all(isinstance(address[key], str) for key in ("id", "host", "token", "certificate"))
        numbers = all(isinstance(address[key], int) for key in ("port", "wake"))
        bytes.fromhex(address["token"])
    except (ValueError, TypeError, KeyError) as error:
        raise FrameError(f"no hub's address: {error!r}") from error
    if not (texts and numbers and 0 < address["port"] < 1 << 16 and 0 <= address["wake"] < 1 << 32):
        raise FrameError("no hub's address: one of its values is of another kind")
    return cast(HubAddress, address)


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
