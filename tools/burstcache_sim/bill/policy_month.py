"""A month under a node-use policy, with nodes between readers' memory and S3 Express.

Nodes receive the misses of readers' memory, and node misses go to S3 Express. Nodes, memory and copies keep their
state between repetitions. The log is replayed once, and then twice in a row. The second pass represents every further
repetition. Readers batch their reports, so decisions lag behind the requests that cause them.
"""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from burstcache.core.batching import MIN_BATCH_AGE_US
from burstcache_sim.bill.locality import Locality, mean
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.bill.reads import ReadMask
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.bill.static_tiers import add_express, memory_misses, own_reads, reads_past_memory
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import GuestUse, RunResult
from burstcache_sim.world.scenario import Scenario, numbered_keys
from burstcache_sim.world.timings import THESIS_TIMINGS, begun_late

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.policies.policy import WorthPolicy

# A burst's first request opens a report. The request that justifies a boot follows soon, so a boot waits for almost the
# whole report interval. Cache functions start throughout the burst, on average in the middle of a report interval.
TIMINGS = begun_late(THESIS_TIMINGS, starts_us=MIN_BATCH_AGE_US // 2, boots_us=MIN_BATCH_AGE_US)
_COUNTS = tuple(field.name for field in fields(RunResult) if field.type == "int")
# Counts that are proportional to the number of keys. A sample's counts are divided by its rate.
_PER_KEY = {
    *("n_s3", "lambda_ms", "lambda_us_exact", "invocations", "handovers", "cold_starts"),
    *("fills", "loads", "told", "told_batches", "seen_writes"),
}
_GUEST_COUNTS = tuple(field.name for field in fields(GuestUse))


def policy_month(market: Market, policy: WorthPolicy, copied_usd: Fraction | None) -> RunResult:
    """Return the run of a market's months under a policy that starts and stops nodes.

    Args:
        market: The log, its repetitions, prices and setup.
        policy: A policy with read-through entries.
        copied_usd: As for `static_month` [USD].
    """
    import numpy as np

    locality, repeats = market.locality, market.all_repeats
    past_memory, policy = memory_misses(locality, market.setup), policy.of_sample(locality.rate)
    too_large, (once, again), _ = _policy_load(locality, past_memory, LARGEST_OBJECT_BYTES[market.setup.front_door])
    first, both = _once_and_twice(locality, market.setup, policy)
    is_missed = np.concatenate((too_large.first, too_large.again))
    is_missed[np.concatenate((once, again))] = np.frombuffer(both.tiers.encode(), np.uint8) == ord("S")
    missed = ReadMask(is_missed[: len(locality.ids)], is_missed[len(locality.ids) :])

    def in_proportion(once: int, twice: int) -> Fraction:
        # If the log is longer than a month, only the log's beginning counts.
        return mean(once, twice - once, market.repeats) * repeats

    def in_month(name: str, once: object, twice: object) -> int:
        amount = in_proportion(int(getattr(once, name)), int(getattr(twice, name)))
        return round(amount / locality.rate if name in _PER_KEY else amount)

    counts: dict[str, Any] = {name: in_month(name, first, both) for name in _COUNTS}
    guests = {name: in_month(name, first.guests, both.guests) for name in _GUEST_COUNTS}
    max_batches = round(market.demand.busy_s * repeats)
    guests["told_batches"] = min(guests["told"], guests["told_batches"], max_batches)
    requests = round(market.demand.requests * repeats)
    n_past_memory = min(requests, round(past_memory.count(market.repeats) * repeats / locality.rate))
    n_past_memory = n_past_memory if market.setup.reader_memory_bytes else requests
    n_too_large = round(too_large.count(market.repeats) * repeats / locality.rate)
    counts["n_s3"] = n_s3 = min(counts["n_s3"] + n_too_large, n_past_memory)
    served = counts["n_lambda"] + counts["n_redis"]
    n_lambda = (n_past_memory - n_s3) * counts["n_lambda"] // served if served else 0
    counts |= {"n_lambda": n_lambda, "n_redis": n_past_memory - n_s3 - n_lambda, "n_memory": requests - n_past_memory}
    counts["s3_requests"] = n_s3 + guests["loads"] + counts["cold_starts"]
    rest: dict[str, Any] = {"n": requests, "end_us": 0, "tiers": "", "lambda_spans_us": (), "redis_spans_us": ()}
    month = replace(first, **(counts | rest), guests=GuestUse(**guests))
    reads = own_reads(locality, market.setup)
    past, of_missed = reads_past_memory(reads, market.setup), reads.reads_of(missed)
    reaching = ReadMask(past.first & of_missed.first, past.again & of_missed.again)
    return add_express(month, market, copied_usd, reads, reaching, Fraction(n_s3) / repeats)


@lru_cache(maxsize=1)  # callers bill a repetition and then a month of the same log
def _once_and_twice(locality: Locality, setup: Setup, policy: WorthPolicy) -> tuple[RunResult, RunResult]:
    """Replay the log once, and separately twice in a row, recording the tier of each request."""
    past_memory, largest_bytes = memory_misses(locality, setup), LARGEST_OBJECT_BYTES[setup.front_door]
    _, _, traces = _policy_load(locality, past_memory, largest_bytes)
    capacity_bytes = max(1, int((node_capacity_bytes(setup.instance_type) or 0) * locality.rate))
    first, both = (
        Scenario(trace, setup.nodes, capacity_bytes, timings=TIMINGS, always_on=setup.always_on_nodes)
        for trace in traces
    )
    return replay_each([policy], first, details=True)[0], replay_each([policy], both, details=True)[0]


@lru_cache(maxsize=1)  # shared by all node types; 80 bytes per request
def _policy_load(
    locality: Locality, past_memory: ReadMask, largest_bytes: int
) -> tuple[ReadMask, tuple[Any, Any], tuple[Trace, Trace]]:
    """Split the misses of readers' memory into requests for cacheable and for oversized objects.

    Returns:
        Masks of the requests for oversized objects, which only S3 serves. Indices of the other requests in the first
        and second repetition, numbered consecutively. Traces of these requests over one repetition and over two
        repetitions.
    """
    import numpy as np

    is_small = (locality.objects_bytes <= largest_bytes)[locality.ids]
    once = np.flatnonzero(past_memory.first & is_small)
    again = np.flatnonzero(past_memory.again & is_small) + len(locality.ids)
    names = numbered_keys(len(locality.twice()[1]))
    traces = _trace(locality, once, names), _trace(locality, np.concatenate((once, again)), names)
    return ReadMask(past_memory.first & ~is_small, past_memory.again & ~is_small), (once, again), traces


def _trace(locality: Locality, indices: NDArray[np.int64], names: tuple[str, ...]) -> Trace:
    """Return the trace of the requests at these indices of two repetitions."""
    count, (both, objects) = len(locality.ids), locality.twice()
    ids = both[indices]
    times_us = locality.times_us[indices % count] + indices // count * locality.period_us
    return Trace(times_us, ids.astype("int32"), locality.sizes_bytes[objects[ids]], names)
