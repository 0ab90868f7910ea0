"""The compiled thesis policy for one key, with a loop per tier instead of a step per event, and for shared nodes.

A test compares this engine with the readable policy, request by request. Each loop of `one_key` ends when the tier
changes, so events between two requests need no queue.
"""

from __future__ import annotations

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import QUEUE_LENGTH
from burstcache_sim.engine import books
from burstcache_sim.engine.books import (
    FOREVER_US,
    Integers,
    Record,
    Records,
    TimingsRow,
    boot,
    bridge,
    end_lambda,
    end_redis,
    invoke,
)
from burstcache_sim.engine.compiled import uncounted
from burstcache_sim.engine.lists import LEASES, after, first
from burstcache_sim.engine.shared_world import (
    JOIN,
    LAMBDA,
    LATER_CHECKS,
    NO_LEASE,
    NOTHING,
    RUNNING,
    START,
    STOPPING,
    World,
    are_within,
    join,
    move_lease,
    release,
    set_node,
    start_key_lambda,
    stop_node,
    waiting,
)
from burstcache_sim.policies.thesis import ThesisRow


def validate(p: ThesisRow, requests: int) -> None:
    """Raise `InvalidSettingError` if a trace of `requests` requests could cause an overflow or endless checks."""
    books.validate(p)
    if p.tick_us * requests > books.MAX_TIME_US:
        raise InvalidSettingError(
            f"tick_us {p.tick_us} added by {requests} requests: expected a sum of at most {books.MAX_TIME_US} us"
        )
    if p.check_us < 1:
        raise InvalidSettingError(f"redis_check_us {p.check_us}: expected a time above 0 us")


@uncounted
def one_key(t: Integers, horizon_us: int, timings: TimingsRow, p: ThesisRow, totals: Records, spans: Integers) -> None:
    """Replay the arrivals `t`, none of them after the horizon, and update the single record of `totals`."""
    counts = totals[0]
    n = len(t)
    before = p.elements - 1
    i = before  # the first request that can trigger an action
    off_at_us = last_end_us = -1
    while True:
        while i < n and t[i] - t[i - before] >= p.threshold_us:
            i += 1
        if i >= n:
            return
        if p.uses_lambda == 0:
            boots_at_us = t[i]
            i += 1
            if boots_at_us < off_at_us:
                continue
            since_us = boot(boots_at_us, timings, counts)
            while i < n and t[i] < since_us:
                i += 1
            if since_us > horizon_us:
                return
            i, off_at_us = _run_redis(t, i, since_us, horizon_us, timings, p, counts, spans)
            continue
        ready_us = invoke(t[i], last_end_us, timings, counts)
        deadline_us = ready_us + p.tick_us
        boots_at_us = -1
        count = 0
        i += 1
        while i < n and t[i] < ready_us:  # requests that S3 serves count but do not extend the life
            at_us = t[i]
            i += 1
            count += 1
            if count > p.redis_threshold and at_us >= off_at_us:
                boots_at_us = at_us
                break
        first = i
        while boots_at_us < 0 and i < n:
            at_us = t[i]
            if at_us >= deadline_us:
                break
            i += 1
            count += 1
            deadline_us += p.tick_us
            if count > p.redis_threshold and at_us >= off_at_us:
                boots_at_us = at_us
        if boots_at_us < 0:
            end_lambda(ready_us, deadline_us, horizon_us, first, i, counts, spans)
            last_end_us = deadline_us
            continue
        since_us = boot(boots_at_us, timings, counts)
        last_end_us = min(deadline_us + p.keep_running_us, since_us)
        i = bridge(t, i, first, ready_us, last_end_us, since_us, horizon_us, counts, spans)
        while i < n and t[i] < since_us:
            i += 1
        if since_us > horizon_us:
            return
        i, off_at_us = _run_redis(t, i, since_us, horizon_us, timings, p, counts, spans)


@uncounted
def _run_redis(
    t: Integers, i: int, since_us: int, horizon_us: int, timings: TimingsRow, p: ThesisRow, counts: Record,
    spans: Integers,
) -> tuple[int, int]:  # fmt: skip
    """Serve from Redis until a check stops the node. Return the next request's index and the node's off time [us]."""
    n = len(t)
    first = i
    step_us, utilization_us = p.check_us, p.utilization_us
    check_us = since_us + step_us
    while True:
        while i < n and t[i] < check_us:
            i += 1
        oldest_us = t[max(0, i - QUEUE_LENGTH)]
        if i == n and check_us - oldest_us <= utilization_us:
            # No requests are left, so skip to the check that finds the key idle, or to the last check before the
            # horizon.
            passed = min((oldest_us + utilization_us - check_us) // step_us + 1, (horizon_us - check_us) // step_us + 1)
            counts.checks += max(0, passed)
            check_us += max(0, passed) * step_us
        if check_us > horizon_us:
            end_redis(since_us, horizon_us, first, i, timings, counts, spans)
            return i, horizon_us + timings.stop_us
        counts.checks += 1
        if check_us - oldest_us > utilization_us:
            end_redis(since_us, check_us, first, i, timings, counts, spans)
            off_at_us = check_us + timings.stop_us
            if off_at_us <= horizon_us:
                counts.end_us = max(counts.end_us, off_at_us)
            return i, off_at_us
        check_us += step_us


@uncounted
def decide(w: World, p: ThesisRow, key: int, at_us: int, tier: int) -> int:
    """Count the request and return the action that it triggers."""
    k = w.keys[key]
    state = w.nodes[k.home].state
    if k.ready_us >= 0:
        k.count += 1
        if tier == LAMBDA and k.is_kept == 0:
            k.deadline_us += p.tick_us
        can_join = k.lease == NO_LEASE and state != STOPPING
        return JOIN if can_join and k.count > p.redis_threshold else NOTHING
    if k.lease == NO_LEASE and are_within(w, key, at_us, p.elements, p.threshold_us):
        if state == RUNNING or (p.uses_lambda == 0 and state != STOPPING):
            return JOIN
        return START if p.uses_lambda != 0 else NOTHING
    return NOTHING


@uncounted
def act(w: World, p: ThesisRow, key: int, at_us: int, action: int) -> None:
    """Start a cache function, or take a lease and keep the key's cache function during the boot."""
    if action == START:
        start_key_lambda(w, key, at_us, p.tick_us)
        return
    k = w.keys[key]
    if k.ready_us >= 0:
        k.deadline_us += p.keep_running_us
        k.is_kept = 1
    join(w, key, at_us)
    if w.nodes[k.home].state == RUNNING and w.nodes[k.home].due_us == FOREVER_US:  # first lease of an always-on node
        set_node(w, k.home, RUNNING, at_us + p.check_us)


@uncounted
def handle_ready(w: World, p: ThesisRow, node: int, at_us: int) -> None:
    """Schedule the first check."""
    set_node(w, node, RUNNING, at_us + p.check_us)


@uncounted
def check_node(w: World, p: ThesisRow, node: int, at_us: int) -> None:
    """Release idle keys. Stop the node if no lease is left."""
    w.totals[0].checks += 1
    w.nodes[node].checks += 1
    _check(w, p, node, LEASES, at_us)
    _check(w, p, node, waiting(w, node, 0), at_us)
    if w.nodes[node].leases > 0:
        set_node(w, node, RUNNING, at_us + p.check_us)
    else:
        stop_node(w, node, at_us)


@uncounted
def _check(w: World, p: ThesisRow, node: int, chain: int, at_us: int) -> None:
    """Release the idle keys of a list. Move every other key to the list of the first check that may find it idle.

    Requests only postpone that check, so no key is ever due before the check of its list. When a key's object is
    evicted, the key returns to the list that every check covers.
    """
    key = first(w.nodes, node, chain)
    while key >= 0:
        next_key = after(w.keys, key, chain)
        checks = _next_check(w, p, key, at_us)
        if checks == 0:
            release(w, key)
        else:
            move_lease(w, key, LEASES if checks == 1 else waiting(w, node, min(checks, LATER_CHECKS - 1)))
        key = next_key


@uncounted
def _next_check(w: World, p: ThesisRow, key: int, at_us: int) -> int:
    """Return the number of checks until the key may be released if no request follows (0 to release it now).

    A key is released if it is idle, or if a check finds its object missing for the second time.
    """
    k = w.keys[key]
    if k.held_bytes >= 0:
        idle_us = at_us - w.t[max(k.begin, k.seen - QUEUE_LENGTH)]
        return (p.utilization_us - idle_us) // p.check_us + 1 if idle_us <= p.utilization_us else 0
    was_missing = k.was_missing != 0
    k.was_missing = 1
    return 0 if was_missing else 1
