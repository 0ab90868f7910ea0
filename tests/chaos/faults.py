"""The faults: each with its break, its load and its excuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from burstcache.core.node_kinds import NodeKind
from burstcache_local.signed_requests import Refusal
from chaos.breaks import (
    RELAY,
    Break,
    boots_interrupted,
    calls,
    clocks,
    events,
    executions_stopped,
    frozen,
    function_killed,
    hubs_killed,
    images_removed,
    instances_lost,
    killed,
    nodes_silent,
    nodes_thinned,
    redis_filled,
    refused,
    tasks_interrupted,
    tasks_refused,
    unavailable,
    volumes_full,
)
from chaos.load import Outcome
from chaos.stage import Part
from support.processes import REDIS

Tier = Literal["", "lambda", "redis"]
_READS = ("GetObject", "HeadObject")


@dataclass(frozen=True, slots=True)
class Excuse:
    """The failures that a fault causes by design; reports count them.

    Attributes:
        why: The failures in words.
        statuses: Statuses of such answers; 0: no answer, or an exception of the library.
        ways: The ways in which such requests were made.
        one_each: The effect, by its count's name, that excuses one failure each time; empty: no limit.
    """

    why: str
    statuses: frozenset[int]
    ways: frozenset[str]
    one_each: str = ""

    def covers(self, outcome: Outcome) -> bool:
        """Return whether the excuse covers a failure."""
        return outcome.status in self.statuses and outcome.way in self.ways


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: Its name, also of its result's file.
        what: The fault in words.
        breaks: The break that injects it.
        begins: The tier of the hot keys at its start; empty: S3, and hot keys are read only from then on.
        parts: The parts of the system that are loaded in addition.
        stands: The cached tier that survives, so that the load may exceed S3's; empty: none.
        settles_s: Time under load between the injection and the counted start, so that the injection itself is not
            measured [s].
        excuse: The failures that are no finding; None: each failure is a finding.
        refuses_writes: Whether it fails a service that writes depend on.
        delay_s: Delay that it adds to S3's answers [s].
        proxies: Limit of proxy environments, all of which are provisioned.
        boot_s: Boot time of an instance [s].
        needs: The machine, by its stack output, that must have an execution at the start; empty: none.
        redis_on: The kind of the nodes.
        task_gb: Memory of a node's task [GB].
    """

    name: str
    what: str
    breaks: Break
    begins: Tier = "redis"
    stands: Tier = ""
    settles_s: float = 0.0
    parts: frozenset[Part] = frozenset()
    excuse: Excuse | None = None
    refuses_writes: bool = False
    delay_s: float = 0.0
    proxies: int = 32
    boot_s: float = 1.0
    needs: str = ""
    redis_on: NodeKind = "ec2"
    task_gb: int = 2

    def excuses(self, outcome: Outcome) -> bool:
        """Return whether the fault's excuse covers a failure."""
        return self.excuse is not None and self.excuse.covers(outcome)


_ORIGIN = Excuse("S3's own error", frozenset({0, 503}), frozenset({"front door", "library", "pool", "range"}))
_INSIDE = Excuse("inside a killed proxy", frozenset({500}), frozenset({"front door"}), one_each="ProxyFunction killed")
_RESULTS: frozenset[Part] = frozenset({"results"})
_POOL: frozenset[Part] = frozenset({"pool"})
_ALL = _RESULTS | _POOL


def _on_spot(name: str, what: str, breaks: Break, *, begins: Tier = "redis", task_gb: int = 2) -> Fault:
    """Return a fault of nodes on Fargate Spot."""
    return Fault(name, what, breaks, begins=begins, parts=_RESULTS, redis_on="fargate-spot", task_gb=task_gb)


FAULTS = (
    Fault("relay-killed", "the relay is killed once, and restarts", killed(RELAY), begins="lambda"),
    Fault("relay-killed-redis-serves", "the relay is killed every 5 s", killed(RELAY, every_s=5), stands="redis"),
    Fault("relay-frozen", "the relay is frozen by SIGSTOP", frozen(RELAY), begins="lambda"),
    Fault("redis-killed", "Redis is killed", killed(REDIS), parts=_RESULTS),
    Fault("redis-frozen", "Redis is frozen by SIGSTOP", frozen(REDIS), parts=_RESULTS),
    Fault("redis-thin", "Redis answers at 200 bytes a second", nodes_thinned, parts=_RESULTS),
    Fault("redis-full", "another client fills Redis's memory", redis_filled, parts=_RESULTS),
    Fault(
        "node-start-refused",
        "EC2 refuses to start instances",
        calls("ec2", "StartInstances", refusal=Refusal("InsufficientInstanceCapacity", "500 Internal Server Error")),
        begins="",
        parts=_RESULTS,
    ),
    Fault("node-silent", "no server starts on a booting instance", nodes_silent(), begins="", parts=_RESULTS),
    Fault("node-volume-full", "the volume of a booting instance is full", volumes_full(), begins="", parts=_RESULTS),
    Fault("instance-lost", "the running instance stops", instances_lost, parts=_RESULTS),
    _on_spot("task-interrupted", "AWS takes back the capacity of the running task", tasks_interrupted),
    _on_spot("task-boots-interrupted", "AWS takes back the capacity of booting tasks", boots_interrupted, begins=""),
    _on_spot("spot-unavailable", "Fargate Spot has no capacity", tasks_refused("FARGATE_SPOT"), begins=""),
    _on_spot("fargate-unavailable", "Fargate has no capacity", tasks_refused("FARGATE_SPOT", "FARGATE"), begins=""),
    _on_spot("task-image-missing", "a booting task finds no image", images_removed(), begins=""),
    _on_spot("task-redis-killed", "Redis in the running task is killed", killed(REDIS)),
    _on_spot("task-redis-frozen", "Redis in the running task is frozen by SIGSTOP", frozen(REDIS)),
    _on_spot("task-redis-thin", "Redis in the running task answers at 200 bytes a second", nodes_thinned),
    _on_spot("task-redis-full", "another client fills a task's Redis, of 768 MB", redis_filled, task_gb=1),
    Fault(
        "cache-function-killed",
        "a cache function environment is killed every 5 s",
        function_killed("CacheFunction", every_s=5),
        begins="lambda",
        stands="lambda",
    ),
    Fault(
        "cache-function-out-of-memory",
        "all cache function environments are killed twice a second, as if out of memory",
        function_killed("CacheFunction", every_s=0.5, count=None),
        begins="lambda",
    ),
    Fault(
        "proxy-killed",
        "a proxy environment is killed every 5 s",
        function_killed("ProxyFunction", every_s=5),
        stands="redis",
        excuse=_INSIDE,
    ),
    # Without DynamoDB no tier survives: a reader without a digest of the last 2 s reads from S3.
    Fault("dynamodb-failing", "DynamoDB answers 503", unavailable("dynamodb"), parts=_ALL, refuses_writes=True),
    Fault(
        "dynamodb-slow",
        "DynamoDB answers after 5 s",
        calls("dynamodb", delay_s=5),
        parts=_ALL,
        refuses_writes=True,
    ),
    Fault("eventbridge-refusing", "EventBridge answers 503", unavailable("events"), stands="redis"),
    Fault(
        "step-functions-refusing",
        "Step Functions starts no execution",
        unavailable("states", "StartExecution"),
        begins="",
        parts=_POOL,
    ),
    Fault(
        "key-executions-stopped",
        "key executions are stopped by hand, one in each state",
        executions_stopped("KeyLifecycleArn"),
        begins="",
        boot_s=5,  # keys that get hot while a node boots have executions of their own
    ),
    Fault(
        "node-execution-stopped-while-it-boots",
        "the node execution is stopped by hand, once in each state of its boot",
        executions_stopped("RedisNodeArn"),
        begins="",
        parts=_RESULTS,
    ),
    Fault(
        "node-execution-stopped-while-it-runs",
        "the node execution is stopped by hand while the node serves",
        executions_stopped("RedisNodeArn"),
        parts=_RESULTS,
    ),
    Fault(
        "s3-slow",
        "S3 answers reads after 2 s",
        calls("s3", *_READS, delay_s=2),
        stands="redis",
        parts=_POOL,
        delay_s=2,
        proxies=96,  # a written key is read from S3 for two seconds: at times half of the hot keys
    ),
    Fault(
        "s3-failing",
        "S3 answers reads with 503 SlowDown",
        unavailable("s3", *_READS, code="SlowDown"),
        stands="redis",
        parts=_POOL,
        delay_s=1.5,  # a program's client retries after a random backoff of up to a second
        excuse=_ORIGIN,
        refuses_writes=True,
    ),
    Fault(
        "s3-cut",
        "S3 cuts connections in the middle of a body",
        calls("s3", "GetObject", is_cut=True),
        stands="redis",
        parts=_POOL,
        excuse=_ORIGIN,
        refuses_writes=True,
    ),
    Fault(
        "events-doubled",
        "each event is delivered twice, up to 2 s apart",
        events(lambda chance: (0.0, chance.uniform(0, 2))),
        stands="redis",
    ),
    Fault("events-delayed", "each event is delivered after 30 s", events(lambda chance: (30.0,)), stands="redis"),
    Fault(
        "events-shuffled",
        "each event is delivered after 0 to 5 s",
        events(lambda chance: (chance.uniform(0, 5),)),
        stands="redis",
    ),
    Fault("events-lost", "no event is delivered", events(lambda chance: ()), stands="redis"),
    Fault(
        "origin-function-killed",
        "all origin function environments are killed twice a second, so batches of S3's events fail",
        function_killed("OriginFunction", every_s=0.5, count=None),
        stands="redis",
        refuses_writes=True,
    ),
    Fault(
        "origin-function-refused",
        "Lambda throttles the origin function, so S3's events wait",
        refused("OriginFunction"),
        stands="redis",
        refuses_writes=True,
    ),
    Fault("clocks-apart", "functions' clocks are 2 s apart", clocks(-1.0, 1.0), begins="", settles_s=10),
    Fault(
        "cache-functions-refused",
        "Lambda throttles cache functions",
        refused("CacheFunction"),
        begins="",
    ),
    Fault(
        "pool-members-killed",
        "a pool member environment is killed every 3 s",
        function_killed("PoolMemberFunction", every_s=3),
        stands="redis",
        parts=_POOL,
    ),
    Fault(
        "pool-members-refused",
        "Lambda throttles pool members",
        refused("PoolMemberFunction"),
        stands="redis",
        parts=_POOL,
    ),
    Fault(
        "pool-hub-killed",
        "the pool's hub task is killed every 10 s",
        hubs_killed,
        stands="redis",
        parts=frozenset({"hub"}),
    ),
    Fault(
        "pool-execution-stopped",
        "the pool's execution is stopped by hand",
        executions_stopped("PoolArn"),
        stands="redis",
        parts=_POOL,
        needs="PoolArn",  # a reader reports the pool's use once a minute
    ),
)
