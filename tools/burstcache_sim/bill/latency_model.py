"""The latency model of requests to this system and its competitors, shared by every command.

A response's latency is its time to first byte plus its size divided by the bandwidth. Only the time to first byte
decides whether a response is a hit, because object size does not affect how much of this time a cache saves. Means and
the value of a millisecond refer to whole responses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.latency import FIRST_BYTE_MS, S3_BYTES_PER_MS
from burstcache.core.pool.slices import SLICE_BYTES
from burstcache_sim.bill.comparison import OURS, ComparedSystem
from burstcache_sim.bill.market import Quote
from burstcache_sim.bill.pool_rivals import RANGED
from burstcache_sim.bill.response_sizes import NOTHING, ResponseBytes, ResponseSizes, response_sizes
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES
from burstcache_sim.latency import (
    HIT_WITHIN_MS,
    TODAYS_LATENCIES,
    LatencySummary,
    TierLatencies,
    summarise_tiers,
)
from burstcache_sim.world.result import RunResult

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

_EXPRESS_MS = float(FIRST_BYTE_MS["express"])
# Time to first byte by kind [ms]. All other kinds have Redis's time. Readers' own memory takes microseconds. EFS:
# "about 1 ms" a read (its performance page), times three for open, read and close. CloudFront: an assumption.
# InfiniCache: Wang 2020, 5.2.
_FIRST_BYTE_MS = {
    "reader-memory": 0.01,
    "reader-memory-confirmed": 0.01,
    "range-memory": 0.01,
    "efs": 3.0,
    "cloudfront": 10.0,
    "infinicache": 13.0,
    "pool": 13.0,
}
# S3 sends the first 2 MiB of a response faster than the rest: 25.3 ms for 64 KiB, 32.9 ms for 2 MiB
# (Altinity/ClickHouse#2181, medians of 2026). The rest arrives at 85 MB/s ("85-90 MB/s" for each connection,
# AWS's whitepaper on S3's performance; 82 MiB/s, sirupsen/napkin-math#39).
_FAST_MB_PER_S, _S3_MB_PER_S = 270.0, S3_BYTES_PER_MS / 1e3
# EC2 limits one TCP stream to 5 Gbit/s (EC2 User Guide, instance network bandwidth). Assumption: all streams of a
# reader share 10 Gbit/s.
_STREAM_MB_PER_S, _READER_MB_PER_S = 625.0, 1_250.0
# Bandwidth by kind [MB/s]. All other kinds have the bandwidth of one stream. Memory, S3 Express and CloudFront are
# assumptions, the last two at S3's best rate. EFS: 500 MiB/s per client (its performance page). Cache function: 625
# Mbit/s, like a pool member in `docs/operate/costs.md`. InfiniCache and the pool read ten chunks in parallel.
_MB_PER_S = {
    "reader-memory": 5_000.0,
    "reader-memory-confirmed": 5_000.0,
    "range-memory": 5_000.0,
    "s3-express": _FAST_MB_PER_S,
    "s3-express-all": _FAST_MB_PER_S,
    "efs": 524.0,
    "cloudfront": _FAST_MB_PER_S,
    "cache function": 78.0,
    "infinicache": 780.0,
    "pool": 780.0,
}
NOT_MODIFIED_SHARE = 0.4  # time of a 304 as a share of S3's time to first byte: 10 of 26 ms (sirupsen/napkin-math#39)
_EXPRESS = ("s3-express", "s3-express-all")
_WITHOUT_DOOR = ("s3-only", "cloudfront")  # these have their own HTTP interface
_BYTES_PER_MS = 1e3  # at 1 MB/s


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Latencies of requests: times to first byte, response sizes, and the overhead of front door and proxy."""

    tiers: TierLatencies = TODAYS_LATENCIES
    front_door_ms: float = 0.0  # 0 for readers in the VPC, which use the client library
    hit_within_ms: float = HIT_WITHIN_MS  # a response with a later first byte is not a hit
    sizes: ResponseSizes | None = field(default=None, compare=False)  # None if transfers take no time
    cacheable: ResponseBytes = NOTHING  # responses for objects that this system may cache
    express_ms: float = _EXPRESS_MS  # time to first byte of S3 Express
    s3_mb_per_s: tuple[float, float] = (_FAST_MB_PER_S, _S3_MB_PER_S)  # S3's bandwidth, below 2 MiB and above

    def for_log(self, trace: Trace, *, object_bytes: int, front_door: str | None = None) -> LatencyModel:
        """Return this model with the response sizes of a log.

        Args:
            trace: The log.
            object_bytes: Size of an object of unknown size [bytes].
            front_door: This system's front door, which limits the size of cached objects. If None, no limit.
        """
        largest_bytes = None if front_door is None else LARGEST_OBJECT_BYTES[front_door]
        sizes, whole = (response_sizes(trace, object_bytes=object_bytes, whole=whole) for whole in (False, True))
        return replace(self, sizes=sizes, cacheable=whole.up_to(largest_bytes))

    @property
    def own_tiers(self) -> TierLatencies:
        """This system's tier latencies, including its front door."""
        return replace(self.tiers, network_ms=self.tiers.network_ms + self.front_door_ms)

    @property
    def s3_ms(self) -> float:
        """Mean latency of a whole response from S3, excluding the network to the client [ms]."""
        return self._s3_ms(self._bytes(None))

    def with_burstcache(self, result: RunResult) -> LatencySummary:
        """Return the latencies of a run, as seen by readers."""
        # Mean latency that node misses add, over all requests that no node served.
        node_miss_ms = self._node_missed_ms(result) / max(result.n_s3 + result.n_express, 1)
        missed = self._missed_bytes(result)
        s3_ms = self._s3_ms(missed) + self._express_missed_ms(result) / max(result.n_s3, 1) + node_miss_ms
        *above, (n_express, express_ms) = self._served(result)
        return summarise_tiers([(result.n_s3, s3_ms), *above, (n_express, express_ms + node_miss_ms)], self.own_tiers)

    def without(self, requests: int) -> LatencySummary:
        """Return the latencies of direct reads from S3."""
        return summarise_tiers([(requests, self.s3_ms)], self.tiers)

    def saved_ms(self, result: RunResult) -> float:
        """Return the total time that a run's requests save compared with S3, negative if the run is slower [ms]."""
        cacheable_s3_ms = self._s3_ms(self._hit_bytes(result))
        saved_ms = sum(n * (cacheable_s3_ms - hit_ms) for n, hit_ms in self._served(result))
        missed_ms = self._express_missed_ms(result) + self._node_missed_ms(result)
        return saved_ms - missed_ms - result.n * self.front_door_ms

    def mean_hit_ms(self, result: RunResult) -> float:
        """Return the mean latency of cached responses [ms]. Without any, return a cache function's latency."""
        served = self._served(result)
        count = sum(n for n, _ in served)
        mean_ms = sum(n * hit_ms for n, hit_ms in served) / count if count else self.tiers.lambda_ms
        return mean_ms + self.front_door_ms

    def hits(self, result: RunResult, within_ms: float | None = None) -> int:
        """Count responses from the cache with a first byte within `within_ms`, by default the limit for a hit."""
        limit_ms = self.hit_within_ms if within_ms is None else within_ms
        return sum(n for n, kind in self._counts(result) if self._first_ms(kind) + self.front_door_ms <= limit_ms)

    def _express_missed_ms(self, result: RunResult) -> float:
        """Return the total time of misses in Express, which is also charged to competitors with Express [ms]."""
        # A request for slices asks for several at once.
        return self.express_ms * min(result.express.asks - result.n_express, result.n_s3)

    def _node_missed_ms(self, result: RunResult) -> float:
        """Return the total time of misses on running nodes, each followed by a read-through fill [ms]."""
        return self.tiers.redis_ms * min(result.guests.fills, result.n_s3 + result.n_express)

    def _missed_bytes(self, result: RunResult) -> ResponseBytes:
        """Return the mean size of S3's responses: all responses minus cached responses."""
        served = result.n - result.n_s3
        return self._bytes(None).remainder((served / max(1, result.n), self._hit_bytes(result)))

    def _hit_bytes(self, result: RunResult) -> ResponseBytes:
        """Return the mean size of cached responses: for objects that may be cached, or for ranges if slices are."""
        return self._bytes(result.largest_hit_bytes) if result.largest_hit_bytes else self.cacheable

    def _served(self, result: RunResult) -> list[tuple[int, float]]:
        """Return the request count and the latency of a whole response for each tier except S3 [ms]."""
        return [(n, self._response_ms(kind, self._hit_bytes(result))) for n, kind in self._counts(result)]

    def _counts(self, result: RunResult) -> list[tuple[int, str]]:
        """Return the number of requests that each tier except S3 served, with Express last."""
        return [
            (result.n_memory, "reader-memory"),
            (result.n_redis, "redis"),
            (result.n_lambda, "cache function"),
            (result.n_express, "s3-express"),
        ]

    @property
    def first_bytes(self) -> LatencyModel:
        """This model without transfer times."""
        return replace(self, sizes=None, cacheable=NOTHING)

    def first_byte_ms(self, name: str) -> float:
        """Return a system's time to first byte on a hit, excluding the network to the client [ms]."""
        kind = _kind(name)
        return self._first_ms(kind) + self._door_ms(kind)

    def is_hit(self, name: str) -> bool:
        """Return whether a system's cached responses are fast enough to count as hits."""
        return self.first_byte_ms(name) <= self.hit_within_ms

    def mean_ms(self, system: ComparedSystem | Quote) -> float:
        """Return a competitor's mean latency in a month [ms]. A miss adds S3's latency to the time to first byte."""
        if system.name in ("s3-only", RANGED):
            return (self.s3_ms if system.name == "s3-only" else self._ranged_ms()) + self.tiers.network_ms
        kind = _kind(system.name)
        own, hit, confirmed, missed = self._shares(system)
        own_bytes, hit_bytes = self._bytes(system.own_memory_bytes), self._bytes(system.largest_bytes)
        missed_bytes = self._bytes(None).remainder((own, own_bytes), (hit + confirmed, hit_bytes))
        first_ms = (1 - own) * (self._first_ms(kind) + self._door_ms(kind))
        return (
            own * (self._response_ms("reader-memory", own_bytes) + self._door_ms(kind))
            + first_ms
            + (hit + confirmed) * self._transfer_ms(kind, hit_bytes)
            + confirmed * NOT_MODIFIED_SHARE * self.tiers.s3_ms
            + missed * self._s3_ms(missed_bytes)
            + self.tiers.network_ms
        )

    def competitor_hit_ms(self, system: ComparedSystem) -> float:
        """Return a competitor's mean latency on a hit, including hits in readers' own memory [ms]."""
        kind = _kind(system.name)
        own_ms = self._response_ms("reader-memory", self._bytes(system.own_memory_bytes)) + self._door_ms(kind)
        own = min(1.0, system.own_memory_pct / max(system.month_in_memory_pct, 1e-9))
        below_ms = self._response_ms(kind, self._bytes(system.largest_bytes)) + self._door_ms(kind)
        return own * own_ms + (1 - own) * below_ms

    def usd_per_hit(self, *, usd_per_hit: float, usd_per_ms: float) -> Fraction:
        """Return the largest value of a response from the cache, given a hit value or a millisecond value [USD]."""
        return Fraction(usd_per_hit or usd_per_ms * self.s3_ms)

    def _ranged_ms(self) -> float:
        """Return the mean latency of S3 responses read in slices over parallel connections [ms]."""
        whole = self._bytes(None)
        slice_ms = self._s3_ms(ResponseBytes(min(whole.mean, SLICE_BYTES), whole.fast))
        return max(slice_ms, self.tiers.s3_ms + whole.mean / (_READER_MB_PER_S * _BYTES_PER_MS))

    def _shares(self, system: ComparedSystem | Quote) -> tuple[float, float, float, float]:
        """Return the shares of requests: hits in readers' memory, other hits, hits revalidated by S3, misses."""
        own, confirmed = system.own_memory_pct / 100, system.confirmed_pct / 100
        hit_pct = system.in_memory_pct if isinstance(system, Quote) else system.month_in_memory_pct
        missed = 1 - hit_pct / 100 - confirmed
        return own, 1 - own - confirmed - missed, confirmed, missed

    def _bytes(self, largest_bytes: float | None) -> ResponseBytes:
        """Return the mean size of responses for objects up to a size limit (None: no limit)."""
        return NOTHING if self.sizes is None else self.sizes.up_to(largest_bytes)

    def _response_ms(self, kind: str, sizes: ResponseBytes) -> float:
        return self._first_ms(kind) + self._transfer_ms(kind, sizes)

    def _first_ms(self, kind: str) -> float:
        if kind == "cache function":
            return self.tiers.lambda_ms
        if kind in _EXPRESS:
            return self.express_ms
        return _FIRST_BYTE_MS.get(kind, self.tiers.redis_ms)

    def _transfer_ms(self, kind: str, sizes: ResponseBytes) -> float:
        return sizes.mean / (_MB_PER_S.get(kind, _STREAM_MB_PER_S) * _BYTES_PER_MS)

    def _s3_ms(self, sizes: ResponseBytes) -> float:
        slow, (fast_mb_per_s, slow_mb_per_s) = sizes.mean - sizes.fast, self.s3_mb_per_s
        return self.tiers.s3_ms + (sizes.fast / fast_mb_per_s + slow / slow_mb_per_s) / _BYTES_PER_MS

    def _door_ms(self, kind: str) -> float:
        return 0.0 if kind in _WITHOUT_DOOR else self.front_door_ms


def _kind(name: str) -> str:
    """Return the kind of cache that a competitor's name denotes, without the prefix for reader memory."""
    kind = name.partition(":")[0]
    if kind in (OURS, "lambda-only", "lambda-always"):
        return "cache function"
    return kind.removeprefix("reader-memory+")
