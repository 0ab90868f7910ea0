"""The answers of functions, which also complete task tokens.

Docstrings that begin with "To" name the states that receive the answer.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from burstcache.core.phases import NodePhase, Tier


class Done(TypedDict):
    """An empty answer."""


class NodeReady(TypedDict):
    """To `RedisBootup`: the generation in which Redis answers."""

    generation: int


CACHE_FUNCTION = "the cache function with its control, at list prices; a node's run has its own cost"
NODE_RUN = "the node since its boot and the control of one run, at list prices"


class LambdaOver(TypedDict):
    """To `Lambda`, `RestrictedLambda`: the outcome, usage and cost of a life in a cache function."""

    outcome: Literal["idle", "promoted", "gone"]
    served: int  # requests that the cache function answered, or that readers answered from memory
    first_request: str  # the life's first request, ISO 8601; empty if none
    last_request: str
    estimated_usd: float
    estimate_covers: str


class Left(TypedDict):
    """To `RedisShutdown`: the times of the life's first and last request if known, ISO 8601."""

    first_request: NotRequired[str]
    last_request: NotRequired[str]
    task_kind: NotRequired[str]  # fargate or fargate-spot: what the node ran on, if nodes ask for Spot


class RedisOver(TypedDict):
    """To `RedisRunning`: the reason why Redis no longer serves the key, and an idle key's last request times [us]."""

    outcome: Literal["idle", "node_lost"]
    queue_us: NotRequired[list[int]]


class Seeded(TypedDict):
    """To `SeedRedis`: the node that serves the key from now on. An outcome means that the key's lease was released."""

    node: str
    generation: int
    outcome: NotRequired[Literal["gone"]]  # the object was deleted or has outgrown the tiers


class NodePlan(TypedDict):
    """To `RedisNodeRunning`, `CheckNodeUse`: the time of the next check, and the number of checks so far."""

    outcome: Literal["used"]
    wait_until: str  # ISO 8601, whole seconds
    check_at_us: str
    checks: int


class RunEnds(TypedDict):
    """To `IsNodeUsed`: the end of an execution.

    `unused`: the node stops. `unsaved`: its database is saved first. `superseded`: the run continues in its next part,
    or a newer run owns the node.
    """

    outcome: Literal["unused", "unsaved", "superseded"]
    ended: str  # the reason, for the execution's output


class NodeStopped(TypedDict):
    """The progress of a stop: stopping, stopped, or booting again because the node is needed."""

    phase: NodePhase
    generation: NotRequired[int]


class RunOver(NodeStopped):
    """To `StopNode`: the duration and cost of a run."""

    booted_at: str  # ISO 8601
    ran_s: int
    estimated_usd: float
    estimate_covers: str


class Held(TypedDict):
    """The node's phase, and the end of its hold [us]."""

    phase: NodePhase
    held_until_us: int


class Refused(TypedDict):
    """The reason why a person's operation was refused. The function itself did not fail."""

    refused: str


class Pong(TypedDict):
    """The result of a ping: whether Redis answered, the reason if not, the machine's state and the node's phase."""

    instance: str  # state of the instance, or of the task
    machine: Literal["instance", "task"]
    task_kind: str  # fargate or fargate-spot while a task runs
    host: str  # the task's address
    phase: NodePhase
    pong: bool
    reason: NotRequired[str]


class CacheStopped(TypedDict):
    """The result of stopping a cache function: whether one was running."""

    stopped: bool


class Refreshed(TypedDict):
    """The tier that reloads a written object, and the number of invalidated copies on nodes and in cache functions."""

    refreshed: Tier
    copies: int


class Followed(TypedDict):
    """The result of each write, in the order of the keys."""

    writes: list[Refreshed]


Answer = (
    Done | Seeded | Left | NodePlan | RunEnds | NodeStopped | RunOver | Held | Refused | Pong | CacheStopped | Followed
)
