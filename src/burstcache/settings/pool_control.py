"""Pool control's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, given, text, whole


@dataclass(frozen=True)
class PoolControlSettings(Settings):
    """The settings of pool control."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    pool_arn: Annotated[str, text, "POOL_ARN"]
    members: Annotated[int, whole, "POOL_MEMBERS"]
    memory_mb: Annotated[int, whole, "POOL_MEMORY_MB"]
    keep_s: Annotated[int, whole, "POOL_KEEP_S"]
    hub_service: Annotated[str, given, "POOL_HUB_SERVICE"]  # cluster/service; empty: there is none
    member_function_name: Annotated[str, text, "POOL_MEMBER_FUNCTION_NAME"]
    region: Annotated[str, text, "AWS_REGION"]
