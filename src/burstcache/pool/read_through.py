"""Read-through slices: the pool serves hits, S3 serves misses, and slices that are read again enter the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from cachetools import LRUCache

from burstcache.adapters.circuit_breaker import CircuitBreakers
from burstcache.adapters.clock import Clock
from burstcache.core.pool.admission import SliceAdmission
from burstcache.core.pool.slices import CodedSlice, Redundancy, pooled
from burstcache.core.slices import Version
from burstcache.logs import logger
from burstcache.pool.heartbeat import HubCounters
from burstcache.pool.isa_l import room
from burstcache.pool.reader import PoolReader

_MAX_ENTERING = 4  # slices being loaded or written at the same time; no more slices are admitted
_MAX_MISSES = 4  # consecutive misses of an object; after that, only slices that are read again are looked up
_VERSIONS = 4_096
_POOL = "pool"

Fetch = Callable[[int, memoryview], None]


class ReadThrough:
    """A read-through cache of slices: the pool in front of S3, on one event loop.

    Args:
        reader: Reads and writes slices.
        redundancies: Returns the current erasure codes: the code of new slices first, then earlier codes.
        admission: Decides which slices enter the pool.
        threads: Runs reads from S3.
        clock: The clock of admission and of the circuit breaker.
        counters: Counts requested, found and written slices.
    """

    def __init__(
        self,
        reader: PoolReader,
        redundancies: Callable[[], Sequence[Redundancy]],
        admission: SliceAdmission,
        threads: Executor,
        clock: Clock,
        counters: HubCounters | None = None,
    ) -> None:
        self._reader = reader
        self._redundancies = redundancies
        self._admission = admission
        self._threads = threads
        self._clock = clock
        self._counters = counters or HubCounters()
        self._breakers = CircuitBreakers(clock)
        self._misses: LRUCache[Version, int] = LRUCache(_VERSIONS)  # consecutive misses
        self._loading: dict[bytes, asyncio.Task[memoryview]] = {}
        self._writing: set[asyncio.Task[None]] = set()

    async def read(self, version: Version, start: int, into: memoryview, fetch: Fetch) -> bool:
        """Read a part of one slice. Return True if it came from the pool.

        Args:
            version: The version of the object.
            start: Offset of the part in the object [bytes].
            into: Destination, of the part's length. The caller may modify it after the call.
            fetch: Reads a part from S3, given its offset and its destination. Called in a thread.

        Raises:
            BurstcacheError: Raised by `fetch`.
        """
        self._counters.has_demand = self._counters.has_demand or self._admission.ever_pays
        if not (self._admission.ever_pays and self._reader.members):  # no members if the pool is paused or has no hub
            return await self._fetch(start, into, fetch)
        self._counters.requests += 1
        slices = [pooled(version, each).slice_at(start) for each in self._redundancies()]
        is_admitted = self._admission.admit(slices[0].name, at_s=self._clock.monotonic_s())
        if (is_admitted or self._may_hit(version)) and not self._breakers.is_open(_POOL):
            for slice_ in slices:
                if await self._read_from_pool(slice_, start - slice_.start, into):
                    self._misses.pop(version, None)
                    self._counters.hits += 1
                    return True
            self._misses[version] = self._misses.get(version, 0) + 1
        slice_ = slices[0]
        if not is_admitted or not self._may_enter(slice_):
            return await self._fetch(start, into, fetch)
        body = await asyncio.shield(self._shared_load(slice_, fetch))
        offset = start - slice_.start
        into[:] = body[offset : offset + len(into)]
        return False

    async def settle(self) -> None:
        """Wait until all slices that are being loaded have been written to the pool."""
        while tasks := {*self._loading.values(), *self._writing}:
            await asyncio.wait(tasks)
        await self._reader.settle()

    def _may_hit(self, version: Version) -> bool:
        """Whether another reader may have stored slices of an object. A lookup may start members, at a cost."""
        return self._misses.get(version, 0) < _MAX_MISSES

    async def _fetch(self, start: int, into: memoryview, fetch: Fetch) -> bool:
        await asyncio.get_running_loop().run_in_executor(self._threads, fetch, start, into)
        return False

    async def _read_from_pool(self, slice_: CodedSlice, offset: int, into: memoryview) -> bool:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        is_whole = len(into) == slice_.size_bytes
        reader = self._reader
        if await (reader.read_slice(slice_, into) if is_whole else reader.read_part(slice_, offset, into)):
            self._breakers.record_success(_POOL)
            return True
        if loop.time() - began_s >= self._reader.limit_s:
            self._record_failure(f"members did not send a slice within {self._reader.limit_s:g} s")
        else:
            self._breakers.record_success(_POOL)
        return False

    def _may_enter(self, slice_: CodedSlice) -> bool:
        if slice_.name in self._loading:
            return True
        return len(self._loading) + len(self._writing) < _MAX_ENTERING and not self._breakers.is_open(_POOL)

    def _shared_load(self, slice_: CodedSlice, fetch: Fetch) -> asyncio.Task[memoryview]:
        """Return the task that loads a slice from S3, shared by concurrent readers (single flight)."""
        if (load := self._loading.get(slice_.name)) is None:
            load = self._loading[slice_.name] = asyncio.create_task(self._load(slice_, fetch))
            # Retrieve the error, since all readers may be gone.
            load.add_done_callback(lambda done: done.cancelled() or done.exception())
        return load

    async def _load(self, slice_: CodedSlice, fetch: Fetch) -> memoryview:
        try:
            body = room(slice_.size_bytes)
            await self._fetch(slice_.start, body, fetch)
            write = asyncio.create_task(self._write(slice_, body))
            self._writing.add(write)
            write.add_done_callback(self._writing.discard)
            return body
        finally:
            del self._loading[slice_.name]

    async def _write(self, slice_: CodedSlice, body: memoryview) -> None:
        if await self._reader.write_slice(slice_, body):
            self._counters.stored_bytes += slice_.redundancy.chunks * slice_.chunk_bytes
            self._breakers.record_success(_POOL)
        else:
            self._record_failure("too few members have stored a slice")

    def _record_failure(self, reason: str) -> None:
        self._breakers.record_failure(_POOL)
        logger().warning("the pool failed, S3 serves", reason=reason)
