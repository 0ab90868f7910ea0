"""Static tiers: a month's hits in readers' memory, always-on nodes and S3 Express, without a policy.

A reader tries its own memory, then the key's home node, then a copy in S3 Express, then S3. Tiers stay warm between
repetitions of the log, so only the first repetition of a month starts empty. A month is the sum of one cold repetition
and warm repetitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

from burstcache.core.batching import MIN_BATCH_AGE_US
from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache.core.recency import SEEN_AGAIN_US
from burstcache.core.slice_worth import slice_pays
from burstcache.core.slices import SLICE_BYTES
from burstcache_sim.bill.cache_losses import CacheLosses, losses_of
from burstcache_sim.bill.express import price_rule, totals
from burstcache_sim.bill.locality import Locality, mean
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.bill.reads import ReadMask, Reads
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.bill.touches import touches_of
from burstcache_sim.caching import Same
from burstcache_sim.world.express import CopyRules
from burstcache_sim.world.result import NO_GUESTS, ExpressUse, GuestUse, RunResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache.core.prices import PriceSheet

# Properties of readers' memory (`burstcache.serve.memory_tier`): an entry's overhead with about eight headers of 30
# characters, and the largest accepted object, which without that overhead is one eighth of the memory.
ENTRY_BYTES = 512 + 8 * (120 + 30)
LARGEST_SHARE = 8
MAX_WHOLE_BYTES = 8 << 20  # objects above it are read in slices by a client without a stack
LEAST_MEMORY_BYTES = 32 * SLICE_BYTES  # `burstcache.serve.slice_memory`; a smaller memory keeps no slices


def memory_misses(locality: Locality, setup: Setup) -> ReadMask:
    """Return the misses of the readers' memory. A request for slices misses unless memory has all of them."""
    reads = own_reads(locality, setup)
    return reads.requests_in(reads_past_memory(reads, setup))


def library_misses(locality: Locality, memory_bytes: int, repeats: Fraction) -> tuple[Fraction, Fraction]:
    """Return the mean misses per repetition of the library alone without a bound on staleness, and its GETs."""
    largest_bytes = min(memory_bytes // LARGEST_SHARE, MAX_WHOLE_BYTES)
    reads = library_reads(locality, memory_bytes)
    if reads.touches is not None:
        missed = _memory_misses(reads, memory_bytes, 1, largest_bytes, ENTRY_BYTES, whole=True)
        misses = reads.requests_in(missed).count(repeats) / locality.rate
        return misses, misses + reads.further_gets(missed, repeats)
    is_small = (locality.objects_bytes <= largest_bytes)[locality.ids]
    kept = locality.part(is_small)
    entries = replace(kept, sizes_bytes=kept.sizes_bytes + ENTRY_BYTES, _curves={})
    misses = (len(locality.ids) - len(kept.ids)) / locality.rate + entries.misses(memory_bytes, repeats=repeats)
    return misses, misses


def library_reads(locality: Locality, memory_bytes: int) -> Reads:
    """Return the reads of a log by the library alone, which with little memory reads no slices."""
    return Reads(locality, touches_of(locality, MAX_WHOLE_BYTES) if memory_bytes >= LEAST_MEMORY_BYTES else None)


def own_memory_misses(locality: Locality, processes: int, memory_bytes: int) -> ReadMask:
    """Return the misses of a custom cache in readers, which accepts any object or range without overhead per entry."""
    return _memory_misses(Reads(locality), memory_bytes, processes, memory_bytes, 0, whole=False)


def memory_bytes_of(size: str) -> int:
    """Parse a reader's memory such as `256MB` [bytes]. Raises `InvalidSettingError`."""
    number = size.removesuffix("MB")
    if not number.isdecimal() or not int(number):
        raise InvalidSettingError(f"size {size!r}: expected whole megabytes, such as 256MB")
    return int(number) * 1024**2


def node_misses(locality: Locality, setup: Setup) -> ReadMask:
    """Return the requests that miss in both the readers' memory and the always-on nodes, which have no slices."""
    reads = own_reads(locality, setup)
    return reads.requests_in(_reads_past_nodes(reads, setup, has_slices=False))


def own_reads(locality: Locality, setup: Setup) -> Reads:
    """Return the reads of a log by this system. A proxy and a reader without memory read no slices."""
    if setup.readers != "aws" or setup.reader_memory_bytes < LEAST_MEMORY_BYTES:
        return Reads(locality)
    return Reads(locality, touches_of(locality, LARGEST_OBJECT_BYTES[setup.front_door]))


def reads_past_memory(reads: Reads, setup: Setup) -> ReadMask:
    """Return the reads that miss in the readers' memory."""
    memory_bytes, processes = setup.reader_memory_bytes, setup.reader_processes
    largest_bytes = min(memory_bytes // LARGEST_SHARE, LARGEST_OBJECT_BYTES[setup.front_door])
    return _memory_misses(reads, memory_bytes, processes, largest_bytes, ENTRY_BYTES, whole=True)


def _reads_past_nodes(reads: Reads, setup: Setup, *, has_slices: bool) -> ReadMask:
    """Return the reads that miss in the readers' memory and the always-on nodes."""
    reaching = reads_past_memory(reads, setup)
    if not setup.always_on_nodes:
        return reaching
    node_bytes = node_capacity_bytes(setup.instance_type) or 0
    largest_bytes = min(LARGEST_OBJECT_BYTES[setup.front_door], node_bytes)
    losses = losses_of(setup, setup.instance_type)
    distances = _node_distances(reads, reaching, largest_bytes, setup.always_on_nodes, has_slices, losses)
    return distances.misses(reaching, int(node_bytes * reads.requests.rate))


def static_month(market: Market, copied_usd: Fraction | None) -> RunResult:
    """Return the run of a market's months without a policy.

    Args:
        market: The log, its repetitions, prices and setup.
        copied_usd: Hit value for which objects are copied to S3 Express [USD]. If None, there is no directory bucket.
    """
    demand, setup, reads = market.demand, market.setup, own_reads(market.locality, market.setup)
    missed = _reads_past_nodes(reads, setup, has_slices=has_slices_on_nodes(market))

    def misses(mask: ReadMask, reaching: Fraction) -> Fraction:
        """Return the number of requests, estimated for a sample, but at most those that reach the tier."""
        return min(reads.requests_in(mask).count(market.repeats) / market.locality.rate, reaching)

    requests = Fraction(demand.requests)
    n_past_memory = misses(reads_past_memory(reads, setup), requests) if setup.reader_memory_bytes else requests
    n_past_nodes = misses(missed, n_past_memory) if setup.always_on_nodes else n_past_memory
    repeats = market.all_repeats
    n, n_redis = round(requests * repeats), round((n_past_memory - n_past_nodes) * repeats)
    n_s3 = round(n_past_nodes * repeats)
    run = RunResult(
        n=n,
        n_s3=n_s3,
        n_lambda=0,
        n_redis=n_redis,
        n_memory=max(0, n - n_s3 - n_redis),
        lambda_ms=0,
        invocations=0,
        cold_starts=0,
        redis_s=round(setup.always_on_nodes * market.hours * repeats * 3600),
        redis_starts=0,
        s3_requests=n_s3,
        lambda_us_exact=0,
        redis_us_exact=0,
        end_us=0,
        guests=_fills_and_reports(market, reads.requests_in(missed), n_s3) if setup.always_on_nodes else NO_GUESTS,
    )
    return add_express(run, market, copied_usd, reads, missed, n_past_nodes)


def _fills_and_reports(market: Market, missed: ReadMask, n_missed: int) -> GuestUse:
    """Return upper bounds on always-on nodes' read-through fills and on the reports about them.

    A reader's reports are at least ten seconds apart, and a key's row is written at most once an hour. The bounds are
    the numbers of such intervals that contain a miss.
    """

    locality, repeats = market.locality, market.repeats
    intervals = -(-locality.period_us // MIN_BATCH_AGE_US)
    order, hours = _key_hours(locality)

    def reports(is_missed: NDArray[np.bool_]) -> Fraction:
        """Return the number of report intervals with a miss, estimated for a sample."""
        return min(Fraction(intervals), _distinct(locality.times_us[is_missed] // MIN_BATCH_AGE_US) / locality.rate)

    def row_writes(is_missed: NDArray[np.bool_]) -> Fraction:
        """Return the number of hours with a miss, summed over all keys."""
        return _distinct(hours[is_missed[order]]) / locality.rate

    def in_month(count: Callable[[NDArray[np.bool_]], Fraction]) -> int:
        return min(n_missed, ceil(mean(count(missed.first), count(missed.again), repeats) * market.all_repeats))

    return GuestUse(fills=n_missed, told=n_missed, told_batches=in_month(reports), seen_writes=in_month(row_writes))


def _distinct(ordered: NDArray[np.int64]) -> int:
    """Return the number of distinct values of a sorted array."""
    import numpy as np

    return int(np.count_nonzero(np.diff(ordered))) + 1 if len(ordered) else 0


@lru_cache(maxsize=1)
def _key_hours(locality: Locality) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indexes of requests sorted by key and time, and each sorted request's key and hour as an integer."""
    import numpy as np

    order = np.argsort(locality.ids, kind="stable")
    hours = locality.times_us // SEEN_AGAIN_US
    return order, (locality.ids * (int(hours.max()) + 1) + hours)[order]


def add_express(
    month: RunResult, market: Market, copied_usd: Fraction | None, reads: Reads, reaching: ReadMask, requests: Fraction
) -> RunResult:
    """Reassign requests from S3 to S3 Express if a copy serves them.

    Express copies slices one by one. Of the requests for them, it serves the share that it serves of the slices.

    Args:
        month: The run without S3 Express.
        market: The log, its repetitions and prices.
        copied_usd: Hit value for which objects are copied [USD]. If None, there is no directory bucket.
        reads: The log's reads.
        reaching: The reads that reach S3 Express.
        requests: The mean number of requests that reach S3 Express per repetition, estimated for a sample.
    """
    repeats, has_slices = market.all_repeats, reads.touches is not None
    if has_slices:
        range_gets = round(reads.further_gets(reaching, market.repeats) * repeats)
        month = replace(month, range_gets=range_gets, largest_hit_bytes=market.setup.reader_memory_bytes)
    if copied_usd is None:
        return month
    cached = replace(market, locality=reads.cached)
    use = totals(cached, _copy_rules(cached, copied_usd), reaching.first, reaching.again)
    n_asked = reaching.count(market.repeats) / market.locality.rate
    missed = n_asked - use.served
    if has_slices and n_asked:
        missed *= requests / n_asked
    served = requests - min(max(missed, Fraction(0)), requests)
    n_express = min(round(served * repeats), month.n_s3)
    read_bytes = use.served_bytes * repeats  # slices are read whole
    if not has_slices:
        read_bytes *= market.sent_share * (served / use.served if use.served else 1)
    express = ExpressUse(
        asks=round(n_asked * repeats) if has_slices else month.n_s3,
        copies=round(use.copies * repeats),
        copied_bytes=round(use.copied_bytes * repeats),
        read_bytes=round(read_bytes),
        byte_s=round(use.held_byte_us * repeats / US_PER_S),
    )
    left = Fraction(month.n_s3 - n_express, month.n_s3) if month.n_s3 else Fraction(0)
    n_s3, s3_requests = month.n_s3 - n_express, month.s3_requests - n_express
    return replace(
        month,
        n_s3=n_s3,
        s3_requests=s3_requests,
        range_gets=round(month.range_gets * left),
        n_express=n_express,
        express=express,
    )


def has_slices_on_nodes(market: Market) -> bool:
    """Return whether slices pay on the market's nodes."""
    setup = market.setup
    return setup.nodes > 0 and slice_pays(
        setup.instance_type, is_same_zone=not setup.far_readers, wait_usd=market.usd_per_hit, sheet=market.prices
    )


def _copy_rules(market: Market, copied_usd: Fraction) -> CopyRules:
    largest_bytes = LARGEST_OBJECT_BYTES[market.setup.front_door]
    return _cached_rules(market.locality, Same(market.prices), copied_usd, largest_bytes)


@lru_cache(maxsize=8)
def _cached_rules(locality: Locality, prices: Same[PriceSheet], copied_usd: Fraction, largest_bytes: int) -> CopyRules:
    """Return the rule by which Express copies objects up to a size, and slices."""
    is_cacheable = locality.objects_bytes <= largest_bytes
    return price_rule(locality.sizes_bytes, prices.value, float(copied_usd), is_cacheable=is_cacheable)


@dataclass(frozen=True, slots=True, eq=False)
class _StackDistances:
    """Stack distances of reads in two repetitions: the LRU memory needed for a hit, or `NEVER` [bytes]."""

    both: NDArray[np.int64]

    def misses(self, reaching: ReadMask, memory_bytes: int) -> ReadMask:
        """Return the misses of an LRU cache of this size among the reads that reach it."""
        missed = (self.both < 0) | (self.both > memory_bytes)
        half = len(missed) // 2
        return ReadMask(reaching.first & missed[:half], reaching.again & missed[half:])


@lru_cache(maxsize=8)
def _memory_misses(
    reads: Reads, memory_bytes: int, processes: int, largest_bytes: int, entry_bytes: int, *, whole: bool
) -> ReadMask:
    """Return the misses of the readers' memory.

    If `whole`, the size limit applies to the whole object of a range, otherwise to the range itself.
    """
    import numpy as np

    read = reads.cached
    every = np.ones(len(read.ids), np.bool_)
    if not memory_bytes:
        return ReadMask(every, every)
    sizes_bytes = read.sizes_bytes + entry_bytes
    is_small = (read.objects_bytes if whole else read.sizes_bytes) <= largest_bytes
    first, again = every.copy(), every.copy()
    for is_own in reads.turns(processes):
        own = ReadMask(is_own, is_own)
        missed = _distances(read, own, sizes_bytes, is_small).misses(own, int(memory_bytes * read.rate))
        first[is_own], again[is_own] = missed.first[is_own], missed.again[is_own]
    return ReadMask(first, again)


@lru_cache(maxsize=2)  # 16 bytes per request; consecutive calls often share the memory and node count
def _node_distances(
    reads: Reads, reaching: ReadMask, largest_bytes: int, nodes: int, has_slices: bool, losses: CacheLosses | None
) -> _StackDistances:
    read = reads.cached
    is_kept = read.objects_bytes <= largest_bytes
    if reads.touches is not None and not has_slices:
        is_kept &= ~reads.touches.is_slice
    return _distances(read, reaching, read.sizes_bytes, is_kept, nodes, losses)


def _distances(
    locality: Locality,
    reaching: ReadMask,
    sizes_bytes: NDArray[np.int64],
    is_small: NDArray[np.bool_],
    nodes: int = 1,
    losses: CacheLosses | None = None,
) -> _StackDistances:
    """Return the reads' stack distances at their nodes. Each node is an LRU cache that larger objects bypass."""
    import numpy as np

    from burstcache_sim.engine.stack_distance import NEVER, stack_distances

    ids, objects = locality.twice()
    sizes_bytes, homes = sizes_bytes[objects], locality.homes(nodes)[objects]
    enter = np.concatenate((reaching.first, reaching.again)) & is_small[objects][ids]
    both, is_renewed = np.full(len(enter), NEVER, np.int64), np.zeros(len(objects), np.bool_)
    for node in range(nodes):
        at_node = enter & (homes[ids] == node)
        both[at_node], _ = stack_distances(ids[at_node], sizes_bytes, is_renewed)
    if losses is not None:
        both[losses.lost(ids, locality.times_twice_us, enter)] = NEVER
    return _StackDistances(both)
