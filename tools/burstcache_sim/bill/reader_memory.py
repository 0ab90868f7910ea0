"""Reader memory in front of a competitor: a custom two-level cache without a bound on staleness.

The competitor receives the misses of a warm memory. Memory is not billed, so every reader gets the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.static_tiers import own_memory_misses

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Quoting = Callable[[Market, str], Quote]


def behind_memory(competitor: Quoting) -> Quoting:
    """Return a function that quotes a competitor behind readers' own memory."""

    def quote(market: Market, variant: str) -> Quote:
        demand, memory_mb = market.demand, market.own_memory_mb
        is_missed, missed_locality = _misses(market.locality, market.setup.reader_processes, memory_mb)
        share = Fraction(int(is_missed.sum()), len(is_missed))
        requests = max(1, min(demand.requests, round(int(is_missed.sum()) / market.locality.rate)))
        missed_demand = replace(
            demand,
            requests=requests,
            body_bytes=round(demand.body_bytes * share),
            metered_512kb=round(demand.metered_512kb * share),
            internet_bytes=round(demand.internet_bytes * share),
            moved_bytes=round(demand.moved_bytes * share),
            slices=round(demand.slices * share),
            busy_s=min(demand.busy_s, requests),
        )
        alone = competitor(replace(market, demand=missed_demand, locality=missed_locality), variant)
        missed = Fraction(requests, demand.requests) * (1 - Fraction(alone.in_memory_pct) / 100)
        return replace(
            alone,
            name=f"reader-memory+{alone.name}",
            in_memory_pct=round(float(100 * (1 - missed)), 6),
            note=f"{memory_mb} MB of memory per reader, no bound on staleness; {alone.note}",
            own_memory_pct=round(float(100 * (1 - Fraction(requests, demand.requests))), 6),
            own_memory_bytes=memory_mb * 1024**2,
        )

    return quote


@lru_cache(maxsize=1)  # shared by all competitors behind the same memory
def _misses(locality: Locality, processes: int, memory_mb: int) -> tuple[NDArray[np.bool_], Locality]:
    """Return the misses of a warm memory (at least one), as a mask and as a locality."""
    is_missed = own_memory_misses(locality, processes, memory_mb * 1024**2).again.copy()
    if not is_missed.any():
        is_missed[0] = True  # a market needs at least one request
    return is_missed, locality.part(is_missed)
