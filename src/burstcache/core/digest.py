"""The digest: everything that a reader needs to know about a stack's keys, in a few items read by one Query.

The digest contains the keys that a tier serves, the running nodes, and a log of recently written or deleted keys with
consecutive numbers. A reader that has processed the log up to some number learns from the next digest which entries to
invalidate. If the log no longer reaches back to that number, any key may have changed. The log stores the first 48 bits
of a key's hash. Keys that share this prefix merely invalidate each other's entries. While S3's events wait in their
queue, the digest says since when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from burstcache.core.backlog import Backlog
from burstcache.core.change_log import PREFIX_BYTES
from burstcache.core.parameters import US_PER_S
from burstcache.core.placement import is_home

MAX_AGE_S = 2.0  # a stopping node's Redis answers for 3 more seconds (`docs/understand/lifecycle.md`, "A node")
FORGOTTEN_S = MAX_AGE_S + 1.0  # after this time no reader uses the previous digest; includes 1 s for DynamoDB's delay
REFRESH_AT = 0.75  # share of its maximum age at which a digest in use is refreshed
LATE_S = 60  # lifetime of a late mark: invalidations take seconds, and failed events are redelivered by then

_PREFIX_DIGITS = 2 * PREFIX_BYTES


@dataclass(frozen=True, slots=True)
class Route:
    """The tier that serves a key: "lambda", or "redis" and the node's name. A guest is a read-through entry.

    `host` is the address of a node that runs as a task. Other nodes have a fixed address.
    """

    tier: str
    node: str = ""
    is_guest: bool = False
    host: str = ""


@dataclass(frozen=True, slots=True)
class RoutedKey:
    """A key in the digest: its life and phase, and the tier that serves it (empty: S3)."""

    epoch: int
    phase_rank: int
    tier: str = ""
    node: str = ""
    generation: int = 0  # node generation for which a route to Redis is valid
    deadline_at_us: int = 0


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node in the digest: its run and phase, and whether Redis serves.

    `peers` are the nodes over which keys are distributed during the run. A node without peers holds no read-through
    entries. `host` is the address of a node that runs as a task.
    """

    generation: int
    phase_rank: int
    is_running: bool
    peers: tuple[str, ...] = ()
    host: str = ""


@dataclass(frozen=True, slots=True)
class Digest:
    """A snapshot of the digest. `changes` are key-hash prefixes, oldest first. The last change has number `sequence`.

    `fence_us` is the time of the last write that did not reach the cache functions [us]. They serve no older copy.
    `late` maps the hash prefixes of keys whose invalidation is slow to the times at which their marks expire [us].
    Until then, readers bypass every tier that may have an older copy.
    `backlog` is S3's oldest event that waits, or None.
    """

    sequence: int = 0
    changes: Sequence[str] = ()
    routes: Mapping[str, RoutedKey] = field(default_factory=dict)
    nodes: Mapping[str, RunningNode] = field(default_factory=dict)
    fence_us: int = 0
    late: Mapping[str, int] = field(default_factory=dict)
    backlog: Backlog | None = None

    def route(self, hash_: str, *, now_us: int) -> Route | None:
        """Return the tier that serves the key with this hash, or None for S3.

        A route past its deadline has no owner and is invalid. A route to Redis is valid only while its node runs in the
        same generation.
        """
        routed = self.routes.get(hash_)
        if routed is None or not routed.tier or routed.deadline_at_us <= now_us or self._is_late(hash_, now_us):
            return None
        if routed.tier != "redis":
            return Route(routed.tier)
        node = self.nodes.get(routed.node)
        if node is None or not node.is_running or node.generation != routed.generation:
            return None
        return Route(routed.tier, routed.node, host=node.host)

    def home(self, hash_: str, *, now_us: int) -> Route | None:
        """Return the route to the running home node of the key with this hash, or None.

        If a node was added to the stack while another was running, both may be the key's home. The newer run takes
        precedence, since its peers include all nodes.
        """
        if self._is_late(hash_, now_us):
            return None
        home, generation = "", -1
        for name, node in self.nodes.items():
            if node.is_running and node.generation > generation and is_home(name, hash_, node.peers):
                home, generation = name, node.generation
        return Route("redis", home, is_guest=True, host=self.nodes[home].host) if home else None

    def places(self, *, now_us: int) -> set[Route]:
        """Return all valid routes, including the routes to nodes with read-through entries."""
        served = {route for hash_ in self.routes if (route := self.route(hash_, now_us=now_us)) is not None}
        homes = ((name, node.host) for name, node in self.nodes.items() if node.is_running and node.peers)
        return served | {Route("redis", name, is_guest=True, host=host) for name, host in homes}

    def changed_since(self, sequence: int) -> Sequence[str] | None:
        """Return the prefixes of the changes after number `sequence`, or None if any key may have changed."""
        count = self.sequence - sequence
        if not 0 <= count <= len(self.changes):  # negative: the table was recreated under the same name
            return None
        return self.changes[len(self.changes) - count :]

    def backlog_s(self, now_us: int) -> float:
        """Return the age of S3's oldest event that waits [s], 0 if none does."""
        return 0.0 if self.backlog is None else self.backlog.age_s(now_us)

    def _is_late(self, hash_: str, now_us: int) -> bool:
        return self.late.get(prefix_of(hash_), 0) > now_us


def prefix_of(hash_: str) -> str:
    """Return the prefix of a key's hash that the change log stores."""
    return hash_[:_PREFIX_DIGITS]


def late_mark(hash_: str, *, now_us: int, token: str) -> str:
    """Return a write's late mark. The token makes the mark unique among its key's marks."""
    return f"{prefix_of(hash_)}:{now_us // US_PER_S + LATE_S}:{token}"


def late_until_us(marks: Iterable[str]) -> dict[str, int]:
    """Return the times until which keys count as late, by hash prefix [us]."""
    until_us: dict[str, int] = {}
    for mark in marks:
        prefix, until_s, _ = mark.split(":")
        until_us[prefix] = max(until_us.get(prefix, 0), int(until_s) * US_PER_S)
    return until_us
