"""What the two policies do where keys share nodes, compiled: actions, and the looks at a running node."""

from __future__ import annotations

from burstcache.core.parameters import QUEUE_LENGTH
from burstcache_sim.engine.books import (
    CHECK_US,
    CHECKS,
    GAP_US,
    IDLE_US,
    KEEP_RUNNING_US,
    LEAST_US,
    TICK_US,
    USES_LAMBDA,
    UTILIZATION_US,
    Integers,
)  # fmt: skip
from burstcache_sim.engine.compiled import uncounted
from burstcache_sim.engine.lists import LEASES, after
from burstcache_sim.engine.shared_decide import JOIN, START
from burstcache_sim.engine.shared_world import (
    BEGIN,
    DEADLINE_US,
    HELD_BYTES,
    HOME,
    IS_KEPT,
    READY_US,
    RUNNING,
    SEEN,
    SINCE_US,
    STATE,
    WAS_MISSING,
    World,
    join,
    release,
    set_node,
    start_key_lambda,
    stop_node,
)  # fmt: skip


@uncounted
def act_thesis(w: World, key: int, at_us: int, action: int) -> None:
    """Start a cache function, or take a lease and keep the cache function that the key has."""
    if action == START:
        start_key_lambda(w, key, at_us, w.p[TICK_US])
        return
    if w.keys[key, READY_US] >= 0:
        w.keys[key, DEADLINE_US] += w.p[KEEP_RUNNING_US]
        w.keys[key, IS_KEPT] = 1
    join(w, key, at_us)


@uncounted
def act_breakeven(w: World, key: int, at_us: int, action: int) -> None:
    """Start a cache function, take a lease, or both; a cache function bridges a boot."""
    if action & START:
        start_key_lambda(w, key, at_us, w.p[GAP_US])
    if not action & JOIN:
        return
    node = w.keys[key, HOME]
    join(w, key, at_us)
    if w.nodes[node, STATE] == RUNNING:
        _set_stop(w, node, at_us)
    elif w.p[USES_LAMBDA] != 0:
        if w.keys[key, READY_US] < 0:
            start_key_lambda(w, key, at_us, w.p[KEEP_RUNNING_US])
        else:
            w.keys[key, DEADLINE_US] += w.p[KEEP_RUNNING_US]
        w.keys[key, IS_KEPT] = 1


@uncounted
def first_look(w: World, node: int, at_us: int, is_thesis: bool) -> None:
    """Let a node run, and set when its policy looks at it."""
    w.nodes[node, SINCE_US] = at_us
    if is_thesis:
        set_node(w, node, RUNNING, at_us + w.p[CHECK_US])
    else:
        _set_stop(w, node, _newest_us(w, node))


@uncounted
def look(w: World, node: int, at_us: int, is_thesis: bool) -> None:
    """Judge a running node: the break-even policy set the instant at which it has idled long enough."""
    if is_thesis:
        w.counts[CHECKS] += 1
        key = w.nodes[node, LEASES]
        while key >= 0:
            next_key = after(w.keys, key, LEASES)
            if _leaves(w.t, w.keys, key, at_us - w.p[UTILIZATION_US]):
                release(w, key)
            key = next_key
        if w.nodes[node, LEASES] >= 0:
            set_node(w, node, RUNNING, at_us + w.p[CHECK_US])
            return
    stop_node(w, node, at_us)


@uncounted
def _set_stop(w: World, node: int, last_us: int) -> None:
    set_node(w, node, RUNNING, max(w.nodes[node, SINCE_US] + w.p[LEAST_US], last_us + w.p[IDLE_US]))


@uncounted
def _newest_us(w: World, node: int) -> int:
    """Return the newest request of all keys that have a lease [us]."""
    newest = -1
    key = w.nodes[node, LEASES]
    while key >= 0:
        newest = max(newest, w.t[w.keys[key, SEEN] - 1])
        key = after(w.keys, key, LEASES)
    return newest


@uncounted
def _leaves(ordered: Integers, keys: Integers, key: int, idle_since_us: int) -> bool:
    """Tell whether a check releases a key: it is idle, or its object is missing for the second time."""
    if keys[key, HELD_BYTES] >= 0:
        keys[key, WAS_MISSING] = 0
        return ordered[max(keys[key, BEGIN], keys[key, SEEN] - QUEUE_LENGTH)] < idle_since_us  # type: ignore[no-any-return]
    was_missing = keys[key, WAS_MISSING] != 0
    keys[key, WAS_MISSING] = 1
    return was_missing  # type: ignore[no-any-return]
