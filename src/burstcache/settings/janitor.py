"""The janitor's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.access import RedisNode, TaskPlace
from burstcache.settings.environment import Settings, text, text_or_empty, whole_number
from burstcache.settings.places import nodes_in, state_nodes_in, state_task_cluster_in, task_cluster_in


@dataclass(frozen=True)
class JanitorSettings(Settings):
    """Environment of the janitor."""

    table_name: Annotated[str, text, "TABLE_NAME"]
    key_lifecycle_arn: Annotated[str, text, "KEY_LIFECYCLE_ARN"]
    redis_node_arn: Annotated[str, text_or_empty, "REDIS_NODE_ARN"]  # empty without nodes
    redis_nodes: Annotated[tuple[RedisNode, ...], nodes_in]
    state_nodes: Annotated[tuple[RedisNode, ...], state_nodes_in]
    tasks: Annotated[TaskPlace | None, task_cluster_in]
    state_tasks: Annotated[TaskPlace | None, state_task_cluster_in]
    always_on_nodes: Annotated[int, whole_number, "REDIS_ALWAYS_ON_NODES"]
    redis_control_function_name: Annotated[str, text, "REDIS_CONTROL_FUNCTION_NAME"]
