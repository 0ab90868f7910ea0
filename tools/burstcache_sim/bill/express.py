"""S3 Express One Zone as a cache: copies of objects in a single-zone bucket, read in single-digit milliseconds.

A reader tries Express first, and S3 after a 404. `core.express` defines the copy rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

from burstcache.core.express import LEAST_US, express_rule
from burstcache.core.prices import BYTES_PER_GB, PriceSheet
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.caching import Same
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.express import CopyRules, copy_rules

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FOREVER_DAYS = 10_000
_MAX_STEPS = 50_000_000  # maximum number of simulated steps, over all passes
_MAX_PASSES = 64


def by_price(market: Market, _: str) -> Quote:
    """Quote Express under the rule that copies an object at its k-th read if the copy pays for itself."""
    rule = price_rule(market.locality.sizes_bytes, market.prices, float(market.usd_per_hit))
    return _quote(market, "s3-express", rule, "one zone; objects are copied when that pays and deleted days later")


def at_first(market: Market, _: str) -> Quote:
    """Quote Express if every object is copied at its first read and never deleted."""
    rule = first_read_rule(market.locality)
    return _quote(market, "s3-express-all", rule, "one zone; every object is copied at its first read and kept")


def first_read_rule(locality: Locality) -> CopyRules:
    """Return the rule that copies every object at its first read and keeps the copy."""
    import numpy as np

    count = len(locality.sizes_bytes)
    kept, free = np.full(count, _FOREVER_DAYS, np.int64), np.zeros(count)
    return CopyRules(np.ones(count, np.int64), kept, free, free)


def _quote(market: Market, name: str, rule: CopyRules, note: str) -> Quote:
    use = totals(market, rule)
    misses = min(market.locality.requests - use.served, Fraction(market.demand.requests))
    served_bytes = use.served_bytes * market.sent_share
    if use.served:  # scale a sample to the hits derived from the known number of requests
        served_bytes *= (market.demand.requests - misses) / use.served
    return market.quote(
        name,
        ("s3-express-get", market.demand.requests, "S3 Express GET, including misses"),
        ("s3-express-retrieval", served_bytes / BYTES_PER_GB, "S3 Express retrieval"),
        ("s3-express-put", use.copies, "S3 Express PUT"),
        ("s3-express-upload", use.copied_bytes / BYTES_PER_GB, "S3 Express upload"),
        ("s3-express-storage", use.held_byte_us / (BYTES_PER_GB * US_PER_H), "S3 Express storage"),
        misses=misses,
        note=note,
    )


def price_rule(
    sizes_bytes: NDArray[np.int64],
    prices: PriceSheet,
    usd_per_hit: float,
    *,
    is_cacheable: NDArray[np.bool_] | None = None,
) -> CopyRules:
    """Return the rule that copies and deletes objects of these sizes if doing so saves money.

    Args:
        sizes_bytes: Size of each object [bytes].
        prices: Prices of the region.
        usd_per_hit: Hit value [USD].
        is_cacheable: Whether each object may be copied. If None, all objects may be copied.
    """
    rules = copy_rules(express_rule(prices, hit_value_usd=usd_per_hit), sizes_bytes)
    if is_cacheable is not None:
        rules.copy_at[~is_cacheable] = 0
    return rules


@dataclass(frozen=True, slots=True)
class CopyUsage:
    """Mean hits and usage of copies per repetition, over a month."""

    served: Fraction  # requests served from copies
    copies: Fraction  # copies made
    served_bytes: Fraction
    copied_bytes: Fraction
    held_byte_us: Fraction


def totals(
    market: Market,
    rule: CopyRules,
    first: NDArray[np.bool_] | None = None,
    again: NDArray[np.bool_] | None = None,
) -> CopyUsage:
    """Return the hits and usage of a month's copies.

    The simulation covers up to 64 repetitions and 50 million steps. Each remaining repetition of the month counts as
    the mean over the second half of the simulated repetitions. Copies of renewed objects stay until the rule deletes
    them, so storage grows.

    Args:
        market: The log and its repetitions.
        rule: When to copy and delete objects.
        first: Mask of the requests that reach Express in the first repetition. If None, all.
        again: Mask of the requests that reach Express in every further repetition. If None, all.
    """
    import numpy as np

    from burstcache_sim.engine.copies import LEFT_BYTE_US

    locality, repeats = market.locality, max(market.repeats, Fraction(1))
    passes = max(2, min(ceil(repeats), _MAX_PASSES, _MAX_STEPS // len(locality.ids)))
    passes = min(passes, ceil(repeats))
    month_us = int(repeats * locality.period_us)
    every = np.ones(len(locality.ids), np.bool_)
    reaching = np.stack([every if mask is None else mask for mask in (first, again)])
    *books, after = _books(locality, Same(rule), passes, month_us, np.packbits(reaching, axis=1).tobytes())
    remaining = float(repeats) - passes  # below 0 if the month ends within the last pass
    steady = np.mean(books[passes // 2 :], axis=0)
    steady[LEFT_BYTE_US] = 0.0
    total = np.sum(books[:-1], axis=0) + books[-1] * (1 + min(remaining, 0)) + steady * max(remaining, 0) + after
    *counts, held, left = total.tolist()
    return CopyUsage(*(Fraction(amount) / (repeats * locality.rate) for amount in (*counts, held + left)))


@lru_cache(maxsize=16)  # setups with the same node hits share a result
def _books(
    locality: Locality, rule: Same[CopyRules], passes: int, month_us: int, reaching_bits: bytes
) -> NDArray[np.float64]:
    """Return the usage totals of a month's first passes (`engine.copies`).

    Args:
        locality: The log.
        rule: When to copy and delete objects.
        passes: Number of repetitions.
        month_us: Length of the month [us].
        reaching_bits: Bitmaps of the requests that reach Express: in the first repetition, then in further repetitions.
    """
    import numpy as np

    from burstcache_sim.engine.copies import keep_copies

    bits = np.frombuffer(reaching_bits, np.uint8).reshape(2, -1)
    reaching = np.unpackbits(bits, axis=1, count=len(locality.ids)).astype(np.bool_)
    requests = (locality.times_us, locality.ids, locality.sizes_bytes)
    times = (locality.period_us, LEAST_US, passes)
    return keep_copies(*requests, rule.value, *times, reaching, locality.is_renewed, month_us)
