"""A month under a policy that judges nodes by their use: below the readers' memory, above S3 Express.

The policy meets what the readers' memory leaves; what no node answers asks Express. Nodes, memory and copies are as the
repetition before has left them: the log is replayed once and twice in a row, the second is what every further one is.
Readers gather what they report, so what a request decides begins later.
"""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from burstcache.core.gathering import AT_LEAST_US
from burstcache_sim.bill.ladder import Asked, past_memory, with_express
from burstcache_sim.bill.locality import Locality, mean
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import GuestUse, RunResult
from burstcache_sim.world.scenario import Scenario, numbered_keys
from burstcache_sim.world.timings import THESIS_TIMINGS, begun_late

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.policies.policy import WorthPolicy
    from burstcache_sim.world.express import CopyRules

# A burst's first request begins a report, and the one that pays for a boot comes soon after it. Cache functions start
# all through the burst, on average in the middle of the time that a report gathers.
TIMINGS = begun_late(THESIS_TIMINGS, starts_us=AT_LEAST_US // 2, boots_us=AT_LEAST_US)
_COUNTS = tuple(field.name for field in fields(RunResult) if field.type == "int")
# Of these a log has as many times more as keys than a sample.
_OF_KEYS = {
    *("n_s3", "lambda_ms", "lambda_us_exact", "invocations", "handovers", "cold_starts"),
    *("fills", "loads", "told", "told_batches", "seen_writes"),
}
_GUESTS = tuple(field.name for field in fields(GuestUse))


def month_under(market: Market, policy: WorthPolicy, rule: CopyRules | None) -> RunResult:
    """Return the run of a market's months of a setup whose nodes a policy starts and stops.

    Args:
        market: The log and how often it comes, the prices, the setup.
        policy: What decides; it takes guests.
        rule: When objects are copied to S3 Express; None: never, there is no bucket.
    """
    import numpy as np

    locality, repeats = market.locality, market.all_repeats
    asked, policy = past_memory(locality, market.setup), policy.of_sample(locality.rate)
    too_large, (once, again), _ = _met(locality, asked, LARGEST_OBJECT_BYTES[market.setup.front_door])
    first, both = _once_and_twice(locality, market.setup, policy)
    is_left = np.concatenate((too_large.first, too_large.again))
    is_left[np.concatenate((once, again))] = np.frombuffer(both.tiers.encode(), np.uint8) == ord("S")
    left = Asked(is_left[: len(locality.ids)], is_left[len(locality.ids) :])

    def in_proportion(once: int, twice: int) -> Fraction:
        # A log longer than a month comes in part, from its start.
        return mean(once, twice - once, market.repeats) * repeats

    def in_month(name: str, once: object, twice: object) -> int:
        amount = in_proportion(int(getattr(once, name)), int(getattr(twice, name)))
        return round(amount / locality.rate if name in _OF_KEYS else amount)

    counts: dict[str, Any] = {name: in_month(name, first, both) for name in _COUNTS}
    guests = {name: in_month(name, first.guests, both.guests) for name in _GUESTS}
    readers = market.setup.reader_processes  # they take turns, so each has batches of its own
    most = round(market.demand.busy_s * readers * repeats)
    guests["told_batches"] = min(guests["told"], readers * guests["told_batches"], most)
    requests = round(market.demand.requests * repeats)
    reached = min(requests, round(asked.count(market.repeats) * repeats / locality.rate))
    reached = reached if market.setup.reader_memory_bytes else requests
    n_too_large = round(too_large.count(market.repeats) * repeats / locality.rate)
    counts["n_s3"] = n_s3 = min(counts["n_s3"] + n_too_large, reached)
    served = counts["n_lambda"] + counts["n_redis"]
    n_lambda = (reached - n_s3) * counts["n_lambda"] // served if served else 0
    counts |= {"n_lambda": n_lambda, "n_redis": reached - n_s3 - n_lambda, "n_memory": requests - reached}
    counts["s3_requests"] = n_s3 + guests["loads"] + counts["cold_starts"]
    rest: dict[str, Any] = {"n": requests, "end_us": 0, "tiers": "", "lambda_spans_us": (), "redis_spans_us": ()}
    month = replace(first, **(counts | rest), guests=GuestUse(**guests))
    return with_express(month, market, rule, left, Fraction(n_s3) / repeats)


@lru_cache(maxsize=1)  # the bills of a repetition and of a month are asked for in a row
def _once_and_twice(locality: Locality, setup: Setup, policy: WorthPolicy) -> tuple[RunResult, RunResult]:
    """Return the runs of the log and of the log twice in a row, with the tier of each request."""
    asked, largest_bytes = past_memory(locality, setup), LARGEST_OBJECT_BYTES[setup.front_door]
    _, _, traces = _met(locality, asked, largest_bytes)
    capacity_bytes = max(1, int((node_capacity_bytes(setup.instance_type) or 0) * locality.rate))
    first, both = (
        Scenario(trace, setup.nodes, capacity_bytes, timings=TIMINGS, always_on=setup.always_on_nodes)
        for trace in traces
    )
    return replay_each([policy], first, details=True)[0], replay_each([policy], both, details=True)[0]


@lru_cache(maxsize=1)  # many kinds of nodes meet the same requests; eighty bytes each
def _met(locality: Locality, asked: Asked, largest_bytes: int) -> tuple[Asked, tuple[Any, Any], tuple[Trace, Trace]]:
    """Return what the policy meets of the requests that the readers' memory leaves.

    Returns:
        The requests for objects that are too large, which S3 alone serves; the numbers of the others, of a repetition
        and of the next one, counted on; the traces of one repetition of them and of two.
    """
    import numpy as np

    is_small = (locality.objects_bytes <= largest_bytes)[locality.ids]
    once, again = np.flatnonzero(asked.first & is_small), np.flatnonzero(asked.again & is_small) + len(locality.ids)
    names = numbered_keys(len(locality.twice()[1]))
    traces = _trace(locality, once, names), _trace(locality, np.concatenate((once, again)), names)
    return Asked(asked.first & ~is_small, asked.again & ~is_small), (once, again), traces


def _trace(locality: Locality, indices: NDArray[np.int64], names: tuple[str, ...]) -> Trace:
    """Return requests by their number, counted on in a second repetition."""
    count, (both, objects) = len(locality.ids), locality.twice()
    ids = both[indices]
    times_us = locality.times_us[indices % count] + indices // count * locality.period_us
    return Trace(times_us, ids.astype("int32"), locality.sizes_bytes[objects[ids]], names)
