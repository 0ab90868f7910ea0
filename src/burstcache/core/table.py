"""What the table's items mean: the row of a key, the row of a node, a lease of a key on a node.

Every phase but `s3` and `stopped` carries a deadline; an expired row counts as cold, whoever reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from burstcache.core.keys import key_execution_name, node_execution_name
from burstcache.core.policy import Request

KeyPhase = Literal["s3", "lambda", "restricted_lambda", "redis_bootup", "redis_running", "redis_shutdown"]
NodePhase = Literal["stopped", "booting", "running", "stopping"]
Entry = Literal["lambda", "restricted", "redis"]

# A key's first phase by its way in: a running node takes it at once, a stopping one not before it has stopped.
PHASE_OF_ENTRY: dict[Entry, KeyPhase] = {
    "lambda": "lambda",
    "restricted": "restricted_lambda",
    "redis": "redis_bootup",
}


@dataclass(frozen=True, slots=True)
class KeyRow:
    """The row of a key, `KEY#<hash>`/`ROUTE`."""

    hash: str
    key: str
    phase: KeyPhase = "s3"
    epoch: int = 0  # of the current or last life, 0: none yet
    entry: Entry = "lambda"
    tier: Literal["", "lambda", "redis"] = ""  # where the proxy asks; empty: S3
    node: str = ""
    generation: int = 0  # of the node that a Redis route is valid for
    holder: str = ""  # the cache invocation that announced itself …
    ready_at_us: int = 0  # … and when
    window: tuple[Request, ...] = ()  # newest requests, oldest first
    trigger: Request | None = None  # the request that started the current life
    changed_at_us: int = 0
    deadline_at_us: int = 0
    not_before_us: int = 0  # no start before this: cool-down after failed lives
    failures: int = 0  # failed lives in a row
    etag: str = ""
    size_bytes: int = 0
    written_in: int = 0  # epoch of the life that was still starting when the object was last written

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> KeyRow:
        """Return the row in a DynamoDB item whose values are plain Python ones."""
        names = cls.__slots__
        plain = {name: item[name] for name in names if name in item and name not in ("window", "trigger")}
        return cls(
            hash=item["pk"].removeprefix("KEY#"),
            window=tuple(sorted({Request.parse(text) for text in item.get("window", ())})),
            trigger=Request.parse(item["trigger"]) if "trigger" in item else None,
            **plain,
        )

    def is_live(self, now_us: int) -> bool:
        """Tell whether an execution owns the key."""
        return self.phase != "s3" and now_us < self.deadline_at_us

    @property
    def is_announced(self) -> bool:
        """Whether the execution has been heard of: its cache function has announced itself, or it has joined a node."""
        return bool(self.holder or self.node)

    @property
    def execution_name(self) -> str:
        """The name of the execution of the current or last life."""
        return key_execution_name(self.hash, self.epoch)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """The row of a Redis node, `NODE#<name>`/`NODE`."""

    node: str
    phase: NodePhase = "stopped"
    generation: int = 0
    part: int = 0
    joins: int = 0  # counts every lease ever put: who saw an older count has missed a join
    ready_at_us: int = 0
    deadline_at_us: int = 0

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> NodeRow:
        """Return the row in a DynamoDB item whose values are plain Python ones."""
        plain = {name: item[name] for name in cls.__slots__ if name in item and name != "node"}
        return cls(node=item["pk"].removeprefix("NODE#"), **plain)

    def phase_at(self, now_us: int) -> NodePhase:
        """Return the phase, or `stopped` when its deadline has passed and nobody looks after the node any more."""
        return self.phase if now_us < self.deadline_at_us else "stopped"

    @property
    def execution_name(self) -> str:
        """The name of the current part of the node's execution."""
        return node_execution_name(self.node, self.generation, self.part)


@dataclass(frozen=True, slots=True)
class Lease:
    """A key's claim on a running node, `NODE#<name>`/`LEASE#<hash>`; a person's hold is a lease without a key."""

    node: str
    hash: str
    key: str = ""
    epoch: int = 0
    waiter: str = ""  # token of RedisBootup, until the node is ready
    running: str = ""  # token of RedisRunning, from then on
    was_missing: bool = False  # the last check found nothing of the key in Redis
    held_until_us: int = 0  # of a hold

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Lease:
        """Return the lease in a DynamoDB item whose values are plain Python ones."""
        plain = {name: item[name] for name in cls.__slots__ if name in item and name not in ("node", "hash")}
        return cls(node=item["pk"].removeprefix("NODE#"), hash=item["sk"].removeprefix("LEASE#"), **plain)
