"""Settings of a database holder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisAccess, RedisNode
from burstcache.settings.environment import Settings, text
from burstcache.settings.places import state_in, state_nodes_in


@dataclass(frozen=True)
class HolderSettings(Settings):
    """Environment of a program that holds state databases."""

    function_name: Annotated[str, text, "STATE_FUNCTION_NAME"]
    state_nodes: Annotated[tuple[RedisNode, ...], state_nodes_in]
    redis: Annotated[RedisAccess, state_in]
