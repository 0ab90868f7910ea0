"""Settings of a pool member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, is_yes, text, whole_number


@dataclass(frozen=True)
class PoolMemberSettings(Settings):
    """Environment of a pool member."""

    memory_mb: Annotated[int, whole_number, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
    demands_tls: Annotated[bool, is_yes, "POOL_TLS"]
    hit_value_usd_per_million: Annotated[str, text, "HIT_VALUE_USD_PER_MILLION"]
    region: Annotated[str, text, "AWS_REGION"]
