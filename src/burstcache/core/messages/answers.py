"""What the functions answer, and what they complete the tokens of tasks with."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from burstcache.core.phases import NodePhase, Tier


class Done(TypedDict):
    """An empty answer."""


class NodeReady(TypedDict):
    """To `RedisBootup`: the generation in which Redis answers."""

    generation: int


CACHE_FUNCTION = "the cache function with its control, at list prices; a node's run has its own cost"
NODE_RUN = "the instance since its boot and the control of one run, at list prices"


class LambdaOver(TypedDict):
    """To `Lambda`, `RestrictedLambda`: how the cache function's life ended, and what it was good for."""

    outcome: Literal["idle", "promoted", "gone"]
    served: int  # requests that the cache function answered, or readers' memory in its place
    first_request: str  # of the life, ISO 8601; empty: there was none
    last_request: str
    estimated_usd: float
    estimate_covers: str


class Left(TypedDict):
    """To `RedisShutdown`: the first and last request of the life as far as they are known, ISO 8601."""

    first_request: NotRequired[str]
    last_request: NotRequired[str]


class RedisOver(TypedDict):
    """To `RedisRunning`: why Redis no longer serves the key; its last request times if it was idle [us]."""

    outcome: Literal["idle", "node_lost"]
    queue_us: NotRequired[list[int]]


class Seeded(TypedDict):
    """To `SeedRedis`: where the key is served from now on; with an outcome, its lease is given back instead."""

    node: str
    generation: int
    outcome: NotRequired[Literal["gone"]]  # the object was deleted or has outgrown the tiers


class NodePlan(TypedDict):
    """What `RedisNodeRunning` and `CheckNodeUse` read: when the next check is due, and how many there have been."""

    outcome: Literal["used"]
    wait_until: str  # ISO 8601, whole seconds
    check_at_us: str
    checks: int


class RunEnds(TypedDict):
    """What `IsNodeUsed` reads when an execution stops looking after its node.

    `unused`: the node stops. `unsaved`: its database is saved first. `superseded`: the run goes on in its next part, or
    a newer run owns the node.
    """

    outcome: Literal["unused", "unsaved", "superseded"]
    ended: str  # why, for the execution's output


class NodeStopped(TypedDict):
    """How far a stop is: still stopping, stopped, or booting again because somebody needs the node."""

    phase: NodePhase
    generation: NotRequired[int]


class RunOver(NodeStopped):
    """To `StopNode`: what a run took."""

    booted_at: str  # ISO 8601
    ran_s: int
    estimated_usd: float
    estimate_covers: str


class Held(TypedDict):
    """The node's phase, and until when it is held [us]."""

    phase: NodePhase
    held_until_us: int


class Refused(TypedDict):
    """Why a person's order is not followed, which is no failure of the function."""

    refused: str


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
    """The tier whose copy follows a write to the origin, and how many copies nodes and cache functions had."""

    refreshed: Tier
    copies: int


Answer = (
    Done | Seeded | Left | NodePlan | RunEnds | NodeStopped | RunOver | Held | Refused | Pong | CacheStopped | Refreshed
)
