"""What a trace demands, as far as the bills of other systems depend on it.

Of a sample of a log's keys (`traces.trace.Sample`), the demand is that of the whole log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.digest import MAX_AGE_S, REFRESH_AT
from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.slices import SLICE_BYTES
from burstcache_sim.bill.usage import METERED_BYTES
from burstcache_sim.traces.trace import exact_sum

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from burstcache_sim.traces.trace import Trace

_WAKES_AFTER_US = 600 * US_PER_S  # a function without a request for this long starts cold
_LEAST_PERIOD_US = 60 * US_PER_S  # a single request would be repeated millions of times a month
_MOST_PERIOD_US = 100 * 8_760 * 3_600 * US_PER_S
BYTES_PER_KB = 1024
_INVOCATION_US = 15 * 60 * US_PER_S
_REFRESH_US = round(REFRESH_AT * MAX_AGE_S * US_PER_S)
REDIS_RESTART_US = 60 * US_PER_S  # 30 s to stop, 30 s to boot
_REDIS_LEAST_US = 60 * US_PER_S


_PER_REPETITION = (
    *("requests", "period_us", "body_bytes", "wakes", "perfect_redis_us", "metered_512kb", "invocation_misses"),
    *("busy_s", "digest_reads", "internet_bytes", "moved_bytes", "slices"),
)


@dataclass(frozen=True, slots=True)
class Demand:
    """A trace in sums. `period_us` is the period of hourly bills, at least the trace and a minute."""

    requests: int
    objects: int
    first_us: int
    last_us: int
    period_us: int
    body_bytes: int  # of all answers together, as far as they were sent
    stored_bytes: int  # of all objects together
    wakes: int  # how often the first request after ten quiet minutes comes
    perfect_redis_us: int  # how long a node must run if the trace is known
    metered_512kb: int  # units of an HTTP API, at least one per request
    invocation_misses: int  # of a function that starts anew every 15 minutes with an empty memory
    busy_s: int = 0  # seconds with a request [s]
    digest_reads: int = 0  # of one reader that gets all requests
    internet_bytes: int = 0  # of all answers, also of those that this system redirects to S3
    moved_bytes: int = 0  # of all answers, a kilobyte each at least: what ElastiCache Serverless counts
    slices: int = 0  # of all answers, at least one each, as `core.pool.slices` cuts objects

    def repeated(self, times: Fraction) -> Demand:
        """Return the demand of that many repetitions, one after the other, of the same objects."""
        many = {name: round(getattr(self, name) * times) for name in _PER_REPETITION}
        return replace(self, **many, last_us=self.first_us + many["period_us"])


def demand_of(trace: Trace, *, object_bytes: int, period_us: int | None = None) -> Demand:
    """Return a trace's demand.

    Args:
        trace: Requests; objects without a size have `object_bytes`.
        object_bytes: Size of an object whose size is not known [bytes].
        period_us: The period that hourly prices are billed for, never less than the trace's duration [us].

    Raises:
        InvalidSettingError: The trace is empty, or the period is longer than a hundred years.
    """
    import numpy as np

    if len(trace) == 0:
        raise InvalidSettingError("the trace is empty: expected at least one request")
    if (period_us or 0) > _MOST_PERIOD_US:
        raise InvalidSettingError("--period-hours: expected at most 876000, which is a hundred years")
    first_us, last_us = int(trace.arrivals_us[0]), int(trace.arrivals_us[-1])
    rate = sample_rate(trace)
    body_bytes = per_request(
        trace, object_bytes * len(trace) if trace.bodies_bytes is None else exact_sum(trace.bodies_bytes)
    )
    busy_s = 1 + int(np.count_nonzero(np.diff(trace.arrivals_us // US_PER_S)))
    return Demand(
        requests=requests_of(trace),
        objects=round(stored_objects(trace) / rate),
        first_us=first_us,
        last_us=last_us,
        period_us=max(period_us or 0, last_us - first_us, _LEAST_PERIOD_US),
        body_bytes=body_bytes,
        stored_bytes=round(stored_bytes(trace, object_bytes) / rate),
        wakes=1 + int(np.count_nonzero(np.diff(trace.arrivals_us) > _WAKES_AFTER_US)),
        perfect_redis_us=perfect_redis_us(trace.arrivals_us),
        metered_512kb=per_request(trace, metered_512kb(trace, object_bytes)),
        invocation_misses=min(requests_of(trace), round(_invocation_misses(trace) / rate)),
        # The keys that are not in a sample may be asked for in other seconds: the ceiling.
        busy_s=min(round(busy_s / rate), 1 + (last_us - first_us) // US_PER_S),
        digest_reads=min(round(_digest_reads(trace) / rate), 1 + (last_us - first_us) // _REFRESH_US),
        internet_bytes=body_bytes,
        moved_bytes=per_request(trace, _moved_bytes(trace, object_bytes)),
        slices=per_request(trace, units(trace, object_bytes, SLICE_BYTES)),
    )


def sample_rate(trace: Trace) -> Fraction:
    """Return the share of the log's keys that a trace has."""
    return Fraction(1) if trace.sample is None else Fraction(trace.sample.rate)


def requests_of(trace: Trace) -> int:
    """Return how many requests the log has that a trace stands for."""
    return len(trace) if trace.sample is None else trace.sample.requests


def per_request(trace: Trace, amount: int) -> int:
    """Return what a sum over a trace's requests is for its log, whose number of requests is known exactly."""
    return round(Fraction(amount * requests_of(trace), len(trace))) if len(trace) else 0


def perfect_redis_us(arrivals_us: ArrayLike) -> int:
    """Return how long a node must run to serve every request, billed at least a minute a run [us].

    The thesis's perfect automation process runs from the first to the last request of a spike. For any trace it also
    stops in between, where a stop and a boot (60 s) fit and save money: such gaps separate blocks of requests, and the
    result is the cheapest division of the blocks into runs.

    Source:
        Thesis, sections 5.1.4 "Comparison Systems" and 5.5 "Perfect Automation Process".
    """
    blocks = _blocks(arrivals_us)
    # cost[i]: cheapest service of the first i blocks. A run over blocks j to i costs max(60 s, end - start): runs that
    # are longer are judged by cost[j] - start alone, the short ones by cost[j], which only grows: the earliest is best.
    cost, short, best_long = [0], 0, 10**30
    for i, (_, end_us) in enumerate(blocks):
        while end_us - blocks[short][0] > _REDIS_LEAST_US and short < i:
            best_long = min(best_long, cost[short] - blocks[short][0])
            short += 1
        newest_us = cost[short] + max(_REDIS_LEAST_US, end_us - blocks[short][0])
        cost.append(min(newest_us, best_long + end_us))
    return cost[-1]


def _blocks(arrivals_us: ArrayLike) -> list[tuple[int, int]]:
    """Return the first and last request of every block separated from the others by at least a stop and a boot."""
    import numpy as np

    times_us = np.asarray(arrivals_us, dtype=np.int64)
    before_gap = np.flatnonzero(np.diff(times_us) >= REDIS_RESTART_US)
    starts = times_us[np.concatenate(([0], before_gap + 1))].tolist()
    ends = times_us[np.concatenate((before_gap, [len(times_us) - 1]))].tolist()
    return list(zip(starts, ends, strict=True))


def stored_objects(trace: Trace) -> int:
    """Return how many objects a trace has; one without keys has one."""
    import numpy as np

    return 1 if trace.key_ids is None else len(np.unique(trace.key_ids))


def stored_bytes(trace: Trace, object_bytes: int) -> int:
    """Return the total size of a trace's objects; those without a size have `object_bytes` [bytes]."""

    if len(trace) == 0:
        return 0
    if trace.key_ids is None:
        return object_bytes if trace.sizes_bytes is None else int(trace.sizes_bytes.max())
    if trace.sizes_bytes is None:
        return stored_objects(trace) * object_bytes
    return exact_sum(trace.largest_bytes(trace.sizes_bytes))  # an answer without a body (304) has no size


def metered_512kb(trace: Trace, object_bytes: int) -> int:
    """Return what an HTTP API meters for a trace: a unit per request and 512 KB of its answer."""
    return units(trace, object_bytes, METERED_BYTES)


def _moved_bytes(trace: Trace, object_bytes: int) -> int:
    import numpy as np

    if trace.bodies_bytes is None:
        return len(trace) * max(BYTES_PER_KB, object_bytes)
    return exact_sum(np.maximum(BYTES_PER_KB, trace.bodies_bytes))


def units(trace: Trace, object_bytes: int, unit_bytes: int) -> int:
    """Return how many units of some size the bodies of a trace are, each rounded up, and at least one a request."""
    import numpy as np

    if trace.bodies_bytes is None:
        return len(trace) * max(1, -(-object_bytes // unit_bytes))
    return exact_sum(np.maximum(1, -(-trace.bodies_bytes // unit_bytes)))


def _digest_reads(trace: Trace) -> int:
    """Return how often a reader of all requests reads the digest: each time that what it knows is due."""
    import numpy as np

    next_read = np.searchsorted(trace.arrivals_us, trace.arrivals_us + _REFRESH_US).tolist()
    reads = place = 0
    while place < len(next_read):
        reads, place = reads + 1, next_read[place]
    return reads


def _invocation_misses(trace: Trace) -> int:
    """Return how often an object is requested for the first time within 15 minutes, counted from the first request."""
    import numpy as np

    runs = (trace.arrivals_us - trace.arrivals_us[0]) // _INVOCATION_US
    if trace.key_ids is None:
        return 1 + int(np.count_nonzero(np.diff(runs)))
    return len(np.unique(runs * (int(trace.key_ids.max()) + 1) + trace.key_ids))
