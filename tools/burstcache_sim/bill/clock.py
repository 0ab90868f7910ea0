"""How long requests take, with this system and with what else one could buy: one clock for every command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from burstcache_sim.bill.comparison import OURS, Compared
from burstcache_sim.bill.express import EXPRESS_MS
from burstcache_sim.latency import (
    HIT_WITHIN_MS,
    THESIS_LATENCIES,
    LatencySummary,
    TierLatencies,
    summarise,
    summarise_tiers,
)
from burstcache_sim.world.result import RunResult

# Hits of others than Redis [ms]. A reader's own memory takes microseconds. EFS: "about 1 ms" a read (its performance
# page), and open, read and close are three. CloudFront's edge is a guess. InfiniCache: Wang 2020, section 5.2.
_HIT_MS = {
    "reader-memory": 0.01,
    "reader-memory-confirmed": 0.01,
    "s3-express": EXPRESS_MS,
    "s3-express-all": EXPRESS_MS,
    "efs": 3.0,
    "cloudfront": 10.0,
    "infinicache": 13.0,
}
_WITHOUT_DOOR = ("s3-only", "cloudfront")  # they speak HTTP themselves


@dataclass(frozen=True, slots=True)
class Clock:
    """How long requests take: the tiers' latencies, and what a front door and a proxy add where there are some."""

    tiers: TierLatencies = THESIS_LATENCIES
    front_door_ms: float = 0.0  # 0 for readers in the VPC, who read through the client library
    hit_within_ms: float = HIT_WITHIN_MS  # an answer that takes longer is no hit

    @property
    def ours(self) -> TierLatencies:
        """This system's tiers, with what stands before them."""
        return replace(self.tiers, network_ms=self.tiers.network_ms + self.front_door_ms)

    def with_burstcache(self, result: RunResult) -> LatencySummary:
        """Return the latencies of a run, as its readers see them."""
        asked_ms = self._node_missed_ms(result) / max(result.n_s3 + result.n_express, 1)  # of each that goes on
        s3_ms = self.tiers.s3_ms + self._express_missed_ms(result) / max(result.n_s3, 1) + asked_ms
        *above, (n_express, express_ms) = self._served(result)
        return summarise_tiers([(result.n_s3, s3_ms), *above, (n_express, express_ms + asked_ms)], self.ours)

    def without(self, requests: int) -> LatencySummary:
        """Return the latencies of S3 read directly."""
        return summarise(requests, 0, 0, self.tiers)

    def saved_ms(self, result: RunResult) -> float:
        """Return the time that all of a run's requests save compared with S3; below 0 if they lose."""
        saved_ms = sum(n * (self.tiers.s3_ms - hit_ms) for n, hit_ms in self._served(result))
        missed_ms = self._express_missed_ms(result) + self._node_missed_ms(result)
        return saved_ms - missed_ms - result.n * self.front_door_ms

    def mean_hit_ms(self, result: RunResult) -> float:
        """Return how long an answer without S3 takes in the mean; a cache function's time if there is none [ms]."""
        served = self._served(result)
        count = sum(n for n, _ in served)
        mean_ms = sum(n * hit_ms for n, hit_ms in served) / count if count else self.tiers.lambda_ms
        return mean_ms + self.front_door_ms

    def hits(self, result: RunResult, within_ms: float | None = None) -> int:
        """Return how many of a run's requests are answered fast enough: as hits, or within another time [ms]."""
        most_ms = self.hit_within_ms if within_ms is None else within_ms
        return sum(n for n, hit_ms in self._served(result) if hit_ms + self.front_door_ms <= most_ms)

    def _express_missed_ms(self, result: RunResult) -> float:
        """Return the time for asking Express in vain, as a rival's reader does, too."""
        return EXPRESS_MS * (result.express.asks - result.n_express)

    def _node_missed_ms(self, result: RunResult) -> float:
        """Return the time for asking running nodes in vain, which then take the object in as a guest."""
        return self.tiers.redis_ms * min(result.guests.fills, result.n_s3 + result.n_express)

    def _served(self, result: RunResult) -> list[tuple[int, float]]:
        """Return how many requests each tier but S3 answered, and how long that takes it."""
        return [
            (result.n_memory, _HIT_MS["reader-memory"]),
            (result.n_redis, self.tiers.redis_ms),
            (result.n_lambda, self.tiers.lambda_ms),
            (result.n_express, EXPRESS_MS),
        ]

    def hit_ms(self, name: str) -> float:
        """Return how long an answer without S3 takes, without the way to the client [ms]."""
        kind = name.partition(":")[0]
        if kind in (OURS, "lambda-only", "lambda-always"):
            return self.tiers.lambda_ms + self._door_ms(kind)
        kind = kind.removeprefix("reader-memory+")
        return _HIT_MS.get(kind, self.tiers.redis_ms) + self._door_ms(kind)

    def is_hit(self, name: str) -> bool:
        """Whether an answer without S3 is fast enough to count as a hit."""
        return self.hit_ms(name) <= self.hit_within_ms

    def mean_ms(self, offer: Compared) -> float:
        """Return the mean latency of a competitor in a month; a miss asks it first, then S3."""
        kind = offer.name.partition(":")[0]
        if kind == "s3-only":
            return self.tiers.s3_ms + self.tiers.network_ms
        missed, own = 1 - offer.month_in_memory_pct / 100, offer.own_memory_pct / 100
        own_ms = own * (_HIT_MS["reader-memory"] + self._door_ms(kind))
        return own_ms + (1 - own) * self.hit_ms(offer.name) + missed * self.tiers.s3_ms + self.tiers.network_ms

    def offered_hit_ms(self, offer: Compared) -> float:
        """Return how long an answer without S3 takes in the mean, own memory before a rival included [ms]."""
        own_ms = _HIT_MS["reader-memory"] + self._door_ms(offer.name.partition(":")[0])
        own = min(1.0, offer.own_memory_pct / max(offer.month_in_memory_pct, 1e-9))
        return own * own_ms + (1 - own) * self.hit_ms(offer.name)

    def usd_per_hit(self, *, usd_per_hit: float, usd_per_ms: float) -> Fraction:
        """Return what an answer without S3 is worth at most, whichever of the two values was given [USD]."""
        return Fraction(usd_per_hit or usd_per_ms * self.tiers.s3_ms)

    def _door_ms(self, kind: str) -> float:
        return 0.0 if kind in _WITHOUT_DOOR else self.front_door_ms
