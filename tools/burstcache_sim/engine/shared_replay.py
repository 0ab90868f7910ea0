"""Many keys that share nodes, compiled: the requests, and before each of them what is due."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.books import (
    COUNTS,
    END_US,
    FOREVER_US,
    N_LAMBDA,
    N_REDIS,
    Integers,
    end_redis,
)  # fmt: skip
from burstcache_sim.engine.compiled import compiled, uncounted
from burstcache_sim.engine.due import drop_first, put_first_off
from burstcache_sim.engine.keys import Keys
from burstcache_sim.engine.lists import LEASES, USES, after, append, remove
from burstcache_sim.engine.shared_actions import act_breakeven, act_thesis, first_look, look
from burstcache_sim.engine.shared_decide import LAMBDA, NOTHING, REDIS, S3, decide_breakeven, decide_thesis
from burstcache_sim.engine.shared_world import (
    BEGIN,
    BOOTING,
    DEADLINE_US,
    DUE_US,
    ENDED_US,
    GLOBALS,
    HELD_BYTES,
    HOME,
    KEY_PLACES,
    NODE_PLACES,
    NODES_DUE_US,
    READY_US,
    RUNNING,
    SEEN,
    SINCE_US,
    SIZE_BYTES,
    STATE,
    World,
    end_key_lambda,
    node_is_off,
    put,
)  # fmt: skip

Letters = NDArray[np.uint8]


@compiled
def replay_shared(
    t: Integers, key_ids: Keys, sizes_bytes: Integers, begins: Integers, ordered: Integers, homes: Integers,
    node_count: int, capacity_bytes: int, horizon_us: int, p: Integers, is_thesis: bool, spans: Integers,
    tiers: Letters,
) -> Integers:  # fmt: skip
    """Return the counts of one candidate over all keys.

    Args:
        t: All arrivals [us].
        key_ids: Their keys.
        sizes_bytes: Their objects' sizes; not looked at without a limit.
        begins: Where each key's requests begin in `ordered`.
        ordered: Arrivals of objects that fit into a node, keys in order [us].
        homes: Each key's node.
        node_count: How many nodes there are.
        capacity_bytes: What a node holds; FOREVER_US: no limit.
        horizon_us: FOREVER_US: until nothing is left to happen.
        p: A row of parameters.
        is_thesis: Whose parameters they are.
        spans: Room for spans, or none.
        tiers: Room for the letter of every request's tier, or none.
    """
    w = _world(begins, ordered, homes, node_count, capacity_bytes, horizon_us, p, spans)
    i, action = 0, NOTHING
    while i < len(t):
        i, action = _serve(w, i, t, key_ids, sizes_bytes, tiers, is_thesis)
        if action == NOTHING:
            if i < len(t):
                _advance(w, t[i], is_thesis)
        elif is_thesis:
            act_thesis(w, int(key_ids[i - 1]), t[i - 1], action)
        else:
            act_breakeven(w, int(key_ids[i - 1]), t[i - 1], action)
    if len(t):
        w.counts[END_US] = max(w.counts[END_US], t[-1])
    _advance(w, horizon_us, is_thesis)
    if horizon_us != FOREVER_US:
        _close(w)
    return w.counts


@uncounted
def _serve(
    w: World, i: int, t: Integers, key_ids: Keys, sizes_bytes: Integers, tiers: Letters, is_thesis: bool
) -> tuple[int, int]:
    """Serve requests from the i-th until something is due before one, or one triggers something.

    Returns:
        The next request, and what the one before it triggers.
    """
    ordered, keys, nodes, p, counts = w.t, w.keys, w.nodes, w.p, w.counts
    is_limited = w.capacity_bytes != FOREVER_US
    due_us = w.rest[NODES_DUE_US]
    if w.queue[0, 0] > 0:
        due_us = min(due_us, w.queue[1, 0])
    while i < len(t) and t[i] < due_us:
        at_us, key = t[i], int(key_ids[i])
        tier = S3
        if keys[key, HELD_BYTES] >= 0:
            tier = REDIS
            counts[N_REDIS] += 1
            if is_limited:
                _use(nodes, keys, key)
        elif 0 <= keys[key, READY_US] <= at_us:
            tier = LAMBDA
            counts[N_LAMBDA] += 1
        if len(tiers) > 0:
            tiers[i] = tier
        i += 1
        if is_limited:
            if sizes_bytes[i - 1] > w.capacity_bytes:
                continue
            keys[key, SIZE_BYTES] = sizes_bytes[i - 1]
        keys[key, SEEN] += 1
        if is_thesis:
            action = decide_thesis(ordered, keys, nodes, p, key, at_us, tier)
        else:
            action = decide_breakeven(ordered, keys, nodes, p, key, at_us, tier)
        if action != NOTHING:
            return i, action
    return i, NOTHING


@compiled
def _world(
    begins: Integers, ordered: Integers, homes: Integers, node_count: int, capacity_bytes: int, horizon_us: int,
    p: Integers, spans: Integers,
) -> World:  # fmt: skip
    """Return a world in which nothing has happened."""
    key_count = len(homes)
    keys = np.zeros((key_count, KEY_PLACES), np.int64)
    for key in range(key_count):
        keys[key, SEEN] = keys[key, BEGIN] = begins[key]
        keys[key, HOME] = homes[key]
        keys[key, READY_US] = keys[key, DEADLINE_US] = keys[key, ENDED_US] = keys[key, HELD_BYTES] = -1
    nodes = np.zeros((node_count, NODE_PLACES), np.int64)
    for node in range(node_count):
        nodes[node, LEASES] = nodes[node, LEASES + 1] = nodes[node, USES] = nodes[node, USES + 1] = -1
        nodes[node, DUE_US] = FOREVER_US
    queue, places = np.zeros((key_count + 1, 2), np.int64), np.zeros(key_count, np.int64)
    rest = np.full(GLOBALS, FOREVER_US, np.int64)
    counts = np.zeros(COUNTS, np.int64)
    return World(ordered, keys, nodes, queue, places, rest, p, counts, spans, horizon_us, capacity_bytes)


@uncounted
def _advance(w: World, until_us: int, is_thesis: bool) -> None:
    """Handle everything due up to and including `until_us`, in the order of `docs/understand/simulation.md`."""
    while True:
        node = _next_node(w, until_us)
        node_us = w.nodes[node, DUE_US]
        if w.queue[0, 0] > 0 and w.queue[1, 0] <= min(node_us, until_us):
            _time_out(w)
        elif node_us <= until_us and node_us != FOREVER_US:
            _node_event(w, node, node_us, is_thesis)
        else:
            return


@uncounted
def _next_node(w: World, until_us: int) -> int:
    """Return the node that is due first, or any one if none is due by then."""
    first = 0
    if w.rest[NODES_DUE_US] > until_us:
        return first
    for node in range(1, len(w.nodes)):
        due_us, first_us = w.nodes[node, DUE_US], w.nodes[first, DUE_US]
        if due_us < first_us or (due_us == first_us and w.nodes[node, STATE] < w.nodes[first, STATE]):
            first = node
    w.rest[NODES_DUE_US] = w.nodes[first, DUE_US]
    return first


@uncounted
def _time_out(w: World) -> None:
    """Ask the key of the queue's first entry whether its cache function ends."""
    due_us, key = w.queue[1, 0], w.queue[1, 1]
    deadline_us = w.keys[key, DEADLINE_US]
    if deadline_us > due_us:
        put_first_off(w.queue, w.places, deadline_us)
        return
    drop_first(w.queue, w.places)
    end_key_lambda(w, key, due_us)


@uncounted
def _node_event(w: World, node: int, at_us: int, is_thesis: bool) -> None:
    """Let a node run, have its policy look at it, or let it be off."""
    state = w.nodes[node, STATE]
    if state == RUNNING:
        look(w, node, at_us, is_thesis)
    elif state == BOOTING:
        first_look(w, node, at_us, is_thesis)
        key = w.nodes[node, LEASES]
        while key >= 0:
            put(w, node, key)
            end_key_lambda(w, key, at_us)
            key = after(w.keys, key, LEASES)
    else:
        node_is_off(w, node, at_us)


@uncounted
def _use(nodes: Integers, keys: Integers, key: int) -> None:
    """Make a held object the most recently used one."""
    node = keys[key, HOME]
    if nodes[node, USES + 1] != key:
        remove(nodes, node, keys, key, USES)
        append(nodes, node, keys, key, USES)


@uncounted
def _close(w: World) -> None:
    """Bill up to the horizon what still runs there."""
    for key in range(len(w.keys)):
        end_key_lambda(w, key, w.horizon_us)
    for node in range(len(w.nodes)):
        if w.nodes[node, STATE] == RUNNING:
            end_redis(w.nodes[node, SINCE_US], w.horizon_us, 0, 0, w.p, w.counts, w.spans)
