"""A stack's figures, measured from local logs or CloudWatch."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import exp, log
from typing import Protocol

from burstcache_cli.service_use import ServiceUse

_GROWTH = log(1.05)  # a bucket width of 5 % bounds the error of percentiles


@dataclass(slots=True)
class Latencies:
    """A latency histogram with exponential buckets that grow by 5 %. It has at most a few hundred buckets."""

    count: int = 0
    total_ms: float = 0.0
    _buckets: Counter[int] = field(default_factory=Counter)

    def add(self, latency_ms: float) -> None:
        """Add one read's latency."""
        self.count += 1
        self.total_ms += latency_ms
        self._buckets[round(log(max(latency_ms, 0.01)) / _GROWTH)] += 1

    def percentile_ms(self, share: float) -> float | None:
        """Return the percentile for a share from 0 to 1 [ms], or None if there were no reads."""
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
    """The reads served by one tier."""

    reads: int
    bytes: int
    mean_ms: float | None  # None: unknown
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """One function's billed usage and errors."""

    invocations: int
    billed_ms: int
    memory_mb: int
    errors: int = 0  # invocations that failed or timed out
    failed_at_s: int = 0  # latest error or start of the error's 5 min period, since 1970 [s] (0: none or unknown)
    throttles: int = 0  # throttled invocations (0 in a local run, which does not count throttles)


@dataclass(frozen=True, slots=True)
class Measured:
    """A stack's figures for a time range."""

    since_us: int
    until_us: int  # later reads are not included
    tiers: Mapping[str, TierUse]
    failed_reads: int
    fallbacks: Mapping[str, int]  # by reason
    lives: Mapping[str, int]  # by outcome
    promotions: int
    node_s: float  # metered node seconds; running nodes are metered periodically
    functions: Mapping[str, FunctionUse]  # by logical id
    # Time slots, oldest first: (start [s], tier → reads).
    series: tuple[tuple[int, Mapping[str, int]], ...]
    slot_s: int
    busy_s: int = 0  # seconds with at least one read (0 for a deployed stack, where they are not counted)
    services: ServiceUse | None = None  # usage metered by AWS services (None: a local run)
    failed_read_at_s: int = 0  # newest failed read, or start of its 5 min period, since 1970 [s] (0: none)
    fell_back_at_s: Mapping[str, int] = field(default_factory=dict)  # likewise of fallbacks, by reason
    metric_h: int = 0  # billed hours of the stack's own metrics

    @property
    def reads(self) -> int:
        """Number of reads in all tiers."""
        return sum(use.reads for use in self.tiers.values())

    @property
    def saved_ms(self) -> float | None:
        """Latency saved by tiers above S3, summed over all reads [ms], or None if S3's latency is unknown.

        The estimate uses medians, because cold starts of the proxy increase S3's mean.
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
        """Time of the read's response, since 1970 [ms]."""
        return self.at_ms + self.latency_ms


class Measures(Protocol):
    """A source of a stack's figures."""

    def read(self) -> Measured:
        """Return the current figures, which may be cached."""
        ...

    def reads_of(self, key: str) -> Iterable[Read] | None:
        """Return the latest reads of a key, oldest first, or None if the source has no individual reads."""
        ...

    def keys_read_since(self, at_ms: int) -> set[str] | None:
        """Return the keys with a response at or after a time, or None if the source does not record keys."""
        ...

    def newest_requests(self) -> list[tuple[int, str, int]] | None:
        """Return time [us], key and size [bytes] of the latest reads, or None if the source has no individual reads."""
        ...


class Slots:
    """Read counters by tier for the latest time slots."""

    def __init__(self, slot_s: int, most: int) -> None:
        self.slot_s, self._most = slot_s, most
        self._slots: dict[int, Counter[str]] = {}

    def add(self, at_s: float, tier: str, count: int = 1) -> None:
        """Count reads at a time. Calls may be out of order, because slow reads are logged late."""
        start = int(at_s) // self.slot_s * self.slot_s
        self._slots.setdefault(start, Counter())[tier] += count
        if len(self._slots) > self._most:
            del self._slots[min(self._slots)]

    def __iter__(self) -> Iterator[tuple[int, Counter[str]]]:
        return iter(sorted(self._slots.items(), key=lambda slot: slot[0]))
