"""The janitor function, which runs on a schedule and cleans up keys and nodes without an owner."""

from __future__ import annotations

import os
from typing import Any

from burstcache.access import names_of
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.machines import NodeMachines
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.control.janitor import Cleaned, Janitor
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.janitor import JanitorSettings


@at_init
def janitor() -> Janitor:
    """Build the janitor."""
    settings, clock, clients = JanitorSettings.read(os.environ), SystemClock(), Clients("control")
    # Redis control may start cold and call EC2. A call that outlasts this run continues on its own.
    redis_control = invoke_by_name(Clients("patient").functions, settings.redis_control_function_name)
    nodes = settings.redis_nodes + settings.state_nodes
    return Janitor(
        keys=KeyTable(settings.table_name, clients.dynamodb, clock),
        digest=DigestTable(settings.table_name, clients.dynamodb),
        nodes=NodeTable(settings.table_name, clients.dynamodb, clock),
        executions=Executions(clients.states),
        machines=NodeMachines.of(nodes, clients, clock, tasks=settings.tasks, state_tasks=settings.state_tasks),
        pauses=PauseSwitch(settings.table_name, clients.dynamodb, clock),
        key_lifecycle_arn=settings.key_lifecycle_arn,
        redis_node_arn=settings.redis_node_arn,
        node_names=names_of(nodes),
        always_on=names_of(settings.redis_nodes[: settings.always_on_nodes]),
        redis_control=redis_control,
        clock=clock,
    )


@logs_requests
@answers_self_test("janitor")
def handler(event: dict[str, Any], context: Any) -> Cleaned:
    """Clean up keys and nodes without an owner. Ignore the event."""
    cleaned = janitor().clean()
    if any(cleaned.values()):
        logger().warning("cleaned up keys and nodes without an owner", extra=dict(cleaned))
    return cleaned
