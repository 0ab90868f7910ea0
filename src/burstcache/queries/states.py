"""The states that correspond to rows' phases, as named in the Step Functions console."""

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
GUEST = "Guest"  # a read-through entry of a running node; without a life, no execution has this state
# The states that a watch may wait for. A row at rest has no execution, so its state is added here.
KEY_STATES = (STATE_OF_KEY_PHASE["s3"], GUEST, *KEY_PHASE_OF_STATE)
NODE_STATES = (STATE_OF_NODE_PHASE["stopped"], *NODE_PHASE_OF_STATE)
