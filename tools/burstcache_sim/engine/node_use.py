"""Compiled node-use policies, break-even and hazard, for one key or many.

The use of a node (`core.node_use`) or key (`core.key_use`) is a row of the arrays in `State`. A test compares this
engine with the readable policy, request by request.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from burstcache.core.batching import MAX_BATCH_AGE_US, MIN_BATCH_AGE_US
from burstcache.core.boot_loads import DAILY_WITHIN_US, PER_MILLE, SETTLING_US
from burstcache.core.errors import InvalidSettingError
from burstcache.core.hazard import LONGEST_IDLE_US
from burstcache.core.node_use import (
    FIRST_CHECK_US,
    LEAST_ARRIVALS,
    MAX_HITS,
    MAX_LOADS,
    BreakevenUse,
    HazardUse,
)
from burstcache.core.recency import SEEN_AGAIN_AT_BOOT_US, SEEN_AGAIN_US, SEEN_WITHIN_US
from burstcache.core.worth import MICRO, Worth
from burstcache_sim.engine.beliefs import RATES, Floats, Tables, Worths, begin, learn, pays_by, pays_until_us, tables_of
from burstcache_sim.engine.books import FOREVER_US, MAX_TIME_US, Integers, boot, invoke
from burstcache_sim.engine.compiled import inlined, uncounted
from burstcache_sim.engine.due import set_due
from burstcache_sim.engine.lists import LEASES
from burstcache_sim.engine.shared_world import (
    BOOTING,
    JOIN,
    NO_LEASE,
    NOTHING,
    OFF,
    REDIS,
    RUNNING,
    START,
    World,
    end_key_lambda,
    put,
    put_lease,
    set_node,
    stop_node,
)
from burstcache_sim.policies.node_use import MISSED_AGAIN_US, UseRow, weights_of

_NONE = -1


class Uses(NamedTuple):
    """Arrivals of several keys or nodes, one row each, and the rule for these arrivals."""

    is_hazard: bool
    whole: int
    check_ms: int
    boot_requests: int
    boot_within_us: int
    idle_us: int  # for break-even
    least_us: int
    tables: Tables  # for hazard
    last_us: Integers
    is_followed: Integers
    part: Integers
    times_us: Integers  # ring buffer per row
    times: Integers  # number of valid times in the ring buffer
    arrivals: Integers  # number in the whole run, which determines the place in the ring buffer
    gaps: Integers  # number of gaps learned under hazard (below 0 before the first arrival)
    weights: Floats
    counts: Floats


class State(NamedTuple):
    """The policy's rules, and its state for all keys and nodes."""

    nodes: Uses
    keys: Uses
    has_lambda: bool  # whether cache functions can pay for themselves at these prices
    load_ratio: int  # `core.boot_loads.LoadRule`
    load_daily_weight: int
    enough: int  # `core.batching.BatchRule`
    weights: Integers  # weight of each request, ordered by key [millionths]
    hits_us: Integers  # ring buffer per node
    hits_weight: Integers
    hits: Integers  # per node: number of hits since the last check
    left_out_us: Integers  # per key: start of its node's run, if the key was seen but not loaded at the boot
    ran_us: Integers  # per node: end of its last run
    seen_us: Integers  # per key: time at which it was last noted as seen
    seen_before: Integers  # linked list of each node's keys, by the time at which they were noted as seen
    seen_after: Integers
    seen_last: Integers  # per node: end of the list
    batch: Integers  # two elements: start and weight of the newest batch
    first_slice: int  # keys from this number on are slices
    missed_us: Integers  # per slice: time of the mark that its first miss leaves in its node


def validate(row: UseRow, requests: int) -> None:
    """Raise `InvalidSettingError` if a value is too large to be added to a time."""
    for rule in _rules(row):
        least_us = rule.parameters.redis_least_us
        if not 0 <= least_us <= MAX_TIME_US:
            raise InvalidSettingError(f"redis_least_us {least_us}: expected a time from 0 to {MAX_TIME_US} us")


def state_of(row: UseRow, sizes_bytes: Integers, keys: int, nodes: int, slices: int) -> State:
    """Create the state for keys and nodes before the first request.

    Args:
        row: The policy.
        sizes_bytes: The object's size at each request, ordered by key [bytes].
        keys: Number of keys.
        nodes: Number of nodes.
        slices: Number of slices among the keys (the last ones).
    """
    rules = row.parameters
    of_nodes, of_keys = _rules(row)
    has_lambda = row.has_relay and rules.key.ever_starts
    return State(
        nodes=_uses(of_nodes, nodes),
        keys=_uses(of_keys, keys - slices if has_lambda else 0),
        has_lambda=has_lambda,
        load_ratio=rules.load.ratio,
        load_daily_weight=rules.load.daily_weight,
        enough=rules.batch.threshold,
        weights=_weights(rules.worth, sizes_bytes),
        hits_us=np.zeros((nodes, MAX_HITS), np.int64),
        hits_weight=np.zeros((nodes, MAX_HITS), np.int64),
        hits=np.zeros(nodes, np.int64),
        left_out_us=np.full(keys, _NONE, np.int64),
        ran_us=np.full(nodes, _NONE, np.int64),
        seen_us=np.full(keys, _NONE, np.int64),
        seen_before=np.full(keys, _NONE, np.int64),
        seen_after=np.full(keys, _NONE, np.int64),
        seen_last=np.full(nodes, _NONE, np.int64),
        batch=np.array([_NONE, 0], np.int64),
        first_slice=keys - slices,
        missed_us=np.full(slices, _NONE, np.int64),
    )


def _weights(worth: Worth, sizes_bytes: Integers) -> Integers:
    """Return the weight of a hit on an object of each size [millionths]."""
    if not worth.prices.has_express:  # all weights are equal
        return weights_of(worth, sizes_bytes)
    sizes, places = np.unique(sizes_bytes, return_inverse=True)
    return weights_of(worth, sizes)[places]


@uncounted
def decide(w: World, p: State, key: int, at_us: int, tier: int) -> int:
    """Record a hit on the node, or report another request. A reported repeat may boot the node."""
    if key >= p.first_slice:
        if tier != REDIS:
            _miss_slice(w, p, key, at_us)
        return NOTHING
    k = w.keys[key]
    node, weight = k.home, p.weights[k.seen - 1]
    state = w.nodes[node].state
    is_left_out = state == RUNNING and p.left_out_us[key] == w.nodes[node].since_us
    if tier == REDIS or is_left_out:
        place = p.hits[node] % MAX_HITS
        p.hits_us[node, place], p.hits_weight[node, place] = at_us, weight
        p.hits[node] += 1
        p.left_out_us[key] = _NONE
    if tier == REDIS:
        return NOTHING
    seen_us = p.seen_us[key]
    if state == RUNNING:
        _report(w, p, key, at_us, SEEN_AGAIN_US)
        w.totals[0].fills += 1
        _take_in(w, key)
        put(w, key)
        return NOTHING
    action, is_booting = NOTHING, state == BOOTING
    if seen_us >= 0 and at_us - seen_us < SEEN_WITHIN_US:
        _observe(p.nodes, node, at_us, weight)
        if state == OFF and _boots(p.nodes, node, at_us):
            action, is_booting = JOIN, True
    _report(w, p, key, at_us, SEEN_AGAIN_AT_BOOT_US if is_booting else SEEN_AGAIN_US)
    if p.has_lambda:
        if p.keys.is_followed[key] != 0 and p.ran_us[node] > p.keys.last_us[key]:
            _interrupt(p.keys, key)  # requests of the key were not reported while the node ran
        _observe(p.keys, key, at_us, weight)
        if k.ready_us >= 0 or (p.keys.last_us[key] == at_us and _starts(p.keys, key, is_booting)):
            action += START
    return action


@uncounted
def act(w: World, p: State, key: int, at_us: int, action: int) -> None:
    """Boot the key's node. Start the key's cache function, or extend its life while the function pays for itself."""
    k = w.keys[key]
    if action & JOIN:
        set_node(w, k.home, BOOTING, boot(at_us, w.timings, w.totals[0]))
        w.totals[0].seeds -= 1  # `boot` counts an object, but `handle_ready` counts the loads
    if action & START:
        if k.ready_us < 0:
            k.ready_us = invoke(at_us, k.ended_us, w.timings, w.totals[0])
        k.deadline_us = max(k.ready_us, _lives_until_us(p.keys, key, w.nodes[k.home].state == BOOTING))
        set_due(w.queue, w.places, key, k.deadline_us)


@uncounted
def handle_ready(w: World, p: State, node: int, at_us: int) -> None:
    """Load the recently seen keys that are worth a GET. End the cache functions of the node's keys."""
    is_limited, room_bytes = w.capacity_bytes != FOREVER_US, w.capacity_bytes // 2
    run_us = _stop_us(p.nodes, node, at_us) - at_us
    key, oldest, loads = p.seen_last[node], _NONE, 0
    while key >= 0 and at_us - p.seen_us[key] < SEEN_WITHIN_US:
        p.left_out_us[key] = at_us
        if loads < MAX_LOADS and room_bytes >= 0 and _is_loaded(w, p, key, at_us, run_us):
            room_bytes -= w.keys[key].size_bytes if is_limited else 0
            if room_bytes >= 0:
                p.left_out_us[key] = _NONE
                loads += 1
        oldest = key
        key = p.seen_before[key]
    key = oldest
    while key >= 0:  # in the order in which the engine stores the objects
        if p.left_out_us[key] < 0:
            _take_in(w, key)
        key = p.seen_after[key]
    w.totals[0].loads += loads
    w.totals[0].seeds += loads
    if p.has_lambda:
        for key in range(len(w.keys)):
            if w.keys[key].home == node:
                end_key_lambda(w, key, at_us)
    set_node(w, node, RUNNING, at_us + FIRST_CHECK_US)


@uncounted
def check_node(w: World, p: State, node: int, at_us: int) -> None:
    """Learn the node's hits. Stop the node, or schedule the next check for the time when it would no longer pay."""
    w.totals[0].checks += 1
    _learn_hits(p, node)
    since_us = w.nodes[node].since_us
    stop_us = _stop_us(p.nodes, node, since_us)
    if stop_us <= at_us or w.nodes[node].is_interrupted != 0:
        stop_node(w, node, at_us)
        p.ran_us[node] = at_us
    else:
        apart_ms = _root(2 * ((at_us - since_us) // 1_000), p.nodes.check_ms)
        set_node(w, node, RUNNING, max(stop_us, at_us + apart_ms * 1_000))


@inlined
def _is_loaded(w: World, p: State, key: int, at_us: int, run_us: int) -> bool:
    """Compute `core.boot_loads.LoadRule.loads`."""
    age_us, weight = at_us - p.seen_us[key], p.weights[w.keys[key].seen - 1]
    at_most_us = min(run_us, SEEN_WITHIN_US)
    paid_us = min(at_most_us * p.load_ratio // PER_MILLE, 2 * SEEN_WITHIN_US + SETTLING_US)
    if age_us <= paid_us * weight // MICRO - at_most_us - SETTLING_US:
        return True
    is_daily = weight >= p.load_daily_weight and age_us >= SEEN_WITHIN_US - run_us - DAILY_WITHIN_US
    return bool(is_daily)


@inlined
def _report(w: World, p: State, key: int, at_us: int, again_us: int) -> None:
    """Count a reported request, and record its key as seen."""
    counts = w.totals[0]
    counts.told += 1
    age_us = at_us - p.batch[0]
    if p.batch[0] < 0 or age_us >= MAX_BATCH_AGE_US or (age_us >= MIN_BATCH_AGE_US and p.batch[1] >= p.enough):
        p.batch[0], p.batch[1] = at_us, 0
        counts.told_batches += 1
    p.batch[1] += p.weights[w.keys[key].seen - 1]
    if p.seen_us[key] < 0 or at_us - p.seen_us[key] >= again_us:
        counts.seen_writes += 1
        _note_seen(p, w.keys[key].home, key)
        p.seen_us[key] = at_us


@uncounted
def _note_seen(p: State, node: int, key: int) -> None:
    """Move a key to the end of its node's list of seen keys."""
    before, after, last = p.seen_before[key], p.seen_after[key], p.seen_last[node]
    if last == key:
        return
    if after >= 0:
        p.seen_before[after] = before
    if before >= 0:
        p.seen_after[before] = after
    p.seen_before[key], p.seen_after[key] = last, _NONE
    if last >= 0:
        p.seen_after[last] = key
    p.seen_last[node] = key


@uncounted
def _miss_slice(w: World, p: State, key: int, at_us: int) -> None:
    """Store a slice in its running node at its second miss within a while."""
    node = w.nodes[w.keys[key].home]
    if node.state != RUNNING:
        return
    missed_us = p.missed_us[key - p.first_slice]
    if missed_us >= node.since_us and at_us - missed_us < MISSED_AGAIN_US:
        _take_in(w, key)
        put(w, key)
    else:
        p.missed_us[key - p.first_slice] = at_us


@inlined
def _take_in(w: World, key: int) -> None:
    """Mark a key as stored in its node in this run."""
    if w.keys[key].lease == NO_LEASE:
        put_lease(w, key, LEASES)
        w.nodes[w.keys[key].home].leases += 1


@uncounted
def _learn_hits(p: State, node: int) -> None:
    """Learn a node's recorded hits, like `core.node_use.learn_hits`."""
    noted, uses = p.hits[node], p.nodes
    p.hits[node] = 0
    if noted < MAX_HITS:
        for i in range(noted):
            _observe(uses, node, p.hits_us[node, i], p.hits_weight[node, i])
        return
    _interrupt(uses, node)
    weight = p.hits_weight[node].sum()
    newest_us, oldest_us = p.hits_us[node, (noted - 1) % MAX_HITS], p.hits_us[node, noted % MAX_HITS]
    if weight > 0 and weight // LEAST_ARRIVALS < uses.whole:
        # Computes (newest - oldest) * whole // weight without overflow. Remainders are below the weight of 256
        # requests, and thus below 2**28.
        each_us, rest_us = divmod(newest_us - oldest_us, weight)
        each_whole, rest_whole = divmod(uses.whole, weight)
        gap_us = each_us * uses.whole + rest_us * each_whole + rest_us * rest_whole // weight
        for ago in range(LEAST_ARRIVALS - 1, -1, -1):
            _observe(uses, node, newest_us - ago * gap_us, uses.whole)
        return
    for i in range(noted, noted + MAX_HITS):
        _observe(uses, node, p.hits_us[node, i % MAX_HITS], p.hits_weight[node, i % MAX_HITS])


@inlined
def _interrupt(uses: Uses, row: int) -> None:
    """Exclude the current gap from learning."""
    uses.is_followed[row] = uses.part[row] = 0


@inlined
def _observe(uses: Uses, row: int, at_us: int, weight: int) -> None:
    """Add a weight to a row, and record an arrival for each `whole` that accumulates."""
    at_us = max(at_us, uses.last_us[row])
    part = uses.part[row] + weight
    while part >= uses.whole:
        part -= uses.whole
        _arrive(uses, row, at_us)
    uses.part[row] = part


@uncounted
def _arrive(uses: Uses, row: int, at_us: int) -> None:
    if uses.is_hazard:
        if uses.gaps[row] < 0:
            begin(uses.weights[row], uses.counts[row], uses.tables)
            uses.gaps[row] = 0
        if uses.is_followed[row] != 0:
            uses.gaps[row] += 1
            gap_us = at_us - uses.last_us[row]
            learn(uses.weights[row], uses.counts[row], uses.gaps[row], uses.tables, gap_us)
    if uses.is_followed[row] == 0:
        uses.times[row] = 0
    uses.arrivals[row] += 1
    uses.times_us[row, uses.arrivals[row] % uses.boot_requests] = at_us
    uses.times[row] = min(uses.times[row] + 1, uses.boot_requests)
    uses.last_us[row], uses.is_followed[row] = at_us, 1


@inlined
def _time_us(uses: Uses, row: int, ago: int) -> int:
    """Return the time of the arrival that precedes the newest arrival by `ago` [us]."""
    return uses.times_us[row, (uses.arrivals[row] - ago) % uses.boot_requests]  # type: ignore[no-any-return]


@inlined
def _boots(uses: Uses, row: int, at_us: int) -> bool:
    requests = uses.boot_requests
    if uses.times[row] < requests or at_us - _time_us(uses, row, requests - 1) >= uses.boot_within_us:
        return False
    idle_us = min(max(at_us - uses.last_us[row], 0), LONGEST_IDLE_US)
    return not uses.is_hazard or pays_by(uses.weights[row], uses.tables.boot, idle_us, 1.0)


@inlined
def _stop_us(uses: Uses, row: int, since_us: int) -> int:
    idle_us = uses.idle_us
    if uses.is_hazard:
        idle_us = pays_until_us(uses.weights[row], uses.tables.stay)
    return max(since_us + uses.least_us, uses.last_us[row] + idle_us)  # type: ignore[no-any-return]


@inlined
def _starts(uses: Uses, row: int, is_booting: bool) -> bool:
    if uses.is_hazard:
        worth = uses.tables.bridge if is_booting else uses.tables.invoke
        return uses.gaps[row] > 0 and pays_by(uses.weights[row], worth, 0, 1.0)
    return _boots(uses, row, uses.last_us[row])


@inlined
def _lives_until_us(uses: Uses, row: int, is_booting: bool) -> int:
    if uses.is_hazard:
        worth = uses.tables.bridge if is_booting else uses.tables.invoke
        return uses.last_us[row] + pays_until_us(uses.weights[row], worth)  # type: ignore[no-any-return]
    return uses.last_us[row] + uses.idle_us  # type: ignore[no-any-return]


@inlined
def _root(one: int, other: int) -> int:
    """Compute `math.isqrt` of a product up to 2**100.

    The unsigned product may wrap around, which is well-defined. Squares close to the product wrap around in the same
    way, so differences are exact.
    """
    product, root = np.uint64(one) * np.uint64(other), int(math.sqrt(float(one) * float(other)))
    while np.int64(np.uint64(root) * np.uint64(root) - product) > 0:
        root -= 1
    while np.int64(np.uint64(root + 1) * np.uint64(root + 1) - product) <= 0:
        root += 1
    return root


def _rules(row: UseRow) -> tuple[Any, Any]:
    """Return the rule for arrivals at nodes and the rule for arrivals of keys."""
    key: Any = row.parameters.key
    return row.parameters.node, key.arrivals


def _uses(rule: Any, rows: int) -> Uses:
    is_hazard = isinstance(rule, HazardUse)
    assert is_hazard or isinstance(rule, BreakevenUse), "a rule that the engine knows"
    p = rule.parameters
    nothing = Worths(np.zeros(RATES), np.zeros(RATES))
    no_tables = Tables(np.zeros(RATES), 0.0, 0.0, nothing, nothing, nothing, nothing, 0)
    boot = rule.least if is_hazard else p
    return Uses(
        is_hazard=is_hazard,
        whole=rule.arrival_weight,
        check_ms=rule.check_us // 1_000,
        boot_requests=boot.boot_requests,
        boot_within_us=boot.boot_within_us,
        idle_us=0 if is_hazard else p.redis_idle_us,
        least_us=p.redis_least_us,
        tables=tables_of(p) if is_hazard else no_tables,
        last_us=np.full(rows, _NONE, np.int64),
        is_followed=np.zeros(rows, np.int64),
        part=np.zeros(rows, np.int64),
        times_us=np.zeros((rows, boot.boot_requests), np.int64),
        times=np.zeros(rows, np.int64),
        arrivals=np.zeros(rows, np.int64),
        gaps=np.full(rows, _NONE, np.int64),
        weights=np.empty((rows if is_hazard else 0, RATES)),
        counts=np.empty((rows if is_hazard else 0, RATES)),
    )
