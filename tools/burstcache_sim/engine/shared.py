"""The shared engine, which replays requests and due events for keys that share nodes, under any policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.books import FOREVER_US, Integers, end_redis
from burstcache_sim.engine.compiled import compiled, uncounted
from burstcache_sim.engine.due import drop_first, put_first_off
from burstcache_sim.engine.hooks import act, check_node, decide, handle_ready
from burstcache_sim.engine.lists import LEASES, after, first
from burstcache_sim.engine.shared_world import (
    BOOTING,
    LAMBDA,
    NOTHING,
    OFF,
    REDIS,
    RUNNING,
    S3,
    STOPPING,
    World,
    end_key_lambda,
    put,
    set_node,
)
from burstcache_sim.engine.store import use

Keys = NDArray[np.int32]
Letters = NDArray[np.uint8]


@compiled
def order_by_key(t: Integers, key_ids: Keys, key_count: int) -> tuple[Integers, Integers]:
    """Order arrivals by key.

    Returns:
        Two arrays: the index of each key's first request followed by the number of requests, and the ordered arrivals.
    """
    begins = np.zeros(key_count + 1, np.int64)
    for key_id in key_ids:
        begins[key_id + 1] += 1
    for key_id in range(key_count):
        begins[key_id + 1] += begins[key_id]
    places = begins[:-1].copy()
    ordered = np.empty(len(t), np.int64)
    for i in range(len(t)):
        key_id = key_ids[i]
        ordered[places[key_id]] = t[i]
        places[key_id] += 1
    return begins, ordered


@compiled
def replay(w: World, p: NamedTuple, t: Integers, key_ids: Keys, sizes_bytes: Integers, tiers: Letters) -> None:
    """Replay the requests under a policy and add to the world's totals.

    Args:
        w: A new world.
        p: The policy's row, whose type selects the policy.
        t: Arrival time of each request, none after the horizon [us].
        key_ids: Key of each request.
        sizes_bytes: Object size of each request, ignored without a capacity limit [bytes].
        tiers: Output array for the letter of each request's tier, or an empty array.
    """
    i, action = 0, NOTHING
    while i < len(t):
        i, action = _serve(w, p, i, t, key_ids, sizes_bytes, tiers)
        if action != NOTHING:
            act(w, p, int(key_ids[i - 1]), t[i - 1], action)
        elif i < len(t):
            _advance(w, p, t[i])
    _advance(w, p, w.horizon_us)
    _close(w)


@uncounted
def _serve(
    w: World, p: NamedTuple, i: int, t: Integers, key_ids: Keys, sizes_bytes: Integers, tiers: Letters
) -> tuple[int, int]:
    """Serve requests from index `i` on, until an event is due or a request triggers an action.

    Returns:
        The index of the next request, and the action of the preceding request.
    """
    keys, counts = w.keys, w.totals[0]
    is_limited = w.capacity_bytes != FOREVER_US
    due_us = min(w.nodes_due_us[0], w.interruptions_us[w.interruption[0]])
    if w.queue[0, 0] > 0:
        due_us = min(due_us, w.queue[1, 0])
    while i < len(t) and t[i] < due_us:
        at_us, key = t[i], int(key_ids[i])
        k = keys[key]
        tier = S3
        if k.held_bytes >= 0:
            tier = REDIS
            counts.n_redis += 1
            if is_limited:
                use(w.nodes, k.home, keys, key)
        elif 0 <= k.ready_us <= at_us:
            tier = LAMBDA
            counts.n_lambda += 1
        if len(tiers) > 0:
            tiers[i] = tier
        i += 1
        if is_limited:
            if sizes_bytes[i - 1] > w.capacity_bytes:
                continue
            k.size_bytes = sizes_bytes[i - 1]
        k.seen += 1
        action = decide(w, p, key, at_us, tier)
        if action != NOTHING:
            return i, action
    return i, NOTHING


@uncounted
def _advance(w: World, p: NamedTuple, until_us: int) -> None:
    """Process all events up to and including `until_us`, in the same order as the readable world."""
    while True:
        node = _next_node(w, until_us)
        node_us, interruption_us = w.nodes[node].due_us, w.interruptions_us[w.interruption[0]]
        if w.queue[0, 0] > 0 and w.queue[1, 0] <= min(node_us, interruption_us, until_us):
            _time_out(w)
        elif node_us <= min(interruption_us, until_us) and node_us != FOREVER_US:
            _node_event(w, p, node, node_us)
        elif interruption_us <= until_us and interruption_us != FOREVER_US:
            _interrupt(w, w.interrupted[w.interruption[0]], interruption_us)
            w.interruption[0] += 1
        else:
            return


@uncounted
def _next_node(w: World, until_us: int) -> int:
    """Return the node that is due first, or any node if none is due by `until_us`."""
    first = 0
    if w.nodes_due_us[0] > until_us:
        return first
    for node in range(1, len(w.nodes)):
        due_us, first_us = w.nodes[node].due_us, w.nodes[first].due_us
        if due_us < first_us or (due_us == first_us and w.nodes[node].state < w.nodes[first].state):
            first = node
    w.nodes_due_us[0] = w.nodes[first].due_us
    return first


@uncounted
def _time_out(w: World) -> None:
    """End the cache function of the queue's first entry, or move the entry to its extended deadline."""
    due_us, key = w.queue[1, 0], w.queue[1, 1]
    deadline_us = w.keys[key].deadline_us
    if deadline_us > due_us:
        put_first_off(w.queue, w.places, deadline_us)
        return
    drop_first(w.queue, w.places)
    end_key_lambda(w, key, due_us)


@uncounted
def _node_event(w: World, p: NamedTuple, node: int, at_us: int) -> None:
    """Process a node's due event: the end of a boot, a check, or the end of a stop."""
    state = w.nodes[node].state
    if state == RUNNING:
        check_node(w, p, node, at_us)
        w.nodes[node].is_interrupted = 0
    elif state == BOOTING:
        w.nodes[node].since_us = at_us
        handle_ready(w, p, node, at_us)
        key = first(w.nodes, node, LEASES)
        while key >= 0:
            put(w, key)
            end_key_lambda(w, key, at_us)
            key = after(w.keys, key, LEASES)
    else:
        w.totals[0].end_us = max(w.totals[0].end_us, at_us)
        set_node(w, node, OFF, FOREVER_US)


@uncounted
def _interrupt(w: World, node: int, at_us: int) -> None:
    """Make a node's last check due now, or end its boot."""
    state = w.nodes[node].state
    if state == RUNNING:
        w.nodes[node].is_interrupted = 1
        set_node(w, node, RUNNING, at_us)
    elif state == BOOTING:
        w.totals[0].end_us = max(w.totals[0].end_us, at_us)
        set_node(w, node, STOPPING, at_us + w.timings.stop_us)


@uncounted
def _close(w: World) -> None:
    """Bill running functions and nodes up to the horizon. Without a horizon, only always-on nodes still run."""
    end_us = w.horizon_us
    if end_us == FOREVER_US:
        end_us = w.totals[0].end_us
    for key in range(len(w.keys)):
        end_key_lambda(w, key, end_us)
    for node in range(len(w.nodes)):
        if w.nodes[node].state == RUNNING:
            end_redis(w.nodes[node].since_us, end_us, 0, 0, w.timings, w.totals[0], w.spans)
