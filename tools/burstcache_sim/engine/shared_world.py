"""Keys that share nodes, compiled: their state as arrays, and what both policies do with it (`sim.shared` in words).

A row per key and a row per node; lists of keys (leases, order of use) are chained through the keys' rows.
"""

from __future__ import annotations

from typing import NamedTuple

from burstcache_sim.engine.books import (
    END_US,
    FOREVER_US,
    SEEDS,
    STOP_US,
    Integers,
    boot,
    end_lambda,
    end_redis,
    invoke,
)  # fmt: skip
from burstcache_sim.engine.compiled import uncounted
from burstcache_sim.engine.due import set_due
from burstcache_sim.engine.lists import LEASES, USES, append, remove

# Places in a key's row; what most requests touch comes first. An instant below 0: there is none.
SEEN, READY_US, DEADLINE_US, COUNT, IS_KEPT, IS_LEASED, HELD_BYTES, HOME = 0, 1, 2, 3, 4, 5, 6, 7
ENDED_US, SIZE_BYTES, WAS_MISSING, BEGIN = 8, 9, 10, 11
KEY_PLACES = 16  # 12 to 15: links of the two lists (`engine.lists`)

# Places in a node's row, after the ends of the two lists: what it is, until when, since when, what it holds.
STATE, DUE_US, SINCE_US, USED_BYTES = 4, 5, 6, 7
NODE_PLACES = 8
OFF, BOOTING, STOPPING, RUNNING = 0, 1, 2, 3  # at equal instants the lower one's end comes first

# Places in the array of what changes besides.
NODES_DUE_US = 0  # no node is due before
GLOBALS = 1


class World(NamedTuple):
    """All keys and nodes of one run."""

    t: Integers  # arrivals, keys in order: `SEEN` is the place after a key's newest request
    keys: Integers
    nodes: Integers
    queue: Integers  # due ends of cache functions (`engine.due`)
    places: Integers
    rest: Integers
    p: Integers
    counts: Integers
    spans: Integers
    horizon_us: int
    capacity_bytes: int  # FOREVER_US: no limit


@uncounted
def start_key_lambda(w: World, key: int, at_us: int, life_us: int) -> None:
    """Start a key's cache function, which lives so long from its readiness."""
    ready_us = invoke(at_us, w.keys[key, ENDED_US], w.p, w.counts)
    w.keys[key, READY_US] = ready_us
    w.keys[key, DEADLINE_US] = ready_us + life_us
    w.keys[key, COUNT] = 0
    w.keys[key, IS_KEPT] = 0
    set_due(w.queue, w.places, key, ready_us + life_us)


@uncounted
def end_key_lambda(w: World, key: int, at_us: int) -> None:
    """End the key's cache function if one lives."""
    ready_us = w.keys[key, READY_US]
    if ready_us >= 0:
        end_lambda(ready_us, at_us, w.horizon_us, 0, 0, w.counts, w.spans)
        w.keys[key, ENDED_US] = at_us
        w.keys[key, READY_US] = -1
        w.keys[key, DEADLINE_US] = -1


@uncounted
def join(w: World, key: int, at_us: int) -> None:
    """Take a lease for a key: a node that is off boots, a running one serves the key from now on."""
    node = w.keys[key, HOME]
    if w.keys[key, IS_LEASED] == 0:
        w.keys[key, IS_LEASED] = 1
        append(w.nodes, node, w.keys, key, LEASES)
    if w.nodes[node, STATE] == OFF:
        set_node(w, node, BOOTING, boot(at_us, w.p, w.counts))
    else:
        w.counts[SEEDS] += 1
    if w.nodes[node, STATE] == RUNNING:
        put(w, node, key)
        end_key_lambda(w, key, at_us)


@uncounted
def set_node(w: World, node: int, state: int, due_us: int) -> None:
    """Let a node be in a state that is due to end, or to be looked at, at that instant."""
    w.nodes[node, STATE] = state
    w.nodes[node, DUE_US] = due_us
    w.rest[NODES_DUE_US] = min(w.rest[NODES_DUE_US], due_us)


@uncounted
def put(w: World, node: int, key: int) -> None:
    """Hold a key's object, at the cost of the least recently used ones if need be."""
    if w.capacity_bytes == FOREVER_US:
        w.keys[key, HELD_BYTES] = 0
        return
    drop(w, node, key)
    w.keys[key, HELD_BYTES] = w.keys[key, SIZE_BYTES]
    append(w.nodes, node, w.keys, key, USES)
    w.nodes[node, USED_BYTES] += w.keys[key, SIZE_BYTES]
    while w.nodes[node, USED_BYTES] > w.capacity_bytes:
        drop(w, node, w.nodes[node, USES])


@uncounted
def drop(w: World, node: int, key: int) -> None:
    """Hold a key's object no longer, if it is held."""
    held_bytes = w.keys[key, HELD_BYTES]
    if held_bytes >= 0:
        w.keys[key, HELD_BYTES] = -1
        if w.capacity_bytes != FOREVER_US:
            w.nodes[node, USED_BYTES] -= held_bytes
            remove(w.nodes, node, w.keys, key, USES)


@uncounted
def release(w: World, key: int) -> None:
    """Give a key's lease and entry back: S3 serves it from now on."""
    node = w.keys[key, HOME]
    w.keys[key, WAS_MISSING] = 0
    w.keys[key, IS_LEASED] = 0
    remove(w.nodes, node, w.keys, key, LEASES)
    drop(w, node, key)


@uncounted
def stop_node(w: World, node: int, at_us: int) -> None:
    """Stop a running node with whatever it still holds."""
    end_redis(w.nodes[node, SINCE_US], at_us, 0, 0, w.p, w.counts, w.spans)
    while w.nodes[node, LEASES] >= 0:
        release(w, w.nodes[node, LEASES])
    set_node(w, node, STOPPING, at_us + w.p[STOP_US])


@uncounted
def node_is_off(w: World, node: int, at_us: int) -> None:
    """Let a node that has stopped be off."""
    w.counts[END_US] = max(w.counts[END_US], at_us)
    set_node(w, node, OFF, FOREVER_US)
