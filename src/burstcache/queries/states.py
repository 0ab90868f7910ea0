"""The names that the Step Functions console shows, for the phases of the rows."""

from __future__ import annotations

from burstcache.core.phases import KEY_PHASE_OF_STATE, NODE_PHASE_OF_STATE, KeyPhase, NodePhase

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
    "booting": "BootNode",
    "running": "RedisNodeRunning",
    "stopping": "StopNode",
}
GUEST = "Guest"  # served by a node that runs, without a life of its own: no execution has this state
# What a watch may wait for: a row at rest is in no execution, so its state has a name of its own.
KEY_STATES = (STATE_OF_KEY_PHASE["s3"], GUEST, *KEY_PHASE_OF_STATE)
NODE_STATES = (STATE_OF_NODE_PHASE["stopped"], *NODE_PHASE_OF_STATE)
