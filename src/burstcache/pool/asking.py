"""What is asked of members at once: a slice's chunks, or that several store or delete something."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from burstcache.core.pool.chunk_store import Buffer
from burstcache.core.pool.slices import Slice
from burstcache.pool.chunks import checksum, rebuild
from burstcache.pool.frames import Header, Kind
from burstcache.pool.isa_l import room
from burstcache.pool.link import Link


class SliceRead:
    """One slice being read: all holders are asked, and the first chunks that are enough win."""

    def __init__(self, slice_: Slice, body: memoryview) -> None:
        self._slice = slice_
        self._body = body
        self._asked: dict[int, Link] = {}
        self._places: dict[int, int] = {}  # number of the chunk that arrives, by request
        self._parities: dict[int, Buffer] = {}
        self.arrived: set[int] = set()
        self.lacking: set[Link] = set()  # members that answered without a right chunk
        self.is_whole: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def ask(self, links: Collection[Link | None]) -> None:
        """Ask the holders that are there for their chunks."""
        for link in links:
            if link:
                self._asked[link.ask(Kind.GET, self, self._slice.name)] = link
        self._judge()

    def end(self) -> bool:
        """Ask for no more, put together what has arrived, and return whether it is enough."""
        for request, link in self._asked.items():
            link.cancel(request)
        self._asked.clear()
        if len(self.arrived) < self._slice.redundancy.data:
            return False
        data = {number for number in self.arrived if number < self._slice.redundancy.data}
        rebuild(self._slice, self._body, data, self._parities)
        return True

    def place(self, request: int, header: Header) -> memoryview | None:
        number = header.number
        is_expected = header.kind is Kind.FOUND and number < self._slice.redundancy.chunks
        if not is_expected or header.payload_bytes != self._slice.length(number):
            return None
        if number in self.arrived or number in self._places.values():
            return None
        self._places[request] = number
        if number < self._slice.redundancy.data:
            return self._slice.data_chunk(self._body, number)
        return room(header.payload_bytes)

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        link = self._asked.pop(request)
        number = self._places.pop(request, None)
        if number is None or payload is None or checksum(self._slice.name, number, payload) != header.crc32c:
            self.lacking.add(link)
        else:
            self.arrived.add(number)
            if number >= self._slice.redundancy.data:
                self._parities[number] = payload
        self._judge()

    def failed(self, request: int) -> None:
        del self._asked[request]
        self._places.pop(request, None)
        self._judge()

    def _judge(self) -> None:
        is_enough = len(self.arrived) >= self._slice.redundancy.data
        if (is_enough or not self._asked) and not self.is_whole.done():
            self.is_whole.set_result(is_enough)


class Tally:
    """Answers to requests of which none is cancelled."""

    def __init__(self) -> None:
        self.stored = 0
        self.silent: dict[int, Link] = {}
        self.is_complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask(self, link: Link, kind: Kind, name: bytes) -> None:
        """Send a request without payload."""
        self.silent[link.ask(kind, self, name)] = link

    def put(self, link: Link, slice_: Slice, number: int, chunk: Buffer) -> None:
        """Send a chunk."""
        crc = checksum(slice_.name, number, chunk)
        self.silent[link.ask(Kind.PUT, self, slice_.name, chunk, number=number, crc32c=crc)] = link

    def place(self, request: int, header: Header) -> None:
        return None

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        self.stored += header.kind is Kind.STORED
        self.failed(request)

    def failed(self, request: int) -> None:
        del self.silent[request]
        if not self.silent and not self.is_complete.done():
            self.is_complete.set_result(None)

    async def complete(self, limit_s: float) -> int:
        """Return how many have stored something; a member that is silent for that long loses its connection."""
        if self.silent:
            await asyncio.wait((self.is_complete,), timeout=limit_s)
        for link in set(self.silent.values()):
            link.end()
        return self.stored
