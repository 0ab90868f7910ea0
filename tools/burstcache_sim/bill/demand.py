"""The demand of a trace: the totals that determine its bills.

For a sample of a log's keys (`traces.trace.KeySample`), the totals are estimates for the whole log.
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

_COLD_AFTER_US = 600 * US_PER_S  # a function idle for this long starts cold
_MIN_PERIOD_US = 60 * US_PER_S  # otherwise a single request would repeat millions of times a month
_MAX_PERIOD_US = 100 * 8_760 * 3_600 * US_PER_S
BYTES_PER_KB = 1024
_INVOCATION_US = 15 * 60 * US_PER_S
_REFRESH_US = round(REFRESH_AT * MAX_AGE_S * US_PER_S)
REDIS_RESTART_US = 60 * US_PER_S  # 30 s to stop, 30 s to boot
_REDIS_MIN_US = 60 * US_PER_S


_PER_REPETITION = (
    *("requests", "period_us", "body_bytes", "wakes", "perfect_redis_us", "metered_512kb", "invocation_misses"),
    *("busy_s", "digest_reads", "internet_bytes", "moved_bytes", "slices"),
)


@dataclass(frozen=True, slots=True)
class Demand:
    """Totals of a trace. Hourly prices apply to `period_us`, which is at least the trace's duration and a minute."""

    requests: int
    objects: int
    first_us: int
    last_us: int
    period_us: int
    body_bytes: int  # size of all response bodies
    stored_bytes: int  # total size of all objects
    wakes: int  # requests after ten idle minutes, including the first request
    perfect_redis_us: int  # running time of a node that knows the trace in advance
    metered_512kb: int  # billed units of an HTTP API, at least one per request
    invocation_misses: int  # misses of a function that restarts every 15 minutes with an empty memory
    busy_s: int = 0  # seconds with a request [s]
    digest_reads: int = 0  # digest reads of one reader that serves all requests
    internet_bytes: int = 0  # size of all responses, including responses that this system redirects to S3
    moved_bytes: int = 0  # size of all responses, at least a kilobyte each, as metered by ElastiCache Serverless
    slices: int = 0  # slices in all responses, at least one each (`core.pool.slices`)

    def repeated(self, times: Fraction) -> Demand:
        """Return the demand of consecutive repetitions with the same objects."""
        totals = {name: round(getattr(self, name) * times) for name in _PER_REPETITION}
        return replace(self, **totals, last_us=self.first_us + totals["period_us"])


def demand_of(trace: Trace, *, object_bytes: int, period_us: int | None = None) -> Demand:
    """Return a trace's demand.

    Args:
        trace: Requests. Objects without a size have `object_bytes`.
        object_bytes: Size of an object of unknown size [bytes].
        period_us: The period for hourly prices, extended to the trace's duration if the trace is longer [us].

    Raises:
        InvalidSettingError: The trace is empty, or the period is longer than a hundred years.
    """
    import numpy as np

    if len(trace) == 0:
        raise InvalidSettingError("the trace is empty: expected at least one request")
    if (period_us or 0) > _MAX_PERIOD_US:
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
        period_us=max(period_us or 0, last_us - first_us, _MIN_PERIOD_US),
        body_bytes=body_bytes,
        stored_bytes=round(stored_bytes(trace, object_bytes) / rate),
        wakes=1 + int(np.count_nonzero(np.diff(trace.arrivals_us) > _COLD_AFTER_US)),
        perfect_redis_us=perfect_redis_us(trace.arrivals_us),
        metered_512kb=per_request(trace, metered_512kb(trace, object_bytes)),
        invocation_misses=min(requests_of(trace), round(_invocation_misses(trace) / rate)),
        # An upper bound: assumes that keys outside the sample are requested in other seconds.
        busy_s=min(round(busy_s / rate), 1 + (last_us - first_us) // US_PER_S),
        digest_reads=min(round(_digest_reads(trace) / rate), 1 + (last_us - first_us) // _REFRESH_US),
        internet_bytes=body_bytes,
        moved_bytes=per_request(trace, _moved_bytes(trace, object_bytes)),
        slices=per_request(trace, units(trace, object_bytes, SLICE_BYTES)),
    )


def sample_rate(trace: Trace) -> Fraction:
    """Return the share of the log's keys that a trace contains."""
    return Fraction(1) if trace.sample is None else Fraction(trace.sample.rate)


def requests_of(trace: Trace) -> int:
    """Return the request count of the log that a trace represents."""
    return len(trace) if trace.sample is None else trace.sample.requests


def per_request(trace: Trace, amount: int) -> int:
    """Scale a sum over a sample's requests to the log's exact number of requests."""
    return round(Fraction(amount * requests_of(trace), len(trace))) if len(trace) else 0


def perfect_redis_us(arrivals_us: ArrayLike) -> int:
    """Return the shortest billed time of a node that serves every request, at least a minute per run [us].

    In the thesis, the perfect automation process runs the node from the first to the last request of a spike. For
    other traces, it also stops the node in gaps where stopping saves money. Gaps long enough for a stop and a boot
    (60 s) separate blocks of requests. The result is the cheapest grouping of the blocks into runs.

    Source:
        Thesis, sections 5.1.4 "Comparison Systems" and 5.5 "Perfect Automation Process".
    """
    blocks = _blocks(arrivals_us)
    # cost[i]: lowest cost of serving the first i blocks. A run over blocks j to i costs max(60 s, end - start). Among
    # runs longer than a minute, the run with the lowest cost[j] - start is best. Among shorter runs, the run that
    # starts earliest is best, because cost never decreases.
    cost, short, best_long = [0], 0, 10**30
    for i, (_, end_us) in enumerate(blocks):
        while end_us - blocks[short][0] > _REDIS_MIN_US and short < i:
            best_long = min(best_long, cost[short] - blocks[short][0])
            short += 1
        best_short_us = cost[short] + max(_REDIS_MIN_US, end_us - blocks[short][0])
        cost.append(min(best_short_us, best_long + end_us))
    return cost[-1]


def _blocks(arrivals_us: ArrayLike) -> list[tuple[int, int]]:
    """Return the first and last arrival of each block. Gaps between blocks fit at least a stop and a boot."""
    import numpy as np

    times_us = np.asarray(arrivals_us, dtype=np.int64)
    before_gap = np.flatnonzero(np.diff(times_us) >= REDIS_RESTART_US)
    starts = times_us[np.concatenate(([0], before_gap + 1))].tolist()
    ends = times_us[np.concatenate((before_gap, [len(times_us) - 1]))].tolist()
    return list(zip(starts, ends, strict=True))


def stored_objects(trace: Trace) -> int:
    """Return the number of objects in a trace, or 1 if the trace has no keys."""
    import numpy as np

    return 1 if trace.key_ids is None else len(np.unique(trace.key_ids))


def stored_bytes(trace: Trace, object_bytes: int) -> int:
    """Return the total size of a trace's objects, counting unknown sizes as `object_bytes` [bytes]."""
    if len(trace) == 0:
        return 0
    if trace.key_ids is None:
        return object_bytes if trace.sizes_bytes is None else int(trace.sizes_bytes.max())
    if trace.sizes_bytes is None:
        return stored_objects(trace) * object_bytes
    return exact_sum(trace.largest_bytes(trace.sizes_bytes))  # a response without a body (304) has no size


def metered_512kb(trace: Trace, object_bytes: int) -> int:
    """Return the billed units of an HTTP API for a trace: one per started 512 KB of each response, at least one."""
    return units(trace, object_bytes, METERED_BYTES)


def _moved_bytes(trace: Trace, object_bytes: int) -> int:
    import numpy as np

    if trace.bodies_bytes is None:
        return len(trace) * max(BYTES_PER_KB, object_bytes)
    return exact_sum(np.maximum(BYTES_PER_KB, trace.bodies_bytes))


def units(trace: Trace, object_bytes: int, unit_bytes: int) -> int:
    """Return the number of units in a trace's response bodies. Each body is rounded up to at least one unit."""
    import numpy as np

    if trace.bodies_bytes is None:
        return len(trace) * max(1, -(-object_bytes // unit_bytes))
    return exact_sum(np.maximum(1, -(-trace.bodies_bytes // unit_bytes)))


def _digest_reads(trace: Trace) -> int:
    """Count the digest reads of one reader that serves all requests and reads the digest whenever it is due."""
    import numpy as np

    next_read = np.searchsorted(trace.arrivals_us, trace.arrivals_us + _REFRESH_US).tolist()
    reads = index = 0
    while index < len(next_read):
        reads, index = reads + 1, next_read[index]
    return reads


def _invocation_misses(trace: Trace) -> int:
    """Count each object's first request in each 15-minute interval, starting at the trace's first request."""
    import numpy as np

    runs = (trace.arrivals_us - trace.arrivals_us[0]) // _INVOCATION_US
    if trace.key_ids is None:
        return 1 + int(np.count_nonzero(np.diff(runs)))
    return len(np.unique(runs * (int(trace.key_ids.max()) + 1) + trace.key_ids))
