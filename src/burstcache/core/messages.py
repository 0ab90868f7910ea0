"""The messages between the processes of a stack: events, inputs of executions, payloads, relay messages, answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NotRequired, TypedDict, final

from burstcache.core.phases import Entry, NodePhase, Tier
from burstcache.core.policy import Request
from burstcache.core.table import KeyRow, NodeRow

# Events on the bus ---------------------------------------------------------------------------------------------------

PROXY = "burstcache.proxy"  # source
OBJECT_REQUESTED = "ObjectRequested"  # detail types
REQUESTS_SERVED = "RequestsServed"
KEY_START_REQUESTED = "KeyStartRequested"


@final
class ObjectRequested(TypedDict):
    """One GET that S3 served. `size_bytes` is 0 where S3 did not give it (a 304)."""

    key: str
    at_us: int
    request_id: str
    size_bytes: int
    etag: str


# How long a reader gathers what it reports. By the second a key gets hot; where nodes take guests, a report costs as
# much as a second or two of a small node, which boots for half a minute.
REPORT_EVERY_S, REPORT_USE_EVERY_S = 1, 10

ServedBy = Literal["below", "lambda"]


class KeyServed(TypedDict):
    """GETs of one key, as `at_us:request_id`, oldest first; size and ETag as for `ObjectRequested`."""

    key: str
    requests: list[str]
    size_bytes: int
    etag: str
    served_by: NotRequired[ServedBy]  # if it is missing: S3, or a copy in Express
    left_out: NotRequired[int]  # how many older ones of the same moment are not in the list


@final
class RequestsServed(TypedDict):
    """GETs of keys that a reader, or a cache function, reports in batches."""

    keys: list[KeyServed]


_MOST_READS_PER_KEY = 8  # the newest: more than a policy of the configurator looks back on
_MOST_KEYS = 100  # of one event: its receiver has half a minute for them
_MOST_BYTES = 24_000  # of one event: ten of them go into one PutEvents, which takes 256 KB


def requests_served(keys: Iterable[KeyServed]) -> Iterator[RequestsServed]:
    """Return events of a size that the bus takes and one run of the scheduler can handle."""
    event, size_bytes = RequestsServed(keys=[]), 0
    for served in keys:
        served_bytes = len(encode(served))
        if len(event["keys"]) == _MOST_KEYS or (event["keys"] and size_bytes + served_bytes > _MOST_BYTES):
            yield event
            event, size_bytes = RequestsServed(keys=[]), 0
        event["keys"].append(served)
        size_bytes += served_bytes
    if event["keys"]:
        yield event


def gathered(events: Iterable[ObjectRequested | RequestsServed]) -> Iterator[RequestsServed]:
    """Return as few events as the bus takes for all that were reported, by key and by what served it."""
    keys: dict[tuple[str, ServedBy], KeyServed] = {}
    for event in events:
        for served in event["keys"] if "keys" in event else [_served(event)]:
            known = keys.setdefault((served["key"], served.get("served_by", "below")), served)
            if known is not served:
                _add(known, served)
    return requests_served(keys.values())


def _add(known: KeyServed, served: KeyServed) -> None:
    requests = [*known["requests"], *served["requests"]]
    if left_out := known.get("left_out", 0) + max(len(requests) - _MOST_READS_PER_KEY, 0):
        known["left_out"] = left_out
    known["requests"] = requests[-_MOST_READS_PER_KEY:]
    known["etag"] = served["etag"] or known["etag"]
    known["size_bytes"] = served["size_bytes"] or known["size_bytes"]


def _served(event: ObjectRequested) -> KeyServed:
    return KeyServed(
        key=event["key"],
        requests=[Request(event["at_us"], event["request_id"]).encode()],
        size_bytes=event["size_bytes"],
        etag=event["etag"],
    )


class KeyStartRequested(TypedDict):
    """A person starts a key's life."""

    key: str


# Executions: their inputs, which are functions of a row, so that a repeated start is identical -----------------------


class KeyExecutionInput(TypedDict):
    """Which life of which key."""

    entry: Entry
    epoch: int
    failures: int
    key: str
    key_hash: str
    node: str


class NodeExecutionInput(TypedDict):
    """Which part of which run of a node."""

    generation: int
    node: str
    part: int


def key_execution_input(row: KeyRow) -> KeyExecutionInput:
    """Return the input of a key's execution."""
    return KeyExecutionInput(
        entry=row.entry, epoch=row.epoch, failures=row.failures, key=row.key, key_hash=row.hash, node=row.node
    )


def node_execution_input(row: NodeRow) -> NodeExecutionInput:
    """Return the input of one part of a node's execution."""
    return NodeExecutionInput(generation=row.generation, node=row.node, part=row.part)


# key_lifecycle to the cache function and to Redis control ------------------------------------------------------------


class Serve(TypedDict):
    """`Lambda`, `RestrictedLambda`: hold the object until the life is over."""

    key: str
    key_hash: str
    epoch: int
    token: str


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


# redis_node to Redis control -----------------------------------------------------------------------------------------


class BootNode(TypedDict):
    """`BootNode`: start the instance, which completes the token when its Redis answers."""

    op: Literal["boot_node"]
    node: str
    generation: int
    part: int
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


# Origin to Redis control ---------------------------------------------------------------------------------------------


class FollowWrite(TypedDict):
    """An object of the bucket was written or deleted: its copies in cache functions and nodes follow."""

    op: Literal["follow_write"]
    key: str


# EC2, or the janitor in its place, to Redis control -------------------------------------------------------------------


class InstanceStopped(TypedDict):
    """A node's instance has stopped."""

    op: Literal["instance_stopped"]
    node: str


# A person, or the janitor, to Redis control --------------------------------------------------------------------------


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
    | StopNode
    | AbandonNode
    | InstanceStopped
    | Hold
    | Release
    | Ping
    | StopCache
)

# What the steps answer, and what the tokens of tasks are completed with ----------------------------------------------


class Done(TypedDict):
    """An empty answer."""


class NodeReady(TypedDict):
    """To `RedisBootup`: the generation in which Redis answers."""

    generation: int


class LambdaOver(TypedDict):
    """To `Lambda`, `RestrictedLambda`: how the cache function's life ended."""

    outcome: Literal["idle", "promoted"]


class RedisOver(TypedDict):
    """To `RedisRunning`: why Redis no longer serves the key; its last request times if it was idle [us]."""

    outcome: Literal["idle", "node_lost"]
    queue_us: NotRequired[list[int]]


class Seeded(TypedDict):
    """Where the key is served from now on."""

    node: str
    generation: int


class NodePlan(TypedDict):
    """What `RedisNodeRunning` and `CheckNodeUse` read: when the next check is due, and how many there have been."""

    wait_until: str  # ISO 8601, whole seconds
    check_at_us: str
    checks: int


class NodeStopped(TypedDict):
    """How far a stop is: still stopping, stopped, or booting again because somebody needs the node."""

    phase: NodePhase
    generation: NotRequired[int]


class Held(TypedDict):
    """The node's phase, and until when it is held [us]."""

    phase: NodePhase
    held_until_us: int


class Pong(TypedDict):
    """Whether Redis answered (if not: why), the state of the instance and the node's phase."""

    instance: str
    phase: NodePhase
    pong: bool
    reason: NotRequired[str]


class CacheStopped(TypedDict):
    """Whether there was a cache function to stop."""

    stopped: bool


class Refreshed(TypedDict):
    """The tier whose copy follows a write to the origin."""

    refreshed: Tier


Answer = Done | Seeded | NodePlan | NodeStopped | Held | Pong | CacheStopped | Refreshed

# Over the relay ------------------------------------------------------------------------------------------------------


@final
class Get(TypedDict):
    """The proxy asks the cache function that holds a key; the answer is an entry (`web.entry`)."""

    at_us: int
    request_id: str
    method: str


@final
class ServedElsewhere(TypedDict):
    """GETs that a reader's memory served, as `at_us:request_id`; the answer is empty."""

    served: list[str]


class Refresh(TypedDict):
    """The object was written: confirm the copy."""

    op: Literal["refresh"]
    epoch: int


class Stop(TypedDict):
    """End the life; the answer has the newest requests. Without `epoch`: whichever life it is."""

    op: Literal["stop"]
    epoch: NotRequired[int]


class Ended(TypedDict):
    """The newest requests that a cache function served."""

    window: list[str]


Order = Refresh | Stop


def get_subject(hash_: str) -> str:
    """Return the subject on which the cache function of a key answers GETs."""
    return f"get.{hash_}"


def control_subject(hash_: str) -> str:
    """Return the subject on which the cache function of a key takes orders."""
    return f"control.{hash_}"


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as it goes over the relay and the bus."""
    return json.dumps(message, separators=(",", ":")).encode()


def window_of(answer: bytes | None) -> list[Request]:
    """Return the requests in an answer to `Stop`; none if no cache function answered."""
    return [] if answer is None else [Request.decode(text) for text in json.loads(answer)["window"]]
