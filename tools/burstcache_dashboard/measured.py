"""What a stack has measured of its own work, wherever it was read."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import exp, log
from typing import Protocol

from burstcache_cli.service_use import ServiceUse

_GROWTH = log(1.05)  # a bucket is 5 % wide, so a percentile is at most that far off


@dataclass(slots=True)
class Latencies:
    """A histogram of latencies whose buckets grow by 5 %: any number of reads in a few hundred numbers."""

    count: int = 0
    total_ms: float = 0.0
    _buckets: Counter[int] = field(default_factory=Counter)

    def add(self, latency_ms: float) -> None:
        """Count one read."""
        self.count += 1
        self.total_ms += latency_ms
        self._buckets[round(log(max(latency_ms, 0.01)) / _GROWTH)] += 1

    def percentile_ms(self, share: float) -> float | None:
        """Return the latency that a share of the reads stayed within; None without a read [ms]."""
        if not self.count:
            return None
        buckets = sorted(self._buckets)
        upto, seen = [], 0
        for bucket in buckets:
            seen += self._buckets[bucket]
            upto.append(seen)
        place = bisect.bisect_left(upto, share * self.count)
        return exp(buckets[min(place, len(buckets) - 1)] * _GROWTH)


@dataclass(frozen=True, slots=True)
class TierUse:
    """What one tier has served."""

    reads: int
    bytes: int
    mean_ms: float | None  # None: not known
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """What one function has been billed for."""

    invocations: int
    billed_ms: int
    memory_mb: int
    errors: int = 0  # invocations that failed or ran out of time
    failed_at_s: int = 0  # the newest of these, or when its five minutes began, since 1970 [s]; 0: none, or not known
    throttles: int = 0  # invocations that AWS refused; 0 where nobody counts them


@dataclass(frozen=True, slots=True)
class Measured:
    """What a stack has measured since an instant."""

    since_us: int
    until_us: int  # what came later is not in it
    tiers: Mapping[str, TierUse]
    failed_reads: int
    fallbacks: Mapping[str, int]  # by reason
    lives: Mapping[str, int]  # by outcome
    promotions: int
    node_s: float  # of runs that have ended, or been counted meanwhile
    functions: Mapping[str, FunctionUse]  # by logical id
    # Reads of each tier in each slot of time: (start of the slot [s], tier → reads), the oldest first.
    series: tuple[tuple[int, Mapping[str, int]], ...]
    slot_s: int
    busy_s: int = 0  # seconds with a read; 0 where nobody counts them
    services: ServiceUse | None = None  # what AWS's services counted; None of a local run
    metric_h: int = 0  # hours in which a metric of the stack's own had values, of all of them

    @property
    def reads(self) -> int:
        """All reads."""
        return sum(use.reads for use in self.tiers.values())

    @property
    def saved_ms(self) -> float | None:
        """Return what readers did not wait because a tier above S3 served them; None if S3's time is not known [ms].

        By medians: the first reads of all come from S3, and wait for the proxy's own start, too.
        """
        below = self.tiers.get("s3")
        if below is None or below.p50_ms is None:
            return None
        above = [use for tier, use in self.tiers.items() if tier != "s3"]
        return sum(use.reads * (below.p50_ms - use.p50_ms) for use in above if use.p50_ms is not None)


@dataclass(frozen=True, slots=True)
class Read:
    """One read of a key."""

    at_ms: int
    tier: str
    latency_ms: float
    size_bytes: int
    status: int

    @property
    def answered_ms(self) -> float:
        """When it was answered."""
        return self.at_ms + self.latency_ms


class Measures(Protocol):
    """Reads what a stack has measured."""

    def read(self) -> Measured:
        """Return what is known by now; a call may give the former answer again."""
        ...

    def reads_of(self, key: str) -> Iterable[Read] | None:
        """Return the newest reads of a key, oldest first; None where nobody knows them."""
        ...

    def asked_since(self, at_ms: int) -> set[str] | None:
        """Return the keys that a read of was answered since an instant; None where nobody knows them."""
        ...

    def newest_requests(self) -> list[tuple[int, str, int]] | None:
        """Return the newest reads of all keys as time [us], key and size; None where nobody knows them."""
        ...


class Slots:
    """Counts reads by tier in slots of time, the newest ones only."""

    def __init__(self, slot_s: int, most: int) -> None:
        self.slot_s, self._most = slot_s, most
        self._slots: dict[int, Counter[str]] = {}

    def add(self, at_s: float, tier: str, count: int = 1) -> None:
        """Count reads of one instant, which may be before others: a slow read is known late."""
        start = int(at_s) // self.slot_s * self.slot_s
        self._slots.setdefault(start, Counter())[tier] += count
        if len(self._slots) > self._most:
            del self._slots[min(self._slots)]

    def __iter__(self) -> Iterator[tuple[int, Counter[str]]]:
        return iter(sorted(self._slots.items(), key=lambda slot: slot[0]))
