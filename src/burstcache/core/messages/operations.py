"""The operations of the cache function and of Redis control, requested by state machines, events and people.

Docstrings with a colon begin with the states or parts that request the operation.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

# key_lifecycle to the cache function and to Redis control -------------------------------------------------------------


class Serve(TypedDict):
    """`Lambda`, `RestrictedLambda`, the scheduler: keep the object in memory until the life is over."""

    key: str
    key_hash: str
    epoch: int
    attempt: int  # number of previous retries of the state and replacements of its cache function
    token: str  # empty if the state is over, and the function only serves until Redis takes over


class Join(TypedDict):
    """`RedisBootup`: take a lease on the node."""

    op: Literal["join"]
    key: str
    key_hash: str
    epoch: int
    node: str
    token: str


class Seed(TypedDict):
    """`SeedRedis`: move the object from the cache function into Redis."""

    op: Literal["seed"]
    key: str
    key_hash: str
    epoch: int
    node: str
    generation: int


class Leave(TypedDict):
    """`RedisShutdown`, `RedisShutdownFailed`, the janitor: return the key to S3."""

    op: Literal["leave"]
    key: str
    key_hash: str
    epoch: int
    node: str
    failures: int
    is_failed: bool
    queue_us: list[int]


# redis_node to Redis control ------------------------------------------------------------------------------------------


class BootNode(TypedDict):
    """`BootNode`: start the instance. The instance completes the token when its Redis answers."""

    op: Literal["boot_node"]
    node: str
    generation: int
    part: int
    execution: str  # name of the calling execution
    token: str


class ReadyNode(TypedDict):
    """`NodeReady`: mark the node as running, since its Redis answers."""

    op: Literal["ready_node"]
    node: str
    generation: int
    part: int


class CheckNode(TypedDict):
    """`CheckNodeUse`: check a node's utilisation. `check_at_us` is text, as JSONata keeps 15 digits of a number."""

    op: Literal["check_node"]
    node: str
    generation: int
    part: int
    check_at_us: str
    checks: int


class SaveNode(TypedDict):
    """`SaveNode`: save the node's database. The instance completes the token when S3 has the database."""

    op: Literal["save_node"]
    node: str
    generation: int
    token: str


class StopNode(TypedDict):
    """`StopNode`: stop an unused node."""

    op: Literal["stop_node"]
    node: str
    generation: int


class AbandonNode(TypedDict):
    """`AbandonNode`: stop a node after a failure."""

    op: Literal["abandon_node"]
    node: str
    generation: int


# A writer to Origin; Origin to Redis control --------------------------------------------------------------------------


class FollowWrite(TypedDict):
    """Invalidate the copies of a written or deleted object before the write is answered."""

    op: Literal["follow_write"]
    key: str


class FollowWrites(TypedDict):
    """Invalidate the copies of written or deleted objects on nodes and in cache functions."""

    op: Literal["follow_writes"]
    keys: list[str]  # each once


# EC2 or ECS, or the janitor in their place, to Redis control ----------------------------------------------------------


class InstanceStopped(TypedDict):
    """Record that a node's instance has stopped."""

    op: Literal["instance_stopped"]
    node: str


class AttendNode(TypedDict):
    """The janitor: check the task of a booting or running node for lost events, and keep the task running."""

    op: Literal["attend_node"]
    node: str


# A person, or the janitor, to Redis control ---------------------------------------------------------------------------


class Hold(TypedDict):
    """Keep a node running for a while, with or without keys."""

    op: Literal["hold"]
    node: str
    for_s: int


class Release(TypedDict):
    """Stop a node directly, instead of through its execution."""

    op: Literal["release"]
    node: str
    keeps_hold: NotRequired[bool]  # the janitor: a stopping node that a person holds boots again


class Ping(TypedDict):
    """Ping a node's Redis."""

    op: Literal["ping"]
    node: str


class StopCache(TypedDict):
    """Stop a key's cache function."""

    op: Literal["stop_cache"]
    key: str


Operation = (
    Join
    | Seed
    | Leave
    | FollowWrites
    | BootNode
    | ReadyNode
    | CheckNode
    | SaveNode
    | StopNode
    | AbandonNode
    | InstanceStopped
    | AttendNode
    | Hold
    | Release
    | Ping
    | StopCache
)
