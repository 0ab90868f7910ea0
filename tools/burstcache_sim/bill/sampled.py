"""From the run of a sample of a log's keys to that of the whole log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from burstcache_sim.bill.demand import sample_rate

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult


def of_whole_log(result: RunResult, trace: Trace, requests: int) -> RunResult:
    """Return a run's counts for the whole log.

    What S3 serves and the lives of cache functions grow with the keys; all other requests, whose number is known, are
    hits, divided between the tiers as in the sample. The node runs as it ran for the sample: with all keys it would
    have booted sooner and stopped later, because they share it.

    Args:
        result: Of the sample.
        trace: The sample, or a whole log, whose result is returned as it is.
        requests: Of the whole log.

    Source:
        Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015 (SHARDS-adj).
    """
    if trace.sample is None or not result.n:
        return result
    rate = sample_rate(trace)
    sampled_hits = result.n_lambda + result.n_redis
    n_s3 = min(requests, round(result.n_s3 / rate)) if sampled_hits else requests
    hits = requests - n_s3
    n_lambda = hits * result.n_lambda // sampled_hits if sampled_hits else 0
    return replace(
        result,
        n=requests,
        n_s3=n_s3,
        n_lambda=n_lambda,
        n_redis=hits - n_lambda,
        lambda_ms=round(result.lambda_ms / rate),
        invocations=round(result.invocations / rate),
        handovers=round(result.handovers / rate),
        cold_starts=round(result.cold_starts / rate),
        s3_requests=n_s3 + round((result.s3_requests - result.n_s3) / rate),
        lambda_us_exact=round(result.lambda_us_exact / rate),
        tiers="",
    )
