"""The faults: what is broken, how, and what must stand meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from burstcache_local.signed_requests import Refusal
from chaos.breaks import (
    RELAY,
    Break,
    calls,
    clocks,
    events,
    executions_stopped,
    frozen,
    function_killed,
    hubs_killed,
    instances_lost,
    killed,
    nodes_silent,
    nodes_thinned,
    redis_filled,
    refused,
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
    """Failures that a fault causes by what it is, and that a report counts and names.

    Attributes:
        why: What such failures are.
        statuses: Of such answers; 0: no answer, or an error of the library.
        ways: How such requests were made.
        one_each: What was done to the stack, as it is counted, of which each excuses one; empty: there is no limit.
    """

    why: str
    statuses: frozenset[int]
    ways: frozenset[str]
    one_each: str = ""

    def covers(self, outcome: Outcome) -> bool:
        """Whether a failure is such a one."""
        return outcome.status in self.statuses and outcome.way in self.ways


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: What it is called; names its result's file.
        what: What happens.
        breaks: Makes it happen.
        begins: The tier that hot keys are in when it begins; empty: with S3, and hot keys are read from then on.
        parts: What of the system is loaded in addition.
        stands: The cached tier that serves on, so that more load than S3 could take goes on; empty: none.
        settles_s: How long the load goes on after it is made before it counts as begun, so that what the local run does
            to make it is not measured [s].
        excuse: Which failures are no finding; None: each is one.
        refuses_writes: Whether what a write cannot do without fails.
        delay_s: How long it has answers of S3 wait [s].
        proxies: How many environments the proxy may have, all of which stand ready.
        boot_s: How long an instance takes to boot [s].
        needs: The machine, by its output, that has an execution when it begins; empty: none need have one.
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

    def excuses(self, outcome: Outcome) -> bool:
        """Whether a failure may be one that it causes by what it is."""
        return self.excuse is not None and self.excuse.covers(outcome)


_ORIGIN = Excuse("S3's own error", frozenset({0, 503}), frozenset({"front door", "library", "pool"}))
_INSIDE = Excuse("inside a killed proxy", frozenset({500}), frozenset({"front door"}), one_each="ProxyFunction killed")
_RESULTS: frozenset[Part] = frozenset({"results"})
_POOL: frozenset[Part] = frozenset({"pool"})
_ALL = _RESULTS | _POOL

FAULTS = (
    Fault("relay-killed", "the relay is killed, and restarts", killed(RELAY), begins="lambda"),
    Fault("relay-killed-redis-serves", "the relay is killed every 5 s", killed(RELAY, every_s=5), stands="redis"),
    Fault("relay-frozen", "the relay stands still", frozen(RELAY), begins="lambda"),
    Fault("redis-killed", "Redis is killed", killed(REDIS), parts=_RESULTS),
    Fault("redis-frozen", "Redis stands still", frozen(REDIS), parts=_RESULTS),
    Fault("redis-thin", "Redis answers 200 bytes a second", nodes_thinned, parts=_RESULTS),
    Fault("redis-full", "the memory of Redis is filled by another", redis_filled, parts=_RESULTS),
    Fault(
        "node-start-refused",
        "EC2 refuses to start instances",
        calls("ec2", "StartInstances", refusal=Refusal("InsufficientInstanceCapacity", "500 Internal Server Error")),
        begins="",
        parts=_RESULTS,
    ),
    Fault("node-silent", "no server starts on an instance that boots", nodes_silent(), begins="", parts=_RESULTS),
    Fault(
        "node-volume-full", "the volume of an instance that boots is full", volumes_full(), begins="", parts=_RESULTS
    ),
    Fault("instance-lost", "the instance stops while it runs", instances_lost, parts=_RESULTS),
    Fault(
        "cache-function-killed",
        "an environment of the cache function is killed every 5 s",
        function_killed("CacheFunction", every_s=5),
        begins="lambda",
        stands="lambda",
    ),
    Fault(
        "cache-function-out-of-memory",
        "all environments of the cache function are killed twice a second, as Lambda kills one that is out of memory",
        function_killed("CacheFunction", every_s=0.5, count=None),
        begins="lambda",
    ),
    Fault(
        "proxy-killed",
        "an environment of the proxy is killed every 5 s",
        function_killed("ProxyFunction", every_s=5),
        stands="redis",
        excuse=_INSIDE,
    ),
    # Without DynamoDB no tier stands: who knows no digest of the last 2 s reads from S3.
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
        "lives of keys are stopped by hand, one in each state",
        executions_stopped("KeyLifecycleArn"),
        begins="",
        boot_s=5,  # keys that are hot while a node boots live on their own
    ),
    Fault(
        "node-execution-stopped-while-it-boots",
        "the run of a node is stopped by hand, in each state of its boot",
        executions_stopped("RedisNodeArn"),
        begins="",
        parts=_RESULTS,
    ),
    Fault(
        "node-execution-stopped-while-it-runs",
        "the run of a node is stopped by hand while it serves",
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
        proxies=96,  # a key that is written is read from S3 for two seconds: at times half of the hot ones
    ),
    Fault(
        "s3-failing",
        "S3 answers reads with 503 SlowDown",
        unavailable("s3", *_READS, code="SlowDown"),
        stands="redis",
        parts=_POOL,
        excuse=_ORIGIN,
        refuses_writes=True,
    ),
    Fault(
        "s3-cut",
        "S3 ends connections in the middle of a body",
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
    Fault("clocks-apart", "the clocks of functions are 2 s apart", clocks(-1.0, 1.0), begins="", settles_s=10),
    Fault(
        "cache-functions-refused",
        "Lambda refuses cache functions for lack of concurrency",
        refused("CacheFunction"),
        begins="",
    ),
    Fault(
        "pool-members-killed",
        "an environment of a member of the pool is killed every 3 s",
        function_killed("PoolMemberFunction", every_s=3),
        stands="redis",
        parts=_POOL,
    ),
    Fault(
        "pool-members-refused",
        "Lambda refuses members of the pool",
        refused("PoolMemberFunction"),
        stands="redis",
        parts=_POOL,
    ),
    Fault(
        "pool-hub-killed",
        "the task that is the hub of the pool is killed every 10 s",
        hubs_killed,
        stands="redis",
        parts=frozenset({"hub"}),
    ),
    Fault(
        "pool-execution-stopped",
        "what keeps the pool is stopped by hand",
        executions_stopped("PoolArn"),
        stands="redis",
        parts=_POOL,
        needs="PoolArn",  # a reader reports the pool's use once a minute
    ),
)
