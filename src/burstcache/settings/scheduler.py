"""The scheduler's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisNode
from burstcache.core.policies import LivePolicy
from burstcache.settings.environment import Settings, is_true, text, text_or_empty, whole_number
from burstcache.settings.places import nodes_in
from burstcache.settings.policy import policy_in


@dataclass(frozen=True)
class SchedulerSettings(Settings):
    """Environment of the scheduler."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    key_lifecycle_arn: Annotated[str, text, "KEY_LIFECYCLE_ARN"]
    redis_node_arn: Annotated[str, text_or_empty, "REDIS_NODE_ARN"]  # empty without nodes
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    max_hot_keys: Annotated[int, whole_number, "MAX_HOT_KEYS"]
    has_relay: Annotated[bool, is_true, "HAS_RELAY"]
    cache_function_name: Annotated[str, text_or_empty, "CACHE_FUNCTION_NAME"]  # empty without a cache function
    max_object_bytes: Annotated[int, whole_number, "MAX_OBJECT_BYTES"]
    policy: Annotated[LivePolicy, policy_in]
