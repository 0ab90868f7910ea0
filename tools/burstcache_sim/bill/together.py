"""What readers put together by themselves: their own memory, of any age, before something else that is sold.

What comes below meets the requests that the memory leaves once it is warm. Nobody bills it, so it is the largest that a
reader may have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from burstcache_sim.bill.ladder import past_own_memory
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.market import Market, Offer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Offering = Callable[[Market, str], Offer]


def before(below: Offering) -> Offering:
    """Return what offers a reader's memory before something else."""

    def offer(market: Market, of: str) -> Offer:
        demand, memory_mb = market.demand, market.own_memory_mb
        left, below_memory = _left(market.locality, market.setup.reader_processes, memory_mb)
        share = Fraction(int(left.sum()), len(left))
        asked = max(1, min(demand.requests, round(int(left.sum()) / market.locality.rate)))
        less = replace(
            demand,
            requests=asked,
            body_bytes=round(demand.body_bytes * share),
            metered_512kb=round(demand.metered_512kb * share),
            internet_bytes=round(demand.internet_bytes * share),
            moved_bytes=round(demand.moved_bytes * share),
            slices=round(demand.slices * share),
            busy_s=min(demand.busy_s, asked),
        )
        sold = below(replace(market, demand=less, locality=below_memory), of)
        missed = Fraction(asked, demand.requests) * (1 - Fraction(sold.in_memory_pct) / 100)
        return replace(
            sold,
            name=f"reader-memory+{sold.name}",
            in_memory_pct=round(float(100 * (1 - missed)), 6),
            note=f"{memory_mb} MB of each reader's memory, of any age; {sold.note}",
            own_memory_pct=round(float(100 * (1 - Fraction(asked, demand.requests))), 6),
            own_memory_bytes=memory_mb * 1024**2,
        )

    return offer


@lru_cache(maxsize=1)  # what many others stand below
def _left(locality: Locality, processes: int, memory_mb: int) -> tuple[NDArray[np.bool_], Locality]:
    """Return which requests a warm memory leaves, at least one, and them as caches below see them."""
    left = past_own_memory(locality, processes, memory_mb * 1024**2).again.copy()
    if not left.any():
        left[0] = True  # nothing is asked for below; a market has a request at least
    return left, locality.part(left)
