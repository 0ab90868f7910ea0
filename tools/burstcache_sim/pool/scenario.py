"""The scenario of a simulated pool, and the counts of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from burstcache.core.pool.chunk_store import member_bytes
from burstcache.core.pool.keep_alive import KeepAlivePrices
from burstcache.core.pool.redundancy import BACKUP_MS, BYTES_PER_MS, SERVE_MS, WARM_UP_MS
from burstcache.core.pool.slices import SLICE_BYTES, Redundancy
from burstcache_sim.pool.reclaims import ReclaimProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolScenario:
    """The configuration and environment of a simulated pool.

    Attributes:
        members: Number of members.
        memory_mb: Memory of a member [MB].
        redundancy: Erasure code of the slices.
        warm_s: Interval between warm-ups of a member without a connection [s].
        backup_s: Interval between backups of new chunks to the second environment, or 0 for no backups [s].
        reclaims: Process by which members lose their memory.
        pays_within_s: Maximum gap between two reads after which a slice is stored [s], or None to store slices on the
            first read.
        whole_objects: Whether an object is one slice, as in InfiniCache.
        keep_s: Time without reads after which the pool is abandoned [s].
        stay: Prices that decide how long a member's invocation stays active, or None to end it with a billed cycle,
            as in InfiniCache.
        billed_in_ms: Billing increment of Lambda [ms].
        serve_ms: Duration of an invocation, without the transfer of chunks [ms].
        warm_up_ms: Duration of a warm-up [ms].
        backup_ms: Duration of a backup, without the transfer of chunks [ms].
        bytes_per_ms: Bandwidth of a member [bytes/ms].
        seed: Seed of the random numbers.
    """

    members: int = 16
    memory_mb: int = 1_769
    redundancy: Redundancy = Redundancy(10, 2)  # noqa: RUF009 (immutable)
    warm_s: int = 60
    backup_s: int = 0
    reclaims: ReclaimProcess
    pays_within_s: float | None = math.inf
    whole_objects: bool = False
    keep_s: int = 3_600
    stay: KeepAlivePrices | None = None
    billed_in_ms: int = 1
    serve_ms: float = SERVE_MS
    warm_up_ms: float = WARM_UP_MS
    backup_ms: float = BACKUP_MS
    bytes_per_ms: float = BYTES_PER_MS
    seed: int = 1

    @property
    def capacity_bytes(self) -> int:
        """The capacity of a member [bytes]."""
        return member_bytes(self.memory_mb)

    @property
    def usable_bytes(self) -> float:
        """The capacity of all members without parity [bytes]."""
        return self.members * self.capacity_bytes * self.redundancy.data / self.redundancy.chunks

    @property
    def slice_bytes(self) -> int | None:
        """The maximum slice size [bytes], or None if an object is one slice."""
        return None if self.whole_objects else SLICE_BYTES


@dataclass(slots=True)
class Counts:
    """Counts over an hour or a whole run."""

    requests: int = 0
    hits: int = 0  # requests served entirely from the pool
    read_bytes: int = 0
    hit_bytes: int = 0
    slice_reads: int = 0
    slice_hits: int = 0
    slice_losses: int = 0  # slice reads that missed because members lost the slice
    slice_evictions: int = 0  # slice reads that missed because the slice was evicted
    slice_writes: int = 0
    repaired_slices: int = 0  # slices read despite missing chunks, which were then rewritten
    losses: int = 0  # requests that missed because of a lost slice
    reclaimed: int = 0  # reclaimed environments, not counting second environments
    environments: int = 0  # created environments
    serve_invocations: int = 0
    serve_ms: float = 0.0
    warm_ups: int = 0
    warm_up_ms: float = 0.0
    backups: int = 0  # invocations, two per member
    backup_ms: float = 0.0
    ticks: int = 0  # runs of the control function

    def add(self, other: Counts) -> None:
        """Add the counts of another hour."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(slots=True)
class PoolRun:
    """The results of simulating a pool with a trace."""

    scenario: PoolScenario
    hours: list[Counts] = field(default_factory=list)
    period_us: int = 0
    stored_bytes: int = 0  # at the end, including parity

    @property
    def total(self) -> Counts:
        """The sum of all hours."""
        total = Counts()
        for hour in self.hours:
            total.add(hour)
        return total

    @property
    def hit_share(self) -> float:
        """Share of requests that were served entirely from the pool (0 to 1)."""
        total = self.total
        return total.hits / max(1, total.requests)

    @property
    def availability(self) -> float:
        """Availability as in the paper, which is the hit ratio of reads of stored objects (0 to 1)."""
        total = self.total
        reads = total.hits + total.losses
        return total.hits / reads if reads else 1.0
