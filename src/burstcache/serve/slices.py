"""Slices of large objects, from a reader's memory or disk, tiers that readers share, the pool, or S3 by ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Semaphore
from typing import Protocol

from burstcache.adapters.clock import Clock
from burstcache.adapters.single_flight import LEFT_AFTER_S, Flight, FlightOutcome, SingleFlight, always
from burstcache.core.pool.slices import SLICE_BYTES as _PART_BYTES
from burstcache.core.pool.slices import extents
from burstcache.core.slices import Slice, SliceNames, Version, runs
from burstcache.serve.buffers import LARGE_BYTES, ResultBuffer, mapped
from burstcache.serve.entry_writer import EntryWriter
from burstcache.serve.parallel_parts import read_parts, slowest
from burstcache.serve.part_read import PartRead
from burstcache.serve.part_source import PartSource
from burstcache.serve.read_stats import ReadCounter
from burstcache.serve.shared_slices import SharedSlices, SliceStores
from burstcache.serve.slice_memory import CachedSlice, SliceMemory
from burstcache.web.entry import body_offset

_THREADS = 32
_STORE_THREADS = 4  # of their own, so that no read waits for a store
_CLOSE_S = 2.5  # how long `close` waits for loads, and again for their stores
_MOST_EXPECTED_BYTES = 256 << 20  # of a read that looks up its slices before it begins, which takes some ms for these
_MOST_STORES = 16  # waiting, each of at most 8 MiB. What exceeds them is stored after a later read

_Body = bytes | memoryview
_Flight = Flight[tuple[_Body, str], bool]  # of a slice: its bytes, and the tier that had them


class SliceDisk(Protocol):
    """Slices on disk, by name."""

    def has(self, name: str) -> bool:
        """Return True if a slice is present. Its body is not verified."""

    def read_begin(self, name: str, split: Callable[[bytes], int]) -> bytes | None:
        """Return the first half of a slice, as for `read_halves`. None: that would take a wait for the disk."""

    def read_into(self, name: str, start: int, into: memoryview, *, prefix: bytes = b"", waits: bool = True) -> bool:
        """Read a part of a slice. Return False if the slice is absent or damaged.

        Args:
            name: Name of the slice.
            start: Start of the part in the slice [bytes].
            into: Destination, of the part's length.
            prefix: The bytes with which the slice has to begin.
            waits: Whether to wait for the disk. If False, a slice counts as absent if that would be necessary.
        """

    def read(self, name: str) -> bytes | None:
        """Return a whole slice. None: it is absent or damaged."""

    def read_halves(
        self, name: str, split: Callable[[bytes], int], *, waits: bool = True
    ) -> tuple[bytes, bytes] | None:
        """Return a whole slice in two halves: `split` returns the length of the first one, from the first bytes.

        None: the slice is absent or damaged. `waits` is as for `read_into`.
        """

    def write(self, name: str, body: bytes | memoryview, *, replaces: bool = False) -> bool:
        """Store a slice, unless it is present and not to be replaced. Return False if it is not stored."""


class Slices:
    """A reader of object versions that keeps their slices. Threads may share it.

    Concurrent reads of one slice share one read of the tiers below memory (single flight). A read returns once the
    bytes that it wants have arrived. The rest of their slices follows in the background.
    """

    def __init__(
        self,
        source: PartSource,
        names: SliceNames,
        clock: Clock,
        *,
        memory: SliceMemory | None = None,
        disk: SliceDisk | None = None,
        shared: SharedSlices | None = None,
        counter: ReadCounter | None = None,
    ) -> None:
        """Create a reader.

        Args:
            source: Reads the slices that no cache has.
            names: Names the slices of the bucket.
            clock: Times waits for concurrent reads.
            memory: Keeps slices in this process. None: none.
            disk: Keeps slices on this machine. None: none.
            shared: Redis nodes and S3 Express. None: neither. Without memory and disk it is not used.
            counter: Counts reads of slices.
        """
        self._source = source
        self._names = names
        self._clock = clock
        self._memory = memory
        self._disk = disk
        self._shared = shared
        self._counter = counter or ReadCounter()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="burstcache-slices")
        self._load_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="burstcache-loads")
        self._store_threads = ThreadPoolExecutor(_STORE_THREADS, thread_name_prefix="burstcache-stores")
        self._entries = EntryWriter(ThreadPoolExecutor(1, thread_name_prefix="burstcache-entries"), clock)
        self._free_stores = Semaphore(_MOST_STORES)
        self._behind: set[Future[None]] = set()  # loads and stores that a shared tier may wait for
        self._flights: SingleFlight[tuple[_Body, str], bool] = SingleFlight(clock, lambda: True, next_after_s=0)

    @property
    def tier(self) -> str:
        """The first tier below memory and disk."""
        return self._source.tier

    def begin(self, version: Version, start: int, into: memoryview) -> Future[str]:
        """Begin to read a part of an object of at most 8 MiB. The future resolves to the slowest tier that was needed.

        Args:
            version: The version of the object.
            start: Offset of the part in the object [bytes].
            into: Destination, of the part's length, not empty. It may be modified until the future is done.

        Raises:
            BurstcacheError: Raised by the future, as `PartSource.begin` does.
            ValueError: The client was closed, or the process has forked since.
        """
        self._source.check_usable(version)
        if not self.has_caches:
            return self._source.begin(version, start, into)
        slices = self._names.slices(version, start, start + len(into))
        if (parts := self._recall(slices, start, start + len(into))) is not None:
            position = 0
            for part in parts:
                into[position : position + len(part)] = part
                position += len(part)
            done: Future[str] = Future()
            done.set_result("memory")
            return done
        read = PartRead(version, start, start + len(into), slices, self._counter, into)
        done = read.future()
        self._note_behind(self._threads.submit(self._read, read))
        return done

    def read(self, version: Version, start: int, end: int) -> tuple[bytes, str]:
        """Return the bytes from `start` up to `end`, exclusive, and the slowest tier that was needed.

        Raises:
            BurstcacheError: As `PartSource.begin` does.
        """
        slices = self._names.slices(version, start, end)
        is_short = end - start < LARGE_BYTES  # longer copies gain from large pages
        if is_short and (parts := self._recall(slices, start, end)) is not None:
            return _joined(parts), "memory"
        if self.has_caches and start // _PART_BYTES == (end - 1) // _PART_BYTES:
            if self._memory is None and self._disk is not None:
                self._source.check_usable(version)
                own = ResultBuffer(end - start)
                if (local_tier := self._read_local(slices, start, own.into, waits=True)) is not None:
                    return own.value(), local_tier
            read = PartRead(version, start, end, slices, self._counter)
            tier = self._read_here(read)
            return read.result(), tier
        buffer = ResultBuffer(end - start)
        tier = read_parts(partial(self.begin, version), start, buffer.into)
        return buffer.value(), tier

    def recall(self, version: Version, start: int, end: int) -> bytes | None:
        """Return the bytes from `start` up to `end`, exclusive, if all of them are in memory. Never blocks."""
        parts = self._recall(self._names.slices(version, start, end), start, end)
        return None if parts is None else _joined(parts)

    def expected_tier(self, version: Version, start: int, end: int, *, asks_disk: bool = True) -> str:
        """Return the slowest tier that a read will need, as far as this is known before it. Count no read.

        Args:
            version: The version of the object.
            start: Start of the part in the object [bytes].
            end: End of the part, exclusive [bytes]. Of a long part only the first 256 MiB are looked for.
            asks_disk: Whether to look for slices on disk, which may wait. If False, it counts as lacking them.
        """
        disk, tiers = self._disk if asks_disk else None, set[str]()
        for first, last in extents(start, min(end, start + _MOST_EXPECTED_BYTES)):
            for each in self._names.slices(version, first, last):
                if self._memory is not None and self._memory.find(each) is not None:
                    tiers.add("memory")
                elif disk is not None and disk.has(each.name):
                    tiers.add("disk")
                else:
                    return self._source.tier
        return slowest(tiers)

    def read_cached(self, version: Version, start: int, end: int, *, waits: bool = True) -> tuple[bytes, str] | None:
        """Return the bytes from `start` up to `end`, exclusive, and their tier, if memory and disk have all of them.

        Args:
            version: The version of the object.
            start: Start of the part in the object [bytes].
            end: End of the part, exclusive [bytes].
            waits: Whether to wait for the disk. If False, None may also mean that it would be necessary.
        """
        slices = self._names.slices(version, start, end)
        if (parts := self._recall(slices, start, end)) is not None:
            return _joined(parts), "memory"
        buffer = ResultBuffer(end - start)
        tier = self._read_local(slices, start, buffer.into, waits=waits)
        return None if tier is None else (buffer.value(), tier)

    def read_cached_into(self, version: Version, start: int, into: memoryview, *, waits: bool = True) -> str | None:
        """Fill `into` from `start` of an object as `read_cached` does. Return None if memory and disk lack a slice."""
        return self._read_local(self._names.slices(version, start, start + len(into)), start, into, waits=waits)

    def keep(self, version: Version, start: int, body: memoryview) -> None:
        """Keep the slices that a part of an object contains whole.

        Args:
            version: The version of the object.
            start: Offset of the part in the object [bytes].
            body: The part.
        """
        if self.has_caches and body:
            for each in self._names.slices(version, start, start + len(body)):
                if start <= each.start and each.end <= start + len(body):
                    data = self._copied(body[each.start - start : each.end - start])
                    if self._memory is not None:
                        self._memory.put(each, data, each.end)
                    if self._disk is not None:
                        self._threads.submit(self._disk.write, each.name, data)

    def note_head(self, key: str, head: bytes) -> None:
        """Store the head of a large object on disk, for the next process. Do not wait for that."""
        if self._disk is not None:
            self._entries.submit(len(head), partial(self._disk.write, self._names.head(key), head, replaces=True))

    def store_whole(self, key: str, size_bytes: int, encode: Callable[[], bytes]) -> None:
        """Store a small object on disk in place of a head. Do not wait for that: a disk that is too slow misses it.

        Args:
            key: The object's key.
            size_bytes: Its length [bytes].
            encode: Returns its entry.
        """
        if (disk := self._disk) is not None:
            name = self._names.head(key)
            self._entries.submit(size_bytes, lambda: disk.write(name, encode(), replaces=True))

    def stored_head(self, key: str, *, waits: bool = True) -> tuple[bytes, bytes] | None:
        """Return the head, or the small object, that some process stored on disk. It may have changed since.

        Args:
            key: The object's key.
            waits: Whether to wait for the disk. If False, None may also mean that it would be necessary.

        Returns:
            The bytes before the entry's body, and its body.
        """
        return None if self._disk is None else self._disk.read_halves(self._names.head(key), body_offset, waits=waits)

    def stored_begin(self, key: str) -> bytes | None:
        """Return the bytes before the body of a small object on disk, as `stored_head` does, without a wait for it."""
        return None if self._disk is None else self._disk.read_begin(self._names.head(key), body_offset)

    def read_stored_into(
        self, key: str, begin: bytes, start: int, into: memoryview, *, waits: bool = True
    ) -> str | None:
        """Fill `into` from the body of a small object on disk, and return this tier.

        None: it is not there any more, or is another version.

        Args:
            key: The object's key.
            begin: The bytes before the body, of `stored_begin`. They identify the version.
            start: Start of the part in the object [bytes].
            into: Destination, of the part's length.
            waits: As for `read_cached`.
        """
        name, offset = self._names.head(key), len(begin) + start
        is_read = self._disk is not None and self._disk.read_into(name, offset, into, prefix=begin, waits=waits)
        return "disk" if is_read else None

    def close(self) -> None:
        """Wait up to 2.5 s for small objects on disk, and up to 5 s for stores in shared tiers. Close the source.

        Otherwise a program that reads and ends at once would take leases, and never store a slice. The threads end
        after their current reads.
        """
        self._entries.close(_CLOSE_S)
        for _ in range(2):  # a load ends with the start of its store
            wait(tuple(self._behind), _CLOSE_S)
        self._threads.shutdown(wait=False)
        self._load_threads.shutdown(wait=False)
        self._store_threads.shutdown(wait=False)
        if self._shared is not None:
            self._shared.close()
        self._source.close()

    @property
    def has_caches(self) -> bool:
        """True if slices are kept in memory or on disk."""
        return self._memory is not None or self._disk is not None

    @property
    def has_disk(self) -> bool:
        """True if slices are kept on disk."""
        return self._disk is not None

    def _recall(self, slices: Sequence[Slice], start: int, end: int) -> list[memoryview] | None:
        """Return the parts of slices that a range consists of, if all of them are in memory."""
        if (memory := self._memory) is None:
            return None
        cached = []
        for each in slices:
            if (found := memory.find(each)) is None:
                return None
            cached.append((each, found))
        parts = []
        for each, found in cached:
            memory.note_read(each, found, start, end)
            first = each.start
            parts.append(memoryview(found.body)[start - first if start > first else 0 : end - first])
        self._counter.count("memory", end - start, reads=len(parts))
        return parts

    def _read_local(self, slices: Sequence[Slice], start: int, into: memoryview, *, waits: bool) -> str | None:
        """Fill `into` and return the tier, if memory and disk have all slices of the range. Memory keeps whole ones."""
        if self._disk is None:
            return None
        memory, end = self._memory, start + len(into)
        recalled, loaded = list[tuple[Slice, CachedSlice]](), list[tuple[Slice, int, int]]()
        for each in slices:
            first, last = max(each.start, start), min(each.end, end)
            with into[first - start : last - start] as part:
                if memory is not None and (found := memory.find(each)) is not None:
                    part[:] = memoryview(found.body)[first - each.start : last - each.start]
                    recalled.append((each, found))
                elif self._disk.read_into(each.name, first - each.start, part, waits=waits):
                    loaded.append((each, first, last))
                else:
                    return None
        if memory is not None:
            for each, found in recalled:
                memory.note_read(each, found, start, end)
            for each, first, last in loaded:
                if last - first == each.size_bytes:
                    with into[first - start : last - start] as body:
                        memory.put(each, memory.copy(body), end)
        loaded_bytes = sum(last - first for _, first, last in loaded)
        if recalled:
            self._counter.count("memory", end - start - loaded_bytes, reads=len(recalled))
        if loaded:
            self._counter.count("disk", loaded_bytes, reads=len(loaded))
        return "disk" if loaded else "memory"

    def _read_here(self, read: PartRead) -> str:
        """Read a part in this thread, and return the slowest tier. Only the source has threads of its own."""
        self._source.check_usable(read.version)
        load = _Load(read)
        self._read_caches(load)
        if not (load.left or load.followed or self._has_stores(load)):
            return read.tier
        followed, load.followed = load.followed, []
        loading: Future[None] | None = None
        try:
            done = read.future()
            if load.left or self._has_stores(load):  # these threads wait for no other read, so all of them proceed
                loading = self._note_behind(self._load_threads.submit(self._read_source, load))
        except BaseException as error:
            if loading is None:
                self._fail(load, error)
            raise
        try:
            for each, flight in followed:
                self._follow(read, each, flight)
            return done.result()
        except BaseException:
            if loading is not None:
                wait((loading,))  # it writes into the buffer
            raise

    def _has_stores(self, load: _Load) -> bool:
        """Return True if a slower cache accepts what a read has loaded."""
        return bool(load.loaded) and (self._disk is not None or load.stores.accepts_any)

    def _read(self, read: PartRead) -> None:
        """Read a part in a thread of its own."""
        if read.future().set_running_or_notify_cancel():
            load = _Load(read)
            with suppress(Exception):  # the future raises it
                self._read_caches(load)
                self._read_source(load)

    def _read_caches(self, load: _Load) -> None:
        """Read what memory, disk and the shared tiers have of a part."""
        read = load.read
        try:
            missed = [each for each in read.slices if not self._read_cached(read, each)]
            joined = self._flights.join_all([each.name for each in missed], always)
            load.led = {
                each.name: flight for each, (flight, is_leader) in zip(missed, joined, strict=True) if is_leader
            }
            for each, (flight, is_leader) in zip(missed, joined, strict=True):
                if not is_leader:
                    load.followed.append((each, flight))
                elif not self._take_arrived(load, each):
                    load.left.append(each)
            if self._shared is not None and load.left:
                load.left, load.stores = self._shared.fetch(load.left, partial(self._take, load))
        except BaseException as error:  # the caller's thread may be interrupted
            self._fail(load, error)
            raise

    def _take_arrived(self, load: _Load, slice_: Slice) -> bool:
        """Take a slice that has reached memory since this read missed it there. Return False if it has not."""
        if self._memory is None or (body := self._memory.get(slice_, load.read.start, load.read.end)) is None:
            return False
        load.read.take(slice_, body, "memory")
        self._flights.land(slice_.name, load.led.pop(slice_.name), FlightOutcome((body, "memory")))
        return True

    def _read_source(self, load: _Load) -> None:
        """Read what the caches lack of a part, and store what was loaded in the slower caches."""
        read = load.read
        try:
            for run in runs(load.left):
                self._load(load, run)
            for each, flight in load.followed:
                self._follow(read, each, flight)
        except BaseException as error:
            self._fail(load, error)
            raise
        finally:
            self._store_loaded(load)

    def _store_loaded(self, load: _Load) -> None:
        """Store what a read has loaded in the slower caches, even if the read has failed since."""
        for each, body in load.loaded:
            if self._disk is not None:
                self._disk.write(each.name, body)
        if load.loaded and load.stores.accepts_any and self._free_stores.acquire(blocking=False):
            bodies = {each.name: bytes(body) for each, body in load.loaded}
            self._note_behind(self._store_threads.submit(self._store, load.stores, bodies))

    def _note_behind(self, future: Future[None]) -> Future[None]:
        if self._shared is not None:
            self._behind.add(future)
            future.add_done_callback(self._behind.discard)
        return future

    def _fail(self, load: _Load, error: BaseException) -> None:
        """Fail a read, and those that wait for its slices. After an interrupt, they read alone."""
        for name, flight in load.led.items():
            if not flight.outcome.done():
                self._flights.land(name, flight, FlightOutcome(None, error) if isinstance(error, Exception) else None)
        load.left, load.followed = [], []
        load.read.fail(error)

    def _store(self, stores: SliceStores, bodies: dict[str, bytes]) -> None:
        try:
            stores.put(bodies)
        finally:
            self._free_stores.release()

    def _take(self, load: _Load, slice_: Slice, body: bytes, tier: str) -> None:
        """Take the wanted part of a slice that a shared tier has, and keep the slice."""
        load.read.take(slice_, body, tier)
        self._keep_loaded(load, slice_, body, tier)

    def _copied(self, body: memoryview) -> _Body:
        """Return a copy of a slice's bytes, which memory can keep."""
        return bytes(body) if self._memory is None else self._memory.copy(body)

    def _keep_loaded(self, load: _Load, slice_: Slice, body: _Body, tier: str) -> None:
        """Keep a slice that a read has loaded, and give it to all reads that wait for it."""
        if self._memory is not None:
            self._memory.put(slice_, body, min(slice_.end, load.read.end))
        self._flights.land(slice_.name, load.led[slice_.name], FlightOutcome((body, tier)))
        del load.led[slice_.name]  # a landed flight holds the slice's memory
        if self._disk is not None or self._shared is not None:  # else memory alone decides how long to hold it
            load.loaded.append((slice_, body))

    def _read_cached(self, read: PartRead, slice_: Slice) -> bool:
        """Read the wanted part of a slice from memory or disk. Return False if neither has it."""
        if self._memory is not None and (body := self._memory.get(slice_, read.start, read.end)) is not None:
            read.take(slice_, body, "memory")
            return True
        if self._disk is None:
            return False
        if self._memory is None or not read.start <= slice_.start < slice_.end <= read.end:
            is_found = self._disk.read_into(slice_.name, max(read.start - slice_.start, 0), read.part(slice_))
            if is_found:
                read.received(slice_, "disk")
            return is_found
        if (body := self._disk.read(slice_.name)) is None or len(body) != slice_.size_bytes:
            return False
        self._memory.put(slice_, body, read.end)
        read.take(slice_, body, "disk")
        return True

    def _load(self, load: _Load, run: list[Slice]) -> None:
        """Read adjacent slices from the pool or S3, for this read and all that wait for one of them."""
        read = load.read
        first, end = run[0].start, run[-1].end
        is_wanted_whole = read.start <= first and end <= read.end
        body = read.into[first - read.start : end - read.start] if is_wanted_whole else mapped(end - first)
        ends = {each.end - first: each for each in run}
        wanted_end = min(end, read.end) - first
        for each in run:
            self._flights.begin(each.name, load.led[each.name])

        def reached(stop: int, tier: str) -> None:
            slice_ = ends.get(stop)
            if stop <= wanted_end:
                wanted = slice_ or run[-1]
                if not is_wanted_whole:
                    into, offset = read.part(wanted), max(read.start, wanted.start) - first
                    into[:] = body[offset : offset + len(into)]
                read.received(wanted, tier)
            if slice_ is not None:
                data = self._copied(body[slice_.start - first : stop])
                self._keep_loaded(load, slice_, data, tier)

        self._source.read(read.version, first, body, sorted({*ends, wanted_end}), reached)

    def _follow(self, read: PartRead, slice_: Slice, flight: _Flight) -> None:
        """Copy the wanted part of a slice that another read loads. If that takes too long, read the part alone."""
        try:
            outcome = self._clock.wait_for(flight.outcome, LEFT_AFTER_S)
        except TimeoutError:
            outcome = None
        if outcome is not None:
            return read.take(slice_, *outcome.result())
        into, start = read.part(slice_), max(read.start, slice_.start)
        self._source.read(read.version, start, into, (len(into),), lambda _, tier: read.received(slice_, tier))


@dataclass(slots=True)
class _Load:
    """The progress of a read: its missing slices, and those that it has loaded."""

    read: PartRead
    led: dict[str, _Flight] = field(default_factory=dict)  # by the slice's name, until the slice is there
    left: list[Slice] = field(default_factory=list)  # of those, what no cache has
    followed: list[tuple[Slice, _Flight]] = field(default_factory=list)  # other reads load these
    loaded: list[tuple[Slice, _Body]] = field(default_factory=list)
    stores: SliceStores = field(default_factory=SliceStores)


def _joined(parts: Sequence[memoryview]) -> bytes:
    return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
