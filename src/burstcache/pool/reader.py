"""Objects read from and written to the members of a hub, slice by slice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

from cachetools import LRUCache

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import PooledObject, Slice, redundancy_in
from burstcache.pool.asking import ChunksRead, SliceRead, Tally
from burstcache.pool.chunks import encode
from burstcache.pool.isa_l import room
from burstcache.pool.link import Links
from burstcache.pool.patience import Patience

_MOST_KNOWN = 4_096  # slices of which is remembered where chunks have moved to, and who has dropped some
_SLICES_AT_ONCE = 3  # others are asked for while the last chunks of one arrive


class PoolReader:
    """Reads and writes objects of any size.

    Args:
        hub: Where members have dialled in, here or elsewhere.
        members: Names of all members, whether they are there or not.
        limit_s: How long a slice may take.

    Attributes:
        members: Those names; they may be replaced.
    """

    def __init__(self, hub: Links, members: Sequence[str], limit_s: float = 10.0) -> None:
        self._hub = hub
        self.members = tuple(members)
        self.limit_s = limit_s
        self._patience, self._patience_with_parts = Patience(limit_s), Patience(limit_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved: LRUCache[bytes, dict[str, int]] = LRUCache(_MOST_KNOWN)
        self._dropped: LRUCache[bytes, set[str]] = LRUCache(_MOST_KNOWN)

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

        A chunk that a member lacks, or has with a wrong byte, is computed and written to it in the background; that of
        a member that is gone is written to the next one in the slice's order.

        Args:
            slice_: Which one.
            into: As long as the slice; undefined if it is not there.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        first, others = self._in_turn(slice_)
        _, spares = self._holders(slice_)
        read = SliceRead(slice_, into, self._hub, others, [member for member in spares if member not in first + others])
        try:
            read.ask(first)
            await asyncio.wait((read.is_whole,), timeout=self._patience.limit_s)
            if not read.is_whole.done():
                read.hurry()
                await asyncio.wait((read.is_whole,), timeout=began_s + self.limit_s - loop.time())
        finally:
            is_whole = read.end()
        if is_whole:
            self._patience.learn(loop.time() - began_s)
        if is_whole and (read.lacking or read.gone):
            self._repair(slice_, into, read)
        return is_whole

    async def read_part(self, slice_: Slice, start: int, into: memoryview) -> bool:
        """Read a part of a slice, and return whether it is there.

        Chunks of data are parts of the slice, so those that the part touches are enough, unless one is lost or late.

        Args:
            slice_: Which one.
            start: Where the part begins in the slice [bytes].
            into: As long as the part; undefined if it is not there.
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

    async def write_slice(self, slice_: Slice, body: memoryview) -> bool:
        """Write a slice to its holders, and return whether enough have stored it to read it again.

        Args:
            slice_: Which one.
            body: The slice; it must not change meanwhile.
        """
        kept_by, spares = self._holders(slice_)
        self._moved.pop(slice_.name, None)
        self._dropped.pop(slice_.name, None)
        there = iter([member for member in spares if self._hub.link(member)])
        members = {
            number: member if self._hub.link(member) else self._move(slice_.name, number, next(there, member))
            for number, member in enumerate(kept_by)
        }
        tally = Tally()
        self._put(tally, slice_, body, members)
        is_stored = await tally.complete(self.limit_s) >= slice_.redundancy.data
        self._note_dropped(tally)
        return is_stored

    async def delete(self, object_: PooledObject) -> None:
        """Delete an object's chunks from the members that are there; those that sleep drop them some day."""
        await self._delete(slice_.name for slice_ in object_.slices())

    async def settle(self) -> None:
        """Wait until lost chunks are written again, and what is left of lost slices is deleted."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _holders(self, slice_: Slice) -> tuple[list[str], list[str]]:
        """Return a slice's holders, in order, and the members to which chunks move when holders are gone."""
        count = slice_.redundancy.chunks
        order = holders(slice_.name, self.members, min(count + slice_.redundancy.parity, len(self.members)))
        return order[:count], order[count:]

    def _in_turn(self, slice_: Slice) -> tuple[list[str], list[str]]:
        """Return the members that are asked for a slice at first, and those that are asked if these are not enough.

        At first it is one more than has to answer: the holders of all data and of one chunk of parity, by chance, so
        that one that lacks its chunk is found out.
        """
        kept_by, _ = self._holders(slice_)
        moved = self._moved.get(slice_.name, {})
        holder = dict(enumerate(kept_by)) | {number: member for member, number in moved.items()}
        data = [holder[number] for number in sorted(holder) if number < slice_.redundancy.data]
        parity = [member for number, member in holder.items() if number >= slice_.redundancy.data]
        first = [*data, *random.sample(parity, min(1, len(parity)))]
        return first, [member for member in (*kept_by, *moved) if member not in first]

    async def _read_chunks(self, slice_: Slice, numbers: range, body: memoryview) -> bool:
        """Read chunks of data from the members that should have them, and return whether all have arrived in time."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        kept_by, _ = self._holders(slice_)
        moved = {number: member for member, number in self._moved.get(slice_.name, {}).items()}
        links = [self._hub.link(moved.get(number, kept_by[number])) for number in numbers if number < len(kept_by)]
        if len(links) < len(numbers) or not all(links):
            return False
        read = ChunksRead(slice_, numbers[0], body)
        try:
            for number, link in zip(numbers, links, strict=True):
                if link:
                    read.ask(number, link)
            await asyncio.wait((read.is_whole,), timeout=self._patience_with_parts.limit_s)
        finally:
            is_whole = read.end()
        if is_whole:
            self._patience_with_parts.learn(loop.time() - began_s)
        return is_whole

    def _move(self, name: bytes, number: int, member: str) -> str:
        self._moved.setdefault(name, {})[member] = number
        return member

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
        kept_by, spares = self._holders(slice_)
        away = read.lacking | read.gone
        moved = {member: number for member, number in self._moved.pop(slice_.name, {}).items() if member not in away}
        if moved:
            self._moved[slice_.name] = moved
        believed = (number for number, member in enumerate(kept_by) if member not in away and member not in read.found)
        held = {*read.found.values(), *moved.values(), *believed}
        free = [number for number in range(slice_.redundancy.chunks) if number not in held]
        again = [member for member in kept_by if member in read.lacking]
        others = [member for member in spares if member not in away | read.found.keys() | moved.keys()]
        members = dict(zip(free, again, strict=False))
        for number, member in zip(free[len(again) :], filter(self._hub.link, others), strict=False):
            members[number] = self._move(slice_.name, number, member)
        if not members:
            return
        tally = Tally()
        self._put(tally, slice_, body, members, copies=True)
        self._spawn(self._finish(tally))

    def _put(
        self, tally: Tally, slice_: Slice, body: memoryview, members: Mapping[int, str], *, copies: bool = False
    ) -> None:
        """Send chunks to members by number; those of data first, since they need not be computed."""
        data = slice_.redundancy.data
        for number, member in members.items():
            if number < data and (link := self._hub.link(member)):
                chunk = slice_.data_chunk(body, number)
                tally.put(member, link, slice_, number, bytes(chunk) if copies else chunk)
        parities = [number for number, member in members.items() if number >= data and self._hub.link(member)]
        for number, parity in encode(slice_, body, parities).items():
            if link := self._hub.link(members[number]):
                tally.put(members[number], link, slice_, number, bytes(parity) if copies else parity)

    async def _finish(self, tally: Tally) -> None:
        await tally.complete(self.limit_s)
        self._note_dropped(tally)

    def _note_dropped(self, tally: Tally) -> None:
        """Delete what is left of slices of which members have dropped more chunks than there is parity."""
        lost = []
        for member, name in tally.dropped:
            dropped_by = self._dropped.setdefault(name, set())
            dropped_by.add(member)
            code = redundancy_in(name)
            if code and len(dropped_by) > code.parity:
                del self._dropped[name]
                lost.append(name)
        if lost:
            self._spawn(self._delete(lost))

    async def _delete(self, names: Iterable[bytes]) -> None:
        tally = Tally()
        for name in names:
            code = redundancy_in(name)
            count = min(code.chunks, len(self.members)) if code else 0
            for member in {*holders(name, self.members, count), *self._moved.pop(name, {})}:
                if link := self._hub.link(member):
                    tally.delete(member, link, name)
        await tally.complete(self.limit_s)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
