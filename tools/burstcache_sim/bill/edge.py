"""What serves readers without a node: S3 alone, CloudFront, EFS, a reader's own memory, functions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.cost import BillLine
from burstcache_sim.bill.infinicache import infinicache_hour, pool_for
from burstcache_sim.bill.ladder import ENTRY_BYTES, LARGEST_SHARE, library_misses, memory_bytes_of
from burstcache_sim.bill.locality import EVERYTHING_BYTES
from burstcache_sim.bill.market import VOLUME_GB, Item, Market, Offer
from burstcache_sim.units import US_PER_H

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KIB = 1024
READER_SIZES = ("64MB", "256MB", "1024MB", "4096MB")
CONFIRMED_US = US_PER_S
_EDGE_LARGEST_BYTES = 50 * BYTES_PER_GB  # "maximum cacheable file size", quotas in CloudFront's developer guide


def s3_only(market: Market, _: str) -> Offer:
    """Return S3, read directly."""
    return market.offer("s3-only", misses=market.demand.requests, reached="directly")


def cloudfront(market: Market, _: str) -> Offer:
    """Return CloudFront in front of S3: one edge where nothing expires."""
    return market.offer(
        "cloudfront",
        ("cloudfront-transfer", Fraction(market.demand.body_bytes, BYTES_PER_GB), "transfer to clients"),
        ("cloudfront-request", market.demand.requests, "HTTPS requests"),
        misses=market.lru_misses(EVERYTHING_BYTES, largest_bytes=_EDGE_LARGEST_BYTES),
        note="one edge, nothing expires",
        reached="edge",
        largest_bytes=_EDGE_LARGEST_BYTES,
    )


def efs(market: Market, _: str) -> Offer:
    """Return a file system: each object is written at its first read and kept."""
    written_bytes = market.locality.kept_bytes(market.repeats)[1]
    metered = replace(market.locality, sizes_bytes=_file_bytes(market.locality.sizes_bytes), _curves={})
    stored_bytes = metered.kept_bytes(market.repeats)[0]
    misses = market.lru_misses(EVERYTHING_BYTES)
    read_bytes = market.demand.body_bytes * (1 - misses / market.demand.requests)
    return market.offer(
        "efs",
        ("+efs-storage", stored_bytes / BYTES_PER_GB * market.hours, "EFS storage"),
        ("efs-read", read_bytes / BYTES_PER_GB, "EFS reads"),
        ("efs-write", written_bytes / BYTES_PER_GB, "EFS writes"),
        misses=misses,
        note="everything is copied at its first read and kept",
    )


def _file_bytes(sizes_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what EFS meters for files: 2 KiB each and their data, which is one or more times 4 KiB."""
    import numpy as np

    return 2 * KIB + np.maximum(1, -(-sizes_bytes // (4 * KIB))) * (4 * KIB)


def reader_memory(market: Market, size: str) -> Offer:
    """Return the library alone in readers that stay: what it holds may be old without a bound."""
    memory_bytes = memory_bytes_of(size)
    readers = market.locality.of_readers(market.setup.reader_processes)
    misses = sum((library_misses(one, memory_bytes, market.repeats) for one in readers), Fraction(0))
    return market.offer(
        f"reader-memory:{size}",
        misses=misses,
        note=f"the library alone: memory of {_readers(market)}, of any age, not billed",
        largest_bytes=memory_bytes // LARGEST_SHARE,
    )


def range_memory(market: Market, size: str) -> Offer:
    """Return a memory of one's own in readers that stay, which holds ranges: the library holds whole objects."""
    memory_bytes = memory_bytes_of(size)
    readers = market.locality.of_readers(market.setup.reader_processes)
    return market.offer(
        f"range-memory:{size}",
        misses=sum((one.misses(memory_bytes, repeats=market.repeats) for one in readers), Fraction(0)),
        note=f"a memory for ranges of one's own, LRU, in {_readers(market)}, of any age, not billed",
        largest_bytes=memory_bytes,
    )


def confirmed_memory(market: Market, size: str) -> Offer:
    """Return the library alone, which asks S3 for an object's ETag if a second has passed since its last answer."""
    from burstcache_sim.engine.stack_distance import confirmed_hits, stack_distances

    memory_bytes, misses, held = memory_bytes_of(size), Fraction(0), Fraction(0)
    for whole in market.locality.of_readers(market.setup.reader_processes):
        is_small = (whole.objects_bytes + ENTRY_BYTES <= memory_bytes // LARGEST_SHARE)[whole.ids]
        one = whole.part(is_small)
        distances, _ = stack_distances(one.ids, one.sizes_bytes + ENTRY_BYTES, one.is_renewed)
        keys, held_bytes = len(one.sizes_bytes), int(memory_bytes * one.rate)
        hits = confirmed_hits(one.times_us, one.ids, distances, held_bytes, CONFIRMED_US, keys)
        misses += (len(whole.ids) - hits) / one.rate
        held += int(((distances >= 0) & (distances <= held_bytes)).sum()) / one.rate
    offer = market.offer(
        f"reader-memory-confirmed:{size}",
        misses=misses,
        note=f"the library alone: memory of {_readers(market)}, confirmed by S3 within 1 s, a GET each time",
        largest_bytes=memory_bytes // LARGEST_SHARE,
    )
    requests = Fraction(market.demand.requests)
    confirmed = max(Fraction(0), min(misses, requests) - max(Fraction(0), requests - held))
    return replace(offer, confirmed_pct=round(float(100 * confirmed / requests), 6))


def _readers(market: Market) -> str:
    count = market.setup.reader_processes
    return "one reader that stays" if count == 1 else f"{count:,} readers that stay, each with as much"


def perfect_automation(market: Market, type_: str) -> Offer:
    """Return a node that knows the trace and boots in advance."""
    hours = Fraction(-(-market.demand.perfect_redis_us // US_PER_S), 3600)
    items: list[Item] = [(f"ec2:{type_}", hours, f"{type_}, while it is needed")]
    if not market.only_cache:
        items.append(("+ebs-gp3", VOLUME_GB * market.hours, "volume"))
    name = f"perfect-automation:{type_}"
    return market.offer(name, *items, misses=0, note="knows the trace; boots in advance: a bound, nobody sells it")


def lambda_always(market: Market, _: str) -> Offer:
    """Return one cache function that never ends."""
    memory_gb = Fraction(market.setup.cache_memory_mb, 1024)
    runs = -(-market.demand.period_us // (15 * 60 * US_PER_S)) or 1
    duration = memory_gb * Fraction(market.demand.period_us, US_PER_S)
    return market.offer(
        "lambda-always",
        (f"+lambda-duration:{market.setup.architecture}", duration, "cache function, always on"),
        ("+lambda-request", runs, "invocations, one each 15 minutes"),
        misses=market.demand.invocation_misses,
        note="without the relay that it would need; fetches each object anew every 15 minutes",
    )


def infinicache(market: Market, _: str) -> Offer:
    """Return InfiniCache by its own formulas."""
    demand, prices, pool = market.demand, market.prices, pool_for(market.demand.stored_bytes)
    request_usd = prices.usd("lambda-request")
    gb_s_usd = prices.usd(f"lambda-duration:{market.setup.architecture}")
    gets_per_h = Fraction(demand.requests * US_PER_H, demand.period_us) if demand.period_us else Fraction(0)
    hour = infinicache_hour(pool, gets_per_h, request_usd=request_usd, gb_s_usd=gb_s_usd)

    def by_formula(text: str, usd_per_h: Fraction, *, is_fixed: bool) -> BillLine:
        return BillLine(text, market.hours, "h", usd_per_h * market.hours, is_fixed, "Wang 2020, section 4.3")

    return market.offer(
        "infinicache",
        by_formula("serving (formula 4)", hour.serving_usd, is_fixed=False),
        by_formula("keeping warm (formula 5)", hour.warm_up_usd, is_fixed=True),
        by_formula("backup (formula 6)", hour.backup_usd, is_fixed=True),
        misses=market.lru_misses(market.locality.stored_bytes),
        note=f"{pool.functions} functions of 1.5 GB; its proxy is not billed",
    )
