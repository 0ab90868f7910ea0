"""The world: keys, their shared nodes, and the order of events (`docs/understand/simulation.md`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, Protocol

from burstcache.core.batching import BatchRule
from burstcache.core.node_use import MAX_LOADS
from burstcache_sim.world.books import Books
from burstcache_sim.world.express import Express
from burstcache_sim.world.log import Log, State
from burstcache_sim.world.lru import LruStore
from burstcache_sim.world.result import NO_EXPRESS, RunResult, Tier
from burstcache_sim.world.timings import Timings

# The order of simultaneous events.
_TIME_OUT, _NODE_READY, _NODE_STOPPED, _CHECK, _INTERRUPTION = range(5)


@dataclass(slots=True)
class Node:
    """A Redis node, which is off while all its times are None."""

    index: int
    store: LruStore
    ready_us: int | None = None  # end of its boot, while booting
    since_us: int | None = None  # start of its run, while running
    check_us: int | None = None  # next check, while running
    stopped_us: int | None = None  # end of its stop, while stopping
    is_always_on: bool = False  # runs throughout
    is_interrupted: bool = False  # during the last check of a run that an interruption ends
    leases: dict[int, Key] = field(default_factory=dict)  # keys that it serves or will serve, in order of arrival
    memory: Any = None  # the policy's state for the node

    @property
    def is_off(self) -> bool:
        """Whether a boot may begin."""
        return self.ready_us is None and self.since_us is None and self.stopped_us is None


@dataclass(slots=True)
class Key:
    """A key with its newest requests, its cache function and its lease."""

    index: int
    node: Node
    window: deque[int]  # the newest requests, oldest first [us]
    memory: Any = None  # the policy's state for the key
    size_bytes: int = 0
    is_slice: bool = False  # a slice of a large object
    lambda_ready_us: int | None = None
    lambda_deadline_us: int | None = None
    lambda_ended_us: int | None = None  # the end of the last invocation

    @property
    def is_leased(self) -> bool:
        """Whether the key's node serves it now, or will after booting."""
        return self.index in self.node.leases

    @property
    def has_lambda(self) -> bool:
        """Whether the key's cache function is starting or running."""
        return self.lambda_ready_us is not None

    @property
    def state(self) -> State:
        """The state of the key, derived from its function and node. No policy stores it."""
        if self.is_leased:
            return State.REDIS_BOOTUP if self.node.since_us is None else State.REDIS_RUNNING
        if self.node.stopped_us is None:
            return State.LAMBDA if self.has_lambda else State.S3
        return State.RESTRICTED_LAMBDA if self.has_lambda else State.REDIS_SHUTDOWN


class Decider(Protocol):
    """The interface of a policy to the world. A policy changes the world only through the methods of `World`."""

    @property
    def window(self) -> int:
        """The number of a key's newest requests that decisions depend on, at least 1."""

    def memory(self) -> Any:
        """Return the initial `Key.memory` of a key."""

    def handle_request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Handle a request that `tier` served. The request is already the newest in the key's window."""

    def check_node(self, world: World, node: Node, at_us: int) -> None:
        """Check a running node as scheduled: stop it or schedule the next check. An interrupted node stops."""

    def handle_ready(self, world: World, node: Node, at_us: int) -> None:
        """Schedule the first check of a node that has just booted. Afterwards, the cache functions of its keys end."""


class World:
    """All keys and nodes of a run, and its queue of events."""

    def __init__(
        self,
        policy: Decider,
        keys: list[Key],
        nodes: list[Node],
        timings: Timings,
        log: Log | None,
        express: Express | None,
    ) -> None:
        self.policy = policy
        self.keys = keys
        self.nodes = nodes
        self.timings = timings
        self.books = Books(timings)
        self.checks = 0  # counted by the policy
        self.now_us = 0  # the time of the newest request or event
        self._log = log
        self._express = express
        self._due: list[tuple[int, int, int]] = []  # (time, kind, index) of events; stale events are skipped

    def serve(self, key: Key, at_us: int, size_bytes: int) -> None:
        """Process all events up to the time of a request, then handle the request."""
        self.advance(at_us)
        tier = self._tier(key, at_us, size_bytes)
        self.books.tiers.append(tier)
        self.now_us = at_us
        capacity_bytes = key.node.store.capacity_bytes
        if capacity_bytes is None or size_bytes <= capacity_bytes:
            key.size_bytes = size_bytes
            key.window.append(at_us)
            self.policy.handle_request(self, key, at_us, tier)
            self._log_state(key)

    def advance(self, until_us: int | None) -> None:
        """Process all events in order of time, up to and including `until_us` (None: no limit).

        Simultaneous events come in this order: timeouts of cache functions, ready nodes, stopped nodes, checks,
        interruptions.
        """
        while self._due and (until_us is None or self._due[0][0] <= until_us):
            at_us, kind, index = heappop(self._due)
            if kind == _TIME_OUT:
                self._time_out(self.keys[index], at_us)
            elif kind == _INTERRUPTION:
                self._interrupt(self.nodes[index], at_us)
            else:
                self._node_event(self.nodes[index], kind, at_us)

    def close(self, until_us: int | None) -> RunResult:
        """End the run and return its result. Running functions and nodes are billed up to the horizon."""
        self.advance(until_us)
        if until_us is not None:
            self.now_us = until_us
        for key in self.keys:
            self.end_lambda(key, self.now_us)
        for node in self.nodes:
            if node.since_us is not None:
                self.books.end_redis(node.since_us, self.now_us)
        log = () if self._log is None else tuple(self._log.rows)
        express = NO_EXPRESS if self._express is None else self._express.close(until_us)
        return self.books.close(end_us=self.now_us, checks=self.checks, log=log, express=express)

    def start_lambda(self, key: Key, at_us: int) -> int:
        """Start a key's cache function without a deadline, and return the time when it is ready [us].

        A decision from a late report takes effect at the time of the report.
        """
        at_us = max(at_us, self.now_us)
        is_cold = key.lambda_ended_us is None or at_us - key.lambda_ended_us > self.timings.stays_warm_us
        key.lambda_ready_us = at_us + self.books.invoke(is_cold=is_cold)
        self._log_state(key, "invoke cold" if is_cold else "invoke warm")
        return key.lambda_ready_us

    def set_deadline(self, key: Key, deadline_us: int) -> None:
        """Set the deadline of the key's cache function, exclusive [us]."""
        if key.lambda_deadline_us != deadline_us:
            key.lambda_deadline_us = deadline_us
            heappush(self._due, (deadline_us, _TIME_OUT, key.index))

    def end_lambda(self, key: Key, at_us: int) -> None:
        """End the key's cache function, if any."""
        if key.lambda_ready_us is not None:
            self.books.end_lambda(key.lambda_ready_us, at_us)
            key.lambda_ended_us = at_us
        key.lambda_ready_us = key.lambda_deadline_us = None

    def join(self, key: Key, at_us: int) -> None:
        """Take a lease for a key on its node. Boot the node if it is off. Store the key's object if the node runs."""
        node = key.node
        node.leases[key.index] = key
        if node.is_off:
            self.boot(node, at_us)
        self.books.seeds += 1
        if node.since_us is not None:
            node.store.put(key.index, key.size_bytes)
            self.end_lambda(key, at_us)
        self._log_state(key)

    def boot(self, node: Node, at_us: int) -> None:
        """Boot a node that is off. A decision from a late report takes effect at the time of the report."""
        self.books.redis_starts += 1
        node.ready_us = max(at_us, self.now_us) + self.timings.redis_boot_us
        heappush(self._due, (node.ready_us, _NODE_READY, node.index))

    def report_request(self, at_us: int, weight: int, rule: BatchRule, *, is_noted: bool) -> None:
        """Count a reported request, and the write that records its key as seen, if there is one."""
        self.books.report_request(at_us, weight, rule, is_noted=is_noted)

    def fill(self, key: Key) -> None:
        """Fill the key's running node with the object that a reader has just read from a lower tier."""
        self.books.fills += 1
        key.node.store.put(key.index, key.size_bytes)

    def store_slice(self, key: Key) -> None:
        """Store a slice in its running node. Slices are neither fills nor loads, since nobody reports them."""
        key.node.store.put(key.index, key.size_bytes)

    def load(self, node: Node, keys: Sequence[Key]) -> None:
        """Load the objects of the first keys from S3 into a booting node, up to half of the node's memory.

        The first key is put last, so it is evicted last.
        """
        keys = keys[:MAX_LOADS]
        room_bytes = None if node.store.capacity_bytes is None else node.store.capacity_bytes // 2
        if room_bytes is not None:
            held_bytes = accumulate(key.size_bytes for key in keys)
            keys = keys[: sum(held <= room_bytes for held in held_bytes)]
        for key in reversed(keys):
            self.books.seeds += 1
            self.books.loads += 1
            node.store.put(key.index, key.size_bytes)

    def release(self, key: Key) -> None:
        """Release a key's lease and drop its entry. S3 serves the key from now on."""
        key.node.leases.pop(key.index, None)
        key.node.store.drop(key.index)

    def schedule_check(self, node: Node, check_us: int) -> None:
        """Schedule the only pending check of a running node."""
        if node.check_us != check_us:
            node.check_us = check_us
            heappush(self._due, (check_us, _CHECK, node.index))

    def schedule_interruptions(self, times_us: Sequence[int], nodes: Sequence[int]) -> None:
        """Schedule the interruptions of nodes. A node that is off at that time is not affected."""
        for at_us, index in zip(times_us, nodes, strict=True):
            heappush(self._due, (at_us, _INTERRUPTION, index))

    def stop_node(self, node: Node, at_us: int) -> None:
        """Stop a running node and release its keys. An always-on node keeps running."""
        assert node.since_us is not None, "only a running node stops"
        if node.is_always_on:
            node.check_us = None
            return
        self.books.end_redis(node.since_us, at_us)
        node.leases.clear()
        node.store.clear()
        node.since_us = node.check_us = None
        self._begin_stop(node, at_us)

    def _tier(self, key: Key, at_us: int, size_bytes: int) -> Tier:
        if key.index in key.node.store:
            key.node.store.use(key.index)
            return "R"
        if key.lambda_ready_us is not None and key.lambda_ready_us <= at_us:
            return "L"
        return "X" if self._express is not None and self._express.serves(key.index, at_us, size_bytes) else "S"

    def _time_out(self, key: Key, at_us: int) -> None:
        if key.lambda_deadline_us == at_us:
            self.now_us = at_us
            if self._log is not None:
                self._log.note(at_us, key.state, "lambda timeout")
            self.end_lambda(key, at_us)
            self._log_state(key)

    def _interrupt(self, node: Node, at_us: int) -> None:
        """End a node's run with a last check, or end its boot."""
        if node.since_us is not None:
            self.now_us = at_us
            node.is_interrupted = True
            self.policy.check_node(self, node, at_us)
            node.is_interrupted = False
        elif node.ready_us is not None:
            self.now_us = at_us
            node.ready_us = None
            self._begin_stop(node, at_us)

    def _begin_stop(self, node: Node, at_us: int) -> None:
        node.stopped_us = at_us + self.timings.redis_stop_us
        heappush(self._due, (node.stopped_us, _NODE_STOPPED, node.index))

    def _node_event(self, node: Node, kind: int, at_us: int) -> None:
        if (kind == _CHECK and node.check_us != at_us) or (kind == _NODE_READY and node.ready_us != at_us):
            return
        self.now_us = at_us
        if kind == _CHECK:
            self.policy.check_node(self, node, at_us)
        elif kind == _NODE_STOPPED:
            node.stopped_us = None
        else:
            node.ready_us, node.since_us = None, at_us
            self.policy.handle_ready(self, node, at_us)
            for key in node.leases.values():
                node.store.put(key.index, key.size_bytes)
                self.end_lambda(key, at_us)
        self._log_state(self.keys[0])

    def _log_state(self, key: Key, event: str = "") -> None:
        """Log the only key's state if it has changed, then the event."""
        if self._log is not None:
            self._log.enter(self.now_us, key.state)
            if event:
                self._log.note(self.now_us, key.state, event)
