"""The thesis's policy over one key, compiled: a loop per tier instead of a step per event.

Held to the readable simulator request by request by a test. A loop ends at the instant at which the tier changes, so
the events between two requests need no queue.
"""

from __future__ import annotations

from burstcache.core.parameters import QUEUE_LENGTH
from burstcache_sim.engine.books import (
    CHECK_US,
    CHECKS,
    ELEMENTS,
    END_US,
    KEEP_RUNNING_US,
    REDIS_THRESHOLD,
    STOP_US,
    THRESHOLD_US,
    TICK_US,
    UTILIZATION_US,
    Integers,
    boot,
    bridge,
    end_lambda,
    end_redis,
    invoke,
)  # fmt: skip
from burstcache_sim.engine.compiled import uncounted


@uncounted
def thesis(t: Integers, horizon_us: int, p: Integers, counts: Integers, spans: Integers) -> None:
    """Replay the arrivals `t`, none after the horizon, and add to the counts."""
    n = len(t)
    before = p[ELEMENTS] - 1
    threshold_us, tick_us, redis_threshold = p[THRESHOLD_US], p[TICK_US], p[REDIS_THRESHOLD]
    i = before  # the first request that can trigger
    off_at_us = last_end_us = -1
    while True:
        while i < n and t[i] - t[i - before] >= threshold_us:
            i += 1
        if i >= n:
            return
        ready_us = invoke(t[i], last_end_us, p, counts)
        deadline_us = ready_us + tick_us
        boots_at_us = -1
        count = 0
        i += 1
        while i < n and t[i] < ready_us:  # S3 still serves; such a request counts but does not extend
            at_us = t[i]
            i += 1
            count += 1
            if count > redis_threshold and at_us >= off_at_us:
                boots_at_us = at_us
                break
        first = i
        while boots_at_us < 0 and i < n:
            at_us = t[i]
            if at_us >= deadline_us:
                break
            i += 1
            count += 1
            deadline_us += tick_us
            if count > redis_threshold and at_us >= off_at_us:
                boots_at_us = at_us
        if boots_at_us < 0:
            end_lambda(ready_us, deadline_us, horizon_us, first, i, counts, spans)
            last_end_us = deadline_us
            continue
        since_us = boot(boots_at_us, p, counts)
        last_end_us = min(deadline_us + p[KEEP_RUNNING_US], since_us)
        i = bridge(t, i, first, ready_us, last_end_us, since_us, horizon_us, counts, spans)
        while i < n and t[i] < since_us:
            i += 1
        if since_us > horizon_us:
            return
        i, stop_us = _run_redis(t, i, since_us, horizon_us, p, counts, spans)
        off_at_us = stop_us + p[STOP_US]
        if off_at_us <= horizon_us:
            counts[END_US] = max(counts[END_US], off_at_us)


@uncounted
def _run_redis(
    t: Integers, i: int, since_us: int, horizon_us: int, p: Integers, counts: Integers, spans: Integers
) -> tuple[int, int]:
    """Serve from Redis until a check stops it; return the next request and the stop [us]."""
    n = len(t)
    first = i
    step_us, utilization_us = p[CHECK_US], p[UTILIZATION_US]
    check_us = since_us + step_us
    while True:
        while i < n and t[i] < check_us:
            i += 1
        oldest_us = t[max(0, i - QUEUE_LENGTH)]
        if i == n and check_us - oldest_us <= utilization_us:
            # Nothing more comes: go to the check that finds it idle, or to the last before the horizon.
            passed = min((oldest_us + utilization_us - check_us) // step_us + 1, (horizon_us - check_us) // step_us + 1)
            counts[CHECKS] += max(0, passed)
            check_us += max(0, passed) * step_us
        if check_us > horizon_us:
            end_redis(since_us, horizon_us, first, i, p, counts, spans)
            return i, horizon_us
        counts[CHECKS] += 1
        if check_us - oldest_us > utilization_us:
            end_redis(since_us, check_us, first, i, p, counts, spans)
            return i, check_us
        check_us += step_us
