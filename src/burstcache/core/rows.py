"""The rows of the table as values: keys, nodes, leases, a pause, keys that were seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from burstcache.core.deadlines import STOP_HANGS_S, STOP_S
from burstcache.core.keys import key_execution_name, node_execution_name
from burstcache.core.node_hours import used_us
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import Entry, KeyPhase, NodePhase, Tier
from burstcache.core.placement import is_home
from burstcache.core.policy import Request
from burstcache.core.table import KEY_PREFIX, LEASE_PREFIX, NODE_PREFIX, SEEN_PREFIX, LeaseColumns

# A cache function notices at a heartbeat (15 s) that its key is no longer its own; of what readers know 2 s are old at
# most, as far as DynamoDB shows it at once. In both there is room for a slow step and for clocks that differ.
_OUTLIVES_US, _REMEMBERED_US = 60 * US_PER_S, 10 * US_PER_S


@dataclass(frozen=True, slots=True)
class KeyRow:
    """The row of a key."""

    hash: str
    key: str
    phase: KeyPhase = "s3"
    epoch: int = 0  # of the current or last life, 0: none yet
    entry: Entry = "lambda"
    tier: Tier = ""
    node: str = ""  # where the current or last life belongs
    generation: int = 0  # of the node that a Redis route is valid for
    holder: str = ""  # the cache invocation that announced itself …
    attempt: int = 0  # … how often its state had been retried …
    ready_at_us: int = 0  # … and when
    lives_until_us: int = 0  # what it left to the next invocation: when the life ends if no request comes …
    served: int = 0  # … and how many requests the life has served
    joined_at_us: int = 0  # when the life took its lease, 0: not yet
    window: tuple[Request, ...] = ()  # newest requests, oldest first
    trigger: Request | None = None  # the request that started the current life
    changed_at_us: int = 0
    deadline_at_us: int = 0
    not_before_us: int = 0  # no start before this: cool-down after failed lives
    failures: int = 0  # failed lives in a row
    etag: str = ""
    size_bytes: int = 0
    use: bytes = b""  # `core.key_use`, under a policy whose nodes take guests

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> KeyRow:
        """Return the row in a DynamoDB item whose values are plain Python ones."""
        names = cls.__slots__
        plain = {name: item[name] for name in names if name in item and name not in ("window", "trigger", "use")}
        return cls(
            use=bytes(item.get("use", b"")),
            hash=item["pk"].removeprefix(KEY_PREFIX),
            window=tuple(sorted({Request.decode(text) for text in item.get("window", ())})),
            trigger=Request.decode(item["trigger"]) if "trigger" in item else None,
            **plain,
        )

    def is_live(self, now_us: int) -> bool:
        """Whether an execution owns the key."""
        return self.phase != "s3" and now_us < self.deadline_at_us

    def may_be_held(self, now_us: int) -> bool:
        """Whether a cache function may hold a copy: one that has outlived its life leaves within this time."""
        return self.phase != "s3" or now_us - self.changed_at_us < _OUTLIVES_US

    def may_be_on(self, node: NodeRow, now_us: int) -> bool:
        """Whether a node may have a copy of a life, or readers may still ask it for one of a life that is over."""
        if node.phase not in ("running", "stopping"):  # it is filled once its row says `running`
            return False
        is_in_redis = self.phase in ("redis_bootup", "redis_running", "redis_shutdown")
        return (is_in_redis and self.node == node.node) or now_us - self.changed_at_us < _REMEMBERED_US

    @property
    def is_announced(self) -> bool:
        """Whether the execution has shown itself: its cache function has announced itself, or it has joined a node."""
        return bool(self.holder or self.joined_at_us)

    @property
    def execution_name(self) -> str:
        """The name of the execution of the current or last life."""
        return key_execution_name(self.key, self.hash, self.epoch)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """The row of a Redis node."""

    node: str
    phase: NodePhase = "stopped"
    generation: int = 0
    part: int = 0
    joins: int = 0  # counts every lease ever put: a reader of an older count has missed a join
    ready_at_us: int = 0
    metered_at_us: int = 0  # until when the instance's time has been counted
    deadline_at_us: int = 0
    peers: tuple[str, ...] = ()  # the nodes among which keys have their homes in this run; none: it takes no guests
    boot_token: str = ""  # of BootNode: the instance completes it when Redis answers
    save_token: str = ""  # of SaveNode: the instance completes it when S3 has its database
    attended_at_us: int = 0  # when the janitor found last that the run has an owner: the instance waits for it
    failures: int = 0  # failed boots in a row
    not_before_us: int = 0  # no boot before this, but by hand: cool-down after failed ones, or its hours are used up
    day: int = 0  # of the last stop, since the epoch …
    day_used_us: int = 0  # … and how long the node had run on it by then
    unasked_in: int = 0  # the generation that is known to be asked by no reader any more, 0: none

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> NodeRow:
        """Return the row in a DynamoDB item whose values are plain Python ones."""
        plain = {name: item[name] for name in cls.__slots__ if name in item and name not in ("node", "peers")}
        return cls(node=item["pk"].removeprefix(NODE_PREFIX), peers=tuple(item.get("peers", ())), **plain)

    def phase_at(self, now_us: int) -> NodePhase:
        """Return the phase, or `stopped` past its deadline: nothing looks after the node any more."""
        return self.phase if now_us < self.deadline_at_us else "stopped"

    def is_late_to_stop(self, now_us: int) -> bool:
        """Whether a node that stops should be off by now."""
        return self.phase == "stopping" and now_us >= self.deadline_at_us - (STOP_S - STOP_HANGS_S) * US_PER_S

    def is_barred(self, now_us: int) -> bool:
        """Whether the node is off and may not boot: cache functions serve its keys meanwhile."""
        return self.phase_at(now_us) == "stopped" and now_us < self.not_before_us

    @property
    def bar(self) -> str:
        """Why the node may not boot, as the end of a sentence."""
        if self.failures:
            return f"cools down after {self.failures} failed boots"
        return "has run for as many hours as MaxNodeHoursPerDay allows"

    def used_today_us(self, now_us: int) -> int:
        """Return how long a node that runs has run today [us]."""
        return used_us(self.day_used_us, on_day=self.day, since_us=self.booted_at_us, now_us=now_us)

    def is_home_of(self, hash_: str) -> bool:
        """Whether readers may have brought the key's object here as a guest."""
        return self.phase != "stopped" and is_home(self.node, hash_, self.peers)

    @property
    def is_unasked(self) -> bool:
        """Whether the node stops and no reader asks it any more."""
        return self.phase == "stopping" and self.unasked_in == self.generation

    @property
    def booted_at_us(self) -> int:
        """When the boot of the current or last run began, at the earliest: generations are numbered by the clock."""
        return self.generation * 1000

    @property
    def execution_name(self) -> str:
        """The name of the current part of the node's execution."""
        return node_execution_name(self.node, self.generation, self.part)


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which no life and no node starts, and S3 serves."""

    reason: str
    since_us: int
    until_us: int = 0  # 0: until a person ends it


@dataclass(frozen=True, slots=True)
class SeenKey:
    """A key of a node that takes guests, as it was seen last; noted at most once an hour."""

    hash: str
    key: str
    size_bytes: int
    seen_at_us: int

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> SeenKey:
        """Return the key in a DynamoDB item whose values are plain Python ones."""
        return cls(item["sk"].removeprefix(SEEN_PREFIX), item["key"], item["size_bytes"], item["seen_at_us"])

    @property
    def row(self) -> KeyRow:
        """What is known of the key, if it has no row of its own: that request, and nothing of a life."""
        return KeyRow(self.hash, self.key, window=(Request(self.seen_at_us, ""),), size_bytes=self.size_bytes)


BY_HAND = "by-hand"  # in place of a hash, in a person's hold


@dataclass(frozen=True, slots=True)
class Lease:
    """A key's claim on a running node; a person's hold is a lease without a key."""

    node: str
    hash: str
    key: str = ""
    epoch: int = 0
    waiter: str = ""  # token of RedisBootup, until the node is ready
    running: str = ""  # token of RedisRunning, from then on
    was_missing: bool = False  # the last check found nothing of the key in Redis
    held_until_us: int = 0  # of a hold

    @property
    def is_by_hand(self) -> bool:
        """Whether it is a person's hold."""
        return self.hash == BY_HAND

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Lease:
        """Return the lease in a DynamoDB item whose values are plain Python ones."""
        plain = {name: item[name] for name in cls.__slots__ if name in item and name not in ("node", "hash")}
        return cls(node=item["pk"].removeprefix(NODE_PREFIX), hash=item["sk"].removeprefix(LEASE_PREFIX), **plain)

    def columns(self) -> LeaseColumns:
        """Return what the item of a new lease holds."""
        columns = LeaseColumns(key=self.key, epoch=self.epoch)
        if self.waiter:
            columns["waiter"] = self.waiter
        if self.held_until_us:
            columns["held_until_us"] = self.held_until_us
        return columns
