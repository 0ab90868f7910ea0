"""Quotes for a pool by InfiniCache's formulas, which are fast enough to try every size.

Hits are modelled by an LRU cache in the memory that parity leaves free. `burstcache_sim.pool` simulates a pool in
full.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from burstcache.core.pool.chunk_store import member_bytes
from burstcache.core.pool.costs import member_price
from burstcache.core.pool.redundancy import Load, choose
from burstcache.core.pool.slices import SLICE_BYTES
from burstcache_sim.bill.cost import BillLine
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.pool import control_use, pool_bill
from burstcache_sim.pool.reclaims import usual

SIZES = (12, 16, 32, 64, 128, 256, 400)  # candidates for the number of members
MEMORY_MB = 1_769
_FORMULAS = "Wang 2020, section 4.3"
_ROUNDS = 2  # iterations to a fixed point, because hits and erasure code depend on each other


def pool_quote(market: Market, members: int) -> Quote:
    """Quote a pool with its hub in the readers' process, under the reclaim rates of the paper's last months.

    Raises:
        PriceMissingError: The sheet has no price for Lambda's tenants.
    """
    demand, hours = market.demand, market.hours
    price = member_price(market.prices, MEMORY_MB)
    measured = {60: usual(members).day()}
    market = replace(market, locality=_in_slices(market.locality))
    slices_each = Fraction(demand.slices, demand.requests)
    stored_slices = max(1, -(-market.locality.stored_bytes // SLICE_BYTES))
    slice_bytes = min(SLICE_BYTES, max(1, market.locality.stored_bytes // stored_slices))
    misses, choice = Fraction(0), None
    for _ in range(_ROUNDS):
        reads_per_h = Fraction(demand.requests * slices_each) / hours
        load = Load(reads_per_h, misses * slices_each / hours, stored_slices, slice_bytes)
        choice = choose(members, load, price, measured)
        code = choice.plan.redundancy
        usable_bytes = members * member_bytes(MEMORY_MB) * code.data // code.chunks
        missed = market.lru_misses(usable_bytes)
        misses = missed + (demand.requests - missed) * (1 - Fraction(choice.availability))
    assert choice is not None

    def by_formula(text: str, usd_per_h: Fraction, *, is_fixed: bool) -> BillLine:
        return BillLine(text, hours, "h", usd_per_h * hours, is_fixed, _FORMULAS)

    backup = f"backup every {choice.plan.backup_s} s" if choice.plan.backup_s else "no backup"
    return market.quote(
        f"pool:{members}",
        by_formula("serving (formula 4)", choice.hour.serving_usd, is_fixed=False),
        by_formula("keeping warm (formula 5)", choice.hour.warm_up_usd, is_fixed=True),
        by_formula("backup (formula 6)", choice.hour.backup_usd, is_fixed=True),
        by_formula("new environments", choice.hour.renewal_usd, is_fixed=True),
        *pool_bill(control_use(members, 60 * hours), market.prices).lines,
        ("s3-get", misses * (slices_each - 1), "S3 GET of further slices"),
        misses=misses,
        note=f"{members} members of {MEMORY_MB:,} MB, {code.data}+{code.parity} chunks, {backup}",
        read_path="direct",
    )


def _in_slices(locality: Locality) -> Locality:
    """Round each range up to whole slices, at most to its object's size. Each range counts separately."""
    import numpy as np

    if locality.whole_bytes is None:
        return locality
    in_slices = -(-locality.sizes_bytes // SLICE_BYTES) * SLICE_BYTES
    return replace(locality, sizes_bytes=np.minimum(in_slices, locality.whole_bytes), _curves={})


def candidate_pools(market: Market) -> list[Quote]:
    """Return quotes for pools by ascending size, up to the first that fits all objects."""
    quotes = []
    for members in SIZES:
        quotes.append(pool_quote(market, members))
        if members * member_bytes(MEMORY_MB) // 2 >= market.locality.stored_bytes:
            break
    return quotes
