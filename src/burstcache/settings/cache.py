"""The cache function's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RelayAccess
from burstcache.core.policies import LivePolicy
from burstcache.settings.environment import Settings, text, text_or_empty, whole_number
from burstcache.settings.places import relay_in
from burstcache.settings.policy import policy_in


@dataclass(frozen=True)
class CacheSettings(Settings):
    """Environment of the cache function."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    bucket_name: Annotated[str, text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, text_or_empty, "ORIGIN_PREFIX"]
    bus_name: Annotated[str, text, "BUS_NAME"]
    relay: Annotated[RelayAccess, relay_in]
    max_object_bytes: Annotated[int, whole_number, "MAX_OBJECT_BYTES"]
    memory_mb: Annotated[int, whole_number, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
    policy: Annotated[LivePolicy, policy_in]
    region: Annotated[str, text, "AWS_REGION"]
    node_type: Annotated[str, text, "REDIS_INSTANCE_TYPE"]
    cache_memory_mb: Annotated[int, whole_number, "CACHE_MEMORY_MB"]
