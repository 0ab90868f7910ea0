"""What a trace asks for, as far as the bill of something else than this system depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache.errors import InvalidSettingError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from burstcache.sim.trace import Trace

_WAKES_AFTER_US = 600 * US_PER_S  # a function that nobody asks for so long starts cold
_LEAST_PERIOD_US = 60 * US_PER_S  # of a single request a month would be made of millions
REDIS_RESTART_US = 60 * US_PER_S  # 30 s to stop, 30 s to boot
_REDIS_LEAST_US = 60 * US_PER_S


@dataclass(frozen=True, slots=True)
class Demand:
    """A trace in sums. `period_us` is what a bill by the hour covers, at least the trace and a minute."""

    requests: int
    objects: int
    first_us: int
    last_us: int
    period_us: int
    body_bytes: int  # of all answers together
    stored_bytes: int  # of all objects together
    wakes: int  # how often the first request after ten quiet minutes comes
    perfect_redis_us: int  # what a node of one's own runs at least, if one knew the trace


def demand_of(trace: Trace, *, object_bytes: int, period_us: int | None = None) -> Demand:
    """Sum a trace up.

    Args:
        trace: Requests; sizes in it are used, where it has none `object_bytes` is taken.
        object_bytes: Size of an object whose size is not known [bytes].
        period_us: How long what is paid by the hour is paid for; never less than the trace lasts [us].

    Raises:
        InvalidSettingError: The trace is empty.
    """
    import numpy as np

    if len(trace) == 0:
        raise InvalidSettingError("the trace is empty: expected at least one request")
    objects, stored_bytes = _stored(trace, object_bytes)
    first_us, last_us = int(trace.arrivals_us[0]), int(trace.arrivals_us[-1])
    return Demand(
        requests=len(trace),
        objects=objects,
        first_us=first_us,
        last_us=last_us,
        period_us=max(period_us or 0, last_us - first_us, _LEAST_PERIOD_US),
        body_bytes=object_bytes * len(trace) if trace.sizes_bytes is None else int(trace.sizes_bytes.sum()),
        stored_bytes=stored_bytes,
        wakes=1 + int(np.count_nonzero(np.diff(trace.arrivals_us) > _WAKES_AFTER_US)),
        perfect_redis_us=perfect_redis_us(trace.arrivals_us),
    )


def perfect_redis_us(arrivals_us: ArrayLike) -> int:
    """Return how long a node must run to serve every request, billed at least a minute a run [us].

    The thesis's perfect automation process runs from the first to the last request of a spike. For any trace it also
    stops in between, where a stop and a boot (60 s) fit and save: over the blocks of requests that no such gap parts,
    the cheapest division into runs.

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
    """Return first and last request of every block that is parted from the others by a stop and a boot at least."""
    import numpy as np

    times_us = np.asarray(arrivals_us, dtype=np.int64)
    before_gap = np.flatnonzero(np.diff(times_us) >= REDIS_RESTART_US)
    starts = times_us[np.concatenate(([0], before_gap + 1))].tolist()
    ends = times_us[np.concatenate((before_gap, [len(times_us) - 1]))].tolist()
    return list(zip(starts, ends, strict=True))


def _stored(trace: Trace, object_bytes: int) -> tuple[int, int]:
    """Return how many objects a trace has, and the size of all of them together [bytes]."""
    import numpy as np

    if trace.key_ids is None:
        return 1, object_bytes if trace.sizes_bytes is None else int(trace.sizes_bytes.max())
    ids = np.unique(trace.key_ids)
    if trace.sizes_bytes is None:
        return len(ids), len(ids) * object_bytes
    largest = np.zeros(int(ids[-1]) + 1, dtype=np.int64)  # an answer without a body (304) has no size
    np.maximum.at(largest, trace.key_ids, trace.sizes_bytes)
    return len(ids), int(largest.sum())
