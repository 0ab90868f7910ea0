"""What the two policies decide per request where keys share nodes, compiled (`sim.many` in words).

A decision is a sum of actions; `engine.shared_actions` carries them out.
"""

from __future__ import annotations

from burstcache_sim.engine.books import (
    BOOT_REQUESTS,
    BOOT_WITHIN_US,
    ELEMENTS,
    GAP_US,
    IDLE_US,
    INVOKE_REQUESTS,
    REDIS_THRESHOLD,
    THRESHOLD_US,
    TICK_US,
    USES_LAMBDA,
    Integers,
)  # fmt: skip
from burstcache_sim.engine.compiled import uncounted
from burstcache_sim.engine.shared_world import (
    BEGIN,
    COUNT,
    DEADLINE_US,
    DUE_US,
    HOME,
    IS_KEPT,
    IS_LEASED,
    READY_US,
    RUNNING,
    SEEN,
    STATE,
    STOPPING,
)  # fmt: skip

NOTHING, START, JOIN = 0, 1, 2
S3, LAMBDA, REDIS = ord("S"), ord("L"), ord("R")


@uncounted
def decide_thesis(
    ordered: Integers, keys: Integers, nodes: Integers, p: Integers, key: int, at_us: int, tier: int
) -> int:
    """Count the request; return what it triggers."""
    state = nodes[keys[key, HOME], STATE]
    if keys[key, READY_US] >= 0:
        keys[key, COUNT] += 1
        if tier == LAMBDA and keys[key, IS_KEPT] == 0:
            keys[key, DEADLINE_US] += p[TICK_US]
        can_join = keys[key, IS_LEASED] == 0 and state != STOPPING
        return JOIN if can_join and keys[key, COUNT] > p[REDIS_THRESHOLD] else NOTHING
    if keys[key, IS_LEASED] == 0 and _are_within(ordered, keys, key, at_us, p[ELEMENTS], p[THRESHOLD_US]):
        return JOIN if state == RUNNING else START
    return NOTHING


@uncounted
def decide_breakeven(
    ordered: Integers, keys: Integers, nodes: Integers, p: Integers, key: int, at_us: int, tier: int
) -> int:
    """Extend what serves; return what pays."""
    node = keys[key, HOME]
    if tier == REDIS:
        nodes[node, DUE_US] = max(nodes[node, DUE_US], at_us + p[IDLE_US])
        return NOTHING
    if tier == LAMBDA and keys[key, IS_KEPT] == 0:
        keys[key, DEADLINE_US] = at_us + p[GAP_US]
    is_running = nodes[node, STATE] == RUNNING
    if keys[key, IS_LEASED] != 0 and not is_running:
        return NOTHING
    invokes = keys[key, READY_US] < 0 and p[USES_LAMBDA] != 0
    invokes = invokes and (p[INVOKE_REQUESTS] == 1 or _are_within(ordered, keys, key, at_us, 2, p[GAP_US]))
    boots = _are_within(ordered, keys, key, at_us, p[BOOT_REQUESTS], p[BOOT_WITHIN_US])
    if is_running:
        return JOIN if invokes or boots else NOTHING
    action = START if invokes else NOTHING
    return action + JOIN if boots and nodes[node, STATE] != STOPPING else action


@uncounted
def _are_within(ordered: Integers, keys: Integers, key: int, at_us: int, requests: int, within_us: int) -> bool:
    """Tell whether so many of the key's newest requests, the one at this instant included, are close together."""
    oldest = keys[key, SEEN] - requests
    return oldest >= keys[key, BEGIN] and at_us - ordered[oldest] < within_us  # type: ignore[no-any-return]
