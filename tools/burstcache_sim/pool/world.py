"""The simulated world of a pool, in which requests read slices, and members lose chunks and are billed.

`burstcache.core.pool` decides on slices, the slices' members, and evictions, as in the live system. A request reads as
many bytes from the start of its object as its response had.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.admission import SliceAdmission
from burstcache.core.pool.chunk_store import Chunk
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import CodedSlice, PooledObject
from burstcache_sim.pool.members import SimulatedMember
from burstcache_sim.pool.scenario import Counts, PoolRun, PoolScenario

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

_MS_PER_H = 3_600_000


def simulate_pool(trace: Trace, scenario: PoolScenario, *, object_bytes: int) -> PoolRun:
    """Simulate a pool with a trace.

    Args:
        trace: The trace, with at least one request.
        scenario: The pool.
        object_bytes: Size of objects without a known size [bytes].

    Raises:
        InvalidSettingError: The trace is empty or a sample, or a slice has more chunks than there are members.
    """
    if not len(trace):
        raise InvalidSettingError("the trace is empty: expected at least one request")
    if trace.sample:
        raise InvalidSettingError("the trace is a sample of its keys: a pool is simulated with all of them")
    if scenario.redundancy.chunks > scenario.members:
        raise InvalidSettingError(
            f"{scenario.members} members: expected at least {scenario.redundancy.chunks}, one for each chunk of a slice"
        )
    return _World(scenario, _largest_bytes(trace, object_bytes)).run(trace, object_bytes)


class _World:
    def __init__(self, scenario: PoolScenario, largest_bytes: int) -> None:
        self._scenario = scenario
        self._random = Random(scenario.seed)
        self._members = {f"pool-{i}": SimulatedMember(scenario) for i in range(scenario.members)}
        self._names = list(self._members)
        self._holders: dict[bytes, list[SimulatedMember]] = {}
        within_s = scenario.pays_within_s
        self._heat = None if within_s is None else SliceAdmission(pays_within_s=within_s)
        self._stored: set[bytes] = set()  # slices that were ever stored
        longest = largest_bytes if scenario.whole_objects else min(largest_bytes, scenario.slice_bytes or 0)
        self._nothing = memoryview(bytes(longest + 64))  # the payload of all chunks; only the length matters
        self._run = PoolRun(scenario)
        self._next_tick_ms = 0.0
        self._last_read_ms = 0.0
        self._is_kept = False

    def run(self, trace: Trace, object_bytes: int) -> PoolRun:
        times_us = (trace.arrivals_us - trace.arrivals_us[0]).tolist()
        ids = [0] * len(trace) if trace.key_ids is None else trace.key_ids.tolist()
        sizes = [object_bytes] * len(trace) if trace.sizes_bytes is None else trace.sizes_bytes.tolist()
        for at_us, key, size_bytes in zip(times_us, ids, sizes, strict=True):
            self._tick_until(at_us / 1000)
            if size_bytes:
                self._read(at_us / 1000, key, size_bytes)
        self._run.period_us = times_us[-1]
        self._run.stored_bytes = sum(member.store.stored_bytes for member in self._members.values())
        return self._run

    def _counts(self, now_ms: float) -> Counts:
        hour = int(now_ms // _MS_PER_H)
        while len(self._run.hours) <= hour:
            self._run.hours.append(Counts())
        return self._run.hours[hour]

    def _tick_until(self, now_ms: float) -> None:
        warm_ms = self._scenario.warm_s * 1000
        while self._next_tick_ms <= now_ms:
            if self._is_kept:
                self._tick(self._next_tick_ms)
                self._next_tick_ms += warm_ms
            else:  # an empty pool has no ticks
                self._next_tick_ms = (now_ms // warm_ms + 1) * warm_ms

    def _tick(self, now_ms: float) -> None:
        scenario, counts = self._scenario, self._counts(now_ms)
        if now_ms - self._last_read_ms > scenario.keep_s * 1000:
            self._is_kept = False  # members without warm-ups lose their memory before the next read
            for member in self._members.values():
                member.has_copy = False
                member.lose(now_ms)
            return
        counts.ticks += 1
        self._reclaim(now_ms, counts)
        for member in self._members.values():
            member.warm_up(now_ms, counts)
        backup_ms = scenario.backup_s * 1000
        if backup_ms and now_ms % backup_ms < scenario.warm_s * 1000:
            for member in self._members.values():
                member.back_up(counts)

    def _reclaim(self, now_ms: float, counts: Counts) -> None:
        """Reclaim equal numbers of first and second environments, since Lambda does not distinguish the two."""
        number = self._scenario.reclaims.draw(self._random, max(1, self._scenario.warm_s // 60))
        if not number:
            return
        first, second = (self._random.sample(self._names, number) for _ in range(2))
        for name in second:
            self._members[name].has_copy = False
        for name in first:
            self._members[name].lose(now_ms)
        counts.reclaimed += number

    def _read(self, now_ms: float, key: int, size_bytes: int) -> None:
        counts = self._counts(now_ms)
        counts.requests += 1
        counts.read_bytes += size_bytes
        self._last_read_ms = now_ms
        outcomes = [self._read_slice(now_ms, slice_, counts) for slice_ in self._slices(key, size_bytes)]
        counts.hits += all(outcome == "found" for outcome in outcomes)
        counts.losses += "lost" in outcomes

    def _slices(self, key: int, size_bytes: int) -> Iterator[CodedSlice]:
        redundancy = self._scenario.redundancy
        if self._scenario.whole_objects:
            yield CodedSlice(str(key).encode(), 0, size_bytes, redundancy)
        else:
            yield from PooledObject(str(key), "", size_bytes, redundancy).slices()

    def _read_slice(self, now_ms: float, slice_: CodedSlice, counts: Counts) -> str:
        """Read a slice, and return `found`, `lost`, or `absent` if the slice was never stored or was evicted."""
        name, redundancy = slice_.name, slice_.redundancy
        counts.slice_reads += 1
        belongs = self._heat is None or self._heat.admit(name, at_s=now_ms / 1000)
        if name not in self._stored:
            if belongs:
                self._store(now_ms, slice_, counts)
            return "absent"
        members = self._holders[name]
        having = [member for member in members if member.store.get(name)]
        for member in members:
            member.serve(now_ms, slice_.chunk_bytes if member in having else 0, counts)
        if len(having) >= redundancy.data:
            counts.slice_hits += 1
            counts.hit_bytes += slice_.size_bytes
            if len(having) < len(members):
                counts.repaired_slices += 1
                self._put(now_ms, slice_, [member for member in members if member not in having], counts)
            return "found"
        is_lost = len(having) + sum(name in member.lost for member in members) >= redundancy.data
        counts.slice_losses += is_lost
        counts.slice_evictions += not is_lost
        if belongs:
            self._store(now_ms, slice_, counts)
        return "lost" if is_lost else "absent"

    def _store(self, now_ms: float, slice_: CodedSlice, counts: Counts) -> None:
        name = slice_.name
        if name not in self._holders:
            names = holders(name, self._names, slice_.redundancy.chunks)
            self._holders[name] = [self._members[member] for member in names]
        counts.slice_writes += 1
        self._is_kept = True
        self._put(now_ms, slice_, self._holders[name], counts)

    def _put(self, now_ms: float, slice_: CodedSlice, members: list[SimulatedMember], counts: Counts) -> None:
        self._stored.add(slice_.name)
        for number, member in enumerate(members):
            member.put(slice_.name, Chunk(number, 0, self._nothing[: slice_.chunk_bytes]), now_ms, counts)


def _largest_bytes(trace: Trace, object_bytes: int) -> int:
    return object_bytes if trace.sizes_bytes is None else int(trace.sizes_bytes.max())
