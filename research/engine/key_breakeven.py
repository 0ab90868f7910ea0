"""Break-even per key, compiled: a loop per tier over the requests of one key, in place of a step per event.

A test holds it to the readable policy request by request. Keys that share nodes run in the readable simulator.
"""

from __future__ import annotations

from burstcache_sim.engine import books
from burstcache_sim.engine.books import Integers, Records, TimingsRow, boot, bridge, end_lambda, end_redis, invoke
from burstcache_sim.engine.compiled import uncounted
from research.policies.key_breakeven import KeyBreakevenRow


def validate(p: KeyBreakevenRow, requests: int) -> None:
    """Raise `InvalidSettingError` if a value is too large to be added to a time."""
    books.validate(p)


@uncounted
def one_key(
    t: Integers, horizon_us: int, timings: TimingsRow, p: KeyBreakevenRow, totals: Records, spans: Integers
) -> None:
    """Replay the arrivals `t`, none after the horizon, and add to the only element of the totals."""
    counts = totals[0]
    n = len(t)
    requests, within_us, gap_us = p.boot_requests, p.boot_within_us, p.gap_us
    uses_lambda, invokes_always = p.uses_lambda != 0, p.invoke_requests == 1
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
            ready_us = invoke(at_us, last_end_us, timings, counts)
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
        since_us = boot(at_us, timings, counts)
        if uses_lambda:
            if not invokes:
                ready_us = deadline_us = invoke(at_us, last_end_us, timings, counts)
            last_end_us = min(deadline_us + p.keep_running_us, since_us)
            i = bridge(t, i, first, ready_us, last_end_us, since_us, horizon_us, counts, spans)
        while i < n and t[i] < since_us:
            i += 1
        if since_us > horizon_us:
            return
        first = i
        least_us, idle_us = since_us + p.least_us, p.idle_us
        while i < n and t[i] < least_us:
            i += 1
        while i < n and t[i] - t[i - 1] < idle_us:
            i += 1
        stop_us = max(least_us, t[i - 1] + idle_us)
        off_at_us = stop_us + timings.stop_us
        end_redis(since_us, min(stop_us, horizon_us), first, i, timings, counts, spans)
        if off_at_us <= horizon_us:
            counts.end_us = max(counts.end_us, off_at_us)
