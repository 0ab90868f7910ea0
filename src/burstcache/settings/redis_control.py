"""The settings of Redis control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisAccess, RedisNode, RelayAccess, TaskPlace
from burstcache.core.policies import LivePolicy
from burstcache.settings.environment import Settings, text, text_or_empty, whole_number
from burstcache.settings.places import nodes_in, redis_in, relay_in, state_nodes_in, state_tasks_in, tasks_in
from burstcache.settings.policy import policy_in


@dataclass(frozen=True)
class RedisControlSettings(Settings):
    """Environment of Redis control."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    bucket_name: Annotated[str, text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, text_or_empty, "ORIGIN_PREFIX"]
    redis_node_arn: Annotated[str, text, "REDIS_NODE_ARN"]
    relay: Annotated[RelayAccess, relay_in]
    redis: Annotated[RedisAccess, redis_in]
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    state_nodes: Annotated[tuple[RedisNode, ...], state_nodes_in]
    tasks: Annotated[TaskPlace | None, tasks_in]
    state_tasks: Annotated[TaskPlace | None, state_tasks_in]
    state_persistence: Annotated[str, text, "STATE_PERSISTENCE"]
    always_on_nodes: Annotated[int, whole_number, "REDIS_ALWAYS_ON_NODES"]
    node_hours_per_day: Annotated[int, whole_number, "MAX_NODE_HOURS_PER_DAY"]
    max_object_bytes: Annotated[int, whole_number, "MAX_OBJECT_BYTES"]
    policy: Annotated[LivePolicy, policy_in]
    region: Annotated[str, text, "AWS_REGION"]
    node_type: Annotated[str, text, "REDIS_INSTANCE_TYPE"]
    state_node: Annotated[str, text, "STATE_NODE"]
    cache_memory_mb: Annotated[int, whole_number, "CACHE_MEMORY_MB"]
