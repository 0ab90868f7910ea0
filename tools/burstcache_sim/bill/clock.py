"""The latency of requests, with this system and with its rivals: one clock for every command.

An answer takes the time to its first byte and then its size divided by a bandwidth. A hit is judged by its first byte:
what a cache saves of it does not depend on the size of the object. A mean, and what a millisecond is worth, count whole
answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.pool.slices import SLICE_BYTES
from burstcache_sim.bill.answer_sizes import NOTHING, AnswerBytes, AnswerSizes, answer_sizes
from burstcache_sim.bill.comparison import OURS, Compared
from burstcache_sim.bill.express import EXPRESS_MS
from burstcache_sim.bill.market import Offer
from burstcache_sim.bill.pool_rivals import RANGED
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

# First bytes other than Redis's [ms]. A reader's own memory takes microseconds. EFS: "about 1 ms" a read (its
# performance page), and open, read and close are three. CloudFront's edge is a guess. InfiniCache: Wang 2020, 5.2.
_FIRST_BYTE_MS = {
    "reader-memory": 0.01,
    "reader-memory-confirmed": 0.01,
    "range-memory": 0.01,
    "s3-express": EXPRESS_MS,
    "s3-express-all": EXPRESS_MS,
    "efs": 3.0,
    "cloudfront": 10.0,
    "infinicache": 13.0,
    "pool": 13.0,
}
# S3 sends the first 2 MiB of an answer faster than the rest: 25.3 ms for 64 KiB, 32.9 ms for 2 MiB
# (Altinity/ClickHouse#2181, medians of 2026); a long one comes at 85 MB/s ("85-90 MB/s" for each connection, AWS's
# whitepaper on S3's performance; 82 MiB/s, sirupsen/napkin-math#39).
_FAST_MB_PER_S, _S3_MB_PER_S = 270.0, 85.0
# One TCP stream inside EC2 is limited to 5 Gbit/s (EC2 User Guide, instance network bandwidth), all streams of a
# reader are taken to share 10.
_STREAM_MB_PER_S, _READER_MB_PER_S = 625.0, 1_250.0
# Bandwidths other than a stream's [MB/s]. A copy in memory, S3 Express and CloudFront are assumptions, the last two at
# what S3 reaches at its best. EFS: 500 MiB/s a client (its performance page). A cache function: 625 Mbit/s, as a pool's
# member in `docs/operate/costs.md`. InfiniCache and the pool read ten chunks at a time.
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
NOT_MODIFIED_SHARE = 0.4  # of S3's first byte that a 304 takes: 10 of 26 ms (sirupsen/napkin-math#39)
_WITHOUT_DOOR = ("s3-only", "cloudfront")  # they speak HTTP themselves
_BYTES_PER_MS = 1e3  # of 1 MB/s


@dataclass(frozen=True, slots=True)
class Clock:
    """How long requests take: first bytes, sizes of answers, and what a front door and a proxy add."""

    tiers: TierLatencies = TODAYS_LATENCIES
    front_door_ms: float = 0.0  # 0 for readers in the VPC, who read through the client library
    hit_within_ms: float = HIT_WITHIN_MS  # an answer whose first byte takes longer is no hit
    sizes: AnswerSizes | None = field(default=None, compare=False)  # None: answers take no time of their own
    kept: AnswerBytes = NOTHING  # of objects that this system keeps

    def of_log(self, trace: Trace, *, object_bytes: int, front_door: str | None = None) -> Clock:
        """Return the clock of a log's answers.

        Args:
            trace: The log.
            object_bytes: Size of an object whose size is not known [bytes].
            front_door: Of this system, which decides what it keeps; None: it keeps any object.
        """
        largest_bytes = None if front_door is None else LARGEST_OBJECT_BYTES[front_door]
        sizes, whole = (answer_sizes(trace, object_bytes=object_bytes, whole=whole) for whole in (False, True))
        return replace(self, sizes=sizes, kept=whole.up_to(largest_bytes))

    @property
    def ours(self) -> TierLatencies:
        """This system's tiers, with what stands before them."""
        return replace(self.tiers, network_ms=self.tiers.network_ms + self.front_door_ms)

    @property
    def s3_ms(self) -> float:
        """What a whole answer of S3 takes in the mean, without the way to the client [ms]."""
        return self._s3_ms(self._bytes(None))

    def with_burstcache(self, result: RunResult) -> LatencySummary:
        """Return the latencies of a run, as its readers see them."""
        asked_ms = self._node_missed_ms(result) / max(result.n_s3 + result.n_express, 1)  # of each that goes on
        missed = self._missed_bytes(result)
        s3_ms = self._s3_ms(missed) + self._express_missed_ms(result) / max(result.n_s3, 1) + asked_ms
        *above, (n_express, express_ms) = self._served(result)
        return summarise_tiers([(result.n_s3, s3_ms), *above, (n_express, express_ms + asked_ms)], self.ours)

    def without(self, requests: int) -> LatencySummary:
        """Return the latencies of S3 read directly."""
        return summarise_tiers([(requests, self.s3_ms)], self.tiers)

    def saved_ms(self, result: RunResult) -> float:
        """Return the time that all of a run's requests save compared with S3; below 0 if they lose."""
        kept_s3_ms = self._s3_ms(self.kept)
        saved_ms = sum(n * (kept_s3_ms - hit_ms) for n, hit_ms in self._served(result))
        missed_ms = self._express_missed_ms(result) + self._node_missed_ms(result)
        return saved_ms - missed_ms - result.n * self.front_door_ms

    def mean_hit_ms(self, result: RunResult) -> float:
        """Return how long an answer without S3 takes in the mean; a cache function's time if there is none [ms]."""
        served = self._served(result)
        count = sum(n for n, _ in served)
        mean_ms = sum(n * hit_ms for n, hit_ms in served) / count if count else self.tiers.lambda_ms
        return mean_ms + self.front_door_ms

    def hits(self, result: RunResult, within_ms: float | None = None) -> int:
        """Return how many of a run's requests have a first byte soon enough: for a hit, or within another time [ms]."""
        most_ms = self.hit_within_ms if within_ms is None else within_ms
        return sum(n for n, kind in self._counts(result) if self._first_ms(kind) + self.front_door_ms <= most_ms)

    def _express_missed_ms(self, result: RunResult) -> float:
        """Return the time for asking Express in vain, as a rival's reader does, too."""
        return EXPRESS_MS * (result.express.asks - result.n_express)

    def _node_missed_ms(self, result: RunResult) -> float:
        """Return the time for asking running nodes in vain, which then take the object in as a guest."""
        return self.tiers.redis_ms * min(result.guests.fills, result.n_s3 + result.n_express)

    def _missed_bytes(self, result: RunResult) -> AnswerBytes:
        """Return the mean of what S3 sends: with what is kept it makes all answers."""
        served = result.n - result.n_s3
        return self._bytes(None).rest((served / max(1, result.n), self.kept))

    def _served(self, result: RunResult) -> list[tuple[int, float]]:
        """Return how many requests each tier but S3 answered, and how long a whole answer takes it."""
        return [(n, self._answer_ms(kind, self.kept)) for n, kind in self._counts(result)]

    def _counts(self, result: RunResult) -> list[tuple[int, str]]:
        """Return how many requests each tier but S3 answered, Express last."""
        return [
            (result.n_memory, "reader-memory"),
            (result.n_redis, "redis"),
            (result.n_lambda, "cache function"),
            (result.n_express, "s3-express"),
        ]

    @property
    def first_bytes(self) -> Clock:
        """The clock of first bytes alone."""
        return replace(self, sizes=None, kept=NOTHING)

    def first_byte_ms(self, name: str) -> float:
        """Return how long the first byte of an answer without S3 takes, without the way to the client [ms]."""
        kind = _kind(name)
        return self._first_ms(kind) + self._door_ms(kind)

    def is_hit(self, name: str) -> bool:
        """Whether the first byte of an answer without S3 comes soon enough for a hit."""
        return self.first_byte_ms(name) <= self.hit_within_ms

    def mean_ms(self, offer: Compared | Offer) -> float:
        """Return the mean latency of a competitor in a month; a miss asks it first, then S3."""
        if offer.name in ("s3-only", RANGED):
            return (self.s3_ms if offer.name == "s3-only" else self._ranged_ms()) + self.tiers.network_ms
        kind = _kind(offer.name)
        own, hit, confirmed, missed = self._shares(offer)
        own_bytes, hit_bytes = self._bytes(offer.own_memory_bytes), self._bytes(offer.largest_bytes)
        left = self._bytes(None).rest((own, own_bytes), (hit + confirmed, hit_bytes))
        asked_ms = (1 - own) * (self._first_ms(kind) + self._door_ms(kind))
        return (
            own * (self._answer_ms("reader-memory", own_bytes) + self._door_ms(kind))
            + asked_ms
            + (hit + confirmed) * self._way_ms(kind, hit_bytes)
            + confirmed * NOT_MODIFIED_SHARE * self.tiers.s3_ms
            + missed * self._s3_ms(left)
            + self.tiers.network_ms
        )

    def offered_hit_ms(self, offer: Compared) -> float:
        """Return how long an answer without S3 takes in the mean, own memory before a rival included [ms]."""
        kind = _kind(offer.name)
        own_ms = self._answer_ms("reader-memory", self._bytes(offer.own_memory_bytes)) + self._door_ms(kind)
        own = min(1.0, offer.own_memory_pct / max(offer.month_in_memory_pct, 1e-9))
        below_ms = self._answer_ms(kind, self._bytes(offer.largest_bytes)) + self._door_ms(kind)
        return own * own_ms + (1 - own) * below_ms

    def usd_per_hit(self, *, usd_per_hit: float, usd_per_ms: float) -> Fraction:
        """Return what an answer without S3 is worth at most, whichever of the two values was given [USD]."""
        return Fraction(usd_per_hit or usd_per_ms * self.s3_ms)

    def _ranged_ms(self) -> float:
        """Return what the mean answer of S3 takes if each of its slices has a connection of its own [ms]."""
        whole = self._bytes(None)
        slice_ms = self._s3_ms(AnswerBytes(min(whole.mean, SLICE_BYTES), whole.fast))
        return max(slice_ms, self.tiers.s3_ms + whole.mean / (_READER_MB_PER_S * _BYTES_PER_MS))

    def _shares(self, offer: Compared | Offer) -> tuple[float, float, float, float]:
        """Return the shares of requests that own memory, the offer, and the offer confirmed by S3 answer; the rest."""
        own, confirmed = offer.own_memory_pct / 100, offer.confirmed_pct / 100
        answered_pct = offer.in_memory_pct if isinstance(offer, Offer) else offer.month_in_memory_pct
        missed = 1 - answered_pct / 100 - confirmed
        return own, 1 - own - confirmed - missed, confirmed, missed

    def _bytes(self, largest_bytes: float | None) -> AnswerBytes:
        """Return the mean of the answers for objects that something may hold; None: any."""
        return NOTHING if self.sizes is None else self.sizes.up_to(largest_bytes)

    def _answer_ms(self, kind: str, sizes: AnswerBytes) -> float:
        return self._first_ms(kind) + self._way_ms(kind, sizes)

    def _first_ms(self, kind: str) -> float:
        if kind == "cache function":
            return self.tiers.lambda_ms
        return _FIRST_BYTE_MS.get(kind, self.tiers.redis_ms)

    def _way_ms(self, kind: str, sizes: AnswerBytes) -> float:
        return sizes.mean / (_MB_PER_S.get(kind, _STREAM_MB_PER_S) * _BYTES_PER_MS)

    def _s3_ms(self, sizes: AnswerBytes) -> float:
        slow = sizes.mean - sizes.fast
        return self.tiers.s3_ms + (sizes.fast / _FAST_MB_PER_S + slow / _S3_MB_PER_S) / _BYTES_PER_MS

    def _door_ms(self, kind: str) -> float:
        return 0.0 if kind in _WITHOUT_DOOR else self.front_door_ms


def _kind(name: str) -> str:
    """Return what answers behind a competitor's name, below a reader's own memory."""
    kind = name.partition(":")[0]
    if kind in (OURS, "lambda-only", "lambda-always"):
        return "cache function"
    return kind.removeprefix("reader-memory+")
