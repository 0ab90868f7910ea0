"""Janitor function: on a schedule, it switches off what has lost its owner."""

from __future__ import annotations

import os
from typing import Any

from burstcache.access import instance_ids, names_of
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.functions import invoke_by_name
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pauses import Pauses
from burstcache.control.janitor import Cleaned, Janitor
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.janitor import JanitorSettings


@at_init
def janitor() -> Janitor:
    """Make what cleans up."""
    settings, clock, clients = JanitorSettings.read(os.environ), SystemClock(), Clients("control")
    # A call of Redis control may start cold and ask EC2; one that outlasts this run goes on without us.
    redis_control = invoke_by_name(Clients("patient").functions, settings.redis_control_function_name)
    nodes = settings.redis_nodes + settings.state_nodes
    return Janitor(
        keys=KeyTable(settings.table_name, clients.dynamodb, clock),
        digest=DigestTable(settings.table_name, clients.dynamodb),
        nodes=NodeTable(settings.table_name, clients.dynamodb, clock),
        executions=Executions(clients.states),
        instances=Instances(instance_ids(nodes), clients.ec2),
        pauses=Pauses(settings.table_name, clients.dynamodb, clock),
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
    """Clean up. The event is ignored."""
    cleaned = janitor().clean()
    if any(cleaned.values()):
        logger().warning("cleaned up what had lost its owner", extra=dict(cleaned))
    return cleaned
