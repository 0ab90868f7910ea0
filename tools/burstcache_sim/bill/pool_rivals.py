"""Rivals of a pool for the same large objects: the best quote of each kind.

The best quote is the cheapest with at least about the pool's hit ratio. Without such a quote, the highest hit ratio
wins. Parallel ranged GETs are also a rival, in which a reader without a cache fetches each slice with its own GET.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.market import Market, Quote

RANGED = "s3-ranged-gets"
_KINDS = ("s3-only", "s3-express-all", "ec2", "elasticache-redis", "elasticache-valkey", "infinicache")
_NEARLY_PCT = 0.5  # tolerance below the pool's hit ratio


def ranged_gets(market: Market) -> Quote:
    """Quote S3 with one GET per slice of the requested object or range."""
    demand = market.demand
    more = demand.slices - demand.requests  # the first GET of a request is billed as a miss
    return market.quote(
        RANGED,
        ("s3-get", Fraction(more), "S3 GET of further slices"),
        misses=demand.requests,
        note="no copy: S3's first byte, then as many streams as slices",
        read_path="direct",
    )


def rivals(market: Market, in_memory_pct: float) -> list[Quote]:
    """Return the best quote of each kind, cheapest first.

    Args:
        market: Demand and prices.
        in_memory_pct: The pool's share of requests served without S3 (0 to 100).
    """
    by_kind: dict[str, list[Quote]] = {}
    for quote in quotes(market):
        if quote.name != "s3-only" and not quote.in_memory_pct:
            continue  # a cache without hits
        by_kind.setdefault(quote.name.partition(":")[0], []).append(quote)
    kinds = (*_KINDS, "s3-express") if market.usd_per_hit else _KINDS
    best = [_best(by_kind[kind], in_memory_pct) for kind in kinds if kind in by_kind]
    return sorted([*best, ranged_gets(market)], key=lambda quote: quote.bill.usd_exact)


def _best(candidates: Iterable[Quote], in_memory_pct: float) -> Quote:
    def rank(quote: Quote) -> tuple[bool, float, float]:
        is_enough = quote.in_memory_pct >= in_memory_pct - _NEARLY_PCT
        return not is_enough, 0.0 if is_enough else -quote.in_memory_pct, quote.bill.usd

    return min(candidates, key=rank)
