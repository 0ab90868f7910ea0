"""Requests to several members at once: for chunks of a slice, or to store or delete something."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from burstcache.core.pool.chunk_store import Buffer
from burstcache.core.pool.slices import Slice
from burstcache.pool.chunks import checksum, rebuild
from burstcache.pool.frames import DROPPED_BETWEEN, Header, Kind
from burstcache.pool.isa_l import room
from burstcache.pool.link import Asked, Links


class SliceRead:
    """One slice being read: of the chunks of those that are asked, the first that are enough win.

    Args:
        slice_: Which one.
        body: Where it is written.
        hub: Where members are.
        others: Holders that are asked when one of the first has not what it should, or `hurry` is called.
        spares: Members that are asked if holders are gone, or have something but not enough: chunks may have moved.

    Attributes:
        found: Numbers of the right chunks that have arrived, by member.
        lacking: Members that answered without a right chunk that was still needed.
        gone: Members that could not be asked, or did not answer before their connection ended.
    """

    def __init__(
        self, slice_: Slice, body: memoryview, hub: Links, others: Iterable[str], spares: Iterable[str]
    ) -> None:
        self._slice = slice_
        self._body = body
        self._hub = hub
        self._others, self._spares = list(others), list(spares)
        self._asked: dict[int, tuple[str, Asked]] = {}
        self._places: dict[int, int] = {}  # number of the chunk that arrives, by request
        self._parities: dict[int, Buffer] = {}
        self.found: dict[str, int] = {}
        self.lacking: set[str] = set()
        self.gone: set[str] = set()
        self.is_whole: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def ask(self, members: Iterable[str]) -> None:
        """Ask members for their chunks."""
        for member in members:
            if link := self._hub.link(member):
                self._asked[link.ask(Kind.GET, self, self._slice.name)] = member, link
            else:
                self.gone.add(member)
        self._judge()

    def hurry(self) -> None:
        """Ask all other holders, too."""
        others, self._others = self._others, []
        self.ask(others)

    def end(self) -> bool:
        """Ask for no more, put together what has arrived, and return whether it is enough."""
        for request, (_, link) in self._asked.items():
            link.cancel(request)
        self._asked.clear()
        if not self._is_enough():
            return False
        data = {number for number in self.found.values() if number < self._slice.redundancy.data}
        rebuild(self._slice, self._body, data, self._parities)
        return True

    def place(self, request: int, header: Header) -> memoryview | None:
        self._places.pop(request, None)  # of an answer that was lost half way, and comes again
        number = header.number
        is_expected = header.kind is Kind.FOUND and number < self._slice.redundancy.chunks
        if not is_expected or header.payload_bytes != self._slice.length(number):
            return None
        if number in self.found.values() or number in self._places.values():
            return None
        self._places[request] = number
        if number < self._slice.redundancy.data:
            return self._slice.data_chunk(self._body, number)
        return room(header.payload_bytes)

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        member, _ = self._asked.pop(request)
        number = self._places.pop(request, None)
        if number is None or payload is None or checksum(self._slice.name, number, payload) != header.crc32c:
            self.lacking.add(member)
        else:
            self.found[member] = number
            if number >= self._slice.redundancy.data:
                self._parities[number] = payload
        self._judge()

    def failed(self, request: int) -> None:
        self.gone.add(self._asked.pop(request)[0])
        self._places.pop(request, None)
        self._judge()

    def _is_enough(self) -> bool:
        return len(self.found) >= self._slice.redundancy.data

    def _judge(self) -> None:
        if self.is_whole.done():
            return
        if self._is_enough():
            self.is_whole.set_result(True)
        elif self._others and (self.lacking or self.gone):
            self.hurry()
        elif self._asked:
            return
        elif (self.found or self.gone) and self._spares:
            spares, self._spares = self._spares, []
            self.ask(spares)
        else:
            self.is_whole.set_result(False)


class ChunksRead:
    """Some chunks of data of one slice being read, each from the member that should have it.

    Args:
        slice_: Which one.
        first: Number of the first of the chunks, which follow on each other.
        body: Where they are written.
    """

    def __init__(self, slice_: Slice, first: int, body: memoryview) -> None:
        self._slice = slice_
        self._first = first
        self._body = body
        self._asked: dict[int, tuple[int, Asked]] = {}  # number of the chunk
        self.is_whole: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def ask(self, number: int, link: Asked) -> None:
        """Ask for a chunk."""
        self._asked[link.ask(Kind.GET, self, self._slice.name)] = number, link

    def end(self) -> bool:
        """Ask for no more, and return whether all have arrived."""
        for request, (_, link) in self._asked.items():
            link.cancel(request)
        return self.is_whole.done() and self.is_whole.result()

    def place(self, request: int, header: Header) -> memoryview | None:
        number, _ = self._asked[request]
        is_expected = header.kind is Kind.FOUND and header.number == number
        if not is_expected or header.payload_bytes != self._slice.length(number):
            return None
        return self._slice.data_chunk(self._body, number - self._first)

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        number, _ = self._asked.pop(request)
        is_right = payload is not None and checksum(self._slice.name, number, payload) == header.crc32c
        if not self.is_whole.done() and not (is_right and self._asked):
            self.is_whole.set_result(is_right)

    def failed(self, request: int) -> None:
        del self._asked[request]
        if not self.is_whole.done():
            self.is_whole.set_result(False)


class Tally:
    """Answers to requests of which none is cancelled.

    Attributes:
        stored: How many chunks were stored.
        dropped: What members have dropped for them: member and name.
    """

    def __init__(self) -> None:
        self.stored = 0
        self.dropped: list[tuple[str, bytes]] = []
        self._silent: dict[int, tuple[str, Asked]] = {}
        self._is_complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def delete(self, member: str, link: Asked, name: bytes) -> None:
        """Ask a member to delete what it has of a slice."""
        self._silent[link.ask(Kind.DELETE, self, name)] = member, link

    def put(self, member: str, link: Asked, slice_: Slice, number: int, chunk: Buffer) -> None:
        """Send a chunk to a member."""
        crc = checksum(slice_.name, number, chunk)
        request = link.ask(Kind.PUT, self, slice_.name, chunk, number=number, crc32c=crc)
        self._silent[request] = member, link

    def place(self, request: int, header: Header) -> memoryview | None:
        return memoryview(bytearray(header.payload_bytes)) if header.kind is Kind.STORED else None

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        if header.kind is Kind.STORED:
            self.stored += 1
            member, _ = self._silent[request]
            self.dropped += ((member, name) for name in bytes(payload or b"").split(DROPPED_BETWEEN) if name)
        self.failed(request)

    def failed(self, request: int) -> None:
        del self._silent[request]
        if not self._silent and not self._is_complete.done():
            self._is_complete.set_result(None)

    async def complete(self, limit_s: float) -> int:
        """Return how many have stored something; a member that is silent for that long loses its connection."""
        if self._silent:
            await asyncio.wait((self._is_complete,), timeout=limit_s)
        for _, link in list(self._silent.values()):
            link.end()
        return self.stored
