"""What one could buy instead of a pool for the same large objects, each kind at its best.

At its best: the cheapest one that answers as many requests without S3 as the pool does, or else the one that answers
most. Parallel ranged GETs ask S3 for each slice by itself, as a reader without a cache does that wants to be fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from burstcache_sim.bill.competitors import offers
from burstcache_sim.bill.market import Market, Offer

RANGED = "s3-ranged-gets"
_KINDS = ("s3-only", "s3-express-all", "ec2", "elasticache-redis", "elasticache-valkey", "infinicache")
_NEARLY_PCT = 0.5  # of the pool's share of hits


def ranged_gets(market: Market) -> Offer:
    """Return S3, each slice of what is asked for read by a GET of its own: one, for a range that is no larger."""
    demand = market.demand
    more = demand.slices - demand.requests  # one GET per request is billed as a miss
    return market.offer(
        RANGED,
        ("s3-get", Fraction(more), "S3 GET of further slices"),
        misses=demand.requests,
        note="no copy: S3's first byte, then as many streams as slices",
        reached="directly",
    )


def rivals(market: Market, in_memory_pct: float) -> list[Offer]:
    """Return the best of each kind, cheapest first.

    Args:
        market: What is asked for, and prices.
        in_memory_pct: The pool's share of requests without S3 (0 to 100).
    """
    by_kind: dict[str, list[Offer]] = {}
    for offer in offers(market):
        if offer.name != "s3-only" and not offer.in_memory_pct:
            continue  # bought for nothing
        by_kind.setdefault(offer.name.partition(":")[0], []).append(offer)
    kinds = (*_KINDS, "s3-express") if market.usd_per_hit else _KINDS
    best = [_best(by_kind[kind], in_memory_pct) for kind in kinds if kind in by_kind]
    return sorted([*best, ranged_gets(market)], key=lambda offer: offer.bill.usd_exact)


def _best(found: Iterable[Offer], in_memory_pct: float) -> Offer:
    def rank(offer: Offer) -> tuple[bool, float, float]:
        is_enough = offer.in_memory_pct >= in_memory_pct - _NEARLY_PCT
        return not is_enough, 0.0 if is_enough else -offer.in_memory_pct, offer.bill.usd

    return min(found, key=rank)
