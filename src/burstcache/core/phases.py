"""The phases of a key and of a Redis node, and which may follow which.

Rules:

1. A life begins when the scheduler writes a first phase over `s3`, or over any phase whose deadline has passed.
2. From then on phases only go down the table below, each write on the condition that the row's phase is one of
   those before it; a step that is repeated writes its phase again.
3. Every phase other than `s3` and `stopped` has a deadline. Past it, a node's boot begins anew.

`KeyTable.update` and `NodeTable.change` put these tables into the conditions of their writes; the states of
`statemachines/` are held to them by `tests/template/test_messages.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

KeyPhase = Literal["s3", "lambda", "restricted_lambda", "redis_bootup", "redis_running", "redis_shutdown"]
NodePhase = Literal["stopped", "booting", "running", "stopping"]
Entry = Literal["lambda", "restricted", "redis"]
Tier = Literal["", "lambda", "redis"]  # where the proxy asks; empty: S3

# A key's way in by its node's phase: a running node takes it at once, a stopping one not before it has stopped.
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

# phase: the phases from which a life may come to it
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
    "stopping": frozenset({"stopped", "booting", "running", "stopping"}),  # a late check may stop what has stopped
    "stopped": frozenset({"stopping", "booting"}),  # the latter if its execution may not start
}

# How far a life or a run has come: what its digest says is replaced by a later phase only.
KEY_PHASE_RANK: Mapping[KeyPhase, int] = {
    "lambda": 1,
    "restricted_lambda": 1,
    "redis_bootup": 2,
    "redis_running": 3,
    "redis_shutdown": 4,
    "s3": 5,
}
NODE_PHASE_RANK: Mapping[NodePhase, int] = {"booting": 1, "running": 2, "stopping": 3, "stopped": 4}

# The phase that a key's row has while its execution is in a state. Choices and ends have none.
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
