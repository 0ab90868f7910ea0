"""Whether a pool is worth it for a log's large objects, which the other tiers redirect to S3.

All that keeps them near is weighed by the same value of a hit, against S3's parallel ranged GETs; a slice from the
pool, from S3 Express or from a node is taken to be as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.errors import PriceMissingError
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.clock import Clock
from burstcache_sim.bill.demand import Demand, demand_of
from burstcache_sim.bill.market import Market, Offer
from burstcache_sim.bill.pool_offer import pools_worth_trying
from burstcache_sim.bill.pool_rivals import RANGED, rivals
from burstcache_sim.choose.tune.workload import Workload, may_be_cached
from burstcache_terminal.text import each_usd_text, fixed_text, number_text, usd_text

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

_SPOKEN = {
    "s3-only": "S3 alone",
    RANGED: "parallel ranged GETs from S3",
    "s3-express-all": "S3 Express, everything copied",
    "s3-express": "S3 Express, copied by its price",
    "infinicache": "InfiniCache",
}
_USUAL_CLOCK = Clock()
_NOT_FOR_SALE = ("infinicache",)
_HITLESS = ("s3-only", RANGED)  # that are no cache


@dataclass(frozen=True, slots=True)
class LargeObjects:
    """What one could buy for the requests of objects that are too large for the other tiers, for a month."""

    demand: Demand  # of one repetition
    request_share: float  # of all requests of the log (0 to 1)
    byte_share: float
    repeats: Fraction  # of the log in a month
    usd_per_hit: Fraction
    usd_per_ms: float  # 0: hits are worth something, however long S3 takes
    clock: Clock  # of these requests
    pool: Offer
    others: tuple[Offer, ...]

    @property
    def ranged(self) -> Offer:
        """S3 without a copy, as fast as it can be read."""
        return next(offer for offer in self.others if offer.name == RANGED)

    @property
    def best_buy(self) -> Offer:
        """The most net value of all."""
        for_sale = [offer for offer in self.others if offer.name not in _NOT_FOR_SALE]
        for_sale = [offer for offer in for_sale if offer.name in _HITLESS or round(offer.in_memory_pct, 1)]
        return max([*for_sale, self.pool], key=self.net_usd)

    @property
    def is_worth_it(self) -> bool:
        """Whether the pool is the best buy."""
        return self.best_buy is self.pool

    @property
    def pays_from_usd(self) -> float | None:
        """From which value of a hit the pool is better than S3 alone; None if it never hits [USD]."""
        hits = self.hits(self.pool)
        return (self.month_usd(self.pool) - self.month_usd(self.ranged)) / hits if hits else None

    def hits(self, offer: Offer) -> float:
        """Return the requests of a month that are answered without S3."""
        return offer.in_memory_pct / 100 * self.demand.requests * float(self.repeats)

    def month_usd(self, offer: Offer) -> float:
        """Return what a month costs [USD]."""
        return offer.bill.usd * float(self.repeats)

    def mean_ms(self, offer: Offer) -> float:
        """Return how long an answer takes in the mean [ms]."""
        return self.clock.mean_ms(offer)

    def net_usd(self, offer: Offer) -> float:
        """Return what hits, or the time saved next to S3 alone, are worth, less what a month costs [USD]."""
        if self.usd_per_ms:
            saved_ms = (self.clock.s3_ms - self.mean_ms(offer)) * self.demand.requests * float(self.repeats)
            return self.usd_per_ms * saved_ms - self.month_usd(offer)
        return float(self.usd_per_hit) * self.hits(offer) - self.month_usd(offer)


def large_objects(
    workload: Workload, usd_per_hit: Fraction, clock: Clock = _USUAL_CLOCK, *, usd_per_ms: float = 0.0
) -> LargeObjects | None:
    """Return what one could buy for the large objects of a log, at the value of a hit or of a millisecond [USD].

    None if it has none, if their sizes are not known, if readers are on the internet (a pool's are in the VPC), or if
    the sheet has no price for a pool.
    """
    trace = workload.trace
    if trace.key_ids is None or trace.sizes_bytes is None or workload.setup.readers != "aws" or not workload.redirected:
        return None
    large = _large_part(workload)
    clock = clock.of_log(large, object_bytes=workload.setup.object_bytes)
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
        pools = pools_worth_trying(market)
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


def large_objects_lines(large: LargeObjects) -> list[str]:
    """Return the verdict in sentences."""
    demand, pool = large.demand, large.pool
    stored_gb = number_text(demand.stored_bytes / BYTES_PER_GB, digits=3)
    what = (
        f"Large objects: {100 * large.request_share:.1f} % of the requests and {100 * large.byte_share:.1f} % of the "
        f"bytes are of objects that are too large for the tiers above, {stored_gb} GB."
    )
    best = large.best_buy
    verdict = "For them a pool is worth it."
    if not large.is_worth_it:
        verdict = f"For them a pool is not worth it; {_spoken(best)} is, {usd_text(large.month_usd(best))} USD a month."
    shown = [one for one in (pool, *large.others) if one.name in _HITLESS or round(one.in_memory_pct, 1)]
    shown = [one for one in shown if one.name != "infinicache"]
    table = [
        f"{_spoken(one)}: {usd_text(large.month_usd(one))} USD a month, {fixed_text(one.in_memory_pct, 1)} % without"
        f" S3, {number_text(large.mean_ms(one), digits=3)} ms"
        for one in sorted(shown, key=large.month_usd)
    ]
    from_usd = large.pays_from_usd
    pays = (
        f"The pool ({pool.note}) is better than S3 alone from {each_usd_text(from_usd)} a hit on." if from_usd else ""
    )
    return [what, verdict, *filter(None, [pays]), *(f"- {line}" for line in table)]


def _spoken(offer: Offer) -> str:
    kind, _, of = offer.name.partition(":")
    if kind == "pool":
        return f"a pool of {of} members"
    return _SPOKEN.get(kind, f"{kind} {of}".strip())


def _best_pool(pools: Sequence[Offer], demand: Demand, usd_per_hit: Fraction) -> Offer:
    """Return the pool with the most net value; without a value, the cheapest per hit."""

    def net_usd(offer: Offer) -> float:
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
