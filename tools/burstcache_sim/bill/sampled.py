"""Scaling of a sampled run to the whole log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from burstcache_sim.bill.demand import sample_rate

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult


def scale_to_log(result: RunResult, trace: Trace, requests: int) -> RunResult:
    """Scale a run's counts to the whole log.

    Requests served by S3 and lives of cache functions scale with the number of keys. All other requests of the log are
    hits, split between the tiers as in the sample. The node's running time is not scaled, although the whole log would
    boot the node sooner and stop it later.

    Args:
        result: The sample's run.
        trace: The sample. For a whole log, the run is returned unchanged.
        requests: Number of requests in the whole log.

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
