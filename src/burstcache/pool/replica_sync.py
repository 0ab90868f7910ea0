"""Replica sync: a second environment of a member copies the chunks of the first while serving requests.

Source:
    Wang 2020, section 4.2: delta-sync backup between peer replicas.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import ENTRY_BYTES, Chunk, ChunkStore
from burstcache.pool.frames import Header, Kind
from burstcache.pool.listing import PAGE_BYTES, ListingEntry, entries
from burstcache.pool.remote_hub import RemoteChannel

_PARALLEL_FETCHES = 2  # so that a reader's request waits for at most two chunks
_MAX_SENT_BACK_BYTES = 16 * 1024 * 1024


class _Request:
    """A request to the primary. `answer` resolves to None if the primary is gone or the response is too long."""

    def __init__(self, allocate: Callable[[int], memoryview], max_bytes: int) -> None:
        self.answer: asyncio.Future[tuple[Header, memoryview] | None] = asyncio.get_running_loop().create_future()
        self._allocate = allocate
        self._max_bytes = max_bytes

    def place(self, request: int, header: Header) -> memoryview | None:
        return self._allocate(header.payload_bytes) if header.payload_bytes <= self._max_bytes else None

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        is_whole = payload is not None or not header.payload_bytes
        self._settle((header, payload or memoryview(b"")) if is_whole else None)

    def on_failure(self, request: int) -> None:
        self._settle(None)

    def _settle(self, answer: tuple[Header, memoryview] | None) -> None:
        if not self.answer.done():  # done if the waiting task was cancelled
            self.answer.set_result(answer)


class _PrimaryLostError(Exception):
    """The primary environment, or the connection to it, is gone."""


class ReplicaSync:
    """The synchronization of a replica. It ends when it is complete or the primary is gone.

    Meanwhile, writes to the replica are also sent back to the primary. Chunks that readers request are fetched
    first. Only whole chunks are stored, so neither environment loses chunks if the synchronization is interrupted.

    Args:
        store: The replica's chunks, possibly including chunks from an earlier replication.
        channel: The channel to the primary, through the hub. `run` dials it.
        allocate: Returns memory for a chunk, given its length.
    """

    def __init__(self, store: ChunkStore, channel: RemoteChannel, allocate: Callable[[int], memoryview]) -> None:
        self._store = store
        self._channel = channel
        self._allocate = allocate
        self._lacking: OrderedDict[bytes, ListingEntry] | None = None  # None: the list has not arrived
        self._surplus: list[bytes] = []  # chunks that the primary no longer has, oldest last
        self._changed: set[bytes] = set()  # chunks written or deleted since the start, which must not be overwritten
        self._fetches: dict[bytes, asyncio.Future[Chunk | None]] = {}
        self._sent_back_bytes = 0  # writes that the primary has not acknowledged yet
        self._all_sent_back = asyncio.Event()
        self._all_sent_back.set()
        self.is_over = False

    async def run(self) -> bool:
        """Copy all chunks, and abort the connection. Return False if the primary was lost before the end."""
        try:
            await self._channel.dial()
            listed = await self._list()
            await asyncio.gather(*(self._fetch_all() for _ in range(_PARALLEL_FETCHES)))
            while self._fetches:  # started by readers' requests
                await asyncio.wait(list(self._fetches.values()))
            self.is_over = True
            await self._all_sent_back.wait()
            await self._send_request(Kind.DONE)
        except (_PrimaryLostError, FrameError, OSError):
            return False
        finally:
            self.is_over = True
            self._channel.end()
        for entry in reversed(listed):
            if entry.name not in self._changed:
                self._store.touch(entry.name, entry.is_wanted)
        return True

    def find(self, name: bytes) -> asyncio.Future[Chunk | None] | None:
        """Fetch a chunk that is not in the store, or return None if the primary does not have it either."""
        if fetch := self._fetches.get(name):
            return fetch
        is_absent = name in self._changed or (self._lacking is not None and name not in self._lacking)
        return None if is_absent or self._is_lost else self._fetch(name, Kind.GET)

    def send_back_write(self, name: bytes, chunk: Chunk) -> None:
        """Send a chunk written to the replica back to the primary."""
        self._changed.add(name)
        size_bytes = len(chunk.payload)
        if not self._is_lost and self._sent_back_bytes + size_bytes <= _MAX_SENT_BACK_BYTES:
            request = _Request(self._allocate, 0)
            self._channel.send_request(Kind.PUT, request, name, chunk.payload, number=chunk.number, crc32c=chunk.crc32c)
            self._track_sent_back(request, size_bytes)

    def send_back_delete(self, name: bytes) -> None:
        """Delete a chunk in the primary that was deleted in the replica."""
        self._changed.add(name)
        if not self._is_lost:
            request = _Request(self._allocate, 0)
            self._channel.send_request(Kind.DELETE, request, name)
            self._track_sent_back(request, 1)

    @property
    def _is_lost(self) -> bool:
        """Whether the primary can no longer be reached."""
        return self.is_over or self._channel.ended.done()

    def _track_sent_back(self, request: _Request, size_bytes: int) -> None:
        def on_answer(_: object) -> None:
            self._sent_back_bytes -= size_bytes
            if not self._sent_back_bytes:
                self._all_sent_back.set()

        self._sent_back_bytes += size_bytes
        self._all_sent_back.clear()
        request.answer.add_done_callback(on_answer)

    async def _list(self) -> list[ListingEntry]:
        """Return the primary's chunks, newest first."""
        before = self._store.newest_first()
        listed: list[ListingEntry] = []
        while page := await self._send_request(Kind.LIST, number=1 if listed else 0):
            listed += entries(page)
            if len(listed) * ENTRY_BYTES > self._store.capacity_bytes + PAGE_BYTES:
                raise FrameError(f"a list of {len(listed):,} chunks, more than the store has room for")
        names = {entry.name for entry in listed}
        self._surplus = [name for name in before if name not in names]
        self._lacking = OrderedDict(
            (entry.name, entry)
            for entry in listed
            if not (entry.name in self._changed or entry.name in self._fetches)
            and not entry.describes(self._store.peek(entry.name))
        )
        return listed

    async def _send_request(self, kind: Kind, *, number: int = 0) -> memoryview:
        if not self._channel.ended.done():
            request = _Request(self._allocate, PAGE_BYTES)
            self._channel.send_request(kind, request, b"", number=number)
            if answer := await request.answer:
                return answer[1]
        raise _PrimaryLostError

    async def _fetch_all(self) -> None:
        while self._lacking:
            if self._channel.ended.done():
                raise _PrimaryLostError
            await self._fetch(next(iter(self._lacking)), Kind.FETCH)
        if self._channel.ended.done():
            raise _PrimaryLostError

    def _fetch(self, name: bytes, kind: Kind) -> asyncio.Future[Chunk | None]:
        if self._lacking:
            self._lacking.pop(name, None)
        fetch = self._fetches[name] = asyncio.get_running_loop().create_future()
        request = _Request(self._allocate, self._store.capacity_bytes)

        def on_answer(answer: asyncio.Future[tuple[Header, memoryview] | None]) -> None:
            del self._fetches[name]
            chunk = None
            if (found := answer.result()) and found[0].kind is Kind.FOUND and found[1]:
                header, payload = found
                chunk = Chunk(header.number, header.crc32c, payload, is_referenced=kind is Kind.GET)
                self._store_fetched(name, chunk)
            fetch.set_result(chunk)

        request.answer.add_done_callback(on_answer)
        self._channel.send_request(kind, request, name)
        return fetch

    def _store_fetched(self, name: bytes, chunk: Chunk) -> None:
        if name in self._changed:
            return
        self._store.delete(name)
        while not self._store.put_oldest(name, chunk) and self._surplus:
            if (surplus := self._surplus.pop()) not in self._changed:
                self._store.delete(surplus)
        if chunk.is_referenced:
            self._store.put(name, chunk)
