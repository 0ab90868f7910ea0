"""The break-even policy, compiled: over one key a loop per tier instead of a step per event, and over shared nodes.

Held to the readable policy request by request by a test.
"""

from __future__ import annotations

from burstcache_sim.engine import books
from burstcache_sim.engine.books import Integers, Records, TimingsRow, boot, bridge, end_lambda, end_redis, invoke
from burstcache_sim.engine.compiled import uncounted
from burstcache_sim.engine.lists import LEASES, after, first
from burstcache_sim.engine.shared_world import (
    JOIN,
    LAMBDA,
    NO_LEASE,
    NOTHING,
    REDIS,
    RUNNING,
    START,
    STOPPING,
    World,
    are_within,
    join,
    set_node,
    start_key_lambda,
    stop_node,
)
from burstcache_sim.policies.key_breakeven import KeyBreakevenRow


def check(p: KeyBreakevenRow, requests: int) -> None:
    """Raise `InvalidSettingError` if a value is too large to be added to a time."""
    books.check(p)


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


@uncounted
def decide(w: World, p: KeyBreakevenRow, key: int, at_us: int, tier: int) -> int:
    """Extend what serves; return what pays."""
    k = w.keys[key]
    node = w.nodes[k.home]
    if tier == REDIS:
        node.due_us = max(node.due_us, at_us + p.idle_us)
        return NOTHING
    if tier == LAMBDA and k.is_kept == 0:
        k.deadline_us = at_us + p.gap_us
    is_running = node.state == RUNNING
    if k.lease != NO_LEASE and not is_running:
        return NOTHING
    invokes = k.ready_us < 0 and p.uses_lambda != 0
    invokes = invokes and (p.invoke_requests == 1 or are_within(w, key, at_us, 2, p.gap_us))
    boots = are_within(w, key, at_us, p.boot_requests, p.boot_within_us)
    if is_running:
        return JOIN if invokes or boots else NOTHING
    action = START if invokes else NOTHING
    return action + JOIN if boots and node.state != STOPPING else action


@uncounted
def act(w: World, p: KeyBreakevenRow, key: int, at_us: int, action: int) -> None:
    """Start a cache function, take a lease, or both; a cache function bridges a boot."""
    if action & START:
        start_key_lambda(w, key, at_us, p.gap_us)
    if not action & JOIN:
        return
    k = w.keys[key]
    join(w, key, at_us)
    if w.nodes[k.home].state == RUNNING:
        _set_stop(w, p, k.home, at_us)
    elif p.uses_lambda != 0:
        if k.ready_us < 0:
            start_key_lambda(w, key, at_us, p.keep_running_us)
        else:
            k.deadline_us += p.keep_running_us
        k.is_kept = 1


@uncounted
def ready(w: World, p: KeyBreakevenRow, node: int, at_us: int) -> None:
    """Let a node run at least as long as it is billed, or until its keys have idled long enough."""
    newest_us = -1
    key = first(w.nodes, node, LEASES)
    while key >= 0:
        newest_us = max(newest_us, w.t[w.keys[key].seen - 1])
        key = after(w.keys, key, LEASES)
    _set_stop(w, p, node, newest_us)


@uncounted
def look(w: World, p: KeyBreakevenRow, node: int, at_us: int) -> None:
    """Stop a node: the look is set to the instant at which it has idled long enough."""
    stop_node(w, node, at_us)


@uncounted
def _set_stop(w: World, p: KeyBreakevenRow, node: int, last_us: int) -> None:
    set_node(w, node, RUNNING, max(w.nodes[node].since_us + p.least_us, last_us + p.idle_us))
