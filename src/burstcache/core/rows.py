"""The table's rows as values: keys, nodes, leases, a pause and seen keys."""

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
from burstcache.core.policy import RecordedRequest
from burstcache.core.table import KEY_PREFIX, LEASE_PREFIX, NODE_PREFIX, SEEN_PREFIX, LeaseColumns

# A cache function notices the loss of its key at a heartbeat (every 15 s). A reader's digest is 2 s old at most, plus
# DynamoDB's delay. Both times leave room for slow steps and clock skew.
_OUTLIVES_US, _REMEMBERED_US = 60 * US_PER_S, 10 * US_PER_S


@dataclass(frozen=True, slots=True)
class KeyRow:
    """The row of a key."""

    hash: str
    key: str
    phase: KeyPhase = "s3"
    epoch: int = 0  # of the current or last life; 0 before the first life
    entry: Entry = "lambda"
    tier: Tier = ""
    node: str = ""  # node of the current or last life
    generation: int = 0  # node generation for which a route to Redis is valid
    holder: str = ""  # invocation of the cache function that announced itself …
    attempt: int = 0  # … number of retries of its state by then …
    ready_at_us: int = 0  # … and time of the announcement
    lives_until_us: int = 0  # saved for the next invocation: the end of the life without further requests …
    served: int = 0  # … and the number of requests that the life has served
    joined_at_us: int = 0  # time at which the life took its lease; 0 before that
    window: tuple[RecordedRequest, ...] = ()  # newest requests, oldest first
    trigger: RecordedRequest | None = None  # the request that started the current life
    changed_at_us: int = 0
    deadline_at_us: int = 0
    not_before_us: int = 0  # end of the cool-down after failed lives, before which no life starts
    failures: int = 0  # consecutive failed lives
    etag: str = ""
    size_bytes: int = 0
    use: bytes = b""  # `core.key_use`, under a policy with read-through entries

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> KeyRow:
        """Decode a row from a DynamoDB item with plain Python values."""
        names = cls.__slots__
        plain = {name: item[name] for name in names if name in item and name not in ("window", "trigger", "use")}
        return cls(
            use=bytes(item.get("use", b"")),
            hash=item["pk"].removeprefix(KEY_PREFIX),
            window=tuple(sorted({RecordedRequest.decode(text) for text in item.get("window", ())})),
            trigger=RecordedRequest.decode(item["trigger"]) if "trigger" in item else None,
            **plain,
        )

    def is_live(self, now_us: int) -> bool:
        """Return whether an execution owns the key."""
        return self.phase != "s3" and now_us < self.deadline_at_us

    def may_be_held(self, now_us: int) -> bool:
        """Return whether a cache function may hold a copy. The function exits within 60 s of its life's end."""
        return self.phase != "s3" or now_us - self.changed_at_us < _OUTLIVES_US

    def may_be_on(self, node: NodeRow, now_us: int) -> bool:
        """Return whether a node may have a copy, or readers may still request a copy there after the end of a life."""
        if node.phase not in ("running", "stopping"):  # a node is filled only once its row says `running`
            return False
        is_in_redis = self.phase in ("redis_bootup", "redis_running", "redis_shutdown")
        return (is_in_redis and self.node == node.node) or now_us - self.changed_at_us < _REMEMBERED_US

    @property
    def is_announced(self) -> bool:
        """Whether the execution is known to run: its function has announced itself, or the key has joined a node."""
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
    joins: int = 0  # number of leases and holds ever added; a reader with a lower count has missed one
    ready_at_us: int = 0
    metered_at_us: int = 0  # end of the instance's running time counted so far
    deadline_at_us: int = 0
    peers: tuple[str, ...] = ()  # nodes over which keys are distributed in this run; empty without read-through entries
    boot_token: str = ""  # task token of BootNode, which the instance completes when Redis answers
    save_token: str = ""  # task token of SaveNode, which the instance completes when S3 has its database
    attended_at_us: int = 0  # last time the janitor found the run's owner; without updates the instance stops itself
    failures: int = 0  # consecutive failed boots
    not_before_us: int = 0  # only a person may boot the node before this time, after failures or without hours left
    day: int = 0  # day of the last stop, counted from the epoch …
    day_used_us: int = 0  # … and the node's running time on that day until the stop
    task: str = ""  # ARN of the run's latest task; empty before, and on EC2
    task_kind: str = ""  # fargate or fargate-spot: what the task really runs on
    host: str = ""  # address of the run's task, once it runs
    notice: str = ""  # what went wrong with the newest task, in ECS's words; empty after a boot without trouble
    lost_at_us: int = 0  # when a running node was last lost …
    lost_by: str = ""  # … and how
    unasked_in: int = 0  # the generation that readers no longer send requests to; 0 if none
    held_until_us: int = 0  # end of a person's hold. The mark of a stop ends it, so a hold of a stopping node is newer

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> NodeRow:
        """Decode a row from a DynamoDB item with plain Python values."""
        plain = {name: item[name] for name in cls.__slots__ if name in item and name not in ("node", "peers")}
        return cls(node=item["pk"].removeprefix(NODE_PREFIX), peers=tuple(item.get("peers", ())), **plain)

    def phase_at(self, now_us: int) -> NodePhase:
        """Return the phase, or `stopped` past the deadline, since the node then has no owner."""
        return self.phase if now_us < self.deadline_at_us else "stopped"

    def is_late_to_stop(self, now_us: int) -> bool:
        """Return whether a stopping node should be off by now."""
        return self.phase == "stopping" and now_us >= self.deadline_at_us - (STOP_S - STOP_HANGS_S) * US_PER_S

    def is_barred(self, now_us: int) -> bool:
        """Return whether the node is off and may not boot. Meanwhile, cache functions serve its keys."""
        return self.phase_at(now_us) == "stopped" and now_us < self.not_before_us

    @property
    def bar(self) -> str:
        """The reason why the node may not boot, as the end of a sentence."""
        if self.failures:
            return f"cools down after {self.failures} failed boots"
        return "has run for as many hours as MaxNodeHoursPerDay allows"

    def used_today_us(self, now_us: int) -> int:
        """Return the running time of a running node today [us]."""
        return used_us(self.day_used_us, on_day=self.day, since_us=self.booted_at_us, now_us=now_us)

    def is_home_of(self, hash_: str) -> bool:
        """Return whether readers may have stored the key's object on this node as a read-through entry."""
        return self.phase != "stopped" and is_home(self.node, hash_, self.peers)

    def is_held(self, now_us: int) -> bool:
        """Return whether a person holds the node."""
        return self.held_until_us > now_us

    @property
    def is_unasked(self) -> bool:
        """Whether the node is stopping and readers no longer send it requests."""
        return self.phase == "stopping" and self.unasked_in == self.generation

    @property
    def booted_at_us(self) -> int:
        """The earliest possible boot of the current or last run, since generations are clock times [us]."""
        return self.generation * 1000

    @property
    def execution_name(self) -> str:
        """The name of the current part of the node's execution."""
        return node_execution_name(self.node, self.generation, self.part)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of the stack, during which no life or node starts, and S3 serves all keys."""

    reason: str
    since_us: int
    until_us: int = 0  # 0 if the pause lasts until a person ends it


@dataclass(frozen=True, slots=True)
class SeenKey:
    """A key of a node with read-through entries, as last recorded. `core.recency` limits the frequency of records."""

    hash: str
    key: str
    size_bytes: int
    seen_at_us: int

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> SeenKey:
        """Decode a key from a DynamoDB item with plain Python values."""
        return cls(item["sk"].removeprefix(SEEN_PREFIX), item["key"], item["size_bytes"], item["seen_at_us"])

    @property
    def row(self) -> KeyRow:
        """The substitute row of a key without its own row, with one request and no life."""
        return KeyRow(self.hash, self.key, window=(RecordedRequest(self.seen_at_us, ""),), size_bytes=self.size_bytes)


@dataclass(frozen=True, slots=True)
class Lease:
    """A key's lease on a node. The lease of a database's holder has no key."""

    node: str
    hash: str
    key: str = ""
    epoch: int = 0
    waiter: str = ""  # token of RedisBootup, until the node is ready
    running: str = ""  # token of RedisRunning, from then on
    was_missing: bool = False  # the last check found no request times of the key in Redis
    held_until_us: int = 0  # end of a holder's lease

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Lease:
        """Decode a lease from a DynamoDB item with plain Python values."""
        plain = {name: item[name] for name in cls.__slots__ if name in item and name not in ("node", "hash")}
        return cls(node=item["pk"].removeprefix(NODE_PREFIX), hash=item["sk"].removeprefix(LEASE_PREFIX), **plain)

    def columns(self) -> LeaseColumns:
        """Return the columns of a new lease's item."""
        columns = LeaseColumns(key=self.key, epoch=self.epoch)
        if self.waiter:
            columns["waiter"] = self.waiter
        if self.held_until_us:
            columns["held_until_us"] = self.held_until_us
        return columns
