"""What a stack decides by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisNode
from burstcache.core.policies import LivePolicy
from burstcache.settings.environment import Settings, is_true, text, whole
from burstcache.settings.places import nodes_in
from burstcache.settings.policy import policy_in


@dataclass(frozen=True)
class PolicySettings(Settings):
    """What a stack decides by, for those who ask why; `worth_in` reads the rest of it."""

    policy_name: Annotated[str, text, "POLICY"]
    policy: Annotated[LivePolicy, policy_in]
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    always_on_nodes: Annotated[int, whole, "REDIS_ALWAYS_ON_NODES"]
    max_hot_keys: Annotated[int, whole, "MAX_HOT_KEYS"]
    has_relay: Annotated[bool, is_true, "HAS_RELAY"]
    max_object_bytes: Annotated[int, whole, "MAX_OBJECT_BYTES"]
    memory_mb: Annotated[int, whole, "MEMORY_MB"]  # of the proxy's own tier
    pool_members: Annotated[int, whole, "POOL_MEMBERS"]
