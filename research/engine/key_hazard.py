"""Hazard per key, compiled, for one key or for keys that share nodes.

There is no queue of events. The end of a node or a cache function follows from the belief at its last request, so the
engine settles it when the next request comes. Most often `_surely_pays` shows that it has not ended. Otherwise the
engine searches for the instant that the readable policy computes after every request.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from burstcache.core.errors import InvalidSettingError
from burstcache.core.hazard import LONGEST_IDLE_US
from burstcache_sim.engine.arrays import (
    Keys,
    Letters,
    checked_arrivals,
    keys_and_homes,
    new_totals,
    sizes_and_capacity,
    timings_row,
)
from burstcache_sim.engine.beliefs import (
    RATES,
    Floats,
    Tables,
    Worths,
    begin,
    learn,
    pays_by,
    pays_until_us,
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
from burstcache_sim.engine.run import Replay, in_detail
from burstcache_sim.engine.shared_world import BOOTING, LAMBDA, OFF, REDIS, RUNNING, S3
from burstcache_sim.engine.store import drop, hold, overflow, use
from burstcache_sim.world.scenario import Scenario
from research.policies.key_hazard import KeyHazardRow

# Gains that outweigh losses by this factor do so at any earlier instant in spite of rounding: seventeen squarings turn
# one rounding error of 2**-53 into 2**-36.
SURELY = 1 + 2.0**-30

# The order of cache functions that end at the same instant: time-outs by key, boots that end, joins, the horizon. Spans
# are noted out of order, with one of these plus a number in the place of their requests.
TIMED_OUT, READY, JOINED, CLOSED = 0, 1 << 60, 2 << 60, 3 << 60

# An instant below 0 stands for none. `links` and `ends` belong to the lists of keys (`burstcache_sim.engine.lists`).
_OF_KEY = ("last_us", "ready_us", "is_bridging", "ended_us", "is_leased", "held_bytes", "size_bytes", "home")
_OF_NODE = ("last_us", "state", "since_us", "off_us", "used_bytes", "belief")
KEY = np.dtype([*((name, np.int64) for name in _OF_KEY), ("links", np.int64, (4,))], align=True)
NODE = np.dtype([*((name, np.int64) for name in _OF_NODE), ("ends", np.int64, (4,))], align=True)


class World(NamedTuple):
    """All keys and nodes of one run."""

    keys: Records
    nodes: Records
    weights: Floats  # a row per belief: each key's, then each node's with several keys
    rate_counts: Floats
    gaps: Integers  # per belief; below 0 before the first request
    tables: Tables
    timings: TimingsRow
    totals: Records  # one element, the counts
    spans: Integers
    horizon_us: int
    capacity_bytes: int  # FOREVER_US: no limit


def validate(row: KeyHazardRow, requests: int) -> None:
    """Raise `InvalidSettingError` if a value is too large to be added to a time."""
    if not 0 <= (least_us := row.parameters.redis_least_us) <= MAX_TIME_US:
        raise InvalidSettingError(f"redis_least_us {least_us}: expected a time from 0 to {MAX_TIME_US} us")


def prepare(scenario: Scenario) -> Replay:
    """Prepare the replay of a scenario, for one key and for many."""
    timings = timings_row(scenario)
    t, horizon_us = checked_arrivals(scenario)
    all_ids, homes = keys_and_homes(scenario, len(t))
    key_ids = all_ids[:0] if scenario.is_one_key else all_ids
    sizes_bytes, capacity_bytes = sizes_and_capacity(scenario, len(t))

    def run(row: NamedTuple, spans: Integers, tiers: Letters) -> Records:
        assert isinstance(row, KeyHazardRow)
        totals = new_totals(t)
        world = new_world(row, homes, scenario.nodes, capacity_bytes, horizon_us, timings, totals, spans)
        replay(world, t, key_ids, sizes_bytes, tiers)
        noted = spans[: totals["spans"][0]]
        noted[:] = in_order(noted)
        return totals

    return in_detail(run, scenario, t, all_ids, len(homes))


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
    # A node with one key shares the key's belief. A node with several keys has its own.
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
        key_ids: Their keys. An empty array stands for key 0 alone.
        sizes_bytes: Their objects' sizes [bytes]. An empty array stands for nodes without a limit.
        tiers: Room for the letter of every request's tier, or an empty array.
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
    """Serve the i-th request and return its tier's letter."""
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
            _put(w, node, key)
            _end_lambda(w, key, at_us, JOINED + i)
    else:
        _start(w, node, key, at_us)
    return tier


@uncounted
def _start(w: World, node: int, key: int, at_us: int) -> None:
    """Boot Redis, join its boot, start a cache function, as far as each of them pays."""
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
    """End a node's boot and its run if they end by then."""
    n = w.nodes[node]
    since_us = n.since_us
    if n.state == BOOTING and since_us <= until_us:
        n.state = RUNNING
        key, order = first(w.nodes, node, LEASES), READY + node * len(w.keys)
        while key >= 0:
            _settle_lambda(w, key, since_us)
            _end_lambda(w, key, since_us, order)
            _put(w, node, key)
            key, order = after(w.keys, key, LEASES), order + 1
    least_us = since_us + w.tables.least_us
    if n.state != RUNNING or until_us < least_us:
        return
    if not _surely_pays(w.weights[n.belief], w.tables.stay, until_us - n.last_us):
        stop_us = max(least_us, n.last_us + pays_until_us(w.weights[n.belief], w.tables.stay))
        if stop_us <= until_us:
            _stop_node(w, node, stop_us)


@inlined
def _settle_lambda(w: World, key: int, until_us: int) -> None:
    """End a key's cache function if it times out by then."""
    k = w.keys[key]
    if k.ready_us < 0 or until_us < k.ready_us:
        return
    worth = w.tables.bridge if k.is_bridging != 0 else w.tables.invoke
    if not _surely_pays(w.weights[key], worth, until_us - k.last_us):
        deadline_us = max(k.ready_us, k.last_us + pays_until_us(w.weights[key], worth))
        if deadline_us <= until_us:
            _end_lambda(w, key, deadline_us, TIMED_OUT + key)


@uncounted
def _end_lambda(w: World, key: int, at_us: int, order: int) -> None:
    """End the key's cache function, if any. `order` is its place among the ends of this instant."""
    k = w.keys[key]
    if k.ready_us >= 0:
        end_lambda(k.ready_us, at_us, w.horizon_us, order, order, w.totals[0], w.spans)
        k.ended_us = at_us
        k.ready_us = -1


@uncounted
def _stop_node(w: World, node: int, at_us: int) -> None:
    """Stop a running node, and drop its leases and objects."""
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
def _put(w: World, node: int, key: int) -> None:
    """Store a key's object in its node. The least recently used objects leave if it does not fit."""
    hold(w.nodes, node, w.keys, key, w.capacity_bytes)
    leaves = overflow(w.nodes, node, w.capacity_bytes)
    while leaves >= 0:
        drop(w.nodes, node, w.keys, leaves, w.capacity_bytes)
        leaves = overflow(w.nodes, node, w.capacity_bytes)


@uncounted
def _close(w: World) -> None:
    """End everything that ends by the horizon, and bill the rest up to the horizon."""
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
def _surely_pays(weights: Floats, worth: Worths, idle_us: int) -> bool:
    """Return True only if `pays_until_us` is later: the ratio of gains to losses only falls during a silence."""
    return idle_us < LONGEST_IDLE_US and pays_by(weights, worth, idle_us, SURELY)


@inlined
def _learn(w: World, belief: int, gap_us: int) -> None:
    """Begin a belief at the first request. Learn the gap at any later one."""
    gaps = w.gaps[belief] + 1
    w.gaps[belief] = gaps
    if gaps == 0:
        begin(w.weights[belief], w.rate_counts[belief], w.tables)
    else:
        learn(w.weights[belief], w.rate_counts[belief], gaps, w.tables, gap_us)
