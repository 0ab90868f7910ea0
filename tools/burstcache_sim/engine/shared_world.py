"""The compiled world of keys that share nodes: the readable `world.World` as one record per key and per node."""

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

NOTHING, START, JOIN = 0, 1, 2  # actions that a request triggers (a policy's decision is a sum of actions)
S3, EXPRESS, LAMBDA, REDIS = ord("S"), ord("X"), ord("L"), ord("R")
OFF, BOOTING, STOPPING, RUNNING = 0, 1, 2, 3  # states of a node, in the order of simultaneous events
_NONE_US = np.zeros(0, np.int64)
NO_LEASE = -1  # any other value is the list of the key's lease: LEASES, or the list of a later check
LATER_CHECKS = 64  # number of lists of later checks (a lease that could skip more checks gets an extra check)

# A key's record fills two cache lines. Most requests touch only the first line. Times below 0 are unset.
KEY = np.dtype(
    [
        ("seen", np.int64),  # index in `World.t` after its newest request
        ("ready_us", np.int64),
        ("deadline_us", np.int64),
        ("count", np.int64),  # requests since the start of its cache function
        ("is_kept", np.int64),  # whether its cache function bridges a boot, so that requests no longer extend its life
        ("lease", np.int64),  # the list of its lease, or NO_LEASE
        ("held_bytes", np.int64),  # below 0 if not stored in its node
        ("home", np.int64),
        ("ended_us", np.int64),
        ("size_bytes", np.int64),
        ("was_missing", np.int64),  # whether the last check found its lease without a stored object
        ("begin", np.int64),  # index in `World.t` of its first request
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
        ("is_interrupted", np.int64),  # during the last check of a run that an interruption ends
        ("checks", np.int64),  # checks since the start of the run, which determine the list of the next check
        ("ends", np.int64, (LATER + 2 * LATER_CHECKS,)),
    ],
    align=True,
)


class World(NamedTuple):
    """All keys and nodes of a run."""

    t: Integers  # arrivals, ordered by key
    keys: Records
    nodes: Records
    queue: Integers  # due ends of cache functions (`engine.due`)
    places: Integers
    nodes_due_us: Integers  # one element, a lower bound on the due times of all nodes
    timings: TimingsRow
    totals: Records  # one element, the counts
    spans: Integers
    horizon_us: int
    capacity_bytes: int  # FOREVER_US if unlimited
    interruptions_us: Integers  # in order, followed by FOREVER_US
    interrupted: Integers  # the node of each interruption
    interruption: Integers  # one element, the index of the next interruption


def new_world(
    begins: Integers, ordered: Integers, homes: Integers, node_count: int, capacity_bytes: int, horizon_us: int,
    timings: TimingsRow, totals: Records, spans: Integers, always_on: int = 0,
    interruptions: tuple[Integers, Integers] = (_NONE_US, _NONE_US),
) -> World:  # fmt: skip
    """Create a world before its first request. The requests of key i start at `ordered[begins[i]]`."""
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
        interruptions_us=np.append(interruptions[0], FOREVER_US),
        interrupted=interruptions[1],
        interruption=np.zeros(1, np.int64),
    )


@inlined
def are_within(w: World, key: int, at_us: int, requests: int, within_us: int) -> bool:
    """Return whether the key's last `requests` requests, including the current one, span less than `within_us`."""
    oldest = w.keys[key].seen - requests
    return oldest >= w.keys[key].begin and at_us - w.t[oldest] < within_us  # type: ignore[no-any-return]


@uncounted
def start_key_lambda(w: World, key: int, at_us: int, life_us: int) -> None:
    """Start a key's cache function, which ends `life_us` after it is ready."""
    k = w.keys[key]
    k.ready_us = invoke(at_us, k.ended_us, w.timings, w.totals[0])
    k.deadline_us = k.ready_us + life_us
    k.count = 0
    k.is_kept = 0
    set_due(w.queue, w.places, key, k.deadline_us)


@uncounted
def end_key_lambda(w: World, key: int, at_us: int) -> None:
    """End the key's cache function, if any."""
    k = w.keys[key]
    if k.ready_us >= 0:
        end_lambda(k.ready_us, at_us, w.horizon_us, 0, 0, w.totals[0], w.spans)
        k.ended_us = at_us
        k.ready_us = k.deadline_us = -1


@uncounted
def join(w: World, key: int, at_us: int) -> None:
    """Take a lease for a key. Boot its node if the node is off. A running node serves the key from now on."""
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
    """Store a key's object in its node, and move the leases of evicted objects to the next check."""
    node = w.keys[key].home
    hold(w.nodes, node, w.keys, key, w.capacity_bytes)
    leaves = overflow(w.nodes, node, w.capacity_bytes)
    while leaves >= 0:
        drop(w.nodes, node, w.keys, leaves, w.capacity_bytes)
        move_lease(w, leaves, LEASES)
        leaves = overflow(w.nodes, node, w.capacity_bytes)


@uncounted
def move_lease(w: World, key: int, chain: int) -> None:
    """Move a key's lease to another list."""
    if w.keys[key].lease != chain:
        remove(w.nodes, w.keys[key].home, w.keys, key, w.keys[key].lease)
        put_lease(w, key, chain)


@inlined
def waiting(w: World, node: int, checks: int) -> int:
    """Return the list of leases for the check that is `checks` ahead (0 for the current check)."""
    return LATER + 2 * ((w.nodes[node].checks + checks) % LATER_CHECKS)  # type: ignore[no-any-return]


@uncounted
def set_node(w: World, node: int, state: int, due_us: int) -> None:
    """Set a node's state, and the time at which the state ends or a check is due."""
    w.nodes[node].state = state
    w.nodes[node].due_us = due_us
    w.nodes_due_us[0] = min(w.nodes_due_us[0], due_us)


@uncounted
def release(w: World, key: int) -> None:
    """Release a key's lease and drop its object. S3 serves the key from now on."""
    k = w.keys[key]
    k.was_missing = 0
    remove(w.nodes, k.home, w.keys, key, k.lease)
    k.lease = NO_LEASE
    w.nodes[k.home].leases -= 1
    drop(w.nodes, k.home, w.keys, key, w.capacity_bytes)


@uncounted
def stop_node(w: World, node: int, at_us: int) -> None:
    """Stop a running node and release its keys. No key may be in the list of a later check.

    An always-on node keeps running, without checks until another check is scheduled.
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
    """Add a key without a lease to one of the lists of leases."""
    w.keys[key].lease = chain
    append(w.nodes, w.keys[key].home, w.keys, key, chain)
