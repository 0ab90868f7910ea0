"""Keys that share nodes, compiled: the readable `world.World` as arrays, a record per key and a record per node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from burstcache_sim.engine.books import (
    FOREVER_US,
    Integers,
    Records,
    TimingsRow,
    boot,
    end_lambda,
    end_redis,
    invoke,
)
from burstcache_sim.engine.compiled import inlined, uncounted
from burstcache_sim.engine.due import set_due
from burstcache_sim.engine.lists import LATER, LEASES, append, first, remove
from burstcache_sim.engine.store import drop, hold, overflow

NOTHING, START, JOIN = 0, 1, 2  # what a request triggers; a policy's decision is a sum of these
S3, EXPRESS, LAMBDA, REDIS = ord("S"), ord("X"), ord("L"), ord("R")
OFF, BOOTING, STOPPING, RUNNING = 0, 1, 2, 3  # of a node; at equal instants the lower one's end comes first
NO_LEASE = -1  # else the list that a key's lease is in: LEASES, or one of those that wait for a later check
LATER_CHECKS = 64  # lists that wait; a lease that could wait for longer is looked at in between

# A key, in two cache lines: what most requests touch is in the first. An instant below 0: there is none.
KEY = np.dtype(
    [
        ("seen", np.int64),  # the place in `World.t` after its newest request
        ("ready_us", np.int64),
        ("deadline_us", np.int64),
        ("count", np.int64),  # requests since its cache function was started
        ("is_kept", np.int64),  # its cache function bridges a boot: requests extend it no more
        ("lease", np.int64),  # the list that it is in, or NO_LEASE
        ("held_bytes", np.int64),  # below 0: its node does not hold it
        ("home", np.int64),
        ("ended_us", np.int64),
        ("size_bytes", np.int64),
        ("was_missing", np.int64),  # a check has found the lease without an entry
        ("begin", np.int64),  # the place in `World.t` of its first request
        ("links", np.int64, (4,)),  # neighbours in its node's lists (`engine.lists`)
    ],
    align=True,
)
NODE = np.dtype(
    [
        ("state", np.int64),
        ("due_us", np.int64),
        ("since_us", np.int64),
        ("used_bytes", np.int64),
        ("leases", np.int64),
        ("is_always_on", np.int64),
        ("checks", np.int64),  # since it was created: says which of the lists that wait is next
        ("ends", np.int64, (LATER + 2 * LATER_CHECKS,)),
    ],
    align=True,
)


class World(NamedTuple):
    """All keys and nodes of one run."""

    t: Integers  # arrivals, keys in order
    keys: Records
    nodes: Records
    queue: Integers  # due ends of cache functions (`engine.due`)
    places: Integers
    nodes_due_us: Integers  # one element: no node is due before
    timings: TimingsRow
    totals: Records  # of one element, the counts
    spans: Integers
    horizon_us: int
    capacity_bytes: int  # FOREVER_US: no limit


def new_world(
    begins: Integers, ordered: Integers, homes: Integers, node_count: int, capacity_bytes: int, horizon_us: int,
    timings: TimingsRow, totals: Records, spans: Integers, always_on: int = 0,
) -> World:  # fmt: skip
    """Return a world in which nothing has happened; key i has its requests from `ordered[begins[i]]` on."""
    key_count = len(homes)
    keys, nodes = np.zeros(key_count, KEY), np.zeros(node_count, NODE)
    keys["seen"] = keys["begin"] = begins[:-1]
    keys["home"] = homes
    for instant in ("ready_us", "deadline_us", "ended_us", "held_bytes"):
        keys[instant] = -1
    keys["lease"] = NO_LEASE
    nodes["due_us"] = FOREVER_US
    nodes["ends"] = -1
    nodes["is_always_on"][:always_on] = 1
    nodes["state"][:always_on] = RUNNING
    return World(
        t=ordered,
        keys=keys,
        nodes=nodes,
        queue=np.zeros((key_count + 1, 2), np.int64),
        places=np.zeros(key_count, np.int64),
        nodes_due_us=np.full(1, FOREVER_US, np.int64),
        timings=timings,
        totals=totals,
        spans=spans,
        horizon_us=horizon_us,
        capacity_bytes=capacity_bytes,
    )


@inlined
def are_within(w: World, key: int, at_us: int, requests: int, within_us: int) -> bool:
    """Whether the key's newest `requests`, the one at this instant included, are closer together than `within_us`."""
    oldest = w.keys[key].seen - requests
    return oldest >= w.keys[key].begin and at_us - w.t[oldest] < within_us  # type: ignore[no-any-return]


@uncounted
def start_key_lambda(w: World, key: int, at_us: int, life_us: int) -> None:
    """Start a key's cache function, which lives for `life_us` from its readiness."""
    k = w.keys[key]
    k.ready_us = invoke(at_us, k.ended_us, w.timings, w.totals[0])
    k.deadline_us = k.ready_us + life_us
    k.count = 0
    k.is_kept = 0
    set_due(w.queue, w.places, key, k.deadline_us)


@uncounted
def end_key_lambda(w: World, key: int, at_us: int) -> None:
    """End the key's cache function if one lives."""
    k = w.keys[key]
    if k.ready_us >= 0:
        end_lambda(k.ready_us, at_us, w.horizon_us, 0, 0, w.totals[0], w.spans)
        k.ended_us = at_us
        k.ready_us = k.deadline_us = -1


@uncounted
def join(w: World, key: int, at_us: int) -> None:
    """Take a lease for a key: a node that is off boots, a running one serves the key from now on."""
    k = w.keys[key]
    node = k.home
    if k.lease == NO_LEASE:
        put_lease(w, key, LEASES)
        w.nodes[node].leases += 1
    if w.nodes[node].state == OFF:
        set_node(w, node, BOOTING, boot(at_us, w.timings, w.totals[0]))
    else:
        w.totals[0].seeds += 1
    if w.nodes[node].state == RUNNING:
        put(w, key)
        end_key_lambda(w, key, at_us)


@uncounted
def put(w: World, key: int) -> None:
    """Let a key's node hold its object; the next check looks at the leases whose objects leave for it."""
    node = w.keys[key].home
    hold(w.nodes, node, w.keys, key, w.capacity_bytes)
    leaves = overflow(w.nodes, node, w.capacity_bytes)
    while leaves >= 0:
        drop(w.nodes, node, w.keys, leaves, w.capacity_bytes)
        move_lease(w, leaves, LEASES)
        leaves = overflow(w.nodes, node, w.capacity_bytes)


@uncounted
def move_lease(w: World, key: int, chain: int) -> None:
    """Put a key's lease into another list."""
    if w.keys[key].lease != chain:
        remove(w.nodes, w.keys[key].home, w.keys, key, w.keys[key].lease)
        put_lease(w, key, chain)


@inlined
def waiting(w: World, node: int, checks: int) -> int:
    """Return the list of the leases that this many checks from now look at; 0: the check of this instant."""
    return LATER + 2 * ((w.nodes[node].checks + checks) % LATER_CHECKS)  # type: ignore[no-any-return]


@uncounted
def set_node(w: World, node: int, state: int, due_us: int) -> None:
    """Let a node be in a state that is due to end, or to be looked at, at that instant."""
    w.nodes[node].state = state
    w.nodes[node].due_us = due_us
    w.nodes_due_us[0] = min(w.nodes_due_us[0], due_us)


@uncounted
def release(w: World, key: int) -> None:
    """Give a key's lease and entry back: S3 serves it from now on."""
    k = w.keys[key]
    k.was_missing = 0
    remove(w.nodes, k.home, w.keys, key, k.lease)
    k.lease = NO_LEASE
    w.nodes[k.home].leases -= 1
    drop(w.nodes, k.home, w.keys, key, w.capacity_bytes)


@uncounted
def stop_node(w: World, node: int, at_us: int) -> None:
    """Stop a running node and release the keys that it still holds, none of which waits for a later check.

    A node that is always on runs on, and is not looked at before another look is set.
    """
    if w.nodes[node].is_always_on != 0:
        w.totals[0].end_us = max(w.totals[0].end_us, at_us)
        set_node(w, node, RUNNING, FOREVER_US)
        return
    end_redis(w.nodes[node].since_us, at_us, 0, 0, w.timings, w.totals[0], w.spans)
    while first(w.nodes, node, LEASES) >= 0:
        release(w, first(w.nodes, node, LEASES))
    set_node(w, node, STOPPING, at_us + w.timings.stop_us)


@uncounted
def put_lease(w: World, key: int, chain: int) -> None:
    """Put a key without a lease into one of the lists of leases."""
    w.keys[key].lease = chain
    append(w.nodes, w.keys[key].home, w.keys, key, chain)
