"""The origin function's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisNode
from burstcache.settings.environment import Settings, text, text_or_empty
from burstcache.settings.places import nodes_in


@dataclass(frozen=True)
class OriginSettings(Settings):
    """Environment of the origin function."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    express_bucket: Annotated[str, text_or_empty, "EXPRESS_BUCKET"]
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    redis_control_function_name: Annotated[str, text_or_empty, "REDIS_CONTROL_FUNCTION_NAME"]
