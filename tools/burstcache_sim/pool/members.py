"""Members of the simulated pool, with their chunks, second environments and billed invocations."""

from __future__ import annotations

from math import ceil, inf

from burstcache.core.pool.chunk_store import Chunk, ChunkStore
from burstcache.core.pool.keep_alive import ONE_BURST_MS, KeepAlive
from burstcache_sim.pool.scenario import Counts, PoolScenario

_LONGEST_MS = 895_000.0  # the longest invocation: Lambda's 15 minutes less five seconds


class _NamedStore(ChunkStore):
    """A chunk store that tracks the names of its chunks."""

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self.names: set[bytes] = set()

    def put(self, name: bytes, chunk: Chunk) -> list[bytes]:
        dropped = super().put(name, chunk)
        self.names.add(name)
        self.names.difference_update(dropped)
        return dropped

    def delete(self, name: bytes) -> None:
        super().delete(name)
        self.names.discard(name)


class SimulatedMember:
    """A member of the pool. Times are in ms since the start of the trace."""

    def __init__(self, scenario: PoolScenario) -> None:
        self._scenario = scenario
        self.store = _NamedStore(scenario.capacity_bytes)
        self.is_made = False
        self.has_copy = False  # a second environment with all chunks up to the last backup
        self.lost: set[bytes] = set()  # slices whose chunk was lost with an environment
        self._fresh: dict[bytes, int] = {}  # size of each chunk stored since the last backup, by slice [bytes]
        self._begun_ms = self._until_ms = self._busy_ms = -1.0
        self._stay = self._new_stay()
        self._limit_ms = self._stay.limit_ms() if self._stay else 0.0

    def serve(self, now_ms: float, size_bytes: int, counts: Counts) -> None:
        """Serve a chunk in the running invocation or in a new invocation."""
        scenario = self._scenario
        if self._stay and self._busy_ms >= 0 and (gap_ms := now_ms - self._busy_ms) >= ONE_BURST_MS:
            self._stay = self._stay.after(gap_ms, self._limit_ms if now_ms > self._until_ms else inf)
            self._limit_ms = self._stay.limit_ms()
        if now_ms > self._until_ms or now_ms - self._begun_ms > _LONGEST_MS:
            self.make(counts)
            counts.serve_invocations += 1
            self._begun_ms = self._until_ms = now_ms
            self._busy_ms = now_ms + scenario.serve_ms
        self._busy_ms = max(self._busy_ms, now_ms) + size_bytes / scenario.bytes_per_ms
        until_ms = max(self._until_ms, self._busy_ms + self._limit_ms)
        cycles = ceil((until_ms - self._begun_ms) / scenario.billed_in_ms)
        until_ms = max(self._until_ms, self._begun_ms + cycles * scenario.billed_in_ms)
        counts.serve_ms += until_ms - self._until_ms
        self._until_ms = until_ms

    def put(self, name: bytes, chunk: Chunk, now_ms: float, counts: Counts) -> None:
        """Store a chunk if it fits into memory."""
        size_bytes = len(chunk.payload)
        self.serve(now_ms, size_bytes, counts)
        if self.store.fits(size_bytes):
            self.store.put(name, chunk)
            self.lost.discard(name)
            if self._scenario.backup_s:
                self._fresh[name] = size_bytes

    def make(self, counts: Counts) -> None:
        """Create an environment if there is none."""
        if not self.is_made:
            counts.environments += 1
            self.is_made = True

    def warm_up(self, now_ms: float, counts: Counts) -> None:
        """Warm up the member unless it has a connection."""
        if now_ms > self._until_ms:
            self.make(counts)
            counts.warm_ups += 1
            counts.warm_up_ms += self._billed_ms(self._scenario.warm_up_ms)

    def back_up(self, counts: Counts) -> None:
        """Copy new chunks to the second environment, or all chunks to a new second environment."""
        if not self.store.stored_bytes:
            return
        if not self.has_copy:
            counts.environments += 1
        copied_bytes = sum(self._fresh.values()) if self.has_copy else self.store.stored_bytes
        duration_ms = self._billed_ms(self._scenario.backup_ms + copied_bytes / self._scenario.bytes_per_ms)
        counts.backups += 2
        counts.backup_ms += 2 * duration_ms
        self.has_copy = True
        self._fresh.clear()

    def lose(self, now_ms: float) -> None:
        """Reclaim the environment. A second environment takes over, without the chunks stored since the last backup."""
        if self.has_copy:
            self.lost |= self.store.names & self._fresh.keys()
            for name in self._fresh:
                self.store.delete(name)
        else:
            self.lost |= self.store.names
            self.store = _NamedStore(self._scenario.capacity_bytes)
            self.is_made = False
        self._stay = self._new_stay()  # the learned gaps are lost with the environment
        self._limit_ms = self._stay.limit_ms() if self._stay else 0.0
        self.has_copy = False
        self._fresh.clear()
        self._until_ms = min(self._until_ms, now_ms)

    def _new_stay(self) -> KeepAlive | None:
        return None if self._scenario.stay is None else KeepAlive.initial(self._scenario.stay)

    def _billed_ms(self, duration_ms: float) -> float:
        unit = self._scenario.billed_in_ms
        return ceil(duration_ms / unit) * unit
