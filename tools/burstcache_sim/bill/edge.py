"""Quotes for the competitors without a node: S3, CloudFront's edge, EFS, readers' memory, functions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.node_kinds import node_items, node_kind
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.cost import BillLine
from burstcache_sim.bill.infinicache import infinicache_hour, pool_for
from burstcache_sim.bill.locality import EVERYTHING_BYTES
from burstcache_sim.bill.market import VOLUME_GB, Item, Market, Quote
from burstcache_sim.bill.static_tiers import (
    ENTRY_BYTES,
    LARGEST_SHARE,
    library_misses,
    library_reads,
    memory_bytes_of,
)
from burstcache_sim.units import US_PER_H

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KIB = 1024
READER_SIZES = ("64MB", "256MB", "1024MB", "4096MB")
CONFIRMED_US = US_PER_S
_EDGE_LARGEST_BYTES = 50 * BYTES_PER_GB  # "maximum cacheable file size", quotas in CloudFront's developer guide


def s3_only(market: Market, _: str) -> Quote:
    """Quote direct reads from S3."""
    return market.quote("s3-only", misses=market.demand.requests, read_path="direct")


def cloudfront(market: Market, _: str) -> Quote:
    """Quote CloudFront in front of S3, with one edge location and no expiry."""
    return market.quote(
        "cloudfront",
        ("cloudfront-transfer", Fraction(market.demand.body_bytes, BYTES_PER_GB), "transfer to clients"),
        ("cloudfront-request", market.demand.requests, "HTTPS requests"),
        misses=market.lru_misses(EVERYTHING_BYTES, largest_bytes=_EDGE_LARGEST_BYTES),
        note="one edge location, no expiry",
        read_path="edge",
        largest_bytes=_EDGE_LARGEST_BYTES,
    )


def efs(market: Market, _: str) -> Quote:
    """Quote EFS as a cache that stores each object at its first read and never deletes it."""
    written_bytes = market.locality.kept_bytes(market.repeats)[1]
    metered = replace(market.locality, sizes_bytes=_file_bytes(market.locality.sizes_bytes), _curves={})
    stored_bytes = metered.kept_bytes(market.repeats)[0]
    misses = market.lru_misses(EVERYTHING_BYTES)
    read_bytes = market.demand.body_bytes * (1 - misses / market.demand.requests)
    return market.quote(
        "efs",
        ("+efs-storage", stored_bytes / BYTES_PER_GB * market.hours, "EFS storage"),
        ("efs-read", read_bytes / BYTES_PER_GB, "EFS reads"),
        ("efs-write", written_bytes / BYTES_PER_GB, "EFS writes"),
        misses=misses,
        note="every object is copied at its first read and kept",
    )


def _file_bytes(sizes_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the billed size of EFS files: 2 KiB each, plus data rounded up to units of 4 KiB, at least one unit."""
    import numpy as np

    return 2 * KIB + np.maximum(1, -(-sizes_bytes // (4 * KIB))) * (4 * KIB)


def reader_memory(market: Market, size: str) -> Quote:
    """Quote the library's local cache alone, in long-lived readers without a bound on staleness."""
    memory_bytes = memory_bytes_of(size)
    readers = market.locality.of_readers(market.setup.reader_processes)
    each = [library_misses(one, memory_bytes, market.repeats) for one in readers]
    misses, gets = (sum(amounts, Fraction(0)) for amounts in zip(*each, strict=True))
    return market.quote(
        f"reader-memory:{size}",
        ("s3-get", max(Fraction(0), gets - misses), "further S3 GETs of ranges of large objects"),
        misses=misses,
        note=f"the library alone: memory of {_readers(market)}, no bound on staleness, not billed",
        largest_bytes=_largest_bytes(market, memory_bytes),
    )


def _largest_bytes(market: Market, memory_bytes: int) -> int:
    """Return the size of the largest response that memory may serve, as a whole object or from slices."""
    has_slices = library_reads(market.locality, memory_bytes).touches is not None
    return memory_bytes if has_slices else memory_bytes // LARGEST_SHARE


def range_memory(market: Market, size: str) -> Quote:
    """Quote a custom cache of byte ranges in long-lived readers. The library caches whole slices instead."""
    memory_bytes = memory_bytes_of(size)
    readers = market.locality.of_readers(market.setup.reader_processes)
    return market.quote(
        f"range-memory:{size}",
        misses=sum((one.misses(memory_bytes, repeats=market.repeats) for one in readers), Fraction(0)),
        note=f"a home-made LRU cache of ranges in {_readers(market)}, no bound on staleness, not billed",
        largest_bytes=memory_bytes,
    )


def confirmed_memory(market: Market, size: str) -> Quote:
    """Quote the library's local cache alone, revalidating each object's ETag with S3 after one second."""
    import numpy as np

    from burstcache_sim.engine.stack_distance import NEVER, confirmed_hits, stack_distances

    memory_bytes, misses, cached = memory_bytes_of(size), Fraction(0), Fraction(0)
    for whole in market.locality.of_readers(market.setup.reader_processes):
        reads = library_reads(whole, memory_bytes)
        read = reads.cached
        is_small = (read.objects_bytes <= memory_bytes // LARGEST_SHARE)[read.ids]
        one, distances = read.part(is_small), np.full(len(read.ids), NEVER)
        distances[is_small], _ = stack_distances(one.ids, one.sizes_bytes + ENTRY_BYTES, one.is_renewed)
        if reads.touches is not None:
            distances = reads.touches.farthest(distances)
        keys, sample_bytes = len(whole.sizes_bytes), int(memory_bytes * whole.rate)
        hits = confirmed_hits(whole.times_us, whole.ids, distances, sample_bytes, CONFIRMED_US, keys)
        misses += (len(whole.ids) - hits) / whole.rate
        cached += int(((distances >= 0) & (distances <= sample_bytes)).sum()) / whole.rate
    quote = market.quote(
        f"reader-memory-confirmed:{size}",
        misses=misses,
        note=f"the library alone: memory of {_readers(market)}, revalidated by S3 after 1 s, a GET each time",
        largest_bytes=_largest_bytes(market, memory_bytes),
    )
    requests = Fraction(market.demand.requests)
    confirmed = max(Fraction(0), min(misses, requests) - max(Fraction(0), requests - cached))
    return replace(quote, confirmed_pct=round(float(100 * confirmed / requests), 6))


def _readers(market: Market) -> str:
    count = market.setup.reader_processes
    return "one long-lived reader" if count == 1 else f"each of {count:,} long-lived readers"


def perfect_automation(market: Market, type_: str) -> Quote:
    """Quote an oracle: a node that knows the trace and boots in advance."""
    hours = Fraction(-(-market.demand.perfect_redis_us // US_PER_S), 3600)
    items: list[Item] = [(item, hours * units, f"{type_}, while it is needed") for item, units in node_items(type_)]
    if not market.only_cache and node_kind(type_) == "ec2":
        items.append(("+ebs-gp3", VOLUME_GB * market.hours, "volume"))
    name = f"perfect-automation:{type_}"
    return market.quote(name, *items, misses=0, note="knows the trace; boots in advance: a bound, nobody sells it")


def lambda_always(market: Market, _: str) -> Quote:
    """Quote one cache function that runs around the clock."""
    memory_gb = Fraction(market.setup.cache_memory_mb, 1024)
    runs = -(-market.demand.period_us // (15 * 60 * US_PER_S)) or 1
    duration = memory_gb * Fraction(market.demand.period_us, US_PER_S)
    return market.quote(
        "lambda-always",
        (f"+lambda-duration:{market.setup.architecture}", duration, "cache function, always on"),
        ("+lambda-request", runs, "invocations, one each 15 minutes"),
        misses=market.demand.invocation_misses,
        note="without the relay that it would need; fetches each object anew every 15 minutes",
    )


def infinicache(market: Market, _: str) -> Quote:
    """Quote InfiniCache with the cost formulas of its paper."""
    demand, prices, pool = market.demand, market.prices, pool_for(market.demand.stored_bytes)
    request_usd = prices.usd("lambda-request")
    gb_s_usd = prices.usd(f"lambda-duration:{market.setup.architecture}")
    gets_per_h = Fraction(demand.requests * US_PER_H, demand.period_us) if demand.period_us else Fraction(0)
    hour = infinicache_hour(pool, gets_per_h, request_usd=request_usd, gb_s_usd=gb_s_usd)

    def by_formula(text: str, usd_per_h: Fraction, *, is_fixed: bool) -> BillLine:
        return BillLine(text, market.hours, "h", usd_per_h * market.hours, is_fixed, "Wang 2020, section 4.3")

    return market.quote(
        "infinicache",
        by_formula("serving (formula 4)", hour.serving_usd, is_fixed=False),
        by_formula("keeping warm (formula 5)", hour.warm_up_usd, is_fixed=True),
        by_formula("backup (formula 6)", hour.backup_usd, is_fixed=True),
        misses=market.lru_misses(market.locality.stored_bytes),
        note=f"{pool.functions} functions of 1.5 GB; its proxy is not billed",
    )
