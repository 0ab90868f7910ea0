"""Keys and the nodes they share: what happens when, under any policy. Rules: `docs/understand/simulation.md`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, Protocol

from burstcache.core.gathering import GatherRule
from burstcache.core.node_use import MOST_LOADS
from burstcache_sim.world.books import Books
from burstcache_sim.world.express import Express
from burstcache_sim.world.log import Log, State
from burstcache_sim.world.lru import LruStore
from burstcache_sim.world.result import NO_EXPRESS, RunResult, Tier
from burstcache_sim.world.timings import Timings

# What comes first of the things that happen at the same instant.
_TIME_OUT, _NODE_READY, _NODE_STOPPED, _LOOK = range(4)


@dataclass(slots=True)
class Node:
    """A Redis node. It is off while all its instants are None."""

    index: int
    store: LruStore
    ready_us: int | None = None  # booting until then
    since_us: int | None = None  # running since then …
    look_us: int | None = None  # … and the policy looks at it then
    stopped_us: int | None = None  # stopping until then
    is_always_on: bool = False  # it runs from the beginning to the end
    leases: dict[int, Key] = field(default_factory=dict)  # keys that it serves or will serve, in the order they came
    memory: Any = None  # what the policy remembers of the node; nothing else looks at it

    @property
    def is_off(self) -> bool:
        """Whether a boot may begin."""
        return self.ready_us is None and self.since_us is None and self.stopped_us is None


@dataclass(slots=True)
class Key:
    """One object: its newest requests, its cache function, and whether a node holds a lease for it."""

    index: int
    node: Node
    window: deque[int]  # the newest requests, oldest first [us]
    memory: Any = None  # what the policy remembers of the key; nothing else looks at it
    size_bytes: int = 0
    lambda_ready_us: int | None = None
    lambda_deadline_us: int | None = None
    lambda_ended_us: int | None = None  # the last invocation's end

    @property
    def is_leased(self) -> bool:
        """Whether the key's node serves it or will."""
        return self.index in self.node.leases

    @property
    def has_lambda(self) -> bool:
        """Whether the key's cache function starts or runs."""
        return self.lambda_ready_us is not None

    @property
    def state(self) -> State:
        """The state that it is in: no policy keeps it, it follows from what runs."""
        if self.is_leased:
            return State.REDIS_BOOTUP if self.node.since_us is None else State.REDIS_RUNNING
        if self.node.stopped_us is None:
            return State.LAMBDA if self.has_lambda else State.S3
        return State.RESTRICTED_LAMBDA if self.has_lambda else State.REDIS_SHUTDOWN


class Decider(Protocol):
    """What the world needs of a policy. A policy changes the world only through the methods of `World`."""

    @property
    def window(self) -> int:
        """How many of a key's newest requests it looks back on, at least 1."""

    def memory(self) -> Any:
        """Return what it remembers of a key that has not been requested yet: its `Key.memory`."""

    def request(self, world: World, key: Key, at_us: int, tier: Tier) -> None:
        """Handle a request that `tier` serves; it is the newest one in the key's window."""

    def look(self, world: World, node: Node, at_us: int) -> None:
        """Judge a running node at an instant that `World.set_look` was given: stop it or set the next look."""

    def ready(self, world: World, node: Node, at_us: int) -> None:
        """Set the first look at a node that runs from now on; the cache functions of its keys end after this."""


class World:
    """All keys and nodes of one run, and the instants at which something is due."""

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
        self.checks = 0  # looks that a policy counts
        self.now_us = 0  # the newest request or event
        self._log = log
        self._express = express
        self._due: list[tuple[int, int, int]] = []  # instant, kind, index; those that no longer hold are passed over

    def serve(self, key: Key, at_us: int, size_bytes: int) -> None:
        """Handle one request, and before it everything that happens up to its instant."""
        self.advance(at_us)
        tier = self._tier(key, at_us, size_bytes)
        self.books.tiers.append(tier)
        self.now_us = at_us
        capacity_bytes = key.node.store.capacity_bytes
        if capacity_bytes is None or size_bytes <= capacity_bytes:
            key.size_bytes = size_bytes
            key.window.append(at_us)
            self.policy.request(self, key, at_us, tier)
            self._note(key)

    def advance(self, until_us: int | None) -> None:
        """Let everything happen that is due up to and including `until_us` (None for everything), in time order.

        At equal instants: cache functions' time-outs, nodes that are ready, nodes that have stopped, looks.
        """
        while self._due and (until_us is None or self._due[0][0] <= until_us):
            at_us, kind, index = heappop(self._due)
            if kind == _TIME_OUT:
                self._time_out(self.keys[index], at_us)
            else:
                self._node_event(self.nodes[index], kind, at_us)

    def close(self, until_us: int | None) -> RunResult:
        """Return the run's result: what still runs at the horizon, or is always on, is billed up to there."""
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
        """Start a key's cache function, its deadline still to be set; return when it is ready [us].

        What a request decides that is reported late begins then.
        """
        at_us = max(at_us, self.now_us)
        is_cold = key.lambda_ended_us is None or at_us - key.lambda_ended_us > self.timings.stays_warm_us
        key.lambda_ready_us = at_us + self.books.invoke(is_cold=is_cold)
        self._note(key, "invoke cold" if is_cold else "invoke warm")
        return key.lambda_ready_us

    def set_deadline(self, key: Key, deadline_us: int) -> None:
        """Let the key's cache function end at an instant, which no longer belongs to it."""
        if key.lambda_deadline_us != deadline_us:
            key.lambda_deadline_us = deadline_us
            heappush(self._due, (deadline_us, _TIME_OUT, key.index))

    def end_lambda(self, key: Key, at_us: int) -> None:
        """End the key's cache function if it has one."""
        if key.lambda_ready_us is not None:
            self.books.end_lambda(key.lambda_ready_us, at_us)
            key.lambda_ended_us = at_us
        key.lambda_ready_us = key.lambda_deadline_us = None

    def join(self, key: Key, at_us: int) -> None:
        """Take a lease for a key: a node that is off boots, a running one serves the key from now on."""
        node = key.node
        node.leases[key.index] = key
        if node.is_off:
            self.boot(node, at_us)
        self.books.seeds += 1
        if node.since_us is not None:
            node.store.put(key.index, key.size_bytes)
            self.end_lambda(key, at_us)
        self._note(key)

    def boot(self, node: Node, at_us: int) -> None:
        """Boot a node that is off; what a request decides that is reported late begins then."""
        self.books.redis_starts += 1
        node.ready_us = max(at_us, self.now_us) + self.timings.redis_boot_us
        heappush(self._due, (node.ready_us, _NODE_READY, node.index))

    def tell(self, at_us: int, weight: int, rule: GatherRule, *, is_noted: bool) -> None:
        """Count a request that its reader tells, and whether it is noted that its key was seen."""
        self.books.tell(at_us, weight, rule, is_noted=is_noted)

    def fill(self, key: Key) -> None:
        """Put into the key's node, which runs, what a reader has just read below it."""
        self.books.fills += 1
        key.node.store.put(key.index, key.size_bytes)

    def load(self, node: Node, keys: Sequence[Key]) -> None:
        """Load objects into a node that has just got ready, from S3: the first ones, up to half of its memory.

        The first is put last, so that it leaves last.
        """
        keys = keys[:MOST_LOADS]
        room_bytes = None if node.store.capacity_bytes is None else node.store.capacity_bytes // 2
        if room_bytes is not None:
            held_bytes = accumulate(key.size_bytes for key in keys)
            keys = keys[: sum(held <= room_bytes for held in held_bytes)]
        for key in reversed(keys):
            self.books.seeds += 1
            self.books.loads += 1
            node.store.put(key.index, key.size_bytes)

    def release(self, key: Key) -> None:
        """Give a key's lease and entry back: S3 serves it from now on."""
        key.node.leases.pop(key.index, None)
        key.node.store.drop(key.index)

    def set_look(self, node: Node, look_us: int) -> None:
        """Let the policy look at a running node at that instant, and at no other."""
        if node.look_us != look_us:
            node.look_us = look_us
            heappush(self._due, (look_us, _LOOK, node.index))

    def stop_node(self, node: Node, at_us: int) -> None:
        """Stop a running node and release the keys that it still holds; one that is always on runs on."""
        assert node.since_us is not None, "only a running node is looked at"
        if node.is_always_on:
            node.look_us = None
            return
        self.books.end_redis(node.since_us, at_us)
        node.leases.clear()
        node.store.clear()
        node.since_us = node.look_us = None
        node.stopped_us = at_us + self.timings.redis_stop_us
        heappush(self._due, (node.stopped_us, _NODE_STOPPED, node.index))

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
            self._note(key)

    def _node_event(self, node: Node, kind: int, at_us: int) -> None:
        if kind == _LOOK and node.look_us != at_us:
            return
        self.now_us = at_us
        if kind == _LOOK:
            self.policy.look(self, node, at_us)
        elif kind == _NODE_STOPPED:
            node.stopped_us = None
        else:
            node.ready_us, node.since_us = None, at_us
            self.policy.ready(self, node, at_us)
            for key in node.leases.values():
                node.store.put(key.index, key.size_bytes)
                self.end_lambda(key, at_us)
        self._note(self.keys[0])

    def _note(self, key: Key, what: str = "") -> None:
        """Log the only key's state if it has changed, then the event."""
        if self._log is not None:
            self._log.enter(self.now_us, key.state)
            if what:
                self._log.note(self.now_us, key.state, what)
