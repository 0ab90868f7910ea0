"""A member of the pool: it dials the hub named in its invocation and serves chunks until the connection ends."""

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
from burstcache.pool.frames import NAME_SEPARATOR, Header, Kind
from burstcache.pool.handshake import Introduction
from burstcache.pool.listing import pages
from burstcache.pool.replica_sync import ReplicaSync

_MAPPED_FROM_BYTES = 128 * 1024


class MemberConnection(FrameConnection):
    """A member's end of the connection to a hub. It accepts chunks and names, never code.

    Args:
        name: The member's name.
        token: The token shared by hub and invocation.
        store: The member's chunks.
        sync: Copies the chunks of the member's primary environment, if this environment is a replica.
        wake: The hub's id for this invocation; 0: none.
        on_arrival: Called when a request begins to arrive.
        on_answered: Called when a request has been processed.
        dial: Connects to another hub that needs the member. The future resolves to False if that hub is unreachable.
            None: DIAL requests fail.
        retire: Called once a replica is complete. None: close the connection instead.

    Attributes:
        is_copied: Whether a replica is copying these chunks.
        is_awaited: Whether the hub's first request has not arrived yet.
    """

    def __init__(
        self,
        name: str,
        token: bytes,
        store: ChunkStore,
        sync: ReplicaSync | None = None,
        *,
        wake: int = 0,
        on_arrival: Callable[[], None] = lambda: None,
        on_answered: Callable[[], None] = lambda: None,
        dial: Callable[[HubAddress], asyncio.Future[bool]] | None = None,
        retire: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.is_copied = False
        self.is_awaited = True
        self._wake = wake
        self._on_arrival, self._on_answered = on_arrival, on_answered
        self._sync = sync
        self._dial, self._retire = dial, retire
        self._sync_task: asyncio.Task[bool]
        self._pages: Iterator[bytes] = iter(())
        self._fetching: set[int] = set()  # requests that wait for a chunk from the primary
        self._introduction = Introduction(Kind.PROOF, name.encode(), token)
        self._store = store
        self._waiting: dict[int, tuple[Kind, bytes]] = {}  # kind and slice by request id, while the connection is busy
        self._is_busy = False
        self._frames = 0

    @property
    def is_idle(self) -> bool:
        """Whether no request, frame, response or replication is in progress."""
        is_receiving = self._room is not self._header_room
        is_busy = self._waiting or self._fetching or self.is_copied or (self._sync and not self._sync.is_over)
        return not (is_busy or is_receiving or self.transport.get_write_buffer_size())

    @property
    def progress(self) -> tuple[int, ...]:
        """Counters that change with any progress: received frames, bytes left to receive and send, copied bytes."""
        copied_bytes = self._store.stored_bytes if self._sync else 0
        left_bytes = len(self._room) + self._left
        return self._frames, left_bytes, self.transport.get_write_buffer_size(), copied_bytes

    def leave(self, environment: str = "") -> None:
        """Send BYE with the environment's name, and close the connection once all pending data is sent."""
        if self.is_trusted:  # otherwise the hub still expects a proof
            self.send(Kind.BYE, 0, environment.encode())
        self.transport.close()

    def place(self, header: Header, name: bytes) -> memoryview | None:
        if header.kind is Kind.PUT:
            if not self.is_copied:  # otherwise the replica is sending back a write
                self._on_arrival()
            if not self._store.fits(header.payload_bytes):
                return None
        return room(header.payload_bytes)

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if not self.is_trusted:
            frame = self._introduction.answer(header, bytes(payload or b""))
            if frame:
                return self.send(frame[0], self._wake, *frame[1:], number=bool(self._sync))
            self.trust()
            if self._sync:
                self._sync_task = asyncio.create_task(self._sync.run())
            return
        self.is_awaited = False
        self._frames += 1
        match header.kind:
            case Kind.PING:
                return self.send(Kind.PONG, header.request)
            case Kind.CANCEL:
                self._waiting.pop(header.request, None)
                self._fetching.discard(header.request)
                return
            case Kind.REPLICA:
                self.is_copied = True
                return
            case Kind.REPLICATED:
                self.is_copied = False
                if header.number:
                    (self._retire or self.transport.close)()
                return
        if header.kind in (Kind.GET, Kind.DELETE):
            self._on_arrival()
        self._serve(header, name, payload)
        self._on_answered()

    def pause_writing(self) -> None:
        self._is_busy = True

    def resume_writing(self) -> None:
        self._is_busy = False
        self._answer()

    def _serve(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        match header.kind:
            case Kind.GET | Kind.FETCH:
                self._waiting[header.request] = header.kind, name
                self._answer()
            case Kind.PUT if payload:
                chunk = Chunk(header.number, header.crc32c, payload)
                evicted = self._store.put(name, chunk)
                if self._sync:
                    self._sync.send_back_write(name, chunk)
                self.send(Kind.STORED, header.request, payload=NAME_SEPARATOR.join(evicted))
            case Kind.PUT:
                self.send(Kind.REFUSED, header.request)
            case Kind.DELETE:
                self._store.delete(name)
                if self._sync:
                    self._sync.send_back_delete(name)
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
        while self._waiting and not self._is_busy:  # a request that waits here can still be cancelled
            request, (kind, name) = next(iter(self._waiting.items()))
            del self._waiting[request]
            chunk = self._store.get(name) if kind is Kind.GET else self._store.peek(name)
            if not chunk and self._sync and (fetch := self._sync.find(name)):
                self._answer_after(request, fetch)
            else:
                self._send_chunk(request, chunk)

    def _answer_after(self, request: int, fetch: asyncio.Future[Chunk | None]) -> None:
        """Respond once a chunk has been fetched from the primary."""
        self._fetching.add(request)

        def on_fetched(_: object) -> None:
            if request in self._fetching:
                self._fetching.discard(request)
                self._send_chunk(request, fetch.result())

        fetch.add_done_callback(on_fetched)

    def _dial_for(self, request: int, hub: HubAddress) -> None:
        """Connect to another hub, and respond once the dial has succeeded or failed."""
        if not self._dial:
            return self.send(Kind.MISSING, request)

        def on_dialled(dial: asyncio.Future[bool]) -> None:
            if dial.cancelled() or self.transport.is_closing():  # the member is returning; its hub will retry
                return
            is_reached = dial.exception() is None and dial.result()
            self.send(Kind.STORED if is_reached else Kind.MISSING, request)

        self._dial(hub).add_done_callback(on_dialled)

    def _send_chunk(self, request: int, chunk: Chunk | None) -> None:
        if chunk:
            self.send(Kind.FOUND, request, payload=chunk.payload, number=chunk.number, crc32c=chunk.crc32c)
        else:
            self.send(Kind.MISSING, request)


def room(size_bytes: int) -> memoryview:
    """Return memory for a chunk. Large chunks are memory-mapped, so that eviction returns their pages to the system."""
    if size_bytes < _MAPPED_FROM_BYTES:
        return memoryview(bytearray(size_bytes))
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def hub_address(payload: bytes) -> HubAddress:
    """Parse the hub address in the payload of a DIAL.

    Raises:
        FrameError: The payload is malformed.
    """
    try:
        address = json.loads(payload)
        texts = all(isinstance(address[key], str) for key in ("id", "host", "token", "certificate"))
        numbers = all(isinstance(address[key], int) for key in ("port", "wake"))
        bytes.fromhex(address["token"])
    except (ValueError, TypeError, KeyError) as error:
        raise FrameError(f"no hub's address: {error!r}") from error
    if not (texts and numbers and 0 < address["port"] < 1 << 16 and 0 <= address["wake"] < 1 << 32):
        raise FrameError("no hub's address: one of its values has the wrong type or is out of range")
    return cast(HubAddress, address)


async def serve(
    host: str, port: int, name: str, token: bytes, store: ChunkStore, tls: ssl.SSLContext | None = None
) -> None:
    """Serve a hub until the connection is lost.

    Args:
        host: The hub's address.
        port: The hub's port.
        name: The member's name, its tenant id.
        token: The token shared by hub and invocation.
        store: The member's chunks, which outlive the connection.
        tls: TLS context that trusts the hub's certificate. None: no TLS.

    Raises:
        OSError: The hub is unreachable.
    """
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: MemberConnection(name, token, store), host, port, ssl=tls)
    await connection.ended
