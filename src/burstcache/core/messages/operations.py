"""Payloads of functions: what the state machines, events and people ask of a cache function and of Redis control."""

from __future__ import annotations

from typing import Literal, TypedDict

# key_lifecycle to the cache function and to Redis control -------------------------------------------------------------


class Serve(TypedDict):
    """`Lambda`, `RestrictedLambda`, the scheduler: hold the object until the life is over."""

    key: str
    key_hash: str
    epoch: int
    attempt: int  # how often the state has been retried, or its cache function replaced, before
    token: str  # empty: the state is over, and this one serves until Redis does


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
    """`BootNode`: start the instance, which completes the token when its Redis answers."""

    op: Literal["boot_node"]
    node: str
    generation: int
    part: int
    execution: str  # the name of the one that asks
    token: str


class ReadyNode(TypedDict):
    """`NodeReady`: Redis answers."""

    op: Literal["ready_node"]
    node: str
    generation: int
    part: int


class CheckNode(TypedDict):
    """`CheckNodeUse`. `check_at_us` is text: JSONata writes only 15 digits of a number."""

    op: Literal["check_node"]
    node: str
    generation: int
    part: int
    check_at_us: str
    checks: int


class SaveNode(TypedDict):
    """`SaveNode`: the instance completes the token when S3 has its database."""

    op: Literal["save_node"]
    node: str
    generation: int
    token: str


class StopNode(TypedDict):
    """`StopNode`."""

    op: Literal["stop_node"]
    node: str
    generation: int


class AbandonNode(TypedDict):
    """`AbandonNode`."""

    op: Literal["abandon_node"]
    node: str
    generation: int


# A writer to Origin, Origin to Redis control --------------------------------------------------------------------------


class FollowWrite(TypedDict):
    """An object of the bucket was written or deleted: its copies are let go before the answer."""

    op: Literal["follow_write"]
    key: str


# EC2, or the janitor in its place, to Redis control -------------------------------------------------------------------


class InstanceStopped(TypedDict):
    """A node's instance has stopped."""

    op: Literal["instance_stopped"]
    node: str


# A person, or the janitor, to Redis control ---------------------------------------------------------------------------


class Hold(TypedDict):
    """Keep a node running for a while, with or without keys."""

    op: Literal["hold"]
    node: str
    for_s: int


class Release(TypedDict):
    """Stop a node in place of its execution."""

    op: Literal["release"]
    node: str


class Ping(TypedDict):
    """Ask a node's Redis for a PONG."""

    op: Literal["ping"]
    node: str


class StopCache(TypedDict):
    """Make the cache function that holds a key end."""

    op: Literal["stop_cache"]
    key: str


Operation = (
    Join
    | Seed
    | Leave
    | FollowWrite
    | BootNode
    | ReadyNode
    | CheckNode
    | SaveNode
    | StopNode
    | AbandonNode
    | InstanceStopped
    | Hold
    | Release
    | Ping
    | StopCache
)
