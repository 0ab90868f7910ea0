"""A copy in the making: a second environment of a member takes over the chunks of the first, and serves meanwhile.

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
from burstcache.pool.listing import PAGE_BYTES, Entry, entries
from burstcache.pool.remote_hub import RemoteLink

_FETCHED_AT_ONCE = 2  # so that a reader's request waits behind two chunks at most
_MAX_SENT_BACK_BYTES = 16 * 1024 * 1024


class _Question:
    """A request to the first environment, and its answer as a future; None: there is none, or it is too long."""

    def __init__(self, allocate: Callable[[int], memoryview], max_bytes: int) -> None:
        self.answer: asyncio.Future[tuple[Header, memoryview] | None] = asyncio.get_running_loop().create_future()
        self._allocate = allocate
        self._max_bytes = max_bytes

    def place(self, request: int, header: Header) -> memoryview | None:
        return self._allocate(header.payload_bytes) if header.payload_bytes <= self._max_bytes else None

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        is_whole = payload is not None or not header.payload_bytes
        self._settle((header, payload or memoryview(b"")) if is_whole else None)

    def failed(self, request: int) -> None:
        self._settle(None)

    def _settle(self, answer: tuple[Header, memoryview] | None) -> None:
        if not self.answer.done():  # else what has asked was cancelled
            self.answer.set_result(answer)


class _SourceLostError(Exception):
    """The first environment, or the way to it, is gone."""


class Copying:
    """What a copy does until it has everything, or the first environment is gone.

    What is written to the copy meanwhile is sent back, so that both have it; what is asked for is fetched first.
    A chunk is stored when it is there as a whole, so wherever this ends, neither side has less than before.

    Args:
        store: Where the copy keeps chunks; some may be left from an earlier copy.
        link: The way to the first environment, through their hub; it is not dialled before `run`.
        allocate: Returns memory for a chunk of that length.
    """

    def __init__(self, store: ChunkStore, link: RemoteLink, allocate: Callable[[int], memoryview]) -> None:
        self._store = store
        self._link = link
        self._allocate = allocate
        self._lacking: OrderedDict[bytes, Entry] | None = None  # None: the list is not there yet
        self._surplus: list[bytes] = []  # what the first one no longer has, oldest last
        self._changed: set[bytes] = set()  # written or deleted since this began: what the first one has is older
        self._fetches: dict[bytes, asyncio.Future[Chunk | None]] = {}
        self._sent_back_bytes = 0  # not stored there yet
        self._all_sent_back = asyncio.Event()
        self._all_sent_back.set()
        self.is_over = False

    async def run(self) -> bool:
        """Take over everything, end the connection, and return whether that was possible."""
        try:
            await self._link.dial()
            listed = await self._list()
            await asyncio.gather(*(self._fetch_all() for _ in range(_FETCHED_AT_ONCE)))
            while self._fetches:  # what others have asked the copy for
                await asyncio.wait(list(self._fetches.values()))
            self.is_over = True
            await self._all_sent_back.wait()
            await self._ask(Kind.DONE)
        except (_SourceLostError, FrameError, OSError):
            return False
        finally:
            self.is_over = True
            self._link.end()
        for entry in reversed(listed):
            if entry.name not in self._changed:
                self._store.renew(entry.name, entry.is_wanted)
        return True

    def find(self, name: bytes) -> asyncio.Future[Chunk | None] | None:
        """Return the chunk that will be there, or not; None: what is not in the store is nowhere."""
        if fetch := self._fetches.get(name):
            return fetch
        is_nowhere = name in self._changed or (self._lacking is not None and name not in self._lacking)
        return None if is_nowhere or self._is_lost else self._fetch(name, Kind.GET)

    def written(self, name: bytes, chunk: Chunk) -> None:
        """Send back what was written to the copy."""
        self._changed.add(name)
        size_bytes = len(chunk.payload)
        if not self._is_lost and self._sent_back_bytes + size_bytes <= _MAX_SENT_BACK_BYTES:
            question = _Question(self._allocate, 0)
            self._link.ask(Kind.PUT, question, name, chunk.payload, number=chunk.number, crc32c=chunk.crc32c)
            self._await_storage(question, size_bytes)

    def deleted(self, name: bytes) -> None:
        """Delete in the first environment what was deleted in the copy."""
        self._changed.add(name)
        if not self._is_lost:
            question = _Question(self._allocate, 0)
            self._link.ask(Kind.DELETE, question, name)
            self._await_storage(question, 1)

    @property
    def _is_lost(self) -> bool:
        """Whether nothing can be asked any more."""
        return self.is_over or self._link.ended.done()

    def _await_storage(self, question: _Question, size_bytes: int) -> None:
        def stored(_: object) -> None:
            self._sent_back_bytes -= size_bytes
            if not self._sent_back_bytes:
                self._all_sent_back.set()

        self._sent_back_bytes += size_bytes
        self._all_sent_back.clear()
        question.answer.add_done_callback(stored)

    async def _list(self) -> list[Entry]:
        """Read what the first one has, and return it, newest first."""
        before = self._store.newest_first()
        listed: list[Entry] = []
        while page := await self._ask(Kind.LIST, number=1 if listed else 0):
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

    async def _ask(self, kind: Kind, *, number: int = 0) -> memoryview:
        if not self._link.ended.done():
            question = _Question(self._allocate, PAGE_BYTES)
            self._link.ask(kind, question, b"", number=number)
            if answer := await question.answer:
                return answer[1]
        raise _SourceLostError

    async def _fetch_all(self) -> None:
        while self._lacking:
            if self._link.ended.done():
                raise _SourceLostError
            await self._fetch(next(iter(self._lacking)), Kind.FETCH)
        if self._link.ended.done():
            raise _SourceLostError

    def _fetch(self, name: bytes, kind: Kind) -> asyncio.Future[Chunk | None]:
        if self._lacking:
            self._lacking.pop(name, None)
        fetch = self._fetches[name] = asyncio.get_running_loop().create_future()
        question = _Question(self._allocate, self._store.capacity_bytes)

        def arrived(answer: asyncio.Future[tuple[Header, memoryview] | None]) -> None:
            del self._fetches[name]
            chunk = None
            if (found := answer.result()) and found[0].kind is Kind.FOUND and found[1]:
                header, payload = found
                chunk = Chunk(header.number, header.crc32c, payload, is_wanted=kind is Kind.GET)
                self._keep(name, chunk)
            fetch.set_result(chunk)

        question.answer.add_done_callback(arrived)
        self._link.ask(kind, question, name)
        return fetch

    def _keep(self, name: bytes, chunk: Chunk) -> None:
        if name in self._changed:
            return
        self._store.delete(name)
        while not self._store.put_oldest(name, chunk) and self._surplus:
            if (surplus := self._surplus.pop()) not in self._changed:
                self._store.delete(surplus)
        if chunk.is_wanted:
            self._store.put(name, chunk)
