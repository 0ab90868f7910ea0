"""A pool as it is simulated, and what its run adds up to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from burstcache.core.pool.chunk_store import member_bytes
from burstcache.core.pool.redundancy import BACKUP_MS, BYTES_PER_MS, SERVE_MS, WARM_UP_MS
from burstcache.core.pool.slices import SLICE_BYTES, Redundancy
from burstcache.core.pool.stay import StayPrices
from burstcache_sim.pool.reclaims import ReclaimProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolScenario:
    """A pool.

    Attributes:
        members: How many there are.
        memory_mb: Of each [MB].
        redundancy: How slices are coded.
        warm_s: How often a member that is not there is woken [s].
        backup_s: How often a member copies what is new to its second environment; 0: never [s].
        reclaims: How members lose their memory.
        pays_within_s: How soon a slice must be read again to be stored; None: it is stored at its first read [s].
        whole_objects: Whether an object is one slice, as in InfiniCache.
        keep_s: How long a pool that nobody reads is kept [s].
        stay: What a member weighs when it stays; None: it returns at the end of a billed cycle, as InfiniCache's.
        billed_in_ms: What Lambda rounds a duration up to [ms].
        serve_ms: Of an invocation, in addition to the chunks' way [ms].
        warm_up_ms: Of an invocation that only wakes [ms].
        backup_ms: Of a backup, in addition to the chunks' way [ms].
        bytes_per_ms: What a member sends [bytes/ms].
        seed: Of the random numbers.
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
    stay: StayPrices | None = None
    billed_in_ms: int = 1
    serve_ms: float = SERVE_MS
    warm_up_ms: float = WARM_UP_MS
    backup_ms: float = BACKUP_MS
    bytes_per_ms: float = BYTES_PER_MS
    seed: int = 1

    @property
    def capacity_bytes(self) -> int:
        """What a member may store [bytes]."""
        return member_bytes(self.memory_mb)

    @property
    def usable_bytes(self) -> float:
        """What all members store without parity [bytes]."""
        return self.members * self.capacity_bytes * self.redundancy.data / self.redundancy.chunks

    @property
    def slice_bytes(self) -> int | None:
        """The longest slice; None: an object is one [bytes]."""
        return None if self.whole_objects else SLICE_BYTES


@dataclass(slots=True)
class Counts:
    """What happened in an hour, or in a whole run."""

    requests: int = 0
    hits: int = 0  # requests of which every slice came from the pool
    read_bytes: int = 0
    hit_bytes: int = 0
    slice_reads: int = 0
    slice_hits: int = 0
    slice_losses: int = 0  # stored once, and lost with the members that had it
    slice_evictions: int = 0  # stored once, and dropped for others
    slice_writes: int = 0
    repaired_slices: int = 0  # read although chunks were lost, and completed again
    losses: int = 0  # requests that were no hit since a slice was lost
    reclaimed: int = 0  # environments that lost their memory, second ones not counted
    environments: int = 0  # made
    serve_invocations: int = 0
    serve_ms: float = 0.0
    warm_ups: int = 0
    warm_up_ms: float = 0.0
    backups: int = 0  # invocations: two of a member
    backup_ms: float = 0.0
    ticks: int = 0  # of the control function

    def add(self, other: Counts) -> None:
        """Add another one's numbers."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(slots=True)
class PoolRun:
    """A trace through a pool."""

    scenario: PoolScenario
    hours: list[Counts] = field(default_factory=list)
    period_us: int = 0
    stored_bytes: int = 0  # at the end, parity included

    @property
    def total(self) -> Counts:
        """All hours together."""
        total = Counts()
        for hour in self.hours:
            total.add(hour)
        return total

    @property
    def hit_share(self) -> float:
        """Share of requests that the pool answered whole (0 to 1)."""
        total = self.total
        return total.hits / max(1, total.requests)

    @property
    def availability(self) -> float:
        """Share of the reads of what was stored that found it: the paper's (0 to 1)."""
        total = self.total
        found = total.hits + total.losses
        return total.hits / found if found else 1.0
