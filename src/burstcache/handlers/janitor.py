"""Janitor function: on a schedule, it switches off what has lost its owner."""

from __future__ import annotations

from functools import cache
from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.janitor import Cleaned, Janitor
from burstcache.logs import logger
from burstcache.settings import settings


@cache
def _janitor() -> Janitor:
    environment, clock, clients = settings(), SystemClock(), Clients("control")
    # Stopping an instance takes a minute or more; one that takes longer than this run goes on without us.
    redis_control = invoke_by_name(Clients("patient").functions, environment.redis_control_function_name)
    return Janitor(
        keys=KeyTable(environment.table_name, clients.dynamodb, clock),
        nodes=NodeTable(environment.table_name, clients.dynamodb),
        executions=Executions(clients.states),
        instances=Instances(environment.instance_ids, clients.ec2, clock),
        key_lifecycle_arn=environment.key_lifecycle_arn,
        redis_node_arn=environment.redis_node_arn,
        node_names=environment.node_names,
        redis_control=redis_control,
        clock=clock,
    )


def handler(event: dict[str, Any], context: Any) -> Cleaned:
    """Clean up. The event is ignored."""
    cleaned = _janitor().clean()
    if any(cleaned.values()):
        logger().warning("cleaned up what had lost its owner", extra=dict(cleaned))
    return cleaned
