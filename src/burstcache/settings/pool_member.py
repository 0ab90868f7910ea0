"""The settings of a member of the pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, is_yes, text, whole


@dataclass(frozen=True)
class PoolMemberSettings(Settings):
    """The settings of a member of the pool."""

    memory_mb: Annotated[int, whole, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
    demands_tls: Annotated[bool, is_yes, "POOL_TLS"]
    hit_value_usd_per_million: Annotated[str, text, "HIT_VALUE_USD_PER_MILLION"]
    region: Annotated[str, text, "AWS_REGION"]
