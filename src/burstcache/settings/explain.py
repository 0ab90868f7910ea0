"""Settings of the `explain` query: a stack's policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisNode
from burstcache.core.policies import LivePolicy
from burstcache.settings.environment import Settings, is_true, text, whole_number
from burstcache.settings.places import nodes_in
from burstcache.settings.policy import policy_in


@dataclass(frozen=True)
class PolicySettings(Settings):
    """Environment of a program that explains a stack's decisions. `worth_in` reads prices for the policy."""

    policy_name: Annotated[str, text, "POLICY"]
    policy: Annotated[LivePolicy, policy_in]
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    node_type: Annotated[str, text, "REDIS_INSTANCE_TYPE"]
    region: Annotated[str, text, "AWS_REGION"]
    always_on_nodes: Annotated[int, whole_number, "REDIS_ALWAYS_ON_NODES"]
    max_hot_keys: Annotated[int, whole_number, "MAX_HOT_KEYS"]
    has_relay: Annotated[bool, is_true, "HAS_RELAY"]
    max_object_bytes: Annotated[int, whole_number, "MAX_OBJECT_BYTES"]
    memory_mb: Annotated[int, whole_number, "MEMORY_MB"]  # of the proxy's local cache
    pool_members: Annotated[int, whole_number, "POOL_MEMBERS"]
