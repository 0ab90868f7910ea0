"""The names that the Step Functions console shows, for the phases of the rows."""

from __future__ import annotations

from burstcache.core.phases import KeyPhase, NodePhase

STATE_OF_KEY_PHASE: dict[KeyPhase, str] = {
    "s3": "S3",
    "lambda": "Lambda",
    "restricted_lambda": "RestrictedLambda",
    "redis_bootup": "RedisBootup",
    "redis_running": "RedisRunning",
    "redis_shutdown": "RedisShutdown",
}
STATE_OF_NODE_PHASE: dict[NodePhase, str] = {
    "stopped": "Stopped",
    "booting": "AwaitNode",
    "running": "RedisNodeRunning",
    "stopping": "StopNode",
}
KEY_STATES = tuple(STATE_OF_KEY_PHASE.values())
NODE_STATES = ("Stopped", "StartNode", "AwaitNode", "RedisNodeRunning", "CheckNodeUse", "StopNode")
