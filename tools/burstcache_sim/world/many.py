"""Many keys under one policy, on shared nodes or each on its own. Rules: `docs/understand/simulation.md`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from burstcache.core.breakeven import BreakevenParameters, boots, invokes, redis_stop_us
from burstcache.core.errors import InvalidSettingError
from burstcache.core.keys import key_hash, node_for
from burstcache.core.parameters import Parameters
from burstcache.core.policy import (
    LambdaLife,
    is_hot,
    is_idle,
    lambda_ready,
    lambda_serves,
    newest_queue,
    promote,
    wants_promotion,
)
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.lru import LruStore
from burstcache_sim.world.result import RunResult, Tier
from burstcache_sim.world.run import PolicyParameters
from burstcache_sim.world.shared import Key, Node, World
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings


class ThesisWorld(World):
    """Every key decides as the live scheduler does; a node's check asks all its keys at once."""

    def __init__(self, parameters: Parameters, keys: list[Key], nodes: list[Node], timings: Timings) -> None:
        super().__init__(keys, nodes, timings)
        self.parameters = parameters

    def decide(self, key: Key, at_us: int, tier: Tier) -> None:
        """Count the request, and start what it triggers."""
        key.window.append(at_us)
        if key.life is not None:
            served = lambda_serves(key.life, self.parameters)
            self._live(key, served if tier == "L" else replace(key.life, count=key.life.count + 1))
            self._promote(key, key.life, at_us)
        elif not key.is_leased and is_hot(key.window, self.parameters):
            if key.node.since_us is not None:
                self.join(key, at_us)
            else:
                self._live(key, lambda_ready(self.start_lambda(key, at_us), 0, self.parameters))

    def look_at_node(self, node: Node, at_us: int) -> None:
        """Release the keys that are idle; a node without a lease stops."""
        self.checks += 1
        for key in [key for key in node.leases.values() if self._leaves(key, at_us)]:
            self.release(key)
        if node.leases:
            self.set_look(node, at_us + self.parameters.redis_check_us)
        else:
            self.stop_node(node, at_us)

    def node_is_ready(self, node: Node, at_us: int) -> None:
        """Count the checks from now."""
        self.set_look(node, at_us + self.parameters.redis_check_us)

    def _promote(self, key: Key, life: LambdaLife, at_us: int) -> None:
        # While the node stops the key stays where it is and asks again at its next request.
        if not key.is_leased and key.node.stopped_us is None and wants_promotion(life, self.parameters):
            self._live(key, promote(life, self.parameters))
            self.join(key, at_us)

    def _leaves(self, key: Key, at_us: int) -> bool:
        if key.index in key.node.store:
            key.was_missing = False
            return is_idle(newest_queue(key.window), check_at_us=at_us, parameters=self.parameters)
        was_missing, key.was_missing = key.was_missing, True
        return was_missing

    def _live(self, key: Key, life: LambdaLife) -> None:
        key.life = life
        self.set_deadline(key, life.deadline_us)


class BreakevenWorld(World):
    """A running node serves whatever would start something; it stops when none of its keys is asked for."""

    def __init__(self, parameters: BreakevenParameters, keys: list[Key], nodes: list[Node], timings: Timings) -> None:
        super().__init__(keys, nodes, timings)
        self.parameters = parameters

    def decide(self, key: Key, at_us: int, tier: Tier) -> None:
        """Extend what serves, or start what pays."""
        key.window.append(at_us)
        node = key.node
        if tier == "L" and not key.is_bridging:
            self.set_deadline(key, at_us + self.parameters.lambda_gap_us)
        if tier == "R":
            self._set_stop(node, at_us)
        if node.since_us is not None and tier != "R":
            if self._invokes(key) or boots(key.window, self.parameters):
                self.join(key, at_us)
                self._set_stop(node, at_us)
        elif node.since_us is None and not key.is_leased:
            if self._invokes(key):
                self._start(key, at_us, self.parameters.lambda_gap_us)
            if node.stopped_us is None and boots(key.window, self.parameters):
                self.join(key, at_us)
                self._bridge(key, at_us)

    def look_at_node(self, node: Node, at_us: int) -> None:
        """Stop the node: the look is set to the instant at which it has idled long enough."""
        self.stop_node(node, at_us)

    def node_is_ready(self, node: Node, at_us: int) -> None:
        """Let the node run at least as long as it is billed."""
        self._set_stop(node, max(key.window[-1] for key in node.leases.values()))

    def _invokes(self, key: Key) -> bool:
        return key.lambda_ready_us is None and invokes(key.window, self.parameters)

    def _set_stop(self, node: Node, last_us: int) -> None:
        assert node.since_us is not None, "only a running node stops"
        self.set_look(node, redis_stop_us(since_us=node.since_us, last_us=last_us, parameters=self.parameters))

    def _start(self, key: Key, at_us: int, life_us: int) -> None:
        self.set_deadline(key, self.start_lambda(key, at_us) + life_us)
        key.is_bridging = False

    def _bridge(self, key: Key, at_us: int) -> None:
        if not self.parameters.uses_lambda:
            return
        if key.lambda_deadline_us is None:
            self._start(key, at_us, self.parameters.keep_running_us)
        else:
            self.set_deadline(key, key.lambda_deadline_us + self.parameters.keep_running_us)
        key.is_bridging = True


def run_many(
    trace: Trace,
    parameters: PolicyParameters,
    *,
    nodes: int = 1,
    capacity_bytes: int | None = None,
    until_us: int | None = None,
    timings: Timings = THESIS_TIMINGS,
) -> RunResult:
    """Replay a trace of many keys that share nodes; with one key it is what `sim.run.run` gives, without the log.

    Args:
        trace: The requests. A trace without key ids is one key.
        parameters: The policy and its parameters.
        nodes: How many Redis nodes there are; a key belongs to one of them by rendezvous hashing.
        capacity_bytes: What a node holds (`maxmemory`), the least recently used object leaves first; None: no limit.
        until_us: The horizon, as for one key [us].
        timings: How long starts and stops take.

    Returns:
        Totals over all keys and nodes; `tiers` in the trace's order.

    Raises:
        InvalidSettingError: There is no node, no capacity, or a capacity without the objects' sizes.
    """
    check_nodes(trace, nodes, capacity_bytes)
    shared = [Node(index, LruStore(capacity_bytes)) for index in range(nodes)]
    world = _world(parameters, [shared[home] for home in homes_of(trace, nodes)], shared, timings)
    for at_us, key_id, size_bytes in zip(*_columns(trace), strict=True):
        if until_us is not None and at_us > until_us:
            break
        world.serve(world.keys[key_id], at_us, size_bytes)
    world.advance(until_us)
    if until_us is not None:
        world.close_at(until_us)
    return world.books.close(end_us=world.now_us, checks=world.checks)


def check_nodes(trace: Trace, nodes: int, capacity_bytes: int | None) -> None:
    """Raise `InvalidSettingError` if there is no node, no capacity, or a capacity without the objects' sizes."""
    if nodes < 1:
        raise InvalidSettingError(f"nodes {nodes}: expected at least 1")
    if capacity_bytes is not None and capacity_bytes < 1:
        raise InvalidSettingError(f"capacity {capacity_bytes} bytes: expected at least 1")
    if capacity_bytes is not None and trace.sizes_bytes is None:
        raise InvalidSettingError(f"capacity {capacity_bytes} bytes: the trace has no sizes, expected one that has")


def homes_of(trace: Trace, nodes: int) -> list[int]:
    """Return each key's node, numbered from 0, by rendezvous hashing of its name."""
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    numbers = {name: number for number, name in enumerate(names)}
    keys = ("key",) if trace.key_ids is None else trace.keys
    if nodes == 1:
        return [0] * len(keys)
    return [numbers[node_for(key_hash(key), names)] for key in keys]


def _columns(trace: Trace) -> tuple[list[int], list[int], list[int]]:
    """Return times, keys and sizes as plain integers."""
    nothing = [0] * len(trace)
    key_ids = nothing if trace.key_ids is None else trace.key_ids.tolist()
    sizes_bytes = nothing if trace.sizes_bytes is None else trace.sizes_bytes.tolist()
    return trace.arrivals_us.tolist(), key_ids, sizes_bytes


def _world(parameters: PolicyParameters, homes: Iterable[Node], nodes: list[Node], timings: Timings) -> World:
    """Return the keys, each on its home, under the policy that the parameters belong to."""
    length = _window_length(parameters)
    keys = [Key(index, home, deque(maxlen=length)) for index, home in enumerate(homes)]
    if isinstance(parameters, BreakevenParameters):
        return BreakevenWorld(parameters, keys, nodes, timings)
    return ThesisWorld(parameters, keys, nodes, timings)


def _window_length(parameters: PolicyParameters) -> int:
    if isinstance(parameters, BreakevenParameters):
        return max(2, parameters.boot_requests)
    return parameters.window_length
