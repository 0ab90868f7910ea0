"""The faults: what is broken, how, and what must stand meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from burstcache_local.iam.requests import Refusal
from chaos.breaks import (
    REDIS,
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
    redis_filled,
    refused,
    unavailable,
    volumes_full,
)
from chaos.load import Outcome
from chaos.stage import Part

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
        breaks: What is broken, how.
        begins: The tier that hot keys are in when it begins; empty: with S3, and the load sets in with the fault.
        parts: What of the system is loaded in addition.
        stands: The cached tier that serves on, so that more load than S3 could take goes on; empty: none.
        excuse: Which failures are no finding; None: each is one.
        delay_s: How long it has answers of S3 wait [s].
    """

    name: str
    breaks: Break
    begins: Tier = "redis"
    stands: Tier = ""
    parts: frozenset[Part] = frozenset()
    excuse: Excuse | None = None
    delay_s: float = 0.0

    def excuses(self, outcome: Outcome) -> bool:
        """Whether a failure may be one that it causes by what it is."""
        return self.excuse is not None and self.excuse.covers(outcome)


_ORIGIN = Excuse("S3's own error", frozenset({0, 503}), frozenset({"front door", "library"}))
_INSIDE = Excuse("inside a killed proxy", frozenset({500}), frozenset({"front door"}), one_each="ProxyFunction killed")
_RESULTS: frozenset[Part] = frozenset({"results"})

FAULTS = (
    Fault("relay-killed", killed(RELAY), begins="lambda"),
    Fault("relay-killed-redis-serves", killed(RELAY, every_s=5), stands="redis"),
    Fault("relay-frozen", frozen(RELAY), begins="lambda"),
    Fault("redis-killed", killed(REDIS), parts=_RESULTS),
    Fault("redis-frozen", frozen(REDIS), parts=_RESULTS),
    Fault("redis-full", redis_filled, parts=_RESULTS),
    Fault(
        "node-start-refused",
        calls("ec2", "StartInstances", refusal=Refusal("InsufficientInstanceCapacity", "500 Internal Server Error")),
        begins="",
    ),
    Fault("node-silent", nodes_silent, begins=""),
    Fault("node-volume-full", volumes_full, begins=""),
    Fault("instance-lost", instances_lost),
    Fault("cache-function-killed", function_killed("CacheFunction", every_s=5), begins="lambda", stands="lambda"),
    Fault("cache-function-out-of-memory", function_killed("CacheFunction", every_s=0.5, count=None), begins="lambda"),
    Fault("proxy-killed", function_killed("ProxyFunction", every_s=5), stands="redis", excuse=_INSIDE),
    Fault("dynamodb-failing", unavailable("dynamodb"), stands="redis"),
    Fault("dynamodb-slow", calls("dynamodb", delay_s=5), stands="redis"),
    Fault("eventbridge-refusing", unavailable("events")),
    Fault("step-functions-refusing", unavailable("states", "StartExecution"), begins=""),
    Fault("key-executions-stopped", executions_stopped("KeyLifecycleArn"), begins=""),
    Fault("node-execution-stopped-while-it-boots", executions_stopped("RedisNodeArn"), begins=""),
    Fault("node-execution-stopped-while-it-runs", executions_stopped("RedisNodeArn")),
    Fault("s3-slow", calls("s3", *_READS, delay_s=2), stands="redis", delay_s=2),
    Fault("s3-failing", unavailable("s3", *_READS, code="SlowDown"), stands="redis", excuse=_ORIGIN),
    Fault("s3-cut", calls("s3", "GetObject", is_cut=True), stands="redis", excuse=_ORIGIN),
    Fault("events-doubled", events(lambda chance: (0.0, chance.uniform(0, 2)))),
    Fault("events-delayed", events(lambda chance: (30.0,))),
    Fault("events-shuffled", events(lambda chance: (chance.uniform(0, 5),))),
    Fault("events-lost", events(lambda chance: ())),
    Fault("clocks-apart", clocks(-1.0, 1.0), begins=""),
    Fault("cache-functions-refused", refused("CacheFunction"), begins=""),
    Fault("pool-members-killed", function_killed("PoolMemberFunction", every_s=3), parts=frozenset({"pool"})),
    Fault("pool-members-refused", refused("PoolMemberFunction"), parts=frozenset({"pool"})),
    Fault("pool-hub-killed", hubs_killed, parts=frozenset({"hub"})),
)
