"""The books of a run: starts, billed times, and the tier of each request."""

from __future__ import annotations

from dataclasses import dataclass, field

from burstcache.core.batching import BatchRule
from burstcache.core.parameters import US_PER_S
from burstcache_sim.world.result import NO_EXPRESS, ExpressUse, GuestUse, RunResult, Tier
from burstcache_sim.world.timings import SERVES_ALONE_US, Timings

_US_PER_MS = 1_000


@dataclass(slots=True)
class Books:
    """Counts and billed times so far. Running time is rounded up and billed. Start-up and stopping are not billed."""

    timings: Timings
    lambda_ms: int = 0
    invocations: int = 0
    handovers: int = 0
    cold_starts: int = 0
    redis_s: int = 0
    redis_starts: int = 0
    seeds: int = 0  # objects fetched from S3 into Redis
    fills: int = 0  # objects that readers put into a running node
    loads: int = 0  # objects loaded at boots, also counted as seeds
    reported: int = 0  # reported requests
    report_batches: int = 0
    seen_writes: int = 0
    _batch_us: int | None = None  # the start of the newest batch
    _batch_weight: int = 0
    tiers: list[Tier] = field(default_factory=list)
    lambda_spans_us: list[tuple[int, int]] = field(default_factory=list)
    redis_spans_us: list[tuple[int, int]] = field(default_factory=list)

    def invoke(self, *, is_cold: bool) -> int:
        """Record an invocation and return its start-up time [us]."""
        self.invocations += 1
        self.cold_starts += is_cold
        return self.timings.cold_start_us if is_cold else self.timings.warm_start_us

    def end_lambda(self, ready_us: int, end_us: int) -> None:
        """Bill a cache function's life, which may span several invocations. Start-up is not billed."""
        if end_us >= ready_us:
            self.lambda_ms += -(-(end_us - ready_us) // _US_PER_MS)
            self.handovers += max(0, -(-(end_us - ready_us) // SERVES_ALONE_US) - 1)
            self.lambda_spans_us.append((ready_us, end_us))

    def end_redis(self, since_us: int, stop_us: int) -> None:
        """Bill a run of a Redis node."""
        billed_us = max(self.timings.redis_least_bill_us, stop_us - since_us)
        self.redis_s += -(-billed_us // US_PER_S)
        self.redis_spans_us.append((since_us, stop_us))

    def report_request(self, at_us: int, weight: int, rule: BatchRule, *, is_noted: bool) -> None:
        """Record a reported request in the current batch or the next batch."""
        self.reported += 1
        self.seen_writes += is_noted
        if self._batch_us is None or rule.is_due(age_us=at_us - self._batch_us, weight=self._batch_weight):
            self._batch_us, self._batch_weight = at_us, 0
            self.report_batches += 1
        self._batch_weight += weight

    def close(
        self,
        *,
        end_us: int,
        checks: int = 0,
        log: tuple[tuple[int, str, str], ...] = (),
        express: ExpressUse = NO_EXPRESS,
    ) -> RunResult:
        """Build the run's result."""
        served = {tier: self.tiers.count(tier) for tier in ("S", "X", "L", "R")}
        return RunResult(
            n=len(self.tiers),
            n_s3=served["S"],
            n_express=served["X"],
            express=express,
            guests=GuestUse(self.fills, self.loads, self.reported, self.report_batches, self.seen_writes),
            n_lambda=served["L"],
            n_redis=served["R"],
            lambda_ms=self.lambda_ms,
            invocations=self.invocations,
            handovers=self.handovers,
            cold_starts=self.cold_starts,
            redis_s=self.redis_s,
            redis_starts=self.redis_starts,
            s3_requests=served["S"] + self.cold_starts + self.seeds,
            lambda_us_exact=sum(end_us - ready_us for ready_us, end_us in self.lambda_spans_us),
            redis_us_exact=sum(stop_us - since_us for since_us, stop_us in self.redis_spans_us),
            end_us=end_us,
            checks=checks,
            tiers="".join(self.tiers),
            log=log,
            lambda_spans_us=tuple(self.lambda_spans_us),
            redis_spans_us=tuple(self.redis_spans_us),
        )
