"""How long requests take with this system and with what else one could buy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burstcache_sim.bill.comparison import Compared
from burstcache_sim.latency import LatencySummary, TierLatencies, summarise
from burstcache_sim.world.result import RunResult

# Hits of others than Redis: CloudFront's edge is a guess, InfiniCache invokes a function (Wang 2020, section 5.2).
_HIT_MS = {"cloudfront": 10.0, "infinicache": 13.0}


@dataclass(frozen=True, slots=True)
class Clock:
    """How long requests take: the tiers' latencies, and what the front door and the proxy add to each of ours."""

    tiers: TierLatencies
    front_door_ms: float

    def with_burstcache(self, result: RunResult) -> LatencySummary:
        """Return the latencies of a run, as a client in the region sees them."""
        ours = replace(self.tiers, network_ms=self.tiers.network_ms + self.front_door_ms)
        return summarise(result.n_s3, result.n_lambda, result.n_redis, ours)

    def without(self, requests: int) -> LatencySummary:
        """Return the latencies of S3 read directly."""
        return summarise(requests, 0, 0, self.tiers)

    def saved_ms(self, result: RunResult) -> float:
        """Return the time that all of a run's requests save compared with S3; below 0 if they lose."""
        t = self.tiers
        hits_ms = result.n_lambda * (t.s3_ms - t.lambda_ms) + result.n_redis * (t.s3_ms - t.redis_ms)
        return hits_ms - result.n * self.front_door_ms

    def mean_ms(self, offer: Compared) -> float:
        """Return the mean latency of a competitor that clients read directly; a miss asks it first, then S3."""
        kind = offer.name.partition(":")[0]
        if kind == "s3-only":
            return self.tiers.s3_ms + self.tiers.network_ms
        hit_ms = self.tiers.lambda_ms if kind == "lambda-always" else _HIT_MS.get(kind, self.tiers.redis_ms)
        missed = 1 - offer.in_memory_pct / 100
        return hit_ms + missed * self.tiers.s3_ms + self.tiers.network_ms
