"""A trace through a pool: which slices are found, what is lost, how long members are billed.

Slices, their holders and what a member drops are decided by `burstcache.core.pool`, as in the live system. A request
reads its object from the start, as many bytes as its answer had.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.chunk_store import Chunk
from burstcache.core.pool.heat import SliceHeat
from burstcache.core.pool.placement import holders
from burstcache.core.pool.slices import PooledObject, Slice
from burstcache_sim.pool.members import SimulatedMember
from burstcache_sim.pool.scenario import Counts, PoolRun, PoolScenario

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

_MS_PER_H = 3_600_000


def simulate_pool(trace: Trace, scenario: PoolScenario, *, object_bytes: int) -> PoolRun:
    """Return a trace's run through a pool.

    Args:
        trace: Requests, at least one.
        scenario: The pool.
        object_bytes: Size of an object whose size is not known [bytes].

    Raises:
        InvalidSettingError: The trace is empty or a sample, or there are fewer members than chunks of a slice.
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
        self._heat = None if within_s is None else SliceHeat(pays_within_s=within_s)
        self._stored: set[bytes] = set()  # slices, at any time
        longest = largest_bytes if scenario.whole_objects else min(largest_bytes, scenario.slice_bytes or 0)
        self._nothing = memoryview(bytes(longest + 64))  # what chunks point into: only lengths count
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
            else:  # nothing is stored, so nobody counts the time
                self._next_tick_ms = (now_ms // warm_ms + 1) * warm_ms

    def _tick(self, now_ms: float) -> None:
        scenario, counts = self._scenario, self._counts(now_ms)
        if now_ms - self._last_read_ms > scenario.keep_s * 1000:
            self._is_kept = False  # members that nobody wakes lose their memory before anybody reads again
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
        """Take as many second environments as first ones: what takes memory away does not know them apart."""
        number = self._scenario.reclaims.drawn(self._random, max(1, self._scenario.warm_s // 60))
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
        found = [self._read_slice(now_ms, one, counts) for one in self._slices(key, size_bytes)]
        counts.hits += all(was == "found" for was in found)
        counts.losses += "lost" in found

    def _slices(self, key: int, size_bytes: int) -> Iterator[Slice]:
        redundancy = self._scenario.redundancy
        if self._scenario.whole_objects:
            yield Slice(str(key).encode(), 0, size_bytes, redundancy)
        else:
            yield from PooledObject(str(key), "", size_bytes, redundancy).slices()

    def _read_slice(self, now_ms: float, one: Slice, counts: Counts) -> str:
        """Return `found`, `lost`, or `absent`: of a slice that was never stored, or was dropped for others."""
        name, redundancy = one.name, one.redundancy
        counts.slice_reads += 1
        belongs = self._heat is None or self._heat.ask(name, at_s=now_ms / 1000)
        if name not in self._stored:
            if belongs:
                self._store(now_ms, one, counts)
            return "absent"
        members = self._holders[name]
        having = [member for member in members if member.store.get(name)]
        for member in members:
            member.serve(now_ms, one.chunk_bytes if member in having else 0, counts)
        if len(having) >= redundancy.data:
            counts.slice_hits += 1
            counts.hit_bytes += one.size_bytes
            if len(having) < len(members):
                counts.repaired_slices += 1
                self._put(now_ms, one, [member for member in members if member not in having], counts)
            return "found"
        is_lost = len(having) + sum(name in member.lost for member in members) >= redundancy.data
        counts.slice_losses += is_lost
        counts.slice_evictions += not is_lost
        if belongs:
            self._store(now_ms, one, counts)
        return "lost" if is_lost else "absent"

    def _store(self, now_ms: float, one: Slice, counts: Counts) -> None:
        name = one.name
        if name not in self._holders:
            names = holders(name, self._names, one.redundancy.chunks)
            self._holders[name] = [self._members[member] for member in names]
        counts.slice_writes += 1
        self._is_kept = True
        self._put(now_ms, one, self._holders[name], counts)

    def _put(self, now_ms: float, one: Slice, members: list[SimulatedMember], counts: Counts) -> None:
        self._stored.add(one.name)
        for number, member in enumerate(members):
            member.put(one.name, Chunk(number, 0, self._nothing[: one.chunk_bytes]), now_ms, counts)


def _largest_bytes(trace: Trace, object_bytes: int) -> int:
    return object_bytes if trace.sizes_bytes is None else int(trace.sizes_bytes.max())
