"""The scheduler's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisNode
from burstcache.core.policies import LivePolicy
from burstcache.settings.environment import Settings, given, is_true, text, whole
from burstcache.settings.places import nodes_in
from burstcache.settings.policy import policy_in


@dataclass(frozen=True)
class SchedulerSettings(Settings):
    """The settings of the scheduler."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    key_lifecycle_arn: Annotated[str, text, "KEY_LIFECYCLE_ARN"]
    redis_node_arn: Annotated[str, given, "REDIS_NODE_ARN"]  # empty: there are no nodes
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    max_hot_keys: Annotated[int, whole, "MAX_HOT_KEYS"]
    has_relay: Annotated[bool, is_true, "HAS_RELAY"]
    cache_function_name: Annotated[str, given, "CACHE_FUNCTION_NAME"]  # empty: there is none
    max_object_bytes: Annotated[int, whole, "MAX_OBJECT_BYTES"]
    policy: Annotated[LivePolicy, policy_in]
