"""The hazard policy, compiled, for one key or many that share nodes (`policies.key_hazard` in words).

Nothing waits in a queue. When a node or a cache function ends follows from what was known at its last request, so it
can be asked when the next one comes. Most often `surely_pays` answers: not yet. Only where it does not is the instant
sought that the readable policy computes after every request.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.engine.beliefs import (
    RATES,
    Floats,
    Tables,
    begin,
    learn,
    pays_by,
    pays_until_us,
    surely_pays,
    tables_of,
)
from burstcache_sim.engine.books import (
    FOREVER_US,
    MAX_TIME_US,
    Integers,
    Records,
    TimingsRow,
    boot,
    end_lambda,
    end_redis,
    invoke,
)
from burstcache_sim.engine.compiled import compiled, inlined, uncounted
from burstcache_sim.engine.lists import LEASES, after, append, first, remove
from burstcache_sim.engine.shared_world import BOOTING, LAMBDA, OFF, REDIS, RUNNING, S3
from burstcache_sim.engine.store import drop, put, use
from burstcache_sim.policies.key_hazard import KeyHazardRow

Keys = NDArray[np.int32]
Letters = NDArray[np.uint8]

# What comes first of the cache functions that end at the same instant: time-outs by key, nodes that are ready, joins,
# the horizon. Spans are noted out of order, with one of these plus a number in the place of their requests.
TIMED_OUT, READY, JOINED, CLOSED = 0, 1 << 60, 2 << 60, 3 << 60

# An instant below 0: there is none. `links` and `ends` are of the lists of keys (`engine.lists`).
_OF_KEY = ("last_us", "ready_us", "is_bridging", "ended_us", "is_leased", "held_bytes", "size_bytes", "home")
_OF_NODE = ("last_us", "state", "since_us", "off_us", "used_bytes", "belief")
KEY = np.dtype([*((name, np.int64) for name in _OF_KEY), ("links", np.int64, (4,))], align=True)
NODE = np.dtype([*((name, np.int64) for name in _OF_NODE), ("ends", np.int64, (4,))], align=True)


class World(NamedTuple):
    """All keys and nodes of one run."""

    keys: Records
    nodes: Records
    weights: Floats  # a row per belief: of each key, then of each node with several keys
    rate_counts: Floats
    gaps: Integers  # of each belief; below 0 before the first request
    tables: Tables
    timings: TimingsRow
    totals: Records  # of one element, the counts
    spans: Integers
    horizon_us: int
    capacity_bytes: int  # FOREVER_US: no limit


def check(row: KeyHazardRow, requests: int) -> None:
    """Raise `InvalidSettingError` if a value is too large to be added to a time."""
    if not 0 <= (least_us := row.parameters.redis_least_us) <= MAX_TIME_US:
        raise InvalidSettingError(f"redis_least_us {least_us}: expected a time from 0 to {MAX_TIME_US} us")


def new_world(
    row: KeyHazardRow, homes: Integers, node_count: int, capacity_bytes: int, horizon_us: int, timings: TimingsRow,
    totals: Records, spans: Integers,
) -> World:  # fmt: skip
    """Return a world in which nothing has happened."""
    key_count = len(homes)
    keys, nodes = np.zeros(key_count, KEY), np.zeros(node_count, NODE)
    keys["home"] = homes
    for instant in ("ready_us", "ended_us", "held_bytes"):
        keys[instant] = -1
    nodes["off_us"] = nodes["ends"] = -1
    # A node with one key believes what the key does; one with several has a belief of its own.
    of_nodes = np.bincount(homes, minlength=node_count) > 1
    nodes["belief"][homes] = np.arange(key_count)
    nodes["belief"][of_nodes] = key_count + np.arange(of_nodes.sum())
    beliefs = key_count + int(of_nodes.sum())
    return World(
        keys=keys,
        nodes=nodes,
        weights=np.empty((beliefs, RATES)),
        rate_counts=np.empty((beliefs, RATES)),
        gaps=np.full(beliefs, -1, np.int64),
        tables=tables_of(row.parameters),
        timings=timings,
        totals=totals,
        spans=spans,
        horizon_us=horizon_us,
        capacity_bytes=capacity_bytes,
    )


def in_order(spans: Integers) -> Integers:
    """Return spans in the order in which they end."""
    return spans[np.lexsort((spans[:, 1], spans[:, 4]))]


@compiled
def replay(w: World, t: Integers, key_ids: Keys, sizes_bytes: Integers, tiers: Letters) -> None:
    """Replay the requests and add to the world's totals.

    Args:
        w: A new world.
        t: All arrivals, none after the horizon [us].
        key_ids: Their keys; none: all are key 0.
        sizes_bytes: Their objects' sizes; none: there is no limit.
        tiers: Room for the letter of every request's tier, or none.
    """
    for i in range(len(t)):
        key = int(key_ids[i]) if len(key_ids) else 0
        size_bytes = sizes_bytes[i] if len(sizes_bytes) else 0
        tier = _serve(w, i, key, t[i], size_bytes)
        if len(tiers):
            tiers[i] = tier
    _close(w)


@inlined
def _serve(w: World, i: int, key: int, at_us: int, size_bytes: int) -> int:
    """Serve the i-th request; return its tier's letter."""
    k, counts = w.keys[key], w.totals[0]
    node, n = k.home, w.nodes[k.home]
    _settle_node(w, node, at_us)
    _settle_lambda(w, key, at_us)
    tier = S3
    if k.held_bytes >= 0:
        tier = REDIS
        counts.n_redis += 1
        if w.capacity_bytes != FOREVER_US:
            use(w.nodes, node, w.keys, key)
    elif 0 <= k.ready_us <= at_us:
        tier = LAMBDA
        counts.n_lambda += 1
    if size_bytes > w.capacity_bytes:
        return tier
    k.size_bytes = size_bytes
    _learn(w, key, at_us - k.last_us)
    if n.belief != key:
        _learn(w, n.belief, at_us - n.last_us)
    k.last_us = n.last_us = at_us
    if n.state == RUNNING:
        if tier != REDIS:
            _join(w, node, key)
            put(w.nodes, node, w.keys, key, w.capacity_bytes)
            _end_lambda(w, key, at_us, JOINED + i)
    else:
        _start(w, node, key, at_us)
    return tier


@uncounted
def _start(w: World, node: int, key: int, at_us: int) -> None:
    """Boot Redis, join its boot, start a cache function: whatever pays."""
    k, n = w.keys[key], w.nodes[node]
    if n.state == BOOTING:
        if k.is_leased == 0:
            _join(w, node, key)
    elif at_us >= n.off_us and pays_by(w.weights[n.belief], w.tables.boot, 0, 1.0):
        n.state, n.since_us = BOOTING, boot(at_us, w.timings, w.totals[0])
        w.totals[0].seeds -= 1  # `boot` counts the object, and so does the join
        _join(w, node, key)
    k.is_bridging = n.state == BOOTING
    if k.ready_us < 0 and pays_by(w.weights[key], w.tables.bridge if n.state == BOOTING else w.tables.invoke, 0, 1.0):
        k.ready_us = invoke(at_us, k.ended_us, w.timings, w.totals[0])


@inlined
def _settle_node(w: World, node: int, until_us: int) -> None:
    """Let a node's boot and its run end if they do by then."""
    n = w.nodes[node]
    since_us = n.since_us
    if n.state == BOOTING and since_us <= until_us:
        n.state = RUNNING
        key, order = first(w.nodes, node, LEASES), READY + node * len(w.keys)
        while key >= 0:
            _settle_lambda(w, key, since_us)
            _end_lambda(w, key, since_us, order)
            put(w.nodes, node, w.keys, key, w.capacity_bytes)
            key, order = after(w.keys, key, LEASES), order + 1
    least_us = since_us + w.tables.least_us
    if n.state != RUNNING or until_us < least_us:
        return
    if not surely_pays(w.weights[n.belief], w.tables.stay, until_us - n.last_us):
        stop_us = max(least_us, n.last_us + pays_until_us(w.weights[n.belief], w.tables.stay))
        if stop_us <= until_us:
            _stop_node(w, node, stop_us)


@inlined
def _settle_lambda(w: World, key: int, until_us: int) -> None:
    """Let a key's cache function end if it times out by then."""
    k = w.keys[key]
    if k.ready_us < 0 or until_us < k.ready_us:
        return
    worth = w.tables.bridge if k.is_bridging != 0 else w.tables.invoke
    if not surely_pays(w.weights[key], worth, until_us - k.last_us):
        deadline_us = max(k.ready_us, k.last_us + pays_until_us(w.weights[key], worth))
        if deadline_us <= until_us:
            _end_lambda(w, key, deadline_us, TIMED_OUT + key)


@uncounted
def _end_lambda(w: World, key: int, at_us: int, order: int) -> None:
    """End the key's cache function if it has one; `order` is its place among those that end at this instant."""
    k = w.keys[key]
    if k.ready_us >= 0:
        end_lambda(k.ready_us, at_us, w.horizon_us, order, order, w.totals[0], w.spans)
        k.ended_us = at_us
        k.ready_us = -1


@uncounted
def _stop_node(w: World, node: int, at_us: int) -> None:
    """Stop a running node; its leases and what it holds go."""
    n, counts = w.nodes[node], w.totals[0]
    end_redis(n.since_us, at_us, node, node, w.timings, counts, w.spans)
    n.state, n.off_us = OFF, at_us + w.timings.stop_us
    if n.off_us <= w.horizon_us:
        counts.end_us = max(counts.end_us, n.off_us)
    while first(w.nodes, node, LEASES) >= 0:
        key = first(w.nodes, node, LEASES)
        w.keys[key].is_leased = 0
        remove(w.nodes, node, w.keys, key, LEASES)
        drop(w.nodes, node, w.keys, key, w.capacity_bytes)


@uncounted
def _join(w: World, node: int, key: int) -> None:
    """Take a lease for a key, and fetch its object."""
    w.totals[0].seeds += 1
    if w.keys[key].is_leased == 0:
        w.keys[key].is_leased = 1
        append(w.nodes, node, w.keys, key, LEASES)


@uncounted
def _close(w: World) -> None:
    """Let happen what is left, and bill up to the horizon what still runs there."""
    for node in range(len(w.nodes)):
        _settle_node(w, node, w.horizon_us)
        n = w.nodes[node]
        if n.state == RUNNING:
            order = CLOSED + node
            end_redis(n.since_us, w.horizon_us, order, order, w.timings, w.totals[0], w.spans)
    for key in range(len(w.keys)):
        _settle_lambda(w, key, w.horizon_us)
        _end_lambda(w, key, w.horizon_us, CLOSED + key)


@inlined
def _learn(w: World, belief: int, gap_us: int) -> None:
    """Begin a belief, or learn a gap."""
    gaps = w.gaps[belief] + 1
    w.gaps[belief] = gaps
    if gaps == 0:
        begin(w.weights[belief], w.rate_counts[belief], w.tables)
    else:
        learn(w.weights[belief], w.rate_counts[belief], gaps, w.tables, gap_us)
