"""The settings of pool control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, text, text_or_empty, whole_number


@dataclass(frozen=True)
class PoolControlSettings(Settings):
    """Environment of pool control."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    pool_arn: Annotated[str, text, "POOL_ARN"]
    members: Annotated[int, whole_number, "POOL_MEMBERS"]
    memory_mb: Annotated[int, whole_number, "POOL_MEMORY_MB"]
    keep_s: Annotated[int, whole_number, "POOL_KEEP_S"]
    hub_service: Annotated[str, text_or_empty, "POOL_HUB_SERVICE"]  # `cluster/service`, or empty
    member_function_name: Annotated[str, text, "POOL_MEMBER_FUNCTION_NAME"]
    region: Annotated[str, text, "AWS_REGION"]
