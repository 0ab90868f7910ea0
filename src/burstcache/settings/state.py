"""The state function's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisNode
from burstcache.settings.environment import Settings, text, whole_number
from burstcache.settings.places import state_nodes_in


@dataclass(frozen=True)
class StateSettings(Settings):
    """Environment of the state function."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    redis_node_arn: Annotated[str, text, "REDIS_NODE_ARN"]
    state_nodes: Annotated[tuple[RedisNode, ...], state_nodes_in]
    grace_s: Annotated[int, whole_number, "GRACE_S"]
