"""Slices read through the pool: what it lacks comes from S3, and what is asked for again enters it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from cachetools import LRUCache

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.clock import Clock
from burstcache.core.pool.heat import SliceHeat
from burstcache.core.pool.slices import Redundancy, Slice, Version
from burstcache.logs import logger
from burstcache.pool.heartbeat import Seen
from burstcache.pool.isa_l import room
from burstcache.pool.reader import PoolReader

_ENTERING = 4  # slices at a time; while they are on their way, others stay outside
_MOST_MISSED = 4  # slices of an object in a row; then only those are looked for that are asked for again
_VERSIONS = 4_096
_POOL = "pool"

Fetch = Callable[[int, memoryview], None]


class ReadThrough:
    """The pool over S3, on one event loop.

    Args:
        reader: Reads and writes slices.
        redundancies: How slices are coded: new ones as the first says, older ones perhaps as another. It may change.
        heat: Which slices enter.
        threads: Where S3 is asked.
        clock: What heat goes by, and the time for which a pool out of reach is left alone.
        seen: Counts slices that are asked for, found and written.
    """

    def __init__(
        self,
        reader: PoolReader,
        redundancies: Callable[[], Sequence[Redundancy]],
        heat: SliceHeat,
        threads: Executor,
        clock: Clock,
        seen: Seen | None = None,
    ) -> None:
        self._reader = reader
        self._redundancies = redundancies
        self._heat = heat
        self._threads = threads
        self._clock = clock
        self._seen = seen or Seen()
        self._breakers = Breakers(clock)
        self._missed: LRUCache[Version, int] = LRUCache(_VERSIONS)  # slices in a row that the pool did not have
        self._loading: dict[bytes, asyncio.Task[memoryview]] = {}
        self._writing: set[asyncio.Task[None]] = set()

    async def read(self, version: Version, start: int, into: memoryview, fetch: Fetch) -> bool:
        """Read a part of one slice, and return whether it came from the pool.

        Args:
            version: Of which object.
            start: Where the part begins in the object [bytes].
            into: Where it is written, as long as it is; it may change once this has returned.
            fetch: Reads a part from S3, given its start and where it is written; called in a thread.

        Raises:
            BurstcacheError: As `fetch` does.
        """
        self._seen.is_asked = self._seen.is_asked or self._heat.ever_pays
        if not (self._heat.ever_pays and self._reader.members):  # without members it is paused, or has no hub
            return await self._fetched(start, into, fetch)
        self._seen.requests += 1
        slices = [version.pooled(each).slice_at(start) for each in self._redundancies()]
        enters = self._heat.ask(slices[0].name, at_s=self._clock.monotonic_s())
        if (enters or self._is_expected(version)) and not self._breakers.is_open(_POOL):
            for slice_ in slices:
                if await self._is_in_pool(slice_, start - slice_.start, into):
                    self._missed.pop(version, None)
                    self._seen.hits += 1
                    return True
            self._missed[version] = self._missed.get(version, 0) + 1
        slice_ = slices[0]
        if not enters or not self._takes(slice_):
            return await self._fetched(start, into, fetch)
        body = await asyncio.shield(self._loaded(slice_, fetch))
        offset = start - slice_.start
        into[:] = body[offset : offset + len(into)]
        return False

    async def settle(self) -> None:
        """Wait until what is on its way into the pool is there."""
        while under_way := {*self._loading.values(), *self._writing}:
            await asyncio.wait(under_way)
        await self._reader.settle()

    def _is_expected(self, version: Version) -> bool:
        """Whether others may have brought slices of an object: to look in vain wakes members, which is paid for."""
        return self._missed.get(version, 0) < _MOST_MISSED

    async def _fetched(self, start: int, into: memoryview, fetch: Fetch) -> bool:
        await asyncio.get_running_loop().run_in_executor(self._threads, fetch, start, into)
        return False

    async def _is_in_pool(self, slice_: Slice, offset: int, into: memoryview) -> bool:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        is_whole = len(into) == slice_.size_bytes
        reader = self._reader
        if await (reader.read_slice(slice_, into) if is_whole else reader.read_part(slice_, offset, into)):
            self._breakers.succeed(_POOL)
            return True
        if loop.time() - began_s >= self._reader.limit_s:
            self._leave_alone(f"members did not send a slice within {self._reader.limit_s:g} s")
        else:
            self._breakers.succeed(_POOL)
        return False

    def _takes(self, slice_: Slice) -> bool:
        if slice_.name in self._loading:
            return True
        return len(self._loading) + len(self._writing) < _ENTERING and not self._breakers.is_open(_POOL)

    def _loaded(self, slice_: Slice, fetch: Fetch) -> asyncio.Task[memoryview]:
        """Return the load of a slice from S3, of which there is one at a time."""
        if (load := self._loading.get(slice_.name)) is None:
            load = self._loading[slice_.name] = asyncio.create_task(self._load(slice_, fetch))
            load.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody waits any more
        return load

    async def _load(self, slice_: Slice, fetch: Fetch) -> memoryview:
        try:
            body = room(slice_.size_bytes)
            await self._fetched(slice_.start, body, fetch)
            write = asyncio.create_task(self._write(slice_, body))
            self._writing.add(write)
            write.add_done_callback(self._writing.discard)
            return body
        finally:
            del self._loading[slice_.name]

    async def _write(self, slice_: Slice, body: memoryview) -> None:
        if await self._reader.write_slice(slice_, body):
            self._seen.stored_bytes += slice_.redundancy.chunks * slice_.chunk_bytes
            self._breakers.succeed(_POOL)
        else:
            self._leave_alone("too few members have stored a slice")

    def _leave_alone(self, reason: str) -> None:
        self._breakers.fail(_POOL)
        logger().warning("the pool failed, S3 serves", reason=reason)
