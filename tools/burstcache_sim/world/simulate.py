"""The readable simulator: `simulate` runs a policy over a scenario, request by request."""

from __future__ import annotations

from collections import deque

from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.express import Express
from burstcache_sim.world.log import Log
from burstcache_sim.world.lru import LruStore
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.world import Decider, Key, Node, World


def simulate(policy: Decider, scenario: Scenario, *, has_log: bool = False) -> RunResult:
    """Replay a scenario's requests under a policy.

    Args:
        policy: Starts and stops cache functions and nodes.
        scenario: Requests and nodes. Functions and nodes that still run at the horizon are billed up to the horizon.
        has_log: Whether the result has a log. Only runs with a single key have a log.

    Returns:
        Totals over all keys and nodes. `tiers` is in the order of the trace.

    Raises:
        InvalidSettingError: The scenario has slices or interruptions, and the policy has no read-through entries.
    """
    scenario.check_policy(policy)
    homes = scenario.homes()
    first_slice = len(homes) - scenario.slices
    nodes = [Node(index, LruStore(scenario.capacity_bytes)) for index in range(scenario.nodes)]
    for node in nodes[: scenario.always_on]:
        node.since_us, node.is_always_on = 0, True
    keys = [
        Key(index, nodes[home], deque(maxlen=policy.window), policy.memory(), is_slice=index >= first_slice)
        for index, home in enumerate(homes)
    ]
    world = World(
        policy,
        keys,
        nodes,
        scenario.timings,
        Log() if has_log and len(keys) == 1 else None,
        None if scenario.express is None else Express(scenario.express),
    )
    world.schedule_interruptions(*(column.tolist() for column in scenario.interruptions_at()))
    for at_us, key_id, size_bytes in zip(*_columns(scenario.trace), strict=True):
        if scenario.until_us is not None and at_us > scenario.until_us:
            break
        world.serve(keys[key_id], at_us, size_bytes)
    return world.close(scenario.until_us)


def _columns(trace: Trace) -> tuple[list[int], list[int], list[int]]:
    """Return times, keys and sizes as plain integers, because numpy's integers could overflow."""
    nothing = [0] * len(trace)
    key_ids = nothing if trace.key_ids is None else trace.key_ids.tolist()
    sizes_bytes = nothing if trace.sizes_bytes is None else trace.sizes_bytes.tolist()
    return trace.arrivals_us.tolist(), key_ids, sizes_bytes
