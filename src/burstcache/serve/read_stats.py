"""Read statistics: where a process's reads were served, and what was not cached, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from burstcache.core.latency import FIRST_BYTE_MS, S3_BYTES_PER_MS
from burstcache.forks import Lock
from burstcache.logs import logger


@dataclass(frozen=True, slots=True)
class TierStats:
    """Reads that one tier served.

    Attributes:
        reads: Number of reads. A read of a large object counts once per slice.
        size_bytes: Bytes that the tier sent [bytes].
        saved_ms: Estimate of the time that S3 would have taken, one after the other [ms]: 25 ms per read, and 1 ms per
            85,000 bytes. 0 for S3 itself. A read of several slices waits once for S3's first byte.
    """

    reads: int
    size_bytes: int
    saved_ms: float


@dataclass(frozen=True, slots=True)
class ReadStats:
    """Statistics of reads since the start.

    Attributes:
        tiers: By tier: memory, disk, lambda, redis, express, pool or s3.
        bypasses: Number of reads that could not be cached, by reason.
        requests: Number of requests to S3 for objects and listings of the bucket: GET, HEAD, conditional ones, and
            writes. A request that boto3 retries counts once.
    """

    tiers: Mapping[str, TierStats]
    bypasses: Mapping[str, int]
    requests: int = 0

    @property
    def hit_share(self) -> float:
        """Share of reads that S3 did not serve, 0 to 1. 0 without reads."""
        reads = sum(each.reads for each in self.tiers.values())
        s3 = self.tiers.get("s3")
        return 1 - (s3.reads if s3 else 0) / reads if reads else 0.0


@dataclass(slots=True)
class _Tally:
    """Reads that one tier served. `waits`: how often S3 would have had to send a first byte for them."""

    reads: int = 0
    waits: int = 0
    size_bytes: int = 0


class ReadCounter:
    """A thread-safe counter of reads. Each is also counted in `parent`, under the same lock."""

    def __init__(self, parent: ReadCounter | None = None) -> None:
        self._tallies: dict[str, _Tally] = {}  # by tier
        self._bypasses: Counter[str] = Counter()
        self._requests = 0
        self._lock: Lock = Lock() if parent is None else parent._lock
        self._counters: tuple[ReadCounter, ...] = (self,) if parent is None else (self, *parent._counters)

    def count(self, tier: str, size_bytes: int, *, reads: int = 1, waits: int = 1) -> None:
        """Count a read of a whole response, or reads of parts of slices.

        Args:
            tier: The tier that served them.
            size_bytes: Length of all of them [bytes].
            reads: Number of reads.
            waits: How often S3 would have had to send a first byte for them.
        """
        with self._lock:
            for each in self._counters:
                tally = each._tallies.get(tier) or each._tallies.setdefault(tier, _Tally())
                tally.reads += reads
                tally.waits += waits
                tally.size_bytes += size_bytes

    def count_request(self) -> None:
        """Count a request to S3."""
        with self._lock:
            for each in self._counters:
                each._requests += 1

    def bypass(self, key: str, reason: str) -> None:
        """Count a read that could not be cached, and log a warning once per key and reason.

        Args:
            key: The object's key.
            reason: The reason, with the parameter to change if there is one. One of few texts.
        """
        logger().warning(f"{key!r} is not cached: {reason}")  # the logger of a program writes each text once
        with self._lock:
            for each in self._counters:
                each._bypasses[reason] += 1

    def stats(self) -> ReadStats:
        """Return the statistics so far."""
        with self._lock:
            tiers = {
                tier: TierStats(each.reads, each.size_bytes, _saved_ms(tier, each.waits, each.size_bytes))
                for tier, each in self._tallies.items()
            }
            return ReadStats(tiers, dict(self._bypasses), self._requests)


PROCESS = ReadCounter()  # of all clients of this process


def stats() -> ReadStats:
    """Return the statistics of all clients of this process."""
    return PROCESS.stats()


def total(parts: Iterable[ReadStats]) -> ReadStats:
    """Add up the statistics of several clients."""
    tiers: dict[str, TierStats] = {}
    bypasses: Counter[str] = Counter()
    requests = 0
    for part in parts:
        requests += part.requests
        bypasses.update(part.bypasses)
        for tier, more in part.tiers.items():
            one = tiers.get(tier, TierStats(0, 0, 0.0))
            tiers[tier] = TierStats(
                one.reads + more.reads, one.size_bytes + more.size_bytes, one.saved_ms + more.saved_ms
            )
    return ReadStats(tiers, dict(bypasses), requests)


def _saved_ms(tier: str, waits: int, size_bytes: int) -> float:
    return 0.0 if tier == "s3" else waits * FIRST_BYTE_MS["s3"] + size_bytes / S3_BYTES_PER_MS
