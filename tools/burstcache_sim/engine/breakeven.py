"""The break-even policy over one key, compiled: a loop per tier instead of a step per event.

Held to the readable simulator request by request by a test.
"""

from __future__ import annotations

from burstcache_sim.engine.books import (
    BOOT_REQUESTS,
    BOOT_WITHIN_US,
    END_US,
    GAP_US,
    IDLE_US,
    INVOKE_REQUESTS,
    KEEP_RUNNING_US,
    LEAST_US,
    STOP_US,
    USES_LAMBDA,
    Integers,
    boot,
    bridge,
    end_lambda,
    end_redis,
    invoke,
)  # fmt: skip
from burstcache_sim.engine.compiled import uncounted


@uncounted
def breakeven(t: Integers, horizon_us: int, p: Integers, counts: Integers, spans: Integers) -> None:
    """Replay the arrivals `t`, none after the horizon, and add to the counts."""
    n = len(t)
    requests, within_us, gap_us = p[BOOT_REQUESTS], p[BOOT_WITHIN_US], p[GAP_US]
    uses_lambda, invokes_always = p[USES_LAMBDA] != 0, p[INVOKE_REQUESTS] == 1
    i = 0
    off_at_us = last_end_us = -1
    while i < n:
        at_us = t[i]
        i += 1
        invokes = uses_lambda and (invokes_always or (i > 1 and at_us - t[i - 2] < gap_us))
        boots = at_us >= off_at_us and i >= requests and at_us - t[i - requests] < within_us
        if not (invokes or boots):
            continue
        first = i
        ready_us = deadline_us = -1
        if invokes:
            ready_us = invoke(at_us, last_end_us, p, counts)
            deadline_us = ready_us + gap_us
            while not boots and i < n and t[i] < deadline_us:
                at_us = t[i]
                i += 1
                if at_us < ready_us:
                    first = i
                else:
                    deadline_us = at_us + gap_us
                boots = at_us >= off_at_us and i >= requests and at_us - t[i - requests] < within_us
        if not boots:
            end_lambda(ready_us, deadline_us, horizon_us, first, i, counts, spans)
            last_end_us = deadline_us
            continue
        since_us = boot(at_us, p, counts)
        if uses_lambda:
            if not invokes:
                ready_us = deadline_us = invoke(at_us, last_end_us, p, counts)
            last_end_us = min(deadline_us + p[KEEP_RUNNING_US], since_us)
            i = bridge(t, i, first, ready_us, last_end_us, since_us, horizon_us, counts, spans)
        while i < n and t[i] < since_us:
            i += 1
        if since_us > horizon_us:
            return
        first = i
        least_us, idle_us = since_us + p[LEAST_US], p[IDLE_US]
        while i < n and t[i] < least_us:
            i += 1
        while i < n and t[i] - t[i - 1] < idle_us:
            i += 1
        stop_us = max(least_us, t[i - 1] + idle_us)
        off_at_us = stop_us + p[STOP_US]
        end_redis(since_us, min(stop_us, horizon_us), first, i, p, counts, spans)
        if off_at_us <= horizon_us:
            counts[END_US] = max(counts[END_US], off_at_us)
