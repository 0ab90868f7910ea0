"""The digest: all that a reader must know of a stack's keys, in a few items that it reads at once.

It has the keys that a tier serves, the nodes that run, and a log of the keys whose objects were written or deleted
lately, numbered without gaps. A reader that knows the log up to some number learns from the next digest what to drop;
if that number is older than the log reaches, anything may have changed. A change is the first 48 bits of its key's
hash: two keys that share them only drop each other's entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from burstcache.core.parameters import US_PER_S
from burstcache.core.placement import is_home

MAX_AGE_S = 2.0  # the Redis of a node that stops answers 3 s longer: `docs/understand/lifecycle.md`, "A node"
FORGOTTEN_S = MAX_AGE_S + 1.0  # after this no reader asks by what the digest said before; 1 s for DynamoDB to show it
REFRESH_AT = 0.75  # of its greatest age a digest in use is read anew
LATE_S = 60  # that a mark counts which nobody removes: tiers follow within seconds, and a failed event comes again then

_PREFIX_DIGITS = 12

# The log is cut back to half when it has grown to this length: its item stays within 1 KB, one write unit.
MOST_CHANGES = 128
KEPT_CHANGES = 64


@dataclass(frozen=True, slots=True)
class Route:
    """The tier that serves a key: "lambda", or "redis" and the node's name. A guest is brought by its readers."""

    tier: str
    node: str = ""
    is_guest: bool = False


@dataclass(frozen=True, slots=True)
class RoutedKey:
    """A key in the digest: its life, how far that has come, and where the key is served from (empty: S3)."""

    epoch: int
    phase_rank: int
    tier: str = ""
    node: str = ""
    generation: int = 0  # of the node, for which a route to Redis is valid
    deadline_at_us: int = 0


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node in the digest: its run, how far that has come, and whether Redis serves.

    `peers` are the nodes among which keys have their homes while the run lasts; without any it takes no guests.
    """

    generation: int
    phase_rank: int
    is_running: bool
    peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Digest:
    """One reading of the digest. `changes` are prefixes of key hashes, the newest last; its number is `sequence`.

    `fence_us` is when a write last failed to reach the cache functions [us]: no copy that is older is answered. `late`
    has the keys with a write that tiers take long to follow, by the prefixes of their hashes, and until when that
    counts [us]: no tier that may have an older copy is asked for them.
    """

    sequence: int = 0
    changes: Sequence[str] = ()
    routes: Mapping[str, RoutedKey] = field(default_factory=dict)
    nodes: Mapping[str, RunningNode] = field(default_factory=dict)
    fence_us: int = 0
    late: Mapping[str, int] = field(default_factory=dict)

    def route(self, hash_: str, *, now_us: int) -> Route | None:
        """Return the tier that serves the key with this hash; None for S3.

        A route past its deadline is none, since nobody keeps it true, and one to Redis holds only while its node runs
        in the same generation.
        """
        routed = self.routes.get(hash_)
        if routed is None or not routed.tier or routed.deadline_at_us <= now_us or self._is_late(hash_, now_us):
            return None
        if routed.tier != "redis":
            return Route(routed.tier)
        node = self.nodes.get(routed.node)
        serves = node is not None and node.is_running and node.generation == routed.generation
        return Route(routed.tier, routed.node) if serves else None

    def home(self, hash_: str, *, now_us: int) -> Route | None:
        """Return the running node that takes the key with this hash as a guest; None if there is none.

        Where the stack got another node while one ran, two may take the same key; the newer run knows more nodes.
        """
        if self._is_late(hash_, now_us):
            return None
        home, generation = "", -1
        for name, node in self.nodes.items():
            if node.is_running and node.generation > generation and is_home(name, hash_, node.peers):
                home, generation = name, node.generation
        return Route("redis", home, is_guest=True) if home else None

    def places(self, *, now_us: int) -> set[Route]:
        """Return where keys are served from now, apart from S3, and where they may be brought as guests."""
        served = {route for hash_ in self.routes if (route := self.route(hash_, now_us=now_us)) is not None}
        takers = (name for name, node in self.nodes.items() if node.is_running and node.peers)
        return served | {Route("redis", name, is_guest=True) for name in takers}

    def changed_since(self, sequence: int) -> Sequence[str] | None:
        """Return the prefixes of the changes after number `sequence`; None if any key may have changed."""
        count = self.sequence - sequence
        if not 0 <= count <= len(self.changes):  # below 0: another table under the same name
            return None
        return self.changes[len(self.changes) - count :]

    def _is_late(self, hash_: str, now_us: int) -> bool:
        return self.late.get(prefix_of(hash_), 0) > now_us


def prefix_of(hash_: str) -> str:
    """Return what the log of changes has of a key's hash."""
    return hash_[:_PREFIX_DIGITS]


def late_mark(hash_: str, *, now_us: int, token: str) -> str:
    """Return the mark of a write that tiers take long to follow; the token tells it from others of the same key."""
    return f"{prefix_of(hash_)}:{now_us // US_PER_S + LATE_S}:{token}"


def late_until_us(marks: Iterable[str]) -> dict[str, int]:
    """Return until when keys count as late, by the prefixes of their hashes [us]."""
    until_us: dict[str, int] = {}
    for mark in marks:
        prefix, until_s, _ = mark.split(":")
        until_us[prefix] = max(until_us.get(prefix, 0), int(until_s) * US_PER_S)
    return until_us
