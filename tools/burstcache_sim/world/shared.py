"""Many keys on shared nodes: what happens when, whatever the policy decides. Rules: `docs/understand/simulation.md`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from burstcache.core.policy import LambdaLife
from burstcache_sim.world.books import Books
from burstcache_sim.world.lru import LruStore
from burstcache_sim.world.result import Tier
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
    leases: dict[int, Key] = field(default_factory=dict)  # keys that it serves or will serve, in the order they came

    @property
    def is_off(self) -> bool:
        """Tell whether a boot may begin."""
        return self.ready_us is None and self.since_us is None and self.stopped_us is None


@dataclass(slots=True)
class Key:
    """One object: its newest requests, its cache function, and whether a node holds a lease for it."""

    index: int
    node: Node
    window: deque[int]
    size_bytes: int = 0
    lambda_ready_us: int | None = None
    lambda_deadline_us: int | None = None
    lambda_ended_us: int | None = None
    life: LambdaLife | None = None  # thesis policy
    is_bridging: bool = False  # break-even policy: the cache function bridges a boot
    was_missing: bool = False  # a check has found the lease without an entry

    @property
    def is_leased(self) -> bool:
        """Tell whether the key's node serves it or will."""
        return self.index in self.node.leases


class World(ABC):
    """All keys and nodes. A policy derives from it and decides in the methods that are abstract here."""

    def __init__(self, keys: list[Key], nodes: list[Node], timings: Timings) -> None:
        self.keys = keys
        self.nodes = nodes
        self.timings = timings
        self.books = Books(timings)
        self.checks = 0
        self.now_us = 0
        self._due: list[tuple[int, int, int]] = []  # instant, kind, index; those that no longer hold are passed over

    @abstractmethod
    def decide(self, key: Key, at_us: int, tier: Tier) -> None:
        """Handle a request that `tier` serves."""

    @abstractmethod
    def look_at_node(self, node: Node, at_us: int) -> None:
        """Judge a running node: stop it or set the next look."""

    @abstractmethod
    def node_is_ready(self, node: Node, at_us: int) -> None:
        """Set the first look at a node that runs now; the cache functions of its keys end after this."""

    def serve(self, key: Key, at_us: int, size_bytes: int) -> None:
        """Handle one request, and before it everything that happens up to its instant."""
        self.advance(at_us)
        tier = self._tier(key, at_us)
        self.books.tiers.append(tier)
        self.now_us = at_us
        capacity_bytes = key.node.store.capacity_bytes
        if capacity_bytes is None or size_bytes <= capacity_bytes:
            key.size_bytes = size_bytes
            self.decide(key, at_us, tier)

    def advance(self, until_us: int | None) -> None:
        """Let everything happen that is due up to and including `until_us` (None: all there is), in time order."""
        while self._due and (until_us is None or self._due[0][0] <= until_us):
            at_us, kind, index = heappop(self._due)
            if kind == _TIME_OUT:
                if self.keys[index].lambda_deadline_us == at_us:
                    self.now_us = at_us
                    self.end_lambda(self.keys[index], at_us)
            else:
                self._node_event(self.nodes[index], kind, at_us)

    def close_at(self, until_us: int) -> None:
        """Bill up to the horizon what still runs there."""
        self.now_us = until_us
        for key in self.keys:
            self.end_lambda(key, until_us)
        for node in self.nodes:
            if node.since_us is not None:
                self.books.end_redis(node.since_us, until_us)

    def start_lambda(self, key: Key, at_us: int) -> int:
        """Start a key's cache function, its deadline still to be set; return when it is ready [us]."""
        is_cold = key.lambda_ended_us is None or at_us - key.lambda_ended_us > self.timings.stays_warm_us
        key.lambda_ready_us = at_us + self.books.invoke(is_cold=is_cold)
        return key.lambda_ready_us

    def set_deadline(self, key: Key, deadline_us: int) -> None:
        """Let the key's cache function end at that instant."""
        if key.lambda_deadline_us != deadline_us:
            key.lambda_deadline_us = deadline_us
            heappush(self._due, (deadline_us, _TIME_OUT, key.index))

    def end_lambda(self, key: Key, at_us: int) -> None:
        """End the key's cache function if one lives."""
        if key.lambda_ready_us is not None:
            self.books.end_lambda(key.lambda_ready_us, at_us)
            key.lambda_ended_us = at_us
        key.lambda_ready_us = key.lambda_deadline_us = key.life = None

    def join(self, key: Key, at_us: int) -> None:
        """Take a lease for a key: a node that is off boots, a running one serves the key from now on."""
        node = key.node
        node.leases[key.index] = key
        if node.is_off:
            self.books.redis_starts += 1
            node.ready_us = at_us + self.timings.redis_boot_us
            heappush(self._due, (node.ready_us, _NODE_READY, node.index))
        self.books.seeds += 1
        if node.since_us is not None:
            node.store.put(key.index, key.size_bytes)
            self.end_lambda(key, at_us)

    def release(self, key: Key) -> None:
        """Give a key's lease and entry back: S3 serves it from now on."""
        key.was_missing = False
        key.node.leases.pop(key.index, None)
        key.node.store.drop(key.index)

    def set_look(self, node: Node, look_us: int) -> None:
        """Let the policy look at a running node at that instant."""
        if node.look_us != look_us:
            node.look_us = look_us
            heappush(self._due, (look_us, _LOOK, node.index))

    def stop_node(self, node: Node, at_us: int) -> None:
        """Stop a running node with whatever it still holds."""
        assert node.since_us is not None, "only a running node is looked at"
        self.books.end_redis(node.since_us, at_us)
        for key in list(node.leases.values()):
            self.release(key)
        node.since_us = node.look_us = None
        node.stopped_us = at_us + self.timings.redis_stop_us
        heappush(self._due, (node.stopped_us, _NODE_STOPPED, node.index))

    def _tier(self, key: Key, at_us: int) -> Tier:
        if key.index in key.node.store:
            key.node.store.use(key.index)
            return "R"
        return "L" if key.lambda_ready_us is not None and key.lambda_ready_us <= at_us else "S"

    def _node_event(self, node: Node, kind: int, at_us: int) -> None:
        if kind == _LOOK:
            if node.look_us == at_us:
                self.now_us = at_us
                self.look_at_node(node, at_us)
            return
        self.now_us = at_us
        if kind == _NODE_STOPPED:
            node.stopped_us = None
            return
        node.ready_us, node.since_us = None, at_us
        self.node_is_ready(node, at_us)
        for key in node.leases.values():
            node.store.put(key.index, key.size_bytes)
            self.end_lambda(key, at_us)
