"""State function: holders of databases acquire, keep and release them."""

from __future__ import annotations

import os
from typing import Any, cast

from burstcache.access import names_of
from burstcache.adapters.calls import passing_failures_named
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import Executions
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pauses import Pauses
from burstcache.control.node_runs import NodeRuns
from burstcache.control.state_leases import StateLeases
from burstcache.core.messages.state import DatabaseHeld, StateOperation
from burstcache.handlers._init import at_init, logs_requests
from burstcache.handlers._self_test import answers_self_test
from burstcache.logs import logger
from burstcache.settings.state import StateSettings


@at_init
def leases() -> StateLeases:
    """Make what keeps the leases."""
    settings, clock, clients = StateSettings.read(os.environ), SystemClock(), Clients("control")
    nodes, executions = NodeTable(settings.table_name, clients.dynamodb, clock), Executions(clients.states)
    return StateLeases(
        node_names=names_of(settings.state_nodes),
        nodes=nodes,
        runs=NodeRuns(nodes, executions, settings.redis_node_arn, clock),
        executions=executions,
        pauses=Pauses(settings.table_name, clients.dynamodb, clock),
        grace_s=settings.grace_s,
        clock=clock,
    )


@logs_requests
@answers_self_test("state")
def handler(event: dict[str, Any], context: Any) -> DatabaseHeld:
    """Do what a holder asks."""
    with passing_failures_named():
        answer = leases().run(cast(StateOperation, event))
    loggable = {name: value for name, value in event.items() if name != "token"}  # a token lets its reader end the task
    logger().info("state", extra={"event": loggable, "answer": answer})
    return answer
