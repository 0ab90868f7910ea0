"""S3 Express One Zone as a cache: copies of objects in a bucket of one zone, read in single-digit milliseconds.

A reader asks Express first and S3 after a 404, and copies by `core.express`.
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
from burstcache_sim.bill.market import Market, Offer
from burstcache_sim.caching import Same
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.express import CopyRules, copy_rules

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXPRESS_MS = 5.0  # "single-digit milliseconds" (AWS); no measurement was found
_FOR_EVER_DAYS = 10_000
_STEPS = 50_000_000  # of the simulation, in all passes
_MOST_PASSES = 64


def by_price(market: Market, _: str) -> Offer:
    """Return Express with copies at the k-th read."""
    rule = rule_of(market.locality.sizes_bytes, market.prices, float(market.usd_per_hit))
    return _offer(market, "s3-express", rule, "one zone; copied when its price says so, deleted days later")


def at_first(market: Market, _: str) -> Offer:
    """Return Express with a copy of everything at its first read, never dropped."""
    rule = everything(market.locality)
    return _offer(market, "s3-express-all", rule, "one zone; everything is copied at its first read and kept")


def everything(locality: Locality) -> CopyRules:
    """Return the rule by which everything is copied at its first read and kept."""
    import numpy as np

    count = len(locality.sizes_bytes)
    kept, free = np.full(count, _FOR_EVER_DAYS, np.int64), np.zeros(count)
    return CopyRules(np.ones(count, np.int64), kept, free, free)


def _offer(market: Market, name: str, rule: CopyRules, note: str) -> Offer:
    use = totals(market, rule)
    misses = min(market.locality.requests - use.served, Fraction(market.demand.requests))
    served_bytes = use.served_bytes * market.sent_share
    if use.served:  # of a sample, known requests less misses: what scales with the keys is another estimate
        served_bytes *= (market.demand.requests - misses) / use.served
    return market.offer(
        name,
        ("s3-express-get", market.demand.requests, "S3 Express GET, with those that find nothing"),
        ("s3-express-retrieval", served_bytes / BYTES_PER_GB, "S3 Express retrieval"),
        ("s3-express-put", use.copies, "S3 Express PUT"),
        ("s3-express-upload", use.copied_bytes / BYTES_PER_GB, "S3 Express upload"),
        ("s3-express-storage", use.held_byte_us / (BYTES_PER_GB * US_PER_H), "S3 Express storage"),
        misses=misses,
        note=note,
    )


def rule_of(
    sizes_bytes: NDArray[np.int64], prices: PriceSheet, usd_per_hit: float, *, is_kept: NDArray[np.bool_] | None = None
) -> CopyRules:
    """Return when objects of these sizes are copied and dropped.

    Args:
        sizes_bytes: Of each object [bytes].
        prices: Prices of the region.
        usd_per_hit: What a saved wait of S3 is worth [USD].
        is_kept: Whether each object may be copied; None for all.
    """
    rules = copy_rules(express_rule(prices, hit_value_usd=usd_per_hit), sizes_bytes)
    if is_kept is not None:
        rules.copy_at[~is_kept] = 0
    return rules


@dataclass(frozen=True, slots=True)
class CopiesUse:
    """What copies serve and take in the mean repetition of a month."""

    served: Fraction  # requests
    copies: Fraction  # made
    served_bytes: Fraction
    copied_bytes: Fraction
    held_byte_us: Fraction


def totals(
    market: Market,
    rule: CopyRules,
    asked_first: NDArray[np.bool_] | None = None,
    asked_again: NDArray[np.bool_] | None = None,
) -> CopiesUse:
    """Return what the copies of a month serve and take.

    As many repetitions as make 50 million steps are simulated, at most 64. The others of the month count as the mean of
    their second half. Copies of renewed objects stay as long as the rule keeps them, so what is stored grows.

    Args:
        market: The log and how often it comes.
        rule: When objects are copied and dropped.
        asked_first: Which requests ask for a copy when the log comes for the first time; None for all.
        asked_again: The same for all further times.
    """
    import numpy as np

    from burstcache_sim.engine.copies import LEFT_BYTE_US

    locality, repeats = market.locality, max(market.repeats, Fraction(1))
    passes = max(2, min(ceil(repeats), _MOST_PASSES, _STEPS // len(locality.ids)))
    passes = min(passes, ceil(repeats))
    month_us = int(repeats * locality.period_us)
    everything = np.ones(len(locality.ids), np.bool_)
    asked = np.stack([everything if one is None else one for one in (asked_first, asked_again)])
    *books, after = _books(locality, Same(rule), passes, month_us, np.packbits(asked, axis=1).tobytes())
    rest = float(repeats) - passes  # below 0: the month ends within the last one
    steady = np.mean(books[passes // 2 :], axis=0)
    steady[LEFT_BYTE_US] = 0.0
    total = np.sum(books[:-1], axis=0) + books[-1] * (1 + min(rest, 0)) + steady * max(rest, 0) + after
    *counts, held, left = total.tolist()
    return CopiesUse(*(Fraction(amount) / (repeats * locality.rate) for amount in (*counts, held + left)))


@lru_cache(maxsize=16)  # mixtures whose nodes answer the same requests leave the same ones
def _books(
    locality: Locality, rule: Same[CopyRules], passes: int, month_us: int, asked_bits: bytes
) -> NDArray[np.float64]:
    """Return the books of a month's first passes (`engine.copies`); which requests ask, a bit each, in two rows."""
    import numpy as np

    from burstcache_sim.engine.copies import keep_copies

    bits = np.frombuffer(asked_bits, np.uint8).reshape(2, -1)
    asked = np.unpackbits(bits, axis=1, count=len(locality.ids)).astype(np.bool_)
    of = (locality.times_us, locality.ids, locality.sizes_bytes)
    times = (locality.period_us, LEAST_US, passes)
    return keep_copies(*of, rule.value, *times, asked, locality.is_renewed, month_us)
