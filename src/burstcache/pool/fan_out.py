"""Fan-out of requests to several members: reading, storing and deleting the chunks of a slice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from burstcache.core.pool.chunk_store import Buffer
from burstcache.core.pool.slices import CodedSlice
from burstcache.pool.channel import Channel, Channels
from burstcache.pool.chunks import checksum, rebuild
from burstcache.pool.frames import NAME_SEPARATOR, Header, Kind
from burstcache.pool.isa_l import room


class SliceRead:
    """A read of one slice, which completes once enough chunks to rebuild it have arrived.

    Args:
        slice_: The slice to read.
        body: The slice's memory, filled as chunks arrive.
        hub: Finds the channel to a member.
        others: Other holders, for requests on `hedge`, or once one of the first holders lacks its chunk or is gone.
        spares: Members to request from if holders are gone or only some have a chunk, since chunks may have moved.

    Attributes:
        found: Indexes of the valid chunks that have arrived, by member.
        lacking: Members that responded without a valid chunk that was still needed.
        gone: Members that were unreachable, or lost their connection before they responded.
    """

    def __init__(
        self, slice_: CodedSlice, body: memoryview, hub: Channels, others: Iterable[str], spares: Iterable[str]
    ) -> None:
        self._slice = slice_
        self._body = body
        self._hub = hub
        self._others, self._spares = list(others), list(spares)
        self._pending: dict[int, tuple[str, Channel]] = {}
        self._receiving: dict[int, int] = {}  # index of the arriving chunk, by request id
        self._parities: dict[int, Buffer] = {}
        self.found: dict[str, int] = {}
        self.lacking: set[str] = set()
        self.gone: set[str] = set()
        self.is_complete: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def request_chunks(self, members: Iterable[str]) -> None:
        """Request the chunks of these members."""
        for member in members:
            if channel := self._hub.find_channel(member):
                self._pending[channel.send_request(Kind.GET, self, self._slice.name)] = member, channel
            else:
                self.gone.add(member)
        self._update()

    def hedge(self) -> None:
        """Request the chunks of all other holders as well."""
        others, self._others = self._others, []
        self.request_chunks(others)

    def finish(self) -> bool:
        """Cancel pending requests and rebuild the slice. Return False if too few chunks have arrived."""
        for request, (_, channel) in self._pending.items():
            channel.cancel_request(request)
        self._pending.clear()
        if not self._is_enough():
            return False
        data = {number for number in self.found.values() if number < self._slice.redundancy.data}
        rebuild(self._slice, self._body, data, self._parities)
        return True

    def place(self, request: int, header: Header) -> memoryview | None:
        self._receiving.pop(request, None)  # set if this is a retry, since the first response broke off
        number = header.number
        is_expected = header.kind is Kind.FOUND and number < self._slice.redundancy.chunks
        if not is_expected or header.payload_bytes != self._slice.length(number):
            return None
        if number in self.found.values() or number in self._receiving.values():
            return None
        self._receiving[request] = number
        if number < self._slice.redundancy.data:
            return self._slice.data_chunk(self._body, number)
        return room(header.payload_bytes)

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        member, _ = self._pending.pop(request)
        number = self._receiving.pop(request, None)
        if number is None or payload is None or checksum(self._slice.name, number, payload) != header.crc32c:
            self.lacking.add(member)
        else:
            self.found[member] = number
            if number >= self._slice.redundancy.data:
                self._parities[number] = payload
        self._update()

    def on_failure(self, request: int) -> None:
        self.gone.add(self._pending.pop(request)[0])
        self._receiving.pop(request, None)
        self._update()

    def _is_enough(self) -> bool:
        return len(self.found) >= self._slice.redundancy.data

    def _update(self) -> None:
        """Resolve the read, or request more chunks."""
        if self.is_complete.done():
            return
        if self._is_enough():
            self.is_complete.set_result(True)
        elif self._others and (self.lacking or self.gone):
            self.hedge()
        elif self._pending:
            return
        elif (self.found or self.gone) and self._spares:
            spares, self._spares = self._spares, []
            self.request_chunks(spares)
        else:
            self.is_complete.set_result(False)


class ChunksRead:
    """A read of consecutive data chunks of one slice, each from the member that should hold it.

    Args:
        slice_: The slice.
        first: Index of the first chunk.
        body: Memory for all requested chunks.
    """

    def __init__(self, slice_: CodedSlice, first: int, body: memoryview) -> None:
        self._slice = slice_
        self._first = first
        self._body = body
        self._pending: dict[int, tuple[int, Channel]] = {}  # index of the chunk, and channel, by request id
        self.is_complete: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def request_chunk(self, number: int, channel: Channel) -> None:
        """Request a chunk."""
        self._pending[channel.send_request(Kind.GET, self, self._slice.name)] = number, channel

    def finish(self) -> bool:
        """Cancel pending requests. Return True if all chunks have arrived."""
        for request, (_, channel) in self._pending.items():
            channel.cancel_request(request)
        return self.is_complete.done() and self.is_complete.result()

    def place(self, request: int, header: Header) -> memoryview | None:
        number, _ = self._pending[request]
        is_expected = header.kind is Kind.FOUND and header.number == number
        if not is_expected or header.payload_bytes != self._slice.length(number):
            return None
        return self._slice.data_chunk(self._body, number - self._first)

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        number, _ = self._pending.pop(request)
        is_valid = payload is not None and checksum(self._slice.name, number, payload) == header.crc32c
        if not self.is_complete.done() and not (is_valid and self._pending):
            self.is_complete.set_result(is_valid)

    def on_failure(self, request: int) -> None:
        del self._pending[request]
        if not self.is_complete.done():
            self.is_complete.set_result(False)


class WriteTally:
    """The combined result of several PUT or DELETE requests, which are never cancelled.

    Attributes:
        stored: Number of chunks stored.
        evicted: Chunks that members evicted to make room, as pairs of a member and a chunk's name.
    """

    def __init__(self) -> None:
        self.stored = 0
        self.evicted: list[tuple[str, bytes]] = []
        self._pending: dict[int, tuple[str, Channel]] = {}
        self._is_complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def delete(self, member: str, channel: Channel, name: bytes) -> None:
        """Request that a member delete its chunk of a slice."""
        self._pending[channel.send_request(Kind.DELETE, self, name)] = member, channel

    def put(self, member: str, channel: Channel, slice_: CodedSlice, number: int, chunk: Buffer) -> None:
        """Send a chunk to a member."""
        crc = checksum(slice_.name, number, chunk)
        request = channel.send_request(Kind.PUT, self, slice_.name, chunk, number=number, crc32c=crc)
        self._pending[request] = member, channel

    def place(self, request: int, header: Header) -> memoryview | None:
        return memoryview(bytearray(header.payload_bytes)) if header.kind is Kind.STORED else None

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        if header.kind is Kind.STORED:
            self.stored += 1
            member, _ = self._pending[request]
            self.evicted += ((member, name) for name in bytes(payload or b"").split(NAME_SEPARATOR) if name)
        self.on_failure(request)

    def on_failure(self, request: int) -> None:
        del self._pending[request]
        if not self._pending and not self._is_complete.done():
            self._is_complete.set_result(None)

    async def complete(self, limit_s: float) -> int:
        """Wait for all responses and return the number of chunks stored.

        Connections to members that have not responded within the limit are aborted.
        """
        if self._pending:
            await asyncio.wait((self._is_complete,), timeout=limit_s)
        for _, channel in list(self._pending.values()):
            channel.end()
        return self.stored
