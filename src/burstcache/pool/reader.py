"""Objects read from and written to the members of a hub, slice by slice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import PooledObject, Slice
from burstcache.pool.asking import SliceRead, Tally
from burstcache.pool.chunks import encode
from burstcache.pool.frames import Kind
from burstcache.pool.link import Link, Links

_SLICES_AT_ONCE = 3  # others are asked for while the last chunks of one arrive


class PoolReader:
    """Reads and writes objects of any size.

    Args:
        hub: Where members have dialled in, here or elsewhere.
        members: Names of all members, whether they are there or not.
        limit_s: How long a slice may take.
    """

    def __init__(self, hub: Links, members: Sequence[str], limit_s: float = 10.0) -> None:
        self._hub = hub
        self._members = tuple(members)
        self.limit_s = limit_s
        self._repairs: set[asyncio.Task[int]] = set()

    async def read(self, object_: PooledObject, into: memoryview) -> list[Slice]:
        """Read an object, and return the slices that are lost: the caller reads them from S3, by range.

        Args:
            object_: Which one.
            into: As long as the object; where lost slices belong, its content is undefined.
        """
        return await self._each(object_, into, self.read_slice)

    async def write(self, object_: PooledObject, body: memoryview) -> list[Slice]:
        """Write an object, and return the slices that too few members have stored: they are not in the pool.

        Args:
            object_: Which one.
            body: The object; it must not change meanwhile, nor soon after a call that was cancelled. A chunk that
                changes on its way has a wrong checksum, so it is a lost one.
        """
        return await self._each(object_, body, self.write_slice)

    async def read_slice(self, slice_: Slice, into: memoryview) -> bool:
        """Read a slice, and return whether it is there.

        A chunk that a member lacks, or has with a wrong byte, is computed and written to it in the background.

        Args:
            slice_: Which one.
            into: As long as the slice; undefined if it is not there.
        """
        read = SliceRead(slice_, into)
        try:
            read.ask(self._links(slice_))
            await asyncio.wait((read.is_whole,), timeout=self.limit_s)
        finally:
            is_whole = read.end()
        if is_whole and read.lacking:
            self._repair(slice_, into, read)
        return is_whole

    async def write_slice(self, slice_: Slice, body: memoryview) -> bool:
        """Write a slice to its holders, and return whether enough have stored it to read it again.

        Args:
            slice_: Which one.
            body: The slice; it must not change meanwhile.
        """
        data = slice_.redundancy.data
        tally = Tally()
        links = dict(enumerate(self._links(slice_)))
        parities = {number: link for number, link in links.items() if link and number >= data}
        for number, link in links.items():
            if link and number < data:
                tally.put(link, slice_, number, slice_.data_chunk(body, number))
        for number, chunk in encode(slice_, body, parities).items():
            tally.put(parities[number], slice_, number, chunk)
        return await tally.complete(self.limit_s) >= data

    async def delete(self, object_: PooledObject) -> None:
        """Delete an object's chunks from the members that are there."""
        tally = Tally()
        for slice_ in object_.slices():
            for link in self._links(slice_):
                if link:
                    tally.ask(link, Kind.DELETE, slice_.name)
        await tally.complete(self.limit_s)

    async def settle(self) -> None:
        """Wait until lost chunks are written again."""
        while self._repairs:
            await asyncio.wait(self._repairs)

    def _links(self, slice_: Slice) -> list[Link | None]:
        """Return the connections to a slice's holders, in order; None for one that is not there."""
        return [self._hub.link(name) for name in holders(slice_.name, self._members, slice_.redundancy.chunks)]

    async def _each(
        self, object_: PooledObject, body: memoryview, work: Callable[[Slice, memoryview], Awaitable[bool]]
    ) -> list[Slice]:
        """Return the slices for which `work` has failed, in order."""
        if len(body) != object_.size_bytes:
            raise InvalidSettingError(f"room for {len(body):,} bytes; the object has {object_.size_bytes:,}")
        failed: list[Slice] = []
        slices = object_.slices()

        async def take_turns() -> None:
            for slice_ in slices:
                if not await work(slice_, body[slice_.start : slice_.start + slice_.size_bytes]):
                    failed.append(slice_)

        async with asyncio.TaskGroup() as group:
            for _ in range(_SLICES_AT_ONCE):
                group.create_task(take_turns())
        return sorted(failed, key=lambda slice_: slice_.start)

    def _repair(self, slice_: Slice, body: memoryview, read: SliceRead) -> None:
        """Write lost chunks again; what they are computed from may change once this has returned."""
        links = self._links(slice_)
        taken = {*read.arrived, *(number for number, link in enumerate(links) if link not in read.lacking)}
        free = [number for number in range(slice_.redundancy.chunks) if number not in taken]
        tally = Tally()
        numbers = dict(zip(free, (link for link in links if link in read.lacking), strict=False))
        chunks = encode(slice_, body, [number for number in numbers if number >= slice_.redundancy.data])
        for number, link in numbers.items():
            if link:
                chunk = chunks.get(number) or slice_.data_chunk(body, number)
                tally.put(link, slice_, number, bytes(chunk))
        task = asyncio.create_task(tally.complete(self.limit_s))
        self._repairs.add(task)
        task.add_done_callback(self._repairs.discard)
