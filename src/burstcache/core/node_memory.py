"""Memory of a Redis node: how full it is, and the hits that it loses because objects do not fit.

A check of a running node samples Redis. While the node evicts, the scheduler adds the repeats that readers report as
misses. All numbers are sums over about a day of running time, so that rates follow the load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from struct import Struct

from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import MICRO

_WATCHED_US = 24 * 3600 * US_PER_S  # older sums are halved beyond this running time
_MEMORY = Struct("<QQQ?QQQ")
_MOST = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Redis's answer about its memory."""

    used_bytes: int
    limit_bytes: int  # 0: no limit
    evicted: int  # entries since Redis started


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The memory of a node over its recent running time."""

    used_bytes: int = 0  # at the last check
    limit_bytes: int = 0  # 0: no limit
    counter: int = 0  # evictions since Redis started, at the last check
    is_evicting: bool = False  # entries were evicted between the last two checks
    watched_us: int = 0  # running time that the sums cover
    evicted: int = 0  # entries
    missed: int = 0  # weight of the repeats that the node missed while it evicted [millionths]

    @property
    def lost(self) -> int:
        """The weight of the lost hits, at most [millionths]. A hit is lost to memory only after an eviction."""
        return min(self.missed, self.evicted * MICRO)

    @property
    def lost_per_h(self) -> Fraction:
        """The lost hits in an hour of running, in hits on objects in S3, at most."""
        return Fraction(self.lost * 3600 * US_PER_S, self.watched_us * MICRO) if self.watched_us else Fraction(0)

    @property
    def evicted_per_h(self) -> Fraction:
        """The evicted entries in an hour of running."""
        return Fraction(self.evicted * 3600 * US_PER_S, self.watched_us) if self.watched_us else Fraction(0)


def sampled(memory: NodeMemory, sample: MemorySample, *, ran_us: int, is_same_run: bool) -> NodeMemory:
    """Return the memory after a check.

    Args:
        memory: The memory at the check before.
        sample: Redis's answer.
        ran_us: Running time since the check before, or since the node was ready [us].
        is_same_run: Whether the check before was in the same run. Redis counts from 0 in each run.
    """
    if memory.limit_bytes != sample.limit_bytes:
        memory = NodeMemory()  # a node of another size
    before = memory.counter if is_same_run and memory.counter <= sample.evicted else 0
    evicted = sample.evicted - before
    watched_us, all_evicted, missed = memory.watched_us + ran_us, memory.evicted + evicted, memory.missed
    while watched_us > 2 * _WATCHED_US:
        watched_us, all_evicted, missed = watched_us // 2, all_evicted // 2, missed // 2
    return NodeMemory(
        used_bytes=sample.used_bytes,
        limit_bytes=sample.limit_bytes,
        counter=sample.evicted,
        is_evicting=evicted > 0,
        watched_us=watched_us,
        evicted=all_evicted,
        missed=missed,
    )


def with_missed(memory: NodeMemory, weight: int) -> NodeMemory:
    """Return the memory after repeats of this weight that the node missed [millionths]."""
    return replace(memory, missed=min(memory.missed + weight, _MOST))


def encode_memory(memory: NodeMemory) -> bytes:
    """Encode a node's memory for its use item."""
    return _MEMORY.pack(
        memory.used_bytes,
        memory.limit_bytes,
        memory.counter,
        memory.is_evicting,
        memory.watched_us,
        memory.evicted,
        memory.missed,
    )


def decode_memory(data: bytes) -> NodeMemory:
    """Decode what `encode_memory` wrote. Nothing, or another version's bytes, is the memory of a node never checked."""
    return NodeMemory(*_MEMORY.unpack(data)) if len(data) == _MEMORY.size else NodeMemory()
