"""What answers a log's requests in a month where nothing is started for them: memory, a node that never stops, Express.

A reader asks its own memory, then the key's home node, then a copy in S3 Express, then S3; what a rung holds, or has
read, stays there when the log comes again. So the first repetition of a month starts empty and the others find what
the one before has left: both are computed, and the month is their sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.gathering import AT_LEAST_US
from burstcache.core.parameters import US_PER_S
from burstcache.core.seen import SEEN_AGAIN_US
from burstcache_sim.bill.express import totals
from burstcache_sim.bill.locality import Locality, mean
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.world.express import CopyRules
from burstcache_sim.world.result import NO_GUESTS, ExpressUse, GuestUse, RunResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Of the reader's memory (`burstcache.serve.memory_tier`): what an entry takes next to its body, with some eight
# headers, and the share of the memory above which an object is not kept.
ENTRY_BYTES = 512 + 8 * 150
LARGEST_SHARE = 8


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Which requests reach a rung: in the first repetition, and in each further one."""

    first: NDArray[np.bool_]
    again: NDArray[np.bool_]

    def count(self, repeats: Fraction) -> Fraction:
        """Return the mean of a repetition."""
        return mean(int(self.first.sum()), int(self.again.sum()), repeats)


def past_memory(locality: Locality, setup: Setup) -> Asked:
    """Return which requests the readers' memory leaves."""
    largest_bytes = LARGEST_OBJECT_BYTES[setup.front_door]
    memory_bytes = setup.reader_memory_bytes
    largest_bytes = min(memory_bytes // LARGEST_SHARE, largest_bytes)
    return _past_memory(locality, memory_bytes, setup.reader_processes, largest_bytes, ENTRY_BYTES, whole=True)


def library_misses(locality: Locality, memory_bytes: int, repeats: Fraction) -> Fraction:
    """Return the mean misses of a repetition in a memory of the library, whatever the age of what it holds."""
    largest_bytes = memory_bytes // LARGEST_SHARE
    is_small = (locality.objects_bytes + ENTRY_BYTES <= largest_bytes)[locality.ids]
    kept = locality.part(is_small)
    entries = replace(kept, sizes_bytes=kept.sizes_bytes + ENTRY_BYTES, _curves={})
    return (len(locality.ids) - len(kept.ids)) / locality.rate + entries.misses(memory_bytes, repeats=repeats)


def past_own_memory(locality: Locality, processes: int, memory_bytes: int) -> Asked:
    """Return which requests a memory of the readers' own making leaves: any object or range, only bodies in it."""
    return _past_memory(locality, memory_bytes, processes, memory_bytes, 0, whole=False)


def memory_bytes_of(size: str) -> int:
    """Return a reader's memory such as `256MB` [bytes]; raises `InvalidSettingError`."""
    number = size.removesuffix("MB")
    if not number.isdecimal() or not int(number):
        raise InvalidSettingError(f"size {size!r}: expected whole megabytes, such as 256MB")
    return int(number) * 1024**2


def past_nodes(locality: Locality, setup: Setup) -> Asked:
    """Return which requests the readers' memory and then nodes leave that never stop."""
    asked = past_memory(locality, setup)
    if not setup.always_on_nodes:
        return asked
    one_bytes = node_capacity_bytes(setup.instance_type) or 0
    largest_bytes = min(LARGEST_OBJECT_BYTES[setup.front_door], one_bytes)
    distances = _at_nodes(locality, asked, largest_bytes, setup.always_on_nodes)
    return distances.left(asked, int(one_bytes * locality.rate))


def month_of(market: Market, rule: CopyRules | None) -> RunResult:
    """Return the run of a market's months of a setup in which nothing is decided.

    Args:
        market: The log and how often it comes, the prices, the setup.
        rule: When objects are copied to S3 Express; None: never, there is no bucket.
    """
    locality, demand, setup = market.locality, market.demand, market.setup
    asked, left_asked = past_memory(locality, setup), past_nodes(locality, setup)

    def most(asked: Asked, above: Fraction) -> Fraction:
        """Return how many requests a rung leaves: of a sample an estimate, and the rest of a known number are hits."""
        return min(asked.count(market.repeats) / locality.rate, above)

    requests = Fraction(demand.requests)
    reached = most(asked, requests) if setup.reader_memory_bytes else requests
    left = most(left_asked, reached) if setup.always_on_nodes else reached
    repeats = market.all_repeats
    n, n_redis = round(requests * repeats), round((reached - left) * repeats)
    n_s3 = round(left * repeats)
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
        guests=_told(market, left_asked, n_s3) if setup.always_on_nodes else NO_GUESTS,
    )
    return with_express(run, market, rule, left_asked, left)


def _told(market: Market, left: Asked, missed: int) -> GuestUse:
    """Return what readers bring to nodes that never stop, and tell of it, at the ceiling.

    A reader's report follows the one before ten seconds later at the soonest, and a key is noted as seen again after an
    hour: no more of them begin than there are such spans with a miss.
    """

    locality, repeats = market.locality, market.repeats
    spans = -(-locality.period_us // AT_LEAST_US)
    order, hours = _by_key(locality)

    def reports(is_left: NDArray[np.bool_]) -> Fraction:
        """Return how many spans of a report have a miss; of a sample an estimate."""
        return min(Fraction(spans), _runs(locality.times_us[is_left] // AT_LEAST_US) / locality.rate)

    def sights(is_left: NDArray[np.bool_]) -> Fraction:
        """Return how many hours of keys have a miss."""
        return _runs(hours[is_left[order]]) / locality.rate

    def in_month(count: Callable[[NDArray[np.bool_]], Fraction]) -> int:
        return min(missed, ceil(mean(count(left.first), count(left.again), repeats) * market.all_repeats))

    batches = min(missed, market.setup.reader_processes * in_month(reports))
    return GuestUse(fills=missed, told=missed, told_batches=batches, seen_writes=in_month(sights))


def _runs(ordered: NDArray[np.int64]) -> int:
    """Return how many different values there are in a row."""
    import numpy as np

    return int(np.count_nonzero(np.diff(ordered))) + 1 if len(ordered) else 0


@lru_cache(maxsize=1)
def _by_key(locality: Locality) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the requests in the order of their keys and times, and the hour of a key that each lies in."""
    import numpy as np

    order = np.argsort(locality.ids, kind="stable")
    hours = locality.times_us // SEEN_AGAIN_US
    return order, (locality.ids * (int(hours.max()) + 1) + hours)[order]


def with_express(
    month: RunResult, market: Market, rule: CopyRules | None, asked: Asked, reached: Fraction
) -> RunResult:
    """Return a month's run in which copies in S3 Express answer what they can of what S3 did.

    Args:
        month: The run without them.
        market: The log and how often it comes, the prices.
        rule: When objects are copied; None: never, there is no bucket.
        asked: Which requests ask for a copy.
        reached: How many they are in the mean repetition; of a sample an estimate.
    """
    if rule is None:
        return month
    repeats = market.all_repeats
    use = totals(market, rule, asked.first, asked.again)
    missed = asked.count(market.repeats) / market.locality.rate - use.served
    served = reached - min(max(missed, Fraction(0)), reached)
    n_express = min(round(served * repeats), month.n_s3)
    express = ExpressUse(
        asks=month.n_s3,
        copies=round(use.copies * repeats),
        copied_bytes=round(use.copied_bytes * repeats),
        read_bytes=round(use.served_bytes * market.sent_share * repeats * (served / use.served if use.served else 1)),
        byte_s=round(use.held_byte_us * repeats / US_PER_S),
    )
    n_s3, s3_requests = month.n_s3 - n_express, month.s3_requests - n_express
    return replace(month, n_s3=n_s3, s3_requests=s3_requests, n_express=n_express, express=express)


@dataclass(frozen=True, slots=True, eq=False)
class _Distances:
    """How much memory an LRU cache must have to answer each request of two repetitions; `NEVER` for no memory."""

    both: NDArray[np.int64]

    def left(self, asked: Asked, most_bytes: int) -> Asked:
        """Return which of the requests that ask it a cache with this much memory does not answer."""
        left = (self.both < 0) | (self.both > most_bytes)
        half = len(left) // 2
        return Asked(asked.first & left[:half], asked.again & left[half:])


@lru_cache(maxsize=8)
def _past_memory(
    locality: Locality, memory_bytes: int, processes: int, largest_bytes: int, entry_bytes: int, *, whole: bool
) -> Asked:
    """Return which requests the readers' memory leaves; they take turns at random, as a rival's readers do.

    Whether an object, or a range of one, is small enough is decided by the size of the whole object, or by its own.
    """
    import numpy as np

    everything = np.ones(len(locality.ids), np.bool_)
    if not memory_bytes:
        return Asked(everything, everything)
    sizes_bytes = locality.sizes_bytes + entry_bytes
    is_small = (locality.objects_bytes if whole else locality.sizes_bytes) + entry_bytes <= largest_bytes
    first, again = everything.copy(), everything.copy()
    for is_ours in locality.turns(processes):
        asked = Asked(is_ours, is_ours)
        left = _distances(locality, asked, sizes_bytes, is_small).left(asked, int(memory_bytes * locality.rate))
        first[is_ours], again[is_ours] = left.first[is_ours], left.again[is_ours]
    return Asked(first, again)


@lru_cache(maxsize=2)  # sixteen bytes a request; setups with as many nodes below one memory come in a row
def _at_nodes(locality: Locality, asked: Asked, largest_bytes: int, nodes: int) -> _Distances:
    return _distances(locality, asked, locality.sizes_bytes, locality.objects_bytes <= largest_bytes, nodes)


def _distances(
    locality: Locality, asked: Asked, sizes_bytes: NDArray[np.int64], is_small: NDArray[np.bool_], nodes: int = 1
) -> _Distances:
    """Return the distances of the requests that ask nodes, each an LRU cache that larger objects pass by."""
    import numpy as np

    from burstcache_sim.engine.stack_distance import NEVER, stack_distances

    ids, objects = locality.twice()
    sizes_bytes, homes = sizes_bytes[objects], locality.homes(nodes)[objects]
    enter = np.concatenate((asked.first, asked.again)) & is_small[objects][ids]
    both, is_renewed = np.full(len(enter), NEVER, np.int64), np.zeros(len(objects), np.bool_)
    for node in range(nodes):
        at_node = enter & (homes[ids] == node)
        both[at_node], _ = stack_distances(ids[at_node], sizes_bytes, is_renewed)
    return _Distances(both)
