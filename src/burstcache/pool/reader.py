"""The pool's reader: reads objects from a hub's members and writes objects to them, slice by slice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

from cachetools import LRUCache

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import CodedSlice, PooledObject, redundancy_in
from burstcache.pool.channel import Channels
from burstcache.pool.chunks import encode
from burstcache.pool.fan_out import ChunksRead, SliceRead, WriteTally
from burstcache.pool.hedging import HedgeDelay
from burstcache.pool.isa_l import room

_MAX_TRACKED = 4_096  # slices with moved or evicted chunks
_PARALLEL_SLICES = 3  # other slices are requested while the last chunks of one slice arrive


class PoolReader:
    """A reader and writer of objects of any size.

    Args:
        hub: The hub that members dial, in this process or remote.
        members: Names of all members, running or not.
        limit_s: Time limit per slice [s].

    Attributes:
        members: The names of all members. May be reassigned.
    """

    def __init__(self, hub: Channels, members: Sequence[str], limit_s: float = 10.0) -> None:
        self._hub = hub
        self.members = tuple(members)
        self.limit_s = limit_s
        self._slice_hedge, self._part_hedge = HedgeDelay(limit_s), HedgeDelay(limit_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved: LRUCache[bytes, dict[str, int]] = LRUCache(_MAX_TRACKED)
        self._evicted: LRUCache[bytes, set[str]] = LRUCache(_MAX_TRACKED)

    async def read(self, object_: PooledObject, into: memoryview) -> list[CodedSlice]:
        """Read an object, and return the lost slices, which the caller must read from S3 by range.

        Args:
            object_: The object.
            into: Destination, of the object's length. The parts of lost slices are undefined.
        """
        return await self._each(object_, into, self.read_slice)

    async def write(self, object_: PooledObject, body: memoryview) -> list[CodedSlice]:
        """Write an object, and return the slices that are not in the pool, because too few members have stored them.

        Args:
            object_: The object.
            body: The object's bytes. Do not modify them during the call, or soon after a cancelled call. A chunk
                modified in transit has a wrong checksum and counts as lost.
        """
        return await self._each(object_, body, self.write_slice)

    async def read_slice(self, slice_: CodedSlice, into: memoryview) -> bool:
        """Read a slice. Return False if it is not in the pool.

        Lost and corrupt chunks are rebuilt and rewritten to their members in the background. If a member is gone, its
        chunk moves to the next member in the slice's order.

        Args:
            slice_: The slice.
            into: Destination, of the slice's length. Its content is undefined if False is returned.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        first, others = self._order(slice_)
        _, spares = self._holders(slice_)
        read = SliceRead(slice_, into, self._hub, others, [member for member in spares if member not in first + others])
        try:
            read.request_chunks(first)
            await asyncio.wait((read.is_complete,), timeout=self._slice_hedge.delay_s)
            if not read.is_complete.done():
                read.hedge()
                await asyncio.wait((read.is_complete,), timeout=began_s + self.limit_s - loop.time())
        finally:
            is_complete = read.finish()
        if is_complete:
            self._slice_hedge.record(loop.time() - began_s)
        if is_complete and (read.lacking or read.gone):
            self._repair(slice_, into, read)
        return is_complete

    async def read_part(self, slice_: CodedSlice, start: int, into: memoryview) -> bool:
        """Read a part of a slice. Return False if it is not in the pool.

        The code is systematic, so the data chunks that overlap the part suffice, unless one is lost or late.

        Args:
            slice_: The slice.
            start: Offset of the part in the slice [bytes].
            into: Destination, of the part's length. Its content is undefined if False is returned.
        """
        first, end = start // slice_.chunk_bytes, -(-(start + len(into)) // slice_.chunk_bytes)
        offset = first * slice_.chunk_bytes
        body = room(min(end * slice_.chunk_bytes, slice_.size_bytes) - offset)
        if end - first >= slice_.redundancy.data or not await self._read_chunks(slice_, range(first, end), body):
            offset, body = 0, room(slice_.size_bytes)
            if not await self.read_slice(slice_, body):
                return False
        into[:] = body[start - offset : start - offset + len(into)]
        return True

    async def write_slice(self, slice_: CodedSlice, body: memoryview) -> bool:
        """Write a slice to its holders. Return True if enough chunks are stored to read the slice back.

        Args:
            slice_: The slice.
            body: The slice's bytes. Do not modify them during the call.
        """
        assigned, spares = self._holders(slice_)
        self._moved.pop(slice_.name, None)
        self._evicted.pop(slice_.name, None)
        reachable = iter([member for member in spares if self._hub.find_channel(member)])
        members = {
            number: member
            if self._hub.find_channel(member)
            else self._move(slice_.name, number, next(reachable, member))
            for number, member in enumerate(assigned)
        }
        tally = WriteTally()
        self._put(tally, slice_, body, members)
        is_stored = await tally.complete(self.limit_s) >= slice_.redundancy.data
        self._note_evictions(tally)
        return is_stored

    async def delete(self, object_: PooledObject) -> None:
        """Delete an object's chunks from running members. Other members evict them eventually."""
        await self._delete(slice_.name for slice_ in object_.slices())

    async def settle(self) -> None:
        """Wait until lost chunks are rewritten and the remaining chunks of lost slices are deleted."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _holders(self, slice_: CodedSlice) -> tuple[list[str], list[str]]:
        """Return a slice's holders, in order, and the spare members that replace unreachable holders."""
        count = slice_.redundancy.chunks
        order = holders(slice_.name, self.members, min(count + slice_.redundancy.parity, len(self.members)))
        return order[:count], order[count:]

    def _order(self, slice_: CodedSlice) -> tuple[list[str], list[str]]:
        """Return the members to request chunks from first, and the other members with chunks of the slice.

        Chunks are first requested from one member more than needed: the holders of all data chunks and of one random
        parity chunk. This detects members that lack their chunk.
        """
        assigned, _ = self._holders(slice_)
        moved = self._moved.get(slice_.name, {})
        holder = dict(enumerate(assigned)) | {number: member for member, number in moved.items()}
        data = [holder[number] for number in sorted(holder) if number < slice_.redundancy.data]
        parity = [member for number, member in holder.items() if number >= slice_.redundancy.data]
        first = [*data, *random.sample(parity, min(1, len(parity)))]
        return first, [member for member in (*assigned, *moved) if member not in first]

    async def _read_chunks(self, slice_: CodedSlice, numbers: range, body: memoryview) -> bool:
        """Read data chunks from the members that should hold them. Return True if all have arrived in time."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assigned, _ = self._holders(slice_)
        moved = {number: member for member, number in self._moved.get(slice_.name, {}).items()}
        channels = [
            self._hub.find_channel(moved.get(number, assigned[number])) for number in numbers if number < len(assigned)
        ]
        if len(channels) < len(numbers) or not all(channels):
            return False
        read = ChunksRead(slice_, numbers[0], body)
        try:
            for number, channel in zip(numbers, channels, strict=True):
                if channel:
                    read.request_chunk(number, channel)
            await asyncio.wait((read.is_complete,), timeout=self._part_hedge.delay_s)
        finally:
            is_complete = read.finish()
        if is_complete:
            self._part_hedge.record(loop.time() - began_s)
        return is_complete

    def _move(self, name: bytes, number: int, member: str) -> str:
        self._moved.setdefault(name, {})[member] = number
        return member

    async def _each(
        self, object_: PooledObject, body: memoryview, work: Callable[[CodedSlice, memoryview], Awaitable[bool]]
    ) -> list[CodedSlice]:
        """Run `work` on all slices. Return the slices for which it failed, in order."""
        if len(body) != object_.size_bytes:
            raise InvalidSettingError(f"room for {len(body):,} bytes; the object has {object_.size_bytes:,}")
        failed: list[CodedSlice] = []
        slices = object_.slices()

        async def take_turns() -> None:
            for slice_ in slices:
                if not await work(slice_, body[slice_.start : slice_.start + slice_.size_bytes]):
                    failed.append(slice_)

        async with asyncio.TaskGroup() as group:
            for _ in range(_PARALLEL_SLICES):
                group.create_task(take_turns())
        return sorted(failed, key=lambda slice_: slice_.start)

    def _repair(self, slice_: CodedSlice, body: memoryview, read: SliceRead) -> None:
        """Rewrite lost chunks in the background. The caller may modify `body` after the call."""
        assigned, spares = self._holders(slice_)
        away = read.lacking | read.gone
        moved = {member: number for member, number in self._moved.pop(slice_.name, {}).items() if member not in away}
        if moved:
            self._moved[slice_.name] = moved
        assumed = (number for number, member in enumerate(assigned) if member not in away and member not in read.found)
        held = {*read.found.values(), *moved.values(), *assumed}
        free = [number for number in range(slice_.redundancy.chunks) if number not in held]
        again = [member for member in assigned if member in read.lacking]
        others = [member for member in spares if member not in away | read.found.keys() | moved.keys()]
        members = dict(zip(free, again, strict=False))
        for number, member in zip(free[len(again) :], filter(self._hub.find_channel, others), strict=False):
            members[number] = self._move(slice_.name, number, member)
        if not members:
            return
        tally = WriteTally()
        self._put(tally, slice_, body, members, copies=True)
        self._spawn(self._finish(tally))

    def _put(
        self,
        tally: WriteTally,
        slice_: CodedSlice,
        body: memoryview,
        members: Mapping[int, str],
        *,
        copies: bool = False,
    ) -> None:
        """Send chunks to `members` (by chunk index). Data chunks come first, since they need no encoding."""
        data = slice_.redundancy.data
        for number, member in members.items():
            if number < data and (channel := self._hub.find_channel(member)):
                chunk = slice_.data_chunk(body, number)
                tally.put(member, channel, slice_, number, bytes(chunk) if copies else chunk)
        parities = [number for number, member in members.items() if number >= data and self._hub.find_channel(member)]
        for number, parity in encode(slice_, body, parities).items():
            if channel := self._hub.find_channel(members[number]):
                tally.put(members[number], channel, slice_, number, bytes(parity) if copies else parity)

    async def _finish(self, tally: WriteTally) -> None:
        await tally.complete(self.limit_s)
        self._note_evictions(tally)

    def _note_evictions(self, tally: WriteTally) -> None:
        """Delete the remaining chunks of slices that have lost more chunks to eviction than they have parity chunks."""
        lost = []
        for member, name in tally.evicted:
            evicted_by = self._evicted.setdefault(name, set())
            evicted_by.add(member)
            code = redundancy_in(name)
            if code and len(evicted_by) > code.parity:
                del self._evicted[name]
                lost.append(name)
        if lost:
            self._spawn(self._delete(lost))

    async def _delete(self, names: Iterable[bytes]) -> None:
        tally = WriteTally()
        for name in names:
            code = redundancy_in(name)
            count = min(code.chunks, len(self.members)) if code else 0
            for member in {*holders(name, self.members, count), *self._moved.pop(name, {})}:
                if channel := self._hub.find_channel(member):
                    tally.delete(member, channel, name)
        await tally.complete(self.limit_s)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
