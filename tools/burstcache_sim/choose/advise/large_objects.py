"""A pool and its competitors for a log's large objects, which the stack redirects to S3 and readers keep in slices.

The verdict of the advice leaves them out. They serve readers without memory of their own.

Every cache is compared with parallel ranged GETs from S3, at the same hit value. A slice from the pool, from
S3 Express or from a node counts as the same hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.errors import PriceMissingError
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.demand import Demand, demand_of
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.pool_quotes import candidate_pools
from burstcache_sim.bill.pool_rivals import RANGED, rivals
from burstcache_sim.choose.tune.workload import Workload, may_be_cached
from burstcache_terminal.text import each_usd_text, fixed_text, number_text, usd_text

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

_SPOKEN = {
    "s3-only": "S3 alone",
    RANGED: "parallel ranged GETs from S3",
    "s3-express-all": "S3 Express, everything copied",
    "s3-express": "S3 Express, copied where that pays",
    "infinicache": "InfiniCache",
}
_USUAL_CLOCK = LatencyModel()
_HITLESS = ("s3-only", RANGED)  # no caches


@dataclass(frozen=True, slots=True)
class LargeObjects:
    """The pool and its competitors over a month of requests for large objects."""

    demand: Demand  # demand of one repetition
    request_share: float  # share of all requests in the log (0 to 1)
    byte_share: float
    repeats: Fraction  # repetitions of the log in a month
    usd_per_hit: Fraction
    usd_per_ms: float  # 0 if hits have a value instead of milliseconds
    clock: LatencyModel  # latencies of these requests
    pool: Quote
    others: tuple[Quote, ...]

    @property
    def ranged(self) -> Quote:
        """Parallel ranged GETs from S3, the fastest reads without a copy."""
        return next(offer for offer in self.others if offer.name == RANGED)

    @property
    def pays_from_usd(self) -> float | None:
        """The lowest hit value at which the pool beats ranged GETs from S3 [USD], or None if the pool has no hit."""
        hits = self.hits(self.pool)
        return (self.month_usd(self.pool) - self.month_usd(self.ranged)) / hits if hits else None

    def hits(self, offer: Quote) -> float:
        """Return the number of requests per month answered without S3."""
        return offer.in_memory_pct / 100 * self.demand.requests * float(self.repeats)

    def month_usd(self, offer: Quote) -> float:
        """Return the monthly bill [USD]."""
        return offer.bill.usd * float(self.repeats)

    def mean_ms(self, offer: Quote) -> float:
        """Return the mean latency [ms]."""
        return self.clock.mean_ms(offer)

    def net_usd(self, offer: Quote) -> float:
        """Return the monthly value of hits, or of time saved, minus what the bill exceeds that of S3 alone by [USD]."""
        s3 = next(one for one in self.others if one.name == "s3-only")
        extra_usd = self.month_usd(offer) - self.month_usd(s3)
        if self.usd_per_ms:
            saved_ms = (self.clock.s3_ms - self.mean_ms(offer)) * self.demand.requests * float(self.repeats)
            return self.usd_per_ms * saved_ms - extra_usd
        return float(self.usd_per_hit) * self.hits(offer) - extra_usd


def large_objects(
    workload: Workload, usd_per_hit: Fraction, clock: LatencyModel = _USUAL_CLOCK, *, usd_per_ms: float = 0.0
) -> LargeObjects | None:
    """Return the pool and its competitors for a log's large objects, at a hit value or millisecond value [USD].

    Return None if the log has no large objects or no sizes, if readers are on the internet (a pool's readers are in
    the VPC), or if the sheet has no price for a pool.
    """
    trace = workload.trace
    if trace.key_ids is None or trace.sizes_bytes is None or workload.setup.readers != "aws" or not workload.redirected:
        return None
    large = _large_part(workload)
    clock = clock.for_log(large, object_bytes=workload.setup.object_bytes)
    usd_per_hit = Fraction(usd_per_ms * clock.s3_ms) if usd_per_ms else usd_per_hit
    period_us = workload.demand.period_us
    demand = demand_of(large, object_bytes=workload.setup.object_bytes, period_us=period_us)
    market = Market(
        demand=demand,
        locality=workload.locality(large),
        prices=workload.prices,
        setup=workload.setup,
        repeats=workload.repeats_per_month,
        usd_per_hit=usd_per_hit,
    )
    try:
        pools = candidate_pools(market)
    except PriceMissingError:
        return None
    pool = _best_pool(pools, demand, usd_per_hit)
    return LargeObjects(
        demand=demand,
        request_share=demand.requests / workload.demand.requests,
        byte_share=demand.body_bytes / max(1, workload.demand.body_bytes),
        repeats=workload.repeats_per_month,
        usd_per_hit=usd_per_hit,
        usd_per_ms=usd_per_ms,
        clock=clock,
        pool=pool,
        others=tuple(rivals(market, pool.in_memory_pct)),
    )


def large_objects_lines(large: LargeObjects, verdict_net_usd: float) -> list[str]:
    """Return the pool's net value beside that of the verdict in sentences, then one line per offer."""
    demand, pool = large.demand, large.pool
    stored_gib = number_text(demand.stored_bytes / BYTES_PER_GB, digits=3)
    demand_text = (
        f"Large objects: {100 * large.request_share:.1f} % of the requests and {100 * large.byte_share:.1f} % of the "
        f"bytes are for objects that no node keeps whole, {stored_gib} GiB. The verdict counts the slices of 256 KiB "
        "that readers keep of them."
    )
    net_text = (
        "It leaves out a pool, which serves readers without memory of their own. For the large objects alone a pool has"
        f" a net value of {usd_text(large.net_usd(pool))} USD a month, the verdict for all objects of"
        f" {usd_text(verdict_net_usd)}."
    )
    shown = [offer for offer in (pool, *large.others) if offer.name in _HITLESS or round(offer.in_memory_pct, 1)]
    shown = [offer for offer in shown if offer.name != "infinicache"]
    table = [
        f"{_spoken(offer)}: {usd_text(large.month_usd(offer))} USD a month, {fixed_text(offer.in_memory_pct, 1)} %"
        f" without S3, {number_text(large.mean_ms(offer), digits=3)} ms"
        for offer in sorted(shown, key=large.month_usd)
    ]
    from_usd = large.pays_from_usd
    pays = (
        f"The pool ({pool.note}) beats ranged GETs from S3 from a hit value of {each_usd_text(from_usd)}."
        if from_usd
        else ""
    )
    return [demand_text, net_text, *filter(None, [pays]), *(f"- {line}" for line in table)]


def _spoken(offer: Quote) -> str:
    kind, _, of = offer.name.partition(":")
    if kind == "pool":
        return f"a pool of {of} members"
    return _SPOKEN.get(kind, f"{kind} {of}".strip())


def _best_pool(pools: Sequence[Quote], demand: Demand, usd_per_hit: Fraction) -> Quote:
    """Return the pool with the highest net value, or the cheapest per hit if a hit has no value."""

    def net_usd(offer: Quote) -> float:
        return float(usd_per_hit) * offer.in_memory_pct / 100 * demand.requests - offer.bill.usd

    if usd_per_hit:
        return max(pools, key=net_usd)
    return min(pools, key=lambda offer: offer.bill.usd / max(offer.in_memory_pct, 1e-9))


def _large_part(workload: Workload) -> Trace:
    import numpy as np

    trace = workload.trace
    assert trace.key_ids is not None
    assert trace.sizes_bytes is not None
    is_large = ~may_be_cached(trace, workload.setup)
    sample = trace.sample
    if sample is not None:
        sample = replace(sample, requests=round(sample.requests * int(np.count_nonzero(is_large)) / len(trace)))
    return replace(trace.part(is_large), sample=sample)
