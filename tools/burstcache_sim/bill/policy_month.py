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
from burstcache.core.node_kinds import node_kind
from burstcache_sim.bill.locality import mean
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.bill.reads import ReadMask, Reads
from burstcache_sim.bill.scenarios import interruptions_of
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.bill.static_tiers import add_express, has_slices_on_nodes, own_reads, reads_past_memory
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import GuestUse, RunResult
from burstcache_sim.world.scenario import Scenario, numbered_keys
from burstcache_sim.world.timings import Timings, begun_late, node_timings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.policies.policy import WorthPolicy

# A burst's first request opens a report. The request that justifies a boot follows soon, so a boot waits for almost the
# whole report interval. Cache functions start throughout the burst, on average in the middle of a report interval.
_STARTS_LATE_US, _BOOTS_LATE_US = MIN_BATCH_AGE_US // 2, MIN_BATCH_AGE_US
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

    locality, repeats, policy = market.locality, market.all_repeats, policy.of_sample(market.locality.rate)
    reads = own_reads(locality, market.setup)
    past = reads_past_memory(reads, market.setup)
    past_memory = reads.requests_in(past)
    has_slices = reads.touches is not None and policy.takes_guests and has_slices_on_nodes(market)
    at_nodes, reaching = (reads, past) if has_slices else (Reads(locality), past_memory)
    too_large, (once, again), _ = _policy_load(at_nodes, reaching, LARGEST_OBJECT_BYTES[market.setup.front_door])
    first, both = _once_and_twice(at_nodes, reaching, market.setup, policy)
    is_missed = np.concatenate((too_large.first, too_large.again))
    is_missed[np.concatenate((once, again))] = np.frombuffer(both.tiers.encode(), np.uint8) == ord("S")
    past_nodes = ReadMask(*np.split(is_missed, 2))
    missed = at_nodes.requests_in(past_nodes)
    # A run counts slices, of which a request may need several.
    n_once, n_again = (
        int(np.count_nonzero(reached & ~left))
        for reached, left in ((past_memory.first, missed.first), (past_memory.again, missed.again))
    )
    first = replace(first, n_redis=n_once - first.n_lambda)
    both = replace(both, n_redis=n_once + n_again - both.n_lambda)

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
    n_s3 = min(round(missed.count(market.repeats) * repeats / locality.rate), n_past_memory)
    served = counts["n_lambda"] + counts["n_redis"]
    n_lambda = (n_past_memory - n_s3) * counts["n_lambda"] // served if served else 0
    counts |= {"n_s3": n_s3, "n_lambda": n_lambda, "n_redis": n_past_memory - n_s3 - n_lambda}
    counts["n_memory"] = requests - n_past_memory
    counts["s3_requests"] = n_s3 + guests["loads"] + counts["cold_starts"]
    rest: dict[str, Any] = {"n": requests, "end_us": 0, "tiers": "", "lambda_spans_us": (), "redis_spans_us": ()}
    month = replace(first, **(counts | rest), guests=GuestUse(**guests))
    if not has_slices:  # the slices of missed requests, as far as memory does not have them
        of_missed = reads.reads_of(missed)
        past_nodes = ReadMask(past.first & of_missed.first, past.again & of_missed.again)
    return add_express(month, market, copied_usd, reads, past_nodes, Fraction(n_s3) / repeats)


@lru_cache(maxsize=1)  # callers bill a repetition and then a month of the same log
def _once_and_twice(reads: Reads, reaching: ReadMask, setup: Setup, policy: WorthPolicy) -> tuple[RunResult, RunResult]:
    """Replay the reads that reach the nodes once, and separately twice in a row, recording the tier of each read."""
    locality = reads.requests
    _, _, traces = _policy_load(reads, reaching, LARGEST_OBJECT_BYTES[setup.front_door])
    capacity_bytes = max(1, int((node_capacity_bytes(setup.instance_type) or 0) * locality.rate))
    timings = month_timings(setup)
    first, both = (
        Scenario(
            trace,
            setup.nodes,
            capacity_bytes,
            timings=timings,
            always_on=setup.always_on_nodes,
            slices=_slices(reads),
            interruptions=None if setup.always_on_nodes else interruptions_of(setup, policy),
        )
        for trace in traces
    )
    return replay_each([policy], first, details=True)[0], replay_each([policy], both, details=True)[0]


@lru_cache(maxsize=1)  # shared by all node types; 80 bytes per read
def _policy_load(
    reads: Reads, reaching: ReadMask, largest_bytes: int
) -> tuple[ReadMask, tuple[Any, Any], tuple[Trace, Trace]]:
    """Split the reads that reach the nodes into those of cacheable objects and slices, and those of oversized objects.

    Returns:
        Masks of the reads of oversized objects, which only S3 serves. Indices of the other reads in the first and
        second repetition, numbered consecutively. Traces of these reads over one repetition and over two repetitions.
    """
    import numpy as np

    locality = reads.cached
    is_small = (locality.objects_bytes <= largest_bytes)[locality.ids]
    once = np.flatnonzero(reaching.first & is_small)
    again = np.flatnonzero(reaching.again & is_small) + len(locality.ids)
    names = numbered_keys(len(locality.twice()[1]))
    traces = _trace(reads, once, names), _trace(reads, np.concatenate((once, again)), names)
    return ReadMask(reaching.first & ~is_small, reaching.again & ~is_small), (once, again), traces


def _trace(reads: Reads, indices: NDArray[np.int64], names: tuple[str, ...]) -> Trace:
    """Return the trace of the reads at these indices of two repetitions. Slices have the last numbers."""
    import numpy as np

    locality = reads.cached
    count, (both, objects) = len(locality.ids), locality.twice()
    ids = both[indices]
    sizes_bytes = locality.sizes_bytes[objects[ids]]
    times_us = locality.times_us[indices % count] + indices // count * locality.period_us
    if reads.touches is not None:
        order = np.argsort(reads.touches.is_slice[objects], kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        ids = number[ids]
    return Trace(times_us, ids.astype("int32"), sizes_bytes, names)


def month_timings(setup: Setup) -> Timings:
    """Return the timings of the nodes' kind, with the delays of reports."""
    timings = node_timings(node_kind(setup.instance_type), setup.node_times)
    return begun_late(timings, starts_us=_STARTS_LATE_US, boots_us=_BOOTS_LATE_US)


def _slices(reads: Reads) -> int:
    """Return the number of slices in two repetitions."""
    if reads.touches is None:
        return 0
    return int(reads.touches.is_slice[reads.cached.twice()[1]].sum())
