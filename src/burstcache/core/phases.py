"""The phases of a key and of a Redis node, and their transitions.

Rules:

1. A life begins when the scheduler writes a first phase over `s3`, or over any phase whose deadline has passed.
2. From then on, each write of a phase is conditional on the row's current phase being an allowed predecessor in the
   tables below. A repeated step writes its phase again.
3. Every phase other than `s3` and `stopped` has a deadline. After a node's deadline, a new boot may begin.

`KeyTable.update` and `NodeTable.change` derive the conditions of their writes from these tables.
`tests/template/test_messages.py` checks the states of `statemachines/` against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

KeyPhase = Literal["s3", "lambda", "restricted_lambda", "redis_bootup", "redis_running", "redis_shutdown"]
NodePhase = Literal["stopped", "booting", "running", "stopping"]
Entry = Literal["lambda", "restricted", "redis"]
Tier = Literal["", "lambda", "redis"]  # the tier that serves reads; empty means S3

# A life's entry by its node's phase: a running node takes the key immediately, a stopping node only after its stop.
ENTRY_BY_NODE_PHASE: Mapping[NodePhase, Entry] = {
    "stopped": "lambda",
    "booting": "lambda",
    "running": "redis",
    "stopping": "restricted",
}
FIRST_PHASE: Mapping[Entry, KeyPhase] = {
    "lambda": "lambda",
    "restricted": "restricted_lambda",
    "redis": "redis_bootup",
}

# The phases that may precede each phase in a life.
KEY_PHASES_BEFORE: Mapping[KeyPhase, frozenset[KeyPhase]] = {
    "lambda": frozenset(),
    "restricted_lambda": frozenset(),
    "redis_bootup": frozenset({"lambda", "restricted_lambda", "redis_bootup"}),
    "redis_running": frozenset({"redis_bootup", "redis_running"}),
    "redis_shutdown": frozenset(
        {"lambda", "restricted_lambda", "redis_bootup", "redis_running", "redis_shutdown"}  # the janitor ends any life
    ),
    "s3": frozenset({"lambda", "restricted_lambda", "redis_bootup", "redis_running", "redis_shutdown"}),
}
NODE_PHASES_BEFORE: Mapping[NodePhase, frozenset[NodePhase]] = {
    "booting": frozenset({"stopped", "booting", "running", "stopping"}),
    "running": frozenset({"booting"}),
    "stopping": frozenset({"stopped", "booting", "running", "stopping"}),  # a late check may stop a stopped node
    "stopped": frozenset({"stopping", "booting"}),  # `booting` if its execution cannot start
}

# The progress of a life or a run. A digest entry is never replaced by an earlier phase.
KEY_PHASE_RANK: Mapping[KeyPhase, int] = {
    "lambda": 1,
    "restricted_lambda": 1,
    "redis_bootup": 2,
    "redis_running": 3,
    "redis_shutdown": 4,
    "s3": 5,
}
NODE_PHASE_RANK: Mapping[NodePhase, int] = {"booting": 1, "running": 2, "stopping": 3, "stopped": 4}

# The phase of a key's row while its execution is in a state. Choice and end states have no phase.
KEY_PHASE_OF_STATE: Mapping[str, KeyPhase] = {
    "Lambda": "lambda",
    "RestrictedLambda": "restricted_lambda",
    "ReturnToS3": "s3",
    "RedisBootup": "redis_bootup",
    "SeedRedis": "redis_running",
    "RedisRunning": "redis_running",
    "RedisShutdown": "redis_shutdown",
    "ReturnToS3Failed": "s3",
    "RedisShutdownFailed": "redis_shutdown",
}
NODE_PHASE_OF_STATE: Mapping[str, NodePhase] = {
    "BootNode": "booting",
    "NodeReady": "running",
    "RedisNodeRunning": "running",
    "CheckNodeUse": "running",
    "SaveNode": "stopping",
    "StopNode": "stopping",
    "AbandonNode": "stopping",
}
